"""Params of every method: types, defaults, ranges, and the errors that name the member (docs/protocol.md, "Types")."""

from __future__ import annotations

import base64
import json
import pathlib
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from protocol.codec import JSON
from protocol.errors import InvalidParams
from protocol.methods import METHODS
from protocol.paths import cwd_path
from protocol.process import (
    ProcessAttachParams,
    ProcessReadParams,
    ProcessResizeParams,
    ProcessSignalParams,
    ProcessStartParams,
    ProcessWriteParams,
    ProcessWriteResult,
)
from protocol.requests import NoParams
from protocol.session import InitializeParams

DATA = pathlib.Path(__file__).parent / "data"
UPSTREAM = [json.loads(line) for line in (DATA / "upstream_start.jsonl").read_text().splitlines()]
START: dict[str, Any] = {"processId": "p", "argv": ["true"], "cwd": "file:///tmp", "env": {}, "tty": False}


def decode(method: str, params: Any) -> Any:
    return JSON.decode_params(METHODS[method], msgspec.Raw(json.dumps(params).encode()))


def refusal(method: str, params: Any) -> str:
    with pytest.raises(InvalidParams) as refused:
        decode(method, params)
    return refused.value.message


@pytest.mark.parametrize("row", UPSTREAM, ids=range(len(UPSTREAM)))
def test_start_and_initialize_agree_with_upstream(row: dict[str, Any]) -> None:
    """Params that upstream takes would be refused, or the other way round. Native cwds are meant to
    differ.
    """
    code = None
    message = None
    try:
        params = JSON.decode_params(
            METHODS[row["method"]],
            msgspec.Raw(json.dumps(row["params"]).encode()) if row["params"] is not None else None,
        )
        if isinstance(params, ProcessStartParams):
            cwd_path(params.cwd)
    except InvalidParams as error:
        code, message = error.code, error.message
    if row["params"] and row["params"].get("cwd") == "/tmp":
        assert code is None
    elif row["code"] == -32602:
        assert code == -32602
        if "field" in row["message"] or "URI" in row["message"] or "empty" in row["message"]:
            assert message is not None
            assert message.startswith(row["message"])
    else:
        assert code is None


def test_absent_resume_session_id_can_be_told_from_null() -> None:
    """Without it a seed-era client cannot be recognised."""
    assert decode("initialize", {"clientName": ""}) == InitializeParams("", UNSET)
    assert decode("initialize", {"clientName": "", "resumeSessionId": None}) == InitializeParams("", None)
    assert decode("initialize", {"clientName": "", "resumeSessionId": "s"}) == InitializeParams("", "s")


@pytest.mark.parametrize("method", ["environment/info", "environment/status"])
def test_environment_methods_take_nothing(method: str) -> None:
    """A client that sends no params, null or {} must be served; anything else is a mistake it should hear
    of.
    """
    assert JSON.decode_params(METHODS[method], None) == METHODS[method]()
    assert decode(method, {}) == METHODS[method]()
    for bad in ([], "x", 1, {"a": 1}):
        refusal(method, bad)


@pytest.mark.parametrize("method", [m for m, row in METHODS.items() if not issubclass(row, NoParams)])
def test_missing_params_are_refused(method: str) -> None:
    """A request without params would crash its handler."""
    with pytest.raises(InvalidParams, match="null"):
        JSON.decode_params(METHODS[method], None)
    if method != "process/list":  # all of its members are optional
        assert "missing field" in refusal(method, {})
    assert "expected object" in refusal(method, [])


@pytest.mark.parametrize("member", ["pipeStdin", "enforceManagedNetwork"])
def test_plain_booleans_may_be_absent_but_not_null(member: str) -> None:
    """Clients of upstream rely on the difference being reported."""
    assert f"`{member}`" in refusal("process/start", {**START, member: None})


def test_optional_members_of_start_may_be_null() -> None:
    """Rust clients send null for what they do not set."""
    nulls = ("arg0", "envPolicy", "sandbox", "managedNetwork", "networkProxy", "shellSnapshot", "metadata")
    ours = ("rows", "cols", "timeoutMs", "idleTimeoutMs", "closedAfterExitMs", "onDisconnect")
    params = decode("process/start", START | dict.fromkeys(nulls + ours))
    assert params == decode("process/start", START)
    assert (params.rows, params.cols, params.timeout_ms) == (24, 80, None)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("rows", 0), ("rows", 65536), ("rows", "24"), ("cols", -1), ("cols", 1.0),
        ("timeoutMs", -1), ("timeoutMs", 1.5), ("idleTimeoutMs", True), ("closedAfterExitMs", -1),
        ("onDisconnect", "explode"), ("env", {"A": 1}), ("argv", "true"), ("argv", [1]), ("arg0", 5),
        ("tty", 1), ("cwd", None), ("envPolicy", "all"), ("networkProxy", 5), ("metadata", "x"),
    ],
)  # fmt: skip
def test_start_names_the_member_at_fault(member: str, value: Any) -> None:
    """A person could not tell which of twenty members was wrong."""
    assert f"`{member}" in refusal("process/start", {**START, member: value})


