"""HttpActor: the `http/request` calls of one session.

The requests themselves are made in the thread of actors.system.http.client. What it tells is passed on in its order,
and not while the session is held: what is on its way by then waits here, bounded by what the thread may have out.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from thespian.actors import ActorExitRequest

from actors.base.actor import BaseActor
from actors.base.messages import (
    Address,
    Answer,
    BridgeAttached,
    BridgeDetached,
    Call,
    Failure,
    FlushWaits,
    Notify,
    OpenService,
    PauseOutput,
)
from actors.base.settings import MAX_WAIT_S, Settings
from actors.system.http.client import HttpClient
from actors.system.http.exchange import (
    Exchange,
    Response,
    ResponseChunk,
    ResponseEnded,
    ResponseFailed,
    ResponseHead,
    ResponseWhole,
)
from protocol.errors import Busy, ExecServerError, HttpError, InternalError, InvalidParams
from protocol.http import HttpBodyDelta, HttpRequestParams, HttpRequestResult

AT_ONCE = 32
"""Requests of a session that wait for a response at the same time; the others begin in the order in which they came."""
LAST_CALL = 0.8
"""The part of the grace after the end of a client's input after which what is unanswered fails."""
STREAMS = 256
"""Streamed bodies that a session may have open."""


class Request:
    """One call from its arrival to its last answer or body delta."""

    def __init__(self, call: Call, params: HttpRequestParams) -> None:
        self.call = call
        self.params = params
        wait = MAX_WAIT_S if params.timeout_ms is None else min(params.timeout_ms / 1000, MAX_WAIT_S)
        self.deadline = time.monotonic() + wait
        self.begun = False
        self.answered = False
        self.seq = 0


