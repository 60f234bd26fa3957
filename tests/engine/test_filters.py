"""Which nodes a query may use: filters of every kind, and node sets."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch

from tercet import Collection, Engine, Graph
from tercet.errors import InvalidArgument, TercetError, UnknownId
from tests.engine.small import QUERY, engine, graph, names, relations, same, triplets

IDS = list("abcdef")
EDGES = [("a", "r", "b"), ("b", "r", "c"), ("c", "r", "d"), ("d", "r", "e"), ("e", "r", "f"), ("f", "r", "a")]


@pytest.fixture(scope="module")
def made():
    table = {name: [e[i] for e in EDGES] for i, name in enumerate(("source", "relation", "target"))}
    nodes = {"id": IDS[::-1], "size": [6, 5, 4, None, 2, 1], "type": ["x", "y"] * 3}
    found = names({n: 0.1 * i + 0.1 for i, n in enumerate(IDS)}), relations({"r": 0.2})
    return engine(Graph.from_tables(nodes, table), *found)


def inside(made, filter, **options):
    return triplets(made.recall(vectors=QUERY, filter=filter, top_k=9, **options)[0])


@pytest.mark.parametrize(
    "filter",
    [
        ["a", "b", "d"], ("d", "a", "b"), {"a", "b", "d"}, np.array(["a", "b", "d"]), pa.array(["b", "a", "d", "a"]),
        np.array([True, True, False, True, False, False]), torch.tensor([True, True, False, True, False, False]),
        pa.array([True, True, False, True, False, False]), pc.field("id").isin(["a", "b", "d"]),
        (pc.field("size") < 3) | (pc.field("size") == 4),  # c has no size: a null is no match
    ],
)  # fmt: skip
@pytest.mark.parametrize("wide", [100, None])
def test_kinds_of_filters(made, filter, wide):
    result = made.recall(vectors=QUERY, filter=filter, wide_search_top_k=wide, projection="induced")[0]
    assert triplets(result) == [("a", "r", "b")]
    assert sorted(n for n, _ in result.seeds) == ["a", "b", "d"]


@pytest.mark.parametrize("projection", ["induced", "incident", "full", "neighborhood"])
@pytest.mark.parametrize("wide", [1, 2, 100, None])
def test_nothing_outside_comes_back(made, projection, wide):
    depth = {"neighborhood_depth": 3} if projection == "neighborhood" else {}
    for keep in (["b", "c"], ["a", "c", "e"], ["a", "b", "e", "f"], IDS):
        got = inside(made, keep, projection=projection, wide_search_top_k=wide, **depth)
        assert set(got) <= {e for e in EDGES if e[0] in keep and e[2] in keep}
        if wide not in (1, 2) and projection != "neighborhood":
            assert len(got) == sum(e[0] in keep and e[2] in keep for e in EDGES)


def test_a_neighborhood_does_not_walk_through_what_is_shut(made):
    got = inside(
        made, ["a", "b", "d", "e", "f"], neighborhood_depth=9, neighborhood_seed_top_k=1, collections=["Entity_name"]
    )
    assert sorted(got) == [("a", "r", "b"), ("d", "r", "e"), ("e", "r", "f"), ("f", "r", "a")]
    got = inside(made, ["a", "b", "d", "e"], neighborhood_depth=9, neighborhood_seed_top_k=1)
    assert got == [("a", "r", "b")]


def test_one_for_each_query(made):
    filters = [["a", "b"], None, pc.field("size") > 3, np.zeros(6, bool), {"e", "f"}, []]
    for options in ({}, {"wide_search_top_k": None}, {"projection": "incident"}):
        recall = made.recall(vectors=np.stack([QUERY] * 6), filter=filters, top_k=9, **options)
        assert recall.status == ["ok", "ok", "ok", "filtered_out", "ok", "filtered_out"]
        for one, result in zip(filters, recall, strict=True):
            assert same(result, made.recall(vectors=QUERY, filter=one, top_k=9, **options)[0])
        assert len(recall[1].edges) == 6


@pytest.mark.parametrize("projection", ["induced", "incident", "full"])
@pytest.mark.parametrize("wide", [100, None])
def test_filtered_out(made, projection, wide):
    options = {"projection": projection, "wide_search_top_k": wide}
    result = made.recall(vectors=QUERY, filter=np.zeros(6, bool), **options)[0]
    assert (result.status, result.triplets, result.seeds) == ("filtered_out", [], [])
    for found in ([relations({"r": 0.2})], []):
        only = engine(made.graph, *found).recall(vectors=QUERY, filter=np.zeros(6, bool), **options)[0]
        assert only.status == "filtered_out"
    # a filter that admits an edge of which no end has a vector
    bare = engine(graph([("a", "r", "b"), ("x", "r", "y")]), names({"a": 0.1}), relations({"r": 0.2}))
    result = bare.recall(vectors=QUERY, filter=["x", "y"], **options)[0]
    assert (result.status, len(result.edges)) == (("ok", 1) if projection == "full" else ("filtered_out", 0))


@pytest.mark.parametrize(
    ("filter", "error"),
    [
        (np.ones(5, bool), InvalidArgument), (["a", "nobody"], UnknownId), (7, InvalidArgument), ("a", InvalidArgument),
        (pc.field("colour") == 1, InvalidArgument), (pc.field("size") == "big", InvalidArgument),
        ([["a"], ["nobody"]], UnknownId), ([["a"]], InvalidArgument), ([["a"], 3.5], TercetError), ([1.5], TercetError),
        (lambda node: True, InvalidArgument),
    ],
)  # fmt: skip
def test_what_is_no_filter(made, filter, error):
    with pytest.raises(error, match=r"filter|id"):
        made.recall(vectors=np.stack([QUERY] * 2), filter=filter)


def test_the_nearest_within_each_filter():
    """Rare tags are searched inside the filter, not cut out of what an unfiltered search found."""
    rng = np.random.default_rng(15)
    size = 20_000
    rows = rng.normal(size=(size, 24)).astype(np.float32)
    tag = np.full(size, "none", object)
    tag[rng.choice(size, 323, replace=False)] = ["t1"] * 322 + ["t2"]
    ids = [f"n{i:05d}" for i in range(size)]
    table = {"source": ids[:-1], "target": ids[1:], "relation": ["r"] * (size - 1)}
    made = Engine(
        Graph.from_tables({"id": ids, "tag": tag}, table), [Collection.build("n", rows, owner=ids)], device="cpu"
    )
    query = rng.normal(size=24)
    filters = [pc.field("tag") == t for t in ("t1", "t2", "t3")] + [None]
    recall = made.recall(vectors=np.stack([query] * 4), filter=filters, wide_search_top_k=100)
    assert [len(r.seeds) for r in recall] == [100, 1, 0, 100]
    assert recall.status[2] == "filtered_out"
    distance = 1 - rows @ query / np.linalg.norm(rows, axis=1) / np.linalg.norm(query)
    for result, t in zip(recall, ("t1", "t2", "t3", None), strict=True):
        open_ = np.flatnonzero(tag == t) if t else np.arange(size)
        near = open_[np.argsort(distance[open_])][:100]
        assert [node for node, _ in result.seeds] == [ids[i] for i in near]


class TestNodeSets:
    """Sets as a column of the nodes, and as nodes of their own that members are linked to."""

    @pytest.fixture
    def made(self):
        nodes = {
            "id": [*IDS, "S", "T"],
            "type": [None] * 6 + ["NodeSet", "NodeSet"],
            "name": [None] * 6 + ["s", "t"],
            "belongs_to_set": [["s"], ["s", "t"], ["t"], None, ["u"], None, None, None],
        }
        edges = [*EDGES, ("d", "in", "S"), ("S", "has", "e"), ("e", "in", "T")]
        table = {name: [e[i] for e in edges] for i, name in enumerate(("source", "relation", "target"))}
        found = names({n: 0.1 * i + 0.1 for i, n in enumerate(IDS)})
        return engine(Graph.from_tables(nodes, table), found)

    def ends(self, made, node_name, operator="OR", **options):
        got = made.recall(vectors=QUERY, node_name=node_name, node_name_filter_operator=operator, top_k=20, **options)[
            0
        ]
        return {x for s, _, t in triplets(got) for x in (s, t)}

    @pytest.mark.parametrize("wide", [100, None])
    def test_members(self, made, wide):
        options = {"wide_search_top_k": wide}
        assert self.ends(made, ["s"], **options) == {"a", "b", "d", "e", "S"}
        assert self.ends(made, "s", **options) == {"a", "b", "d", "e", "S"}
        assert self.ends(made, ["t"], **options) == {"b", "c", "e", "T"}
        assert self.ends(made, ["s", "t"], **options) == {*"abcde", "S", "T"}
        assert self.ends(made, ["s", "t"], "AND", **options) == {"e", "S", "T"}
        assert self.ends(made, ["no such"], **options) == set()

    def test_a_limit_holds(self, made):
        one = made.recall(vectors=QUERY, node_name=["t"], wide_search_top_k=1, top_k=20)[0]
        assert [n for n, _ in one.seeds] == ["b"]
        assert np.isinf(one.distances[:, :2]).sum() == 2 * len(one.edges) - sum("b" in t for t in triplets(one))

    def test_with_a_filter(self, made):
        assert self.ends(made, ["s"], filter=["a", "b", "c"]) == {"a", "b"}
        result = made.recall(vectors=QUERY, node_name=["s"], filter=["c"])[0]
        assert result.status == "filtered_out"

    def test_each_query_its_own(self, made):
        sets = [["s"], None, ["t"], ["s", "t"]]
        recall = made.recall(vectors=np.stack([QUERY] * 4), node_name=sets, top_k=20)
        for one, result in zip(sets, recall, strict=True):
            assert same(result, made.recall(vectors=QUERY, node_name=one, top_k=20)[0])
