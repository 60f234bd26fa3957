"""Graphs, hits and comparisons that the tests of several kernels share."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

import torch
from hypothesis import strategies as st

from tercet_kernels._types import Fragment, NodeHits, RelationHits, Topology
from tercet_kernels.fragment.reference import make_topology

Value = TypeVar("Value", bound=tuple)
NUM_KEYS = 3


class Case(NamedTuple):
    """A graph and the matched nodes of some queries, as plain lists."""

    num_nodes: int
    edges: list[tuple[int, int, int]]  # source, target, relation key
    selected: list[list[int]]  # nodes of each query, ascending; some are beyond the graph


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Small multigraphs with self loops, parallel edges and isolated nodes."""
    num_nodes = draw(st.integers(1, 7))
    node = st.integers(0, num_nodes - 1)
    edges = draw(st.lists(st.tuples(node, node, st.integers(-1, NUM_KEYS - 1)), max_size=14))
    selected = draw(st.lists(st.sets(st.integers(0, num_nodes + 1)), max_size=4))
    return Case(num_nodes, edges, [sorted(nodes) for nodes in selected])


def topology_of(case: Case) -> Topology:
    columns = torch.tensor(case.edges, dtype=torch.int32).reshape(-1, 3).T.contiguous()
    return make_topology(*columns, case.num_nodes, NUM_KEYS)


def offsets_of(groups: Sequence[Sequence]) -> torch.Tensor:
    return torch.tensor([0, *(len(group) for group in groups)]).cumsum(0)


def node_hits(selected: list[list[int]], term: Sequence[float] | None = None) -> NodeHits:
    node = torch.tensor([node for nodes in selected for node in nodes], dtype=torch.int32)
    terms = torch.zeros(node.shape[0]) if term is None else torch.tensor(term[: node.shape[0]], dtype=torch.float64)
    return NodeHits(offsets_of(selected), node, terms.double())


def relation_hits(found: list[dict[int, float]]) -> RelationHits:
    key = torch.tensor([key for keys in found for key in sorted(keys)], dtype=torch.int32)
    distance = torch.tensor([keys[key] for keys in found for key in sorted(keys)], dtype=torch.float32)
    return RelationHits(offsets_of(found), key, distance)


def to(value: Value, device: str) -> Value:
    """A named tuple with its tensors moved."""
    return type(value)(*(x.to(device) if isinstance(x, torch.Tensor) else x for x in value))


def assert_same(got: Sequence[torch.Tensor], want: Sequence[torch.Tensor]) -> None:
    """Equal to the last bit, NaN beside NaN; dtypes too."""
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        torch.testing.assert_close(
            a.cpu(), b.cpu(), rtol=0, atol=0, equal_nan=True, msg=lambda m, i=i: f"field {i}: {m}"
        )


def group(indptr: torch.Tensor, values: torch.Tensor) -> list[list]:
    """The slices of a ragged value."""
    bounds = indptr.tolist()
    return [values[low:high].tolist() for low, high in pairwise(bounds)]


def take(hits: Value, queries: Sequence[int]) -> Value:
    """The slices of chosen queries, in that order, as a batch of their own."""
    at = [torch.arange(int(hits[0][q]), int(hits[0][q + 1])) for q in queries]
    rows = torch.cat([*at, torch.zeros(0, dtype=torch.int64)])
    return type(hits)(offsets_of(at), *(column[rows] for column in hits[1:]))


def named_slots(fragment: Fragment, hits: NodeHits) -> list[list[tuple[int, int, int]]]:
    """Each query's (edge, node of the source slot, node of the target slot), -1 for an end without a slot."""
    ends = [
        torch.where(slot >= 0, hits.node[slot.long().clamp(min=0)], -1) if hits.node.shape[0] else slot
        for slot in (fragment.source_slot, fragment.target_slot)
    ]
    rows = torch.stack([fragment.edge, *ends], dim=1)
    return [[tuple(row) for row in part] for part in group(fragment.indptr, rows)]
