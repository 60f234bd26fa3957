import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.errors import InvalidArgument
from tercet.retrieve.fts import FtsIndex
from tercet.retrieve.fusion import Fused, Half, fuse, fuse_grafito
from tests.engine.test_fts import rows_of

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "grafito" / "golden"
HYBRID = ["hyb_basic", "hyb_depths", "hyb_ties", "hyb_weights_and_constant", "hyb_multilabel_credit", "hyb_questions"]

X, A, Y, B, C = 40, 3, 9, 20, 15  # rows of the nodes of the example; only ties look at their order


def half(lists: list[list[int]], scores: list[list[float]] | None = None, device: str = "cpu") -> Half:
    indptr = torch.tensor([0, *np.cumsum([len(nodes) for nodes in lists])])
    node = torch.tensor([node for nodes in lists for node in nodes], dtype=torch.int32)
    own = None if scores is None else torch.tensor([s for row in scores for s in row], dtype=torch.float64).to(device)
    return Half(indptr.to(device), node.to(device), own)


def scored(lists: list[list[int]]) -> Half:
    """Lists with falling scores of their own."""
    return half(lists, [[-float(place) for place in range(len(nodes))] for nodes in lists])


def results(fused: Fused) -> list[list[tuple[int, float, tuple[int, ...]]]]:
    rows = list(zip(fused.node.tolist(), fused.score.tolist(), map(tuple, fused.ranks.tolist()), strict=True))
    return [rows[low:high] for low, high in pairwise(fused.indptr.tolist())]


def naive(
    lists: list[list[int]], weights: list[float], k: int, rrf_k: float
) -> list[tuple[int, float, tuple[int, ...]]]:
    """One query with dictionaries."""
    best = [{node: 1 + nodes.index(node) for node in nodes} for nodes in lists]
    listed = {node for ranks, weight in zip(best, weights, strict=True) if weight > 0 for node in ranks}
    rows = []
    for node in listed:
        score = 0.0
        for ranks, weight in zip(best, weights, strict=True):
            if node in ranks:
                score += weight / (rrf_k + ranks[node])
        rows.append((node, score, tuple(ranks.get(node, 0) for ranks in best)))
    return sorted(rows, key=lambda row: (-row[1], row[0]))[:k]


def naive_grafito(
    vector: list[int], text: list[int], weights: tuple[float, float], k: int, rrf_k: float
) -> list[tuple[int, float]]:
    """One query as the semantics say, on lists whose own scores are minus the place."""
    if not vector or not text:
        return [(node, -float(place)) for place, node in enumerate((vector or text)[:k])]
    score: dict[int, float] = {}
    for nodes, weight in zip((vector, text), weights, strict=True):
        for place, node in enumerate(nodes):
            score[node] = score.get(node, 0.0) + weight / (rrf_k + place + 1)
    return sorted(score.items(), key=lambda row: -row[1])[:k]


nodes = st.lists(st.integers(0, 6), max_size=7)
weight = st.sampled_from([0.0, 0.5, 1.0, 1.5, 3.0])


