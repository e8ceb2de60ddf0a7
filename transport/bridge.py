"""BridgeActor: the frames of one client on one side, actor messages on the other.

Every request is answered exactly once. The bridge books what is pending under tokens of its own, since client ids may
repeat, and answers -32603 itself if the actor that should have answered is lost.

Nothing here grows without bound: the bridge takes no further request while more than the high-water mark is queued
for the client, while too many requests are unanswered, or while it waits for the answer to `initialize`.
"""

from __future__ import annotations

import enum
from functools import partial
from typing import Any, ClassVar

import msgspec
from thespian.actors import ActorExitRequest

from actors.base.actor import BaseActor, Part, log
from actors.base.log_context import about
from actors.base.messages import (
    Address,
    Attached,
    BridgeClosed,
    Call,
    CallElsewhere,
    Congestion,
    Failure,
    FlushWaits,
    Initialize,
    NearLimit,
    PeerAlive,
    Probe,
    SessionLost,
    SessionTaken,
)
from actors.base.settings import Settings
from actors.process.spawn_request import LocalStart
from actors.system import clock
from actors.system.limit_warnings import near
from protocol.codec import Codec, codec_of
from protocol.dialect import Dialect
from protocol.envelope import Notification, Request, method_text
from protocol.errors import ExecServerError, InvalidRequest, ParseError
from protocol.methods import METHODS
from protocol.process import ProcessScreenParams, ProcessStartParams
from protocol.requests import Params
from protocol.session import InitializeParams
from transport.answers import Answers
from transport.input_end import PROGRESS, InputEnd
from transport.interface import (
    Drained,
    MessagesArrived,
    ProbeAnswered,
    Transport,
    TransportClosed,
)
from transport.observer import Observer, observer_of
from transport.outbox import Outbox
from transport.pending import PendingRequest, PendingRequests, sizes, subject
from transport.tracing import Tracer
from transport.watcher import as_watcher

TAKING_S = 0.001
"""How long messages of one client are worked off before others have their turn."""
TAKEN_BYTES = 1 << 20
"""Bytes of messages after which others have their turn, too: decoding takes about a millisecond for so many."""
READS_AT_ONCE = 8
"""Reads and snapshots of one client that may be out for an answer at once: each may bring all that is kept."""
CLOSE_GOING_AWAY = 1001
CLOSE_POLICY = 1008
CLOSE_FAULT = 1011
INITIALIZE = "initialize"


class Open(msgspec.Struct, frozen=True, gc=False):
    """To a new BridgeActor, first of all: the client's transport, which it owns from now on, and the router."""

    transport: Any
    router: Address
    settings: Settings
    tracer: Tracer | None = None


class TakeMore(msgspec.Struct, frozen=True, gc=False):
    """To oneself: there are more messages than one turn allows."""


class Phase(enum.Enum):
    """How far the conversation is."""

    NEW = "new"  # no successful initialize yet
    INITIALIZING = "initializing"  # its answer is awaited; nothing else is taken
    ATTACHED = "attached"  # answered; `initialized` has not come
    READY = "ready"
    CLOSING = "closing"  # the transport was told to close: nothing is taken or sent
    GONE = "gone"  # the router was told


class Taking(enum.Enum):
    """Why no message is being taken at this moment."""

    NOTHING_LEFT = "nothing left"  # MessagesArrived follows
    YIELDED = "yielded"  # TakeMore follows
    BOUNDED = "bounded"  # whatever lifts the bound takes more


ENDING = (Phase.CLOSING, Phase.GONE)
WITH_SESSION = (Phase.ATTACHED, Phase.READY)


