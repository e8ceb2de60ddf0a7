"""The audit log: who started what, when, and how it ended."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from actors.session import audit
from actors.session.audit import AuditFile, append_to
from tests.support.client import PATIENCE_S, expect_error
from tests.support.client import session as client_session
from tests.support.program import ROOT, command, eventually, program

pytestmark = pytest.mark.anyio


def entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("show", [False, True])
async def test_every_process_is_in_the_log(tmp_path: Path, show: bool) -> None:
    """Lost: an answer to who did that; or a secret, to who reads the log."""
    path = tmp_path / "audit"
    flags = ["--audit", str(path), "--audit-argv", "yes" if show else "no"]
    with program(*flags) as server:
        async with client_session(server.url) as client:
            session_id = client.session_id
            assert (await client.run("good", "/bin/sh", "-c", "exit 3", "s3cret")).code == 3
            await expect_error(client.start("bad", "/no/such/program"))
            killed = await client.start("killed", "/bin/sleep", "1000", tty=True)
            await killed.terminate()
            await killed.closed()
            await client.start("left", "/bin/sleep", "1000")
            await eventually(lambda: len(entries(path)) == 10, "what has happened is in the file")
            port = client.link.socket.local_address[1]
        server.stop()
    told = entries(path)
    assert [(each["event"], each["process"]) for each in told] == [
        ("starting", "good"),
        ("started", "good"),
        ("ended", "good"),
        ("starting", "bad"),
        ("failed", "bad"),
        ("starting", "killed"),
        ("started", "killed"),
        ("ended", "killed"),
        ("starting", "left"),
        ("started", "left"),
        ("ended", "left"),
    ]
    beginning = [told.pop(at) for at in (8, 5, 3, 0)][-1]
    found = told
    same = ("session", "process", "peer", "client", "cwd", "tty", "mode", "argv", "argvSha256")
    assert all(beginning.get(name) == found[0].get(name) for name in same) and "pid" not in beginning
    assert all(each["session"] == found[0]["session"] and each["atMs"] > 1_700_000_000_000 for each in found)
    argv = ["/bin/sh", "-c", "exit 3", "s3cret"]
    assert found[0]["peer"] == f"websocket 127.0.0.1:{port}"
    assert (found[0]["client"], found[0]["cwd"], found[0]["tty"], found[0]["mode"]) == (
        "tests",
        "/",
        False,
        "direct",
    )
    if show:
        assert found[0]["argv"] == argv and "argvSha256" not in found[0]
    else:
        digest = sha256(json.dumps(argv, separators=(",", ":")).encode()).hexdigest()
        assert found[0]["argvSha256"] == digest and "s3cret" not in path.read_text()
    assert (found[1]["pid"], found[1]["exitCode"], found[1]["reason"]) == (found[0]["pid"], 3, "exited")
    assert (found[2]["code"], found[2]["kind"]) == (-32603, "spawnNotFound")
    assert (found[4]["exitCode"], found[4]["signal"], found[4]["reason"]) == (137, "SIGKILL", "terminated")
    assert found[6]["reason"] == "sessionEnded" and "exitCode" not in found[6]
    assert session_id not in path.read_text(), "who knows the id owns the session"
    assert path.stat().st_mode & 0o777 == 0o600


async def test_the_file_may_be_moved_away(tmp_path: Path) -> None:
    """Lost: what happens after the log was rotated."""
    path = tmp_path / "audit"
    with program("--audit", str(path)) as server:
        async with client_session(server.url) as client:
            await client.run("first", "/bin/true")
            await eventually(lambda: len(entries(path)) == 3, "the first is in the file")
            path.rename(tmp_path / "audit.1")
            await client.run("second", "/bin/true")
            await eventually(lambda: path.exists() and len(entries(path)) == 3, "the second is in another")


def test_a_log_that_cannot_be_written_keeps_the_server_from_starting(tmp_path: Path) -> None:
    """Lost: that nothing runs without being told of."""
    for path, why in ((tmp_path / "no" / "audit", "No such file or directory"), (tmp_path, "Is a directory")):
        argv = command("--listen", "ws://127.0.0.1:0", "--audit", str(path))
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
        assert (done.returncode, done.stderr) == (1, f"Error: cannot write the audit log {path}: {why}\n")


def test_lines_that_are_lost_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Lost: knowing that something is missing; or the memory of the server, to a disk that is full."""
    path = tmp_path / "no" / "audit"
    monkeypatch.setattr(audit, "WAITING_LIMIT", 20)
    file = AuditFile(str(path))
    file.append(b'{"n":1}\n')
    assert audit.wait_until_written()
    file.append(b'{"n":2}\n{"n":3}\n')
    assert audit.wait_until_written()
    assert caplog.text.count("are lost: No such file or directory") == 1
    path.parent.mkdir()
    slow_disk = threading.Event()
    audit._WRITER.submit(slow_disk.wait)
    file.append(b'{"n":4000}\n')
    file.append(b'{"n":5000}\n')
    slow_disk.set()
    assert audit.wait_until_written()
    found = entries(path)
    assert found[0] == {"n": 4000}
    assert (found[1]["event"], found[1]["lines"]) == ("lost", 4)
    assert len(found) == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_half_a_line_is_never_left(tmp_path: Path) -> None:
    """Lost: the next line, behind a torn one."""
    import resource
    import signal

    path = tmp_path / "audit"
    append_to(str(path), b"whole\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        with pytest.raises(OSError):
            append_to(str(path), b"more than there is room for\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert path.read_bytes() == b"whole\n"
    with pytest.raises(OSError):
        append_to("/dev/full", b"x\n")
