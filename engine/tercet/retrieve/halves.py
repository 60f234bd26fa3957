"""The two halves of a hybrid search as one ranked list, with a word about a half that gave nothing."""

import math
from dataclasses import dataclass

import torch

from tercet.errors import InvalidArgument
from tercet.ranking import Status
from tercet.retrieve.fusion import Fused, Half, fuse, fuse_grafito
from tercet.retrieve.nearest import Retrieved
from tercet.retrieve.ragged import Ragged, offsets, query_of, select
from tercet_kernels.rank_fusion import Fusion

NO_VECTORS = "the engine has no encoder, and no vectors were given"
NO_WEIGHT = "its weight is 0"


@dataclass(frozen=True, eq=False)
class Combined:
    """The answers of a hybrid search."""

    hits: Ragged
    ranks: torch.Tensor  # (T, 2) int32 1-based rank in each half, 0: absent
    available: torch.Tensor  # (B,) int64 distinct nodes of both halves
    state: torch.Tensor  # (B,) int8
    missing: tuple[dict[str, str], ...]


def fuse_halves(
    dense: Retrieved | None,
    words: Retrieved,
    k: torch.Tensor,
    weights: tuple[float, float],
    rrf_k: float,
    *,
    raw_alone: bool,
    failed: dict[int, str],
) -> Combined:
    """Fuse what vectors and words found.

    Args:
        dense: None where queries have no vectors.
        k: (B,) int64.
        raw_alone: a half whose other half is empty comes as it is, with its own scores and repeats.
        failed: queries that can't be asked.

    Raises:
        InvalidArgument: a weight or `rrf_k` that can't be one.
    """
    for name, value in (("vector_weight", weights[0]), ("text_weight", weights[1]), ("rrf_k", rrf_k)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise InvalidArgument(f"{name}: expected a finite number, got {value!r}")
        if value < 0 and not raw_alone:
            raise InvalidArgument(f"{name}: expected at least 0, got {value!r}")
    if not raw_alone and not any(weights):
        raise InvalidArgument("vector_weight, text_weight: expected one above 0, got 0 and 0")
    device = words.hits.node.device
    parts = [_half(dense, k, device), _half(words, k, device)]
    fused: Fused | Fusion
    if raw_alone:
        by = {"vector_weight": weights[0], "text_weight": weights[1], "rrf_k": rrf_k}
        fused = fuse_grafito(parts[0], parts[1], k.tolist(), **by)
        available = fused.indptr.diff().cpu()
    else:
        fused = fuse(parts, weights, k.tolist(), rrf_k=rrf_k, names=("vector", "text"))
        available = fused.available.cpu()
    ranked = Ragged(fused.indptr, fused.node, fused.score)
    ranks = fused.ranks
    if failed:
        asked = torch.ones(len(k), dtype=torch.bool, device=device)
        asked[list(failed)] = False
        inside = asked[query_of(ranked.indptr)]
        ranked = Ragged(select(ranked.indptr, inside), ranked.node[inside], ranked.score[inside])
        ranks = ranks[inside]
        available[list(failed)] = 0
    state = _state(dense, words, ranked.indptr.diff().cpu(), failed)
    missing = _missing(dense, words, weights, failed, len(k), counted=not raw_alone)
    return Combined(ranked, ranks, available, state, missing)


def _half(found: Retrieved | None, k: torch.Tensor, device: torch.device) -> Half:
    if found is None:
        none = torch.zeros(0, device=device)
        return Half(offsets(torch.zeros_like(k)).to(device), none.int(), none.double())
    return Half(*(x.to(device) for x in found.hits))


def _state(dense: Retrieved | None, words: Retrieved, counts: torch.Tensor, failed: dict[int, str]) -> torch.Tensor:
    state = torch.full(counts.shape, int(Status.no_hits), dtype=torch.int8)
    shut = words.state == int(Status.filtered_out)
    if dense is not None:
        shut |= dense.state == int(Status.filtered_out)
    state[shut] = int(Status.filtered_out)
    state[counts > 0] = int(Status.ok)
    state[list(failed)] = int(Status.failed)
    return state


def _missing(
    dense: Retrieved | None,
    words: Retrieved,
    weights: tuple[float, float],
    failed: dict[int, str],
    queries: int,
    *,
    counted: bool,
) -> tuple[dict[str, str], ...]:
    """Why a half gave nothing, for each query that was asked."""
    why_dense = [NO_VECTORS] * queries if dense is None else dense.reason
    out: list[dict[str, str]] = []
    for i, reasons in enumerate(zip(why_dense, words.reason, strict=True)):
        found = {
            name: NO_WEIGHT if counted and weight == 0 else reason
            for name, reason, weight in zip(("vector", "text"), reasons, weights, strict=True)
        }
        out.append({} if i in failed else {name: reason for name, reason in found.items() if reason})
    return tuple(out)
