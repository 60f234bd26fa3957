"""What a recall gives back: tensors, tables, text, explanations, and why something is absent."""

import re

import numpy as np
import pytest

from tercet import Collection, Engine, Graph
from tercet.errors import InvalidArgument, UnknownId
from tests.engine.small import QUERY, at, engine, graph, names, relations, triplets

NODES = [f"n{i:02d}" for i in range(40)]


@pytest.fixture(scope="module")
def made():
    """Forty nodes, six of them without a vector; sixty edges of four kinds, one of them without a vector."""
    rng = np.random.default_rng(5)
    edges = [(NODES[a], f"r{i % 4}", NODES[b]) for i, (a, b) in enumerate(rng.integers(0, 36, (60, 2)))]
    near = {n: d for n, d in zip(NODES[:34], rng.permutation(34) / 40 + 0.05, strict=True)}
    chunks = {n: near[n] + rng.choice((-0.02, 0.4)) for n in NODES[:34:3]}
    nodes = {"id": NODES, "group": [i % 5 for i in range(40)], "name": [f"node {n}" for n in NODES]}
    table = {name: [e[i] for e in edges] for i, name in enumerate(("source", "relation", "target"))}
    return Engine(
        Graph.from_tables(nodes, table),
        [names(near), names(chunks, "Chunk_text"), relations({"r0": 0.1, "r1": 0.5, "r2": 0.9})],
        device="cpu",
    )


def returned(made, edge=None, node=None, **options):
    """Whether the edge row, or a triplet with the node, comes back."""
    result = made.recall(vectors=QUERY, **options)[0]
    if edge is not None:
        return edge in result.edges.tolist()
    return any(node in (s, t) for s, _, t in triplets(result))


SETTINGS = {
    "induced": {"wide_search_top_k": 6, "top_k": 2},
    "incident": {"wide_search_top_k": 2, "top_k": 4, "projection": "incident"},
    "near": {"wide_search_top_k": 6, "top_k": 2, "max_distance": 0.3},
    "near incident": {"wide_search_top_k": 3, "top_k": 2, "max_distance": 0.12, "projection": "incident"},
    "filtered": {"wide_search_top_k": 4, "top_k": 1, "filter": NODES[:20]},
    "filtered incident": {"wide_search_top_k": 2, "top_k": 1, "filter": NODES[:20], "projection": "incident"},
    "full": {"wide_search_top_k": 4, "top_k": 3, "projection": "full"},
    "unlimited": {"wide_search_top_k": None, "top_k": 3},
    "neighborhood": {"neighborhood_depth": 1, "neighborhood_seed_top_k": 1, "top_k": 2},
    "feedback": {"wide_search_top_k": 6, "top_k": 2, "feedback_influence": 0.5},
}
ONE_LESS = {
    "top_k": lambda n: n - 1,
    "wide_search_top_k": lambda n: n - 1,
    "neighborhood_depth": lambda n: n - 1,
    "max_distance": lambda d: float(np.nextafter(np.float32(d), np.float32(0))),
}


def follow_advice(made, options, why, **what):
    """The advice brings it in, and with any one of the settings a step smaller it stays out."""
    advised = {**options, **why.needed}
    assert set(why.needed) <= set(ONE_LESS)
    assert returned(made, **what, **advised), (what, why)
    for setting, value in why.needed.items():
        less = ONE_LESS[setting](value)
        generous = {"top_k": 10**6} if setting != "top_k" else {}
        if setting == "max_distance":
            generous["wide_search_top_k"] = 10**6
        if less > 0:
            assert not returned(made, **what, **{**advised, **generous, setting: less}), (what, why)


