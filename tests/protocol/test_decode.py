"""What JSON.decode makes of bytes: docs/protocol.md, "Messages"."""

from __future__ import annotations

import base64
import json
import pathlib
from typing import Any

import pytest

from protocol import json_strict
from protocol.codec import JSON
from protocol.envelope import ErrorResponse, Notification, Request, Response, Trace
from protocol.errors import ExecServerError, InvalidParams, MethodNotFound, ParseError
from protocol.json_strict import MAX_TOKENS
from protocol.methods import METHODS

DATA = pathlib.Path(__file__).parent / "data"
UPSTREAM = [json.loads(line) for line in (DATA / "upstream_framing.jsonl").read_text().splitlines()]
KNOWN_DIFFERENCES = {
    "framing/params-array": "positional params are answered -32602 also where they would fit",
    "framing/invalid-b64": "a write without `writeId` is good: the seed's clients send none",
}


def outcome(frame: bytes) -> tuple[Any, int | None]:
    """The id and the error code (None: no error) with which a server of ours would answer a frame."""
    try:
        message = JSON.decode(frame)
    except ParseError as error:
        return -1, error.code
    assert isinstance(message, Request)
    method = METHODS.get(message.method)
    if method is None:
        return message.id, MethodNotFound.code
    try:
        JSON.decode_params(method, message.params)
    except InvalidParams as error:
        return message.id, error.code
    return message.id, None


@pytest.mark.parametrize("row", UPSTREAM, ids=[f"{row['name']}-{n}" for n, row in enumerate(UPSTREAM)])
def test_agrees_with_upstream_on_id_and_code(row: dict[str, Any]) -> None:
    """A client that matches code and id of upstream's answers would take ours for something else."""
    frame = base64.b64decode(row["frame"])
    if row["answer"] == "closed":
        assert isinstance(JSON.decode(frame), Notification | Response | ErrorResponse)
        return
    error = row["answer"].get("error")
    ours = outcome(frame)
    theirs = (row["answer"]["id"], error["code"] if error else None)
    if ours != theirs:
        assert row["name"] in KNOWN_DIFFERENCES


def test_the_known_differences_are_only_these() -> None:
    """A difference that went away, or a new one, must be noticed, since the documents list them."""
    differing = set()
    for row in UPSTREAM:
        if row["answer"] != "closed":
            error = row["answer"].get("error")
            theirs = (row["answer"]["id"], error["code"] if error else None)
            if outcome(base64.b64decode(row["frame"])) != theirs:
                differing.add(row["name"])
    assert differing == set(KNOWN_DIFFERENCES)


def test_classifies_in_the_order_of_the_wire_spec() -> None:
    """A message with several members would be taken for another kind."""
    assert JSON.decode(b'{"id":1,"method":"m","result":1,"error":"x"}') == Request(1, "m", None, None)
    assert JSON.decode(b'{"method":"m","result":1,"error":"x","trace":5}') == Notification("m", None)
    both = JSON.decode(b'{"id":"a","result":null,"error":{"code":1,"message":"x"}}')
    assert isinstance(both, Response)
    assert (both.id, bytes(both.result)) == ("a", b"null")
    refused = JSON.decode(b'{"error":{"code":-5,"message":"no","data":[1]},"id":3}')
    assert isinstance(refused, ErrorResponse)
    assert (refused.error.code, refused.error.message, bytes(refused.error.data)) == (-5, "no", b"[1]")


