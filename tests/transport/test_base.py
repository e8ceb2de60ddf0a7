"""How long a transport that closes waits for its peer (transport.base)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from transport.base import FLUSH_SECONDS, STALL_SECONDS, BufferedTransport


class Clock:
    """The loop, as far as a transport needs one for its times."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[tuple[float, Callable[[], object]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], object]) -> None:
        self.due.append((self.now + delay, callback))

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> None: ...

    def go_on(self) -> None:
        """To the next time that something is due."""
        self.now, callback = self.due.pop()
        callback()


class Closing(BufferedTransport):
    """One that flushes, and of which the peer has taken so much."""

    def __init__(self, clock: Clock) -> None:
        super().__init__("memory", "", cast(Any, clock), None)
        self.taken = 0
        self.given_up_at: float | None = None
        self._watch_flush(lambda: setattr(self, "given_up_at", clock.now))

    def _delivered(self) -> int:
        return self.taken


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_a_peer_has_as_long_as_it_takes_something(taken: int) -> None:
    """Lost: the end of an output on a slow connection, or seconds of every stop to a client that reads nothing."""
    clock = Clock()
    transport = Closing(clock)
    for _ in range(taken):
        transport.taken += 1
        clock.go_on()
        assert transport.given_up_at is None
    clock.go_on()
    assert transport.given_up_at == (taken + 1) * STALL_SECONDS


def test_a_peer_that_takes_too_little_is_given_up_too() -> None:
    """Lost: the stop of the server, to a client that takes a byte a second."""
    clock = Clock()
    transport = Closing(clock)
    while transport.given_up_at is None:
        transport.taken += 1
        clock.go_on()
    assert transport.given_up_at == FLUSH_SECONDS
