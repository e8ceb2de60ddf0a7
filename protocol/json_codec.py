"""JSON <-> messages: one JSON value a message, in and out.

Decoding is strict where wire-spec section 2 is; a message is refused with ParseError, whose text is only the
reason, params with InvalidParams, whose text names the member. Encoding has two ways with the same result:
msgspec, and for messages with much binary data a bytes template filled by pybase64, which is ten times as
fast at 64 KiB.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pybase64
from msgspec import UNSET, Raw, Struct

from protocol import json_strict
from protocol.decode_faults import parse_reason
from protocol.envelope import ErrorObject, Message, RequestId, Trace
from protocol.environment import EnvironmentConfigReadResult
from protocol.errors import ExecServerError, InvalidParams, InvalidRequest, ParseError
from protocol.filesystem import (
    CanonicalizeResult,
    ReadBlockResult,
    ReadDirectoryResult,
    ReadFileResult,
    WalkResult,
    WriteFileParams,
)
from protocol.http import HttpBodyDelta, HttpRequestResult
from protocol.json_params import params_decoder
from protocol.methods import Method
from protocol.params import ParamsReader
from protocol.process import (
    OutputChunk,
    ProcessListResult,
    ProcessOutput,
    ProcessReadResult,
    ProcessScreenResult,
    ProcessSnapshotResult,
)
from protocol.shapes import Envelope, ErrorMessage, MemberDecoders, NotificationMessage, ResultMessage, classify

_NOT_BASE64 = "invalid `dataBase64`: invalid base64 encoded string"
_NO_SYMBOL = re.compile(r"[^A-Za-z0-9+/=]")
_BRACKET = ord("[")
_SHALLOW = json_strict.MAX_DEPTH - 2
"""Arrays that a plain message may have: the message itself and `params` are objects around them."""
_PIECE = 384 * 1024
"""Bytes of raw data in a piece, a multiple of 3 so that the base64 of pieces joins: 512 KiB encoded."""
_TEMPLATE_FROM = 512
"""Bytes of a chunk from which the template is faster than msgspec (measured: 0.8 against 0.9 us; 6 against 61
at 64 KiB).
"""
_SMALL_RESULT = 2048
"""Bytes that a result without output is sure not to exceed by much: `initialize` has 1.5 KB."""
_AROUND_BYTES = 512
"""What a result takes beside its one member of bytes, rather more than that."""
_OF_ANY_SIZE = (
    ProcessListResult,
    ProcessScreenResult,
    CanonicalizeResult,
    ReadDirectoryResult,
    WalkResult,
    EnvironmentConfigReadResult,
)
_CHEAP_PROOF_UP_TO = 16 * 1024

_b64encode: Callable[[bytes | memoryview], bytes] = pybase64.b64encode
_encode = msgspec.json.Encoder().encode
_decode_envelope = msgspec.json.Decoder(Envelope).decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decoders = MemberDecoders(
    null=b"null", trace=msgspec.json.Decoder(Trace | None).decode, error=msgspec.json.Decoder(ErrorObject).decode
)


class JsonCodec:
    """JSON, as text. Frames may be binary too; both arrive as bytes."""

    name = "json"

    def __init__(self) -> None:
        self._params = ParamsReader(params_decoder, binary="base64 string")

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

    def decode_params(self, method: Method, params: Raw | None) -> Any:
        try:
            return self._params.read(method, params)
        except InvalidParams as error:
            if method.params is WriteFileParams and error.message == _NOT_BASE64 and params is not None:
                raise _invalid_content(params) from None
            raise

    def encode_result(self, id: RequestId, result: Struct) -> bytes:
        parts = _large_result_parts(id, result)
        return _encode(ResultMessage(id, result)) if parts is None else b"".join(parts)

    def encode_result_pieces(self, id: RequestId, result: Struct) -> Iterator[bytes]:
        parts = _large_result_parts(id, result)
        if parts is None:
            yield self.encode_result(id, result)
            return
        pending: list[bytes] = []
        size = 0
        for part in parts:
            pending.append(part)
            size += len(part)
            if size >= _PIECE * 4 // 3:
                yield b"".join(pending)
                pending.clear()
                size = 0
        if pending:
            yield b"".join(pending)

    def encoded_size_hint(self, result: Struct) -> int:
        if type(result) is ProcessReadResult:
            return 512 + len(result.chunks) * 96 + result.output_size * 4 // 3
        if type(result) is ProcessSnapshotResult:
            return 512 + result.output_size * 4 // 3
        if type(result) is HttpRequestResult:
            return result.size_beside_body + len(result.body_base64) * 4 // 3
        if type(result) is ReadFileResult:
            return _AROUND_BYTES + len(result.data_base64) * 4 // 3
        if type(result) is ReadBlockResult:
            return _AROUND_BYTES + len(result.chunk) * 4 // 3
        if type(result) in _OF_ANY_SIZE:
            return len(_encode(result)) + 64
        return _SMALL_RESULT

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

    def encode_notification(self, notification: Struct) -> bytes:
        if type(notification) is ProcessOutput and len(notification.chunk) >= _TEMPLATE_FROM:
            head = (
                b'{"method":"process/output","params":{"processId":%b,"seq":%d,"stream":"%b","offset":%d,"chunk":"'
                % (
                    _encode(notification.process_id),
                    notification.seq,
                    notification.stream.encode(),
                    notification.offset,
                )
            )
            return b"".join((head, _b64encode(notification.chunk), b'"}}'))
        if type(notification) is HttpBodyDelta and len(notification.delta_base64) >= _TEMPLATE_FROM:
            return b"".join(_body_delta_parts(notification))
        return _encode(NotificationMessage.of(notification))


def _body_delta_parts(delta: HttpBodyDelta) -> Iterator[bytes]:
    yield b'{"method":"http/request/bodyDelta","params":{"requestId":%b,"seq":%d,"deltaBase64":"' % (
        _encode(delta.request_id),
        delta.seq,
    )
    yield _b64encode(delta.delta_base64)
    yield b'","done":%b,"error":%b}}' % (_encode(delta.done), _encode(delta.error))


def _invalid_content(params: Raw) -> InvalidRequest:
    """The error for a file's content that is no base64; it is one of the request, not of its params (wire-spec 7)."""
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


