"""Where texts belong in a sorted column of texts, by bisection over their bytes."""

import torch

from tercet_kernels._checks import check
from tercet_kernels.lower_bound import cpu

CPU = torch.device("cpu")  # text stays on the host


def lower_bound(
    offsets: torch.Tensor, data: torch.Tensor, wanted_offsets: torch.Tensor, wanted: torch.Tensor,
    order: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """The first row of each text's equals or, where there is none, of what is larger; bytes are compared as numbers.

    Args:
        offsets: (V + 1,) int64 into data, uint8: the texts, ascending by their bytes (so are sorted strings in UTF-8).
        wanted_offsets: (P + 1,) int64 into wanted, uint8: the texts to place, in any order.
        order: (V,) int32: the texts are in any order, and this is their rows, ascending; places are places in it.

    Returns:
        place (P,) int64 in [0, V]; found (P,) bool: whether the row there is equal.

    Raises:
        ValueError: wrong shape, dtype or device.
    """
    for name, tensor, dtype in (
        ("offsets", offsets, torch.int64), ("data", data, torch.uint8),
        ("wanted_offsets", wanted_offsets, torch.int64), ("wanted", wanted, torch.uint8),
    ):  # fmt: skip
        check(name, tensor, (None,), dtype, CPU)
    for name, tensor in (("offsets", offsets), ("wanted_offsets", wanted_offsets)):
        if not tensor.shape[0]:
            raise ValueError(f"{name}: expected at least one offset, got none")
    if order is not None:
        check("order", order, (offsets.shape[0] - 1,), torch.int32, CPU)
    place = torch.empty(wanted_offsets.shape[0] - 1, dtype=torch.int64)
    found = torch.zeros(place.shape[0], dtype=torch.bool)
    rows = (place[:0].int() if order is None else order).numpy()
    arrays = (x.numpy() for x in (offsets, data, wanted_offsets, wanted))
    cpu.lower_bound(*arrays, rows, place.numpy(), found.numpy())
    return place, found
