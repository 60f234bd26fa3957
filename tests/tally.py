"""What became of replayed runs."""

from dataclasses import dataclass, field


class Decided(Exception):
    """A difference by decision; see docs/differences.md."""


@dataclass
class Tally:
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    decided: list[str] = field(default_factory=list)
    skipped: int = 0
