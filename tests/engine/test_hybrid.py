"""Searches and what they seed: by vector, by text, by both."""

import numpy as np
import pytest

from tercet import Collection, Engine, Graph
from tercet.conditions import LabelFilter, PropertyFilter
from tercet.errors import InvalidArgument
from tercet.retrieve.fts import FtsIndex
from tests.engine import small
from tests.engine.test_expansion import answers, engine_of, random_graph

TEXTS = ["ENOSPC retry policy", "state-of-the-art retry", "今天检索论文", "Café Müller", "nothing of interest"]


def library(**options) -> Engine:
    graph = Graph.from_tables(
        {"id": list("abcde"), "name": TEXTS, "labels": [["Doc"], ["Doc"], ["Paper"], ["Paper", "Doc"], []],
         "year": [2001, 2002, 2003, 2004, None]},
        {"source": list("abcd"), "target": list("bcde"), "relation": ["next"] * 4},
    )  # fmt: skip
    names = small.names({"a": 0.5, "b": 0.1, "c": 0.9, "d": 0.2, "e": 0.3})
    return small.engine(graph, names, encoder=lambda texts: [small.QUERY for _ in texts], **options)


def test_plain_questions_are_lexical_queries() -> None:
    got = library().text_search(
        ["what's the ENOSPC policy, roughly?", "state-of-the-art", "AND OR NOT *", '"unbalanced', "检索"]
    )
    assert [hits.ids()[:1] for hits in got] == [["a"], ["b"], [], [], ["c"]]
    assert got.status == ["ok", "ok", "no_hits", "no_hits", "ok"]
    hybrid = library().hybrid_search(["AND OR NOT *", "检索"], k=2)
    assert hybrid[0].missing == {"text": "no node holds a word of the query"}
    assert hybrid[1].missing == {}
    assert hybrid[1][0]["node"].id == "c"
    assert hybrid[1][0]["ranks"] == {"vector": 5, "text": 1}


def test_fusion_by_the_book() -> None:
    engine = library()
    got = engine.hybrid_search("retry policy", k=5)[0]
    # vectors: b d e a c; words: a (two words), b
    want = {"b": 1 / 61 + 1 / 62, "a": 1 / 64 + 1 / 61, "d": 1 / 62, "e": 1 / 63, "c": 1 / 65}
    assert got.ids() == ["b", "a", "d", "e", "c"]
    assert [h["score"] for h in got] == pytest.approx([want[i] for i in got.ids()], abs=1e-12)
    weighted = engine.hybrid_search("retry policy", k=5, text_weight=10.0, rrf_k=0)[0]
    assert weighted[0]["score"] == pytest.approx(10.0 + 0.25)
    assert weighted.ids()[0] == "a"
    words = engine.hybrid_search("retry policy", k=5, vector_weight=0)[0]
    assert (words.ids(), words.missing) == (["a", "b"], {"vector": "its weight is 0"})
    deep = engine.hybrid_search("retry policy", k=1, vector_k=1, text_k=1)[0]
    assert deep.ids() == ["a"]  # a by words, b by vector, one rank each: the smaller row
    assert deep.available == 2


def test_a_missing_half_is_reported_with_the_reason() -> None:
    graph = small.graph([("a", "r", "b")])
    lonely = small.engine(graph, small.names({"a": 0.1}))
    got = lonely.hybrid_search(["a", "b"])
    assert [h.missing.get("vector") for h in got] == ["the engine has no encoder, and no vectors were given"] * 2
    off = library(lexical=False).hybrid_search("retry")[0]
    assert off.missing == {"text": "the engine has no text index"}
    assert off.status == "ok"
    sub = library(lexical=False).hybrid_subgraph(["retry"], k=1)[0]
    assert sub.missing == {"text": "the engine has no text index"}
    assert library(lexical=False).text_search("retry").status == ["no_hits"]


