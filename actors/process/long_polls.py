"""Requests of a client that wait for something to happen to a process: long polls and waits for its exit."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from actors.base.deadlines import Deadlines
from actors.base.messages import Address
from actors.base.settings import MAX_WAIT_S
from protocol.requests import Params
from protocol.wire_types import WireStruct


class LongPoll(msgspec.Struct, frozen=True, gc=False):
    """One request that waits; `params` are its own."""

    token: int
    bridge: Address
    params: Params


Judge = Callable[[LongPoll], WireStruct | None]
"""The answer that a waiter can have now, or None where it goes on waiting."""


class LongPolls:
    """The waiting requests of one process, in the order in which they came. Every wait has an end."""

    __slots__ = ("_deadlines", "_serial", "_waiters")

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._waiters: dict[int, LongPoll] = {}
        self._serial = 0

    def __len__(self) -> int:
        return len(self._waiters)

    def add(self, waiter: LongPoll, seconds: float) -> None:
        """Wait, at most `seconds` and never longer than a day; then the deadline `("wait", serial)` falls due."""
        self._serial += 1
        self._waiters[self._serial] = waiter
        self._deadlines.set(("wait", self._serial), min(seconds, MAX_WAIT_S))

    def take_ready(self, judge: Judge) -> list[tuple[LongPoll, WireStruct]]:
        """Those that can be answered now, with their answers."""
        ready = []
        for serial, waiter in list(self._waiters.items()):
            answer = judge(waiter)
            if answer is not None:
                self._take(serial)
                ready.append((waiter, answer))
        return ready

    def take_due(self, serial: int) -> LongPoll | None:
        """The waiter whose time is over."""
        return self._waiters.pop(serial, None)

    def take_of(self, bridge: Address) -> list[LongPoll]:
        """All that one bridge waits for."""
        return [self._take(serial) for serial, each in list(self._waiters.items()) if each.bridge == bridge]

    def _take(self, serial: int) -> LongPoll:
        self._deadlines.cancel(("wait", serial))
        return self._waiters.pop(serial)
