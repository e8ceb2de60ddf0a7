"""MessagePack <-> messages: one map a message, in and out; the members are those of JSON, and what is base64
there is raw (bin) here.

Decoding is as strict as for JSON (`msgpack_strict`), and refuses with the same errors. msgspec encodes every
message with hardly more than a copy of its bytes, so no template is needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from protocol import msgpack_strict
from protocol.decode_faults import parse_reason
from protocol.envelope import ErrorObject, Message, RequestId, Trace
from protocol.environment import EnvironmentConfigReadResult
from protocol.errors import ExecServerError, ParseError
from protocol.filesystem import CanonicalizeResult, ReadBlockResult, ReadDirectoryResult, ReadFileResult, WalkResult
from protocol.http import HttpRequestResult
from protocol.json_strict import StrictnessError
from protocol.methods import Method
from protocol.params import ParamsReader
from protocol.process import ProcessListResult, ProcessReadResult, ProcessScreenResult, ProcessSnapshotResult
from protocol.shapes import Envelope, ErrorMessage, MemberDecoders, NotificationMessage, ResultMessage, classify

_PIECE = 512 * 1024
"""Bytes from which a piece of a large result is given out; no chunk of output is as large."""
_CHUNK_MEMBERS = 64
"""Bytes of a chunk in a result beside its data, at most."""
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
_THREE_MEMBERS = b"\x83"
"""The first byte of a request without `trace`."""
_CHEAP_PROOF_UP_TO = 16 * 1024
_FLAT = frozenset((str, int, bool, bytes, type(None)))
_CHUNKS = len(b"\x8c\xa6chunks")
"""Where in a read result the array of chunks begins: behind the map's first byte and the first key."""

_encode = msgspec.msgpack.Encoder().encode
_decode_envelope = msgspec.msgpack.Decoder(Envelope).decode
_decode_members = msgspec.msgpack.Decoder(dict[str, Any]).decode
_decoders = MemberDecoders(
    null=b"\xc0",
    trace=msgspec.msgpack.Decoder(Trace | None).decode,
    error=msgspec.msgpack.Decoder(ErrorObject).decode,
)


class MsgpackCodec:
    """MessagePack, as it is on a WebSocket of the subprotocol `exec-server.msgpack`."""

    name = "msgpack"

    def __init__(self) -> None:
        self._params = ParamsReader(_params_decoder, binary="bin")

    def decode(self, message: bytes) -> Message:
        try:
            envelope = _plain_envelope(message)
            if envelope is None:
                msgpack_strict.check(message)
                envelope = _decode_envelope(message)
            return classify(envelope, _decoders)
        except (msgspec.MsgspecError, StrictnessError) as error:
            raise ParseError(parse_reason(error)) from None

    def decode_params(self, method: Method, params: Raw | None) -> Any:
        return self._params.read(method, params)

    def encode_result(self, id: RequestId, result: Struct) -> bytes:
        return _encode(ResultMessage(id, result))

    def encode_result_pieces(self, id: RequestId, result: Struct) -> Iterator[bytes]:
        if type(result) is ReadFileResult:
            yield from _file_pieces(id, result.data_base64)
            return
        if type(result) is HttpRequestResult:
            yield from _http_pieces(id, result)
            return
        if type(result) is not ProcessReadResult:
            yield self.encode_result(id, result)
            return
        frame = _encode(msgspec.structs.replace(result, chunks=[]))
        pending = [b"\x82\xa2id", _encode(id), b"\xa6result", frame[:_CHUNKS], _array_header(len(result.chunks))]
        size = 0
        for chunk in result.chunks:
            pending.append(_encode(chunk))
            size += len(pending[-1])
            if size >= _PIECE:
                yield b"".join(pending)
                pending.clear()
                size = 0
        pending.append(frame[_CHUNKS + 1 :])
        yield b"".join(pending)

    def encoded_size_hint(self, result: Struct) -> int:
        if type(result) is ProcessReadResult:
            return 512 + len(result.chunks) * _CHUNK_MEMBERS + result.output_size
        if type(result) is ProcessSnapshotResult:
            return 512 + result.output_size
        if type(result) is HttpRequestResult:
            return result.size_beside_body + len(result.body_base64)
        if type(result) is ReadFileResult:
            return _AROUND_BYTES + len(result.data_base64)
        if type(result) is ReadBlockResult:
            return _AROUND_BYTES + len(result.chunk)
        if type(result) in _OF_ANY_SIZE:
            return len(_encode(result)) + 64
        return _SMALL_RESULT

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

    def encode_notification(self, notification: Struct) -> bytes:
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


def _params_decoder(kind: type[Struct]) -> Callable[[Raw], Any]:
    return msgspec.msgpack.Decoder(kind).decode


def _file_pieces(id: RequestId, data: bytes) -> Iterator[bytes]:
    head = b"\x82\xa2id%b\xa6result\x81\xaadataBase64%b" % (_encode(id), _bin_header(len(data)))
    yield head + data[:_PIECE]
    for start in range(_PIECE, len(data), _PIECE):
        yield data[start : start + _PIECE]


def _http_pieces(id: RequestId, result: HttpRequestResult) -> Iterator[bytes]:
    body = result.body_base64
    without_body = _encode(ResultMessage(id, msgspec.structs.replace(result, body_base64=b"")))
    yield without_body[: -len(_bin_header(0))] + _bin_header(len(body))
    rest = memoryview(body)
    for start in range(0, len(body), _PIECE):
        yield bytes(rest[start : start + _PIECE])


def _bin_header(size: int) -> bytes:
    if size < 1 << 8:
        return b"\xc4" + size.to_bytes(1, "big")
    return b"\xc5" + size.to_bytes(2, "big") if size < 1 << 16 else b"\xc6" + size.to_bytes(4, "big")


def _array_header(count: int) -> bytes:
    if count < 16:
        return bytes((0x90 | count,))
    return b"\xdc" + count.to_bytes(2, "big") if count < 1 << 16 else b"\xdd" + count.to_bytes(4, "big")
