"""The engine on an asyncio loop, in the shape Thespian expects of a system base.

Made while a loop is running, a system lives on that loop: its turns are callbacks of it, its watches readers
of it, and code on the loop uses `aask`, `post` and `ashutdown`. Thespian's blocking calls (`ask`, `listen`)
are then for other threads; on the loop's own thread they raise RuntimeError, since they would wait for
themselves.

Made outside of one, it has a loop of its own (uvloop where installed) that runs only inside Thespian's
blocking calls: `ask`, `listen`, and `tell` until the mail is worked off. Several threads may make such calls
at once, each with a context of its own from `ActorSystem.private()`: one of them runs the loop, for all.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from thespian.actors import ActorAddress, ActorSystem, ThespianGeneration
from thespian.system import isInternalActorSystemMessage
from thespian.system.timing import timePeriodSeconds

from actors.engine.cell import Cell
from actors.engine.core import Runtime, log

SHUTDOWN_SECONDS = 10.0
"""How long `shutdown` waits for actors to exit before it ends them unasked."""

TELL_SECONDS = 0.25
"""How long `ActorSystem.tell` runs a loop of its own if the mail does not come to an end."""

_UNHEARD_LIMIT = 100_000

Timeout = float | timedelta | None


class Endpoint:
    """One outside party of Thespian's blocking API: the main one of a system, or that of `private()`.

    Answers wait here until `ask` or `listen` takes them; of more than 100,000 the oldest go, which is logged.
    """

    def __init__(self, base: ActorSystemBase, name: str | None = None) -> None:
        self._base = base
        self._cell = base.new_sink(self, name)
        self._answers: deque[Any] = deque()
        self._question: Any = None
        self._lost = False

    def receive(self, message: Any, sender: ActorAddress) -> None:
        if isInternalActorSystemMessage(message):
            return
        if len(self._answers) >= _UNHEARD_LIMIT:
            log.warning("nobody listens to %s: dropped its oldest message", self._cell.address)
            self._answers.popleft()
        self._answers.append(message)
        self._base.progress()

    def undeliverable(self, message: Any) -> None:
        if message is self._question:
            self._lost = True
            self._base.progress()

    def tell(self, address: ActorAddress, message: Any) -> None:
        self._base.catch_up()
        self._base.call(lambda: self._base.send(address, message, self._cell.address))
        self._base.settle()

    def ask(self, address: ActorAddress, message: Any, timeout: Timeout) -> Any:
        """The next message to this endpoint after sending; None after `timeout`, or if the actor is dead."""
        self._base.refuse_to_wait_for_itself()
        self._base.catch_up()
        self._question, self._lost = message, False
        try:
            self._base.call(lambda: self._base.send(address, message, self._cell.address))
            self._base.wait(lambda: bool(self._answers) or self._lost, timeout)
        finally:
            self._question = None
        return self._answers.popleft() if self._answers else None

    def listen(self, timeout: Timeout) -> Any:
        self._base.wait(lambda: bool(self._answers), timeout)
        return self._answers.popleft() if self._answers else None

    def newPrimaryActor(
        self,
        actor_class: type | str,
        requirements: dict[str, Any] | None,
        global_name: str | None,
        source_hash: str | None = None,
    ) -> ActorAddress:
        return self._base.newPrimaryActor(actor_class, requirements, global_name, source_hash)

    def exit_context(self) -> None:
        self._base.call(lambda: self._base.drop_sink(self._cell))


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
    """The system base `asyncioBase`: see the module, and `core` for order, threads and mailboxes."""

    def __init__(self, system: ActorSystem, logDefs: dict[str, Any] | None = None) -> None:
        """`logDefs`, if given, goes to logging.config.dictConfig; None and False leave logging as it is."""
        if logDefs:
            from logging.config import dictConfig

            dictConfig(logDefs)
        super().__init__(system.capabilities, system.systemAddress, time.monotonic)
        self.system = system
        try:
            self._loop = asyncio.get_running_loop()
            self._own_loop = False
        except RuntimeError:
            self._loop = _new_loop()
            self._own_loop = True
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = math.inf
        self._questions: set[Cell] = set()
        self._gone: asyncio.Future[None] | None = None
        self._closed = False
        self._progress = threading.Condition()
        self._waiting = 0
        self._driver: int | None = None
        self._done: Callable[[], bool] | None = None
        self._private = 0
        if self._own_loop:
            self.thread_id = None
        self._external = Endpoint(self, "System:ExternalRequester")
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

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop all actors of this system run on."""
        return self._loop

    # For code on the loop.

    async def aask(self, address: ActorAddress, message: Any, timeout: float | None) -> Any:
        """Send `message` and wait for the first answer, for `timeout` seconds, None for ever.

        None if none came in time, if the message reached nobody, now or because the actor ended later, or
        if the system was shut down. PoisonMessage if the actor failed. A late answer is a dead letter.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        cell = self.new_sink(_Question(future))
        self._questions.add(cell)
        expiry = None
        try:
            if self.shutting_down or not self.send(address, message, cell.address):
                return None
            if timeout is not None:
                expiry = self._loop.call_later(timeout, _give_up, future)
            return await future
        finally:
            if expiry is not None:
                expiry.cancel()
            self._questions.discard(cell)
            self.drop_sink(cell)

    async def ashutdown(self) -> None:
        """Tell every actor to exit and wait until all have, at most SHUTDOWN_SECONDS; then nothing is left.

        On the loop's thread, not from an actor's handler. The loop goes on serving other things meanwhile.
        """
        if self._closed:
            return
        self._gone = self._gone or self._loop.create_future()
        self.begin_shutdown()
        if self.live_actors:
            await asyncio.wait([self._gone], timeout=SHUTDOWN_SECONDS)
        self._close()

    # The hooks of the runtime.

    def _schedule(self) -> None:
        self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self.run_turn()
        if self._done is not None and self._done():
            self._loop.stop()

    def _add_reader(self, fd: int, cell: Cell) -> None:
        self._loop.add_reader(fd, self.fd_ready, cell, fd)

    def _remove_reader(self, fd: int) -> None:
        try:
            self._loop.remove_reader(fd)
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
        self._timer = self._loop.call_later(delay, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self._timer_due = math.inf
        self.run_timers()

    def _send_from_thread(self, function: Callable[..., object], *arguments: Any) -> None:
        if self._closed:
            return
        try:
            self._loop.call_soon_threadsafe(self._run_for_thread, function, *arguments)
        except RuntimeError:
            if not self._loop.is_closed():
                raise

    def _run_for_thread(self, function: Callable[..., object], *arguments: Any) -> None:
        function(*arguments)

    def _all_gone(self) -> None:
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    # Blocking calls, from outside the loop.

    def call(self, function: Callable[[], Any]) -> Any:
        """Run `function` on the engine's thread, wherever the caller is; its result, or what it raises."""
        me = threading.get_ident()
        if self.thread_id == me:
            return function()
        if self._own_loop and self._take_over(me):
            try:
                return function()
            finally:
                self._hand_over()
        result: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def run() -> None:
            try:
                result.set_result(function())
            except BaseException as error:
                result.set_exception(error)
            self.progress()

        self._loop.call_soon_threadsafe(run)
        self.wait(result.done, None)
        return result.result()

    def catch_up(self) -> None:
        """On a loop of its own: what fell due while nobody ran it happens before the call that comes now."""
        if not self._own_loop or self.thread_id is not None or self._closed:
            return
        due = self.next_timer
        if self.watches.owners or (due is not None and due <= self.clock()):
            if self._take_over(threading.get_ident()):
                try:
                    self.run_timers()
                    self._loop.call_soon(self._loop.stop)
                    self._loop.run_forever()
                finally:
                    self._hand_over()
            self.settle()

    def settle(self) -> None:
        """On a loop of its own: run it until no actor has mail, at most TELL_SECONDS."""
        if self._own_loop and self.thread_id is None and self.has_work:
            self.wait(lambda: not self.has_work, TELL_SECONDS)

    def wait(self, done: Callable[[], bool], timeout: Timeout) -> None:
        """Return when `done()` or after `timeout`. Runs a loop of our own meanwhile unless another does.

        RuntimeError on the loop's own thread: nothing could ever be done while it waits.
        """
        if done():
            return
        self.refuse_to_wait_for_itself()
        me = threading.get_ident()
        end = None if timeout is None else time.monotonic() + timePeriodSeconds(timeout)
        while not done() and not self._closed:
            remaining = None if end is None else end - time.monotonic()
            if remaining is not None and remaining <= 0:
                return
            if self._own_loop and self._take_over(me):
                try:
                    self._run_loop(done, remaining)
                finally:
                    self._hand_over()
                continue
            with self._progress:
                self._waiting += 1
                if not done() and (self._driver is not None or not self._own_loop):
                    self._progress.wait(remaining)
                self._waiting -= 1

    def refuse_to_wait_for_itself(self) -> None:
        """RuntimeError on the thread of the loop."""
        if self.thread_id == threading.get_ident():
            raise RuntimeError("a blocking call on the thread of the loop: use aask")

    def progress(self) -> None:
        """Something a blocked caller may wait for has happened."""
        if self._waiting:
            with self._progress:
                self._progress.notify_all()
        if self._done is not None and self._done():
            self._loop.stop()

    def _take_over(self, me: int) -> bool:
        with self._progress:
            if self._driver is not None:
                return False
            self._driver = self.thread_id = me
            return True

    def _hand_over(self) -> None:
        with self._progress:
            self._driver = self.thread_id = None
            self._progress.notify_all()

    def _run_loop(self, done: Callable[[], bool], timeout: float | None) -> None:
        loop = self._loop
        self._done = done
        expiry = None if timeout is None else loop.call_later(timeout, loop.stop)
        try:
            if not done():
                loop.run_forever()
        finally:
            self._done = None
            if expiry is not None:
                expiry.cancel()

    # What ActorSystem calls.

    def newPrimaryActor(
        self,
        actor_class: type | str,
        requirements: dict[str, Any] | None,
        global_name: str | None,
        source_hash: str | None = None,
    ) -> ActorAddress:
        return self.call(lambda: self.create_primary(actor_class, requirements, global_name, source_hash))

    def tell(self, address: ActorAddress, message: Any) -> None:
        self._external.tell(address, message)

    def ask(self, address: ActorAddress, message: Any, timeout: Timeout = None) -> Any:
        return self._external.ask(address, message, timeout)

    def listen(self, timeout: Timeout = None) -> Any:
        return self._external.listen(timeout)

    def external_clone(self) -> Endpoint:
        self._private += 1
        return self.call(lambda: Endpoint(self))  # type: ignore[no-any-return]

    def updateCapability(self, name: str, value: Any = None) -> None:
        self.call(lambda: self.update_capability(name, value))
        self.settle()

    def _handleDeadLetters(self, address: ActorAddress, enable: bool) -> None:
        self.call(lambda: self.handle_dead_letters(address, enable))

    def loadActorSource(self, source: Any) -> str:
        digest: str = self.call(lambda: self.sources.load(source))
        self.settle()
        return digest

    def unloadActorSource(self, source_hash: str) -> None:
        self.call(lambda: self.sources.unload(source_hash))
        self.settle()

    def preRegisterRemoteSystem(self, address: Any, capabilities: dict[str, Any]) -> None:
        """One system alone has no convention to register others with."""

    def deRegisterRemoteSystem(self, address: Any) -> None:
        """One system alone has no convention to take others out of."""

    def shutdown(self) -> None:
        """Tell every actor to exit, see them out, at most SHUTDOWN_SECONDS, and close a loop of our own.

        On the loop's thread nothing else runs meanwhile; `ashutdown` lets the loop go on.
        """
        if self._closed:
            return
        if self._in_turn and self.thread_id == threading.get_ident():
            self.begin_shutdown()  # an actor's handler called: the turns that follow see the actors out
            return
        self.call(self._shut_down)
        if self._own_loop:
            self._loop.close()

    def _shut_down(self) -> None:
        self.begin_shutdown()
        end = time.monotonic() + SHUTDOWN_SECONDS
        while self.live_actors and self.has_work and time.monotonic() < end:
            self.run_turn()
        self._close()

    def _close(self) -> None:
        self.bury_all()
        for cell in list(self._questions):
            if cell.sink is not None:
                cell.sink.undeliverable(None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.timers.entries.clear()
        for cell in list(self._cells.values()):
            self.drop_sink(cell)
        self._ready.clear()
        self._watching.clear()
        self._after_turn.clear()
        if self._sources is not None:
            self._sources.unload_all()
        self._closed = True
        self.progress()


def engine_of(system: ActorSystem) -> ActorSystemBase:
    """The engine under an ActorSystem. TypeError if it runs on another base."""
    base = system._systemBase
    if not isinstance(base, ActorSystemBase):
        raise TypeError(f"not a system of this engine: {type(base).__name__}")
    return base


def install() -> None:
    """Make `ActorSystem('asyncioBase', ...)` find this engine."""
    import thespian.system

    module = sys.modules[__name__]
    sys.modules["thespian.system.asyncioBase"] = module
    thespian.system.asyncioBase = module


def _give_up(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_result(None)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
