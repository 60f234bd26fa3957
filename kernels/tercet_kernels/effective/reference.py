"""Plain torch form of the effective distance; every step is one rounding, so no device can fuse two of them."""

import torch


def effective(
    distance: torch.Tensor,
    importance: torch.Tensor | float,
    feedback: torch.Tensor | float,
    influence: float,
    penalty: float,
    cliff: bool,
    personal: torch.Tensor | None = None,
    personal_influence: float = 0.3,
) -> torch.Tensor:
    matched = torch.isfinite(distance)
    filled = torch.where(matched, distance, torch.full_like(distance, penalty))
    factor = 2.0 - importance
    if cliff:
        weighted = factor * filled
        open_ = ~((weighted >= penalty) | (weighted < 0.0) | (weighted > 2.0))
        out = torch.where(open_, _blend(weighted, feedback, influence), weighted) if influence > 0 else weighted
    else:
        open_ = matched
        raw = torch.where(open_, _blend(filled, feedback, influence), filled) if influence > 0 else filled
        out = factor * raw
    if personal is None or personal_influence <= 0:
        return out
    factor = 1.0 - personal_influence * (2.0 * personal - 1.0)
    return torch.where(open_ & ~torch.isnan(personal), out * factor, out)


def _blend(distance: torch.Tensor, feedback: torch.Tensor | float, influence: float) -> torch.Tensor:
    kept = (1.0 - influence) * (distance / 2.0)
    return 2.0 * (kept + influence * (1.0 - feedback))
