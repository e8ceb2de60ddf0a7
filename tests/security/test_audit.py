"""Ways around the audit log: what nobody told of does not run."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from actors.session import audit
from actors.session.audit import CLIENT_BYTES, AuditFile, cut
from actors.system.line_queue import LineQueue
from actors.system.pool import Pool
from tests.security.attacker import Attacker
from tests.support.client import connected, expect_error, session
from tests.support.program import eventually, program

pytestmark = pytest.mark.anyio

STARTS = 40


def entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def told_of(path: Path, event: str) -> list[str]:
    return [each["process"] for each in entries(path) if each["event"] == event]


async def test_what_a_client_calls_itself_is_bounded(tmp_path: Path) -> None:
    """H10a. A name of megabytes in each line fills the queue, and what ran is lost among them.

    Lost: knowing what ran, to whoever calls himself long enough.
    """
    path = tmp_path / "audit"
    name = "n" * 1000
    with program("--audit", str(path)) as server:
        async with connected(server.url) as client:
            await client.call("initialize", clientName=name, resumeSessionId=None)
            await client.notify("initialized")
            for number in range(STARTS):
                await expect_error(client.start(f"bad{number}", "/no/such/program"))
            await asyncio.gather(*(client.run(f"good{number}", "/bin/true") for number in range(STARTS)))
            await eventually(lambda: len(told_of(path, "ended")) == STARTS, "all is told")
    good = sorted(f"good{number}" for number in range(STARTS))
    assert sorted(told_of(path, "started")) == good
    assert "lost" not in path.read_text()
    digest = sha256(name.encode()).hexdigest()
    assert entries(path)[0]["client"] == f"{name[:CLIENT_BYTES]}... ({len(name)} bytes, SHA-256 {digest})"


def test_a_cut_is_text_of_bounded_size() -> None:
    """H10a. Lost: the line of whoever has half a character, or a byte that is none, at the bound."""
    for text in ("", "x", "é" * 128, "é" * 129, "x" + "漢" * 90, "\udcff" * 300, "\udcff"):
        line = cut(text).encode()
        assert len(line) <= CLIENT_BYTES + 120
        assert len(text.encode(errors="backslashreplace")) > CLIENT_BYTES or cut(text) == (
            text.replace("\udcff", "\\udcff")
        )


async def test_a_folder_whose_name_is_no_text_hides_nothing(tmp_path: Path) -> None:
    """H10. Lost: the line of a start in a folder of which the name cannot be written as JSON."""
    path, folder = tmp_path / "audit", os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(folder)
    with program("--audit", str(path), "--audit-argv", "yes") as server:
        async with session(server.url) as client:
            await client.run("p", "/bin/true", cwd="file://" + str(tmp_path) + "/%FF")
            await eventually(lambda: len(entries(path)) == 3, "all is told")
    assert [each["event"] for each in entries(path)] == ["starting", "started", "ended"]
    assert entries(path)[0]["cwd"].endswith("/\\udcff")


async def test_who_is_cut_off_at_once_is_told_of(tmp_path: Path) -> None:
    """H10b. Start something that gets away from the server, and close before the answer.

    Lost: who started what runs on.
    """
    path, proofs = tmp_path / "audit", tmp_path / "proofs"
    proofs.mkdir()
    with program("--audit", str(path)) as server:
        for number in range(STARTS):
            attacker = Attacker(server.url, "initialized", "json")
            away = f"setsid sh -c 'echo > {proofs}/p{number}' & setsid sh -c 'echo > {proofs}/p{number}'"
            params = {"processId": f"p{number}", "argv": ["/bin/sh", "-c", away], "cwd": "file:///", "env": {}}
            start = {"id": 1, "method": "process/start", "params": params | {"tty": False}}
            attacker.attack([json.dumps(start).encode()], are_messages=True)
        server.stop()
    ran = set(os.listdir(proofs))
    starting, ended = set(told_of(path, "starting")), set(told_of(path, "ended"))
    assert ran <= starting
    assert set(told_of(path, "started")) <= ended, "and what began has ended"
    assert starting, "the connections were cut so soon that nothing was tried"


async def test_nothing_starts_that_cannot_be_told_of(tmp_path: Path) -> None:
    """H10. A command fills the disk of the log, and then nobody tells of the next.

    Lost: knowing what ran while the disk was full.
    """
    path, proof = tmp_path / "audit", tmp_path / "proof"
    with program("--audit", str(path)) as server:
        async with session(server.url) as client:
            await client.run("before", "/bin/true")
            await eventually(lambda: len(entries(path)) == 3, "all is told")
            path.rename(tmp_path / "audit.1")
            path.mkdir()  # as a full disk: it cannot be written
            for tty in (False, True):
                error = await expect_error(client.start("p", "/bin/sh", "-c", f"echo > {proof}", tty=tty))
                assert error.data["kind"] == "notAudited"
            assert not proof.exists()
            path.rmdir()
            await client.run("p", "/bin/sh", "-c", f"echo > {proof}")
            assert proof.exists()
            await eventually(lambda: "p" in told_of(path, "ended"), "all is told again")
        assert server.stop() == 0
    assert told_of(path, "starting") == ["p"]
    lost = sum(each.get("lines", 0) for each in entries(path))
    late = told_of(path, "failed")  # a client has its refusal before the line of it is tried
    assert lost + len(late) == 2, "those of two refusals"


def test_failures_leave_room_for_starts_and_these_for_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H10a. Lost: the line of a start, or of an end, to a flood of starts that fail."""
    path = tmp_path / "audit"
    monkeypatch.setattr(audit, "WAITING_LIMIT", 4000)
    file = AuditFile(str(path))
    slow_disk, begun = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        slow_disk.wait()

    audit._WRITER.submit(hang)
    begun.wait()
    answers: list[bool] = []
    for _ in range(100):
        file.append(b'{"event":"failed"}\n', audit.FAILURES_SHARE)
    for _ in range(100):
        file.append_awaited(b'{"event":"starting"}\n', answers.append, audit.STARTS_SHARE)
    for _ in range(10):
        file.append(b'{"event":"ended"}\n')
    refused = answers.count(False)
    assert answers == [False] * refused and 0 < refused < 100
    slow_disk.set()
    assert audit.wait_until_written()
    events = [each["event"] for each in entries(path)]
    assert answers.count(True) == events.count("starting") == 100 - refused
    assert (events.count("ended"), events.count("lost")) == (10, 1)
    assert 0 < events.count("failed") <= 4000 * audit.FAILURES_SHARE / 19
    assert entries(path)[-1]["lines"] == 100 - events.count("failed")


def test_who_waits_for_a_line_is_told_once_what_became_of_it() -> None:
    """H10. Lost: a start that waits for ever, or runs although its line is lost."""
    pool, broken = Pool(1, "lines", grows=False), [True]
    lines = LineQueue(pool, 1000, lambda data, lost: data.count(b"\n") if broken[0] else 0)
    answers: list[bool] = []
    lines.append_awaited(b"1\n", answers.append)
    assert pool.finish() and answers == [False]
    broken[0] = False
    lines.append_awaited(b"2\n", answers.append)
    assert pool.finish() and answers == [False, True]
