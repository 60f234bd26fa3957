"""Personalized PageRank of many queries: where a walk that returns to the query's seeds is found."""

import numpy as np
import torch

from tercet_kernels._arena import arena
from tercet_kernels._checks import check
from tercet_kernels._threads import threads
from tercet_kernels._types import Topology
from tercet_kernels.personalized_pagerank import cpu, reference
from tercet_kernels.personalized_pagerank.inside import cpu as inside_cpu
from tercet_kernels.personalized_pagerank.lists import cpu as lists_cpu
from tercet_kernels.personalized_pagerank.simd import WIDTH
from tercet_kernels.personalized_pagerank.types import Direction, PageRanks, Walk

__all__ = ["Direction", "PageRanks", "Walk", "personalized_pagerank", "walk_of"]

CODES = {"out": lists_cpu.OUT, "in": lists_cpu.IN, "both": lists_cpu.BOTH}
TILE_BYTES = 512 << 20  # of scratch memory; above it one query is iterated at a time


def walk_of(topology: Topology, direction: Direction = "both", weight: torch.Tensor | None = None) -> Walk:
    """The lists that the iteration reads; worth keeping when many calls use the same graph.

    Args:
        topology: the graph.
        direction: "out" from source to target, "in" from target to source, "both" either way (a self loop is one step).
        weight: (E,) float64, finite and at least 0; None: all equal.

    Raises:
        ValueError: a shape, dtype, device or value differs from the above.

    Memory: 4 bytes an entry, 12 with weights; E entries, or 2 E for "both". One host sync, for the check of weights.
    """
    _check_steps(topology, direction, weight)
    if topology.source.device.type != "cpu":
        return reference.walk(topology, direction, weight)
    parts = threads(max(topology.num_nodes, 1), 10 * topology.source.shape[0])
    out = lists_cpu.entries(*_lists(topology), CODES[direction], *_weights(weight), parts)
    indptr, near, share, scale, dangling = (torch.from_numpy(x) for x in out)
    return Walk(indptr, near, None if weight is None else share, scale, dangling)


