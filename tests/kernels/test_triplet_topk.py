import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet_kernels._types import EdgeRule, Fragment, NodeHits, Top
from tercet_kernels.fragment.reference import fragment as make_fragment
from tercet_kernels.triplet_topk import cpu, empty, reference, triplet_topk
from tests.kernels.cases import NUM_KEYS, Case, assert_same, cases, node_hits, relation_hits, take, to, topology_of

RULES = pytest.mark.parametrize(
    ("influence", "cliff"), [(0.0, False), (0.3, False), (0.0, True), (0.3, True), (1.0, False)]
)
QUARTERS = st.integers(0, 8).map(lambda n: n / 4) | st.sampled_from([0.1, 1 / 3, 1.7])
WEIGHTS = st.integers(0, 4).map(lambda n: n / 4) | st.sampled_from([0.1, 1 / 3, 0.7])


def with_rule(case: dict, influence: float, cliff: bool) -> dict:
    """6.1 and 0.3 aren't float32 numbers, so a detour through float32 would show."""
    return case | {"rule": case["rule"]._replace(influence=influence, cliff=cliff, penalty=6.1)}


def rough(case: dict) -> dict:
    """Numbers whose sums round, so that another order of the operations shows; there are few ties then."""
    case["hits"].term[:] /= 3
    case["missing"][:] /= 7
    case["relations"].distance[:] /= 3
    case["rule"].importance[:] /= 3
    case["rule"].feedback[:] /= 3
    return case


def moved(case: dict, device: str) -> dict:
    return {k: x.to(device) if isinstance(x, torch.Tensor) else to(x, device) for k, x in case.items()}


def plain_term(distance: float | None, weight: float, feedback: float, rule: EdgeRule) -> float:
    """The term of an edge in Python floats."""
    raw = rule.penalty if distance is None else distance
    f = rule.influence
    if rule.cliff:
        raw = (2 - weight) * raw
        if f > 0 and 0 <= raw <= 2 and raw < rule.penalty:
            raw = 2 * ((1 - f) * (raw / 2) + f * (1 - feedback))
        return raw
    if f > 0 and distance is not None:
        raw = 2 * ((1 - f) * (raw / 2) + f * (1 - feedback))
    return (2 - weight) * raw


@st.composite
def scored(draw: st.DrawFn) -> tuple[Case, dict, list[dict[int, float]]]:
    """A case, what scores it, and the matched relation keys of each query."""
    case = draw(cases())
    queries, edges = len(case.selected), len(case.edges)
    near = QUARTERS.map(lambda x: float(np.float32(x)))
    found = [draw(st.dictionaries(st.integers(0, NUM_KEYS - 1), near)) for _ in range(queries)]
    hits = node_hits(case.selected, draw(st.lists(QUARTERS, min_size=40, max_size=40)))
    weights = [draw(st.lists(WEIGHTS, min_size=edges, max_size=edges)) for _ in range(2)]
    parts = {
        "topology": topology_of(case),
        "hits": hits,
        "missing": torch.tensor(draw(st.lists(QUARTERS, min_size=case.num_nodes, max_size=case.num_nodes))).double(),
        "relations": relation_hits(found),
        "rule": EdgeRule(
            *(torch.tensor(w, dtype=torch.float64) for w in weights), draw(WEIGHTS), 2.5, draw(st.booleans())
        ),
    }
    parts["fragment"] = make_fragment(parts["topology"], hits, draw(st.booleans()))
    return case, parts, found


def plain_topk(case: Case, parts: dict, found: list[dict[int, float]]) -> list[list[tuple[float, int]]]:
    """All (score, edge) of each query, in order."""
    fragment: Fragment = parts["fragment"]
    hits: NodeHits = parts["hits"]
    out = []
    for q, keys in enumerate(found):
        rows = []
        for m in range(int(fragment.indptr[q]), int(fragment.indptr[q + 1])):
            e = int(fragment.edge[m])
            s, t, key = case.edges[e]
            a, b = (
                float(hits.term[slot] if slot >= 0 else parts["missing"][node])
                for slot, node in ((int(fragment.source_slot[m]), s), (int(fragment.target_slot[m]), t))
            )
            rule: EdgeRule = parts["rule"]
            c = plain_term(keys.get(key), float(rule.importance[e]), float(rule.feedback[e]), rule)
            rows.append(((a + b) + c, e))
        out.append(sorted(rows))
    return out


@given(drawn=scored(), k=st.integers(1, 16))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_ranks_as_plain_python_does(drawn: tuple, k: int) -> None:
    case, parts, found = drawn
    want = plain_topk(case, parts, found)
    for form in (triplet_topk, reference.triplet_topk):
        top = form(**parts, k=k)
        for q, rows in enumerate(want):
            pad = [(math.inf, -1)] * (k - len(rows))
            assert list(zip(top.score[q].tolist(), top.edge[q].tolist(), strict=True)) == rows[:k] + pad
        assert top.available.tolist() == [len(rows) for rows in want]


