"""Lengths of ids, names, paths and lists: what is too long is refused by name, with the limit and the size."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import msgspec
import pytest
from jsonschema import Draft202012Validator

from protocol.codec import JSON, MSGPACK
from protocol.dialect import Dialect
from protocol.envelope import Request
from protocol.errors import InvalidParams, ParseError
from protocol.json_schema import definition, message_schema
from protocol.methods import METHODS
from protocol.paths import native_path
from protocol.wire_types import PATH_BYTES, PATH_CHARACTERS

START: dict[str, Any] = {"processId": "p", "argv": ["true"], "cwd": "/", "env": {}, "tty": False}
POLICY = {"inherit": "none", "ignoreDefaultExcludes": False, "exclude": [], "set": {}, "includeOnly": []}
HTTP: dict[str, Any] = {"method": "GET", "url": "http://localhost/", "requestId": "r"}
SCHEMA = message_schema()


def names(count: int) -> dict[str, str]:
    return {f"v{number}": "" for number in range(count)}


def policy(**members: Any) -> dict[str, Any]:
    return {**START, "envPolicy": {**POLICY, **members}}


def header(**members: str) -> dict[str, Any]:
    return {**HTTP, "headers": [{"name": "a", "value": "", **members}]}


ENTRY = {"access": "read", "path": {"type": "path", "path": "/"}}


def sandbox(entries: list[Any] | None = None, roots: list[str] | None = None) -> dict[str, Any]:
    files = {"type": "restricted", "entries": entries or []}
    permissions = {"type": "managed", "file_system": files, "network": "restricted"}
    return {
        **START,
        "sandbox": {"permissions": permissions, "workspaceRoots": roots, "windowsSandboxLevel": "disabled"},
    }


BOUNDS: list[tuple[str, Any, str, int]] = [
    ("process/start", lambda n: {**START, "processId": "é" * n}, "processId", 1024),
    ("process/start", lambda n: {**START, "argv": [""] * n}, "argv", 65_536),
    ("process/start", lambda n: {**START, "env": names(n)}, "env", 16_384),
    ("process/start", lambda n: {**START, "cwd": "/" * n}, "cwd", PATH_CHARACTERS),
    ("process/start", lambda n: policy(exclude=["*" * n]), "envPolicy.exclude[0]", 256),
    ("process/start", lambda n: policy(exclude=["*"] * n), "envPolicy.exclude", 256),
    ("process/start", lambda n: policy(includeOnly=["a", "*" * n]), "envPolicy.includeOnly[1]", 256),
    ("process/start", lambda n: policy(set=names(n)), "envPolicy.set", 16_384),
    ("process/start", lambda n: sandbox(entries=[ENTRY] * n), "sandbox.permissions.file_system.entries", 1000),
    ("process/start", lambda n: sandbox(roots=["/"] * n), "sandbox.workspaceRoots", 1000),
    ("process/read", lambda n: {"processId": "p" * n}, "processId", 1024),
    ("process/read", lambda n: {"processId": "p", "sessionId": "s" * n}, "sessionId", 1024),
    ("process/write", lambda n: {"processId": "p", "chunk": b"", "writeId": "w" * n}, "writeId", 1024),
    ("process/attach", lambda n: {"processId": "p", "observeId": "o" * n}, "observeId", 1024),
    ("process/attach", lambda n: {"processId": "p", "observeId": "o", "as": "a" * n}, "as", 1024),
    ("process/signal", lambda n: {"processId": "p", "signal": "S" * n}, "signal", 1024),
    ("initialize", lambda n: {"clientName": "c" * n}, "clientName", 1024),
    ("initialize", lambda n: {"clientName": "", "resumeSessionId": "s" * n}, "resumeSessionId", 1024),
    ("http/request", lambda n: {**HTTP, "requestId": "r" * n}, "requestId", 1024),
    ("http/request", lambda n: {**HTTP, "url": "u" * n}, "url", 65_536),
    ("http/request", lambda n: {**HTTP, "headers": [{"name": "a", "value": ""}] * n}, "headers", 1024),
    ("http/request", lambda n: header(name="a" * n), "headers[0].name", 1024),
    ("http/request", lambda n: header(value="a" * n), "headers[0].value", 65_536),
    ("fs/readFile", lambda n: {"path": "/" * n}, "path", PATH_CHARACTERS),
    ("fs/open", lambda n: {"handleId": "h" * n, "path": "/"}, "handleId", 1024),
    ("fs/watchMissing", lambda n: {"watchId": 1, "missing": ["/", "/" * n]}, "missing[1]", PATH_CHARACTERS),
]  # fmt: skip
UNITS = {"argv": "elements", "headers": "elements", "envPolicy.exclude": "elements", "envPolicy.set": "members"}
UNITS |= {"sandbox.permissions.file_system.entries": "elements", "sandbox.workspaceRoots": "elements", "env": "members"}


@pytest.mark.parametrize(("method", "params", "member", "most"), BOUNDS, ids=[f"{b[0]}-{b[2]}" for b in BOUNDS])
def test_what_is_too_long_is_refused(method: str, params: Any, member: str, most: int) -> None:
    """Lost: the memory of the server to ids, its loop to paths and patterns; or a good request at the bound."""
    for codec, encode in ((JSON, msgspec.json.encode), (MSGPACK, msgpack.packb)):

        def decoded(size: int, codec: Any = codec, encode: Any = encode) -> Any:
            request = codec.decode(encode({"id": 1, "method": method, "params": params(size)}))
            assert isinstance(request, Request)
            return codec.decode_params(METHODS[method], request.params)

        if member != "signal":
            decoded(most)
        with pytest.raises(InvalidParams) as refused:
            decoded(most + 1)
        unit = UNITS.get(member, "characters")
        expected = f"invalid `{member}`: {most + 1} {unit}, more than the {most} that are allowed"
        assert (refused.value.code, refused.value.message) == (-32602, expected)


@pytest.mark.parametrize(("method", "params", "member", "most"), BOUNDS, ids=[f"{b[0]}-{b[2]}" for b in BOUNDS])
def test_the_schema_has_the_bounds(method: str, params: Any, member: str, most: int) -> None:
    """Lost: what a client that checks itself against the schema sends."""
    validator = Draft202012Validator({"$ref": f"#/$defs/{definition(method, 'Request')}", "$defs": SCHEMA["$defs"]})
    for size, fits in ((most, True), (most + 1, False)):
        message = json.loads(msgspec.json.encode({"id": 1, "method": method, "params": params(size)}))
        assert validator.is_valid(message) is fits


def test_an_id_is_bounded() -> None:
    """Lost: the memory of the server, to ids of requests that wait."""
    for codec, encode in ((JSON, msgspec.json.encode), (MSGPACK, msgpack.packb)):
        with pytest.raises(ParseError) as refused:
            codec.decode(encode({"id": "i" * 1025, "method": "m"}))
        assert refused.value.message == "invalid `id`: 1025 characters, more than the 1024 that are allowed"
        assert isinstance(codec.decode(encode({"id": "i" * 1024, "method": "m"})), Request)


@pytest.mark.parametrize("seed_era", [False, True])
def test_a_method_of_any_length_is_answered_shortly(seed_era: bool) -> None:
    """Lost: the answer to the request, for a client that waits for it; or a megabyte of error and log a request."""
    for codec, encode in ((JSON, msgspec.json.encode), (MSGPACK, msgpack.packb)):
        request = codec.decode(encode({"id": 1, "method": "m" * 1_000_000}))
        assert isinstance(request, Request) and request.id == 1
        dialect = Dialect()
        dialect.seed_era = seed_era
        message = dialect.unknown_method(request.method).message
        assert "m" * 128 + "... (1000000 characters)" in message and len(message) < 256


def test_the_longest_of_several_is_named_by_its_size() -> None:
    """An entry of a map has no name in the error, so that its size must be told right."""
    with pytest.raises(InvalidParams, match="3000 characters, more than the 1024"):
        JSON.decode_params(
            METHODS["environmentConfig/read"],
            msgspec.Raw(
                json.dumps({"cwd": "/", "configPaths": [["a"], ["b", "c" * 3000]], "requirementsPaths": []}).encode()
            ),
        )


@pytest.mark.parametrize(
    "path", ["/" + "a" * (PATH_BYTES - 1), "file:///" + "%61" * (PATH_BYTES - 1), "/" + "é" * 2047]
)
def test_a_path_as_long_as_the_system_takes_is_a_path(path: str) -> None:
    assert native_path(path).startswith("/")


@pytest.mark.parametrize(
    ("path", "size"),
    [
        ("/" + "a" * PATH_BYTES, "4097 bytes, more than the 4096"),
        ("/" + "é" * 2048, "4097 bytes, more than the 4096"),
        ("file:///" + "%61" * PATH_BYTES, "4097 bytes, more than the 4096"),
        ("file:" + "/." * 500_000, "1000005 characters, more than the 12352"),
        ("/" * 1_000_000, "1000000 characters, more than the 12352"),
    ],
)  # fmt: skip
def test_a_longer_path_is_refused_before_it_is_looked_at(path: str, size: str) -> None:
    """Lost: seconds of the loop to a path of nothing but dots."""
    with pytest.raises(InvalidParams, match=size) as refused:
        native_path(path)
    assert refused.value.data == {"kind": "nameTooLong"}
