"""Requests that are not answered yet, and which of them will not be, whatever speaks for the client. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from actors.base.messages import ProcessLost, ServiceLost
from protocol.requests import Owner, Params


class PendingRequests(msgspec.Struct, frozen=True, gc=False):
    """One request: its family, and the process and the session that it is about.

    `process_id` is None where the answer does not depend on one process, `session_id` for the client's own session.
    """

    family: str
    process_id: str | None
    session_id: str | None


def subject(params: Params, own_session: str | None) -> tuple[str | None, str | None]:
    """The process and the session that a request is about, as `PendingRequests` has them."""
    if params.OWNER is Owner.ROUTER:
        return None, None  # it answers whatever becomes of a process, and finds other sessions itself
    name = getattr(params, "process_id", None)
    session = getattr(params, "session_id", None)
    return name, None if session == own_session else session


def void_with_process(requests: Mapping[int, PendingRequests], lost: ProcessLost) -> list[int]:
    """The tokens of the requests that nobody answers any more, since a process, or its whole session, is lost."""
    return [
        token
        for token, request in requests.items()
        if request.session_id == lost.session_id
        and lost.process_id in (None, request.process_id)
        and (lost.newest is None or token <= lost.newest)
    ]


def void_with_service(requests: Mapping[int, PendingRequests], lost: ServiceLost) -> list[int]:
    """The tokens of the requests that nobody answers any more, since the service of their family is lost."""
    return [token for token, request in requests.items() if request.family == lost.family and token <= lost.newest]


def why(lost: ProcessLost | ServiceLost) -> str:
    """What the client is told of those requests."""
    if isinstance(lost, ServiceLost):
        return f"what carries out {lost.family} requests ended unexpectedly"
    if lost.process_id is None:
        return "the session of this process ended"
    return f"process {lost.process_id} is gone or watched no longer"
