"""Bytes <-> messages. One JSON value a message in, one out; the same Structs will serve MessagePack.

Decoding is strict where wire-spec section 2 is; a message is refused with ParseError, whose text is only the
reason, params with InvalidParams, whose text names the member. Encoding has two ways with the same result:
msgspec, and for messages with much binary data a bytes template filled by pybase64, which is ten times as
fast at 64 KiB.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import msgspec
import pybase64
from msgspec import UNSET, Raw, Struct, UnsetType

from protocol import json_strict
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
from protocol.errors import ExecServerError, InvalidParams, ParseError
from protocol.methods import Method
from protocol.process import OutputChunk, ProcessOutput, ProcessReadResult
from protocol.wire_types import NoParams


class Codec(Protocol):
    """One encoding of the wire."""

    name: str

    def decode(self, message: bytes) -> Message:
        """Classify one message. Raises ParseError, whose message is the reason without any prefix."""

    def decode_params(self, method: Method, params: Raw | None) -> Any:
        """Params as the method's type has them. Raises InvalidParams naming the member at fault."""

    def encode_result(self, id: RequestId, result: Struct) -> bytes:
        """The answer to a request."""

    def encode_result_pieces(self, id: RequestId, result: Struct) -> Iterator[bytes]:
        """The same bytes in pieces of about 512 KiB, each made when it is asked for."""

    def encoded_size_hint(self, result: Struct) -> int:
        """Bytes that `encode_result` will need, rather more than less; costs next to nothing."""

    def encode_error(self, id: RequestId, error: ExecServerError) -> bytes:
        """The refusal of a request."""

    def encode_notification(self, notification: Struct) -> bytes:
        """A notification; its Struct has the name of the method in `METHOD`."""


class _Envelope(Struct, frozen=True, gc=False):
    id: int | str | float | bool | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = Raw()
    trace: Raw = Raw()
    result: Raw = Raw()
    error: Raw = Raw()


class _Result(Struct, frozen=True, gc=False):
    id: RequestId
    result: Any


class _Error(Struct, frozen=True, gc=False):
    error: Any
    id: RequestId


