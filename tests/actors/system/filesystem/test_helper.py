"""The file helper, as the program that it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def helper(*argv: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run `exec-server fs-helper`."""
    program = [sys.executable, "-m", "exec_server", "fs-helper", *argv]
    return subprocess.run(program, input=stdin, capture_output=True, timeout=30)


def call(**request: Any) -> dict[str, Any]:
    """The answer of `fs-helper call`."""
    ran = helper("call", stdin=json.dumps(request).encode() + b"\n")
    assert (ran.returncode, ran.stderr, ran.stdout.count(b"\n")) == (0, b"", 1)
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


def test_a_file_is_streamed_whole(tmp_path: Path) -> None:
    """Clients of the seed read files in a sandbox with this."""
    data = os.urandom(2_500_000)
    (tmp_path / "file").write_bytes(data)
    ran = helper("read", str(tmp_path / "file"))
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, data, b"")
    assert helper("read", (tmp_path / "file").as_uri()).stdout == data
    assert helper("read", "/proc/self/stat").stdout


@pytest.mark.parametrize(
    ("path", "kind", "code"),
    [
        ("/nonexistent", "not_found", 2),
        ("/tmp", "is_a_directory", 21),
        ("/etc/hostname/x", "other", 20),
        ("/dev/null", "invalid_data", None),
        ("relative", "invalid_data", None),
    ],
)
def test_a_failure_is_one_line(path: str, kind: str, code: int | None) -> None:
    """The caller must tell a missing file from a broken helper."""
    ran = helper("read", path)
    assert (ran.returncode, ran.stdout, ran.stderr.count(b"\n")) == (1, b"", 1)
    failure = json.loads(ran.stderr)
    assert list(failure) == ["kind", "message", "raw_os_error"]
    assert (failure["kind"], failure["raw_os_error"]) == (kind, code) and path in failure["message"] + "relative"


@pytest.mark.parametrize(
    ("argv", "mistake"),
    [
        ((), "it was not said what to do"),
        (("read",), "`read` needs the PATH of a file"),
        (("read", "a", "b"), "`read` takes one PATH, not 2; a request for each"),
        (("write", "a"), "there is no request 'write'"),
        (("call", "x"), "`call` takes no arguments, not 'x'; its request comes on standard input"),
    ],
)
def test_each_mistake_in_the_arguments_is_named(argv: tuple[str, ...], mistake: str) -> None:
    """Nobody would know what to give it."""
    ran = helper(*argv)
    assert (ran.returncode, ran.stdout) == (2, b"")
    said, usage, *_ = ran.stderr.decode().splitlines()
    assert said == f"exec-server fs-helper: {mistake}"
    assert usage == "usage: exec-server fs-helper read PATH"


def test_a_request_is_answered_as_by_the_server(tmp_path: Path) -> None:
    """A request in a sandbox would be another than the same one without."""
    path = str(tmp_path / "f")
    assert call(method="fs/writeFile", params={"path": path, "dataBase64": "aGkK"}) == {"result": {}}
    assert call(method="fs/readFile", params={"path": path}) == {"result": {"dataBase64": "aGkK"}}
    missing = call(method="fs/readFile", params={"path": path + "x"})["error"]
    assert (missing["code"], missing["data"]["kind"]) == (-32004, "notFound")
    large = call(method="fs/readFile", params={"path": path}, room=2)["error"]
    assert (large["code"], large["data"]["kind"]) == (-32600, "tooLarge")


def test_a_request_that_is_none_is_refused() -> None:
    """A helper that fails with a traceback tells nobody what was wrong."""
    assert call(method="process/start", params={})["error"]["code"] == -32601
    assert call(method="fs/readFile", params={})["error"]["code"] == -32602
    assert json.loads(helper("call", stdin=b"nonsense\n").stdout)["error"]["code"] == -32602
