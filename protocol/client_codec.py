"""Messages as a client has them: requests out; results, errors and notifications in. The counterpart of `codec`.

A client believes its server further than a server its clients: members that are there twice, or nested deep, are not
looked for. What does not have the shape of the protocol is refused all the same, with ParseError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from protocol.codec import MSGPACK_SUBPROTOCOL
from protocol.decode_errors import parse_reason
from protocol.envelope import (
    Envelope,
    ErrorObject,
    ErrorResponse,
    MemberDecoders,
    Notification,
    NotificationMessage,
    Response,
    Trace,
    classify,
)
from protocol.errors import ExecServerError, ParseError, received_error
from protocol.filesystem import ReadDirectoryResult
from protocol.json_base64 import struct_decoder
from protocol.json_schema import NOTIFICATIONS
from protocol.process import ProcessOutput, ProcessReadResult, ProcessWriteResult
from protocol.requests import Params, ResultT
from protocol.session import InitializeResult
from protocol.wire_types import NotificationParams

_NOTIFIED = {kind.METHOD: kind for kind in NOTIFICATIONS}

UNKNOWN_OFFSET = -1
"""The offset of output from a server that does not tell it."""


def _complete_initialize(members: dict[str, Any]) -> None:
    members.setdefault("observeId", "")
    members.setdefault("server", {"name": "", "version": ""})


def _complete_output(members: dict[str, Any]) -> None:
    members.setdefault("offset", UNKNOWN_OFFSET)


def _complete_read(members: dict[str, Any]) -> None:
    for chunk in members.get("chunks", ()):
        _complete_output(chunk)


def _complete_write(members: dict[str, Any]) -> None:
    members["accepted"] = members.setdefault("status", "accepted") == "accepted"


def _complete_directory(members: dict[str, Any]) -> None:
    for entry in members.get("entries", ()):
        entry.setdefault("path", "")


_COMPLETE: dict[type[Struct], Callable[[dict[str, Any]], None]] = {
    InitializeResult: _complete_initialize,
    ReadDirectoryResult: _complete_directory,
    ProcessOutput: _complete_output,
    ProcessReadResult: _complete_read,
    ProcessWriteResult: _complete_write,
}
"""What other servers of the protocol leave out: docs/protocol.md, "How the wire may grow"."""


class RequestMessage(Struct, frozen=True, gc=False):
    """A call of a client, with its members in the order of the wire."""

    id: int
    method: str
    params: Any


class ClientCodec:
    """One encoding of the wire. `encode` makes bytes of a Struct, `make_decoder` a decoder for a type."""

    def __init__(
        self,
        name: str,
        encode: Callable[[Any], bytes],
        make_decoder: Callable[[Any], Callable[[Any], Any]],
        null: bytes,
    ) -> None:
        self.name = name
        self._encode = encode
        self._make_decoder = make_decoder
        self._decode_envelope = make_decoder(Envelope)
        self._decode_any = make_decoder(Any)
        self._members = MemberDecoders(
            null=null,
            trace=make_decoder(Trace | None),
            error=make_decoder(ErrorObject),
        )
        self._decoders: dict[type[Struct], Callable[[Any], Any]] = {}

    def encode_request(self, id: int, params: Params) -> bytes:
        """A request of the client."""
        return self._encode(RequestMessage(id, params.METHOD, params))

    def encode_notification(self, notification: NotificationParams) -> bytes:
        """A notification of the client."""
        return self._encode(NotificationMessage.of(notification))

    def decode(self, message: bytes) -> Response | ErrorResponse | NotificationParams | None:
        """One message of the server: an answer, whose result is still undecoded, or the Struct of a notification.

        None for a notification of a kind that is not known here, and for a request, which no server sends. Raises
        ParseError for what is no message, or a known notification of another shape.
        """
        try:
            kind = classify(self._decode_envelope(message), self._members)
            if isinstance(kind, (Response, ErrorResponse)):
                return kind
            if not isinstance(kind, Notification) or kind.method not in _NOTIFIED:
                return None
            return self._decoded(_NOTIFIED[kind.method], kind.params or Raw(b""))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ParseError(f"the server sent no message of the protocol: {parse_reason(error)}") from None

    def decode_result(self, kind: type[ResultT], result: Raw) -> ResultT:
        """A result as a Struct of this type. Raises ParseError where it has another shape."""
        try:
            return self._decoded(kind, result)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ParseError(f"the server answered with no {kind.__name__}: {parse_reason(error)}") from None

    def decode_error(self, answer: ErrorResponse) -> ExecServerError:
        """The refusal of a request, as the exception that it stands for."""
        data = self._decode_any(answer.error.data) if answer.error.data else None
        return received_error(answer.error.code, answer.error.message, data)

    def _decoded(self, kind: type[ResultT], raw: Raw) -> ResultT:
        decoder = self._decoders.get(kind)
        if decoder is None:
            decoder = self._decoders[kind] = self._make_decoder(kind)
        try:
            decoded: ResultT = decoder(raw)
            return decoded
        except msgspec.ValidationError:
            complete = _COMPLETE.get(kind)
            members = self._decode_any(raw)
            if complete is None or not isinstance(members, dict):
                raise
            complete(members)
            return msgspec.convert(members, kind)


def _json_decoder(kind: Any) -> Callable[[Any], Any]:
    if isinstance(kind, type) and issubclass(kind, Struct):
        return struct_decoder(kind)
    return msgspec.json.Decoder(kind).decode


JSON_CLIENT = ClientCodec("json", msgspec.json.Encoder().encode, _json_decoder, b"null")
MSGPACK_CLIENT = ClientCodec(
    "msgpack", msgspec.msgpack.Encoder().encode, lambda kind: msgspec.msgpack.Decoder(kind).decode, b"\xc0"
)


def client_codec_of(subprotocol: str | None) -> ClientCodec:
    """The encoding of a connection whose server selected this subprotocol."""
    return MSGPACK_CLIENT if subprotocol == MSGPACK_SUBPROTOCOL else JSON_CLIENT
