"""Thespian's blocking API (`ask`, `listen`, `tell`, `shutdown`) on the engine, for threads and programs without a loop.

A system made while a loop is running lives on that loop. Blocking calls are then for other threads; on the loop's own
thread they raise RuntimeError, since they would wait for themselves.

Made outside of one, it has a loop of its own (uvloop where installed) that runs only inside Thespian's
blocking calls: `ask`, `listen`, and `tell` until the mail is worked off. Several threads may make such calls
at once, each with a context of its own from `ActorSystem.private()`: one of them runs the loop, for all.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from thespian.actors import ActorAddress, ActorSystem
from thespian.system import isInternalActorSystemMessage
from thespian.system.timing import timePeriodSeconds

from actors.engine.asyncio_base import SHUTDOWN_SECONDS, ActorSystemBase
from actors.engine.mail import log

TELL_SECONDS = 0.25
"""How long `ActorSystem.tell` runs a loop of its own if the mail does not come to an end."""

_UNHEARD_LIMIT = 100_000

Timeout = float | timedelta | None


class LoopDriver:
    """The thread that runs the loop of a system, and those that wait for it.

    On a loop that others run (`own_loop` False) it only waits.
    """

    def __init__(self, engine: ActorSystemBase, own_loop: bool) -> None:
        self.own_loop = own_loop
        self.closed = False
        self._engine = engine
        self._loop = engine.loop
        self._progress = threading.Condition()
        self._waiting = 0
        self._driver: int | None = None
        self._done: Callable[[], bool] | None = None
        if own_loop:
            engine.mail.thread_id = None

    def call(self, function: Callable[[], Any]) -> Any:
        """Run `function` on the engine's thread, wherever the caller is; its result, or what it raises."""
        me = threading.get_ident()
        if self._engine.mail.thread_id == me:
            return function()
        if self.own_loop and self._take_over(me):
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
        """On a loop of its own: let what fell due while nobody ran it happen before the call that comes now."""
        engine = self._engine
        if not self.own_loop or engine.mail.thread_id is not None or self.closed:
            return
        due = engine.timers.next
        if engine.watches.owners or (due is not None and due <= engine.clock()):
            if self._take_over(threading.get_ident()):
                try:
                    engine.run_timers()
                    self._loop.call_soon(self._loop.stop)
                    self._loop.run_forever()
                finally:
                    self._hand_over()
            self.settle()

    def settle(self) -> None:
        """On a loop of its own: run it until no actor has mail, at most TELL_SECONDS."""
        turns = self._engine.turns
        if self.own_loop and self._engine.mail.thread_id is None and turns.has_work:
            self.wait(lambda: not turns.has_work, TELL_SECONDS)

    def wait(self, done: Callable[[], bool], timeout: Timeout) -> None:
        """Return when `done()` or after `timeout`. Runs a loop of our own meanwhile unless another does.

        RuntimeError on the loop's own thread: nothing could ever be done while it waits.
        """
        if done():
            return
        self.refuse_to_wait_for_itself()
        me = threading.get_ident()
        end = None if timeout is None else time.monotonic() + timePeriodSeconds(timeout)
        while not done() and not self.closed:
            remaining = None if end is None else end - time.monotonic()
            if remaining is not None and remaining <= 0:
                return
            if self.own_loop and self._take_over(me):
                try:
                    self._run_loop(done, remaining)
                finally:
                    self._hand_over()
                continue
            with self._progress:
                self._waiting += 1
                if not done() and (self._driver is not None or not self.own_loop):
                    self._progress.wait(remaining)
                self._waiting -= 1

    def refuse_to_wait_for_itself(self) -> None:
        """RuntimeError on the thread of the loop."""
        if self._engine.mail.thread_id == threading.get_ident():
            raise RuntimeError("a blocking call on the thread of the loop: use aask")

    def progress(self) -> None:
        """Let blocked callers look whether what they wait for has happened."""
        if self._waiting:
            with self._progress:
                self._progress.notify_all()
        self.stop_if_done()

    def stop_if_done(self) -> None:
        """Stop a loop of our own once the caller that runs it has what it waits for."""
        if self._done is not None and self._done():
            self._loop.stop()

    def close(self) -> None:
        """Let everybody go who waits."""
        self.closed = True
        self.progress()

    def _take_over(self, me: int) -> bool:
        with self._progress:
            if self._driver is not None:
                return False
            self._driver = self._engine.mail.thread_id = me
            return True

    def _hand_over(self) -> None:
        with self._progress:
            self._driver = self._engine.mail.thread_id = None
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