def test_start_takes_our_additions() -> None:
    """The size and the timeouts a client asks for would be lost."""
    additions = {"rows": 65535, "cols": 1, "timeoutMs": 0, "idleTimeoutMs": 5, "closedAfterExitMs": 1}
    params = decode("process/start", START | additions | {"onDisconnect": "terminate"})
    assert (params.rows, params.cols, params.timeout_ms, params.idle_timeout_ms) == (65535, 1, 0, 5)
    assert (params.closed_after_exit_ms, params.on_disconnect) == (1, "terminate")


POLICY = {"inherit": "core", "ignoreDefaultExcludes": True, "exclude": [], "set": {}, "includeOnly": []}


@pytest.mark.parametrize("member", POLICY)
def test_every_member_of_env_policy_is_required(member: str) -> None:
    """A half-given policy would leak variables that the client meant to keep back."""
    decode("process/start", START | {"envPolicy": POLICY})
    partial = {key: value for key, value in POLICY.items() if key != member}
    assert refusal("process/start", START | {"envPolicy": partial}) == f"missing field `{member}` in `envPolicy`"


@pytest.mark.parametrize(
    "permissions",
    [
        {"type": "disabled"},
        {"type": "external", "network": "enabled"},
        {"type": "managed", "file_system": {"type": "unrestricted"}, "network": "restricted"},
        {"type": "managed", "file_system": {"type": "restricted", "entries": []}, "network": "enabled"},
    ],
)
def test_sandbox_shapes(permissions: dict[str, Any]) -> None:
    """A sandbox must be understood before it can be refused or obeyed."""
    sandbox = {"permissions": permissions, "windowsSandboxLevel": "disabled", "useLegacyLandlock": False}
    params = decode("process/start", START | {"sandbox": sandbox})
    assert type(params.sandbox.permissions).__name__.lower().startswith(permissions["type"])
    for member in permissions:
        broken = {key: value for key, value in permissions.items() if key != member}
        refusal("process/start", START | {"sandbox": sandbox | {"permissions": broken}})
    refusal("process/start", START | {"sandbox": {"permissions": permissions}})
    refusal("process/start", START | {"sandbox": sandbox | {"permissions": {"type": "other"}}})


def test_read_defaults_and_ranges() -> None:
    """A poll with the largest number a client can say must wait, not fail; a negative one is a mistake."""
    assert decode("process/read", {"processId": "p"}) == ProcessReadParams("p", 0, None, 0)
    nulls = {"processId": "p", "afterSeq": None, "maxBytes": None, "waitMs": None}
    assert decode("process/read", nulls) == ProcessReadParams("p", 0, None, 0)
    for member, attribute in (("afterSeq", "after_seq"), ("maxBytes", "max_bytes"), ("waitMs", "wait_ms")):
        assert getattr(decode("process/read", {"processId": "p", member: 2**64 - 1}), attribute) == 2**64 - 1
        for bad in (2**64, 10**5000, -1, 1.0, "1", True):
            raw = msgspec.Raw(b'{"processId":"p","%b":%b}' % (member.encode(), _number(bad)))
            with pytest.raises(InvalidParams, match=f"`{member}`"):
                JSON.decode_params(METHODS["process/read"], raw)


def _number(value: Any) -> bytes:
    return b"1" + b"0" * 5000 if isinstance(value, int) and value > 2**65 else json.dumps(value).encode()


@pytest.mark.parametrize("size", [0, 1, 2, 3, 1000, 1533, 1534, 1535, 5000, 100_000])
def test_write_takes_bytes_of_every_size(size: int) -> None:
    """Small and large chunks are decoded in different ways, and input must arrive the same."""
    data = bytes(n * 7 % 256 for n in range(size))
    chunk = base64.b64encode(data).decode()
    expected = ProcessWriteParams("p", data, "w")
    assert decode("process/write", {"processId": "p", "chunk": chunk, "writeId": "w"}) == expected
    escaped = json.dumps({"processId": "p", "chunk": chunk, "writeId": "w"}).replace("/", "\\/")
    assert JSON.decode_params(METHODS["process/write"], msgspec.Raw(escaped.encode())) == expected
    assert decode("process/write", {"processId": "p", "chunk": chunk}) == ProcessWriteParams("p", data, None)


