"""One session on a server, over any number of connections: shakes hands, resumes after a cut, sends again.

    connecting ──► attached ──cut──► reconnecting ──► attached …
                       │                  │
                       └── not resumable ─┴── unknown session, refused, or too late ──► failed

Whoever uses it (a `Listener`) hears of notifications, of each cut and resume, and once of the end.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol

from exec_server.client.calls import Call, Calls, fail
from exec_server.client.channel import Channel, ChannelClosed, Incoming, Refused, Succeeded
from exec_server.client.errors import ConnectFailed, TransportDisconnected, Unauthorized
from protocol.errors import ExecServerError, SessionAttached
from protocol.requests import ParamsFor, ResultT
from protocol.session import InitializeParams, InitializeResult
from protocol.wire_types import NotificationParams

log = logging.getLogger("exec_server.client")

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 5.0
RECONNECT_S = 45.0
"""How long a session is tried to be resumed after a cut, in seconds."""

Connect = Callable[[], Awaitable[Channel]]
"""Makes a connection. Raises ConnectFailed."""


class Listener(Protocol):
    """Who is told what happens in a session. None of this blocks, except `room`."""

    def notified(self, notification: NotificationParams) -> None:
        """The server tells something."""

    def cut(self, reason: str) -> None:
        """The connection is gone."""

    def resumed(self) -> None:
        """There is a connection again."""

    def failed(self, reason: str) -> None:
        """There will be none."""

    async def room(self) -> None:
        """Return when more can be taken; nothing is received meanwhile."""


def delays() -> Iterator[float]:
    """How long to wait before each attempt to reconnect, in seconds: twice as long each time, a little random."""
    delay = FIRST_DELAY_S
    while True:
        yield delay * random.uniform(1.0, 1.25)
        delay = min(delay * 2, LONGEST_DELAY_S)


class Session:
    """A session and its requests. `open` comes first, `close` last."""

    def __init__(
        self,
        connect: Connect,
        initialize: InitializeParams,
        initialize_timeout: float,
        reconnect_timeout: float = RECONNECT_S,
    ) -> None:
        self._connect = connect
        self._initialize = initialize
        self._initialize_timeout = initialize_timeout
        self._reconnect_timeout = reconnect_timeout
        self._calls = Calls()
        self._channel: Channel | None = None
        self._life: asyncio.Task[None] | None = None
        self._failure: str | None = None
        self._listener: Listener
        self.facts: InitializeResult
        """What the server told at the first handshake."""

    async def open(self, listener: Listener) -> None:
        """Connect, and begin to listen. Raises ConnectFailed, and what the server answers to `initialize`."""
        self._listener = listener
        channel = await self._connect()
        try:
            self.facts = await self._shake_hands(channel, self._initialize)
        except BaseException as error:
            await channel.close()
            if isinstance(error, ChannelClosed):
                raise ConnectFailed(f"the server ended the connection before it answered initialize: {error}") from None
            if isinstance(error, TimeoutError):
                raise ConnectFailed(f"no answer to initialize in {self._initialize_timeout} s") from None
            raise
        self._channel = channel
        self._life = asyncio.create_task(self._guarded(channel))

    @property
    def connected(self) -> bool:
        """Whether there is a connection at this moment."""
        return self._channel is not None

    @property
    def in_process(self) -> bool:
        """Whether the server is in this process."""
        return self._channel is not None and self._channel.in_process

    @property
    def failure(self) -> str | None:
        """Why the session is lost; None while it is not."""
        return self._failure

    def has(self, extension: str) -> bool:
        """Whether an addition to the wire is in force, by its name in docs/protocol.md."""
        return extension in self.facts.extensions

    def post(self, params: ParamsFor[ResultT], repeat: bool = False, pass_fds: tuple[int, ...] = ()) -> Call[ResultT]:
        """Make a request; its future gets the answer. While there is no connection it waits for one.

        `repeat`: it may be sent again after a cut, although others of its kind may not. `pass_fds`: descriptors of this
        process that go beside it, to a server in this process. Raises TransportDisconnected once the session is lost.
        """
        if self._failure is not None:
            raise TransportDisconnected(self._failure)
        call = self._calls.add(params, repeat, pass_fds)
        if self._channel is not None:
            self._channel.send(call)
        return call

    async def call(self, params: ParamsFor[ResultT]) -> ResultT:
        """A request and its result. Raises the ExecServerError that the server answers with, and
        TransportDisconnected if the session is lost, or the connection before an answer to what cannot be repeated.
        """
        return await self.post(params).future

    async def close(self) -> None:
        """End the connection. What is not answered yet fails."""
        if self._life is not None:
            self._life.cancel()
            await asyncio.wait([self._life])
        channel, self._channel = self._channel, None
        self._fail("the client was closed")
        if channel is not None:
            await channel.close()

    # -- one connection -----------------------------------------------------------------------------------------

    async def _shake_hands(self, channel: Channel, params: InitializeParams) -> InitializeResult:
        call = self._calls.add(params)
        try:
            async with asyncio.timeout(self._initialize_timeout):
                channel.send(call)
                while not call.future.done():
                    self._dispatch(await channel.receive())
        finally:
            call.future.cancel()
        result = call.future.result()
        assert isinstance(result, InitializeResult)
        channel.initialized()
        return result

    def _dispatch(self, incoming: Incoming) -> None:
        if isinstance(incoming, Succeeded):
            self._calls.succeed(incoming.token, incoming.result)
        elif isinstance(incoming, Refused):
            self._calls.fail(incoming.token, incoming.error)
        else:
            self._listener.notified(incoming)

    async def _receive_all(self, channel: Channel) -> str:
        """Take what the server says until the connection ends; the reason."""
        try:
            while True:
                self._dispatch(await channel.receive())
                await self._listener.room()
        except ChannelClosed as closed:
            return str(closed)

    # -- many connections ---------------------------------------------------------------------------------------

    async def _guarded(self, channel: Channel) -> None:
        try:
            await self._live(channel)
        except Exception as error:
            log.exception("the client cannot go on")
            self._fail(f"a fault of the client: {error!r}")

    async def _live(self, channel: Channel) -> None:
        while True:
            reason = await self._receive_all(channel)
            self._channel = None
            await channel.close()
            starts = self._calls.lose_connection(reason)
            if not channel.resumable:
                self._fail(reason, starts)
                return
            self._listener.cut(reason)
            try:
                channel = await self._reconnect(reason)
            except TransportDisconnected as error:
                self._fail(error.reason)
                return
            for call in self._calls:
                channel.send(call)
            self._channel = channel
            self._listener.resumed()

    async def _reconnect(self, reason: str) -> Channel:
        """A new connection of the same session. Raises TransportDisconnected when there is none to be had."""
        deadline = asyncio.get_running_loop().time() + self._reconnect_timeout
        last = ""
        for delay in delays():
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                break
            await asyncio.sleep(min(delay, left))
            try:
                return await self._resume()
            except (ConnectFailed, SessionAttached) as error:
                last = str(error)
                if isinstance(error, Unauthorized):
                    break
            except (ChannelClosed, TimeoutError) as error:
                last = f"{error or 'no answer to initialize'}"
            except ExecServerError as error:
                last = error.message
                break
        raise TransportDisconnected(f"{reason}; the session could not be resumed: {last}")

    async def _resume(self) -> Channel:
        channel = await self._connect()
        try:
            await self._shake_hands(channel, InitializeParams(self._initialize.client_name, self.facts.session_id))
        except BaseException:
            await channel.close()
            raise
        return channel

    def _fail(self, reason: str, starts: list[Call[Any]] | None = None) -> None:
        if self._failure is not None:
            return
        self._failure = reason
        error = TransportDisconnected(reason)
        for call in starts or ():
            fail(call.future, error)
        self._calls.fail_all(error)
        self._listener.failed(reason)