@pytest.mark.parametrize("name", SETTINGS)
def test_why_an_edge_is_absent(made, name):
    options = SETTINGS[name]
    result = made.recall(vectors=QUERY, **options)[0]
    stages = set()
    for edge in range(made.graph.num_edges):
        why = result.why(edge=edge)
        stages.add(why.stage)
        assert why.returned == (edge in result.edges.tolist())
        assert why.returned == (why.stage == "returned")
        ends = [made.graph.triplet(edge)[i] for i in (0, 2)]
        outside = [e for e in ends if e not in options.get("filter", NODES)]
        assert (why.stage == "filter") == bool(outside)
        assert all(repr(e) in why.reason for e in outside)
        vectors = [e in NODES[:34] for e in ends]
        possible = all(vectors) if options.get("projection", "induced") == "induced" else any(vectors)
        if why.stage == "rank":
            assert set(why.needed) == {"top_k"}
            assert why.rank == why.needed["top_k"] - 1
        if not why.returned and why.stage != "filter":
            possible |= why.stage == "rank" or (bool(why.needed) and name == "neighborhood")
            assert bool(why.needed) == possible, why
            if possible:
                follow_advice(made, options, why, edge=edge)
    assert "returned" in stages
    assert stages - {"returned", "filter"}


@pytest.mark.parametrize("name", SETTINGS)
def test_why_a_node_is_absent(made, name):
    options = SETTINGS[name]
    result = made.recall(vectors=QUERY, **options)[0]
    allowed = options.get("filter", NODES)
    pairs = [made.graph.triplet(e)[::2] for e in range(made.graph.num_edges)]
    stages = set()
    for node in NODES:
        why = result.why(node=node)
        stages.add(why.stage)
        assert why.returned == any(node in (s, t) for s, _, t in triplets(result))
        assert why.returned == (why.stage == "returned")
        assert (why.stage == "filter") == (node not in allowed)
        if why.returned or why.stage == "filter":
            continue
        both = options.get("projection", "induced") == "induced" and options.get("wide_search_top_k", 1)
        known = all if both else any
        possible = [p for p in pairs if node in p and set(p) <= set(allowed) and known(e in NODES[:34] for e in p)]
        possible = bool(possible) or why.stage == "rank" or (bool(why.needed) and name == "neighborhood")
        assert bool(why.needed) == possible, (node, why)
        if possible:
            follow_advice(made, options, why, node=node)
    assert "returned" in stages


