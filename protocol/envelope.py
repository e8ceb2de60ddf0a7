"""The four kinds of JSON-RPC message (wire-spec section 2), whatever the encoding; no `jsonrpc` member
anywhere.

Params and results stay undecoded (`msgspec.Raw`, a view on the message): only the codec knows their encoding,
and only the method their type.
"""

from __future__ import annotations

import msgspec

RequestId = int | str
"""An integer of 64 bits with sign, or any string. It is echoed with its type, and a client may use one
twice.
"""


class Trace(msgspec.Struct, frozen=True, gc=False):
    """W3C trace context of a request, which a traced server continues."""

    traceparent: str | None = None
    tracestate: str | None = None


class Request(msgspec.Struct, frozen=True, gc=False):
    """A call that is owed exactly one answer. `params` is None where the member is absent or null."""

    id: RequestId
    method: str
    params: msgspec.Raw | None = None
    trace: Trace | None = None


class Notification(msgspec.Struct, frozen=True, gc=False):
    """A message that is never answered."""

    method: str
    params: msgspec.Raw | None = None


class Response(msgspec.Struct, frozen=True, gc=False):
    """The peer's answer to a request of ours."""

    id: RequestId
    result: msgspec.Raw


class ErrorObject(msgspec.Struct, frozen=True, gc=False):
    """What went wrong: a JSON-RPC code, a text for people, data for programs."""

    code: int
    message: str
    data: msgspec.Raw = msgspec.Raw(b"")


class ErrorResponse(msgspec.Struct, frozen=True, gc=False):
    """The peer's refusal of a request of ours."""

    id: RequestId
    error: ErrorObject


Message = Request | Notification | Response | ErrorResponse
