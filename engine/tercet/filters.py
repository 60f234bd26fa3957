"""Filters: which nodes a query may use, as masks that are made once and shared."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import torch

from tercet.errors import InvalidArgument, UnknownId
from tercet.graph import Graph


@dataclass(frozen=True, eq=False)
class Filters:
    """F distinct masks over the nodes, and which of them each query has."""

    masks: torch.Tensor  # (F, N) bool
    row: torch.Tensor  # (B,) int32, -1 for none

    def rows(self, place: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Masks and mask rows of some queries; None when they have no filter."""
        if self.masks.shape[0] == 0:
            return None, None
        row = self.row[place]
        return (None, None) if bool((row < 0).all()) else (self.masks, row)

    def with_sets(
        self,
        place: torch.Tensor,
        names: Sequence[Sequence[str] | None],
        members: Callable[[Sequence[str]], np.ndarray],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The filters of some queries, narrowed to the members of their node sets."""
        made: dict[tuple[int, tuple[str, ...]], int] = {}
        masks: list[torch.Tensor] = []
        row = torch.empty(len(place), dtype=torch.int32)
        for i, p in enumerate(place.tolist()):
            key = (int(self.row[p]), tuple(names[p] or ()))
            if key not in made:
                mask = torch.from_numpy(members(key[1]))
                made[key] = len(masks)
                masks.append(mask if key[0] < 0 else mask & self.masks[key[0]])
            row[i] = made[key]
        return torch.stack(masks), row


def node_masks(graph: Graph, filter: Any, queries: int) -> Filters:
    """Masks of one filter for all queries, or of a list with one for each.

    Raises:
        InvalidArgument: a filter of an unknown kind, or a list of the wrong length.
        UnknownId: an id that the graph doesn't have.
    """
    none = Filters(torch.zeros(0, graph.num_nodes, dtype=torch.bool), torch.full((queries,), -1, dtype=torch.int32))
    if filter is None:
        return none
    if not _is_batch(filter):
        mask = torch.from_numpy(_mask(graph, filter, "filter"))
        return Filters(mask[None], torch.zeros(queries, dtype=torch.int32))
    if len(filter) != queries:
        raise InvalidArgument(f"filter: expected one filter or one for each of {queries} queries, got {len(filter)}")
    made: dict[int, int] = {}
    masks: list[torch.Tensor] = []
    row = torch.full((queries,), -1, dtype=torch.int32)
    for i, one in enumerate(filter):
        if one is None:
            continue
        if id(one) not in made:
            made[id(one)] = len(masks)
            masks.append(torch.from_numpy(_mask(graph, one, f"filter of query {i}")))
        row[i] = made[id(one)]
    return Filters(torch.stack(masks), row) if masks else none


def _is_batch(filter: Any) -> bool:
    """A list whose entries are filters themselves, rather than ids."""
    if not isinstance(filter, (list, tuple)):
        return False
    kinds = (pc.Expression, np.ndarray, torch.Tensor, pa.Array, list, tuple, set, frozenset)
    return any(x is None or isinstance(x, kinds) for x in filter)


def _mask(graph: Graph, filter: Any, place: str) -> np.ndarray:
    if isinstance(filter, pc.Expression):
        try:
            table = graph.nodes.append_column("__row__", pa.array(np.arange(graph.num_nodes)))
            kept = ds.dataset(table).to_table(columns=["__row__"], filter=filter).column(0)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, pa.ArrowTypeError) as error:
            raise InvalidArgument(f"{place}: {error}; the node table has {graph.nodes.schema.names}") from error
        out = np.zeros(graph.num_nodes, bool)
        out[np.asarray(kept)] = True
        return out
    if isinstance(filter, torch.Tensor):
        filter = filter.cpu().numpy()
    if isinstance(filter, (pa.Array, pa.ChunkedArray)) and pa.types.is_boolean(filter.type):
        filter = np.asarray(filter)
    if isinstance(filter, np.ndarray) and filter.dtype == np.bool_:
        if filter.shape != (graph.num_nodes,):
            raise InvalidArgument(f"{place}: expected a mask of shape ({graph.num_nodes},), got {filter.shape}")
        return filter.copy()
    if isinstance(filter, (list, tuple, set, frozenset, np.ndarray, pa.Array, pa.ChunkedArray)):
        ids = sorted(filter, key=str) if isinstance(filter, (set, frozenset)) else filter
        rows = graph.rows(ids)
        if (rows < 0).any():
            raise UnknownId(f"{place}: the graph has no node with the id {list(ids)[int(np.argmax(rows < 0))]!r}")
        out = np.zeros(graph.num_nodes, bool)
        out[rows] = True
        return out
    raise InvalidArgument(
        f"{place}: expected a pyarrow.compute expression, a boolean mask or node ids, got {type(filter).__name__}"
    )


def both(first: Filters, second: Filters) -> Filters:
    """The nodes that both filters of each query admit; each pair of masks that occurs is made once."""
    pairs = list(zip(first.row.tolist(), second.row.tolist(), strict=True))
    place: dict[tuple[int, int], int] = {}
    masks: list[torch.Tensor] = []
    for a, b in pairs:
        if (a, b) in place or (a < 0 and b < 0):
            continue
        place[a, b] = len(masks)
        masks.append(first.masks[a] if b < 0 else second.masks[b] if a < 0 else first.masks[a] & second.masks[b])
    row = torch.tensor([place.get(pair, -1) for pair in pairs], dtype=torch.int32)
    return Filters(torch.stack(masks) if masks else first.masks[:0], row)
