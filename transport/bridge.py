"""BridgeActor: the frames of one client on one side, actor messages on the other.

Every request is answered exactly once. The bridge holds what is pending under tokens of its own, since client ids may
repeat, and answers -32603 itself if the actor that should have answered is lost.

Nothing here grows without bound: the bridge takes no further request while more than the high-water mark is queued
for the client, while too many requests are unanswered, or while it waits for the answer to `initialize`.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator
from time import monotonic
from typing import Any

import msgspec
from thespian.actors import ActorExitRequest

from actors.base.actor import BaseActor, log
from actors.base.counters import Histogram
from actors.base.log_context import about
from actors.base.messages import (
    Address,
    Answer,
    Attached,
    BridgeClosed,
    Call,
    CallElsewhere,
    Congestion,
    Failure,
    FlushWaits,
    Initialize,
    NearLimit,
    Notify,
    PeerAlive,
    Probe,
    ProcessLost,
    ServiceLost,
    SessionLost,
    SessionTaken,
    TrafficReport,
)
from actors.base.settings import Settings
from actors.system.budget import ANSWERS, MESSAGES
from actors.system.limit_warnings import near
from protocol.codec import Codec, codec_of
from protocol.dialect import Dialect
from protocol.envelope import Notification, Request, RequestId, method_text
from protocol.errors import (
    ActorLost,
    Busy,
    ExecServerError,
    InvalidRequest,
    ParseError,
)
from protocol.methods import METHODS
from protocol.process import (
    ProcessReadResult,
    ProcessScreenParams,
    ProcessWriteResult,
)
from protocol.requests import Params
from protocol.session import MAX_MESSAGE_BYTES, InitializeParams
from protocol.wire_types import NotificationParams, WireStruct
from transport.interface import (
    Drained,
    InputEnded,
    MessagesArrived,
    ProbeAnswered,
    Transport,
    TransportClosed,
)
from transport.pending import PendingRequests, subject, void_with_process, void_with_service, why
from transport.tracing import Tracer
from transport.watcher import as_watcher

SMALL_REQUEST = 4096
"""Bytes of a request that is bounded by number alone while it is not answered."""
REQUEST_BYTES = 1024
"""What a request takes beside its params while it is not answered."""
TAKEN_A_TURN = 64
"""Messages of one client that are worked off before others have their turn."""
TAKEN_BYTES = 1 << 20
"""Bytes of messages after which others have their turn, too: decoding takes about a millisecond for so many."""
READS_AT_ONCE = 8
"""Reads and snapshots of one client that may be out for an answer at once: each may bring all that is kept."""
NOTIFICATION_BYTES = 256
"""What a notification takes beside its output, rather less than that."""
PIECEMEAL_ABOVE = 1 << 20
"""Answers that are larger are encoded piece by piece, as the client takes them; bytes."""
CLOSE_POLICY = 1008
INITIALIZE = "initialize"
TALLY_S = 2.0
"""After how many seconds the router is told what was carried, where it is measured."""
CLOSE_GOING_AWAY = 1001


class Open(msgspec.Struct, frozen=True, gc=False):
    """To a new BridgeActor, first of all: the client's transport, which it owns from now on, and the router."""

    transport: Any
    router: Address
    settings: Settings
    tracer: Tracer | None = None


class TakeMore(msgspec.Struct, frozen=True, gc=False):
    """To oneself: there are more messages than one turn allows."""


class Phase(enum.Enum):
    NEW = "new"  # no successful initialize yet
    INITIALIZING = "initializing"  # its answer is awaited; nothing else is taken
    ATTACHED = "attached"  # answered; `initialized` has not come
    READY = "ready"
    CLOSED = "closed"  # the transport is gone, or about to be


class Pending(PendingRequests, frozen=True, gc=False):
    """One request of this client that is not answered yet."""

    request_id: RequestId
    size: int = 0
    """About the bytes of its params."""
    large: int = 0
    """The same, 0 where it is bounded by number alone."""
    is_read: bool = False
    method: str = "initialize"
    since: float = 0.0
    """When it came, by `time.monotonic`, where that is measured."""
    span: Any = None
    """What the tracer made of it."""


