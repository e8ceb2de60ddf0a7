"""MessagePack <-> messages: one map a message, in and out; the members are those of JSON, and what is base64
there is raw (bin) here.

Decoding is as strict as for JSON (`msgpack_strict`), and refuses with the same errors. msgspec encodes every
message with hardly more than a copy of its bytes, so only what is given out in pieces is encoded in parts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from protocol import msgpack_strict
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
from protocol.errors import ExecServerError, ParseError
from protocol.json_strict import StrictnessError
from protocol.params_decoder import ParamsDecoder
from protocol.requests import AnyParams
from protocol.wire_types import NotificationParams, WireStruct

_PIECE = 512 * 1024
"""Bytes from which a piece of a large result is given out; no chunk of output is as large."""
_AROUND_BYTES = 512
"""What a result takes beside its one member of bytes, rather more than that."""
_AROUND_RESULT = 64
"""What a message takes around its result, if its id is no long string."""
_ELEMENT_BYTES = 64
"""What a chunk of output takes beside its data, at most."""
_THREE_MEMBERS = b"\x83"
"""The first byte of a request without `trace`."""
_CHEAP_PROOF_UP_TO = 16 * 1024
_FLAT = frozenset((str, int, bool, bytes, type(None)))

_encode = msgspec.msgpack.Encoder().encode
_decode_envelope = msgspec.msgpack.Decoder(Envelope).decode
_decode_members = msgspec.msgpack.Decoder(dict[str, Any]).decode
_decoders = MemberDecoders(
    null=b"\xc0",
    trace=msgspec.msgpack.Decoder(Trace | None).decode,
    error=msgspec.msgpack.Decoder(ErrorObject).decode,
)


def _frame(struct: WireStruct) -> list[bytes]:
    # The first byte that differs once a member has an element is its length: 0x90 is an empty list, 0xc4 0x00 no bytes.
    empty = _encode(emptied(struct))
    parts, end = [], 0
    for name in type(struct).BULK:
        one = _encode(emptied(struct, keep=name))
        length = next(at for at, byte in enumerate(empty) if byte != one[at])
        parts.append(empty[end : length - (not isinstance(getattr(struct, name), list))])
        end = length + 1
    parts.append(empty[end:])
    return parts


def _header(value: Any) -> bytes:
    size = len(value)
    if isinstance(value, list):
        if size < 16:
            return bytes((0x90 | size,))
        return b"\xdc" + size.to_bytes(2, "big") if size < 1 << 16 else b"\xdd" + size.to_bytes(4, "big")
    if size < 1 << 8:
        return b"\xc4" + size.to_bytes(1, "big")
    return b"\xc5" + size.to_bytes(2, "big") if size < 1 << 16 else b"\xc6" + size.to_bytes(4, "big")


def _bytes_parts(data: bytes) -> Iterator[bytes]:
    rest = memoryview(data)
    for start in range(0, len(data), _PIECE):
        yield bytes(rest[start : start + _PIECE])


_BULK = BulkFormat(
    encode=_encode, frame=_frame, header=_header, data=_bytes_parts, separator=b"", whole_below=_PIECE, piece=_PIECE
)


class MsgpackCodec:
    """MessagePack, as it is on a WebSocket of the subprotocol `exec-server.msgpack`."""

    name = "msgpack"

    def __init__(self) -> None:
        self._params = ParamsDecoder(_struct_decoder, msgspec.msgpack.decode, binary="bin")

    def decode(self, message: bytes) -> Message:
        try:
            envelope = _plain_envelope(message)
            if envelope is None:
                msgpack_strict.check(message)
                envelope = _decode_envelope(message)
            return classify(envelope, _decoders)
        except (msgspec.MsgspecError, StrictnessError) as error:
            raise ParseError(parse_reason(error)) from None

    def decode_params(self, kind: AnyParams, params: Raw | None) -> Any:
        return self._params.decode(kind, params)

    def encode_result(self, id: RequestId, result: WireStruct) -> bytes:
        return _encode(ResultMessage(id, result))

    def encode_result_pieces(self, id: RequestId, result: WireStruct) -> Iterator[bytes]:
        if not result.BULK or self.encoded_size_hint(result) < _PIECE:
            return iter((self.encode_result(id, result),))
        return _BULK.pieces(_result_parts(id, result))

    def encoded_size_hint(self, result: WireStruct) -> int:
        if not result.BULK:
            return len(_encode(result)) + _AROUND_RESULT
        return result.bytes_beside_bulk(_ELEMENT_BYTES) + result.bulk_bytes

    def room_for_bytes(self, max_message: int) -> int:
        return max_message - _AROUND_BYTES

    def encode_error(self, id: RequestId, error: ExecServerError) -> bytes:
        answer = ErrorMessage.of(id, error)
        try:
            return _encode(answer)
        except UnicodeEncodeError:
            # A name of the system that is not UTF-8 got into the text; nobody can be sent that as it is.
            text = json.dumps(msgspec.to_builtins(answer), ensure_ascii=False).encode(errors="replace")
            return _encode(json.loads(text))

    def encode_notification(self, notification: NotificationParams) -> bytes:
        return _encode(NotificationMessage.of(notification))


def _plain_envelope(message: bytes) -> Envelope | None:
    """The envelope of a short request whose params have no members but strings, integers, booleans, bytes and nulls:
    most are such, and this proves it faster than the scan. None says nothing.

    As many members as the maps announce are there under different names, so none is there twice.
    """
    if len(message) > _CHEAP_PROOF_UP_TO or message[:1] != _THREE_MEMBERS:
        return None
    try:
        envelope = _decode_envelope(message)
        params = _decode_members(envelope.params)
    except (msgspec.MsgspecError, RecursionError):
        return None
    whole = envelope.id is not UNSET and envelope.method is not UNSET
    if not whole or memoryview(envelope.params)[0] != 0x80 + len(params):
        return None
    return envelope if _FLAT.issuperset(map(type, params.values())) else None


def _struct_decoder(kind: type[Struct]) -> Callable[[Raw], Any]:
    return msgspec.msgpack.Decoder(kind).decode


def _result_parts(id: RequestId, result: WireStruct) -> Iterator[bytes]:
    yield b"\x82\xa2id%b\xa6result" % _encode(id)
    yield from _BULK.parts(result)