def test_why_stages():
    """One of each, by hand."""
    small = engine(
        graph([("a", "r", "b"), ("b", "r", "c"), ("c", "r", "d"), ("d", "r", "v")], ["lone"]),
        names({"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4, "lone": 0.05}),
    )
    result = small.recall(vectors=[QUERY, [0.0, 0.0]], wide_search_top_k=3, top_k=1)[0]
    assert triplets(result) == [("a", "r", "b")]
    assert (result.why(node="a").stage, result.why(node="a").rank) == ("returned", 0)
    assert result.why(node="lone").stage == "project"
    late = result.why(edge=("b", "r", "c"))
    assert (late.stage, late.rank, late.needed) == ("search", 3, {"wide_search_top_k": 4, "top_k": 2})
    assert [(s.collection, s.rank) for s in late.standings] == [("Entity_name", 2), ("Entity_name", 3)]
    wider = small.recall(vectors=QUERY, wide_search_top_k=5, top_k=1)[0]
    assert wider.why(edge=("c", "r", "d")).needed == {"top_k": 3}
    assert (wider.why(edge=("d", "r", "v")).stage, wider.why(edge=("d", "r", "v")).needed) == ("search", {})
    assert wider.why(node="v").stage == "search"
    narrow = small.recall(vectors=QUERY, max_distance=0.25)[0]
    assert narrow.why(edge=("b", "r", "c")).needed == {"max_distance": pytest.approx(0.3)}
    filtered = small.recall(vectors=QUERY, filter=["a", "b"])[0].why(node="c")
    assert filtered.stage == "filter"
    failed = small.recall(vectors=[QUERY, [0.0, 0.0]])[1].why(node="a")
    assert (failed.returned, failed.stage) == (False, "query")


def test_why_takes_a_row_or_a_triple(made):
    result = made.recall(vectors=QUERY, top_k=1)[0]
    for edge in range(0, made.graph.num_edges, 7):
        triple = made.graph.triplet(edge)
        first = next(e for e in range(made.graph.num_edges) if made.graph.triplet(e) == triple)
        assert result.why(edge=triple) == result.why(edge=first)
        assert str(result.why(edge=triple)).startswith(result.why(edge=first).stage)


def test_why_refuses(made):
    result = made.recall(vectors=QUERY)[0]
    for wrong in ({}, {"edge": 0, "node": "n00"}):
        with pytest.raises(InvalidArgument):
            result.why(**wrong)
    for wrong in ({"node": "nobody"}, {"edge": 10**6}, {"edge": -1}, {"edge": ("n00", "no such", "n01")}):
        with pytest.raises(UnknownId):
            result.why(**wrong)


def test_explain_adds_up(made):
    personal = {NODES[0]: 1.0, NODES[5]: 0.0, NODES[9]: 0.8}
    for options in ({}, {"wide_search_top_k": None}, {"projection": "incident"}, {"neighborhood_depth": 1}):
        result = made.recall(vectors=QUERY, top_k=30, feedback_influence=0.2, personal_weights=personal, **options)[0]
        told = result.explain()
        assert told["status"] == "ok"
        assert told["counts"]["taken"] == len(told["triplets"]) == len(result.edges)
        assert told["counts"]["truncated"] == told["counts"]["available"] - told["counts"]["taken"]
        assert told["counts"]["candidates"] == len(result.seeds)
        assert set(told["timings"]) > {"embed"}
        for triplet, score in zip(told["triplets"], result.scores, strict=True):
            parts = triplet["parts"]
            assert (parts["source"]["effective"] + parts["target"]["effective"]) + parts["relation"][
                "effective"
            ] == score
            for name in ("source", "target"):
                node, part = triplet[name], parts[name]
                assert part.get("personal") == personal.get(node)
                assert part["importance"] == 0.5
                assert (part["distance"] is None) == (node not in NODES[:34] or part["collection"] is None)
            assert parts["relation"]["collection"] in ("EdgeType_relationship_name", None)
            assert (parts["relation"]["distance"] is None) == (triplet["relation"] == "r3")


def test_explain_names_the_rank_in_the_collection(made):
    result = made.recall(vectors=QUERY, top_k=5)[0]
    for triplet in result.explain()["triplets"]:
        part = triplet["parts"]["source"]
        standing = [s for s in result.why(node=triplet["source"]).standings if s.collection == part["collection"]]
        assert [(s.rank, s.distance) for s in standing] == [(part["rank"], part["distance"])]


def test_tensors_and_tables(made):
    recall = made.recall(vectors=[QUERY, [0.0, 0.0], [0.0, 1.0]], top_k=[2, 3, 7], wide_search_top_k=[8, 8, None])
    assert recall.scores.shape == recall.edges.shape == (3, 7)
    assert recall.distances.shape == (3, 7, 3)
    edges, scores = np.asarray(recall.edges), np.asarray(recall.scores)
    assert np.array_equal(edges < 0, np.isnan(scores))
    for i, result in enumerate(recall):
        assert edges[i][edges[i] >= 0].tolist() == result.edges.tolist()
        assert scores[i][edges[i] >= 0].tolist() == result.scores.tolist()
    table = recall.to_arrow()
    assert table.column("query").to_pylist() == [i for i, r in enumerate(recall) for _ in r.edges]
    assert table.column("rank").to_pylist() == [j for r in recall for j in range(len(r.edges))]
    rows = list(zip(*(table.column(c).to_pylist() for c in ("source", "relation", "target")), strict=True))
    assert rows == [t for r in recall for t in triplets(r)]
    assert table.column("score").to_pylist() == [s for r in recall for s in r.scores.tolist()]
    assert recall.to_pandas().shape == (table.num_rows, table.num_columns)


def test_is_a_sequence(made):
    recall = made.recall(vectors=np.stack([QUERY, -QUERY]))
    assert len(recall) == len(list(recall)) == len(recall[:]) == 2
    assert recall[-1].edges.tolist() == recall[1].edges.tolist()
    assert [r.place for r in recall[::-1]] == [1, 0]
    for wrong in (2, -3):
        with pytest.raises(IndexError):
            recall[wrong]


def test_text_and_its_limit(made):
    result = made.recall(vectors=QUERY, top_k=10)[0]
    lines = result.text.split("\n\nConnections:\n")[1].splitlines()
    assert lines == [f"node {s} --[{r}]--> node {t}" for s, r, t in triplets(result)]
    assert result.dropped == []
    for limit in (0, 30, 80, 10**6):
        cut = made.recall(vectors=QUERY, top_k=10, max_context_tokens=limit)[0]
        shown = len(cut.text.split("\n\nConnections:\n")[1].splitlines()) if cut.text else 0
        assert cut.dropped == cut.triplets[shown:]
        assert shown == {0: 0, 10**6: 10}.get(limit, shown)
        assert len(re.findall(r"\w+|[^\w\s]", cut.text)) <= limit
        assert cut.edges.tolist() == result.edges.tolist()
    whole = made.recall(
        vectors=QUERY, top_k=10, max_context_tokens=60, count_tokens=lambda texts: [len(t) for t in texts]
    )
    assert len(whole[0].text) <= 60


def test_seeds_are_the_candidates_nearest_first(made):
    first = Engine(made.graph, made.collections[:1], device="cpu")
    seeds = first.recall(vectors=QUERY, wide_search_top_k=5)[0].seeds
    assert [d for _, d in seeds] == sorted(d for _, d in seeds)
    assert len(seeds) == 5
    every = first.recall(vectors=QUERY, wide_search_top_k=None)[0].seeds
    assert every[:5] == seeds
    assert {n for n, _ in every} == set(NODES[:34])
    assert made.recall(vectors=[[0.0, 0.0]])[0].seeds == []


def test_seeds_do_not_depend_on_the_batch(made):
    alone = made.recall(vectors=QUERY, wide_search_top_k=None, top_k=1)[0].seeds
    batch = made.recall(vectors=np.stack([-QUERY, QUERY]), wide_search_top_k=None, top_k=[50, 1])[1].seeds
    assert batch == alone


def test_unmatched_places_are_told(made):
    collection = Collection.build("n", at([0.1]), owner=[NODES[0]])
    result = Engine(made.graph, [collection], device="cpu").recall(vectors=QUERY, projection="incident")[0]
    assert np.isinf(result.distances).sum(axis=1).min() >= 1
    parts = result.explain()["triplets"][0]["parts"]
    assert (parts["relation"]["distance"], parts["relation"]["rank"], parts["relation"]["effective"]) == (
        None,
        None,
        9.75,
    )


def test_triplets_are_looked_up_by_blocks(made, monkeypatch):
    """Blocks of three of eight queries, one of them failed: the rows are those of each query alone."""
    monkeypatch.setattr("tercet.recall.BLOCK", 3)
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(8, made.dimension))
    vectors[4] = 0.0
    got = made.recall(vectors=vectors, top_k=[1, 4, 2, 9, 3, 5, 4, 2], wide_search_top_k=12)
    for i in (7, 4, 0, 5, 2, 6, 1, 3):
        alone = made.recall(vectors=vectors[i : i + 1], top_k=int([1, 4, 2, 9, 3, 5, 4, 2][i]), wide_search_top_k=12)
        assert got[i].triplets == alone[0].triplets
        assert [t.edge for t in got[i].triplets] == got[i].edges.tolist()
    assert got[4].triplets == []
