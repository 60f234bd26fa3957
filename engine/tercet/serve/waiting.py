"""The queue: requests wait in lanes, one for each group and tenant, and leave as batches of one group.

Turns go round among the tenants, and for each tenant among the groups it has requests in, so a tenant with little to
ask, or a setting that few ask for, waits for what runs, not for what others have queued. A batch of a group has room
for the requests of all tenants in it, one each in turn.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple

from tercet.serve.requests import Request

LEAST = 50e-6  # seconds; a shorter wait isn't worth going to sleep for

Lane = OrderedDict[Request, None]


class Taken(NamedTuple):
    """What left the queue."""

    batch: list[Request]  # of one group
    late: list[Request]  # their deadline has passed
    given_up: list[Request]  # nobody waits for them


class Waiting:
    """Requests that wait; its methods that aren't private may be called by any thread.

    Args:
        lock: shared with another queue where both are looked at together.
        most: queries in a batch; a request with more has a batch of its own.
        patience: seconds that a batch which isn't full waits for more, since the first request came. While waiting
            brings nothing it becomes shorter, until several requests are there at once again.
        final: batches are of one group, and their requests can't be taken back; else they are of any groups.
    """

    def __init__(self, lock: threading.Lock, most: int, patience: float, *, final: bool = True) -> None:
        self.most, self.longest, self.final = most, patience, final
        self.size = 0  # queries
        self._patience = patience
        self._lock, self._ready = lock, threading.Condition(lock)
        self._lanes: dict[Hashable, OrderedDict[Hashable, Lane]] = {}  # by group, then by tenant
        self._turns: OrderedDict[Hashable, OrderedDict[Hashable, None]] = OrderedDict()  # groups of each tenant
        self._served: tuple[Hashable, Hashable] | None = None  # tenant and group that had the last turn
        self._since = 0.0  # when the queue was empty last
        self._asleep = self._gathering = self._ended = False

    def put(self, request: Request) -> None:
        """Add a request; the caller holds the lock."""
        group = request.group if self.final else None
        lanes = self._lanes.setdefault(group, OrderedDict())
        lane = lanes.get(request.tenant)
        if lane is None:
            lane = lanes[request.tenant] = OrderedDict()
        if not lane:
            self._turn(request.tenant, group)
        if not self.size:
            self._since = request.arrived
        lane[request] = None
        request.lane = self
        self.size += request.count
        if self._asleep or (self._gathering and (self.size >= self.most or len(self._lanes) > 1)):
            self._asleep = self._gathering = False
            self._ready.notify()

    def discard(self, request: Request) -> bool:
        """Take a request out; the caller holds the lock. False if it isn't here."""
        lane = self._lane(request.tenant, request.group if self.final else None)
        if lane is None or request not in lane:
            return False
        del lane[request]
        self._left(request, lane)
        return True

    def clear(self) -> list[Request]:
        """Take everything out; the caller holds the lock."""
        out = [r for lanes in self._lanes.values() for lane in lanes.values() for r in lane]
        self._lanes.clear()
        self._turns.clear()
        self.size, self._served = 0, None
        for request in out:
            request.lane = None
        return out

    def end(self) -> None:
        """No request will come any more; the caller holds the lock."""
        self._ended = True
        self._ready.notify()

    def take(self) -> Taken | None:
        """The next batch, once there is one; None when the queue has ended and is empty."""
        with self._lock:
            while not self.size:
                if self._ended:
                    return None
                self._asleep = True
                self._ready.wait()
            self._asleep = False
            self._gather()
            return self._batch()

    def _gather(self) -> None:
        """Wait for more, while what is there is little and nothing else is due."""
        until, before = self._since + self._patience, self.size
        waited = False
        while self.size and self.size < self.most and len(self._lanes) == 1 and not self._ended:
            left = until - time.monotonic()
            if left < LEAST:
                break
            self._gathering = waited = True
            self._ready.wait(left)
        self._gathering = False
        if self.size > 1:
            self._patience = self.longest
        elif waited and self.size <= before:
            self._patience = self._patience / 2 if self._patience > 2 * LEAST else 0.0

    def _batch(self) -> Taken:
        if self._served is not None:  # after those that came while it was served
            tenant, group = self._served
            if self._lane(tenant, group):
                self._turn(tenant, group)
            if tenant in self._turns:
                self._turns.move_to_end(tenant)
            self._served = None
        out = Taken([], [], [])
        if not self.size:
            return out
        tenant = next(iter(self._turns))
        group = next(iter(self._turns[tenant]))
        self._fill(out, tenant, group)
        self._rest(tenant, group)
        self._served = tenant, group
        return out

    def _fill(self, out: Taken, first: Hashable, group: Hashable) -> None:
        """Requests of a group, one of each tenant in turn, as many as fit."""
        now, count = time.monotonic(), 0
        lanes = self._lanes[group]
        lanes.move_to_end(first, last=False)
        open_to = list(lanes.items())
        while open_to:
            still = []
            for tenant, lane in open_to:
                while lane:
                    request = next(iter(lane))
                    if count and count + request.count > self.most:
                        break
                    del lane[request]
                    self._left(request, lane)
                    deadline = request.answer.deadline
                    if deadline is not None and deadline <= now:
                        out.late.append(request)
                    elif request.answer.future.done() or (self.final and not request.answer.begin()):
                        out.given_up.append(request)
                    else:
                        out.batch.append(request)
                        count += request.count
                        if lane:
                            still.append((tenant, lane))
                        break
            open_to = still if count < self.most else []

    def _left(self, request: Request, lane: Lane) -> None:
        self.size -= request.count
        request.lane = None
        if lane:
            return
        group = request.group if self.final else None
        lanes = self._lanes[group]
        del lanes[request.tenant]
        if not lanes:
            del self._lanes[group]
        self._rest(request.tenant, group)

    def _lane(self, tenant: Hashable, group: Hashable) -> Lane | None:
        lanes = self._lanes.get(group)
        return None if lanes is None else lanes.get(tenant)

    def _turn(self, tenant: Hashable, group: Hashable) -> None:
        self._turns.setdefault(tenant, OrderedDict()).setdefault(group)

    def _rest(self, tenant: Hashable, group: Hashable) -> None:
        groups = self._turns.get(tenant)
        if groups is not None:
            groups.pop(group, None)
            if not groups:
                del self._turns[tenant]
