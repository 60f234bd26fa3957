"""Passages, the names in them and the facts between names: what the multi-hop search walks over."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from tercet.candidates import Bound
from tercet.collection import Collection
from tercet.errors import InvalidArgument
from tercet.graph import Graph
from tercet.index.raw import RawIndex
from tercet.index.segmented import SegmentedIndex, rows_of
from tercet.multihop.names import FUNCTION_WORDS, Names
from tercet.retrieve.lexical import LexicalIndex
from tercet_kernels import csr
from tercet_kernels._types import Topology
from tercet_kernels.fact_paths import Facts, fact_scale
from tercet_kernels.personalized_pagerank import Walk, walk_of

PASSAGE_TYPES = ("DocumentChunk", "TextUnit", "Chunk", "Passage")  # of importers; case doesn't matter
NAMED = 1.0  # weight of the step between a passage and a name in it

Lists = tuple[np.ndarray, np.ndarray]  # (indptr int64, item int32)


@dataclass(frozen=True, eq=False)
class PassageGraph:
    """P passages, G distinct names and F facts, as flat arrays on the host; the walk is on the engine's device.

    Nodes of the walk are the passages, then the names.
    """

    passage: np.ndarray  # (P,) int32 node rows, ascending
    names: Names
    words: LexicalIndex  # of the passages' texts
    held: Lists  # names in each passage, of entities and its own
    called: Lists  # names that each passage is called by
    holders: Lists  # passages that hold each name
    titled: Lists  # passages that are called by each name
    facts: Facts | None  # None: no entity or no fact has a vector
    fact_passage: Lists  # passages of each fact
    fact_edge: np.ndarray  # (F,) int32 edge rows
    walk: Walk
    topology: Topology  # of the walk

    @property
    def size(self) -> int:
        return len(self.passage)

    @property
    def frequency(self) -> np.ndarray:
        """(G,) int64 passages that hold each name."""
        return np.diff(self.holders[0])

    @property
    def rarity(self) -> np.ndarray:
        """(G,) float64: 1 over log2(1 + passages that hold the name)."""
        return 1.0 / np.log2(1.0 + np.maximum(self.frequency, 1))


def passage_graph(
    graph: Graph, bound: list[Bound], device: torch.device, types: Sequence[str] | None, title_weight: float
) -> PassageGraph:
    """Read a graph as passages, names and facts.

    Passages are the nodes of the given types; the other ends of their edges are the names in them. Edges between other
    nodes are facts. A passage is also called by its name, and by that without what is in brackets. A fact is in the
    passages that its edge column `passage` names, and in all that hold both of its ends' names.

    Args:
        bound: the engine's collections: vectors of entities and of relations are taken from them.
        types: of the nodes that are passages, whatever their case; None: `PASSAGE_TYPES`.
        title_weight: of the step between a passage and the name that it is called by.

    Raises:
        InvalidArgument: no node is of such a type.
    """
    is_passage = _is_passage(graph, types)
    passage = np.flatnonzero(is_passage).astype(np.int32)
    place = np.full(graph.num_nodes, -1, np.int32)
    place[passage] = np.arange(len(passage), dtype=np.int32)
    source, target = (x.cpu().numpy() for x in (graph.source, graph.target))
    title = graph.nodes.column("name").combine_chunks().cast(pa.large_string())
    bare = pc.replace_substring_regex(title.take(pa.array(passage)), r"\(.*?\)", "")
    texts = pa.concat_arrays([title, bare.cast(pa.large_string())])
    names, of_text = Names.build(pc.fill_null(texts, ""))
    name = of_text[: graph.num_nodes]
    own = _lists(
        np.concatenate([np.arange(len(passage))] * 2), np.concatenate([name[passage], of_text[graph.num_nodes :]]),
        len(passage),
    )  # fmt: skip
    one, two = is_passage[source], is_passage[target]
    across = np.flatnonzero(one ^ two)
    inside = np.where(one[across], source[across], target[across])
    other = np.where(one[across], target[across], source[across])
    mentioned = _lists(place[inside], name[other], len(passage))
    held = _joined(mentioned, own)
    holders = _turned(held, len(names))
    edge = np.flatnonzero(~one & ~two & (name[source] >= 0) & (name[target] >= 0)).astype(np.int32)
    ends = (name[source[edge]], name[target[edge]])
    topology, weight = _topology(mentioned, own, ends, len(passage), len(names), title_weight, device)
    return PassageGraph(
        passage, names, _words(graph, passage), held, own, holders, _turned(own, len(names)),
        _facts(graph, bound, edge, ends, len(names)), _fact_passages(graph, place, edge, ends, held, holders), edge,
        walk_of(topology, "both", weight), topology,
    )  # fmt: skip


def _words(graph: Graph, passage: np.ndarray) -> LexicalIndex:
    """BM25 over the passages' texts, or their names where they have none."""
    rows = graph.nodes.take(pa.array(passage))
    columns = [rows.column(c).cast(pa.large_string()) for c in ("text", "name") if c in rows.schema.names]
    return LexicalIndex.build(pc.fill_null(pc.coalesce(*columns), ""), stopwords=FUNCTION_WORDS)