class _ErrorObject(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    code: int
    data: Any = None
    message: str


class _Notification(Struct, frozen=True, gc=False):
    method: str
    params: Any


_QUOTE = ord('"')
_BRACKET = ord("[")
_KINDS = {
    ord("n"): "`null`",
    ord("t"): "`bool`",
    ord("f"): "`bool`",
    _BRACKET: "`array`",
    ord("{"): "`object`",
}
_PIECE = 384 * 1024
"""Bytes of raw data in a piece, a multiple of 3 so that the base64 of pieces joins: 512 KiB encoded."""
_TEMPLATE_FROM = 1024
"""Bytes of binary data from which the template is faster than msgspec (measured)."""
_CHEAP_PROOF_UP_TO = 16 * 1024
_KEPT_PREFIXES = 4096

_b64encode: Callable[[bytes], bytes] = pybase64.b64encode
_encode = msgspec.json.Encoder().encode
_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_trace = msgspec.json.Decoder(Trace | None).decode
_decode_error = msgspec.json.Decoder(ErrorObject).decode
_decode_string = msgspec.json.Decoder(str).decode


class JsonCodec:
    """JSON, as text. Frames may be binary too; both arrive as bytes."""

    name = "json"

    def __init__(self) -> None:
        self._decoders: dict[type[Struct], Callable[[Raw], Any]] = {}
        self._output_prefixes: dict[str, bytes] = {}

    def decode(self, message: bytes) -> Message:
        try:
            envelope = _decode_envelope(message)
            _check_strictness(message, envelope)
            return _classify(envelope)
        except (
            msgspec.MsgspecError,
            json_strict.StrictnessError,
            UnicodeDecodeError,
            RecursionError,
        ) as error:
            raise ParseError(_reason(message, error)) from None

    def decode_params(self, method: Method, params: Raw | None) -> Any:
        kind = method.params
        if params is None:
            if kind is NoParams:
                return NoParams()
            raise InvalidParams(f"invalid type: null, expected struct {kind.__name__}")
        decoder = self._decoders.get(kind)
        if decoder is None:
            decoder = self._decoders[kind] = _params_decoder(kind)
        try:
            return decoder(params)
        except msgspec.ValidationError as error:
            raise InvalidParams(_params_text(str(error), kind)) from None

    def encode_result(self, id: RequestId, result: Struct) -> bytes:
        if type(result) is ProcessReadResult and _raw_size(result) >= _TEMPLATE_FROM:
            return b"".join(_read_result_parts(id, result))
        return _encode(_Result(id, result))

    def encode_result_pieces(self, id: RequestId, result: Struct) -> Iterator[bytes]:
        if type(result) is not ProcessReadResult:
            yield self.encode_result(id, result)
            return
        pending: list[bytes] = []
        size = 0
        for part in _read_result_parts(id, result):
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
            return 512 + len(result.chunks) * 96 + _raw_size(result) * 4 // 3
        return 512

    def encode_error(self, id: RequestId, error: ExecServerError) -> bytes:
        answer = _Error(_ErrorObject(code=error.code, data=error.data, message=error.message), id)
        try:
            return _encode(answer)
        except UnicodeEncodeError:
            # A name of the system that is not UTF-8 got into the text; nobody can be sent that as it is.
            text = json.dumps(msgspec.to_builtins(answer), ensure_ascii=False, separators=(",", ":"))
            return text.encode(errors="replace")

    def encode_notification(self, notification: Struct) -> bytes:
        if type(notification) is not ProcessOutput:
            return _encode(_Notification(notification.METHOD, notification))  # type: ignore[attr-defined]
        prefix = self._output_prefixes.get(notification.process_id)
        if prefix is None:
            prefix = self._output_prefix(notification.process_id)
        return b'%b%d,"stream":"%b","offset":%d,"chunk":"%b"}}' % (
            prefix,
            notification.seq,
            notification.stream.encode(),
            notification.offset,
            _b64encode(notification.chunk),
        )

    def _output_prefix(self, process_id: str) -> bytes:
        prefix = b'{"method":"process/output","params":{"processId":%b,"seq":' % _encode(process_id)
        if len(self._output_prefixes) >= _KEPT_PREFIXES:
            self._output_prefixes.clear()
        self._output_prefixes[process_id] = prefix
        return prefix


def _classify(envelope: _Envelope) -> Message:
    id = envelope.id
    if id is not UNSET:
        if type(id) is not int and type(id) is not str:
            raise msgspec.ValidationError("`id` is neither a string nor an integer of 64 bits")
        if type(id) is int and not -(2**63) <= id < 2**63:
            raise msgspec.ValidationError("`id` is not an integer of 64 bits")
    if envelope.method is not UNSET:
        params: Raw | None = envelope.params
        if not params or (len(params) == 4 and bytes(params) == b"null"):
            params = None
        if id is UNSET:
            return Notification(envelope.method, params)
        trace = _decode_trace(envelope.trace) if envelope.trace else None
        return Request(id, envelope.method, params, trace)
    if envelope.result:
        if id is UNSET:
            raise msgspec.ValidationError("missing field `id`")
        return Response(id, envelope.result)
    if not envelope.error:
        raise msgspec.ValidationError("missing field `error`")
    if id is UNSET:
        raise msgspec.ValidationError("missing field `id`")
    return ErrorResponse(id, _decode_error(envelope.error))


def _check_strictness(message: bytes, envelope: _Envelope) -> None:
    """Raise StrictnessError or UnicodeDecodeError for what msgspec lets pass in members that nobody
    decodes.
    """
    if not message.isascii():
        message.decode()
    if len(message) <= _CHEAP_PROOF_UP_TO and _is_plain(message, envelope):
        return
    json_strict.check(message)


def _is_plain(message: bytes, envelope: _Envelope) -> bool:
    """A proof, far cheaper than a scan, that no key is there twice and little is nested; False proves
    nothing.

    Every key has a colon behind it. If there are no more colons than distinct keys at the top and in
    `params`, these are all the keys there are, each is there once, and objects elsewhere are empty.
    """
    if envelope.id is UNSET or envelope.method is UNSET:
        return False
    try:
        keys = 3 + len(_decode_object(envelope.params))
    except msgspec.MsgspecError:
        return False
    return message.count(b":") == keys and (
        _BRACKET not in message or message.count(b"[") < json_strict.MAX_DEPTH - 2
    )


def _reason(message: bytes, error: Exception) -> str:
    """What to tell a peer about a message that could not be decoded."""
    text = str(error)
    if isinstance(error, RecursionError):
        return "recursion limit exceeded"
    if isinstance(error, UnicodeDecodeError):
        return f"invalid UTF-8 at byte {error.start}"
    if not message.strip(b" \t\r\n"):
        return "EOF while parsing a value"
    if text.startswith("Expected `object`, got") and " - at " not in text:
        return "expected a JSON-RPC object"
    return _in_json_terms(text.removeprefix("JSON is malformed: "))


_AT = re.compile(r"(.*) - at `(?:key in )?\$\.?(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field (`[^`]*`)")
_JSON_TERMS = {
    "`str`": "string",
    "`int`": "integer",
    "`bool`": "boolean",
    "`float`": "number",
    "`array`": "array",
    "`object`": "object",
    "`null`": "null",
    "`uuid`": "UUID",
    "`bytes`": "base64 string",
}


def _in_json_terms(text: str) -> str:
    for python, json_term in _JSON_TERMS.items():
        text = text.replace(python, json_term)
    return text[:1].lower() + text[1:]


def _params_text(text: str, kind: type[Struct]) -> str:
    """msgspec's text for params that do not fit, reworded: the member first, types in JSON's terms."""
    located = _AT.fullmatch(text)
    fault, path = (located[1], located[2]) if located else (text, "")
    missing = _MISSING.fullmatch(fault)
    if missing:
        return f"missing field {missing[1]}" + (f" in `{path}`" if path else "")
    if path:
        return f"invalid `{path}`: {_in_json_terms(fault)}"
    if fault.startswith("Expected `object`, got"):
        return f"{_in_json_terms(fault)}: params must be an object with the members of {kind.__name__}"
    return fault


def _params_decoder(kind: type[Struct]) -> Callable[[Raw], Any]:
    """The decoder of a params type; for types with base64 members, one that uses pybase64 where there is much
    of it.
    """
    plain = msgspec.json.Decoder(kind).decode
    fields = msgspec.structs.fields(kind)
    binary = [field.name for field in fields if field.type is bytes]
    if not binary:
        return plain
    twin = msgspec.defstruct(
        kind.__name__,
        [
            (field.name, Raw if field.name in binary else field.type, msgspec.field(name=field.encode_name))
            if field.required
            else (field.name, field.type, msgspec.field(name=field.encode_name, default=field.default))
            for field in fields
        ],
    )
    decode_twin = msgspec.json.Decoder(twin).decode

    def decode(params: Raw) -> Any:
        if len(params) < _TEMPLATE_FROM:
            return plain(params)
        members = msgspec.structs.asdict(decode_twin(params))
        for field in fields:
            if field.name in binary:
                members[field.name] = _base64_member(members[field.name], field.encode_name)
        try:
            return kind(**members)
        except ValueError as error:
            raise msgspec.ValidationError(str(error)) from None

    return decode


def _base64_member(raw: Raw, member: str) -> bytes:
    text = memoryview(raw)
    if text[0] != _QUOTE:
        raise msgspec.ValidationError(
            f"Expected `bytes`, got {_KINDS.get(text[0], '`int`')} - at `$.{member}`"
        )
    try:
        return pybase64.b64decode(text[1:-1], validate=True)
    except ValueError:
        pass
    # Some encoders write `\\/` for a slash.
    try:
        return pybase64.b64decode(_decode_string(raw), validate=True)
    except ValueError:
        raise msgspec.ValidationError(f"Invalid base64 encoded string - at `$.{member}`") from None


def _raw_size(result: ProcessReadResult) -> int:
    chunks = result.chunks
    if not chunks:
        return 0
    last = chunks[-1]
    return last.offset + len(last.chunk) - chunks[0].offset


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
    head = b'%b{"seq":%d,"stream":"%b","offset":%d,"chunk":"' % (
        separator,
        chunk.seq,
        chunk.stream.encode(),
        chunk.offset,
    )
    if len(data) <= _PIECE:
        yield b'%b%b"}' % (head, _b64encode(data))
        return
    yield head
    for start in range(0, len(data), _PIECE):
        yield _b64encode(data[start : start + _PIECE])
    yield b'"}'


JSON: Codec = JsonCodec()
