"""What the cells of several suites share: workloads by name, engines, topologies and fixed candidates."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from bench import real
from bench.workloads import KINDS, Workload, make
from tercet import Collection, Engine, Graph
from tercet.errors import InvalidArgument
from tercet_kernels import csr
from tercet_kernels._types import EdgeRule, NodeHits, RelationHits, Topology

TYPES, ENTITIES, RELATIONS = "EntityType_name", "Entity_name", "EdgeType_relationship_name"
PENALTY = 6.5  # Engine.recall's default distance of an element that wasn't matched
FACTOR = 1.5  # 2 - importance, for the default importance of 0.5
SCALE = {"": 1, "k": 1_000, "M": 1_000_000}
CANDIDATES = ("uniform", "topical", "hubs")


def parse(spec: str) -> tuple[str, int, int, int | Literal["each"] | None]:
    """`KIND:NODES:EDGES[:TEXTS]` such as `uniform:10k:50k` or `uniform:100k:500k:each`; TEXTS are distinct ones."""
    parts = spec.split(":")
    if parts[0] not in KINDS or len(parts) not in (3, 4):
        raise InvalidArgument(
            f"workload: expected KIND:NODES:EDGES[:TEXTS] with a kind of {', '.join(KINDS)}, or one of "
            f"{', '.join(real.NAMES)}, got {spec!r}"
        )
    texts = None if len(parts) == 3 else "each" if parts[3] == "each" else _count(spec, parts[3])
    return parts[0], _count(spec, parts[1]), _count(spec, parts[2]), texts  # type: ignore[return-value]


def _count(spec: str, text: str) -> int:
    found = re.fullmatch(r"(\d+)([kM]?)", text)
    if found is None:
        raise InvalidArgument(f"workload {spec!r}: expected a number such as 500, 10k or 1M, got {text!r}")
    return int(found[1]) * SCALE[found[2]]


@lru_cache(2)
def workload(spec: str, dimension: int, num_queries: int, seed: int) -> Workload:
    """A workload by its name in the settings; the last two are kept."""
    if spec in real.NAMES:
        return real.load(spec, seed=seed, num_queries=num_queries, dimension=dimension)
    kind, nodes, edges, texts = parse(spec)
    more: dict[str, Any] = {} if texts is None else {"relation_texts": texts}
    return make(nodes, edges, dimension, kind, seed=seed, num_queries=num_queries, **more)


def engine_of(
    given: Workload,
    mode: Literal["native", "cognee", "grafito"] = "native",
    *,
    device: str = "cpu",
    described: bool = False,
    encoder: Any = None,
    columns: Mapping[str, Any] | None = None,
    lexical: Any = None,
) -> Engine:
    """The engine of a workload; parity wants the order that the other library reads.

    Args:
        described: give nodes names and descriptions, for texts as they come from real graphs.
        columns: more columns of the node table.
        lexical: what text searches read, as for `Engine`.
    """
    order: Literal["canonical", "input"] = "canonical" if mode == "native" else "input"
    ids, texts = np.asarray(given.node_ids), np.asarray(given.relation_texts)
    nodes: dict[str, Any] = {"id": given.node_ids}
    if described:
        nodes |= described_columns(given.num_nodes)
    nodes |= columns or {}
    graph = Graph.from_tables(
        nodes,
        {"source": ids[given.source], "target": ids[given.target], "relation": texts[given.relation]},
        order=order,
    )
    parts = ((ENTITIES, slice(given.num_types, None)), (TYPES, slice(given.num_types)))
    collections = [
        Collection.build(name, given.node_vectors[part], given.node_ids[part], order=order)
        for name, part in parts
        if part.stop != 0
    ]
    collections.append(
        Collection.build(RELATIONS, given.relation_vectors, given.relation_texts, "relation", order=order)
    )
    return Engine(graph, collections, mode=mode, device=device, encoder=encoder, lexical=lexical)


def described_columns(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Names of two words and descriptions of four to thirty."""
    rng = np.random.default_rng(seed)
    words = np.array(["".join(rng.choice(list("aeiourstlnm"), rng.integers(3, 10))) for _ in range(2000)])
    lengths = rng.integers(4, 31, count)
    drawn = words[rng.integers(len(words), size=int(lengths.sum()) + 2 * count)].tolist()
    names = [f"{drawn[2 * i]} {drawn[2 * i + 1]}" for i in range(count)]
    ends = (lengths.cumsum() + 2 * count).tolist()
    return {"name": names, "description": [" ".join(drawn[e - n : e]) for e, n in zip(ends, lengths, strict=True)]}