def _is_passage(graph: Graph, types: Sequence[str] | None) -> np.ndarray:
    wanted = [t.lower() for t in (PASSAGE_TYPES if types is None else [types] if isinstance(types, str) else types)]
    column = pc.utf8_lower(pc.fill_null(graph.nodes.column("type").cast(pa.large_string()), ""))
    found = np.asarray(pc.is_in(column, value_set=pa.array(wanted, pa.large_string())), bool)
    if not found.any():
        there = [str(t) for t in graph.nodes.column("type").unique().to_pylist()[:8]]
        raise InvalidArgument(
            f"passage_type: no node has a type among {', '.join(wanted)}; "
            f"the graph has {', '.join(there) or 'no nodes'}"
        )
    return found


def _lists(owner: np.ndarray, item: np.ndarray, size: int) -> Lists:
    """Distinct items >= 0 of each owner, ascending."""
    kept = item >= 0
    pair = np.unique(owner[kept].astype(np.int64) << 32 | item[kept].astype(np.int64))
    indptr = np.searchsorted(pair, np.arange(size + 1, dtype=np.int64) << 32).astype(np.int64)
    return indptr, (pair & 0xFFFFFFFF).astype(np.int32)


def owners(lists: Lists) -> np.ndarray:
    """The owner of each item."""
    return np.repeat(np.arange(len(lists[0]) - 1), np.diff(lists[0]))


def _joined(one: Lists, two: Lists) -> Lists:
    return _lists(np.concatenate([owners(one), owners(two)]), np.concatenate([one[1], two[1]]), len(one[0]) - 1)


def _turned(lists: Lists, size: int) -> Lists:
    """Owners of each item."""
    indptr, order = csr.group(torch.from_numpy(lists[1]), size)
    return indptr.numpy(), owners(lists)[order.numpy()].astype(np.int32)


def _topology(
    mentioned: Lists, own: Lists, ends: tuple[np.ndarray, np.ndarray], passages: int, names: int, title_weight: float,
    device: torch.device,
) -> tuple[Topology, torch.Tensor]:  # fmt: skip
    """The graph that is walked, and the weights of its edges."""
    parts = [
        (owners(mentioned), mentioned[1] + passages, NAMED), (owners(own), own[1] + passages, title_weight),
        (ends[0] + passages, ends[1] + passages, 1.0),
    ]  # fmt: skip
    source = torch.from_numpy(np.concatenate([p[0] for p in parts]).astype(np.int32))
    target = torch.from_numpy(np.concatenate([p[1] for p in parts]).astype(np.int32))
    weight = torch.from_numpy(np.concatenate([np.full(len(p[0]), p[2]) for p in parts]))
    size = passages + names
    out, into = csr.group(source, size), csr.group(target, size)
    empty = torch.zeros(0, dtype=torch.int32)
    unused = torch.zeros(size + 1, dtype=torch.int64)  # a walk doesn't read the oriented lists
    made = Topology(source, target, empty, unused, empty, empty, out[0], out[1], into[0], into[1], 0)
    return Topology._make(x.to(device) if isinstance(x, torch.Tensor) else x for x in made), weight.to(device)


