"""A client of a server in the same process: actor messages, without sockets and without any encoding."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec import Struct

from actors.base.actor import BaseActor
from actors.base.messages import (
    Address,
    Answer,
    Attached,
    BridgeClosed,
    Call,
    CallElsewhere,
    Congestion,
    Failure,
    Initialize,
    Notify,
    PeerAlive,
    Probe,
    ProcessLost,
    ServiceLost,
    SessionLost,
    SessionTaken,
)
from actors.base.settings import Settings
from actors.process.spawn_request import LocalStart
from exec_server.client import calls
from exec_server.client.channel import Channel, ChannelClosed, Incoming, Refused, Succeeded
from exec_server.client.client import ExecServerClient
from exec_server.client.connect import CLIENT_NAME, INITIALIZE_S, opened
from exec_server.server.config import Config
from exec_server.server.server import Server, settings_of
from protocol.errors import ActorLost, ExecServerError, MethodNotFound
from protocol.methods import METHODS
from protocol.params_decoder import ParamsDecoder
from protocol.process import ProcessScreenParams
from protocol.requests import Params
from protocol.session import InitializeParams
from transport.bridge import size_of
from transport.pending import PendingRequests, subject, void_with_process, void_with_service, why

ANSWER_BYTES = 256
"""What an answer counts when it waits for the client, who asked for it and has room for it."""
CLOSE_S = 5.0


@asynccontextmanager
async def connect_in_process(
    server: Server | None = None, client_name: str = CLIENT_NAME, initialize_timeout: float = INITIALIZE_S
) -> AsyncIterator[ExecServerClient]:
    """A client of a server on the running loop: of `server`, or of one that lives as long as the block.

    The session ends with the block, and everything in it.
    """
    own = None
    if server is None:
        own = server = Server(settings_of(Config()))
        await own.start()
    try:
        at: Server = server

        async def connect() -> Channel:
            return InProcessChannel(at)

        async with opened(connect, InitializeParams(client_name, None), initialize_timeout) as client:
            yield client
    finally:
        if own is not None:
            await own.stop()


class InProcessChannel:
    """See `Channel`. What the server says waits here; above the server's high-water mark its processes are held."""

    resumable = False
    in_process = True

    def __init__(self, server: Server) -> None:
        self._settings = server.settings
        self._queue: deque[tuple[Incoming, int]] = deque()
        self._size = 0
        self.congested = False
        """Whether more waits than should, and the server was told so."""
        self._something = asyncio.Event()
        self._ended = asyncio.Event()
        self._reason = ""
        self._post = server.create_actor(InProcessActor)
        self._post(OpenChannel(self, server.router, server.settings))

    def send(self, call: calls.Call[Any]) -> None:
        if not call.future.done() and not self._ended.is_set():
            call.sent = True
            self._post(Ask(call.token, call.params))

    def initialized(self) -> None:
        pass  # nothing here may overtake the answer

    async def receive(self) -> Incoming:
        while not self._queue:
            if self._ended.is_set():
                raise ChannelClosed(self._reason)
            self._something.clear()
            await self._something.wait()
        incoming, size = self._queue.popleft()
        self._size -= size
        if self.congested and self._size <= self._settings.outbound_high_water // 4:
            self.congested = False
            self._post(Taken())
        return incoming

    async def close(self) -> None:
        self._post(Leave())
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._ended.wait()
        except TimeoutError:
            pass  # the engine does not run any more

    # For the actor.

    def put(self, incoming: Incoming) -> bool:
        """Append what the server says; whether that makes too much wait here."""
        size = ANSWER_BYTES if isinstance(incoming, (Succeeded, Refused)) else size_of(incoming)
        self._queue.append((incoming, size))
        self._size += size
        self._something.set()
        if self.congested or self._size <= self._settings.outbound_high_water:
            return False
        self.congested = True
        return True

    def end(self, reason: str) -> None:
        """Nothing comes any more."""
        if not self._ended.is_set():
            self._reason = reason
            self._ended.set()
            self._something.set()


class OpenChannel(Struct, frozen=True, gc=False):
    """To a new InProcessActor, first of all."""

    channel: Any
    router: Address
    settings: Settings


class Ask(Struct, frozen=True, gc=False):
    """Channel to its actor: a request of the client."""

    token: int
    params: Params


class Taken(Struct, frozen=True, gc=False):
    """Channel to its actor: the client has taken what waited, down to the low mark."""


class Leave(Struct, frozen=True, gc=False):
    """Channel to its actor: the client is gone."""