class Endpoint:
    """One outside party of Thespian's blocking API: the main one of a system, or that of `private()`.

    Answers wait here until `ask` or `listen` takes them; of more than 100,000 the oldest go, which is logged.
    """

    def __init__(self, base: BlockingSystemBase, name: str | None = None) -> None:
        self._base = base
        self._driver = base.driver
        self._cell = base.mail.new_sink(self, name)
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
        self._driver.progress()

    def undeliverable(self, message: Any) -> None:
        if message is self._question:
            self._lost = True
            self._driver.progress()

    def tell(self, address: ActorAddress, message: Any) -> None:
        self._driver.catch_up()
        self._driver.call(lambda: self._base.mail.send(self._cell.address, address, message))
        self._driver.settle()

    def ask(self, address: ActorAddress, message: Any, timeout: Timeout) -> Any:
        """The next message to this endpoint after sending; None after `timeout`, or if the actor is dead."""
        self._driver.refuse_to_wait_for_itself()
        self._driver.catch_up()
        self._question, self._lost = message, False
        try:
            self._driver.call(lambda: self._base.mail.send(self._cell.address, address, message))
            self._driver.wait(lambda: bool(self._answers) or self._lost, timeout)
        finally:
            self._question = None
        return self._answers.popleft() if self._answers else None

    def listen(self, timeout: Timeout) -> Any:
        self._driver.wait(lambda: bool(self._answers), timeout)
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
        self._driver.call(lambda: self._base.mail.drop_sink(self._cell))


class BlockingSystemBase(ActorSystemBase):
    """The system base `asyncioBase`: the engine with all that ActorSystem calls, from any thread."""

    def __init__(self, system: ActorSystem, logDefs: dict[str, Any] | None = None) -> None:
        try:
            loop, own_loop = asyncio.get_running_loop(), False
        except RuntimeError:
            loop, own_loop = _new_loop(), True
        super().__init__(system, loop, logDefs)
        self.driver = LoopDriver(self, own_loop)
        self._external = Endpoint(self, "System:ExternalRequester")

    def _turn(self) -> None:
        self.turns.run()
        self.driver.stop_if_done()

    def _close(self) -> None:
        super()._close()
        self.driver.close()

    # What ActorSystem calls.

    def newPrimaryActor(
        self,
        actor_class: type | str,
        requirements: dict[str, Any] | None,
        global_name: str | None,
        source_hash: str | None = None,
    ) -> ActorAddress:
        address: ActorAddress = self.driver.call(
            lambda: self.create_primary(actor_class, requirements, global_name, source_hash)
        )
        return address

    def tell(self, address: ActorAddress, message: Any) -> None:
        self._external.tell(address, message)

    def ask(self, address: ActorAddress, message: Any, timeout: Timeout = None) -> Any:
        return self._external.ask(address, message, timeout)

    def listen(self, timeout: Timeout = None) -> Any:
        return self._external.listen(timeout)

    def external_clone(self) -> Endpoint:
        endpoint: Endpoint = self.driver.call(lambda: Endpoint(self))
        return endpoint

    def updateCapability(self, name: str, value: Any = None) -> None:
        self.driver.call(lambda: self.life.update_capability(name, value))
        self.driver.settle()

    def _handleDeadLetters(self, address: ActorAddress, enable: bool) -> None:
        self.driver.call(lambda: self.mail.handle_dead_letters(address, enable))

    def loadActorSource(self, source: Any) -> str:
        digest: str = self.driver.call(lambda: self.life.sources.load(source))
        self.driver.settle()
        return digest

    def unloadActorSource(self, source_hash: str) -> None:
        self.driver.call(lambda: self.life.sources.unload(source_hash))
        self.driver.settle()

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
        if self.turns.running and self.mail.thread_id == threading.get_ident():
            self.life.begin_shutdown()  # an actor's handler called: the turns that follow see the actors out
            return
        self.driver.call(self._shut_down)
        if self.driver.own_loop:
            self.loop.close()

    def _shut_down(self) -> None:
        self.life.begin_shutdown()
        end = time.monotonic() + SHUTDOWN_SECONDS
        while self.live_actors and self.turns.has_work and time.monotonic() < end:
            self.turns.run()
        self._close()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
