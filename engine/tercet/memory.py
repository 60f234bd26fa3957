"""How many queries fit into memory at once."""

from pathlib import Path

import torch

from tercet.arguments import NO_LIMIT, Arguments
from tercet.collection import Collection
from tercet.errors import InvalidArgument
from tercet.graph import Graph

MOST = {"cpu": 1024, "cuda": 8192}  # more at once gains nothing
SHARE = 8  # one part in so many of the free memory is used
CANDIDATE_BYTES = 96  # a candidate of one collection: proposed, scored, sorted, merged
NODE_BYTES = 64  # a node of a projection that lists nodes
RESULT_BYTES = 64
UNKNOWN = 4 << 30  # free memory, where the system doesn't tell
LITTLE = 1 << 20  # bytes that a call may take without a look at what is free


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
    most = MOST.get(graph.device.type, MOST["cpu"])
    if not len(args.top_k):
        return most
    wide = int(args.wide.max())
    taken = [c.size if wide == NO_LIMIT else min(wide, c.size) for c in collections]
    listing = args.depth is not None or any(names is not None for names in args.node_names)
    each = CANDIDATE_BYTES * sum(taken) + RESULT_BYTES * min(int(args.top_k.max()), graph.num_edges + 1)
    each += NODE_BYTES * graph.num_nodes if listing else 0
    if each * len(args.top_k) <= LITTLE:
        return most
    return max(1, min(most, free_bytes(graph.device) // SHARE // max(each, 1)))


def free_bytes(device: torch.device) -> int:
    """Memory that is free on a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    info = Path("/proc/meminfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return UNKNOWN
