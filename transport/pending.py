"""Requests that are not answered yet, by tokens of our own, and which of them never will be. Pure."""

from __future__ import annotations

import msgspec

from actors.base.messages import ProcessLost, ServiceLost
from actors.system.budget import MESSAGES
from protocol.envelope import Request, RequestId
from protocol.errors import Busy
from protocol.requests import Owner, Params
from transport.observer import Observed, Observer

SMALL_REQUEST = 4096
"""Bytes of a request that is bounded by number alone while it is not answered."""
REQUEST_BYTES = 1024
"""What a request takes beside its params while it is not answered."""


class PendingRequest(msgspec.Struct, frozen=True, gc=False):
    """One request: the id that its client gave it, its family, and the process and the session that it is about.

    `process_id` is None where the answer does not depend on one process, `session_id` for the client's own session.
    """

    request_id: RequestId
    family: str
    process_id: str | None = None
    session_id: str | None = None
    size: int = 0
    """About the bytes of its params; of base64, of what it stands for."""
    large: int = 0
    """The same, 0 where it is bounded by number alone."""
    is_read: bool = False
    """Whether its answer may bring all that is kept of a process."""
    observed: Observed | None = None


class PendingRequests:
    """The book of one client's unanswered requests. Client ids may repeat, so each has a token of its own."""

    def __init__(self, max_bytes: int, observer: Observer) -> None:
        self._max_bytes = max_bytes
        self._observer = observer
        self._requests: dict[int, PendingRequest] = {}
        self._token = 0
        self._large = 0
        self.reads = 0
        """Reads among them."""

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, request: PendingRequest, message: Request | None = None) -> int:
        """Book a request; its token. It is observed as `message`, if that is given.

        Raises Busy where the large requests of this client leave no room for it, though one alone always has some, and
        LimitReached where those of all clients do.
        """
        large, most = request.large, self._max_bytes
        if large and self._large and self._large + large > most:
            raise Busy(f"more than {most} bytes of unanswered requests on this connection; wait for answers")
        MESSAGES.take(self, request.size + REQUEST_BYTES)
        self._token += 1
        if message is not None:
            observed = self._observer.begin(message.method, message.trace)
            if observed is not None:
                request = msgspec.structs.replace(request, observed=observed)
        self._requests[self._token] = request
        self.reads += request.is_read
        self._large += large
        return self._token

    def settle(self, token: int, error: str | None) -> PendingRequest | None:
        """Take a request off the book that is answered, with this error or a result; None where nobody waits for it."""
        request = self._requests.pop(token, None)
        if request is not None:
            self.reads -= request.is_read
            self._large -= request.large
            MESSAGES.give_back(self, request.size + REQUEST_BYTES)
            self._observer.end(request.observed, error)
        return request

    def abandon(self) -> None:
        """The connection is gone, and with it whoever waited."""
        for request in self._requests.values():
            self._observer.abandon(request.observed)
        self._requests.clear()
        self.reads = self._large = 0
        MESSAGES.lose(self)

    # -- requests that nobody answers any more ------------------------------------------------------------------

    def tokens(self) -> list[int]:
        """Of all of them, in the order of their requests."""
        return list(self._requests)

    def void_with_process(self, lost: ProcessLost) -> list[int]:
        """The tokens of those that are about a process that is lost, or about any of its session."""
        return [
            token
            for token, request in self._requests.items()
            if request.session_id == lost.session_id
            and lost.process_id in (None, request.process_id)
            and (lost.newest is None or token <= lost.newest)
        ]

    def void_with_service(self, lost: ServiceLost) -> list[int]:
        """The tokens of those whose family's service is lost."""
        return [
            token for token, request in self._requests.items() if request.family == lost.family and token <= lost.newest
        ]


def sizes(request: Request, params: Params) -> tuple[int, int]:
    """`size` and `large` of a PendingRequest."""
    size = max(params.bulk_bytes, 0 if request.params is None else memoryview(request.params).nbytes * 3 // 4)
    return size, size if params.bulk_bytes or size > SMALL_REQUEST else 0


def subject(params: Params, own_session: str | None) -> tuple[str | None, str | None]:
    """The process and the session that a request is about, as a `PendingRequest` has them."""
    if params.OWNER is Owner.ROUTER:
        return None, None  # it answers whatever becomes of a process, and finds other sessions itself
    name = getattr(params, "process_id", None)
    session = getattr(params, "session_id", None)
    return name, None if session == own_session else session


def why(lost: ProcessLost | ServiceLost) -> str:
    """What the client is told of requests that are void."""
    if isinstance(lost, ServiceLost):
        return f"what carries out {lost.family} requests ended unexpectedly"
    if lost.process_id is None:
        return "the session of this process ended"
    return f"process {lost.process_id} is gone or watched no longer"
