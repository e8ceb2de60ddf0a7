"""JSON <-> messages: one JSON value a message, in and out.

Decoding is strict where docs/protocol.md, "Messages", is; a message is refused with ParseError, whose text is only the
reason, params with InvalidParams, whose text names the member. Encoding has two ways with the same result: msgspec, and
for messages with much binary data parts filled by pybase64 (`protocol.bulk`), which is ten times as fast at 64 KiB.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, get_args

import msgspec
import pybase64
from msgspec import UNSET, Raw

from protocol import json_strict
from protocol.bulk import BulkFormat, emptied
from protocol.decode_errors import parse_reason
from protocol.envelope import (
    Envelope,
    ErrorMessage,
    ErrorObject,
    MemberDecoders,
    Message,
    NotificationMessage,
    RequestId,
    ResultMessage,
    Trace,
    classify,
)
from protocol.errors import ExecServerError, InvalidParams, InvalidRequest, ParseError
from protocol.filesystem import WriteFileParams
from protocol.json_base64 import struct_decoder
from protocol.params_decoder import ParamsDecoder
from protocol.requests import AnyParams
from protocol.wire_types import NotificationParams, WireStruct

_NOT_BASE64 = "invalid `dataBase64`: invalid base64 encoded string"
_NO_SYMBOL = re.compile(r"[^A-Za-z0-9+/=]")
_BRACKET = ord("[")
_SHALLOW = json_strict.MAX_DEPTH - 2
"""Arrays that a plain message may have: the message itself and `params` are objects around them."""
_PIECE = 384 * 1024
"""Bytes of raw data in a piece, a multiple of 3 so that the base64 of pieces joins: 512 KiB encoded."""
_TEMPLATE_FROM = 512
"""Bytes of data from which parts are faster than msgspec (measured: 6 against 61 us at 64 KiB)."""
_AROUND_BYTES = 512
"""What a result takes beside its one member of bytes, rather more than that."""
_AROUND_RESULT = 64
"""What a message takes around its result, if its id is no long string."""
_ELEMENT_BYTES = 96
"""What a chunk of output takes beside its data, at most."""
_CHEAP_PROOF_UP_TO = 16 * 1024

_b64encode: Callable[[bytes | memoryview], bytes] = pybase64.b64encode
_encode = msgspec.json.Encoder().encode
_decode_envelope = msgspec.json.Decoder(Envelope).decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decoders = MemberDecoders(
    null=b"null", trace=msgspec.json.Decoder(Trace | None).decode, error=msgspec.json.Decoder(ErrorObject).decode
)


def _frame(struct: WireStruct) -> list[bytes]:
    # Within a string the quotes of a mark would have backslashes, so its first place is that of the member.
    rest = _encode(emptied(struct))
    parts = []
    for mark in _marks(type(struct)):
        head, mark, rest = rest.partition(mark)
        parts.append(head + mark)
    parts.append(rest)
    return parts


_MARKS: dict[type[WireStruct], list[bytes]] = {}


def _marks(kind: type[WireStruct]) -> list[bytes]:
    """The beginning of each bulk member: its key and `"` or `[`."""
    marks = _MARKS.get(kind)
    if marks is None:
        fields = {field.name: field for field in msgspec.structs.fields(kind)}
        bulk = [fields[name] for name in kind.BULK]
        marks = _MARKS[kind] = [
            b'"%b":%b' % (each.encode_name.encode(), b'"' if bytes in _types(each.type) else b"[") for each in bulk
        ]
    return marks


def _types(kind: Any) -> tuple[Any, ...]:
    return (kind, *get_args(kind))


def _base64_parts(data: bytes) -> Iterable[bytes]:
    if len(data) <= _PIECE:
        return (_b64encode(data),)
    rest = memoryview(data)
    return (_b64encode(rest[start : start + _PIECE]) for start in range(0, len(data), _PIECE))


_BULK = BulkFormat(
    encode=_encode,
    frame=_frame,
    header=lambda value: b"",
    data=_base64_parts,
    separator=b",",
    whole_below=_TEMPLATE_FROM,
    piece=_PIECE * 4 // 3,
)


class JsonCodec:
    """JSON, as text. Frames may be binary too; both arrive as bytes."""

    name = "json"

    def __init__(self) -> None:
        self._params = ParamsDecoder(struct_decoder, msgspec.json.decode, binary="base64 string")

    def decode(self, message: bytes) -> Message:
        try:
            envelope = _decode_envelope(message)
            _check_strictness(message, envelope)
            return classify(envelope, _decoders)
        except (
            msgspec.MsgspecError,
            json_strict.StrictnessError,
            UnicodeDecodeError,
            RecursionError,
        ) as error:
            blank = not message.strip(b" \t\r\n")
            raise ParseError("EOF while parsing a value" if blank else parse_reason(error)) from None

    def decode_params(self, kind: AnyParams, params: Raw | None) -> Any:
        try:
            return self._params.decode(kind, params)
        except InvalidParams as error:
            if kind is WriteFileParams and error.message == _NOT_BASE64 and params is not None:
                raise _invalid_content(params) from None
            raise

    def encode_result(self, id: RequestId, result: WireStruct) -> bytes:
        if _BULK.is_large(result):
            return b"".join(_result_parts(id, result))
        return _encode(ResultMessage(id, result))

    def encode_result_pieces(self, id: RequestId, result: WireStruct) -> Iterator[bytes]:
        if not result.BULK or self.encoded_size_hint(result) < _PIECE:
            return iter((self.encode_result(id, result),))
        return _BULK.pieces(_result_parts(id, result))

    def encoded_size_hint(self, result: WireStruct) -> int:
        if not result.BULK:
            return len(_encode(result)) + _AROUND_RESULT
        return result.bytes_beside_bulk(_ELEMENT_BYTES) + result.bulk_bytes * 4 // 3

    def room_for_bytes(self, max_message: int) -> int:
        return (max_message - _AROUND_BYTES) * 3 // 4

    def encode_error(self, id: RequestId, error: ExecServerError) -> bytes:
        answer = ErrorMessage.of(id, error)
        try:
            return _encode(answer)
        except UnicodeEncodeError:
            # A name of the system that is not UTF-8 got into the text; nobody can be sent that as it is.
            text = json.dumps(msgspec.to_builtins(answer), ensure_ascii=False, separators=(",", ":"))
            return text.encode(errors="replace")

    def encode_notification(self, notification: NotificationParams) -> bytes:
        # Most of what a server sends goes here: as `_BULK.parts` has it, without its generators.
        names = notification.BULK
        if len(names) == 1:
            data = getattr(notification, names[0])
            if len(data) >= _TEMPLATE_FROM:
                whole = _encode(NotificationMessage(notification.METHOD, emptied(notification)))
                head, mark, tail = whole.partition(_marks(type(notification))[0])
                return b"".join((head, mark, _b64encode(data), tail))
        return _encode(NotificationMessage(notification.METHOD, notification))


def _result_parts(id: RequestId, result: WireStruct) -> Iterator[bytes]:
    yield b'{"id":%b,"result":' % _encode(id)
    yield from _BULK.parts(result)
    yield b"}"


def _invalid_content(params: Raw) -> InvalidRequest:
    """The error for a file's content that is no base64; clients know it as one of the request."""
    text = msgspec.json.decode(params)["dataBase64"]
    symbol = _NO_SYMBOL.search(text)
    fault = "Invalid padding" if symbol is None else f"Invalid symbol {ord(symbol[0])}, offset {symbol.start()}."
    return InvalidRequest(f"fs/writeFile requires valid base64 dataBase64: {fault}", {"kind": "invalidInput"})


def _check_strictness(message: bytes, envelope: Envelope) -> None:
    """Raise StrictnessError or UnicodeDecodeError for what msgspec lets pass."""
    if not message.isascii():
        message.decode()
    if len(message) <= _CHEAP_PROOF_UP_TO and _is_plain(message, envelope):
        return
    json_strict.check(message)


def _is_plain(message: bytes, envelope: Envelope) -> bool:
    """A proof, far cheaper than a scan, that no key is there twice and little is nested. False says nothing.

    Every key has a colon behind it. If there are no more colons than distinct keys at the top and in
    `params`, these are all the keys there are, each is there once, and objects elsewhere are empty.
    """
    if envelope.id is UNSET or envelope.method is UNSET:
        return False
    try:
        keys = 3 + len(_decode_object(envelope.params))
    except msgspec.MsgspecError:
        return False
    return message.count(b":") == keys and (_BRACKET not in message or message.count(b"[") < _SHALLOW)