def _facts(
    graph: Graph, bound: list[Bound], edge: np.ndarray, ends: tuple[np.ndarray, np.ndarray], size: int
) -> Facts | None:
    """Facts with the vectors of their parts; None without vectors of entities."""
    entity, relation = (
        _entity_collection(graph, bound, edge),
        next((b for b in bound if b.collection.kind == "relation" and b.collection.size), None),
    )
    if entity is None or not len(edge):
        return None
    row = first_rows(entity, graph.num_nodes)
    names = vectors_of(entity.collection)
    parts = [row[x.cpu().numpy()[edge]] for x in (graph.source, graph.target)]
    if relation is None:
        relations, of_edge = np.zeros((0, names.shape[1]), np.float32), np.full(len(edge), -1, np.int32)
    else:
        relations = vectors_of(relation.collection)
        key = graph.relation_key.cpu().numpy()[edge]
        of_edge = np.where(key >= 0, first_rows(relation, len(graph.keys))[np.maximum(key, 0)], -1).astype(np.int32)
    source, target = parts
    indptr, fact, other = _lists_in_order(np.concatenate(ends), np.concatenate(ends[::-1]), size)
    scale = fact_scale(source, target, of_edge, names, relations)
    return Facts(indptr, fact, other, source, target, of_edge, names, relations, scale)


def _lists_in_order(entity: np.ndarray, other: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(indptr, fact, other) of facts that are listed at both ends, as sources first."""
    facts = len(entity) // 2
    indptr, order = csr.group(torch.from_numpy(entity.astype(np.int32)), size)
    at = order.numpy()
    return indptr.numpy(), (at % max(facts, 1)).astype(np.int32), other[at].astype(np.int32)


def _entity_collection(graph: Graph, bound: list[Bound], edge: np.ndarray) -> Bound | None:
    """The node collection that has vectors of most ends of facts."""
    ends = np.zeros(graph.num_nodes + 1, bool)
    for x in (graph.source, graph.target):
        ends[x.cpu().numpy()[edge]] = True
    best, most = None, 0
    for b in bound:
        if b.collection.kind == "node":
            count = int(ends[np.minimum(b.owner.cpu().numpy(), graph.num_nodes)].sum())
            if count > most:
                best, most = b, count
    return best


def first_rows(b: Bound, size: int) -> np.ndarray:
    """(size,) int32 the first row of each owner, -1 without one."""
    out = np.full(size, -1, np.int32)
    owner = b.owner.cpu().numpy()
    rows = np.flatnonzero((owner >= 0) & (owner < size))[::-1]
    out[owner[rows]] = rows
    return out


def vectors_of(collection: Collection) -> np.ndarray:
    """(V, D) float32 vectors of unit norm of a collection, on the host; shared with it where they are kept like that.

    Raises:
        InvalidArgument: the index keeps vectors as they were given.
    """
    index = collection.index
    if isinstance(index, RawIndex):
        raise InvalidArgument(f"collection {collection.name!r}: expected vectors of unit norm, got a raw index")
    exact = (
        index.picked(torch.arange(index.size)) if isinstance(index, SegmentedIndex) else rows_of(index)  # type: ignore[arg-type]
    )
    vectors, scale = exact.vectors, exact.scale
    wide = vectors.float() if scale is None else (vectors.double() * scale[:, None]).float()
    return wide.cpu().contiguous().numpy()


def _fact_passages(
    graph: Graph, place: np.ndarray, edge: np.ndarray, ends: tuple[np.ndarray, np.ndarray], held: Lists,
    holders: Lists,
) -> Lists:  # fmt: skip
    """The passages of each fact, ascending."""
    counts = np.diff(holders[0])
    fewer = np.where(counts[ends[0]] <= counts[ends[1]], ends[0], ends[1])
    more = np.where(counts[ends[0]] <= counts[ends[1]], ends[1], ends[0])
    taken = counts[fewer]
    fact = np.repeat(np.arange(len(edge)), taken)
    at = np.arange(len(fact)) - np.repeat(np.cumsum(taken) - taken, taken) + np.repeat(holders[0][fewer], taken)
    passage = holders[1][at].astype(np.int64)
    wanted = passage << 32 | more[fact].astype(np.int64)
    there = owners(held).astype(np.int64) << 32 | held[1].astype(np.int64)  # ascending
    found = np.searchsorted(there, wanted)
    hit = (found < len(there)) & (there[np.minimum(found, max(len(there) - 1, 0))] == wanted) if len(there) else (
        np.zeros(len(wanted), bool))  # fmt: skip
    fact, passage = fact[hit], passage[hit]
    if "passage" in graph.edges.schema.names:
        column = graph.edges.column("passage").take(pa.array(edge))
        told = np.flatnonzero(np.asarray(column.is_valid()))
        row = graph.rows(column.take(pa.array(told))) if len(told) else np.zeros(0, np.int32)
        named = np.where(row >= 0, place[np.maximum(row, 0)], -1)
        fact = np.concatenate([fact, told[named >= 0]])
        passage = np.concatenate([passage, named[named >= 0]])
    return _lists(fact, passage, len(edge))