class BridgeActor(BaseActor):
    """One client connection."""

    _transport: Transport
    _router: Address
    _settings: Settings
    _codec: Codec
    _initialize_params: InitializeParams

    opens_with = Open

    def __init__(self) -> None:
        super().__init__()
        self._phase = Phase.NEW
        self._dialect: Dialect
        self._session: Address = None
        self._session_id: str | None = None
        self._token = 0
        self._pending: dict[int, Pending] = {}
        self._reads_out = 0
        self._pending_bytes = 0
        self._outbox: deque[tuple[RequestId | None, WireStruct, int]] = deque()
        self._outbox_bytes = 0
        self._congested = False
        self._taking = False
        self._bounded = False
        self._piecemeal_bytes = 0
        self._max_message = MAX_MESSAGE_BYTES
        self._input_ended = False
        self._waits_ended = False
        self._finished = False
        self._written = 0
        self._probed = False
        self._left = False
        self._received_bytes = 0
        self._sent_bytes = 0
        self._durations: dict[str, Histogram] = {}
        self._measure = False
        self._tracer: Tracer | None = None
        self._tally_due = False

    def about(self) -> dict[str, Any]:
        return about(self._session_id)

    def receiveMsg_Open(self, message: Open, sender: Address) -> None:
        self._transport = message.transport
        self._router = message.router
        self._settings = message.settings
        self._measure = message.settings.measure
        self._tracer = message.tracer
        self._near_pending = near(message.settings.max_pending_requests)
        self._codec = codec_of(message.transport.subprotocol)
        self._dialect = Dialect(message.transport.subprotocol)
        if self._transport.resumable:  # else there is one client, and it keeps nobody out
            self.deadlines.set(INITIALIZE, self._settings.initialize_timeout, self._initialize_is_late)
        self._take()

    # -- what the client sends ----------------------------------------------------------------------------------

    def receiveMsg_MessagesArrived(self, message: MessagesArrived, sender: Address) -> None:
        self._take()

    def receiveMsg_TakeMore(self, message: TakeMore, sender: Address) -> None:
        self._taking = False
        self._take()

    def _take(self) -> None:
        """Work off what has arrived, as far as the bounds allow; whatever lifts a bound calls this again."""
        if self._taking:
            return
        self._bounded = False
        taken = 0
        for _ in range(TAKEN_A_TURN):
            if not self._may_take():
                self._bounded = True
                return
            messages = self._transport.take(1)
            if not messages:
                self._end_waits_at_end_of_input()
                return
            self._receive(messages[0])
            taken += len(messages[0])
            if taken >= TAKEN_BYTES:
                break
        self._taking = True
        self.send(self.myAddress, TakeMore())

    def _may_take(self) -> bool:
        return (
            self._phase not in (Phase.INITIALIZING, Phase.CLOSED)
            and not self._congested
            and self._reads_out < READS_AT_ONCE
            and len(self._pending) < self._settings.max_pending_requests
        )

    def _receive(self, data: bytes) -> None:
        if self._measure:
            self._received_bytes += len(data)
            self._tally_later()
        try:
            message = self._codec.decode(data)
        except ParseError as error:
            kind = "websocket " if "websocket" in self._transport.peer else ""
            text = f"failed to parse {kind}JSON-RPC message from {self._transport.peer}: {error.message}"
            self._send_error(-1, ParseError(text))
            return
        if isinstance(message, Request):
            try:
                self._request(message)
            except ExecServerError as error:
                self._send_error(message.id, error)
        elif isinstance(message, Notification) and message.method == "initialized":
            self._initialized()
        elif isinstance(message, Notification):
            self._violation(f"unexpected notification {method_text(message.method)!r}")
        else:
            self._violation("unexpected response: this server sends no requests")

    def _initialized(self) -> None:
        if self._phase is Phase.NEW:
            self._violation("initialized notification before initialize")
        elif self._phase is Phase.ATTACHED:
            self._phase = Phase.READY

    def _violation(self, reason: str) -> None:
        log.info("%s: closing the connection: %s", self._transport.peer, reason, extra=self.about())
        self._close(CLOSE_POLICY, reason)

    def _request(self, request: Request) -> None:
        kind = METHODS.get(request.method)
        if kind is None or (kind is ProcessScreenParams and not self._settings.screen):
            raise self._dialect.unknown_method(request.method)
        params = self._codec.decode_params(kind, request.params)
        if self._transport.watches is not None:
            params = as_watcher(self._transport.watches, request.method, params)
        if isinstance(params, InitializeParams):
            self._initialize(request, params)
            return
        self._check_phase(params)
        self._call(request, self._dialect.translate(params))

    def _initialize(self, request: Request, params: InitializeParams) -> None:
        if self._phase is not Phase.NEW:
            raise InvalidRequest("initialize may only be sent once per connection")
        self._phase = Phase.INITIALIZING
        wanted = params.resume_session_id
        self._session_id = wanted if isinstance(wanted, str) else None
        token = self._hold(Pending("initialize", None, None, request.id))
        self._initialize_params = params
        room = self._codec.room_for_bytes(params.max_message)
        self.send(self._router, Initialize(token, params, room, self._transport.peer.removeprefix("exec-server ")))

    def _check_phase(self, params: Params) -> None:
        if self._phase is Phase.NEW:
            raise InvalidRequest(f"client must call initialize before using {params.FAMILY} methods")
        if self._phase is Phase.ATTACHED:
            raise InvalidRequest(f"client must send initialized before using {params.FAMILY} methods")

    def _call(self, request: Request, params: Params) -> None:
        size = counted_bytes(request, params)
        large = size if params.bulk_bytes or size > SMALL_REQUEST else 0
        limit = self._settings.max_pending_bytes
        if large and self._pending_bytes and self._pending_bytes + large > limit:
            raise Busy(f"more than {limit} bytes of unanswered requests on this connection; wait for answers")
        MESSAGES.take(self, size + REQUEST_BYTES)
        is_read = params.asks_for_kept_output
        name, target = subject(params, self._session_id)
        since = monotonic() if self._measure else 0.0
        span = None if self._tracer is None else self._tracer.begin(request.method, request.trace)
        pending = Pending(params.FAMILY, name, target, request.id, size, large, is_read, request.method, since, span)
        token = self._hold(pending)
        call = Call(token, self.myAddress, params)
        if target is None:
            self.send(self._session, call)
        else:
            self.send(self._router, CallElsewhere(self._session_id or "", target, call))

    def _hold(self, pending: Pending) -> int:
        self._token += 1
        self._pending[self._token] = pending
        if len(self._pending) == self._near_pending:
            maximum = self._settings.max_pending_requests
            self.send(self._router, NearLimit("max_pending_requests", self._near_pending, maximum))
        self._reads_out += pending.is_read
        self._pending_bytes += pending.large
        return self._token

    # -- answers and events -------------------------------------------------------------------------------------

    def receiveMsg_Attached(self, message: Attached, router: Address) -> None:
        pending = self._release(message.token)
        if pending is None:
            return
        self._phase = Phase.ATTACHED
        self.deadlines.cancel(INITIALIZE)
        self._max_message = self._initialize_params.max_message
        self._dialect.initialize(self._initialize_params)
        self._session = message.session
        self._session_id = message.result.session_id
        self._put(pending.request_id, message.result, self._codec.encoded_size_hint(message.result))
        self._take()

    def receiveMsg_Answer(self, message: Answer, sender: Address) -> None:
        pending = self._release(message.token)
        if pending is None:
            return
        self._end_span(pending, None)
        try:
            result = message.result
            if isinstance(result, ProcessWriteResult):
                result = self._dialect.write_answer(result, pending.process_id or "")
            self._put_fitting(pending.request_id, result)
        except ExecServerError as error:
            self._send_error(pending.request_id, error)
        if self._bounded and self._reads_out <= READS_AT_ONCE // 2:
            self._take()
        self._close_if_finished()

    def receiveMsg_Failure(self, message: Failure, sender: Address) -> None:
        pending = self._release(message.token)
        if pending is None:
            return
        self._end_span(pending, str((message.error.data or {}).get("kind", message.error.code)))
        if self._phase is Phase.INITIALIZING:
            self._phase = Phase.NEW
            self._session_id = None
        self._send_error(pending.request_id, message.error)
        self._take()
        self._close_if_finished()

    def receiveMsg_Notify(self, message: Notify, router: Address) -> None:
        if self._phase is not Phase.CLOSED and not self._finished:
            self._put(None, message.notification, size_of(message.notification))

    def receiveMsg_ProcessLost(self, message: ProcessLost, router: Address) -> None:
        for token in void_with_process(self._pending, message):
            self._fail_pending(token, why(message))
        self._take()

    def receiveMsg_ServiceLost(self, message: ServiceLost, sender: Address) -> None:
        for token in void_with_service(self._pending, message):
            self._fail_pending(token, why(message))
        self._take()

    def receiveMsg_SessionLost(self, message: SessionLost, router: Address) -> None:
        for token in list(self._pending):
            self._fail_pending(token, "the actor of this session ended unexpectedly")
        self._close(1011, "the session is lost")

    def _fail_pending(self, token: int, reason: str) -> None:
        pending = self._release(token)
        if pending is not None:
            self._end_span(pending, "actorLost")
            self._send_error(pending.request_id, ActorLost(reason))
        self._close_if_finished()

    def _release(self, token: int) -> Pending | None:
        """Take a request off the books; None where the client is gone and nobody waits for the answer."""
        pending = self._pending.pop(token, None)
        if pending is not None:
            MESSAGES.give_back(self, pending.size + REQUEST_BYTES)
            self._pending_bytes -= pending.large
        if pending is None or self._phase is Phase.CLOSED:
            return None
        self._reads_out -= pending.is_read
        if pending.since:
            durations = self._durations.get(pending.method)
            if durations is None:
                durations = self._durations[pending.method] = Histogram()
            durations.observe(monotonic() - pending.since)
        return pending

    def _end_span(self, pending: Pending, error: str | None) -> None:
        if pending.span is not None and self._tracer is not None:
            self._tracer.end(pending.span, error)

    def _forget_pending(self) -> None:
        """The connection is gone, and with it whoever waited."""
        for pending in self._pending.values():
            self._end_span(pending, "connectionClosed")
        self._pending.clear()
        MESSAGES.lose(self)
        ANSWERS.lose(self)

    # -- figures ------------------------------------------------------------------------------------------------

    def _tally_later(self) -> None:
        if not self._tally_due:
            self._tally_due = True
            self.deadlines.set("tally", TALLY_S, self._tally)

    def _tally(self) -> None:
        """Tell the router what was carried since it was last told."""
        self._tally_due = False
        if self._measure:
            self.send(self._router, TrafficReport(self._received_bytes, self._sent_bytes, self._durations))
            self._received_bytes = self._sent_bytes = 0
            self._durations = {}

    # -- to the client ------------------------------------------------------------------------------------------

    def _send_error(self, request_id: RequestId, error: ExecServerError) -> None:
        if self._phase is not Phase.CLOSED:
            self._transport_send(self._codec.encode_error(request_id, error))

    def _put_fitting(self, request_id: RequestId, result: WireStruct) -> None:
        """Send a result that the client can take: a read is cut to what fits, anything else too large is an error."""
        size = self._codec.encoded_size_hint(result)
        if size > self._max_message and isinstance(result, ProcessReadResult):
            result = result.cut_to(self._max_message, self._codec.encoded_size_hint)
            size = self._codec.encoded_size_hint(result)
        elif size > self._max_message:
            text = f"the answer takes {size} bytes, more than the {self._max_message} of maxMessageBytes"
            self._send_error(request_id, InvalidRequest(text, {"kind": "tooLarge"}))
            return
        if size > PIECEMEAL_ABOVE:
            ANSWERS.take(self, size)
        self._put(request_id, result, size)

    def _put(self, request_id: RequestId | None, message: WireStruct, size: int) -> None:
        """Send a result, or with `request_id` None a notification, of about `size` bytes, rather less than that.

        It is kept unencoded while the client has enough to take.
        """
        queued = self._queued()
        if self._outbox or queued >= self._settings.outbound_high_water:
            self._outbox.append((request_id, message, size))
            self._outbox_bytes += size
        else:
            self._write(request_id, message, size)
        if queued + size > self._settings.outbound_high_water:
            self._judge_congestion()

    def _write(self, request_id: RequestId | None, message: WireStruct, size: int) -> None:
        self._written += 1
        if request_id is None:
            assert isinstance(message, NotificationParams)
            self._carry(self._codec.encode_notification(message))
        elif size > PIECEMEAL_ABOVE:
            self._piecemeal_bytes += size
            self._transport.send_pieces(self._pieces(request_id, message, size))
        else:
            self._carry(self._codec.encode_result(request_id, message))

    def _carry(self, data: bytes) -> None:
        if self._measure:
            self._sent_bytes += len(data)
            self._tally_later()
        self._transport.send(data)

    def _pieces(self, request_id: RequestId, result: WireStruct, size: int) -> Iterator[bytes]:
        try:
            for piece in self._codec.encode_result_pieces(request_id, result):
                self._written += 1
                self._sent_bytes += len(piece)
                yield piece
        finally:
            self._piecemeal_bytes -= size
            ANSWERS.give_back(self, size)
            if self._congested and self._phase is not Phase.CLOSED:
                self.send(self.myAddress, Drained())

    def _queued(self) -> int:
        """Bytes that wait for the client, encoded or not."""
        return self._outbox_bytes + self._piecemeal_bytes + self._transport.buffered()

    def _transport_send(self, data: bytes) -> None:
        self._carry(data)
        self._judge_congestion()

    def _judge_congestion(self) -> None:
        if self._congested:
            return
        if self._queued() > self._settings.outbound_high_water:
            self._congested = True
            if self._phase in (Phase.ATTACHED, Phase.READY) and self._session_id is not None:
                self.send(self._router, Congestion(self._session_id, True))
            self._transport.call_when_below(self._low_water)

    @property
    def _low_water(self) -> int:
        return self._settings.outbound_high_water // 4

    def receiveMsg_Drained(self, message: Drained, sender: Address) -> None:
        if self._phase is Phase.CLOSED:
            return
        while self._outbox and self._queued() - self._outbox_bytes < self._settings.outbound_high_water:
            request_id, waiting, size = self._outbox.popleft()
            self._outbox_bytes -= size
            self._write(request_id, waiting, size)
        if self._queued() > self._low_water:
            # What is not in the transport is made piece by piece, and `_pieces` tells when the last is made.
            if self._transport.buffered() > self._low_water:
                self._transport.call_when_below(self._low_water)
            return
        self._congested = False
        if self._session is not None and self._session_id is not None:
            self.send(self._router, Congestion(self._session_id, False))
        self._take()
        self._close_if_finished()

    # -- the end of the connection ------------------------------------------------------------------------------

    def receiveMsg_InputEnded(self, message: InputEnded, sender: Address) -> None:
        """Carry out what was read, answer the waits with what there is, then close."""
        if message.reason:
            log.warning("%s: the input is broken: %s", self._transport.peer, message.reason, extra=self.about())
        self._input_ended = True
        self._watch_progress()
        self._take()

    def _end_waits_at_end_of_input(self) -> None:
        """Called when everything that arrived has been taken."""
        if self._input_ended and not self._waits_ended:
            self._waits_ended = True
            if self._session is not None:
                self.send(self._session, FlushWaits(self.myAddress, self._session_id or ""))
        self._close_if_finished()

    def _close_if_finished(self) -> None:
        """After the end of the input the connection is over once everything is answered and on its way.

        Events that come after the last answer are not sent, or an endless child would keep the session.
        """
        if self._waits_ended and self._phase is not Phase.CLOSED and not self._pending:
            self._finished = True
            if not self._congested and not self._outbox:
                self._close(1000, "end of input")

    def _watch_progress(self) -> None:
        """After the end of the input: go on as long as somebody takes the output."""
        before = (self._written, self._transport.buffered())

        def judge() -> None:
            if self._phase is Phase.CLOSED:
                return
            if before != (self._written, self._transport.buffered()):
                self._watch_progress()
                return
            self._close(1000, "end of input")
            self._transport.abort("the output was not read in time after the end of the input")

        self.deadlines.set("progress", self._settings.end_of_input_grace, judge)

    def _initialize_is_late(self) -> None:
        if self._phase is Phase.CLOSED:
            return
        seconds = self._settings.initialize_timeout
        if self._phase is Phase.INITIALIZING:
            # Not the client is slow, but we are.
            self.deadlines.set(INITIALIZE, seconds, self._initialize_is_late)
        else:
            self._violation(f"no initialize within {seconds:g} s (initialize_timeout)")

    def receiveMsg_Probe(self, message: Probe, router: Address) -> None:
        if self._phase is not Phase.CLOSED:
            self._probed = True
            self._transport.probe()

    def receiveMsg_ProbeAnswered(self, message: ProbeAnswered, sender: Address) -> None:
        if self._probed and self._session_id is not None:
            self._probed = False
            self.send(self._router, PeerAlive(self._session_id))

    def receiveMsg_SessionTaken(self, message: SessionTaken, router: Address) -> None:
        self._close(CLOSE_GOING_AWAY, message.reason)

    def _close(self, code: int, reason: str) -> None:
        if self._phase is not Phase.CLOSED:
            self._phase = Phase.CLOSED
            self._forget_pending()
            self._outbox.clear()
            self._transport.close(code, reason)

    def receiveMsg_TransportClosed(self, message: TransportClosed, sender: Address) -> None:
        log.info("%s: closed: %s", self._transport.peer, message.reason, extra=self.about())
        while self._phase in (Phase.ATTACHED, Phase.READY) and (arrived := self._transport.take(TAKEN_A_TURN)):
            # What arrived before the cut is carried out; the answers have nowhere to go.
            for data in arrived:
                self._receive(data)
        self._phase = Phase.CLOSED
        self._forget_pending()
        self._outbox.clear()
        self._leave()

    def _leave(self) -> None:
        """Tell the router, once, that its sessions have no connection here any more."""
        if not self._left:
            self._left = True
            self._tally()
            ends = not self._transport.resumable or self._dialect.session_ends_with_connection
            self.send(self._router, BridgeClosed(self._session_id, ends))

    def receiveMsg_ActorExitRequest(self, message: ActorExitRequest, sender: Address) -> None:
        self._close(CLOSE_GOING_AWAY, "the server is shutting down")
        self._leave()

    def on_fault(self, message: Any, sender: Address, error: Exception) -> None:
        """A fault may have broken off a message half taken or half answered: nothing can be promised any more."""
        if self._phase is not Phase.CLOSED:
            self._close(1011, "internal error")
        elif isinstance(message, TransportClosed):
            self.send(self._router, BridgeClosed(self._session_id, True))


def counted_bytes(request: Request, params: Params) -> int:
    """About the bytes of a request's params; of base64, of what it stands for."""
    return max(params.bulk_bytes, 0 if request.params is None else memoryview(request.params).nbytes * 3 // 4)


def size_of(notification: NotificationParams) -> int:
    """Bytes that a notification takes, rather less than that."""
    return NOTIFICATION_BYTES + notification.bulk_bytes * 4 // 3