def batch_of(given: Workload, size: int) -> torch.Tensor:
    """(size, D) query vectors; where the workload has fewer they repeat."""
    return torch.from_numpy(given.query_vectors[np.arange(size) % len(given.query_vectors)])


class Scene(NamedTuple):
    """A graph with fixed candidates: what the graph stages read."""

    topology: Topology
    hits: NodeHits
    relations: RelationHits
    missing: torch.Tensor
    rule: EdgeRule


def topology_of(given: Workload) -> Topology:
    """The kernels' layout of a workload's graph, edges in its own order."""
    source, target, key = (torch.from_numpy(x) for x in (given.source, given.target, given.relation))
    size = given.num_nodes
    out, into = csr.group(source, size), csr.group(target, size)
    degree = out[0].diff() + into[0].diff()
    at_source, at_target = degree[source.long()], degree[target.long()]
    own = (at_source < at_target) | ((at_source == at_target) & (source <= target))
    indptr, edge = csr.group(torch.where(own, source, target), size)
    other = torch.where(own, target, source)[edge.long()]
    return Topology(source, target, key, indptr, edge, other, *out, *into, len(given.relation_vectors))


def scene(topology: Topology, kind: str, queries: int, candidates: int, relations: int, seed: int) -> Scene:
    """Candidates of a kind, their terms and relation hits, drawn with a seed."""
    rng = np.random.default_rng(seed)
    chosen = [np.sort(draw(rng, topology, kind, candidates)) for _ in range(queries)]
    keys = min(relations, topology.num_keys)
    key = np.concatenate([np.sort(rng.choice(topology.num_keys, keys, replace=False)) for _ in range(queries)])
    node = torch.from_numpy(np.concatenate(chosen).astype(np.int32))
    hits = NodeHits(_indptr([len(c) for c in chosen]), node, FACTOR * torch.from_numpy(rng.uniform(0, 1, len(node))))
    found = RelationHits(
        _indptr([keys] * queries), torch.from_numpy(key.astype(np.int32)),
        torch.from_numpy(rng.uniform(0, 1, len(key)).astype(np.float32)),
    )  # fmt: skip
    half = torch.full((topology.source.shape[0],), 0.5, dtype=torch.float64)
    missing = torch.full((topology.num_nodes,), FACTOR * PENALTY, dtype=torch.float64)
    return Scene(topology, hits, found, missing, EdgeRule(half, half, 0.0, PENALTY, False, 1.5))


def draw(rng: np.random.Generator, topology: Topology, kind: str, count: int) -> NDArray[np.int64]:
    """Distinct nodes: "uniform"; "topical": a breadth-first neighbourhood; "hubs": as likely as their degree."""
    size = topology.num_nodes
    count = min(count, size)
    if kind == "uniform":
        return rng.choice(size, count, replace=False)
    if kind == "topical":
        return _near(rng, topology, count)
    if kind != "hubs":
        raise InvalidArgument(f"candidates: expected one of {', '.join(CANDIDATES)}, got {kind!r}")
    ends = (topology.source.numpy(), topology.target.numpy())
    found: dict[int, None] = {}
    for _ in range(20):
        side = rng.integers(2, size=4 * count)
        edge = rng.integers(len(ends[0]), size=4 * count)
        found |= dict.fromkeys(np.where(side == 0, ends[0][edge], ends[1][edge]).tolist())
        if len(found) >= count:
            break
    return np.fromiter(found, np.int64)[:count]


def _near(rng: np.random.Generator, topology: Topology, count: int) -> NDArray[np.int64]:
    lists = [
        tuple(x.numpy() for x in group)
        for group in (
            (topology.out_indptr, topology.out_edge, topology.target),
            (topology.in_indptr, topology.in_edge, topology.source),
        )
    ]
    found: dict[int, None] = {}
    queue: list[int] = []
    while len(found) < count:
        if not queue:  # the start, and where a component is used up
            queue = [int(rng.integers(topology.num_nodes))]
            found.setdefault(queue[0])
        node = queue.pop(0)
        for indptr, edge, far in lists:
            for other in far[edge[indptr[node] : indptr[node + 1]]].tolist():
                if other not in found and len(found) < count:
                    found[other] = None
                    queue.append(other)
    return np.fromiter(found, np.int64)


def _indptr(lengths: list[int]) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))