def test_trace_is_read_and_null_means_none() -> None:
    """A client with tracing would be refused, or its trace lost."""
    request = JSON.decode(b'{"id":1,"method":"m","trace":{"traceparent":"00-1","x":1}}')
    assert isinstance(request, Request)
    assert request.trace == Trace("00-1")
    assert JSON.decode(b'{"id":1,"method":"m","trace":null}') == Request(1, "m")


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "EOF while parsing a value"),
        (b" \n\t", "EOF while parsing a value"),
        (b"[]", "expected a JSON-RPC object"),
        (b'[{"id":1,"method":"m"}]', "expected a JSON-RPC object"),
        (b"null", "expected a JSON-RPC object"),
        (b"{}", "missing field `error`"),
        (b'{"id":5}', "missing field `error`"),
        (b'{"result":1}', "missing field `id`"),
        (b'{"error":{"code":1,"message":"x"}}', "missing field `id`"),
        (b'{"id":1,"error":"x"}', "invalid `error`: expected object, got string"),
        (b'{"id":1,"error":{"code":1}}', "invalid `error`: object missing required field `message`"),
        (b'{"id":1,"error":{"code":"1","message":""}}', "invalid `error.code`: expected integer, got string"),
        (b'{"id":null,"method":"m"}', "id"),
        (b'{"id":1.0,"method":"m"}', "id"),
        (b'{"id":1e3,"method":"m"}', "id"),
        (b'{"id":true,"method":"m"}', "id"),
        (b'{"id":[],"method":"m"}', "id"),
        (b'{"id":9223372036854775808,"method":"m"}', "id"),
        (b'{"id":-9223372036854775809,"method":"m"}', "id"),
        (b'{"id":' + b"9" * 5000 + b',"method":"m"}', "id"),
        (b'{"id":1,"method":null}', "method"),
        (b'{"id":1,"method":"m","trace":[]}', "invalid `trace`: expected object or null, got array"),
        (b'{"id":1,"method":"m","trace":{"traceparent":5}}', "invalid `trace.traceparent`"),
        (b'{"id":1,"method":"m"} x', "trailing characters"),
        (b'{"id":1,"method":"m"}{"id":1,"method":"m"}', "trailing characters"),
        (b'\xef\xbb\xbf{"id":1,"method":"m"}', ""),
        (b'{"id":1,"method":"m","params":{"a":"\\ud800"}}', ""),
        (b'{"id":1,"method":"m","params":{"a":"\\udc00x"}}', ""),
        (b'{"id":1,"method":"m","x":"\\ud83d"}', ""),
        (b'{"id":1,"method":"m","x":"\xff"}', "invalid UTF-8"),
        (b'{"id":1,"method":"m","params":{"a":"\xed\xa0\x80"}}', "invalid UTF-8"),
        (b'{"id":1,"method":"m","params":{"a":NaN}}', ""),
        (b'{"id":1,"method":"m","params":{"a":01}}', ""),
        (b'{"id":1,"method":"m","params":[1,]}', ""),
        (b"{'id':1}", ""),
        (b'{"id":1,"id":1,"method":"m"}', "duplicate JSON object key `id`"),
        (b'{"id":1,"method":"m","zz":1,"zz":2}', "duplicate JSON object key `zz`"),
        (b'{"id":1,"method":"m","params":{"a":1,"a":1}}', "duplicate JSON object key `a`"),
        (b'{"id":1,"method":"m","params":{"a":1,"\\u0061":1}}', "duplicate JSON object key `a`"),
        (b'{"id":1,"method":"m","params":{"a":{"b":1,"b":2}}}', "duplicate JSON object key `b`"),
        (b'{"id":1,"method":"m","params":[{"b":1,"b":2}]}', "duplicate JSON object key `b`"),
        (b'{"id":1,"method":"m","x":{"b" : 1, "b" :2}}', "duplicate JSON object key `b`"),
        (b'{"id":1,"method":"m","":1,"":2}', "duplicate JSON object key ``"),
    ],
)
def test_refuses(frame: bytes, reason: str) -> None:
    """A message that upstream refuses would be carried out, perhaps with another meaning than its sender
    thinks.
    """
    with pytest.raises(ParseError) as refused:
        JSON.decode(frame)
    assert reason in refused.value.message
    assert refused.value.code == -32600