def _has_large_chunks(result: Any) -> bool:
    return bool(result.chunks) and result.output_size >= _TEMPLATE_FROM * len(result.chunks)


def _large_result_parts(id: RequestId, result: Any) -> Iterator[bytes] | None:
    """The answer in parts, for results with much binary data; None for others."""
    kind = type(result)
    if kind is ProcessReadResult and _has_large_chunks(result):
        return _read_result_parts(id, result)
    if kind is ReadFileResult and len(result.data_base64) >= _TEMPLATE_FROM:
        return _bytes_result_parts(id, b'{"dataBase64":"', result.data_base64, b'"}')
    if kind is HttpRequestResult and len(result.body_base64) >= _TEMPLATE_FROM:
        head = _encode(msgspec.structs.replace(result, body_base64=b""))
        return _bytes_result_parts(id, head[:-2], result.body_base64, head[-2:])
    if kind is ReadBlockResult and len(result.chunk) >= _TEMPLATE_FROM:
        return _bytes_result_parts(id, b'{"chunk":"', result.chunk, b'","eof":%b}' % _encode(result.eof))
    return None


def _bytes_result_parts(id: RequestId, head: bytes, data: bytes, tail: bytes) -> Iterator[bytes]:
    yield b'{"id":%b,"result":%b' % (_encode(id), head)
    rest = memoryview(data)
    for start in range(0, len(data), _PIECE):
        yield _b64encode(rest[start : start + _PIECE])
    yield tail + b"}"


def _read_result_parts(id: RequestId, result: ProcessReadResult) -> Iterator[bytes]:
    """The answer to a read in parts of at most 512 KiB, none of which is made before it is asked for."""
    yield b'{"id":%b,"result":{"chunks":[' % _encode(id)
    separator = b""
    for chunk in result.chunks:
        yield from _chunk_parts(separator, chunk)
        separator = b","
    rest = _encode(msgspec.structs.replace(result, chunks=[]))
    yield rest[len(b'{"chunks":[') :] + b"}"


def _chunk_parts(separator: bytes, chunk: OutputChunk) -> Iterator[bytes]:
    data = chunk.chunk
    if len(data) < _TEMPLATE_FROM:
        yield separator + _encode(chunk)
        return
    yield b'%b{"seq":%d,"stream":"%b","offset":%d,"chunk":"' % (
        separator,
        chunk.seq,
        chunk.stream.encode(),
        chunk.offset,
    )
    for start in range(0, len(data), _PIECE):
        yield _b64encode(data[start : start + _PIECE])
    yield b'"}'