class BridgeActor(BaseActor):
    """One client connection."""

    opens_with = Open
    parts: ClassVar[dict[str, type[Part]]] = {"_answers": Answers, "_input": InputEnd}

    _transport: Transport
    _router: Address
    _settings: Settings
    _codec: Codec
    _dialect: Dialect
    _observer: Observer
    _pending: PendingRequests
    _outbox: Outbox
    _answers: Answers
    _input: InputEnd
    _initialize_params: InitializeParams

    def __init__(self) -> None:
        super().__init__()
        self._phase = Phase.NEW
        self._taking = Taking.NOTHING_LEFT
        self._session: Address = None
        self._session_id: str | None = None

    def about(self) -> dict[str, Any]:
        return about(self._session_id)

    def receiveMsg_Open(self, message: Open, sender: Address) -> None:
        self._transport = transport = message.transport
        self._router = message.router
        self._settings = settings = message.settings
        self._codec = codec_of(transport.subprotocol)
        self._dialect = Dialect(transport.subprotocol)
        tell = partial(self.send, self._router)
        self._observer = observer_of(settings.measure, message.tracer, self.deadlines, tell)
        self._pending = PendingRequests(settings.max_pending_bytes, self._observer)
        self._outbox = Outbox(transport, self._codec, self._observer, settings.outbound_high_water, self._congestion)
        self._answers = Answers(self, self._pending, self._outbox, self._dialect, self._answered)
        grace_s = settings.end_of_input_grace
        self._input = InputEnd(self, transport, self._answers, grace_s, self._take, self._flush_waits, self._close)
        if transport.resumable:  # else there is one client, and it keeps nobody out
            self.deadlines.set(INITIALIZE, settings.initialize_timeout, self._initialize_is_late)
        self._take()

    # -- what the client sends ----------------------------------------------------------------------------------

    def receiveMsg_MessagesArrived(self, message: MessagesArrived, sender: Address) -> None:
        self._take()

    def receiveMsg_TakeMore(self, message: TakeMore, sender: Address) -> None:
        self._taking = Taking.NOTHING_LEFT
        self._take()

    def _take(self) -> None:
        """Work off what has arrived, as far as the bounds allow; whatever lifts a bound calls this again."""
        if self._taking is Taking.YIELDED:
            return
        until, taken = clock.now() + TAKING_S, 0
        while self._may_take():
            messages = self._transport.take(1)
            if not messages:
                self._taking = Taking.NOTHING_LEFT
                self._input.all_taken()
                return
            self._receive(messages[0])
            taken += len(messages[0])
            if taken >= TAKEN_BYTES or clock.now() >= until:
                self._taking = Taking.YIELDED
                self.send(self.myAddress, TakeMore())
                return
        self._taking = Taking.BOUNDED

    def _may_take(self) -> bool:
        return (
            self._phase not in (Phase.INITIALIZING, *ENDING)
            and not self._outbox.congested
            and self._pending.reads < READS_AT_ONCE
            and len(self._pending) < self._settings.max_pending_requests
        )

    def _receive(self, data: bytes) -> None:
        self._observer.received(len(data))
        try:
            message = self._codec.decode(data)
        except ParseError as error:
            kind = "websocket " if self._transport.kind == "websocket" else ""
            text = f"failed to parse {kind}JSON-RPC message from {self._transport.peer}: {error.message}"
            self._outbox.put_error(-1, ParseError(text))
            return
        if isinstance(message, Request):
            try:
                self._request(message, self._transport.passed_fds(data))
            except ExecServerError as error:
                self._outbox.put_error(message.id, error)
        elif isinstance(message, Notification) and message.method == "initialized":
            if self._phase is Phase.NEW:
                self._violation("initialized notification before initialize")
            elif self._phase is Phase.ATTACHED:
                self._phase = Phase.READY
        elif isinstance(message, Notification):
            self._violation(f"unexpected notification {method_text(message.method)!r}")
        else:
            self._violation("unexpected response: this server sends no requests")

    def _violation(self, reason: str) -> None:
        log.info("%s: closing the connection: %s", self._transport.peer, reason, extra=self.about())
        self._close(CLOSE_POLICY, reason)

    def _request(self, request: Request, pass_fds: tuple[int, ...]) -> None:
        kind = METHODS.get(request.method)
        if kind is None or (kind is ProcessScreenParams and not self._settings.screen):
            raise self._dialect.unknown_method(request.method)
        params = self._codec.decode_params(kind, request.params)
        if self._transport.watches is not None:
            params = as_watcher(self._transport.watches, request.method, params)
        if isinstance(params, InitializeParams):
            self._initialize(request, params)
            return
        _check_phase(self._phase, params)
        params = self._dialect.translate(params)
        if pass_fds and isinstance(params, ProcessStartParams):
            params = LocalStart(**msgspec.structs.asdict(params), pass_fds=pass_fds)
        self._call(request, params)

    def _initialize(self, request: Request, params: InitializeParams) -> None:
        if self._phase is not Phase.NEW:
            raise InvalidRequest("initialize may only be sent once per connection")
        token = self._pending.add(PendingRequest(request.id, params.FAMILY))
        self._phase = Phase.INITIALIZING
        wanted = params.resume_session_id
        self._session_id = wanted if isinstance(wanted, str) else None
        self._initialize_params = params
        room = self._codec.room_for_bytes(params.max_message)
        peer = f"{self._transport.kind} {self._transport.address}".rstrip()
        self.send(self._router, Initialize(token, params, room, peer))

    def _call(self, request: Request, params: Params) -> None:
        size, large = sizes(request, params)
        name, target = subject(params, self._session_id)
        is_read = params.asks_for_kept_output
        pending = PendingRequest(request.id, params.FAMILY, name, target, size, large, is_read)
        call = Call(self._pending.add(pending, request), self.myAddress, params)
        maximum = self._settings.max_pending_requests
        if len(self._pending) == near(maximum):
            self.send(self._router, NearLimit("max_pending_requests", len(self._pending), maximum))
        if target is None:
            self.send(self._session, call)
        else:
            self.send(self._router, CallElsewhere(self._session_id or "", target, call))

    # -- answers ------------------------------------------------------------------------------------------------

    def receiveMsg_Attached(self, message: Attached, router: Address) -> None:
        request = self._pending.settle(message.token, None)
        if request is None:
            return
        self._phase = Phase.ATTACHED
        self.deadlines.cancel(INITIALIZE)
        self._outbox.max_message = self._initialize_params.max_message
        self._dialect.initialize(self._initialize_params)
        self._session = message.session
        self._session_id = message.result.session_id
        self._outbox.put_result(request.request_id, message.result)
        self._take()

    def receiveMsg_Failure(self, message: Failure, sender: Address) -> None:
        if self._phase is Phase.INITIALIZING:
            self._phase = Phase.NEW
            self._session_id = None
        self._answers.refuse(message.token, message.error)
        self._answered()

    def _answered(self) -> None:
        """There may be room for more requests."""
        if self._taking is Taking.BOUNDED and self._pending.reads <= READS_AT_ONCE // 2:
            self._take()
        self._input.check()

    def receiveMsg_SessionLost(self, message: SessionLost, router: Address) -> None:
        self._answers.void(self._pending.tokens(), "the actor of this session ended unexpectedly")
        self._close(CLOSE_FAULT, "the session is lost")

    # -- flow ---------------------------------------------------------------------------------------------------

    def _congestion(self, congested: bool) -> None:
        if self._phase in WITH_SESSION and self._session_id is not None:
            self.send(self._router, Congestion(self._session_id, congested))

    def receiveMsg_Drained(self, message: Drained, sender: Address) -> None:
        if self._phase in ENDING:
            return
        self._outbox.drained()
        if not self._outbox.congested:
            self._take()
            self._input.check()

    # -- the end of the connection ------------------------------------------------------------------------------

    def _flush_waits(self) -> None:
        if self._session is not None:
            self.send(self._session, FlushWaits(self.myAddress, self._session_id or ""))

    def _initialize_is_late(self) -> None:
        seconds = self._settings.initialize_timeout
        if self._phase is Phase.INITIALIZING:  # not the client is slow, but we are
            self.deadlines.set(INITIALIZE, seconds, self._initialize_is_late)
        elif self._phase not in ENDING:
            self._violation(f"no initialize within {seconds:g} s (initialize_timeout)")

    def receiveMsg_Probe(self, message: Probe, router: Address) -> None:
        if self._phase not in ENDING:
            self._transport.probe()

    def receiveMsg_ProbeAnswered(self, message: ProbeAnswered, sender: Address) -> None:
        if self._session_id is not None:
            self.send(self._router, PeerAlive(self._session_id))

    def receiveMsg_SessionTaken(self, message: SessionTaken, router: Address) -> None:
        self._close(CLOSE_GOING_AWAY, message.reason)

    def _close(self, code: int, reason: str) -> None:
        if self._phase not in ENDING:
            self._end()
            self._transport.close(code, reason)

    def _end(self) -> None:
        """From here on nothing is answered."""
        self._phase = Phase.CLOSING
        self.deadlines.cancel(PROGRESS)
        self._answers.events_wanted = False
        self._pending.abandon()
        self._outbox.clear()

    def receiveMsg_TransportClosed(self, message: TransportClosed, sender: Address) -> None:
        log.info("%s: closed: %s", self._transport.peer, message.reason, extra=self.about())
        while self._phase in WITH_SESSION and (arrived := self._transport.take(1)):
            self._receive(arrived[0])  # what arrived before the cut is carried out; the answers have nowhere to go
        self._leave()

    def _leave(self) -> None:
        """Tell the router, once, that its sessions have no connection here any more."""
        if self._phase is not Phase.GONE:
            self._end()
            self._phase = Phase.GONE
            ends = not self._transport.resumable or self._dialect.session_ends_with_connection
            self.send(self._router, BridgeClosed(self._session_id, ends))
            self._observer.report()

    def receiveMsg_ActorExitRequest(self, message: ActorExitRequest, sender: Address) -> None:
        self._close(CLOSE_GOING_AWAY, "the server is shutting down")
        self._leave()

    def on_fault(self, message: Any, sender: Address, error: Exception) -> None:
        """A fault may have broken off a message half taken or half answered: nothing can be promised any more."""
        self._close(CLOSE_FAULT, "internal error")
        if isinstance(message, TransportClosed):
            self._leave()


def _check_phase(phase: Phase, params: Params) -> None:
    if phase is Phase.NEW:
        raise InvalidRequest(f"client must call initialize before using {params.FAMILY} methods")
    if phase is Phase.ATTACHED:
        raise InvalidRequest(f"client must send initialized before using {params.FAMILY} methods")