@given(
    lists=st.integers(1, 3).flatmap(lambda h: st.lists(st.lists(nodes, min_size=h, max_size=h), max_size=4)),
    weights=st.lists(weight, min_size=3, max_size=3),
    k=st.integers(1, 9),
    rrf_k=st.sampled_from([0, 1, 60, 2.5]),
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_fuses_as_plain_python_does(lists: list[list[list[int]]], weights: list[float], k: int, rrf_k: float) -> None:
    count = len(lists[0]) if lists else 2
    weights = [*weights[: count - 1], weights[count - 1] or 1.0]
    halves = [half([query[h] for query in lists]) for h in range(count)]
    assert results(fuse(halves, weights, k, rrf_k=rrf_k)) == [naive(query, weights, k, rrf_k) for query in lists]


@given(
    lists=st.lists(st.tuples(nodes, nodes), max_size=4),
    weights=st.tuples(st.sampled_from([-1.0, 0.0, 1.0, 1.5]), st.sampled_from([-1.0, 0.0, 1.0, 1.5])),
    k=st.integers(1, 9),
    rrf_k=st.sampled_from([0, 1, 60]),
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_fuses_as_grafito_does(
    lists: list[tuple[list[int], list[int]]], weights: tuple[float, float], k: int, rrf_k: float
) -> None:
    vector, text = (scored([query[h] for query in lists]) for h in range(2))
    got = fuse_grafito(vector, text, k, vector_weight=weights[0], text_weight=weights[1], rrf_k=rrf_k)
    assert [[row[:2] for row in query] for query in results(got)] == [
        naive_grafito(*query, weights, k, rrf_k) for query in lists
    ]


def test_the_numbers_of_the_book(device: str) -> None:
    """Dense [X, a, Y] and lexical [b, c, Y]: what both list wins, ties go to the smaller row."""
    halves = [half([[X, A, Y]], device=device), half([[B, C, Y]], device=device)]
    (even,) = results(fuse(halves, [1, 1], 10))
    assert [row[0] for row in even] == [Y, B, X, A, C]
    assert [row[1] for row in even] == pytest.approx([0.031746, 0.016393, 0.016393, 0.016129, 0.016129], abs=5e-7)
    assert even[1][1] == even[2][1]
    assert [row[2] for row in even] == [(3, 3), (0, 1), (1, 0), (2, 0), (0, 2)]
    (tilted,) = results(fuse(halves, [1, 1.5], 10))
    assert [row[0] for row in tilted] == [Y, B, C, X, A]
    assert [row[1] for row in tilted] == pytest.approx([0.039683, 0.024590, 0.024194, 0.016393, 0.016129], abs=5e-7)


def test_one_half_alone_keeps_its_order_on_the_scale_of_ranks() -> None:
    halves = [half([[X, A, Y], []]), half([[], [B, X]])]
    first, second = results(fuse(halves, [1, 1], 10))
    assert first == [(X, 1 / 61, (1, 0)), (A, 1 / 62, (2, 0)), (Y, 1 / 63, (3, 0))]
    assert second == [(B, 1 / 61, (0, 1)), (X, 1 / 62, (0, 2))]


def test_a_repeat_counts_with_its_best_rank_and_others_keep_their_places() -> None:
    (found,) = results(fuse([half([[X, A, X, Y]])], [1], 10))
    assert found == [(X, 1 / 61, (1,)), (A, 1 / 62, (2,)), (Y, 1 / 64, (4,))]
    (grafito,) = results(fuse_grafito(scored([[X, A, X, Y]]), scored([[Y]]), 10))
    assert [row[:2] for row in grafito] == [(X, 1 / 61 + 1 / 63), (Y, 1 / 64 + 1 / 61), (A, 1 / 62)]


def test_a_half_without_weight_adds_no_nodes_but_tells_its_ranks() -> None:
    (found,) = results(fuse([half([[X, A]]), half([[A, B]])], [1, 0], 10))
    assert found == [(X, 1 / 61, (1, 0)), (A, 1 / 62, (2, 1))]


def test_each_query_has_its_own_number_of_results() -> None:
    halves = [half([[X, A, Y], [X, A, Y], []]), half([[B], [], []])]
    assert [len(query) for query in results(fuse(halves, [1, 1], [2, 1, 5]))] == [2, 1, 0]
    alone = [len(query) for query in results(fuse_grafito(scored([[X, A], [X, A]]), scored([[], [B]]), [1, 3]))]
    assert alone == [1, 3]


def test_a_query_is_fused_the_same_alone_and_in_any_batch(device: str) -> None:
    rng = np.random.default_rng(0)
    lists = [[rng.integers(0, 50, rng.integers(0, 40)).tolist() for _ in range(9)] for _ in range(3)]
    whole = results(fuse([half(x, device=device) for x in lists], [1, 0.7, 2], 20))
    for rows in ([8, 0, 3, 1, 2, 4, 5, 6, 7], [5], [2, 2]):
        part = fuse([half([x[q] for q in rows], device=device) for x in lists], [1, 0.7, 2], 20)
        assert results(part) == [whole[q] for q in rows]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("rrf_k", {"rrf_k": -1}),
        ("rrf_k", {"rrf_k": -0.5}),
        ("rrf_k", {"rrf_k": float("nan")}),
        ("weights", {"weights": [1, -1]}),
        ("weights", {"weights": [float("inf"), 1]}),
        ("weights", {"weights": [0, 0]}),
        ("weights", {"weights": [1]}),
        ("k", {"k": 0}),
        ("k", {"k": [1, 2]}),
        ("k", {"k": 1.5}),
        ("k", {"k": True}),
        ("halves", {"halves": []}),
        ("halves", {"halves": [half([[1]]), half([[1], [2]])]}),
    ],
)
def test_refuses_what_no_fusion_can_mean(name: str, change: dict[str, Any]) -> None:
    call = {"halves": [half([[X]]), half([[A]])], "weights": [1, 1], "k": 5, "names": ["vector", "text"]} | change
    with pytest.raises(InvalidArgument, match=f"^{name}: "):
        fuse(**call)


