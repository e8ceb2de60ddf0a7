"""Renderer of screens: a process of its own, since what terminals print is chosen by whoever wants to.

One for each session that asks for screens. Orders come on standard input and are answered on standard output
(`screen_messages`). It ends with its input. Output that takes too much time is left for the next order; memory beyond
its limit is its end.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
from collections.abc import Iterator
from typing import IO, Any, Final

import msgspec
from wcwidth import wcwidth

from actors.process.screen_messages import LENGTH, Order, ShownScreen
from actors.process.terminal_screen import TerminalScreen

CPU_S: Final = 2.0
"""Seconds of processor time that one order may take."""
MEMORY: Final = 512 << 20
"""Bytes of address space."""
_NICE: Final = 10


class TimeUpError(BaseException):
    """An order has taken all its time; no error that anything on the way would take for its own."""


def main() -> int:
    """Carry out orders until there is no more input; the exit status."""
    _limit()
    screens: dict[int, TerminalScreen] = {}
    with open(0, "rb", closefd=False) as orders, open(1, "wb", closefd=False) as answers:
        while (order := _next(orders)) is not None:
            answer = msgspec.msgpack.encode(carry_out(order, screens))
            answers.write(LENGTH.pack(len(answer)) + answer)
            answers.flush()
    return 0


def _limit() -> None:
    os.nice(_NICE)
    wcwidth("\u6f22")  # loads its tables
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for kind in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE):
        resource.setrlimit(kind, (0, 0))
    signal.signal(signal.SIGPROF, end_of_time)


def _next(orders: IO[bytes]) -> Order | None:
    head = orders.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    return msgspec.msgpack.decode(orders.read(LENGTH.unpack(head)[0]), type=Order)


def carry_out(order: Order, screens: dict[int, TerminalScreen]) -> ShownScreen:
    """The screen of an order, as far as there was time for it. SIGPROF is to raise TimeUpError."""
    for number in order.dropped:
        screens.pop(number, None)
    if order.fresh:
        screens[order.screen] = TerminalScreen(order.rows, order.cols)
    screen = screens[order.screen]
    for step in order.steps:
        screen.take(*step)
    with contextlib.suppress(TimeUpError), _time_limit():
        screen.catch_up()
    return screen.shown()


@contextlib.contextmanager
def _time_limit() -> Iterator[None]:
    signal.setitimer(signal.ITIMER_PROF, CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def end_of_time(signum: int, frame: Any) -> None:
    """What SIGPROF does. Raises TimeUpError."""
    raise TimeUpError


if __name__ == "__main__":
    sys.exit(main())
