"""Scratch memory that callers share: buffers are lent, come back, and are lent again."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

Place = tuple[str, torch.device, int]


class Arena:
    """Named buffers for each device and stream.

    A buffer is lent to one caller at a time, so threads can't meet in one; the next caller on the same stream may write
    to it while the device still works for the last one, because a stream keeps the order. Contents are whatever the
    last caller left.

    Args:
        keep: bytes that are kept while nobody has them; what would go beyond goes back to torch.
    """

    def __init__(self, keep: int = 512 << 20) -> None:
        self.keep = keep
        self._lock = threading.Lock()
        self._free: dict[Place, list[torch.Tensor]] = {}
        self._lent = 0  # bytes

    @property
    def bytes(self) -> int:
        """Memory held, lent or free."""
        with self._lock:
            return self._lent + self._idle()

    @contextmanager
    def lend(
        self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
    ) -> Iterator[torch.Tensor]:
        """A contiguous tensor of this shape and dtype, until the block ends.

        Args:
            name: what it is for; a name's buffers grow to the power of two that holds the largest wish so far.
        """
        wanted = dtype.itemsize
        for size in shape:
            wanted *= size
        place = (name, device, _stream(device))
        with self._lock:
            free = self._free.setdefault(place, [])
            held = free.pop() if free else None
            if held is not None and held.numel() >= wanted:
                self._lent += held.numel()
            else:
                held = None  # too small for what is asked of this name: replaced
        if held is None:
            held = torch.empty(1 << max(wanted - 1, 1).bit_length(), dtype=torch.uint8, device=device)
            with self._lock:
                self._lent += held.numel()
        try:
            yield held[:wanted].view(dtype).view(shape)
        finally:
            with self._lock:
                self._lent -= held.numel()
                if self._idle() + held.numel() <= self.keep:
                    self._free.setdefault(place, []).append(held)

    def release(self) -> None:
        """Give the buffers that aren't lent back to torch."""
        with self._lock:
            self._free.clear()

    def _idle(self) -> int:
        return sum(x.numel() for buffers in self._free.values() for x in buffers)


def _stream(device: torch.device) -> int:
    return int(torch.cuda.current_stream(device).cuda_stream) if device.type == "cuda" else 0


arena = Arena()  # the process's own
