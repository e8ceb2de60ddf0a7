"""One real ProcessActor on an engine of its own, with a test all around it.

It talks to one address of the test, which is its router, its connection and a bridge: so the order among events,
answers and what the connection is told is known.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from thespian.actors import ActorExitRequest, ActorSystem

from actors.base.messages import (
    Answer,
    Call,
    Failure,
    OutputResumed,
    PauseOutput,
    ProcessEvent,
    StartProcess,
)
from actors.engine import ActorSystemBase, engine_of, install
from actors.process.actor import ProcessActor
from actors.system.child.table import CHILDREN
from protocol.process import ProcessClosed, ProcessOutput, ProcessReadParams, ProcessReadResult, ProcessStartParams
from tests.properties.session_world import SETTINGS
from tests.support.scripted import PATIENCE_S

install()

T = TypeVar("T")


class Probe:
    """An address of the test: keeps what it gets, in order, and wakes who waits."""

    def __init__(self, engine: ActorSystemBase) -> None:
        self.messages: list[Any] = []
        self._changed = asyncio.Event()
        self.address = engine.mail.new_sink(self).address

    def receive(self, message: Any, sender: Any) -> None:
        self.messages.append(message)
        self._changed.set()

    def undeliverable(self, message: Any) -> None:
        """The actor has ended; the test sees to what is missing."""

    def of(self, kind: type[T]) -> list[T]:
        return [each for each in self.messages if isinstance(each, kind)]

    async def until(self, holds: Callable[[], Any], what: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                self._changed.clear()
                try:
                    await self._changed.wait()
                except asyncio.CancelledError as error:
                    raise AssertionError(f"not within {PATIENCE_S} s: {what}; got {self.messages[-5:]}") from error


def notifications(messages: list[Any]) -> list[Any]:
    """The events among messages. Those of the end come twice in a row: to the router, and to the session."""
    told = [each for each in messages if isinstance(each, ProcessEvent)]
    return [each.notification for i, each in enumerate(told) if i == 0 or each is not told[i - 1]]


class Process:
    """One ProcessActor with its child, and the test all around it."""

    def __init__(
        self,
        engine: ActorSystemBase,
        argv: list[str],
        held: bool,
        retained: int,
        actor: type[ProcessActor] = ProcessActor,
        **params: Any,
    ) -> None:
        self.engine = engine
        self.probe = Probe(engine)
        self.held = held
        self._tokens = itertools.count(1)
        self.actor = engine.create_primary(actor)
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
        settings = msgspec.structs.replace(SETTINGS, retained_output=retained)
        start = StartProcess(
            session_id="s",
            token=0,
            bridge=self.probe.address,
            router=self.probe.address,
            params=ProcessStartParams(process_id="p", argv=argv, cwd="/", env=env, **params),
            cwd="/",
            settings=settings,
            paused=held,
        )
        engine.mail.send(self.probe.address, self.actor, start)

    @property
    def events(self) -> list[Any]:
        """The notifications so far, in the order in which they came."""
        return notifications(self.probe.messages)

    def told(self, *streams: str) -> bytes:
        """The output of these streams so far."""
        outputs = [each for each in self.events if isinstance(each, ProcessOutput)]
        return b"".join(each.chunk for each in outputs if each.stream in streams)

    def tell(self, message: Any) -> None:
        self.engine.mail.send(self.probe.address, self.actor, message)

    async def hold(self) -> None:
        """Returns when it is in force."""
        self.held = True
        self.tell(PauseOutput(True))
        await self.read(0, 0)

    async def release(self) -> dict[str, bytes]:
        """The output that had been told, by stream, when the process said that it had told all there was."""
        self.held = False
        before = len(self.probe.of(OutputResumed))
        self.tell(PauseOutput(False))
        await self.probe.until(lambda: len(self.probe.of(OutputResumed)) > before, "released")
        place = max(i for i, each in enumerate(self.probe.messages) if isinstance(each, OutputResumed))
        told: dict[str, bytes] = {}
        for each in self.probe.messages[:place]:
            if isinstance(each, ProcessEvent) and isinstance(each.notification, ProcessOutput):
                told[each.notification.stream] = told.get(each.notification.stream, b"") + each.notification.chunk
        return told

    async def read(self, after_seq: int, max_bytes: int | None = None) -> ProcessReadResult:
        """The answer, which comes to the same address as the events: at what place among them is known."""
        token = self.asks(ProcessReadParams(process_id="p", after_seq=after_seq, max_bytes=max_bytes))
        await self.probe.until(lambda: self.answer(token), "a read is answered")
        return self.answer(token).result

    def asks(self, params: msgspec.Struct) -> int:
        """Send a request; the token under which it is answered."""
        token = next(self._tokens)
        self.tell(Call(token, self.probe.address, params))
        return token

    def answer(self, token: int) -> Any:
        """The Answer or Failure under a token, None if it has not come."""
        answers = (*self.probe.of(Answer), *self.probe.of(Failure))
        return next((each for each in answers if each.token == token), None)

    @property
    def is_closed(self) -> bool:
        """Whether nothing more will be told of it."""
        return any(isinstance(each.notification, ProcessClosed) for each in self.probe.of(ProcessEvent))

    async def closed(self) -> None:
        await self.probe.until(lambda: self.is_closed, "closed")


def run_process(
    scenario: Callable[[Process], Any],
    argv: list[str],
    *,
    held: bool = False,
    retained: int = 1 << 20,
    tty: bool = False,
    **more: Any,
) -> None:
    """Start a process on an engine of its own, play a scenario with it, and see both to their ends."""

    async def main() -> None:
        system = ActorSystem("asyncioBase", {}, logDefs=False, transientUnique=True)
        engine = engine_of(system)
        try:
            process = Process(engine, argv, held, retained, tty=tty, **more)
            await scenario(process)
            process.tell(ActorExitRequest())
        finally:
            await engine.ashutdown()
        assert engine.live_actors == 0
        async with asyncio.timeout(PATIENCE_S):
            while CHILDREN.reap_left():
                await asyncio.sleep(0.001)
        assert not CHILDREN.commands()

    asyncio.run(main())
