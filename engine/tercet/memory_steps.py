"""What one batch of `recall` takes while it runs, by the same functions that choose its tiles."""

from dataclasses import dataclass
from typing import NamedTuple

import torch

from tercet.floors import LEAST
from tercet.full import group_bytes
from tercet.index import cuda_search
from tercet.index.exact import SLACK, by_codes
from tercet.memory import MOST, query_bytes, tile_of
from tercet.memory_parts import Rows, Sizes
from tercet_kernels import fragment_topk, nearest
from tercet_kernels.nearest import BYTES

HIT = 21  # bytes of an element in a `Merged`
LISTED = 12  # of a row of a listing while listings are merged
FOUND = 8  # of a row that a search returns
RANKED = 60  # of a result: edge, score, slots and distances, as the kernel returns them and as they are kept
EDGE = 24  # of an edge of a fragment that is written down (CUDA)


class Step(NamedTuple):
    """Bytes of a batch; those that pass aren't there at the same time as others that do."""

    name: str
    bytes: int
    passes: bool


@dataclass(frozen=True)
class Asked:
    """What a batch asks for, with the defaults filled in."""

    device: torch.device
    batch: int
    wide: int | None  # None: every row
    top_k: int
    projection: str
    threads: int


def at_once(sizes: Sizes, asked: Asked, free: int | None) -> int:
    """Queries that are retrieved together."""
    listed = sizes.nodes if asked.projection in ("nodeset", "neighborhood") else 0
    each = query_bytes((c.rows for c in sizes.collections), asked.wide, asked.top_k, sizes.edges, listed)
    if free is None:  # the device isn't here
        return min(asked.batch, MOST.get(asked.device.type, MOST["cpu"]))
    return min(asked.batch, tile_of(each, asked.batch, asked.device, free))


def steps_of(sizes: Sizes, asked: Asked, queries: int) -> list[Step]:
    """What a batch takes of which so many queries are retrieved together."""
    whole = asked.projection == "full" or (asked.wide is None and asked.projection != "neighborhood")
    found, out = 0, []
    if asked.wide is not None or asked.projection == "neighborhood":
        taken = [c.rows if asked.wide is None else min(asked.wide, c.rows) for c in sizes.collections]
        found = sum(taken)
        tiles = [_search(c, asked, queries, k) for c, k in zip(sizes.collections, taken, strict=True)]
        out += [
            Step("search tiles", max(tiles, default=0), True),
            Step("candidates", asked.batch * HIT * found, False),
            Step("merging", queries * (FOUND + LISTED) * found, True),
        ]
    if whole:
        covered = sum(c.rows for c in sizes.collections if c.kind == "node") >= sizes.nodes
        out.append(Step("terms of all nodes", group_bytes(
            queries, sizes.nodes, sizes.edges, sizes.keys, limited=bool(found), complete=covered,
            projection=asked.projection, threads=asked.threads, floors=not found and by_floors(sizes, asked),
        ), True))  # fmt: skip
        found = 2 * asked.top_k  # ends and keys that can matter; more where scores are close
        out.append(Step("hits", asked.batch * HIT * 2 * found, False))
    listed = sizes.nodes if asked.projection in ("nodeset", "neighborhood") else 0
    if listed:
        out.append(Step("nodes listed", queries * (HIT + 24) * listed, True))
    out.append(Step("fragment", _fragment(sizes, asked, queries, found + listed), True))
    width = max((c.dimension for c in sizes.collections), default=0)
    out.append(Step("ranking", asked.batch * (RANKED * min(asked.top_k, max(sizes.edges, 1)) + 4 * width), False))
    return out


def codes_wanted(c: Rows, sizes: Sizes, asked: Asked, queries: int) -> int:
    """Bytes of a collection's int8 codes, which a search makes and keeps where it reads them and the store has none."""
    coded = (by_codes(queries, c.half) if asked.wide else by_floors(sizes, asked)) and not c.coded
    return nearest.code_bytes(c.rows, c.dimension) if coded and asked.device.type == "cpu" else 0


def by_floors(sizes: Sizes, asked: Asked) -> bool:
    """Whether a search without a limit reads int8 codes, as far as sizes tell; see `best_edges`."""
    rows = [c.rows for c in sizes.collections if c.kind == "node"]
    plain = all(not c.half and c.index == "exact" for c in sizes.collections)
    whole = asked.wide is None and asked.projection in ("full", "induced") and sum(rows) == sizes.nodes
    return BYTES and plain and whole and asked.device.type == "cpu" and sizes.edges >= LEAST


def _search(c: Rows, asked: Asked, queries: int, k: int) -> int:
    if asked.device.type == "cpu":
        return nearest.scratch_bytes(c.rows, c.dimension, queries, k, asked.threads)
    take = min(k + SLACK + k // 8, c.rows)
    return cuda_search.scratch_bytes(c.rows, c.dimension, queries, take, c.half)


def _fragment(sizes: Sizes, asked: Asked, queries: int, nodes: int) -> int:
    """On the CPU fragments aren't written down: tables of each thread, and the nodes' terms."""
    if asked.device.type == "cpu":
        return fragment_topk.scratch_bytes(nodes, sizes.nodes, nodes, sizes.keys, asked.threads) + 8 * queries * nodes
    edges = min(sizes.edges, nodes * 2 * sizes.edges // max(sizes.nodes, 1))  # of nodes of average degree
    return queries * (8 * nodes + EDGE * edges)