@RULES
@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000])
def test_equals_the_reference(device: str, size: int, influence: float, cliff: bool) -> None:
    case = reference.example(5, nodes=max(size, 1), edges=size, hits=max(size // 2, 1), seed=size, device=device)
    for part in (with_rule(case, influence, cliff), rough(with_rule(case, influence, cliff))):
        for k in (1, 10, 300):
            assert_same(triplet_topk(**part, k=k), reference.triplet_topk(**part, k=k))


@RULES
def test_triton_form_equals_the_reference(triton_device: str, triton_form, influence: float, cliff: bool) -> None:
    form = triton_form("triplet_topk")
    case = with_rule(reference.example(4, nodes=30, edges=400, hits=20, device=triton_device), influence, cliff)
    assert case["fragment"].edge.shape[0] > form.BLOCK_M
    for part in (case, rough(case)):
        for k in (1, 300):
            assert_same(form.triplet_topk(**part, k=k), reference.triplet_topk(**part, k=k))


@pytest.mark.parametrize("size", [0, 1])
def test_triton_form_of_next_to_nothing(triton_device: str, triton_form, size: int) -> None:
    case = reference.example(3, nodes=1, edges=size, hits=4, device=triton_device)
    none = relation_hits([{}, {}, {}])
    for given_relations in (case["relations"], to(none, triton_device)):
        part = case | {"relations": given_relations}
        assert_same(triton_form("triplet_topk").triplet_topk(**part, k=3), reference.triplet_topk(**part, k=3))


def test_triton_form_of_more_queries_than_int16_holds(triton_device: str, triton_form) -> None:
    queries = 33_000
    case = Case(2, [(0, 1, 0), (1, 0, 1)], [[]] * (queries - 2) + [[0, 1], [0, 1]])
    parts = {
        "topology": topology_of(case),
        "hits": node_hits(case.selected),
        "missing": torch.zeros(2).double(),
        "relations": relation_hits([{}] * (queries - 1) + [{0: 2.0, 1: 1.0}]),
        "rule": EdgeRule(torch.ones(2).double(), torch.zeros(2).double(), 0.0, 6.5, False),
    }
    parts["fragment"] = make_fragment(parts["topology"], parts["hits"])
    top = triton_form("triplet_topk").triplet_topk(**moved(parts, triton_device), k=2)
    assert top.edge[-3:].tolist() == [[-1, -1], [0, 1], [1, 0]]
    assert top.score[-3:].tolist() == [[math.inf] * 2, [6.5, 6.5], [1.0, 2.0]]


def test_triton_form_is_launched_without_fused_multiply_add(triton_device: str, triton_form, monkeypatch) -> None:
    form, options = triton_form("triplet_topk"), {}
    monkeypatch.setattr(form, "score_kernel", {(1,): lambda *args, **given: options.update(given)})
    form.triplet_topk(**reference.example(hits=20, device=triton_device), k=1)
    assert options["enable_fp_fusion"] is False


def test_fewer_results_are_a_prefix_of_more(device: str) -> None:
    case = reference.example(5, nodes=60, edges=900, hits=30, device=device)
    most = triplet_topk(**case, k=400)
    for k in (1, 2, 7, 64, 200):
        top = triplet_topk(**case, k=k)
        assert_same(top[:3], [column[:, :k] for column in most[:3]])


def test_ties_go_to_the_smaller_edge(device: str) -> None:
    case = reference.example(3, nodes=20, edges=300, hits=20, device=device)
    level = {
        "hits": case["hits"]._replace(term=torch.ones_like(case["hits"].term)),
        "relations": case["relations"]._replace(distance=torch.full_like(case["relations"].distance, 6.1)),
        "rule": EdgeRule(
            *(torch.ones_like(case["rule"].importance) for _ in range(2)), 0.0, float(torch.tensor(6.1)), False
        ),
    }
    top = triplet_topk(**case | level, k=50)
    assert (top.score == top.score[0, 0]).all()
    for q in range(3):
        low = int(case["fragment"].indptr[q])
        assert torch.equal(top.edge[q], case["fragment"].edge[low : low + 50])


def alone(case: dict, queries: list[int]) -> dict:
    """The parts of a batch that chosen queries make, their fragments built anew."""
    part = case | {name: take(case[name], queries) for name in ("hits", "relations")}
    return part | {"fragment": make_fragment(part["topology"], part["hits"], True)}


def test_a_query_has_the_same_answer_alone_and_in_any_order(device: str) -> None:
    case = reference.example(6, nodes=40, edges=200, hits=10)
    case["fragment"] = make_fragment(case["topology"], case["hits"], True)
    whole = to(triplet_topk(**moved(case, device), k=20), "cpu")
    for queries in ([5, 3, 0, 1, 4, 2], [4], [2, 2]):
        got = triplet_topk(**moved(alone(case, queries), device), k=20)
        assert_same(got[:2], [whole.edge[queries], whole.score[queries]])
        assert_same(got[3:], [whole.available[queries]])


def test_slots_say_what_matched(device: str) -> None:
    case = reference.example(4, nodes=40, edges=200, hits=10, device=device)
    case["fragment"] = make_fragment(case["topology"], case["hits"], True)
    top: Top = triplet_topk(**case, k=500)
    topology, hits, relations = case["topology"], case["hits"], case["relations"]
    shown = top.edge >= 0
    edge = top.edge[shown].long()
    for i, (held, wanted) in enumerate(
        ((hits.node, topology.source), (hits.node, topology.target), (relations.key, topology.key))
    ):
        slot = top.slot[shown][:, i].long()
        assert torch.equal(held[slot[slot >= 0]], wanted[edge[slot >= 0]])
        assert (slot >= 0).any()
        assert (slot < 0).any()
    assert (top.slot[~shown] == -1).all()
    assert torch.equal(shown.sum(1), top.available)


def test_nan_scores_come_last(device: str, triton_device: str, triton_form) -> None:
    case = reference.example(3, nodes=20, edges=300, hits=12)
    case["hits"].term[::2] = torch.nan
    for k in (1, 5, 60, 300):
        want = reference.triplet_topk(**case, k=k)
        assert_same(triplet_topk(**moved(case, device), k=k), want)
        assert_same(triton_form("triplet_topk").triplet_topk(**moved(case, triton_device), k=k), want)
    assert torch.isnan(want.score).any(dim=1).all()
    assert torch.isfinite(want.score[:, 0]).all()


def test_a_listed_key_without_a_distance_is_not_matched(device: str, triton_device: str, triton_form) -> None:
    case = reference.example(3, nodes=20, edges=300, hits=12)
    case["relations"].distance[::2] = torch.inf
    want = reference.triplet_topk(**case, k=50)
    assert torch.isfinite(want.score[:, 0]).all()
    assert_same(triplet_topk(**moved(case, device), k=50), want)
    assert_same(triton_form("triplet_topk").triplet_topk(**moved(case, triton_device), k=50), want)


def test_does_not_depend_on_the_number_of_threads() -> None:
    case = reference.example(7, nodes=30, edges=200, hits=9)
    columns = (
        *case["topology"][:3], *case["fragment"], case["hits"].term, case["missing"], *case["relations"],
        *case["rule"][:2],
    )  # fmt: skip
    tops = [empty(7, 12, torch.device("cpu")) for _ in range(4)]
    for top, count in zip(tops, (1, 2, 7, 9), strict=True):
        cpu.triplet_topk(
            *(x.numpy() for x in columns),
            case["topology"].num_keys,
            *case["rule"][2:5],
            *(x.numpy() for x in top),
            count,
        )
        assert_same(top, reference.triplet_topk(**case, k=12))


@pytest.mark.parametrize(
    ("group", "field", "change"),
    [
        ("hits", "term", lambda x: x.float()),
        ("fragment", "indptr", lambda x: x[1:]),
        ("fragment", "edge", lambda x: x.long()),
        ("fragment", "source_slot", lambda x: x[1:]),
        ("fragment", "target_slot", lambda x: x.long()),
        ("relations", "indptr", lambda x: x[1:]),
        ("relations", "key", lambda x: x.long()),
        ("relations", "distance", lambda x: x.double()),
        ("rule", "importance", lambda x: x.float()),
        ("rule", "feedback", lambda x: x[1:]),
    ],
)
def test_refuses_other_shapes_and_dtypes(device: str, group: str, field: str, change) -> None:
    case = reference.example(device=device)
    case[group] = case[group]._replace(**{field: change(getattr(case[group], field))})
    with pytest.raises(ValueError, match=rf"^{group}\.{field}: expected"):
        triplet_topk(**case, k=1)


def test_refuses_missing_terms_of_another_shape_and_no_results(device: str) -> None:
    case = reference.example(device=device)
    with pytest.raises(ValueError, match=r"^missing: expected shape \(40\), got \(39,\)"):
        triplet_topk(**case | {"missing": case["missing"][1:]}, k=1)
    with pytest.raises(ValueError, match=r"^k: expected at least 1, got 0"):
        triplet_topk(**case, k=0)
