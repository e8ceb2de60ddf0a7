"""The codec for all bytes, all JSON and all messages."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from protocol import json_strict
from protocol.codec import JSON
from protocol.envelope import ErrorResponse, Notification, Request, Response
from protocol.errors import InvalidParams, ParseError
from protocol.methods import METHODS
from protocol.process import OutputChunk, ProcessOutput, ProcessReadResult, Stream
from protocol.wire_types import Empty
from tests.support.examples import examples

IDS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.text())
KEYS = st.one_of(st.text(max_size=4), st.sampled_from(["a", "b", ":", '":', ",", '"', "\\", "k" * 200]))
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(),
    st.sampled_from(['"a":1,"a":2', "{[", "\\", '\\"', "x" * 300, 'x"' * 150, "\\" * 301]),
)  # fmt: skip


class Pairs(list[Any]):
    """An object as its members, so that a key may be there twice."""


def documents(max_leaves: int = 12) -> st.SearchStrategy[Any]:
    return st.recursive(
        LEAVES,
        lambda inner: st.lists(inner, max_size=4) | st.lists(st.tuples(KEYS, inner), max_size=4).map(Pairs),
        max_leaves=max_leaves,
    )


def dump(value: Any, draw: Any) -> str:
    """JSON text of a document, with escapes and white space drawn at random."""
    space = draw(st.sampled_from(["", "", " ", "\n", "\t \r\n"]))
    if isinstance(value, Pairs):
        members = (f"{space}{string(key, draw)}{space}:{space}{dump(item, draw)}" for key, item in value)
        return "{" + f"{space},".join(members) + space + "}"
    if isinstance(value, list):
        return "[" + f"{space},".join(space + dump(item, draw) for item in value) + space + "]"
    return string(value, draw) if isinstance(value, str) else json.dumps(value)


def string(text: str, draw: Any) -> str:
    kind = draw(st.integers(0, 3))
    if kind == 0 and text.isascii():
        return '"' + "".join(f"\\u{ord(char):04x}" for char in text) + '"'
    return json.dumps(text, ensure_ascii=kind == 1).replace("/", "\\/" if kind == 2 else "/")


def repeats(value: Any) -> bool:
    if isinstance(value, Pairs):
        keys = [key for key, _ in value]
        return len(set(keys)) < len(keys) or any(repeats(item) for _, item in value)
    return isinstance(value, list) and any(map(repeats, value))


def depth(value: Any) -> int:
    if isinstance(value, Pairs):
        return 1 + max((depth(item) for _, item in value), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


def refused(message: bytes) -> str | None:
    try:
        JSON.decode(message)
    except ParseError as error:
        return error.message
    return None


@given(st.binary(max_size=200))
@example(b"\xff")
def test_any_bytes_are_a_message_or_a_parse_error(message: bytes) -> None:
    """One frame could take down a connection, or the loop with all of them."""
    refused(message)


FRAGMENTS = st.lists(
    st.sampled_from([
        b"{", b"}", b"[", b"]", b":", b",", b'"', b"\\", b'"id"', b'"method"', b'"params"', b'"a"', b"1",
        b"null", b"-", b"1e9", b"\\ud800", b"\\u0061", b"\xc3\xa9", b"\xff", b" ", b"\n", b"\x00",
        b'"error"', b'"result"', b"true", b"9" * 400,
    ]),
    max_size=30,
).map(b"".join)  # fmt: skip


@given(FRAGMENTS)
@examples(300)
def test_pieces_of_json_never_crash_the_decoder(message: bytes) -> None:
    """As for any bytes, but nearer to what gets past the first check."""
    refused(message)
    refused(b'{"id":1,"method":"m","params":' + message + b"}")
    refused(b'{"id":1,"method":"m","params":{"a":"' + message + b'"}}')


@given(st.sampled_from(sorted(METHODS)), documents(), st.data())
def test_any_params_are_params_or_invalid_params(name: str, document: Any, data: st.DataObject) -> None:
    """A request with odd params would never be answered."""
    text = dump(document, data.draw)
    try:
        JSON.decode_params(METHODS[name], msgspec.Raw(text.encode()))
    except InvalidParams as error:
        assert error.message


@given(documents(), st.sampled_from(["params", "x"]), st.data())
@examples(300)
def test_a_key_twice_anywhere_is_refused_and_nothing_else_is(document: Any, member: str, data: st.DataObject) -> None:
    """Two readers of one message could see different values; or a good message would be refused."""
    message = f'{{"id":1,"method":"m","{member}":{dump(document, data.draw)}}}'.encode()
    reason = refused(message)
    assert (reason is not None) == repeats(document), reason
    assert reason is None or reason.startswith("duplicate JSON object key")


@given(documents(), st.data())
@examples(300)
def test_both_scans_judge_alike(document: Any, data: st.DataObject) -> None:
    """Large messages go through another scan than small ones, and must be held to the same rules."""
    message = dump(Pairs([("a", document)]), data.draw).encode()
    verdicts = []
    for scan in (json_strict.check, json_strict._check_tokens):
        try:
            scan(message)
            verdicts.append(False)
        except json_strict.StrictnessError as error:
            assert str(error).startswith("duplicate JSON object key")
            verdicts.append(True)
    assert verdicts == [repeats(document)] * 2


@given(documents(3), st.integers(0, 300), st.data())
def test_depth_is_counted_in_the_whole_message(document: Any, wraps: int, data: st.DataObject) -> None:
    """A deep message would get past, or brackets in strings would count."""
    if repeats(document):
        return
    inner = dump(document, data.draw)
    kinds = data.draw(st.lists(st.booleans(), min_size=wraps, max_size=wraps))
    opening = "".join("[" if kind else '{"a":' for kind in kinds)
    closing = "".join("]" if kind else "}" for kind in reversed(kinds))
    message = f'{{"id":1,"method":"m","params":{opening}{inner}{closing}}}'.encode()
    assert (refused(message) is not None) == (1 + wraps + depth(document) > json_strict.MAX_DEPTH)


@given(
    IDS,
    st.text(),
    st.one_of(st.none(), documents(4).filter(lambda document: not repeats(document))),
    st.data(),
)
def test_requests_and_notifications_survive(id: Any, method: str, params: Any, data: st.DataObject) -> None:
    """A request would be carried out with another id, name or params."""
    text = "null" if params is None else dump(params, data.draw).strip()
    head = f'"method":{json.dumps(method)},"params":{text}'
    request = JSON.decode(f'{{"id":{json.dumps(id)},{head}}}'.encode())
    notification = JSON.decode(f"{{{head}}}".encode())
    assert isinstance(request, Request)
    assert isinstance(notification, Notification)
    assert (request.id, type(request.id), request.method) == (id, type(id), method)
    assert notification.method == method
    for raw in (request.params, notification.params):
        assert raw is None if params is None else raw is not None and bytes(raw) == text.encode()


@given(IDS, st.integers(-(2**31), 2**31), st.text())
def test_answers_survive(id: Any, code: int, text: str) -> None:
    """A client's answer to a request of ours would be given to the wrong one."""
    response = JSON.decode(JSON.encode_result(id, Empty()))
    assert isinstance(response, Response)
    assert (response.id, bytes(response.result)) == (id, b"{}")
    error = ParseError(text, {"code": code})
    refusal = JSON.decode(JSON.encode_error(id, error))
    assert isinstance(refusal, ErrorResponse)
    assert (refusal.id, refusal.error.code, refusal.error.message) == (id, -32600, text)
    assert json.loads(bytes(refusal.error.data)) == {"code": code}


