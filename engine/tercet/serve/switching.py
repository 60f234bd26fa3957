"""How soon Python hands over to an event loop that waits for its turn."""

import sys
import threading

INTERVAL = 0.0005  # seconds; the default of 5 ms would let a worker that computes in Python keep a loop waiting so long

_lock = threading.Lock()
_state: dict[str, float] = {"users": 0, "before": 0.0}


def hand_over_soon() -> None:
    """Shorten the process's switch interval until `as_before` was called as often as this."""
    with _lock:
        if not _state["users"]:
            _state["before"] = sys.getswitchinterval()
            sys.setswitchinterval(min(INTERVAL, _state["before"]))
        _state["users"] += 1


def as_before() -> None:
    """Undo one `hand_over_soon`."""
    with _lock:
        _state["users"] -= 1
        if not _state["users"]:
            sys.setswitchinterval(_state["before"])
