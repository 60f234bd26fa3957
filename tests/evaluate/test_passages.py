"""How triplets and nodes become passages: the rule by hand, and against loops."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet import Graph
from tercet.errors import InvalidArgument, InvalidData
from tercet.evaluate import Qrels, citations_of, rank_cited
from tercet.evaluate.passages import Citations
from tercet.evaluate.target import check_judged, target_of

CHUNK = "DocumentChunk"


def graph(**columns):
    """Two names, three passages; edges in canonical order: a r b, a s b, p1 mentions a, p2 mentions p1."""
    nodes = {"id": ["a", "b", "p1", "p2", "p3"], "type": ["Entity", "Entity", CHUNK, CHUNK, CHUNK]}
    edges = {"source": ["a", "a", "p1", "p2"], "target": ["b", "b", "a", "p1"],
             "relation": ["r", "s", "mentions", "mentions"]}  # fmt: skip
    return Graph.from_tables(nodes, edges | columns)


def cited(g, citations):
    ids, bounds = g.ids.to_pylist(), citations.indptr.tolist()
    return [[ids[n] for n in citations.node[i:j]] for i, j in pairwise(bounds)]


def test_edges_cite_their_column_and_their_ends():
    g = graph(passage=["p2", None, "p1", "p3"])
    assert cited(g, citations_of(g)) == [["p2"], [], ["p1"], ["p3", "p2", "p1"]]
    assert cited(graph(), citations_of(graph())) == [[], [], ["p1"], ["p2", "p1"]]


def test_a_column_of_lists_wins():
    lists = pa.array([["p3", "p1", "p3"], None, [], ["gone", "a"]], pa.list_(pa.string()))
    g = graph(passages=lists, passage=["p2"] * 4)
    got = citations_of(g)
    assert cited(g, got) == [["p3", "p1"], [], ["p1"], ["p2", "p1"]]
    assert got.unknown == 2  # no such node; a node that is no passage


def test_a_table_of_citations_comes_first():
    g = graph(passage=["p2", "p2", "p1", "p1"])
    table = {"source": ["a", "a", "a", "x"], "relation": ["r", "r", "none", "r"], "target": ["b", "b", "b", "b"],
             "passage": ["p3", "p1", "p1", "p1"]}  # fmt: skip
    got = citations_of(g, table)
    assert cited(g, got) == [["p3", "p1", "p2"], ["p2"], ["p1"], ["p1", "p2"]]
    assert got.unknown == 2
    with pytest.raises(InvalidData, match="expected the columns source, relation, target, passage"):
        citations_of(g, {"source": ["a"]})
    with pytest.raises(InvalidData, match="none of 1 triples is an edge"):
        citations_of(g, {"source": ["b"], "relation": ["r"], "target": ["a"], "passage": ["p1"]})


def test_parallel_edges_share_their_citations():
    g = Graph.from_tables(
        {"id": ["a", "b", "p1"], "type": ["E", "E", CHUNK]},
        {"source": ["a", "a"], "target": ["b", "b"], "relation": ["r", "r"], "edge_text": ["one", "two"]},
    )
    assert cited(g, citations_of(g, {"source": ["a"], "relation": ["r"], "target": ["b"], "passage": ["p1"]})) == [
        ["p1"], ["p1"]
    ]  # fmt: skip


def test_the_best_ranked_triplet_counts():
    citations = Citations(np.array([0, 2, 2, 3]), np.array([7, 5, 5], np.int32))
    indptr, node, entry = rank_cited(np.array([0, 3, 3, 4]), np.array([1, 2, 0, 0]), citations)
    assert indptr.tolist() == [0, 2, 2, 4]
    assert node.tolist() == [5, 7, 7, 5]  # edge 1 cites none, edge 2 cites 5, edge 0 then adds 7
    assert entry.tolist() == [1, 2, 3, 3]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 5), max_size=6), max_size=4),
       st.lists(st.lists(st.integers(0, 4), max_size=3, unique=True), min_size=6, max_size=6))  # fmt: skip
def test_ranking_is_that_of_a_loop(rankings, held):
    citations = Citations(np.cumsum([0, *map(len, held)]), np.array([n for h in held for n in h], np.int32))
    indptr, node, _ = rank_cited(
        np.cumsum([0, *map(len, rankings)]), np.array([e for r in rankings for e in r], np.int64), citations
    )
    for i, ranked in enumerate(rankings):
        expected = list(dict.fromkeys(n for e in ranked for n in held[e]))
        assert node[indptr[i] : indptr[i + 1]].tolist() == expected


def test_targets():
    g = graph(id=[None, "e2", None, None])
    assert target_of(g).documents.to_pylist() == ["p1", "p2", "p3"]
    assert target_of(g, prefix="p").documents.to_pylist() == ["1", "2", "3"]
    assert target_of(g, "node").documents.to_pylist() == ["a", "b", "p1", "p2", "p3"]
    assert target_of(g, "triplet").documents.to_pylist()[:2] == ['["a","r","b"]', "e2"]
    with pytest.raises(InvalidArgument, match="level: expected one of"):
        target_of(g, "chunk")  # type: ignore[arg-type]
    with pytest.raises(InvalidData, match="the graph has no node of the type 'Page'"):
        target_of(g, passage_type="Page")
    with pytest.raises(InvalidData, match="begins with 'x:'"):
        target_of(g, prefix="x:")


def test_judged_documents_that_the_graph_lacks():
    g = Graph.from_tables({"id": ["passage:1", "passage:2"], "type": [CHUNK] * 2},
                          {"source": [], "target": [], "relation": []})  # fmt: skip
    with pytest.raises(InvalidData, match=r"none of the 1 relevant documents is a passage of the graph: '2' against "
                                          r"'passage:1', 'passage:2'; with prefix='passage:'"):  # fmt: skip
        check_judged(target_of(g), Qrels.of({"q": ["2"]}))
    assert check_judged(target_of(g, prefix="passage:"), Qrels.of({"q": ["2"]})) == []
    (note,) = check_judged(target_of(g, prefix="passage:"), Qrels.of({"q": ["2", "9"]}))
    assert note.startswith("1 of 2 relevant documents aren't in the graph")
