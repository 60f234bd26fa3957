"""What is free on a device, how many queries fit into it at once, and what happens when they don't."""

import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import torch

from tercet.arguments import NO_LIMIT, Arguments
from tercet.collection import Collection
from tercet.errors import InvalidArgument, NotEnoughMemory
from tercet.graph import Graph
from tercet_kernels._arena import arena

MOST = {"cpu": 1024, "cuda": 8192}  # more at once gains nothing
SHARE = 8  # one part in so many of the free memory is used
CANDIDATE_BYTES = 96  # a candidate of one collection: proposed, scored, sorted, merged
NODE_BYTES = 64  # a node of a projection that lists nodes
RESULT_BYTES = 64
UNKNOWN = 4 << 30  # free memory, where the system doesn't tell
LITTLE = 1 << 20  # bytes that an engine may take without a look at what is free
SMALL_CALL = 16 << 20  # bytes that a call may take so: the look costs a third of a millisecond
MEMINFO, OWN_GROUPS, GROUPS = Path("/proc/meminfo"), Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
REFUSED = re.compile(r"not enough memory|can't allocate memory|out of memory|bad_alloc", re.IGNORECASE)

T = TypeVar("T")


def queries_at_once(batch_size: int | None, args: Arguments, collections: list[Collection], graph: Graph) -> int:
    """The caller's `batch_size`, or as many queries as free memory and the device make sensible.

    Searches without a limit hold a distance for every node and relation key; `full_fragment` tiles those itself.

    Raises:
        InvalidArgument: `batch_size` below 1.
    """
    if batch_size is not None:
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise InvalidArgument(f"batch_size: expected an integer of at least 1, got {batch_size!r}")
        return batch_size
    if not len(args.top_k):
        return MOST.get(graph.device.type, MOST["cpu"])
    wide = int(args.wide.max())
    listing = args.depth is not None or any(names is not None for names in args.node_names)
    each = query_bytes(
        [c.size for c in collections], None if wide == NO_LIMIT else wide, int(args.top_k.max()), graph.num_edges,
        graph.num_nodes if listing else 0,
    )  # fmt: skip
    return tile_of(each, len(args.top_k), graph.device)


def query_bytes(rows: Iterable[int], wide: int | None, top_k: int, num_edges: int, listed: int) -> int:
    """What one query takes, at most.

    Args:
        rows: of each collection.
        wide: candidates a collection, None for every row.
        listed: nodes that its projection may list.
    """
    taken = sum(n if wide is None else min(wide, n) for n in rows)
    return CANDIDATE_BYTES * taken + RESULT_BYTES * min(top_k, num_edges + 1) + NODE_BYTES * listed


def tile_of(each: int, queries: int, device: torch.device, free: int | None = None) -> int:
    """How many queries of so many bytes are retrieved together; `free` None is what is free on the device."""
    most = MOST.get(device.type, MOST["cpu"])
    if each * queries <= SMALL_CALL:
        return most
    return max(1, min(most, (free_bytes(device) if free is None else free) // SHARE // max(each, 1)))


def fitted(chunks: Iterable[np.ndarray], work: Callable[[np.ndarray], T]) -> Iterator[tuple[np.ndarray, T, int]]:
    """Work on chunks of queries; one that doesn't fit into memory is halved, and so is what comes after it.

    Yields:
        chunks, in order, what `work` gave for each, and how many halvings it took since the one before.

    Raises:
        NotEnoughMemory: one query alone doesn't fit.
    """
    most: int | None = None
    halvings = 0
    for chunk in chunks:
        left = deque([chunk])
        while left:
            part = left.popleft()
            if most is not None and len(part) > most:
                left.extendleft(part[i : i + most] for i in reversed(range(0, len(part), most)))
                continue
            refused = ""
            try:
                out = work(part)
            except (MemoryError, RuntimeError) as error:
                if not out_of_memory(error):
                    raise
                refused = str(error) or type(error).__name__
                if len(part) == 1:
                    raise NotEnoughMemory(_one_query(refused)) from error
            if refused:  # outside of the handler: the error holds on to what the failed call had allocated
                most = (len(part) + 1) // 2
                halvings += 1
                _let_go()
                left.appendleft(part)
                continue
            yield part, out, halvings
            halvings = 0


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that an allocation failed: torch's on CUDA and on the CPU, NumPy's, Arrow's, FAISS's."""
    if isinstance(error, NotEnoughMemory):
        return False
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or REFUSED.search(str(error)) is not None


def _one_query(said: str) -> str:
    return (
        f"memory: one query alone doesn't fit ({said}). Lower wide_search_top_k or top_k, use projection='induced', "
        "or free memory; engine.estimate_memory() tells what a batch takes"
    )


def _let_go() -> None:
    """Give back what is kept for later calls."""
    arena.release()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def free_bytes(device: torch.device) -> int:
    """Memory that is free on a device; on the host no more than the control groups of this process allow."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    free, total = UNKNOWN, sys.maxsize
    if MEMINFO.exists():
        rows = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        free, total = (int(rows[name].split()[0]) << 10 for name in ("MemAvailable", "MemTotal"))
    return max(0, min([free, *_group_rooms(total)]))


def _group_rooms(total: int) -> Iterator[int]:
    """What each control group with a limit below `total` has left; file pages that it can drop count as free."""
    for folder, names in _groups(OWN_GROUPS, GROUPS):
        limit = _number(folder / names.limit)
        if limit is None or limit >= total:
            continue
        used = _number(folder / names.used)
        if used is not None:
            yield limit - used + _droppable(folder / "memory.stat", names.pages)


class _Names(NamedTuple):
    """Files of a memory group, and the rows of its memory.stat that count file pages."""

    limit: str
    used: str
    pages: tuple[str, str]


VERSION_1 = _Names("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file"))
VERSION_2 = _Names("memory.max", "memory.current", ("inactive_file", "active_file"))


@lru_cache(8)
def _groups(own: Path, mount: Path) -> list[tuple[Path, _Names]]:
    """The folders of this process's memory groups that have a limit file, from its own up to the root."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return []
    found: dict[Path, _Names] = {}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for names, serves, root in (
            (VERSION_1, "memory", mount / "memory"), (VERSION_2, "", mount), (VERSION_2, "", mount / "unified"),
        ):  # fmt: skip
            if serves not in controllers.split(","):
                continue
            here = root / path.lstrip("/")
            # in a container the path may be the host's; the root is the container's own group then
            for folder in (here, *here.parents):
                if folder.is_relative_to(root) and (folder / names.limit).exists():
                    found[folder] = names
    return list(found.items())


def _number(file: Path) -> int | None:
    """The number in a file; None for "max", or where there is no such file."""
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _droppable(file: Path, names: tuple[str, str]) -> int:
    try:
        rows = dict(line.split(maxsplit=1) for line in file.read_text().splitlines())
    except OSError:
        return 0
    return sum(int(rows.get(name, 0)) for name in names)
