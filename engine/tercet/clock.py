"""Seconds by stage."""

import time

import torch


class Clock:
    """Seconds by stage; a stage on CUDA is timed when its work is done."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.seconds: dict[str, float] = {}

    def stage(self, name: str) -> "Stage":
        """What a `with` block takes, added to the stage's seconds."""
        return Stage(self, name)


class Stage:
    """A running stage. One that raises isn't counted."""

    def __init__(self, clock: Clock, name: str) -> None:
        self.clock, self.name = clock, name

    def __enter__(self) -> None:
        self.begin = time.perf_counter()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            return
        clock, name = self.clock, self.name
        if clock.device.type == "cuda":
            torch.cuda.synchronize(clock.device)
        clock.seconds[name] = clock.seconds.get(name, 0.0) + time.perf_counter() - self.begin
