"""What MSGPACK makes of bytes, and the bytes it makes: as JSON does (docs/protocol.md, "Messages"), with raw data."""

from __future__ import annotations

import base64
import json
import math
import os
from typing import Any

import msgpack
import msgspec
import pytest

from protocol.codec import JSON, MSGPACK, codec_of
from protocol.envelope import ErrorResponse, Notification, Request, Response, Trace
from protocol.errors import InternalError, InvalidParams, ParseError, SpawnError
from protocol.methods import METHODS
from protocol.msgpack_strict import MAX_VALUES
from protocol.process import OutputChunk, ProcessOutput, ProcessReadResult, ProcessTerminateResult, ProcessWriteParams
from tests.protocol.test_decode import UPSTREAM
from tests.protocol.test_encode import SIZES, read_result

pack: Any = msgpack.packb
TAIL = b"\xa6method\xa1m"


def map_of(count: int, *items: bytes) -> bytes:
    return bytes((0x80 | count,)) + b"".join(items)


def request(params: bytes) -> bytes:
    """A request with these bytes for params."""
    return map_of(3, b"\xa2id\x01", TAIL, b"\xa6params", params)


def reason_of(message: bytes) -> str:
    with pytest.raises(ParseError) as refused:
        MSGPACK.decode(message)
    assert refused.value.code == -32600
    return refused.value.message


def test_the_subprotocol_decides_the_encoding() -> None:
    """A client would be answered in bytes that it cannot read."""
    assert codec_of("exec-server.msgpack") is MSGPACK
    assert codec_of(None) is JSON
    assert codec_of("something.else") is JSON


def test_classifies_in_the_order_of_the_wire_spec() -> None:
    """A message with several members would be taken for another kind."""
    assert MSGPACK.decode(pack({"id": 1, "method": "m", "result": 1, "error": "x"})) == Request(1, "m", None, None)
    assert MSGPACK.decode(pack({"id": 1, "method": "m", "params": None})) == Request(1, "m", None, None)
    assert MSGPACK.decode(pack({"method": "m", "result": 1, "error": "x", "trace": 5})) == Notification("m", None)
    both = MSGPACK.decode(pack({"id": "a", "result": None, "error": {"code": 1, "message": "x"}}))
    assert isinstance(both, Response)
    assert (both.id, bytes(both.result)) == ("a", b"\xc0")
    refused = MSGPACK.decode(pack({"error": {"code": -5, "message": "no", "data": [1]}, "id": 3}))
    assert isinstance(refused, ErrorResponse)
    assert (refused.error.code, refused.error.message, bytes(refused.error.data)) == (-5, "no", b"\x91\x01")
    traced = MSGPACK.decode(pack({"id": 1, "method": "m", "trace": {"traceparent": "00-1", "x": 1}}))
    assert isinstance(traced, Request)
    assert traced.trace == Trace("00-1")


@pytest.mark.parametrize("id", [0, -1, 2**63 - 1, -(2**63), "", "a", "é" * 40])
def test_ids_are_integers_of_64_bits_and_strings(id: int | str) -> None:
    """An answer would go to nobody."""
    message = MSGPACK.decode(pack({"id": id, "method": "m"}))
    assert isinstance(message, Request)
    assert (message.id, type(message.id)) == (id, type(id))
    assert msgpack.unpackb(MSGPACK.encode_result(id, ProcessTerminateResult(True))) == {
        "id": id,
        "result": {"running": True},
    }


