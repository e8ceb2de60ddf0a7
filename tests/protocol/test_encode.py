"""What goes out: members, their order, and both ways of encoding giving the same bytes."""

from __future__ import annotations

import base64
import json
import os
from typing import Any

import msgspec
import pytest

from protocol.codec import JSON, MSGPACK
from protocol.environment import EnvironmentInfo, EnvironmentStatus, Shell
from protocol.errors import InternalError, ParseError, SpawnError
from protocol.http import HttpBodyDelta, HttpHeader, HttpRequestResult
from protocol.process import (
    OutputChunk,
    ProcessClosed,
    ProcessExited,
    ProcessOutput,
    ProcessReadResult,
    ProcessStartResult,
    ProcessTerminateResult,
    ProcessWriteResult,
)
from protocol.session import InitializeResult, ServerInfo
from protocol.wire_types import Empty

SIZES = [0, 1, 2, 3, 511, 512, 513, 5000, 65536, 393216, 393217, 800_000]


def chunks(*sizes: int) -> list[OutputChunk]:
    made, offset = [], 0
    for seq, size in enumerate(sizes, 1):
        made.append(OutputChunk(seq=seq, stream="stderr", offset=offset, chunk=os.urandom(size)))
        offset += size
    return made


def read_result(*sizes: int) -> ProcessReadResult:
    return ProcessReadResult(chunks(*sizes), len(sizes) + 1, exited=True, exit_code=3, closed=False)


def by_msgspec(result: Any, id: Any = 1) -> bytes:
    return b'{"id":%b,"result":%b}' % (msgspec.json.encode(id), msgspec.json.encode(result))


@pytest.mark.parametrize("size", SIZES)
def test_output_is_the_same_by_template_and_by_msgspec(size: int) -> None:
    """Output of one size would reach clients in another shape than that of another size."""
    (chunk,) = chunks(size)
    output = ProcessOutput.of('p"\n\N{SNOWMAN}', chunk)
    expected = b'{"method":"process/output","params":%b}' % msgspec.json.encode(output)
    assert JSON.encode_notification(output) == expected
    params = json.loads(expected)["params"]
    assert list(params) == ["processId", "seq", "stream", "offset", "chunk"]
    assert base64.b64decode(params["chunk"]) == chunk.chunk


@pytest.mark.parametrize("sizes", [(), *((size,) for size in SIZES), (65536,) * 40, (1,) * 3000, (10, 900_000, 3)])
def test_read_results_are_the_same_whole_and_in_pieces(sizes: tuple[int, ...]) -> None:
    """A large answer would differ from a small one, or lose a piece."""
    result = read_result(*sizes)
    whole = JSON.encode_result('a"chunks":[', result)
    assert whole == by_msgspec(result, 'a"chunks":[')
    pieces = list(JSON.encode_result_pieces('a"chunks":[', result))
    assert b"".join(pieces) == whole
    assert all(pieces)
    assert max(map(len, pieces)) <= 1 << 20
    assert all(len(piece) >= 1 << 18 for piece in pieces[:-1])
    hint = JSON.encoded_size_hint(result)
    assert len(whole) <= hint <= 2 * len(whole) + 1024


def test_pieces_are_made_when_they_are_asked_for() -> None:
    """Ten thousand large answers in a queue would all be in memory at once."""
    result = read_result(*[65536] * 160)
    pieces = JSON.encode_result_pieces(1, result)
    next(pieces)
    result.chunks.clear()
    assert sum(map(len, pieces)) < 1 << 20


def test_results_and_their_order() -> None:
    """Clients of both generations read these members."""
    assert JSON.encode_result(7, Empty()) == b'{"id":7,"result":{}}'
    assert JSON.encode_result("x", ProcessTerminateResult(True)) == b'{"id":"x","result":{"running":true}}'
    assert b"".join(JSON.encode_result_pieces(7, Empty())) == b'{"id":7,"result":{}}'
    start = JSON.encode_result(-1, ProcessStartResult("p"))
    assert start == b'{"id":-1,"result":{"processId":"p","sandboxType":"none"}}'
    assert (
        JSON.encode_result(1, ProcessWriteResult("accepted", True))
        == b'{"id":1,"result":{"status":"accepted","accepted":true}}'
    )
    assert JSON.encode_result(1, EnvironmentStatus()) == b'{"id":1,"result":{"status":"ready"}}'
    members = list(json.loads(JSON.encode_result(1, read_result()))["result"])
    assert members == [
        "chunks", "nextSeq", "exited", "exitCode", "closed", "failure", "sandboxDenied",
        "signal", "reason", "firstRetainedSeq", "firstRetainedOffset", "evictedBytes",
    ]  # fmt: skip


