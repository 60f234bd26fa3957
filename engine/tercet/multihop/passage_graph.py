"""Passages, the names in them and the facts between names: what the multi-hop search walks over."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from tercet.candidates import Bound
from tercet.errors import InvalidArgument
from tercet.graph import Graph
from tercet.multihop.facts import FactEnds, fact_passages, fact_vectors
from tercet.multihop.lists import Lists, joined, of_pairs, owners, paired, turned
from tercet.multihop.names import FUNCTION_WORDS, Names
from tercet.multihop.vectors import PassageVectors, passage_vectors
from tercet.retrieve.lexical import LexicalIndex
from tercet_kernels import csr
from tercet_kernels._types import Topology
from tercet_kernels.fact_paths import Facts
from tercet_kernels.personalized_pagerank import Walk, walk_of

PASSAGE_TYPES = ("DocumentChunk", "TextUnit", "Chunk", "Passage")  # of importers; case doesn't matter
NAMED = 1.0  # weight of the step between a passage and a name in it
FACT = 1.0  # weight of the step between the ends of a fact


@dataclass(frozen=True, eq=False)
class PassageGraph:
    """P passages, G distinct names and F facts, as flat arrays on the host; the walk is on the engine's device.

    Nodes of the walk are the passages, then the names. Names are numbered by the first passage that has them, so that
    what is near in the graph is near in memory.
    """

    passage: np.ndarray  # (P,) int32 node rows, ascending
    names: Names
    words: LexicalIndex  # of the passages' texts
    vectors: PassageVectors
    held: Lists  # names in each passage, of entities and its own
    called: Lists  # names that each passage is called by
    holders: Lists  # passages that hold each name
    titled: Lists  # passages that are called by each name
    facts: Facts | None  # None: no end of a fact has a vector
    fact_passage: Lists  # passages of each fact
    topology: Topology  # of the walk
    walk: Walk

    @property
    def size(self) -> int:
        return len(self.passage)

    @cached_property
    def frequency(self) -> np.ndarray:
        """(G,) int64 passages that hold each name."""
        return np.diff(self.holders[0])

    @cached_property
    def rarity(self) -> np.ndarray:
        """(G,) float64: 1 over log2(1 + passages that hold the name)."""
        return 1.0 / np.log2(1.0 + np.maximum(self.frequency, 1))


def passage_graph(
    graph: Graph, bound: Sequence[Bound], device: torch.device, types: str | Sequence[str] | None, title_weight: float
) -> PassageGraph:
    """Read a graph as passages, names and facts.

    Passages are the nodes of the given types; the other ends of their edges are the names in them. Edges between other
    nodes are facts. A passage is also called by its name, and by that without what is in brackets. A fact is in the
    passages that its edge column `passage` names, and in all that hold both of its ends' names.

    Args:
        bound: the engine's collections, which have the vectors of passages, entities and relations.
        types: of the nodes that are passages, whatever their case; None: `PASSAGE_TYPES`.
        title_weight: of the step between a passage and the name that it is called by.

    Raises:
        InvalidArgument: no node is of such a type, or vectors of passages are missing or not of unit norm.
    """
    is_passage = _is_passage(graph, types)
    passage = np.flatnonzero(is_passage).astype(np.int32)
    vectors = passage_vectors(bound, passage, graph.num_nodes)
    place = np.full(graph.num_nodes, -1, np.int32)
    place[passage] = np.arange(len(passage), dtype=np.int32)
    source, target = (x.cpu().numpy() for x in (graph.source, graph.target))
    across = np.flatnonzero(is_passage[source] ^ is_passage[target])
    one, two = source[across], target[across]
    inside, other = place[np.where(is_passage[one], one, two)], np.where(is_passage[one], two, one)
    names, name, bare = _names(graph, passage, inside, other)
    called = of_pairs(np.tile(np.arange(len(passage)), 2), np.concatenate([name[passage], bare]), len(passage))
    mentioned = of_pairs(inside, name[other], len(passage))
    held = joined(mentioned, called)
    holders = turned(held, len(names))
    fact = ~is_passage[source] & ~is_passage[target] & (name[source] >= 0) & (name[target] >= 0)
    edge = np.flatnonzero(fact).astype(np.int32)
    ends = FactEnds(edge, name[source[edge]], name[target[edge]])
    topology, weight = _topology(mentioned, called, ends, len(names), title_weight, device)
    return PassageGraph(
        passage, names, _words(graph, passage), vectors, held, called, holders, turned(called, len(names)),
        fact_vectors(graph, bound, ends, len(names)), fact_passages(graph, place, ends, held, holders), topology,
        walk_of(topology, "both", weight),
    )  # fmt: skip


def _is_passage(graph: Graph, types: str | Sequence[str] | None) -> np.ndarray:
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


def _names(
    graph: Graph, passage: np.ndarray, inside: np.ndarray, other: np.ndarray
) -> tuple[Names, np.ndarray, np.ndarray]:
    """The distinct names, by the first passage that has them.

    Args:
        inside, other: (X,) passages, and nodes in them.

    Returns:
        the names, (N,) int32 the name of each node, and (P,) int32 that of each passage without what is in brackets;
        -1 for one without a word.
    """
    title = graph.nodes.column("name").combine_chunks().cast(pa.large_string())
    bare = pc.replace_substring_regex(title.take(pa.array(passage)), r"\(.*?\)", "").cast(pa.large_string())
    first = np.full(len(title) + len(bare), len(passage), np.int64)
    first[passage] = first[len(title) :] = np.arange(len(passage))
    np.minimum.at(first, other, inside)
    order = np.argsort(first, kind="stable")
    texts = pc.fill_null(pa.concat_arrays([title, bare]), "")
    names, found = Names.build(texts.take(pa.array(order)))
    of_text = np.empty_like(found)
    of_text[order] = found
    return names, of_text[: len(title)], of_text[len(title) :]


def _words(graph: Graph, passage: np.ndarray) -> LexicalIndex:
    """BM25 over the passages' texts, or their names where they have none."""
    rows = graph.nodes.take(pa.array(passage))
    columns = [rows.column(c).cast(pa.large_string()) for c in ("text", "name") if c in rows.schema.names]
    return LexicalIndex.build(pc.fill_null(pc.coalesce(*columns), ""), stopwords=FUNCTION_WORDS)