class InProcessActor(BaseActor):
    """Speaks for a client in this process, as a BridgeActor does for one at the end of a connection."""

    _channel: InProcessChannel
    _router: Address
    _settings: Settings

    def __init__(self) -> None:
        super().__init__()
        self._session: Address = None
        self._session_id: str | None = None
        self._pending: dict[int, PendingRequests] = {}
        self._over = False

    def receiveMsg_OpenChannel(self, message: OpenChannel, sender: Address) -> None:
        self._channel = message.channel
        self._router = message.router
        self._settings = message.settings

    # -- requests -----------------------------------------------------------------------------------------------

    def receiveMsg_Ask(self, message: Ask, sender: Address) -> None:
        if self._over:
            return
        try:
            self._ask(message)
        except ExecServerError as error:
            self._put(Refused(message.token, error))

    def _ask(self, message: Ask) -> None:
        kind = METHODS.get(message.params.METHOD)
        if kind is None or (kind is ProcessScreenParams and not self._settings.screen):
            raise MethodNotFound(message.params.METHOD)
        params = _DECODER.decode(kind, msgspec.to_builtins(message.params, builtin_types=(bytes,)))
        if isinstance(message.params, LocalStart):
            params = LocalStart(**msgspec.structs.asdict(params), pass_fds=message.params.pass_fds)
        if isinstance(params, InitializeParams):
            self._pending[message.token] = PendingRequests(kind.FAMILY, None, None)
            self.send(self._router, Initialize(message.token, params, params.max_message))
            return
        name, target = subject(params, self._session_id)
        self._pending[message.token] = PendingRequests(kind.FAMILY, name, target)
        call = Call(message.token, self.myAddress, params)
        if target is None:
            self.send(self._session, call)
        else:
            self.send(self._router, CallElsewhere(self._session_id or "", target, call))

    # -- answers and events -------------------------------------------------------------------------------------

    def receiveMsg_Attached(self, message: Attached, router: Address) -> None:
        self._session = message.session
        self._session_id = message.result.session_id
        self._answer(message.token, Succeeded(message.token, message.result))

    def receiveMsg_Answer(self, message: Answer, sender: Address) -> None:
        self._answer(message.token, Succeeded(message.token, message.result))

    def receiveMsg_Failure(self, message: Failure, sender: Address) -> None:
        self._answer(message.token, Refused(message.token, message.error))

    def receiveMsg_Notify(self, message: Notify, router: Address) -> None:
        self._put(message.notification)

    def receiveMsg_ProcessLost(self, message: ProcessLost, router: Address) -> None:
        for token in void_with_process(self._pending, message):
            self._answer(token, Refused(token, ActorLost(why(message))))

    def receiveMsg_ServiceLost(self, message: ServiceLost, sender: Address) -> None:
        for token in void_with_service(self._pending, message):
            self._answer(token, Refused(token, ActorLost(why(message))))

    def _answer(self, token: int, incoming: Incoming) -> None:
        if self._pending.pop(token, None) is not None:
            self._put(incoming)

    def _put(self, incoming: Incoming) -> None:
        if not self._over and self._channel.put(incoming) and self._session_id is not None:
            self.send(self._router, Congestion(self._session_id, True))

    def receiveMsg_Taken(self, message: Taken, sender: Address) -> None:
        if not self._over and self._session_id is not None and not self._channel.congested:
            self.send(self._router, Congestion(self._session_id, False))

    # -- the end ------------------------------------------------------------------------------------------------

    def receiveMsg_Probe(self, message: Probe, router: Address) -> None:
        if self._session_id is not None:
            self.send(self._router, PeerAlive(self._session_id))

    def receiveMsg_Leave(self, message: Leave, sender: Address) -> None:
        self._end("the client was closed")

    def receiveMsg_SessionTaken(self, message: SessionTaken, router: Address) -> None:
        self._end(message.reason)

    def receiveMsg_SessionLost(self, message: SessionLost, router: Address) -> None:
        self._end("the session is lost")

    def receiveMsg_ActorExitRequest(self, message: Any, sender: Address) -> None:
        self._end("the server is shutting down")

    def on_fault(self, message: Any, sender: Address, error: Exception) -> None:
        self._end(f"a fault of the server: {error!r}")

    def _end(self, reason: str) -> None:
        """Tell both sides, once."""
        if not self._over:
            self._over = True
            self._channel.end(reason)
            self.send(self._router, BridgeClosed(self._session_id, True))


def _converter(kind: type[Struct]) -> Callable[[Any], Any]:
    return lambda params: msgspec.convert(params, kind)


_DECODER = ParamsDecoder(_converter, lambda params, type: params, binary="bytes")
"""Checks params as a server does that reads them from a wire."""