def personalized_pagerank(
    topology: Topology,
    indptr: torch.Tensor,
    seed: torch.Tensor,
    mass: torch.Tensor,
    *,
    direction: Direction = "both",
    weight: torch.Tensor | None = None,
    damping: float | torch.Tensor = 0.85,
    tolerance: float = 1e-6,
    max_iterations: int = 200,
    top_k: int | None = 20,
    first: int | None = None,
    inside: tuple[torch.Tensor, torch.Tensor] | None = None,
    walk: Walk | None = None,
) -> PageRanks:
    """The fixed point of x = d P'x + (1 - d + d l) s for each query, by power iteration from x = s.

    P[u, v] is the weight of the steps from u to v over all steps from u, s the query's mass divided by its sum, d the
    damping, and l the part of x at dangling nodes, which no step leads away from: the walk goes on at a seed from
    there. x adds up to 1 and is exactly 0 where no walk from the seeds leads. The iteration stops when a step changes
    x by at most `tolerance` in sum; x is then within tolerance * d / (1 - d) of the fixed point, in sum. A query's
    bits don't depend on the batch or the number of threads. (Jeh and Widom, Scaling Personalized Web Search, 2003.)

    A query fails alone, see `PageRanks`: without mass (inside `inside`), a mass that isn't a finite number of at
    least 0, a seed that is no row, its damping not between 0 and 1, or members out of order.

    Args:
        topology: the graph.
        indptr: (B + 1,) int64 offsets of each query's seeds.
        seed: (S,) int32 node rows; the masses of a repeated one are added.
        mass: (S,) float64.
        direction: "out" from source to target, "in" from target to source, "both" either way (a self loop is one step).
        weight: (E,) float64, finite and at least 0; None: all equal. Parallel edges are steps each.
        damping: the chance of a step rather than of a return; one number, or (B,) float64.
        tolerance: L1 change of the last step.
        max_iterations: steps of a query, at least 1; a query that needs more has `converged` False.
        top_k: nodes of each query in the result; None: the scores of all, (B, N).
        first: without `top_k` and `inside`, the scores of the rows below it alone, (B, first); None: of all.
        inside: (indptr (B + 1,) int64, node (M,) int32): the nodes that each query walks among, ascending; edges from
            or to others don't exist for it, and mass on others is left out.
        walk: what `walk_of` made of the same topology, direction and weight; not for `inside`.

    Raises:
        ValueError: a shape, dtype, device or value differs from the above.

    Memory: the result; on the CPU 16 bytes a node for each of 8 queries a thread, at most TILE_BYTES unless one query
    needs more; elsewhere `reference.TILE_BYTES` or one query, and with `inside` (B, N). Host syncs, off the CPU: one a
    step.
    """
    device, queries = topology.source.device, indptr.shape[0] - 1
    check("indptr", indptr, (None,), torch.int64, device)
    check("seed", seed, (None,), torch.int32, device)
    check("mass", mass, seed.shape, torch.float64, device)
    damping = _damping(damping, queries, device)
    _check_numbers(tolerance, max_iterations, top_k)
    shown = _shown(first, topology.num_nodes, top_k, inside is not None)
    if inside is not None:
        if walk is not None:
            raise ValueError("walk: expected None beside inside")
        check("inside[0]", inside[0], (queries + 1,), torch.int64, device)
        check("inside[1]", inside[1], (None,), torch.int32, device)
    if inside is None:
        steps = walk_of(topology, direction, weight) if walk is None else walk
        if device.type != "cpu":
            return reference.personalized_pagerank(
                topology, steps, indptr, seed, mass, damping, tolerance, max_iterations, top_k, shown
            )
        return _on_cpu(steps, indptr, seed, mass, damping, tolerance, max_iterations, top_k, shown)
    _check_steps(topology, direction, weight)
    if device.type != "cpu":
        return reference.inside(
            topology, direction, weight, inside, indptr, seed, mass, damping, tolerance, max_iterations, top_k
        )
    return _inside_on_cpu(
        topology, direction, weight, inside, indptr, seed, mass, damping, tolerance, max_iterations, top_k
    )