@pytest.mark.parametrize(
    "frame",
    [
        b'{"id":9223372036854775807,"method":"m"}',
        b'{"id":-9223372036854775808,"method":"m"}',
        b'{"id":"","method":""}',
        b' \t\r\n{"jsonrpc":1,"id":"x","method":"m","params":{"a":1,"b":{"a":1}}} \n',
        b'{"id":1,"method":"m","params":{"a":"a\\u0000b","\\"a":"\\"a\\":1,\\"a\\":2"}}',
        b'{"id":1,"method":"m","params":{"a":":","b":":","c":"{[{["}}',
        b'{"id":1,"method":"m","params":"x"}',
        '{"id":1,"method":"m","params":{"é":"\\ud83d\\ude00 \U0001f600"}}'.encode(),
    ],
)
def test_accepts(frame: bytes) -> None:
    """A message that upstream takes would be refused."""
    assert isinstance(JSON.decode(frame), Request)


@pytest.mark.parametrize("member", ["params", "x"])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_ends_where_upstream_ends_it(member: str, opening: bytes, closing: bytes) -> None:
    """A deep message would exhaust the stack of whatever looks at it, or a legal one would be refused."""

    def nested(depth: int) -> bytes:
        inner = depth - 1
        return b'{"id":1,"method":"m","%b":%b1%b}' % (member.encode(), opening * inner, closing * inner)

    assert isinstance(JSON.decode(nested(127)), Request)
    for depth in (128, 1000, 100_000):
        with pytest.raises(ParseError, match="recursion limit exceeded"):
            JSON.decode(nested(depth))


def test_arrays_inside_one_member_of_params_are_counted() -> None:
    """The quick proof for usual requests would let a deep message past."""
    for depth in (127, 128):
        message = b'{"id":1,"method":"m","params":{"a":%b%b}}' % (b"[" * (depth - 2), b"]" * (depth - 2))
        if depth == 127:
            assert isinstance(JSON.decode(message), Request)
        else:
            with pytest.raises(ParseError, match="recursion limit exceeded"):
                JSON.decode(message)


def test_duplicate_behind_megabytes_of_base64_is_found() -> None:
    """A large write could smuggle a second `processId`."""
    chunk = b"QUJD" * (1 << 18)
    good = b'{"id":1,"method":"m","params":{"processId":"x","chunk":"%b","writeId":"1"}}' % chunk
    assert isinstance(JSON.decode(good), Request)
    with pytest.raises(ParseError, match="duplicate JSON object key `processId`"):
        JSON.decode(good.replace(b"writeId", b"processId"))


def test_a_message_of_too_many_values_is_refused() -> None:
    """One message could keep every other connection waiting for seconds."""
    many = b",".join([b"[]"] * (MAX_TOKENS // 2 + 1))
    with pytest.raises(ParseError, match="more than"):
        JSON.decode(b'{"id":1,"method":"m","params":[%b]}' % many)
    environment = b",".join(b'"K%d":"v"' % n for n in range(50_000))
    assert isinstance(JSON.decode(b'{"id":1,"method":"m","params":{"env":{%b}}}' % environment), Request)


def test_reason_has_no_prefix_and_no_terms_of_python() -> None:
    """The bridge puts the peer's name before the reason; `str` and `dict` tell a client nothing."""
    for row in UPSTREAM:
        try:
            message = JSON.decode(base64.b64decode(row["frame"]))
            if isinstance(message, Request) and message.method in METHODS:
                JSON.decode_params(METHODS[message.method], message.params)
        except ExecServerError as error:
            assert "failed to parse" not in error.message
            for term in ("`str`", "`int`", "`dict`", "$", "Struct"):
                assert term not in error.message


def test_the_worked_example_of_the_scan() -> None:
    """Lost: the one explanation of a regular expression that nobody would dare to change."""
    steps = [token.groups() for token in json_strict._TOKEN.finditer(b'{"a":1,"b":["x",2]}')]
    assert steps == [
        (None, b"{", None),
        (b'"a"', None, None),
        (b'"b"', None, None),
        (None, b"[", None),
        (None, b"]", None),
        (None, b"}", None),
        (None, None, None),
    ]
    long = b'{"a":"%b"}' % (b"y" * 129)
    assert [token.groups()[2] for token in json_strict._TOKEN.finditer(long)][2] == b'"'
