import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet_kernels import fragment as fragment_op
from tercet_kernels import fragment_topk as op
from tercet_kernels import triplet_topk as triplet_topk_op
from tercet_kernels._types import EdgeRule, NodeHits, RelationHits
from tercet_kernels.fragment import fragment
from tercet_kernels.fragment.reference import fragment as plain_fragment
from tercet_kernels.fragment.reference import make_topology
from tercet_kernels.fragment_topk import fragment_topk
from tercet_kernels.triplet_topk import reference as triplets
from tercet_kernels.triplet_topk import triplet_topk
from tests.kernels.cases import assert_same, to
from tests.kernels.test_triplet_topk import alone, moved, rough, scored, with_rule

BOTH_AND_EITHER = pytest.mark.parametrize("either", [False, True])


def without_fragment(case: dict) -> dict:
    return {name: part for name, part in case.items() if name != "fragment"}


@given(drawn=scored(), k=st.integers(1, 16))
@settings(max_examples=40, deadline=None, derandomize=True)
@BOTH_AND_EITHER
def test_equals_its_two_stages(drawn: tuple, k: int, either: bool) -> None:
    parts = drawn[1]
    parts["fragment"] = fragment(parts["topology"], parts["hits"], either=either)
    assert_same(fragment_topk(**without_fragment(parts), k=k, either=either), triplet_topk(**parts, k=k))