def _on_cpu(
    walk: Walk, indptr: torch.Tensor, seed: torch.Tensor, mass: torch.Tensor, damping: torch.Tensor, tolerance: float,
    max_iterations: int, top_k: int | None, shown: int,
) -> PageRanks:  # fmt: skip
    size, queries = walk.scale.shape[0], damping.shape[0]
    out = reference.failed_ranks(queries, shown, top_k, torch.device("cpu"))
    work = 20.0 * walk.near.shape[0] * queries  # some iterations
    parts = threads(max(1, -(-size // cpu.BLOCK), queries), work)
    width = WIDTH if queries > 1 and 16 * size * WIDTH <= TILE_BYTES else 1
    apart = queries >= parts * width and 16 * size * width * parts <= TILE_BYTES
    share = torch.zeros(0, dtype=torch.float64) if walk.share is None else walk.share
    lists = (walk.indptr, walk.near, share, walk.scale, 1 / walk.scale, walk.dangling)
    node, score, *done = _places(out)
    shape = (parts if apart else 1, 2, size, width)
    with arena.lend("pagerank.tiles", shape, torch.float64, torch.device("cpu")) as tiles:
        arguments = (
            tuple(x.numpy() for x in lists), _seeds(indptr, seed, mass, damping, size), damping.numpy(),
            (tolerance, max_iterations),
        )  # fmt: skip
        places = (-1 if top_k is None else top_k, node, score, tuple(done))
        if apart:
            cpu.apart(*arguments, tiles.numpy(), *places, parts)
        else:
            cpu.together(*arguments, tiles[0].numpy(), *places, parts)
    return out


def _inside_on_cpu(
    topology: Topology, direction: Direction, weight: torch.Tensor | None, inside: tuple[torch.Tensor, torch.Tensor],
    indptr: torch.Tensor, seed: torch.Tensor, mass: torch.Tensor, damping: torch.Tensor, tolerance: float,
    max_iterations: int, top_k: int | None,
) -> PageRanks:  # fmt: skip
    size, queries = topology.num_nodes, damping.shape[0]
    out = reference.failed_ranks(queries, size, top_k, torch.device("cpu"))
    inside_cpu.power(
        _lists(topology), CODES[direction], *_weights(weight), tuple(x.numpy() for x in inside),
        _seeds(indptr, seed, mass, damping, size), damping.numpy(), tolerance, max_iterations,
        -1 if top_k is None else top_k, *_places(out),
        threads(max(1, queries), 200.0 * inside[1].shape[0]),
    )  # fmt: skip
    return out


def _places(ranks: PageRanks) -> tuple[np.ndarray, ...]:
    """The arrays that a kernel fills."""
    node = torch.zeros(ranks.score.shape[0], 0, dtype=torch.int32) if ranks.node is None else ranks.node
    return tuple(x.numpy() for x in (node, *ranks[1:]))


def _seeds(
    indptr: torch.Tensor, seed: torch.Tensor, mass: torch.Tensor, damping: torch.Tensor, size: int
) -> tuple[np.ndarray, ...]:
    """(begin, count, node, part) of each query's seeds, see `cpu.read_seeds`."""
    arrays = (indptr.numpy(), seed.numpy(), mass.numpy(), damping.numpy())
    node, part, count = cpu.read_seeds(*arrays, size)
    return indptr.numpy(), count, node, part


def _lists(topology: Topology) -> tuple[np.ndarray, ...]:
    return tuple(x.numpy() for x in (
        topology.source, topology.target, topology.out_indptr, topology.out_edge, topology.in_indptr, topology.in_edge,
    ))  # fmt: skip


def _weights(weight: torch.Tensor | None) -> tuple[np.ndarray, bool]:
    return (np.zeros(0), False) if weight is None else (weight.numpy(), True)


def _shown(first: int | None, size: int, top_k: int | None, inside: bool) -> int:
    """How many rows' scores the result has."""
    if first is None:
        return size
    if top_k is not None or inside:
        raise ValueError(f"first: expected None beside {'inside' if inside else 'top_k'}, got {first!r}")
    if not 0 <= first <= size:
        raise ValueError(f"first: expected at most {size} rows, got {first!r}")
    return first


def _check_steps(topology: Topology, direction: str, weight: torch.Tensor | None) -> None:
    if direction not in CODES:
        raise ValueError(f"direction: expected 'out', 'in' or 'both', got {direction!r}")
    if weight is None:
        return
    check("weight", weight, topology.source.shape, torch.float64, topology.source.device)
    if not bool(((weight >= 0) & (weight < torch.inf)).all()):
        raise ValueError("weight: expected finite numbers of at least 0")


def _damping(damping: float | torch.Tensor, queries: int, device: torch.device) -> torch.Tensor:
    """One damping a query."""
    if isinstance(damping, torch.Tensor):
        check("damping", damping, (queries,), torch.float64, device)
        return damping
    if not 0 < damping < 1:
        raise ValueError(f"damping: expected a number between 0 and 1, got {damping!r}")
    return torch.full((queries,), damping, dtype=torch.float64, device=device)


def _check_numbers(tolerance: float, max_iterations: int, top_k: int | None) -> None:
    if not tolerance > 0:
        raise ValueError(f"tolerance: expected a number above 0, got {tolerance!r}")
    if max_iterations < 1:
        raise ValueError(f"max_iterations: expected at least 1, got {max_iterations!r}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k: expected None or at least 1, got {top_k!r}")
