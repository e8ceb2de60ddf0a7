"""The runtime on a running asyncio loop: its turns are callbacks of the loop, its watches readers of it.

Code on the loop uses `aask`, `post` and `ashutdown`. Thespian's blocking calls are in `blocking`.
"""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections.abc import Callable
from typing import Any

from thespian.actors import ActorAddress, ActorSystem, ThespianGeneration
from thespian.system import isInternalActorSystemMessage

from actors.engine.cell import Cell
from actors.engine.mail import log
from actors.engine.runtime import Runtime

SHUTDOWN_SECONDS = 10.0
"""How long a shutdown waits for actors to exit before it ends them unasked."""


class _Question:
    """The address that an `aask` asks from."""

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self.future = future

    def receive(self, message: Any, sender: ActorAddress) -> None:
        if not self.future.done() and not isInternalActorSystemMessage(message):
            self.future.set_result(message)

    def undeliverable(self, message: Any) -> None:
        if not self.future.done():
            self.future.set_result(None)


class ActorSystemBase(Runtime):
    """The actors of one ActorSystem on `loop`."""

    def __init__(
        self,
        system: ActorSystem,
        loop: asyncio.AbstractEventLoop,
        logDefs: dict[str, Any] | None = None,
    ) -> None:
        """`logDefs`, if given, goes to logging.config.dictConfig; None and False leave logging as it is."""
        if logDefs:
            from logging.config import dictConfig

            dictConfig(logDefs)
        super().__init__(system.capabilities, system.systemAddress, time.monotonic)
        self.system = system
        self.loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = math.inf
        self._questions: set[Cell] = set()
        self._gone: asyncio.Future[None] | None = None
        self._closed = False
        system.capabilities.update(
            {
                "Python Version": tuple(sys.version_info),
                "Thespian Generation": ThespianGeneration,
                "Thespian Version": str(int(time.time() * 1000)),
                "Thespian ActorSystem Name": "asyncioBase",
                "Thespian ActorSystem Version": 1,
                "Thespian Watch Supported": True,
                "AllowRemoteActorSources": "No",
            }
        )

    async def aask(self, address: ActorAddress, message: Any, timeout: float | None) -> Any:
        """Send `message` and wait for the first answer, for `timeout` seconds, None for ever.

        None if none came in time, if the message reached nobody, now or because the actor ended later, or
        if the system was shut down. PoisonMessage if the actor failed. A late answer is a dead letter.
        """
        future: asyncio.Future[Any] = self.loop.create_future()
        cell = self.mail.new_sink(_Question(future))
        self._questions.add(cell)
        expiry = None
        try:
            if self.life.shutting_down or not self.mail.send(cell.address, address, message):
                return None
            if timeout is not None:
                expiry = self.loop.call_later(timeout, _give_up, future)
            return await future
        finally:
            if expiry is not None:
                expiry.cancel()
            self._questions.discard(cell)
            self.mail.drop_sink(cell)

    async def ashutdown(self) -> None:
        """Tell every actor to exit and wait until all have, at most SHUTDOWN_SECONDS; then nothing is left.

        On the loop's thread, not from an actor's handler. The loop goes on serving other things meanwhile.
        """
        if self._closed:
            return
        self._gone = self._gone or self.loop.create_future()
        self.life.begin_shutdown()
        if self.live_actors:
            await asyncio.wait([self._gone], timeout=SHUTDOWN_SECONDS)
        self._close()

    def _close(self) -> None:
        self.life.bury_all()
        for cell in list(self._questions):
            if cell.sink is not None:
                cell.sink.undeliverable(None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.timers.entries.clear()
        for cell in list(self.mail.cells.values()):
            self.mail.drop_sink(cell)
        self.turns.clear()
        self._closed = True

    # The hooks of the runtime.

    def _schedule(self) -> None:
        self.loop.call_soon(self._turn)

    def _turn(self) -> None:
        self.turns.run()

    def _add_reader(self, fd: int, cell: Cell) -> None:
        self.loop.add_reader(fd, self.watches.fd_ready, cell, fd)

    def _remove_reader(self, fd: int) -> None:
        try:
            self.loop.remove_reader(fd)
        except (OSError, ValueError) as error:
            log.warning("descriptor %d was closed before its watch was dropped: %s", fd, error)

    def _arm_timer(self, deadline: float) -> None:
        if self._timer is not None:
            if self._timer_due <= deadline:
                return
            self._timer.cancel()
        self._timer_due = deadline
        # uvloop counts whole milliseconds from the start of its iteration: a timer that is early is re-armed.
        delay = max(0.001, deadline - self.clock())
        self._timer = self.loop.call_later(delay, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self._timer_due = math.inf
        self.run_timers()

    def _send_from_thread(self, function: Callable[..., object], *arguments: Any) -> None:
        if self._closed:
            return
        try:
            self.loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            if not self.loop.is_closed():
                raise

    def _all_gone(self) -> None:
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)


def engine_of(system: ActorSystem) -> ActorSystemBase:
    """The engine under an ActorSystem. TypeError if it runs on another base."""
    base = system._systemBase
    if not isinstance(base, ActorSystemBase):
        raise TypeError(f"not a system of this engine: {type(base).__name__}")
    return base


def _give_up(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_result(None)