@pytest.mark.parametrize("padding", ["", "QUJD" * 1000])
@pytest.mark.parametrize("chunk", ["@@@", "aGk", "aG k=", "-_-_", "aGk=\n", "=", "aGk=aGk=", "é", "a"])
def test_write_refuses_what_is_not_base64(chunk: str, padding: str) -> None:
    """Broken input would reach the child."""
    assert "`chunk`" in refusal("process/write", {"processId": "p", "chunk": padding + chunk})


@pytest.mark.parametrize("long", ["p", "p" * 5000])
def test_write_refusals_do_not_depend_on_size(long: str) -> None:
    """A large request would be judged by other rules than a small one."""
    for bad in (5, None, [], {}, True, 1.5):
        assert "`chunk`" in refusal("process/write", {"processId": "p", "x": long, "chunk": bad})
    assert (
        refusal("process/write", {"processId": "p", "x": long, "chunk": "", "writeId": ""})
        == "writeId must not be empty"
    )
    assert refusal("process/write", {"processId": "p", "x": long}) == "missing field `chunk`"
    assert refusal("process/write", {"chunk": "", "x": long}) == "missing field `processId`"
    assert "`writeId`" in refusal("process/write", {"processId": "p", "x": long, "chunk": "", "writeId": 5})


def test_signal_names() -> None:
    """A misspelt signal must not be a silent success."""
    assert decode("process/signal", {"processId": "p", "signal": "interrupt"}).number == 2
    assert decode("process/signal", {"processId": "p", "signal": "SIGTERM"}) == ProcessSignalParams("p", "SIGTERM")
    for bad in ("TERM", "SIGFOO", "", "sigterm"):
        assert "signal" in refusal("process/signal", {"processId": "p", "signal": bad})


def test_accepted_goes_with_its_status() -> None:
    """A seed-era client would take a refused write for a good one."""
    assert ProcessWriteResult("accepted", True).accepted
    assert not ProcessWriteResult("stdinClosed").accepted
    for status, accepted in (("accepted", False), ("starting", True)):
        with pytest.raises(ValueError, match="accepted"):
            ProcessWriteResult(status, accepted)  # type: ignore[arg-type]


def test_what_attach_and_resize_need() -> None:
    """A resize to no size, or an attachment to nobody's process, must not get as far as an actor."""
    attach = msgspec.json.decode(b'{"processId":"p","observeId":"o","as":"q"}', type=ProcessAttachParams)
    assert (attach.as_, attach.after_seq) == ("q", 0)
    for bad in (b'{"processId":"p"}', b'{"processId":"p","observeId":"o","afterSeq":-1}'):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(bad, type=ProcessAttachParams)
    for bad in (
        b'{"processId":"p","rows":1}',
        b'{"processId":"p","rows":1,"cols":null}',
        b'{"processId":"p","rows":0,"cols":1}',
    ):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(bad, type=ProcessResizeParams)


PROCESS_METHODS = [
    f"process/{name}"
    for name in (
        "start read write closeStdin wait snapshot screen list resize flow attach detach signal terminate".split()  # noqa: SIM905
    )
]


FILE_METHODS = [
    *(f"fs/{name}" for name in ("readFile", "writeFile", "createDirectory", "getMetadata", "canonicalize")),
    *(f"fs/{name}" for name in ("readDirectory", "walk", "remove", "copy", "watchMissing")),
    *(f"fs/{name}" for name in ("open", "readBlock", "writeBlock", "close")),
]


def test_the_table_of_methods() -> None:
    """A method would be there without its family's handshake error, or missing."""
    assert {name: row.FAMILY for name, row in METHODS.items()} == {
        "initialize": "initialize",
        "environment/info": "environment info",
        "environment/status": "environment status",
        **dict.fromkeys(PROCESS_METHODS, "exec"),
        "http/request": "http",
        **dict.fromkeys(FILE_METHODS, "filesystem"),
        "environmentConfig/read": "environment config",
        "capabilities/discoverV2": "capability discovery",
    }
    assert all(name == row.METHOD for name, row in METHODS.items())
