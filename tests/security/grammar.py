"""Bad input, as a grammar: kinds of it, each a Hypothesis strategy.

A kind of `HEADS` gives the bytes of an HTTP request, one of `FRAMES` bytes on an upgraded connection, one of
`MESSAGES` a message, still without a frame or a line around it, in the encoding it is asked for.

What is made is harmless if the server carries it out: paths lie in a scratch folder, URLs go to a closed port of this
machine, programs do nothing, and bytes are only mutated in messages that change nothing.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Callable
from typing import Any

import msgpack
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from protocol.json_schema import message_schema
from protocol.methods import METHODS
from tests.transport.support import UPGRADE, frame_head, masked_frame

SCRATCH = f"{tempfile.gettempdir()}/exec-server-abuse-{os.getpid()}"
"""The only folder that bad input names which is there."""
SESSION = "5e551017-0000-4000-8000-00000000feed"
"""Stands for the id of a session that there is."""
PROCESS = "p"
"""The process that there is, in states that have one."""

Payload = SearchStrategy[bytes]

# What a text member may be instead of what it should be. No file, program or host has such a name.
STRANGE_TEXT = [
    "",
    " ",
    "p",
    "\0",
    "a\0b",
    "é\u202e",
    "\U0001f4a9" * 40,
    "x" * 5000,
    "-1",
    "null",
    "%s%n",
    "\x1b[2J",
    "�",
]
PATHS = [
    SCRATCH,
    f"file://{SCRATCH}",
    f"{SCRATCH}/new",
    f"file://{SCRATCH}/a%20b",
    f"{SCRATCH}/file",
    f"{SCRATCH}/loop",
]
BAD_PATHS = [
    "",
    "relative-and-missing",
    "file:",
    "file://host/no",
    "file:///no%00where",
    "/no\0where",
    "/no-such/" * 600,
]
PATH_MEMBERS = {"path", "cwd", "workspaceRoots", "subpath", "pattern", "configPaths", "requirementsPaths"}
PATH_MEMBERS |= {"sourcePath", "destinationPath", "missing", "present"}
PROGRAMS = ["/bin/true", "/bin/cat", "true", "/no/such/program", "", "/", "\0", "/bin/true\0", "/" + "x" * 5000]
SIGNALS = ["interrupt", "SIGTERM", "SIGKILL", "SIGSTOP", "SIG", "SIGNOSUCH", "9", "", "\0"]
URLS = [
    "http://127.0.0.1:9/",
    "http://[::1",
    "http://127.0.0.1:99999/",
    "ftp://127.0.0.1/",
    "file:///etc/passwd",
    "",
    "//",
    "http://",
    "http://127.0.0.1:9/\r\nX: y",
    "http://127.0.0.1:9/%",
    "http://a b/",
    "http://\0/",
]
HTTP_METHODS = ["GET", "", "GET / HTTP/1.1\r\n", "CONNECT", "é", "X" * 3000]
HEADER_NAMES = ["a", "", "host", "a\r\nb", "content-length", "transfer-encoding", "\0"]
POOLS = {
    "processId": [PROCESS, "q", "", "\0", "x" * 5000],
    "sessionId": [SESSION, "no-such", "", SESSION.upper()],
    "resumeSessionId": [SESSION, "no-such", "", "\0"],
    "observeId": ["no-such", SESSION, ""],
    "handleId": ["h", "i", "", "\0"],
    "argv": PROGRAMS,
    "signal": SIGNALS,
    "url": URLS,
    "method": HTTP_METHODS,
    "name": HEADER_NAMES,
    "includeOnly": ["[", "*", "", "**[!"],
    "exclude": ["[", "*", "", "**[!"],
}
NUMBERS = [
    0,
    1,
    -1,
    2,
    255,
    65535,
    65536,
    2**31,
    2**53,
    2**63 - 1,
    2**63,
    2**64 - 1,
    2**64,
    -(2**63),
    10**30,
    1.5,
    -0.0,
    1e308,
]
CHUNKS = ["", "aGk=", "aGk", "a", "====", "aGk=\n", "-_-_", "é", "A" * 4096]


def _in_msgpack(value: Any) -> bytes:
    """What JSON has and MessagePack has not goes as text."""

    def other(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: other(each) for name, each in value.items()}
        if isinstance(value, list):
            return [other(each) for each in value]
        return str(value) if isinstance(value, int) and not -(2**63) <= value < 2**64 else value

    packed: bytes = msgpack.packb(other(value), unicode_errors="surrogatepass")
    return packed


ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "json": lambda value: json.dumps(value).encode(),
    "msgpack": _in_msgpack,
}


# Params, from the schema.


def _text(member: str, schema: dict[str, Any]) -> SearchStrategy[Any]:
    if schema.get("contentEncoding") == "base64":
        return _mostly(CHUNKS[:2], CHUNKS)
    if member in PATH_MEMBERS:
        return _mostly(PATHS, BAD_PATHS)
    pool = POOLS.get(member, STRANGE_TEXT)
    return _mostly(pool[:2], pool)


def _mostly(good: list[Any], any: list[Any]) -> SearchStrategy[Any]:
    """Rather good ones: a message with many flaws is turned down at the first."""
    return st.sampled_from([*good * (1 + 2 * len(any) // len(good)), *any])


def _number(schema: dict[str, Any]) -> SearchStrategy[Any]:
    edges = {schema[edge] + by for edge in ("minimum", "maximum") if edge in schema for by in (-1, 0, 1)}
    least, most = schema.get("minimum", 0), schema.get("maximum", 2**63)
    good = [number for number in (1, 2, 100, 300_000) if least <= number <= most]
    return _mostly(good, [*sorted(edges), *NUMBERS])


_WRONG: SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, -1, 1.5, "", "x", [], {}, [[]], {"": {}}, ["x"], {"type": "x"}]
)
_SCHEMA = message_schema()["$defs"]


def _value(member: str, schema: dict[str, Any], depth: int = 0) -> SearchStrategy[Any]:
    """Values of this schema, and ones near its edges."""
    if "$ref" in schema:
        return _value(member, _SCHEMA[schema["$ref"].rpartition("/")[2]], depth)
    if "anyOf" in schema:
        first, *others = (_value(member, each, depth) for each in schema["anyOf"])
        return st.one_of([first, first, *others])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "string":
            return _text(member, schema)
        case "integer":
            return _number(schema)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            return st.lists(_value(member, schema["items"], depth + 1), min_size=member == "argv", max_size=3)
        case "object" if schema.get("properties"):
            return _object(schema, depth)
        case "object" if schema.get("additionalProperties"):
            names = st.sampled_from(["A", "", "A=B", "\0", "PATH", "é"])
            return st.dictionaries(names, _value(member, schema["additionalProperties"], depth + 1), max_size=3)
    return st.sampled_from([{}, None, 1, "x", {"a": [1]}])


@st.composite
def _object(draw: st.DrawFn, schema: dict[str, Any], depth: int) -> dict[str, Any]:
    required = schema.get("required", [])
    optional = [name for name in schema["properties"] if name not in required]
    chosen = [
        *required,
        *draw(st.lists(st.sampled_from(optional), max_size=3, unique=True) if optional else st.just([])),
    ]
    made = {name: draw(_value(name, schema["properties"][name], depth + 1)) for name in chosen}
    flaw = draw(st.sampled_from([None] * (9 if depth == 0 else 30) + ["missing", "wrong", "extra"]))
    if flaw == "missing" and made:
        del made[draw(st.sampled_from(sorted(made)))]
    elif flaw == "wrong" and made:
        name = draw(st.sampled_from(sorted(made)))
        made[name] = draw(_WRONG)
    elif flaw == "extra":
        made[draw(st.sampled_from(["extra", "", "__class__", "\0"]))] = draw(_WRONG)
    return made


@st.composite
def _params(draw: st.DrawFn, encoding: str) -> bytes:
    method = METHODS[draw(st.sampled_from(sorted(METHODS)))]
    schema = _SCHEMA[method.__name__]
    params = draw(_object(schema, 0) if draw(st.integers(0, 9)) else _WRONG)
    if method.METHOD == "process/start" and isinstance(params, dict) and params.get("processId") == PROCESS:
        params["processId"] = "new"
    if encoding == "msgpack" and isinstance(params, dict):
        for name in ("chunk", "dataBase64", "bodyBase64"):
            if params.get(name) in CHUNKS[:2]:
                params[name] = params[name].encode()
    return ENCODERS[encoding]({"id": 7, "method": method.METHOD, "params": params})


# Messages.

_IDS = st.sampled_from([7, 0, -1, 2**63 - 1, 2**63, -(2**63) - 1, 1.0, "", "x" * 5000, None, True, [], {}])
_NAMES = st.sampled_from(
    ["environment/status", "initialize", "initialized", "no/such", "", "process/", "\0", 7, None, [], "x" * 5000]
)


@st.composite
def _envelope(draw: st.DrawFn, encoding: str) -> bytes:
    members = {
        "jsonrpc": st.sampled_from(["2.0", "1.0", 2, None]),
        "id": _IDS,
        "method": _NAMES,
        "params": _WRONG,
        "trace": st.one_of(_WRONG, st.just({"traceparent": "x", "tracestate": 1})),
        "result": _WRONG,
        "error": st.one_of(_WRONG, st.just({"code": "x", "message": 1})),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(members)), unique=True))
    value: Any = {name: draw(members[name]) for name in chosen}
    shape = draw(st.integers(0, 9))
    return ENCODERS[encoding](value if shape else draw(st.sampled_from([[], [value], [value, value], 7, "x", None])))


@st.composite
def _depth(draw: st.DrawFn, encoding: str) -> bytes:
    depth = draw(st.sampled_from([10, 100, 127, 128, 129, 600, 1025, 20_000, 100_000]))
    ends = draw(st.booleans())
    if encoding == "json":
        opening, closing = draw(st.sampled_from([("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")]))
        inner = opening * depth + ("1" + closing * depth if ends else "")
        return b'{"id":7,"method":"environment/status","params":' + inner.encode() + b"}"
    opening_bytes = draw(st.sampled_from([b"\x91", b"\x81\xa1a", b"\xdd\0\0\0\1"]))
    return b"\x83\xa2id\x07\xa6params" + opening_bytes * depth + (b"\x01" if ends else b"") + b"\xa6method\xa3no/"


@st.composite
def _duplicates(draw: st.DrawFn, encoding: str) -> bytes:
    names = draw(st.lists(st.sampled_from(["id", "method", "params"]), min_size=2, max_size=6))
    values = {"id": 7, "method": "process/read", "params": {"processId": PROCESS}}
    if encoding == "json":
        return b"{" + ",".join(f'"{name}":{json.dumps(values[name])}' for name in names).encode() + b"}"
    items = b"".join(ENCODERS["msgpack"](name) + ENCODERS["msgpack"](values[name]) for name in names)
    return bytes([0x80 | len(names)]) + items


@st.composite
def _numbers(draw: st.DrawFn, encoding: str) -> bytes:
    if encoding == "json":
        texts = [
            "1" * 5000,
            "-" + "9" * 400,
            "1e999",
            "1e-999",
            "-0",
            "01",
            "+1",
            ".5",
            "1.",
            "0x10",
            "NaN",
            "Infinity",
            "1e",
            "1E+1",
        ]
        text = draw(st.sampled_from([*texts, *map(str, NUMBERS)]))
        where = draw(
            st.sampled_from(
                [
                    '{{"id":{},"method":"environment/status"}}',
                    '{{"id":7,"method":"process/read","params":{{"processId":"p","afterSeq":{}}}}}',
                ]
            )
        )
        return where.format(text).encode()
    number = draw(
        st.sampled_from(
            [
                b"\xcf" + b"\xff" * 8,
                b"\xd3\x80" + bytes(7),
                b"\xcb\x7f\xf8" + bytes(6),
                b"\xcb\xff\xf0" + bytes(6),
                b"\xca\x7f\x80\0\0",
                b"\xc1",
                b"\xd7\xff" + bytes(8),
                b"\xc7\xff\xff",
            ]
        )
    )
    return b"\x82\xa2id" + number + b"\xa6method\xb2environment/status"


@st.composite
def _unicode(draw: st.DrawFn, encoding: str) -> bytes:
    if encoding == "json":
        text = draw(
            st.sampled_from(
                [
                    r"\ud800",
                    r"\udc00",
                    r"\ud800\ud800",
                    r"\u",
                    r"\u00",
                    r"\x41",
                    r"\ud83d\ude00",
                    r"\u0000",
                    "\x01",
                    "\t",
                    "\\",
                ]
            )
        )
        member = draw(st.sampled_from(["processId", "sessionId"]))
        return f'{{"id":7,"method":"process/read","params":{{"processId":"p","{member}":"{text}"}}}}'.encode()
    raw = draw(st.sampled_from([b"\xed\xa0\x80", b"\xff", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\0"]))
    text_of = bytes([0xA0 | len(raw)]) + raw
    return b"\x83\xa2id\x07\xa6method\xacprocess/read\xa6params\x81\xa9processId" + text_of


HARMLESS: list[dict[str, Any]] = [
    {"id": 7, "method": "process/read", "params": {"processId": PROCESS, "afterSeq": 0, "maxBytes": 10, "waitMs": 0}},
    {"id": 7, "method": "process/write", "params": {"processId": PROCESS, "chunk": "aGk=", "writeId": "w"}},
    {"id": 7, "method": "process/list", "params": {"sessionId": SESSION}},
    {"id": 7, "method": "initialize", "params": {"clientName": "x", "resumeSessionId": SESSION}},
    {"id": 7, "method": "environment/info", "params": {}, "trace": {"traceparent": "00-1-2-03"}},
    {"method": "initialized"},
]


@st.composite
def _truncated(draw: st.DrawFn, encoding: str) -> bytes:
    whole = ENCODERS[encoding](draw(st.sampled_from(HARMLESS)))
    return whole[: draw(st.integers(0, len(whole) - 1))]


@st.composite
def mutated(draw: st.DrawFn, base: bytes) -> bytes:
    """`base` with some bytes changed, added, taken out or doubled."""
    data = bytearray(base)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from(["change", "add", "take", "double"])):
            case "change" if data:
                data[at] = draw(st.integers(0, 255))
            case "add":
                data[at:at] = draw(st.binary(max_size=6))
            case "take":
                del data[at : at + draw(st.integers(1, 8))]
            case "double":
                data[at:at] = data[at : at + draw(st.integers(1, 40))]
    return bytes(data)


def _noise(encoding: str) -> Payload:
    base = st.sampled_from(HARMLESS).map(ENCODERS[encoding])
    return st.one_of(st.binary(max_size=60), base.flatmap(mutated))


def _sizes(encoding: str) -> Payload:
    """Texts and maps that say they are longer than they are, or are long."""
    if encoding == "json":
        return st.sampled_from(
            [
                b"",
                b" " * 70_000,
                b'"' + b"x" * 300_000,
                b'{"' + b"k" * 70_000 + b'":1}',
                b"[" + b"0," * 9_000 + b"0]",
                b"{}" * 50,
                b"\xef\xbb\xbf{}",
            ]
        )
    return st.sampled_from(
        [
            b"\xdb\xff\xff\xff\xff",
            b"\xdd\xff\xff\xff\xff",
            b"\xdf\xff\xff\xff\xff",
            b"\xc6\x7f\xff\xff\xff",
            b"\xde\xff\xff" + b"\xa1a\x01" * 9,
            b"",
            b"\x80" * 50,
            b"\xc9\xff\xff\xff\xff\1",
        ]
    )


MESSAGES: dict[str, Callable[[str], Payload]] = {
    "depth": _depth,
    "duplicate keys": _duplicates,
    "numbers": _numbers,
    "surrogates, UTF-8": _unicode,
    "truncated": _truncated,
    "sizes": _sizes,
    "noise": _noise,
    "envelope": _envelope,
    "params": _params,
}


# Frames.

_FIRST = st.integers(0, 255)
_SMALL = st.binary(max_size=130)


@st.composite
def _any_frame(draw: st.DrawFn) -> bytes:
    return masked_frame(draw(_FIRST), draw(_SMALL), draw(st.binary(min_size=4, max_size=4)))


@st.composite
def _lengths(draw: st.DrawFn) -> bytes:
    """A length that does not fit: too long, not the shortest form, more or less than what comes."""
    first = draw(st.sampled_from([0x81, 0x82, 0x01, 0x00, 0x89, 0x88]))
    length = draw(st.sampled_from([0, 1, 125, 126, 65535, 65536, 2**26, 2**26 + 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1]))
    form = draw(st.sampled_from([7, 16, 64]))
    head = {
        7: lambda: bytes([first, 0x80 | min(length, 125)]),
        16: lambda: struct.pack("!BBH", first, 0xFE, min(length, 65535)),
        64: lambda: struct.pack("!BBQ", first, 0xFF, length),
    }[form]()
    return head[: draw(st.integers(1, len(head)))] if draw(st.booleans()) else head + bytes(4) + draw(_SMALL)


@st.composite
def _fragments(draw: st.DrawFn) -> bytes:
    firsts = draw(st.lists(st.sampled_from([0x01, 0x02, 0x00, 0x80, 0x81, 0x89, 0x8A, 0x09]), min_size=1, max_size=8))
    return b"".join(masked_frame(first, draw(st.binary(max_size=20))) for first in firsts)


@st.composite
def _controls(draw: st.DrawFn) -> bytes:
    """Pings, pongs and closes: too many, too long, with codes that nobody may send."""
    code = draw(st.sampled_from([0, 999, 1000, 1004, 1005, 1006, 1011, 1015, 2999, 3000, 4999, 5000, 65535]))
    close = masked_frame(
        0x88, struct.pack("!H", code) + draw(st.sampled_from([b"", b"bye", b"\xff\xfe", b"x" * 123, b"x" * 124]))
    )
    pings = masked_frame(0x89, draw(_SMALL)) * draw(st.integers(0, 600))
    return draw(
        st.sampled_from(
            [close, masked_frame(0x88, b"x"), pings, pings + close, close + pings, masked_frame(0x8A, b"x" * 126)]
        )
    )


_FRAME_BASES = [
    masked_frame(0x81, b'{"id":7,"method":"process/list"}'),
    masked_frame(0x82, b"\x80"),
    masked_frame(0x01, b"{"),
    masked_frame(0x89, b"ping"),
]
FRAMES: dict[str, Payload] = {
    "opcode": _any_frame(),
    "mask": st.builds(
        lambda first, body: frame_head(first, len(body), 0) + body, st.sampled_from([0x81, 0x82, 0x89, 0x88]), _SMALL
    ),
    "length": _lengths(),
    "fragments": _fragments(),
    "control frames": _controls(),
    "text that is no UTF-8": st.builds(
        lambda good, bad: masked_frame(0x01, good + bad[:1]) + masked_frame(0x80, bad[1:]),
        _SMALL,
        st.sampled_from([b"\xc3\x28", b"\xed\xa0\x80", b"\xf5\x80", b"\xc3", b"\xff"]),
    ),
    "frame noise": st.one_of(_SMALL, st.sampled_from(_FRAME_BASES).flatmap(mutated)),
}


# HTTP heads.

_HEADERS = [
    b"Host: 127.0.0.1",
    b"Host: evil.example",
    b"Host:",
    b"Host: [::1",
    b"Host: 127.0.0.1:x",
    b"Upgrade: websocket",
    b"Upgrade: h2c",
    b"Connection: Upgrade",
    b"Connection: keep-alive",
    b"Sec-WebSocket-Version: 13",
    b"Sec-WebSocket-Version: 99",
    b"Sec-WebSocket-Key: x",
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    b"Sec-WebSocket-Protocol: exec-server.msgpack, ,",
    b"Sec-WebSocket-Protocol: \xff",
    b'Sec-WebSocket-Extensions: permessage-deflate; x="',
    b"Origin: http://evil.example",
    b"Origin: null",
    b"Authorization: Bearer x",
    b"Authorization: \xff\xfe",
    b"Content-Length: 5",
    b"Content-Length: -1",
    b"Content-Length: 1\r\nContent-Length: 2",
    b"Transfer-Encoding: chunked",
    b"X: \0",
    b"X",
    b": x",
    b" folded",
    b"\tX: y",
    b"X\xe9: y",
    b"Expect: 100-continue",
]
_STARTS = [
    b"GET / HTTP/1.1",
    b"GET / HTTP/1.0",
    b"GET / HTTP/2.0",
    b"PRI * HTTP/2.0",
    b"POST / HTTP/1.1",
    b"HEAD /readyz HTTP/1.1",
    b"GET /readyz HTTP/1.1",
    b"GET /../../etc/passwd HTTP/1.1",
    b"GET http://x/ HTTP/1.1",
    b"GET  / HTTP/1.1",
    b"GET /",
    b"",
    b"GET /\xff HTTP/1.1",
    b"OPTIONS * HTTP/1.1",
    b"GET /?" + b"q" * 9000 + b" HTTP/1.1",
    b"CONNECT x:1 HTTP/1.1",
    b"get / http/1.1",
]


@st.composite
def _head(draw: st.DrawFn) -> bytes:
    end = draw(st.sampled_from([b"\r\n", b"\r\n", b"\n", b"\r"]))
    lines = [draw(st.sampled_from(_STARTS)), *draw(st.lists(st.sampled_from(_HEADERS), max_size=9))]
    return end.join(lines) + end * draw(st.integers(0, 3)) + draw(st.sampled_from([b"", b"body", UPGRADE]))


HEADS: dict[str, Payload] = {
    "head: lines": _head(),
    "head: size": st.sampled_from(
        [UPGRADE[:-2] + b"X: " + b"x" * n + b"\r\n\r\n" for n in (15_000, 16_200, 17_000, 200_000)]
        + [UPGRADE[:-2] + b"X: y\r\n" * 3000 + b"\r\n", b"G" * 100_000]
    ),
    "head: noise": st.one_of(st.binary(max_size=200), mutated(UPGRADE)),
    "head: other protocols": st.sampled_from(
        [
            b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + bytes(600),
            b"SSH-2.0-x\r\n",
            b"\r\n\r\n",
            b"\0" * 64,
            b"EHLO x\r\n\r\n",
            b'{"id":1,"method":"initialize"}\n\n',
        ]
    ),
    "head: upgrade, then frames": st.one_of(*FRAMES.values()).map(lambda frames: UPGRADE + frames),
}