def test_initialize_result_is_the_union_of_generations() -> None:
    """One of the generations would miss its member."""
    info = EnvironmentInfo(
        Shell("bash", "/bin/bash"), "0.1", "sha256:0", "file:///", "file:///root", "linux", "file:///tmp"
    )
    result = InitializeResult("s", info, "o", ServerInfo("exec-server", "0.1"), ["size"])
    members = json.loads(JSON.encode_result(1, result))["result"]
    assert set(members) == {
        "sessionId",
        "environmentInfo",
        "observeId",
        "server",
        "extensions",
        "protocolVersion",
    }
    assert members["protocolVersion"] == "exec-server.v0"
    capabilities = members["environmentInfo"]["capabilities"]
    assert len(capabilities) == 16
    assert "capabilityDiscoveryV2" in capabilities
    assert "shellSnapshotV2" in capabilities


def test_events() -> None:
    """Clients stop on exited and closed, and parse them strictly."""
    assert JSON.encode_notification(ProcessExited("p", 3, 137, signal="SIGKILL", reason="terminated")) == (
        b'{"method":"process/exited","params":{"processId":"p","seq":3,"exitCode":137,"sandboxDenied":false,'
        b'"signal":"SIGKILL","reason":"terminated"}}'
    )
    assert (
        JSON.encode_notification(ProcessClosed("p", 4))
        == b'{"method":"process/closed","params":{"processId":"p","seq":4}}'
    )


def test_errors() -> None:
    """Code, id and the order `error`, `id` are what clients match."""
    assert JSON.encode_error(-1, ParseError("bad")) == b'{"error":{"code":-32600,"message":"bad"},"id":-1}'
    spawn = json.loads(JSON.encode_error("x", SpawnError.from_errno(2, "program")))
    assert list(spawn) == ["error", "id"]
    assert spawn["error"]["data"]["kind"] == "spawnNotFound"
    assert list(spawn["error"]) == ["code", "data", "message"]


def test_an_error_about_a_name_that_is_not_utf8_is_still_an_answer() -> None:
    """A file name of raw bytes in an error text would leave the request without any answer."""
    answer = JSON.encode_error(1, InternalError("no \udcff", {"path": "\udcff"}))
    assert json.loads(answer)["error"] == {"code": -32603, "data": {"path": "?"}, "message": "no ?"}


@pytest.mark.parametrize("size", [0, 511, 512, 393_216, 393_217, 2_000_003])
def test_large_http_bodies(size: int) -> None:
    """What is built around a body is what msgspec would write, and no piece holds up the server."""
    body = bytearray(range(256)) * (size // 256 + 1)
    result = HttpRequestResult(200, [HttpHeader('a"', "é")], body[:size])  # type: ignore[arg-type]  # as it comes
    expected = msgspec.json.encode({"id": "i", "result": result})
    assert JSON.encode_result("i", result) == expected
    pieces = list(JSON.encode_result_pieces("i", result))
    assert b"".join(pieces) == expected
    assert max(map(len, pieces)) < 1_500_000
    assert len(expected) <= JSON.encoded_size_hint(result) + 64
    packed = list(MSGPACK.encode_result_pieces("i", result))
    assert b"".join(packed) == msgspec.msgpack.encode({"id": "i", "result": result})
    assert max(map(len, packed)) < 1_000_000


@pytest.mark.parametrize("size", [0, 1, 511, 512, 65_536])
@pytest.mark.parametrize("error", [None, 'br"oken é'])
def test_body_deltas(size: int, error: str | None) -> None:
    delta = HttpBodyDelta('r"é', 7, bytes(range(256)) * (size // 256) + b"x" * (size % 256), error is not None, error)
    expected = msgspec.json.encode({"method": "http/request/bodyDelta", "params": delta})
    assert JSON.encode_notification(delta) == expected
