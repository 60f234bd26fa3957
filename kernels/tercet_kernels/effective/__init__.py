"""The effective distance of one element: penalty, feedback, importance and personal weight applied to its distance."""

import torch

from tercet_kernels.effective import reference


def effective(
    distance: torch.Tensor,
    importance: torch.Tensor | float,
    feedback: torch.Tensor | float,
    *,
    influence: float,
    penalty: float,
    cliff: bool,
    personal: torch.Tensor | None = None,
    personal_influence: float = 0.3,
) -> torch.Tensor:
    """What an element adds to the score of a triplet; smaller is better.

    With d the raw distance, w the importance, g the feedback, f its influence and P the penalty, `cliff=False` is

        (2 - w) * (2 * ((1 - f) * d / 2 + f * (1 - g)))   for a matched element,
        (2 - w) * P                                       for an unmatched one,

    times 1 - i * (2 p - 1) for a matched element with a personal weight p and the influence i. `cliff=True` is the rule
    of Cognee 1.6.5: x = (2 - w) * d (d = P when unmatched); feedback and personal weights act on x, and only where
    0 <= x <= 2 and x < P.

    Args:
        distance: float tensor of any shape, +inf where nothing matched; its dtype is that of the computation.
        importance, feedback: tensors that broadcast to it, or one number.
        personal: likewise, NaN where there is none.

    Returns:
        A tensor of the same shape and dtype. Elementwise, so the same on every device.
    """
    return reference.effective(distance, importance, feedback, influence, penalty, cliff, personal, personal_influence)