def _topology(
    mentioned: Lists, called: Lists, ends: FactEnds, names: int, title_weight: float, device: torch.device
) -> tuple[Topology, torch.Tensor]:
    """The graph that is walked, one edge for all between the same two nodes, and the weights of its edges."""
    passages = len(called[0]) - 1
    parts = [
        (owners(mentioned[0]), mentioned[1] + passages, NAMED),
        (owners(called[0]), called[1] + passages, title_weight),
        (ends.source + passages, ends.target + passages, FACT),
    ]
    one, two = (np.concatenate([p[i] for p in parts]) for i in (0, 1))
    weight = np.concatenate([np.full(len(p[0]), p[2]) for p in parts])
    key, edge = np.unique(paired(np.minimum(one, two), np.maximum(one, two)), return_inverse=True)
    source, target = (torch.from_numpy(x.astype(np.int32)) for x in (key >> 32, key & 0xFFFFFFFF))
    size = passages + names
    out, into = csr.group(source, size), csr.group(target, size)
    empty = torch.zeros(0, dtype=torch.int32)
    unused = torch.zeros(size + 1, dtype=torch.int64)  # a walk doesn't read the oriented lists
    made = Topology(source, target, empty, unused, empty, empty, out[0], out[1], into[0], into[1], 0)
    added = np.bincount(edge, weight, minlength=len(key)).astype(np.float64)  # without edges NumPy counts integers
    return Topology._make(x.to(device) if isinstance(x, torch.Tensor) else x for x in made), torch.from_numpy(added).to(
        device
    )
