"""Requests of a client that wait for something to happen to a process: long polls and waits for its exit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from actors.base.deadlines import Deadlines
from actors.base.messages import Address
from actors.base.settings import MAX_WAIT_S
from protocol.errors import Busy
from protocol.requests import Params
from protocol.wire_types import WireStruct


class LongPoll(msgspec.Struct, frozen=True, gc=False):
    """One request that waits; `params` are its own."""

    token: int
    bridge: Address
    params: Params


Judge = Callable[[LongPoll], WireStruct | None]
"""The answer that a long poll can have now, or None where it goes on waiting."""


MOST_POLLS: Final = 1024
"""Requests that wait for one process at a time."""
MOST_OF_A_BRIDGE: Final = MOST_POLLS // 2
"""Those of one connection: an observer leaves half to others."""


class LongPolls:
    """The waiting requests of one process, in the order in which they came. Every wait has an end."""

    __slots__ = ("_deadlines", "_on_due", "_polls", "_serial")

    def __init__(self, deadlines: Deadlines, on_due: Callable[[LongPoll], None]) -> None:
        """`on_due` is called for each whose time is over; it waits no longer then."""
        self._deadlines = deadlines
        self._on_due = on_due
        self._polls: dict[int, LongPoll] = {}
        self._serial = 0

    def __len__(self) -> int:
        return len(self._polls)

    def add(self, poll: LongPoll, seconds: float) -> None:
        """Wait, at most `seconds` and never longer than a day. Raises Busy where too many wait for this process."""
        of_bridge = sum(each.bridge == poll.bridge for each in self._polls.values()) if self._polls else 0
        if len(self._polls) >= MOST_POLLS or of_bridge >= MOST_OF_A_BRIDGE:
            raise Busy(f"{len(self._polls)} requests wait for this process, {of_bridge} of this connection")
        self._serial += 1
        serial = self._serial
        self._polls[serial] = poll
        self._deadlines.set(("poll", serial), min(seconds, MAX_WAIT_S), lambda: self._due(serial))

    def take_ready(self, judge: Judge) -> list[tuple[LongPoll, WireStruct]]:
        """Those that can be answered now, with their answers."""
        ready = []
        for serial, poll in list(self._polls.items()):
            answer = judge(poll)
            if answer is not None:
                self._take(serial)
                ready.append((poll, answer))
        return ready

    def take_of(self, bridge: Address) -> list[LongPoll]:
        """All that one bridge waits for."""
        return [self._take(serial) for serial, each in list(self._polls.items()) if each.bridge == bridge]

    def _take(self, serial: int) -> LongPoll:
        self._deadlines.cancel(("poll", serial))
        return self._polls.pop(serial)

    def _due(self, serial: int) -> None:
        poll = self._polls.pop(serial, None)
        if poll is not None:
            self._on_due(poll)
