"""Facts between the names of a graph: their vectors, and the passages that they are in."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch

from tercet.candidates import Bound
from tercet.graph import Graph
from tercet.multihop.lists import Lists, expanded, hit, of_pairs, owners, paired
from tercet.multihop.vectors import covering, first_rows, vectors_of
from tercet_kernels import csr
from tercet_kernels.fact_paths import Facts, fact_scale


class FactEnds(NamedTuple):
    """The edges that are facts, and the names at their ends."""

    edge: np.ndarray  # (F,) int32 edge rows, ascending
    source: np.ndarray  # (F,) int32 names
    target: np.ndarray  # (F,) int32 names


def fact_vectors(graph: Graph, bound: Sequence[Bound], ends: FactEnds, names: int) -> Facts | None:
    """Facts with the vectors of their parts; None where no fact's end has a vector.

    Vectors of ends are from the node collection that has most of them, the first of a node; those of relations from
    the first collection of relations.

    Raises:
        InvalidArgument: such a collection keeps vectors as they were given.
    """
    rows = [x.cpu().numpy()[ends.edge] for x in (graph.source, graph.target)]
    entities = covering(bound, np.unique(np.concatenate(rows)), graph.num_nodes)
    if entities is None:
        return None
    first = first_rows(entities, graph.num_nodes)
    source, target = first[rows[0]], first[rows[1]]
    vectors = vectors_of(entities.collection)
    relations, relation = np.zeros((0, vectors.shape[1]), np.float32), np.full(len(ends.edge), -1, np.int32)
    found = next((b for b in bound if b.collection.kind == "relation" and b.collection.size), None)
    if found is not None:
        key = graph.relation_key.cpu().numpy()[ends.edge]
        relations, of_key = vectors_of(found.collection), first_rows(found, len(graph.keys))
        relation[key >= 0] = of_key[key[key >= 0]]
    indptr, fact, other = _at_both_ends(ends, names)
    scale = fact_scale(source, target, relation, vectors, relations)
    return Facts(indptr, fact, other, source, target, relation, vectors, relations, scale)


def fact_passages(graph: Graph, place: np.ndarray, ends: FactEnds, held: Lists, holders: Lists) -> Lists:
    """The passages of each fact, ascending: those that hold both ends' names, and the one its edge names.

    Args:
        place: (N,) int32 the passage that each node is, -1 for none.
        held, holders: names of each passage, passages of each name, ascending.
    """
    counts = np.diff(holders[0])
    turned = counts[ends.source] > counts[ends.target]
    fewer, more = np.where(turned, ends.target, ends.source), np.where(turned, ends.source, ends.target)
    fact, passage = expanded(holders, fewer)
    both = hit(paired(owners(held[0]), held[1]), paired(passage, more[fact]))[1]
    fact, passage = fact[both], passage[both]
    if "passage" in graph.edges.schema.names:
        column = graph.edges.column("passage").take(pa.array(ends.edge))
        told = np.flatnonzero(np.asarray(column.is_valid()))
        row = graph.rows(column.take(pa.array(told))) if len(told) else np.zeros(0, np.int32)
        fact = np.concatenate([fact, told])
        passage = np.concatenate([passage, np.where(row >= 0, place[np.maximum(row, 0)], -1)])
    return of_pairs(fact, passage, len(ends.edge))


def _at_both_ends(ends: FactEnds, names: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(indptr, fact, other) of each name's facts: those that it is the source of, then the others; a loop once."""
    back = np.flatnonzero(ends.source != ends.target)
    indptr, order = csr.group(torch.from_numpy(np.concatenate([ends.source, ends.target[back]])), names)
    fact = np.concatenate([np.arange(len(ends.edge)), back])[order.numpy()]
    other = np.concatenate([ends.target, ends.source[back]])[order.numpy()]
    return indptr.numpy(), fact.astype(np.int32), other