@pytest.mark.parametrize(("influence", "cliff"), [(0.0, False), (0.3, False), (0.3, True)])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000])
@BOTH_AND_EITHER
def test_equals_the_reference(device: str, size: int, influence: float, cliff: bool, either: bool) -> None:
    case = triplets.example(5, nodes=max(size, 1), edges=size, hits=max(size // 2, 1), seed=size, device=device)
    case = rough(with_rule(case, influence, cliff))
    case["fragment"] = plain_fragment(case["topology"], case["hits"], either)
    for k in (1, 10, 300):
        got = fragment_topk(**without_fragment(case), k=k, either=either)
        assert_same(got, triplets.triplet_topk(**case, k=k))


@BOTH_AND_EITHER
def test_triton_forms_in_turn_equal_the_cpu_form(triton_device: str, triton_form, monkeypatch, either: bool) -> None:
    first, second = triton_form("fragment"), triton_form("triplet_topk")
    monkeypatch.setattr(first, "BLOCK", dict.fromkeys(first.BLOCK, (4, 16)))
    case = triplets.example(3, nodes=12, edges=60, hits=5)
    want = fragment_topk(**without_fragment(case), k=7, either=either)
    case = moved(case, triton_device)
    case["fragment"] = first.fragment(case["topology"], case["hits"], either)
    assert_same(second.triplet_topk(**case, k=7), want)


@BOTH_AND_EITHER
def test_fewer_results_are_a_prefix_of_more(device: str, either: bool) -> None:
    case = without_fragment(triplets.example(5, nodes=60, edges=900, hits=30, device=device))
    most = fragment_topk(**case, k=400, either=either)
    for k in (1, 7, 64):
        top = fragment_topk(**case, k=k, either=either)
        assert_same(top[:3], [column[:, :k] for column in most[:3]])
        assert_same(top[3:], most[3:])


def test_a_query_has_the_same_answer_alone_and_in_any_order(device: str) -> None:
    case = triplets.example(6, nodes=40, edges=200, hits=10)
    whole = to(fragment_topk(**without_fragment(moved(case, device)), k=20, either=True), "cpu")
    for queries in ([5, 3, 0, 1, 4, 2], [4], [2, 2]):
        part = without_fragment(moved(alone(case, queries), device))
        got = fragment_topk(**part, k=20, either=True)
        assert_same(
            [got.edge, got.score, got.available], [x[queries] for x in (whole.edge, whole.score, whole.available)]
        )


@BOTH_AND_EITHER
def test_does_not_depend_on_the_number_of_threads(monkeypatch, either: bool) -> None:
    case = triplets.example(7, nodes=30, edges=200, hits=9)
    case["fragment"] = plain_fragment(case["topology"], case["hits"], either)
    want = triplets.triplet_topk(**case, k=12)
    for count in (1, 2, 7, 9):
        monkeypatch.setattr(op, "threads", lambda *_, count=count: count)
        assert_same(fragment_topk(**without_fragment(case), k=12, either=either), want)


@pytest.mark.parametrize("influence", [0.0, 0.3])
@pytest.mark.parametrize("hits", [1, 5, 30])
def test_lists_are_left_only_when_nothing_in_them_can_enter(influence: float, hits: int) -> None:
    """With the floor known, lists and relations are passed over; the answer and the count stay."""
    for seed in range(6):
        case = triplets.example(4, nodes=60, edges=500, hits=hits, seed=seed)
        importance = case["rule"].importance.clamp(0, 1)
        floor = (2.0 - float(importance.max())) * (1.0 - influence) * (1 - 1e-12)
        for known in (None, floor):
            case["rule"] = EdgeRule(importance, case["rule"].feedback.clamp(0, 1), influence, 6.5, False, known)
            for either in (False, True):
                case["fragment"] = plain_fragment(case["topology"], case["hits"], either)
                for k in (1, 3, 40, 600):
                    got = fragment_topk(**without_fragment(case), k=k, either=either)
                    assert_same(got, triplets.triplet_topk(**case, k=k))


def test_a_hub_is_not_read_when_enough_edges_join_hits() -> None:
    """Reading the hub's list would take its nan importance into a score."""
    nodes = 50
    source = [*range(1, 11), *[0] * (nodes - 11)]
    target = [0] * 10 + list(range(11, nodes))
    ends = (torch.tensor(x, dtype=torch.int32) for x in (source, target, [0] * len(source)))
    topology = make_topology(*ends, nodes, 1)
    importance = torch.full((len(source),), 0.5, dtype=torch.float64)
    importance[10:] = torch.nan
    node = torch.arange(11, dtype=torch.int32)
    case = {
        "topology": topology, "hits": NodeHits(torch.tensor([0, 11]), node, torch.linspace(0.1, 1, 11).double()),
        "missing": torch.full((nodes,), 9.75, dtype=torch.float64),
        "relations": RelationHits(torch.tensor([0, 1]), torch.zeros(1).int(), torch.tensor([0.2])),
        "rule": EdgeRule(importance, importance, 0.0, 6.5, False, 1.5),
    }  # fmt: skip
    top = fragment_topk(**case, k=10, either=True)
    assert top.edge[0].tolist() == list(range(10))
    assert not top.score.isnan().any()
    assert int(top.available[0]) == len(source)


@BOTH_AND_EITHER
def test_weights_are_not_read_of_an_edge_whose_relation_adds_too_much(either: bool) -> None:
    """Reading the weights of the unmatched edges would take their nan into a score."""
    nodes, near = 12, 4
    source, target = list(range(nodes)), [(n + 1) % nodes for n in range(nodes)]
    keys = [0 if e < near else 1 for e in range(nodes)]
    topology = make_topology(*(torch.tensor(x, dtype=torch.int32) for x in (source, target, keys)), nodes, 2)
    importance = torch.full((nodes,), 0.5, dtype=torch.float64)
    importance[near:] = torch.nan
    case = {
        "topology": topology,
        "hits": NodeHits(torch.tensor([0, nodes]), torch.arange(nodes).int(), torch.full((nodes,), 0.1).double()),
        "missing": torch.full((nodes,), 9.75, dtype=torch.float64),
        "relations": RelationHits(torch.tensor([0, 1]), torch.zeros(1).int(), torch.tensor([0.25])),
        "rule": EdgeRule(importance, importance, 0.0, 6.5, False, 1.5),
    }
    top = fragment_topk(**case, k=near, either=either)
    assert top.edge[0].tolist() == list(range(near))
    assert not top.score.isnan().any()
    assert int(top.available[0]) == nodes


@pytest.mark.parametrize("queries", [0, 1, 63, 64, 65, 200])
@BOTH_AND_EITHER
def test_any_number_of_queries_with_hubs_loops_and_hits_beyond_the_graph(queries: int, either: bool) -> None:
    """Query q has q + 1 hits, up to 43, so that what is fetched ahead of time begins and ends anywhere."""
    case = triplets.example(queries, nodes=40, edges=0, hits=43, seed=queries)
    g = torch.Generator().manual_seed(queries)
    source, target = (torch.randint(0, 40, (300,), generator=g, dtype=torch.int32) for _ in range(2))
    source[:120], target[120:140] = 0, source[120:140]  # a hub, with parallel edges; self-loops
    weights = [torch.rand(300, generator=g, dtype=torch.float64) for _ in range(2)]
    case["topology"] = make_topology(source, target, (torch.arange(300) % 7 - 1).int(), 40, 6)
    case["rule"] = EdgeRule(*weights, 0.0, 6.5, False, 1.0)
    used = torch.arange(43).tile(queries) <= torch.arange(queries).repeat_interleave(43)
    indptr = torch.cat([torch.zeros(1), used.reshape(queries, 43).sum(1).cumsum(0)]).long()
    case["hits"] = NodeHits(indptr, case["hits"].node[used], case["hits"].term[used])
    case["fragment"] = plain_fragment(case["topology"], case["hits"], either)
    assert_same(fragment_topk(**without_fragment(case), k=10, either=either), triplets.triplet_topk(**case, k=10))


def test_refuses_what_its_stages_refuse(device: str) -> None:
    case = without_fragment(triplets.example(device=device))
    for group, field in (("hits", "node"), ("relations", "key"), ("rule", "importance")):
        wrong = case[group]._replace(**{field: getattr(case[group], field).to(torch.int16)})
        with pytest.raises(ValueError, match=rf"^{group}\.{field}: expected"):
            fragment_topk(**case | {group: wrong}, k=1)
    with pytest.raises(ValueError, match=r"^missing: expected"):
        fragment_topk(**case | {"missing": case["missing"].float()}, k=1)
    with pytest.raises(ValueError, match=r"^k: expected at least 1, got -1"):
        fragment_topk(**case, k=-1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@BOTH_AND_EITHER
def test_cuda_without_triton_has_the_same_answer(monkeypatch, either: bool) -> None:
    case = without_fragment(triplets.example(5, nodes=60, edges=900, hits=30, device="cuda"))
    want = fragment_topk(**case, k=20, either=either)
    for module in (fragment_op, triplet_topk_op):
        monkeypatch.setattr(module, "has_triton", lambda: False)
    assert_same(fragment_topk(**case, k=20, either=either), want)


@pytest.mark.parametrize("const", [False, True])
@BOTH_AND_EITHER
def test_hits_and_keys_that_share_places_of_the_tables(either: bool, const: bool) -> None:
    """Few hits of many nodes and keys: their places are by the high bits of a product, and some meet."""
    nodes, edges, queries = 60_000, 4000, 5
    g = torch.Generator().manual_seed(3)
    hit = torch.stack([torch.randperm(nodes, generator=g)[:40].sort().values for _ in range(queries)])
    near = hit.flatten()[torch.randint(0, hit.numel(), (2, edges), generator=g)]
    far = torch.randint(0, nodes, (2, edges), generator=g)
    ends = torch.where(torch.rand(2, edges, generator=g) < 0.7, near, far).int()
    key = torch.randint(-1, nodes, (edges,), generator=g, dtype=torch.int32)
    known = torch.stack(
        [key[torch.randperm(edges, generator=g)[:30]].clamp(min=0).unique()[:20] for _ in range(queries)]
    )
    weights = [torch.rand(edges, generator=g, dtype=torch.float64) for _ in range(2)]
    missing = torch.full((nodes,), 9.75, dtype=torch.float64)
    if const:
        weights = [torch.full((1,), x, dtype=torch.float64).expand(edges) for x in (0.25, 0.75)]
        missing = missing[:1].clone().expand(nodes)
    indptr = torch.arange(queries + 1)
    case = {
        "topology": make_topology(ends[0], ends[1], key, nodes, nodes),
        "hits": NodeHits(40 * indptr, hit.int().flatten(), torch.rand(hit.numel(), generator=g).double()),
        "missing": missing,
        "relations": RelationHits(20 * indptr, known.int().flatten(), torch.rand(known.numel(), generator=g)),
        "rule": EdgeRule(*weights, 0.3, 6.5, False),
    }
    got = fragment_topk(**case, k=50, either=either)
    whole = {n: x.contiguous() if n == "missing" else x for n, x in case.items()}
    whole["rule"] = EdgeRule(*(w.contiguous() for w in weights), 0.3, 6.5, False)
    fragment = plain_fragment(case["topology"], case["hits"], either)
    assert_same(got, triplets.triplet_topk(**whole, fragment=fragment, k=50))
    assert int(got.available.min()) > 20
