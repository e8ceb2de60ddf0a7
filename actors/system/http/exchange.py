"""A request to make, and what is told of its response."""

from __future__ import annotations

import msgspec

from protocol.errors import ExecServerError
from protocol.http import HttpHeader, HttpRequestParams, HttpRequestResult


class Exchange(msgspec.Struct, frozen=True, gc=False):
    """A request to make. `deadline` is a time of `time.monotonic` for all of it; `max_body` bounds a body in bytes."""

    number: int
    params: HttpRequestParams
    deadline: float
    max_body: int
    max_bodies: int
    """Bounds the bodies of all sessions together, in bytes."""


class ResponseWhole(msgspec.Struct, frozen=True, gc=False):
    """The response with all of its body. It counts as kept until `body_passed`."""

    number: int
    result: HttpRequestResult


class ResponseHead(msgspec.Struct, frozen=True, gc=False):
    """The response whose body follows in chunks."""

    number: int
    status: int
    headers: list[HttpHeader]


class ResponseChunk(msgspec.Struct, frozen=True, gc=False):
    """The next bytes of a body; `chunk_passed` lets another one come."""

    number: int
    data: bytes


class ResponseEnded(msgspec.Struct, frozen=True, gc=False):
    """The body behind a ResponseHead is over; `broken` says why it is not whole."""

    number: int
    broken: str | None


class ResponseFailed(msgspec.Struct, frozen=True, gc=False):
    """There is no response."""

    number: int
    error: ExecServerError


Response = ResponseWhole | ResponseHead | ResponseChunk | ResponseEnded | ResponseFailed