def test_filters_hold_before_the_cut_in_both_halves_and_differ_by_query() -> None:
    rng = np.random.default_rng(0)
    size = 20_000
    tag = np.full(size, "none", object)
    tag[rng.permutation(size)[:323]] = ["t2"] + ["t1"] * 322
    vectors = rng.normal(size=(size, 16)).astype(np.float32)
    graph = Graph.from_tables({"id": np.arange(size), "tag": tag.tolist(), "text": ["common word"] * size},
                              {"source": [0], "target": [1], "relation": ["r"]})  # fmt: skip
    engine = Engine(graph, [Collection.build("names", vectors, owner=np.arange(size))], device="cpu")
    filters = [{"tag": "t1"}, {"tag": "t2"}, {"tag": "t3"}, None]
    query = rng.normal(size=(4, 16)).astype(np.float32)
    got = engine.semantic_search(vectors=query, k=100, filter_props=filters)
    assert [len(h) for h in got] == [100, 1, 0, 100]
    assert got.status == ["ok", "ok", "filtered_out", "ok"]
    assert [h.available for h in got] == [322, 1, 0, size]
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for i, wanted in ((0, np.flatnonzero(tag == "t1")), (1, np.flatnonzero(tag == "t2")), (3, np.arange(size))):
        best = wanted[np.argsort(-(unit[wanted] @ query[i]), kind="stable")][:100]
        assert set(got[i].ids()) == set(map(str, best))
    hybrid = engine.hybrid_search(["common"] * 4, k=100, vectors=query, filter_props=filters)
    assert [len(h) for h in hybrid] == [100, 1, 0, 100]
    assert {tag[int(i)] for i in hybrid[0].ids()} == {"t1"}
    assert hybrid.status == ["ok", "ok", "filtered_out", "ok"]
    text = engine.text_search(["common"] * 4, k=100, filter_props=filters)
    assert [(len(h), h.available) for h in text] == [(100, 322), (1, 1), (0, 0), (100, size)]


def test_filters_by_label_and_property_and_mask_narrow_together() -> None:
    engine = library()
    find = lambda **o: engine.semantic_search(vectors=small.QUERY, **o)[0].ids()  # noqa: E731
    assert find() == ["b", "d", "e", "a", "c"]
    assert find(filter_labels=["Paper", "Doc"]) == ["d"]
    assert find(filter_labels=LabelFilter.any(["Paper"])) == ["d", "c"]
    assert find(filter_props={"year": PropertyFilter.gte(2002)}) == ["b", "d", "c"]
    assert find(filter_props={"year": PropertyFilter.gte(2002)}, filter_labels=["Doc"], filter=["b", "a"]) == ["b"]
    sub = engine.semantic_subgraph(vectors=small.QUERY, filter_props={"year": 2004}, expand=1)
    assert (sub.seed_ids(), sub.node_ids()) == (["d"], ["d", "e", "c"])


def test_the_search_functions_answer_alike_alone_and_in_a_batch() -> None:
    engine = engine_of(random_graph(60, 200, 2))
    engine.lexical = ["id"]
    queries = np.random.default_rng(1).normal(size=(6, 8)).astype(np.float32)
    texts = ["0003 0004", "0050", "", "zzz", "0007 0003", "0059 0001"]
    whole = answers(engine.hybrid_subgraph(texts, k=3, vectors=queries, expand=1))
    scores = [h.scores.tolist() for h in engine.hybrid_search(texts, k=3, vectors=queries)]
    for i in range(6):
        assert answers(engine.hybrid_subgraph([texts[i]], k=3, vectors=queries[i : i + 1], expand=1)) == [whole[i]]
        assert [h.scores.tolist() for h in engine.hybrid_search([texts[i]], k=3, vectors=queries[i : i + 1])] == [
            scores[i]
        ]
    assert whole[2][0] == "failed"


