"""The members of whole messages, as every encoding has them: what is read, how it is classified (wire-spec
section 2), and what is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from protocol.envelope import (
    ErrorObject,
    ErrorResponse,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
    Trace,
)
from protocol.errors import ExecServerError


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
    def of(cls, notification: Struct) -> NotificationMessage:
        """The message of a Struct that has the name of its method in `METHOD`."""
        return cls(notification.METHOD, notification)  # type: ignore[attr-defined]


_T = TypeVar("_T")


def classify(envelope: Envelope, decoders: MemberDecoders) -> Message:
    """In the order of wire-spec section 2: what has a method is a call, whatever else it has. Raises
    msgspec.ValidationError for what is none of the four kinds.
    """
    id = envelope.id
    if id is not UNSET and not _is_id(id):
        raise msgspec.ValidationError("Expected another type - at `$.id`")
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


def _is_id(id: object) -> TypeGuard[RequestId]:
    return type(id) is str or (type(id) is int and -(2**63) <= id < 2**63)


def _decode_member(name: str, decode: Callable[[Raw], _T], raw: Raw) -> _T:
    try:
        return decode(raw)
    except msgspec.ValidationError as error:
        text = str(error) if "`$" in str(error) else f"{error} - at `$`"
        raise msgspec.ValidationError(text.replace("`$", f"`$.{name}")) from None