@pytest.mark.parametrize("id", [None, 1.0, True, b"a", [], {}, 2**63, 2**64 - 1])
def test_other_ids_are_refused(id: Any) -> None:
    """Two clients' answers could be mixed up."""
    assert reason_of(pack({"id": id, "method": "m"})) == "`id` is neither a string nor an integer of 64 bits"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "the message ends within a value"),
        (b"\x81", "the message ends within a value"),
        (b"\x81\xa2id", "the message ends within a value"),
        (b"\x81\xa2id\xcf\x01", "the message ends within a value"),
        (b"\x81\xa2id\xda\x01", "the message ends within a value"),
        (b"\x81\xd9", "the message ends within a value"),
        (b"\xdf\x00\x00", "the message ends within a value"),
        (b"\xdf\x00\x00\x00\x01", "the message ends within a value"),
        (b"\x81\xa1x\xc6\xff\xff\xff\xff", "the message ends within a value"),
        (b"\x81\xa1x\xcb\x01\x02", "the message ends within a value"),
        (pack({"id": 1, "method": "m"})[:-1], "the message ends within a value"),
        (b"\xdf\xff\xff\xff\xff", "more than"),
        (b"\x81\xa1x\xdd\xff\xff\xff\xff", "more than"),
        (b"{bad", "trailing bytes behind the message, from byte 1"),
        (pack({"id": 1, "method": "m"}) + b"\x00", "trailing bytes behind the message, from byte 14"),
        (pack([{"id": 1, "method": "m"}]), "expected a JSON-RPC object"),
        (pack(1), "expected a JSON-RPC object"),
        (b"\n", "expected a JSON-RPC object"),
        (pack("x"), "expected a JSON-RPC object"),
        (pack(None), "expected a JSON-RPC object"),
        (pack(b"x"), "expected a JSON-RPC object"),
        (pack({}), "missing field `error`"),
        (pack({"id": 5}), "missing field `error`"),
        (pack({"result": 1}), "missing field `id`"),
        (pack({"id": 1, "error": "x"}), "invalid `error`: expected object, got string"),
        (pack({"id": 1, "error": {"code": 1}}), "invalid `error`: object missing required field `message`"),
        (pack({"id": 1, "error": {"code": "1", "message": ""}}), "invalid `error.code`: expected integer, got string"),
        (pack({"id": 1, "method": None}), "invalid `method`: expected string, got null"),
        (pack({"id": 1, "method": b"m"}), "invalid `method`: expected string, got bytes"),
        (pack({"id": 1, "method": "m", "trace": []}), "invalid `trace`: expected object or null, got array"),
        (map_of(3, b"\xa2id\x01", b"\xa2id\x01", TAIL), "duplicate MessagePack map key `id`"),
        (map_of(3, b"\xa2id\x01", b"\xd9\x02id\x01", TAIL), "duplicate MessagePack map key `id`"),
        (request(map_of(2, b"\xa1a\x01", b"\xa1a\x02")), "duplicate MessagePack map key `a`"),
        (request(b"\x92\xc4\x01x" + map_of(2, b"\xa0\x01", b"\xa0\x02")), "duplicate MessagePack map key ``"),
        (map_of(2, b"\xa2id\x01", b"\x01\x01"), "a map key at byte 5 is not a string"),
        (request(pack({b"a": 1})), "is not a string"),
        (request(pack({1: 1})), "is not a string"),
        (request(b"\x81\xc0\x01"), "is not a string"),
        (request(map_of(1, b"\xa1a\xd4\x05\x00")), "extension type at byte"),
        (request(b"\xd6\xff\x00\x00\x00\x00"), "extension type at byte"),
        (map_of(3, b"\xa2id\x01", b"\xa1x\xc7\x00\x01", TAIL), "extension type at byte"),
        (request(b"\xc1"), "invalid byte 0xc1 at byte"),
        (request(map_of(1, b"\xa1a\xa1\xff")), "invalid UTF-8 at byte 25"),
        (request(map_of(1, b"\xa1\xff\x01")), "invalid UTF-8 at byte 23"),
        (request(b"\xd9\x03\xed\xa0\x80"), "invalid UTF-8 at byte"),
        (map_of(1, b"\xa6method\xa1\xff"), "invalid UTF-8 at byte 9"),
        (request(pack([math.nan])), "a number that is not finite"),
        (request(pack([math.inf], use_single_float=True)), "a number that is not finite"),
    ],
)
def test_refuses(message: bytes, reason: str) -> None:
    """What JSON could not say, or says twice, would be carried out; or the reader would fall over it."""
    assert reason in reason_of(message)


@pytest.mark.parametrize(
    "message",
    [
        request(b"\x80"),
        request(pack([1.5, -1, 2**64 - 1, -(2**63), None, True, b"\xff\x00", "é", {"a": {"a": [[]]}}])),
        request(pack(1.5, use_single_float=True)),
        b"\xde\x00\x02\xd9\x02id\xd3\x00\x00\x00\x00\x00\x00\x00\x01\xda\x00\x06method\xdb\x00\x00\x00\x01m",
        b"\xdf\x00\x00\x00\x02" + b"\xa2id\x01" + TAIL,
        request(b"\xdd\x00\x00\x00\x01\xdc\x00\x01\xc6\x00\x00\x00\x01\xff"),
        pack({"jsonrpc": "2.0", "zz": b"\xff", "id": 1, "method": "m", "params": {str(n): n for n in range(70_000)}}),
    ],
)
def test_accepts(message: bytes) -> None:
    """Every way to write a value is good: encoders differ in the lengths that they choose."""
    assert isinstance(MSGPACK.decode(message), Request)