class HttpActor(BaseActor):
    """Carries out the HTTP requests of one session."""

    opens_with = OpenService

    _settings: Settings

    def __init__(self) -> None:
        super().__init__()
        self._client = HttpClient(lambda told: self.send(self.myAddress, told))
        self._attached: BridgeAttached | None = None
        self._paused = False
        self._number = 0
        self._requests: dict[int, Request] = {}
        self._streams: dict[str, int] = {}
        """requestId -> number of the streamed requests."""
        self._line: deque[int] = deque()
        self._unanswered = 0
        """Begun and not answered."""
        self._told: deque[Response] = deque()

    def receiveMsg_OpenService(self, message: OpenService, connection: Address) -> None:
        self._settings = message.settings
        self._attached = message.attached
        self._paused = message.paused

    def receiveMsg_BridgeAttached(self, message: BridgeAttached, connection: Address) -> None:
        self._attached = message

    def receiveMsg_BridgeDetached(self, message: BridgeDetached, connection: Address) -> None:
        """Nobody would hear the answers."""
        for number, request in list(self._requests.items()):
            if request.call.bridge == message.bridge:
                self._drop(number)
        self._go_on()

    def receiveMsg_Call(self, call: Call, connection: Address) -> None:
        params = call.params
        assert isinstance(params, HttpRequestParams)
        if params.stream_response:
            error = self._refusal(params.request_id)
            if error is not None:
                self.send(call.bridge, Failure(call.token, error))
                return
            self._streams[params.request_id] = self._number + 1
        self._number += 1
        self._requests[self._number] = Request(call, params)
        self._line.append(self._number)
        self._go_on()

    def _refusal(self, request_id: str) -> ExecServerError | None:
        if request_id in self._streams:
            return InvalidParams(f"http/request streamResponse requestId `{request_id}` is already active")
        if len(self._streams) >= STREAMS:
            return Busy(f"{STREAMS} streamed responses are open in this session; wait for one to end")
        return None

    def receiveMsg_PauseOutput(self, message: PauseOutput, connection: Address) -> None:
        self._paused = message.paused
        while self._told and not self._paused:
            self._pass_on(self._told.popleft())
        self._go_on()

    def _go_on(self) -> None:
        while self._line and not self._paused and self._unanswered < AT_ONCE:
            number = self._line.popleft()
            request = self._requests[number]
            request.begun = True
            self._unanswered += 1
            limit = self._settings.max_http_body
            if self._attached is not None:
                limit = min(limit, self._attached.max_bytes)
            self._client.begin(
                Exchange(number, request.params, request.deadline, limit, self._settings.http_bodies_total)
            )

    # -- what the thread tells ----------------------------------------------------------------------------------

    def receiveMsg_ResponseWhole(self, message: ResponseWhole, sender: Address) -> None:
        self._hear(message)

    def receiveMsg_ResponseHead(self, message: ResponseHead, sender: Address) -> None:
        self._hear(message)

    def receiveMsg_ResponseChunk(self, message: ResponseChunk, sender: Address) -> None:
        self._hear(message)

    def receiveMsg_ResponseEnded(self, message: ResponseEnded, sender: Address) -> None:
        self._hear(message)

    def receiveMsg_ResponseFailed(self, message: ResponseFailed, sender: Address) -> None:
        self._hear(message)

    def _hear(self, told: Response) -> None:
        if self._paused:
            self._told.append(told)
        else:
            self._pass_on(told)
            self._go_on()

    def _pass_on(self, told: Response) -> None:
        if isinstance(told, ResponseChunk):
            self._client.chunk_passed()
        elif isinstance(told, ResponseWhole):
            self._client.body_passed(told.number)
        request = self._requests.get(told.number)
        if request is None:
            return  # dropped since
        match told:
            case ResponseWhole():
                self._answer(told.number, request, told.result)
            case ResponseFailed():
                self._answer(told.number, request, told.error)
            case ResponseHead():
                self._answer(told.number, request, HttpRequestResult(told.status, told.headers, b""))
            case ResponseChunk():
                self._delta(request, told.data, False, None)
            case ResponseEnded():
                self._delta(request, b"", True, told.broken)
                self._forget(told.number)

    def _answer(self, number: int, request: Request, outcome: HttpRequestResult | ExecServerError) -> None:
        call = request.call
        request.answered = True
        self._unanswered -= 1
        if isinstance(outcome, ExecServerError):
            self.send(call.bridge, Failure(call.token, outcome))
        else:
            self.send(call.bridge, Answer(call.token, outcome))
        if isinstance(outcome, ExecServerError) or not request.params.stream_response:
            self._forget(number)

    def _delta(self, request: Request, data: bytes, done: bool, error: str | None) -> None:
        request.seq += 1
        delta = HttpBodyDelta(request.params.request_id, request.seq, data, done, error)
        self.send(request.call.bridge, Notify(delta))

    def _forget(self, number: int) -> Request:
        request = self._requests.pop(number)
        if request.params.stream_response:
            del self._streams[request.params.request_id]
        return request

    def _drop(self, number: int) -> None:
        """End a request whose answer nobody waits for."""
        request = self._forget(number)
        if not request.begun:
            self._line.remove(number)
            return
        self._client.abort(number)
        if not request.answered:
            self._unanswered -= 1

    def receiveMsg_FlushWaits(self, message: FlushWaits, sender: Address) -> None:
        """The bridge closes if nothing is answered for some time; be a little faster."""
        if self._attached is not None and message.bridge == self._attached.bridge:
            seconds = self._settings.end_of_input_grace * LAST_CALL
            self.deadlines.set("end of input", seconds, self._fail_unanswered)

    def _fail_unanswered(self) -> None:
        if self._attached is not None:
            error = HttpError("httpTimeout", "http/request failed: the connection's input ended before a response came")
            for number, request in list(self._requests.items()):
                if request.call.bridge == self._attached.bridge and not request.answered:
                    self._drop(number)
                    self.send(request.call.bridge, Failure(request.call.token, error))
            self._go_on()

    # -- the end ------------------------------------------------------------------------------------------------

    def receiveMsg_ActorExitRequest(self, message: ActorExitRequest, sender: Address) -> None:
        self._requests.clear()
        self._client.close()

    def on_fault(self, message: Any, sender: Address, error: Exception) -> None:
        number = getattr(message, "number", None)
        if isinstance(message, Call):
            number = next((each for each, request in self._requests.items() if request.call is message), None)
            failure = InternalError(f"the request failed inside the server: {error}")
            self.send(message.bridge, Failure(message.token, failure))
        if number in self._requests:
            self._drop(number)