def test_sqlite_serves_as_the_text_side_too() -> None:
    engine = library()
    engine.lexical = FtsIndex.of_graph(engine.graph, ("name",))
    got = engine.text_search(["retry NOT policy", "what's the ENOSPC policy", "mul*", ""])
    assert [h.ids() for h in got] == [["b"], [], ["d"], []]
    assert got.status == ["ok", "no_hits", "ok", "failed"]
    assert got[0][0]["score"] > 0
    assert engine.text_search("retry", filter_labels=["Doc"], filter_props={"year": 2002})[0].ids() == ["b"]
    assert engine.text_search("retry", filter_props={"year": 1}).status == ["filtered_out"]
    assert engine.text_subgraph("mul*", expand=1).node_ids() == ["d", "c", "e"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k: expected an integer of at least"), ({"k": None}, "k: expected"), ({"k": [1, 2]}, "k: expected"),
        ({"vector_weight": -1.0}, "vector_weight: expected at least 0"), ({"text_weight": "1"}, "text_weight"),
        ({"vector_weight": 0, "text_weight": 0}, "vector_weight, text_weight: expected one above 0"),
        ({"rrf_k": -1}, "rrf_k: expected at least 0"), ({"vector_k": 0}, "vector_k"), ({"text_k": -2}, "text_k"),
        ({"collections": ["no"]}, "collections: no node collection 'no'"), ({"collections": "x"}, "collections"),
        ({"filter_props": {"bad key!": 1}}, "property key: expected"), ({"filter_labels": "Doc"}, "filter_labels"),
        ({"queries": None}, "queries"), ({"queries": 5}, "queries"), ({"filter_props": [None, None]}, "filter_props"),
    ],
)  # fmt: skip
def test_wrong_calls_are_refused_by_name(arguments: dict, message: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^" + message):
        library().hybrid_search(**{"queries": ["retry"], **arguments})
    if not {"vector_weight", "text_weight"} >= set(arguments):
        with pytest.raises(InvalidArgument, match=r"^" + message):
            library().hybrid_subgraph(**{"queries": ["retry"], **arguments})


def test_several_rows_of_a_node_and_several_collections_count_once() -> None:
    graph = small.graph([("a", "r", "b"), ("b", "r", "c"), ("c", "r", "d")])
    many = Collection.build("chunks", small.at([0.1, 0.11, 0.12, 0.13, 0.14, 0.5, 0.6]), owner=list("aaaaabc"))
    more = small.names({"d": 0.3, "b": 0.55, "a": 0.9}, name="names")
    engine = small.engine(graph, many, more)
    got = engine.semantic_search(vectors=small.QUERY, k=3)[0]
    assert got.ids() == ["a", "d", "b"]
    assert got.scores.tolist() == pytest.approx([0.9, 0.7, 0.5], abs=1e-6)
    assert engine.semantic_search(vectors=small.QUERY, k=2, collections=["chunks"])[0].ids() == ["a", "b"]
    assert engine.semantic_search(vectors=small.QUERY, k=10)[0].ids() == ["a", "d", "b", "c"]


def test_context_packs_nodes_in_order_with_the_relationships_among_them() -> None:
    engine = library()
    sub = engine.semantic_subgraph(vectors=small.QUERY, k=2, expand=1)[0]  # b d, then a c e
    text = sub.context()
    assert text.startswith("Nodes:\nNode: state-of-the-art retry")
    a, b, c, d, e = TEXTS  # the order is b d, then by nearness e a c; a line comes with the later of its ends
    assert [line for line in text.splitlines() if "--[" in line] == [
        f"{s} --[next]--> {t}" for s, t in ((d, e), (a, b), (b, c), (c, d))
    ]
    budgets = [sub.context(max_tokens=n, count_tokens=lambda texts: [len(t) for t in texts]) for n in range(0, 700, 20)]
    lengths = [len(b) for b in budgets]
    assert lengths == sorted(lengths)
    assert budgets[0] == ""
    assert all(len(b) <= n for b, n in zip(budgets, range(0, 700, 20), strict=True))
    assert budgets[-1] == text
    batch = engine.semantic_subgraph(vectors=np.stack([small.QUERY] * 2), k=[1, 2])
    assert batch.contexts() == [s.context() for s in batch]
    with pytest.raises(InvalidArgument, match="max_tokens"):
        sub.context(max_tokens=-1)


def test_tables_and_networkx_hold_what_the_subgraph_holds() -> None:
    engine = library()
    batch = engine.semantic_subgraph(vectors=np.stack([small.QUERY] * 2), k=[1, 2], expand=1)
    nodes, relationships = batch.to_arrow()
    for i, sub in enumerate(batch):
        mine = nodes.filter(np.asarray(nodes["query"]) == i)
        assert mine["id"].to_pylist() == sub.node_ids()
        assert dict(zip(mine["id"].to_pylist(), mine["hops"].to_pylist(), strict=True)) == sub.hops
        assert {
            k: v for k, v in zip(mine["id"].to_pylist(), mine["score"].to_pylist(), strict=True) if v is not None
        } == sub.scores
        ends = relationships.filter(np.asarray(relationships["query"]) == i)
        assert list(zip(ends["source"].to_pylist(), ends["target"].to_pylist(), strict=True)) == [
            (r.source_id, r.target_id) for r in sub.relationships
        ]
        graph = sub.to_networkx()
        assert list(graph) == sub.node_ids()
        assert graph.nodes["b"]["score"] == sub.scores["b"]
        assert graph.number_of_edges() == len(sub.relationships)
        assert sub.to_arrow().nodes["id"].to_pylist() == sub.node_ids()
    undirected = batch[1].to_networkx(directed=False)
    assert not undirected.is_directed()


def test_pytorch_geometric_gets_typed_nodes_and_edges() -> None:
    pytest.importorskip("torch_geometric", reason="torch_geometric isn't installed")
    sub = library().semantic_subgraph(vectors=small.QUERY, k=2, expand=1)[0]
    data = sub.to_pyg(vectors=np.eye(5, dtype=np.float32))
    assert sorted(data.node_types) == ["Doc", "Paper", "node"]
    assert data["Doc"].x.shape == (data["Doc"].num_nodes, 5)
    assert sum(data[t].edge_index.shape[1] for t in data.edge_types) == len(sub.relationships)


@pytest.mark.parametrize("verb", ["subgraph", "text_subgraph", "text_search", "semantic_search"])
def test_every_verb_answers_alike_alone_and_in_any_order(verb: str) -> None:
    engine = engine_of(random_graph(60, 200, 2))
    engine.lexical = ["id"]
    rng = np.random.default_rng(4)
    seeds = [[f"{i:04d}" for i in rng.integers(0, 60, 3)] for _ in range(6)]
    asked = {
        "subgraph": seeds, "text_subgraph": [" ".join(s) for s in seeds], "text_search": [" ".join(s) for s in seeds],
        "semantic_search": list(rng.normal(size=(6, 8)).astype(np.float32)),
    }[verb]  # fmt: skip
    options = {"subgraph": {"expand": 2}, "text_subgraph": {"k": 2, "expand": 1}}.get(verb, {"k": 4})
    name = {"subgraph": "seeds", "semantic_search": "vectors"}.get(verb, "queries")

    def ask(queries: list) -> list:
        got = getattr(engine, verb)(**{name: queries}, **options)
        return answers(got) if "subgraph" in verb else [(h.ids(), h.scores.tolist(), h.status) for h in got]

    whole = ask(asked)
    assert len({str(x) for x in whole}) == 6
    for i in range(6):
        assert ask([asked[i]]) == [whole[i]]
    order = rng.permutation(6)
    assert ask([asked[i] for i in order]) == [whole[i] for i in order]
