"""The server: it makes the actor system and the router, listens, and gives every connection a bridge."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import time
from collections.abc import Callable
from typing import Any

import msgspec
from thespian.actors import ActorSystem

from actors.base.counters import Histogram
from actors.base.messages import (
    Configure,
    Configured,
    Drain,
    Dump,
    Dumped,
    Measure,
    Measured,
    Reconfigure,
    SessionTaken,
    Shutdown,
)
from actors.base.services import preload
from actors.base.settings import ConfiguredSettings, Settings
from actors.engine import ActorSystemBase, engine_of, install
from actors.process import recording, screen
from actors.session import audit
from actors.system.child.table import CHILDREN
from actors.system.http.client import HTTP_THREAD
from actors.system.pool import FILE_POOL
from actors.system.sandbox.probe import program as bubblewrap_program
from exec_server.server import fd_usage
from exec_server.server.config import Config
from exec_server.server.environment_info import environment_info
from exec_server.server.threads import in_thread
from exec_server.version import __version__
from transport.bridge import BridgeActor, Open
from transport.interface import Transport, TransportClosed, TransportEvent
from transport.tracing import Tracer

log = logging.getLogger("exec_server")

ANSWER_S = 10.0
"""How long the router may take to answer the server itself, in seconds."""
RECORDINGS_S = 2.0
"""How long the last events of recordings have to reach their files, in seconds."""
HTTP_END_S = 2.0
"""How long the thread for HTTP requests has to close its connections, in seconds."""
GOODBYE_S = 2.0
"""How long clients have to take what is queued for them when the server stops, in seconds."""
TERM_S = 2.0
"""How long processes have to end when they are asked to, before they are killed, in seconds."""
SECOND_S = 1.0
"""How often is looked after what `each_second` was told, in seconds."""
LAST_REAP_S = 2.0
"""How long `stop` waits for killed children to be gone, in seconds."""
LAST_REAP_STEP_S = 0.005


def settings_of(config: Config) -> Settings:
    """What the actors are told of a configuration."""
    configured = {name: getattr(config, name) for name in ConfiguredSettings.__struct_fields__}
    return Settings(
        environment=environment_info(),
        server_version=__version__,
        screen=screen.available(),
        measure=bool(config.metrics_listen),
        **configured,
    )


def limits_of(settings: Settings) -> dict[str, int]:
    """What is in the metrics for comparison."""
    names = ("max_sessions", "max_processes", "max_file_handles", "retained_output_total", "start_rate")
    return {**{name: getattr(settings, name) for name in names}, "open_files": fd_usage.limit()}


class Server:
    """One actor system with its router, on the running loop. It listens to nothing by itself.

    `connect` gives it a transport; `stop` ends every session. Not to be used after `stop`.
    """

    def __init__(self, settings: Settings, tracer: Tracer | None = None) -> None:
        self.url: str | None = None
        """Where it listens, if something has made it listen: see `exec_server.serve`."""
        self._settings = settings
        self._tracer = tracer
        self._system: ActorSystem | None = None
        self._engine: ActorSystemBase
        self._router: Any = None
        self._bridges: dict[Transport, Any] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._timer: asyncio.TimerHandle | None = None
        self._due = time.monotonic()
        self._each_second: list[Callable[[], object]] = [CHILDREN.reap_left]
        self._loop_lag = Histogram()

    async def start(self) -> None:
        """Make the actors. Raises RuntimeError if the router does not answer."""
        install()
        self._system = ActorSystem("asyncioBase", {}, False, transientUnique=True)
        self._engine = engine_of(self._system)
        self._router = self._system.createActor("actors.router.actor.RouterActor")
        answer = await self._engine.aask(self._router, Configure(self._settings), ANSWER_S)
        if not isinstance(answer, Configured):
            raise RuntimeError(f"the router did not start: {answer!r}")
        # Loading them takes descriptors, of which a crowd of clients may leave none.
        importlib.import_module("actors.session.actor")
        FILE_POOL.submit(preload)
        bubblewrap_program()  # before a command can put another one into PATH
        self._due = time.monotonic()
        self._look()

    def each_second(self, call: Callable[[], object]) -> None:
        """Call it now, and once a second until the end of `stop`."""
        self._each_second.append(call)
        call()

    def _look(self) -> None:
        now = time.monotonic()
        self._loop_lag.observe(max(0.0, now - self._due))
        self._due = now + SECOND_S
        # Before anything can go wrong, which the loop logs.
        self._timer = asyncio.get_running_loop().call_later(SECOND_S, self._look)
        for call in self._each_second:
            call()

    @property
    def call_after_turn(self) -> Callable[[Callable[[], None]], object]:
        """Calls a callback once, at the end of the engine's turn: where transports flush."""
        return self._engine.call_after_turn

    def reconfigure(self, settings: Settings) -> None:
        """These settings hold for what begins from now on, what they say of the machine aside."""
        self._settings = msgspec.structs.replace(settings, environment=self._settings.environment)
        self._engine.post(self._router, Reconfigure(self._settings))

    @property
    def settings(self) -> Settings:
        """What the actors of this server were told."""
        return self._settings

    def connect(self, transport: Transport, on_closed: Callable[[], object] = lambda: None) -> None:
        """A new client: make its bridge and open the transport. `on_closed` is called when the transport is gone."""
        assert self._system is not None
        bridge = self._system.createActor(BridgeActor)
        self._bridges[transport] = bridge
        self._engine.post(bridge, Open(transport, self._router, self._settings, self._tracer))

        def notify(event: TransportEvent) -> None:
            self._engine.post(bridge, event)
            if isinstance(event, TransportClosed):
                self._bridges.pop(transport, None)
                if not self._bridges:
                    self._idle.set()
                on_closed()

        self._idle.clear()
        transport.open(notify)

    async def dump(self, show_argv: bool = False) -> dict[str, Any]:
        """What there is inside, as a JSON object. Raises RuntimeError if the router does not answer."""
        answer = await self._engine.aask(self._router, Dump(show_argv), ANSWER_S)
        if not isinstance(answer, Dumped):
            raise RuntimeError(f"the router did not tell what it has: {answer!r}")
        engine = self._engine
        living, waiting = engine.living(), engine.waiting()
        return {
            "pid": os.getpid(),
            "version": __version__,
            "openFiles": fd_usage.open_files(),
            "deadLetters": engine.dead_letters,
            "deepestMailbox": engine.deepest_mailbox,
            "actors": [
                {
                    "class": name,
                    "living": living.get(name, 0),
                    "waitingMessages": waiting.get(name, 0),
                    "handledMessages": messages,
                    "handlerSeconds": round(seconds, 6),
                }
                for name, (messages, seconds) in sorted(engine.handled().items())
            ],
            "connections": [
                {"peer": transport.peer, "outboundBytes": transport.buffered()} for transport in self._bridges
            ],
            "sessions": answer.sessions,
        }

    async def metrics(self) -> bytes:
        """The figures of now, in the text format of Prometheus. Raises RuntimeError if the router does not answer."""
        from exec_server.server import metrics

        answer = await self._engine.aask(self._router, Measure(), ANSWER_S)
        if not isinstance(answer, Measured):
            raise RuntimeError(f"the router did not tell its figures: {answer!r}")
        engine = self._engine
        return metrics.text(
            metrics.Reading(
                figures=answer.figures,
                connections=len(self._bridges),
                outbound_bytes=sum(transport.buffered() for transport in self._bridges),
                loop_lag=self._loop_lag,
                actors=engine.live_actors,
                dead_letters=engine.dead_letters,
                waiting=engine.waiting(),
                deepest_mailbox=engine.deepest_mailbox,
                handled=engine.handled(),
                open_files=fd_usage.open_files(),
                limits=limits_of(self._settings),
            )
        )

    async def drain(self, grace_s: float, hurried: asyncio.Event) -> None:
        """Begin nothing new. Running processes have `grace_s` seconds to end, then TERM_S after being asked to, then
        they are killed. Returns when none runs, or `hurried` is set; at once, and for nothing, with `grace_s` 0."""
        if not grace_s or hurried.is_set():
            return
        hurry = asyncio.ensure_future(hurried.wait())
        try:
            if not await self._idle_within(Drain(None), grace_s, hurry):
                await self._idle_within(Drain(TERM_S), TERM_S + LAST_REAP_S, hurry)
        finally:
            hurry.cancel()

    async def _idle_within(self, drain: Drain, seconds: float, hurry: asyncio.Future[Any]) -> bool:
        """Whether nothing runs any more, or whoever waits is in a hurry."""
        question = asyncio.ensure_future(self._engine.aask(self._router, drain, seconds))
        await asyncio.wait((question, hurry), return_when=asyncio.FIRST_COMPLETED)
        if question.done():
            return question.result() is not None
        question.cancel()
        await asyncio.wait((question,))
        return True

    async def stop(self) -> None:
        """Say goodbye to every client, end every session and its children, then the actors."""
        system, self._system = self._system, None
        if system is None:
            return
        await self._engine.aask(self._router, Shutdown(), ANSWER_S)
        for bridge in self._bridges.values():  # the router knows only those that have a session
            self._engine.post(bridge, SessionTaken("the server is shutting down"))
        try:
            await asyncio.wait_for(self._idle.wait(), GOODBYE_S)
        except TimeoutError:
            log.warning("%d connections did not close in time", len(self._bridges))
            for transport in list(self._bridges):
                transport.abort("the server is shutting down")
        await self._engine.ashutdown()
        system.shutdown()
        if not await in_thread(recording.wait_until_written, RECORDINGS_S):
            log.warning("not every recording could be written to its end")
        if not await in_thread(HTTP_THREAD.join, HTTP_END_S):
            log.warning("an HTTP request could not be ended in time")
        if not await in_thread(audit.wait_until_written):
            log.warning("not every line of the audit log could be written")
        if self._timer is not None:
            self._timer.cancel()
        deadline = time.monotonic() + LAST_REAP_S
        while left := CHILDREN.reap_left():
            if time.monotonic() > deadline:
                log.warning("%d children are still there after SIGKILL", left)
                break
            await asyncio.sleep(LAST_REAP_STEP_S)