def test_errors_name_the_half() -> None:
    with pytest.raises(InvalidArgument, match="for text, got -1"):
        fuse([half([[X]]), half([[A]])], [1, -1], 5, names=["vector", "text"])


def test_grafito_refuses_division_by_zero_only_where_it_happens() -> None:
    with pytest.raises(InvalidArgument, match=r"^rrf_k: -1 divides by zero"):
        fuse_grafito(scored([[X]]), scored([[A]]), 5, rrf_k=-1)
    assert results(fuse_grafito(scored([[X]]), scored([[]]), 5, rrf_k=-1)) == [[(X, 0.0, (1, 0))]]
    with pytest.raises(InvalidArgument, match=r"^halves: expected both lists with their scores"):
        fuse_grafito(half([[X]]), scored([[A]]), 5)


def vector_list(case: Path, texts: list[str | None], query: str, k: int) -> list[tuple[int, float]]:
    """All nodes with a vector by cosine, first inserted first among equals."""
    arrays = np.load(case / "vectors.npz")
    at = arrays["query_vectors"][texts.index(query)].astype(np.float64)
    norm = np.linalg.norm(arrays["node_vectors"].astype(np.float64), axis=1) * np.linalg.norm(at)
    dots = arrays["node_vectors"].astype(np.float64) @ at
    score = np.round(np.divide(dots, norm, out=np.zeros_like(dots), where=norm > 0), 12)
    order = np.argsort(-score, kind="stable")[: max(k, 0)]
    return [(int(arrays["node_ids"][i]), float(score[i])) for i in order]


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the recorded cases aren't beside the repository")
@pytest.mark.parametrize("name", HYBRID)
def test_fuses_to_what_grafito_found(name: str) -> None:
    case = GOLDEN / name
    recorded = json.loads((case / "case.json").read_text("utf-8"))
    index = FtsIndex.build(*rows_of(json.loads((case / "graph.json").read_text("utf-8"))))
    compared = 0
    for call in recorded["calls"]:
        ask, expect = call["kwargs"], call["expect"]
        if call["call"] != "hybrid_search" or "hits" not in expect:
            continue
        assert not set(ask) - {"k", "vector_k", "text_k", "vector_weight", "text_weight", "rrf_k"}
        k = ask.get("k", 10)
        text_k = ask.get("text_k", 4 * k)
        try:
            hits = index.search_words(call["args"][0], text_k)
        except InvalidArgument:
            hits = []
        vector = vector_list(case, recorded["query_texts"], call["args"][0], ask.get("vector_k", 4 * k))
        lists = [vector, [(hit.entity, hit.score) for hit in hits if hit.kind == "node"]]
        halves = [half([[node for node, _ in rows]], [[score for _, score in rows]]) for rows in lists]
        options = {x: ask[x] for x in ("vector_weight", "text_weight", "rrf_k") if x in ask}
        (got,) = results(fuse_grafito(*halves, k, **options))
        assert [row[0] for row in got] == [hit["id"] for hit in expect["hits"]], call
        assert [row[1] for row in got] == pytest.approx([hit["score"] for hit in expect["hits"]], rel=1e-6, abs=1e-9)
        compared += 1
    assert compared