STREAMS: list[Stream] = ["stdout", "stderr", "pty"]
CHUNKS = st.lists(
    st.tuples(st.sampled_from(STREAMS), st.binary(min_size=1, max_size=30), st.sampled_from([1, 50, 1500]))
)


@given(st.text(), CHUNKS, IDS)
def test_output_survives(process_id: str, parts: list[tuple[Stream, bytes, int]], id: Any) -> None:
    """A byte of a child's output would be lost or changed on the way out."""
    chunks, offset = [], 0
    for seq, (stream, data, times) in enumerate(parts, 1):
        chunks.append(OutputChunk(seq=seq, stream=stream, offset=offset, chunk=data * times))
        offset += len(data) * times
    for chunk in chunks:
        output = ProcessOutput.of(process_id, chunk)
        message = JSON.decode(JSON.encode_notification(output))
        assert isinstance(message, Notification)
        assert message.params is not None
        assert msgspec.json.decode(message.params, type=ProcessOutput) == output
    result = ProcessReadResult(chunks, len(chunks) + 1, False, None, False)
    whole = JSON.encode_result(id, result)
    assert b"".join(JSON.encode_result_pieces(id, result)) == whole
    answer = JSON.decode(whole)
    assert isinstance(answer, Response)
    assert msgspec.json.decode(answer.result, type=ProcessReadResult) == result
