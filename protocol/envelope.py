"""JSON-RPC messages, whatever the encoding: the four kinds that come in, how a message is classified, and what goes out
(docs/protocol.md, "Messages"). No `jsonrpc` member anywhere.

Params and results stay undecoded (`msgspec.Raw`, a view on the message): only the codec knows their encoding, and only
the method their type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from protocol.errors import ExecServerError
from protocol.wire_types import NAME_CHARACTERS, NotificationParams

METHOD_CHARACTERS = 128
"""Characters of a method's name that errors and logs repeat."""

RequestId = int | str
"""An integer of 64 bits with sign, or a string of up to 1024 characters. It is echoed with its type, and a client may
use one twice.
"""


class Trace(Struct, frozen=True, gc=False):
    """W3C trace context of a request, which a traced server continues."""

    traceparent: str | None = None
    tracestate: str | None = None


class Request(Struct, frozen=True, gc=False):
    """A call that is owed exactly one answer. `params` is None where the member is absent or null."""

    id: RequestId
    method: str
    params: Raw | None = None
    trace: Trace | None = None


class Notification(Struct, frozen=True, gc=False):
    """A message that is never answered."""

    method: str
    params: Raw | None = None


class Response(Struct, frozen=True, gc=False):
    """The peer's answer to a request of ours."""

    id: RequestId
    result: Raw


class ErrorObject(Struct, frozen=True, gc=False):
    """What went wrong: a JSON-RPC code, a text for people, data for programs."""

    code: int
    message: str
    data: Raw = Raw(b"")


class ErrorResponse(Struct, frozen=True, gc=False):
    """The peer's refusal of a request of ours."""

    id: RequestId
    error: ErrorObject


Message = Request | Notification | Response | ErrorResponse


class Envelope(Struct, frozen=True, gc=False):
    """A message that came in, with its members undecoded; an absent one is UNSET or empty."""

    id: int | str | float | bool | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = Raw()
    trace: Raw = Raw()
    result: Raw = Raw()
    error: Raw = Raw()


class MemberDecoders(Struct, frozen=True):
    """How one encoding writes null and reads the members that are decoded at once."""

    null: bytes
    trace: Callable[[Raw], Trace | None]
    error: Callable[[Raw], ErrorObject]


class ResultMessage(Struct, frozen=True, gc=False):
    """An answer; members in upstream's order, as in those that follow."""

    id: RequestId
    result: Any


class ErrorMessage(Struct, frozen=True, gc=False):
    """A refusal."""

    error: Any
    id: RequestId

    @classmethod
    def of(cls, id: RequestId, error: ExecServerError) -> ErrorMessage:
        """The refusal of a request because of `error`."""
        return cls(_ErrorMember(code=error.code, data=error.data, message=error.message), id)


class _ErrorMember(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    code: int
    data: Any = None
    message: str


class NotificationMessage(Struct, frozen=True, gc=False):
    """What is sent without being asked for."""

    method: str
    params: Any

    @classmethod
    def of(cls, notification: NotificationParams) -> NotificationMessage:
        """The message with these params."""
        return cls(notification.METHOD, notification)


_T = TypeVar("_T")


def classify(envelope: Envelope, decoders: MemberDecoders) -> Message:
    """In the order of docs/protocol.md, "Messages": what has a method is a call, whatever else it has. Raises
    msgspec.ValidationError for what is none of the four kinds.
    """
    id = envelope.id
    if id is not UNSET and not _is_id(id):
        raise msgspec.ValidationError("Expected another type - at `$.id`")
    if type(id) is str and len(id) > NAME_CHARACTERS:
        raise msgspec.ValidationError(_too_long("id", id, NAME_CHARACTERS))
    if envelope.method is not UNSET:
        params: Raw | None = envelope.params
        if not params or (len(params) == len(decoders.null) and bytes(params) == decoders.null):
            params = None
        if id is UNSET:
            return Notification(envelope.method, params)
        trace = _decode_member("trace", decoders.trace, envelope.trace) if envelope.trace else None
        return Request(id, envelope.method, params, trace)
    member = "result" if envelope.result else "error"
    if member == "error" and not envelope.error:
        raise msgspec.ValidationError("missing field `error`")
    if id is UNSET:
        raise msgspec.ValidationError("missing field `id`")
    if member == "result":
        return Response(id, envelope.result)
    return ErrorResponse(id, _decode_member("error", decoders.error, envelope.error))


def method_text(method: str) -> str:
    """The name of a method that came in, as errors and logs have it: shortened where no method is so long."""
    if len(method) <= METHOD_CHARACTERS:
        return method
    return f"{method[:METHOD_CHARACTERS]}... ({len(method)} characters)"


def _too_long(member: str, value: str, most: int) -> str:
    return f"invalid `{member}`: {len(value)} characters, more than the {most} that are allowed"


def _is_id(id: object) -> TypeGuard[RequestId]:
    return type(id) is str or (type(id) is int and -(2**63) <= id < 2**63)


def _decode_member(name: str, decode: Callable[[Raw], _T], raw: Raw) -> _T:
    try:
        return decode(raw)
    except msgspec.ValidationError as error:
        text = str(error) if "`$" in str(error) else f"{error} - at `$`"
        raise msgspec.ValidationError(text.replace("`$", f"`$.{name}")) from None
