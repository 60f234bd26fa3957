import pytest
import torch
from hypothesis import example, given, settings

from tercet_kernels._threads import threads
from tercet_kernels._types import Fragment, NodeHits, Topology
from tercet_kernels.fragment import cpu, fragment, reference
from tests.kernels.cases import Case, assert_same, cases, named_slots, node_hits, take, to, topology_of

BOTH_AND_EITHER = pytest.mark.parametrize("either", [False, True])
HUB = Case(6, [(0, i % 6, 0) for i in range(20)] + [(i % 6, 0, 1) for i in range(20)], [[0], [0, 1, 5], [2, 3], []])
LOOPS = Case(3, [(0, 0, 0), (0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 1, 1)], [[0], [1], [0, 1, 2, 4], [3, 4]])


def plain_fragment(case: Case, either: bool) -> list[list[tuple[int, int, int]]]:
    """(edge, matched source or -1, matched target or -1) of every admitted edge."""
    out = []
    for nodes in case.selected:
        ends = [(e, s if s in nodes else -1, t if t in nodes else -1) for e, (s, t, _) in enumerate(case.edges)]
        out.append([row for row in ends if (row[1] >= 0 or row[2] >= 0 if either else row[1] >= 0 and row[2] >= 0)])
    return out


@given(case=cases())
@example(case=HUB)
@example(case=LOOPS)
@example(case=Case(1, [], [[], []]))
@example(case=Case(1, [(0, 0, 0)], []))
@settings(max_examples=40, deadline=None, derandomize=True)
@BOTH_AND_EITHER
def test_admits_what_plain_python_admits(case: Case, either: bool) -> None:
    topology, hits = topology_of(case), node_hits(case.selected)
    for form in (lambda: fragment(topology, hits, either=either), lambda: reference.fragment(topology, hits, either)):
        assert named_slots(form(), hits) == plain_fragment(case, either)


@BOTH_AND_EITHER
@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000])
def test_equals_the_reference(device: str, size: int, either: bool) -> None:
    case = reference.example(5, nodes=max(size, 1), edges=size, hits=max(size // 2, 1), seed=size, device=device)
    got, want = fragment(**case, either=either), reference.fragment(**case, either=either)
    assert_same(got, want)
    assert size < 63 or want.edge.shape[0] > 0


@pytest.mark.parametrize("block", [None, (2, 4)])
@BOTH_AND_EITHER
def test_triton_form_equals_the_reference(
    triton_device: str, triton_form, monkeypatch, either: bool, block: tuple[int, int] | None
) -> None:
    form = triton_form("fragment")
    monkeypatch.setattr(
        form, "BLOCK", dict.fromkeys(form.BLOCK, block) if block else form.BLOCK | {1: (4, 16), 2: (4, 16)}
    )
    case = reference.example(3, nodes=12, edges=60, hits=5, device=triton_device)
    assert_same(form.fragment(*case.values(), either), reference.fragment(**case, either=either))


@pytest.mark.parametrize(
    "case", [HUB, LOOPS, Case(1, [], [[0], []]), Case(2, [(0, 1, 0)], []), Case(2, [(0, 1, 0)], [[], []])]
)
@BOTH_AND_EITHER
def test_triton_form_admits_what_plain_python_admits(
    triton_device: str, triton_form, monkeypatch, case: Case, either: bool
) -> None:
    form = triton_form("fragment")
    monkeypatch.setattr(form, "BLOCK", dict.fromkeys(form.BLOCK, (4, 8)))  # the hub's list takes several steps
    topology, hits = to(topology_of(case), triton_device), to(node_hits(case.selected), triton_device)
    got = form.fragment(topology, hits, either)
    assert named_slots(to(got, "cpu"), to(hits, "cpu")) == plain_fragment(case, either)
    assert_same(got, reference.fragment(topology, hits, either))


@BOTH_AND_EITHER
def test_a_query_has_the_same_slice_alone_and_in_any_order(device: str, either: bool) -> None:
    case = reference.example(7, nodes=30, edges=200, hits=9, seed=3)
    topology, hits = to(case["topology"], device), case["hits"]
    whole = named_slots(to(fragment(topology, to(hits, device), either=either), "cpu"), hits)
    for queries in ([4, 0, 6, 2, 1, 5, 3], [3], [2, 2]):
        part = take(hits, queries)
        got = fragment(topology, to(part, device), either=either)
        assert named_slots(to(got, "cpu"), part) == [whole[q] for q in queries]


@BOTH_AND_EITHER
def test_does_not_depend_on_the_number_of_threads(either: bool) -> None:
    case = reference.example(7, nodes=30, edges=200, hits=9)
    t, hits = case["topology"], case["hits"]
    columns = (
        t.source, t.target, t.oriented_indptr, t.oriented_edge, t.oriented_other, t.out_indptr, t.out_edge, t.in_indptr,
        t.in_edge, hits.indptr, hits.node,
    )  # fmt: skip
    got = [cpu.fragment(*(x.numpy() for x in columns), either, count) for count in (1, 2, 7, 9)]
    for other in got[1:]:
        assert_same([torch.from_numpy(x) for x in other], [torch.from_numpy(x) for x in got[0]])
    assert threads(hits.indptr[:1]) == 1


def test_slots_point_into_the_querys_own_slice(device: str) -> None:
    case = reference.example(6, nodes=40, edges=300, hits=15, device=device)
    got: Fragment = fragment(**case, either=True)
    hits: NodeHits = case["hits"]
    topology: Topology = case["topology"]
    query = torch.repeat_interleave(torch.arange(6, device=device), got.indptr.diff())
    for slot, end in ((got.source_slot, topology.source), (got.target_slot, topology.target)):
        matched = slot >= 0
        row = slot[matched].long()
        assert torch.equal(hits.node[row], end[got.edge[matched].long()])
        assert ((row >= hits.indptr[query[matched]]) & (row < hits.indptr[query[matched] + 1])).all()
        assert matched.any()
        assert not matched.all()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("indptr", lambda x: x.int()),
        ("node", lambda x: x.long()),
        ("node", lambda x: x[:, None]),
        ("term", lambda x: x.float()),
        ("term", lambda x: x[1:]),
    ],
)
def test_refuses_other_shapes_and_dtypes(device: str, name: str, change) -> None:
    case = reference.example(device=device)
    hits = case["hits"]._replace(**{name: change(getattr(case["hits"], name))})
    with pytest.raises(ValueError, match=rf"^hits\.{name}: expected"):
        fragment(case["topology"], hits)
