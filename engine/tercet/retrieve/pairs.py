"""What became of the pairs of candidates between which routes were searched."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Pairs:
    """P pairs, a slice an item."""

    indptr: np.ndarray  # (B + 1,) int64
    segment: np.ndarray  # (P,) int32 which two waypoints: segment s lies between s and s + 1
    start: np.ndarray  # (P,) int32 node rows, -1: the waypoint has no hits
    end: np.ndarray  # (P,) int32
    hops: np.ndarray  # (P,) int32, -1: no route
    routes: np.ndarray  # (P,) int64 shortest routes taken
    truncated: np.ndarray  # (P,) bool: there are more of them


def reports(table: Pairs, item: int, ids: Callable[[np.ndarray], list[Any]]) -> list[dict[str, Any]]:
    """The pairs of one item, as `Subgraph.pairs` gives them."""
    part = slice(table.indptr[item], table.indptr[item + 1])
    starts, ends = (ids(column[part]) for column in (table.start, table.end))
    columns = (table.segment, table.hops, table.routes, table.truncated)
    out = []
    for start, end, segment, hops, routes, more in zip(starts, ends, *(c[part].tolist() for c in columns), strict=True):
        if start is None or end is None:
            status = "no_hits"
        else:
            status = "same_node" if start == end else "ok" if hops >= 0 else "no_route"
        known = hops if status in ("ok", "same_node") else None
        out.append({"segment": segment, "start": start, "end": end, "status": status, "hops": known,
                    "routes": routes, "truncated": more})  # fmt: skip
    return out