@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa1a", b"\xdc\x00\x01"])
def test_nesting_ends_where_that_of_json_ends(opening: bytes) -> None:
    """A deep message would exhaust the stack of whatever looks at it, or a legal one would be refused."""
    assert isinstance(MSGPACK.decode(request(opening * 126 + b"\x01")), Request)
    for depth in (127, 1000, 100_000):
        assert reason_of(request(opening * depth + b"\x01")) == "recursion limit exceeded"


def test_a_message_of_too_many_values_is_refused() -> None:
    """One message could keep every other connection waiting for seconds."""
    assert "more than" in reason_of(request(pack([0] * MAX_VALUES)))
    assert "more than" in reason_of(request(pack([[0] * 1000] * (MAX_VALUES // 1000))))
    environment = {f"K{n}": "v" for n in range(100_000)}
    assert isinstance(MSGPACK.decode(request(pack({"env": environment}))), Request)


def test_every_message_of_upstream_is_judged_as_in_json() -> None:
    """A client could do on one encoding what it cannot on the other."""
    compared = 0
    for row in UPSTREAM:
        try:
            document = json.loads(base64.b64decode(row["frame"]), object_pairs_hook=once)
        except ValueError:
            continue
        try:
            message = pack(document)
        except (OverflowError, ValueError, UnicodeEncodeError):
            continue
        in_json = judged(JSON, json.dumps(document).encode())
        assert judged(MSGPACK, message) == in_json, row
        compared += 1
    assert compared > 50


def once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(members)) < len(members):
        raise ValueError("cannot be said with a dict")
    return dict(members)


def judged(codec: Any, message: bytes) -> tuple[Any, ...]:
    """Kind, id, method and error of what a codec makes of a message, `chunk` aside, which differs in type."""
    try:
        decoded = codec.decode(message)
    except ParseError as error:
        return "refused", error.message
    if not isinstance(decoded, Request) or decoded.method == "process/write":
        return type(decoded), getattr(decoded, "id", None), getattr(decoded, "method", None)
    method = METHODS.get(decoded.method)
    try:
        params = method and codec.decode_params(method, decoded.params)
    except InvalidParams as error:
        return decoded.id, error.message
    return decoded.id, decoded.method, params


def write(**params: Any) -> Any:
    return MSGPACK.decode_params(METHODS["process/write"], msgspec.Raw(pack(params)))


def test_input_is_raw() -> None:
    """Every byte of it would cost a third more, or arrive as its base64 text."""
    data = bytes(range(256)) * 300
    assert write(processId="p", chunk=data, writeId="w") == ProcessWriteParams("p", data, "w")
    with pytest.raises(InvalidParams, match="invalid `chunk`: expected bin, got string"):
        write(processId="p", chunk="aGk=", writeId="w")


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({}, "missing field `processId`"),
        ({"processId": "p"}, "missing field `chunk`"),
        ({"processId": 5, "chunk": b""}, "invalid `processId`: expected string, got integer"),
        ({"processId": b"p", "chunk": b""}, "invalid `processId`: expected string, got bin"),
        ({"processId": "p", "chunk": b"", "writeId": ""}, "writeId must not be empty"),
        ({"processId": "p", "chunk": b"", "offset": 1.0}, "invalid `offset`: expected integer or null, got number"),
    ],
)
def test_params_at_fault_are_named(params: dict[str, Any], text: str) -> None:
    """Nobody could tell what was wrong with a request."""
    with pytest.raises(InvalidParams) as refused:
        write(**params)
    assert refused.value.message == text


def test_params_of_no_kind_at_all() -> None:
    """As in JSON."""
    with pytest.raises(InvalidParams, match="invalid type: null, expected struct ProcessReadParams"):
        MSGPACK.decode_params(METHODS["process/read"], None)
    with pytest.raises(InvalidParams, match="expected object, got array: params must be an object"):
        MSGPACK.decode_params(METHODS["process/read"], msgspec.Raw(b"\x90"))
    assert MSGPACK.decode_params(METHODS["environment/status"], None) == METHODS["environment/status"]()


@pytest.mark.parametrize("size", SIZES)
def test_output_is_raw_behind_a_small_header(size: int) -> None:
    """The encoding would not be worth having."""
    chunk = OutputChunk(seq=2**40, stream="stderr", offset=2**50, chunk=os.urandom(size))
    message = MSGPACK.encode_notification(ProcessOutput.of("process-12", chunk))
    decoded = msgpack.unpackb(message)
    assert decoded == {
        "method": "process/output",
        "params": {"processId": "process-12", "seq": 2**40, "stream": "stderr", "offset": 2**50, "chunk": chunk.chunk},
    }
    assert list(decoded["params"]) == ["processId", "seq", "stream", "offset", "chunk"]
    assert message.endswith(chunk.chunk)
    assert len(message) <= size + 128


def test_a_hundred_megabytes_cost_one_percent_at_most() -> None:
    """100 MB of output in chunks of 64 KiB, as frames of a WebSocket."""
    from transport.framing.websocket import frame_header

    size, total, on_the_wire = 64 * 1024, 100_000_000, 0
    data = os.urandom(size)
    for seq in range(total // size + 1):
        chunk = OutputChunk(seq=seq + 1, stream="stdout", offset=seq * size, chunk=data)
        message = MSGPACK.encode_notification(ProcessOutput.of("8f14e45f-ceea-467f-a1d6-0123456789ab", chunk))
        on_the_wire += len(frame_header(0x82, len(message))) + len(message)
    assert on_the_wire <= 1.01 * (total // size + 1) * size


COUNTS = [15, 16, 65_535, 65_536]
"""Chunks where an array is told in another way."""


@pytest.mark.parametrize(
    "sizes", [(), *((size,) for size in SIZES), *((1,) * count for count in COUNTS), (65536,) * 40, (10, 900_000, 3)]
)
def test_read_results_are_the_same_whole_and_in_pieces(sizes: tuple[int, ...]) -> None:
    """A large answer would differ from a small one, or lose a piece."""
    result = read_result(*sizes)
    whole = MSGPACK.encode_result("an id", result)
    answer = msgpack.unpackb(whole)
    assert answer["id"] == "an id"
    assert [each["chunk"] for each in answer["result"]["chunks"]] == [each.chunk for each in result.chunks]
    pieces = list(MSGPACK.encode_result_pieces("an id", result))
    assert b"".join(pieces) == whole
    assert all(pieces)
    assert max(map(len, pieces)) <= 1 << 20
    assert all(len(piece) >= 1 << 18 for piece in pieces[:-1])
    hint = MSGPACK.encoded_size_hint(result)
    assert len(whole) <= hint <= 2 * len(whole) + 1024


def test_pieces_are_made_when_they_are_asked_for() -> None:
    """Ten thousand large answers in a queue would all be in memory at once."""
    result = read_result(*[65536] * 160)
    pieces = MSGPACK.encode_result_pieces(1, result)
    next(pieces)
    result.chunks.clear()
    assert sum(map(len, pieces)) < 1 << 20


def test_results_have_the_members_of_json_in_its_order() -> None:
    """Clients that know one encoding know the other."""
    result = ProcessReadResult([], 1, True, 3, False, signal="SIGKILL")
    in_json = json.loads(JSON.encode_result(1, result))
    decoded = msgpack.unpackb(MSGPACK.encode_result(1, result))
    assert decoded == in_json
    assert list(decoded["result"]) == list(in_json["result"])
    assert b"".join(MSGPACK.encode_result_pieces(7, ProcessTerminateResult(True))) == MSGPACK.encode_result(
        7, ProcessTerminateResult(True)
    )


def test_errors() -> None:
    """Code, id, kind and the order `error`, `id`, as in JSON."""
    for error in (ParseError("bad"), SpawnError.from_errno(2, "program"), InternalError("é", {"a": [1, None]})):
        for id in (-1, "x"):
            decoded = msgpack.unpackb(MSGPACK.encode_error(id, error))
            in_json = json.loads(JSON.encode_error(id, error))
            assert decoded == in_json
            assert list(decoded) == ["error", "id"]
            assert list(decoded["error"]) == list(in_json["error"])


def test_an_error_about_a_name_that_is_not_utf8_is_still_an_answer() -> None:
    """A file name of raw bytes in an error text would leave the request without any answer."""
    answer = MSGPACK.encode_error(1, InternalError("no \udcff", {"path": "\udcff"}))
    assert msgpack.unpackb(answer) == {"error": {"code": -32603, "data": {"path": "?"}, "message": "no ?"}, "id": 1}
