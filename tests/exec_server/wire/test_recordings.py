"""Recordings of terminals, their replay, and screens rendered from what was printed."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyte
import pytest

from actors.process.recording import Recording
from actors.process.terminal_output import TerminalOutput
from tests.support.client import Process, connected, expect_error, session
from tests.support.program import ROOT, Program, program

pytestmark = pytest.mark.anyio

FULL_SCREEN = r"printf '\033[?1049h\033[2J\033[5;10Hhello \303\251\033]0;a title\007\033[2;3H'; read line"


def recorded(folder: Path) -> list[Any]:
    """The one recording in `folder` after the end of its server: header, then events."""
    (file,) = folder.iterdir()
    return [json.loads(line) for line in file.read_text().splitlines()]


async def test_a_terminal_is_recorded_with_its_size_and_resizes_and_without_what_is_typed(tmp_path: Path) -> None:
    with program("--record", str(tmp_path)) as server:
        async with session(server.url) as client:
            process = await client.shell(
                "build/1", "stty -echo; echo 'caf\u00e9'; read secret; exit 3", tty=True, rows=30, cols=90
            )
            await process.shows("caf\u00e9".encode())
            await client.call("process/resize", processId="build/1", rows=40, cols=100)
            await process.write(b"hunter2\n")
            await process.closed()
            await client.run("pipes", "/bin/echo", "not recorded")
        server.stop()
        header, *events = recorded(tmp_path)
    assert (header["version"], header["width"], header["height"]) == (2, 90, 30)
    assert "".join(data for _, code, data in events if code == "o") == "caf\u00e9\r\n"
    assert [data for _, code, data in events if code == "r"] == ["100x40"]
    assert not [data for _, code, data in events if code == "i"]
    times = [at for at, _, _ in events]
    assert times == sorted(times)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600 and "build_1" in file.name


async def test_input_is_recorded_where_that_is_asked_for(tmp_path: Path) -> None:
    with program("--record", str(tmp_path), "--record-input", "yes") as server:
        async with session(server.url) as client:
            process = await client.start("p", "/bin/cat", tty=True)
            await process.write(b"typed\n")
            await process.shows(b"typed\r\ntyped")
            await process.write(b"\x04")
            await process.closed()
        server.stop()
        _, *events = recorded(tmp_path)
    assert "".join(data for _, code, data in events if code == "i") == "typed\n\x04"


async def test_a_start_can_say_no_to_being_recorded(tmp_path: Path) -> None:
    with program("--record", str(tmp_path)) as server:
        async with session(server.url) as client:
            await (await client.shell("p", "true", tty=True, record=False)).closed()
    assert list(tmp_path.iterdir()) == []


async def test_what_cannot_be_recorded_does_not_start(tmp_path: Path, server: Program) -> None:
    """The client would believe that there is a recording."""
    async with connected(server.url) as client:
        assert "record" not in (await client.initialize())["extensions"]
        disabled = await expect_error(client.shell("p", "true", tty=True, record=True))
        assert (disabled.code, disabled.data["kind"]) == (-32602, "recordDisabled")
    with program("--record", str(tmp_path / "missing")) as other:
        async with connected(other.url) as client:
            assert "record" in (await client.initialize())["extensions"]
            pipes = await expect_error(client.shell("p", "true", record=True))
            assert (pipes.code, pipes.data["kind"]) == (-32602, "notATerminal")
            missing = await expect_error(client.shell("p", "true", tty=True))
            assert (missing.code, missing.data["kind"]) == (-32603, "recordFailed")
            assert (await (await client.shell("p", "echo fine")).closed()).stdout == b"fine\n"


async def test_a_full_disk_ends_the_recording_and_not_the_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recording = Recording(str(tmp_path / "x.cast"), {"version": 2}, lambda job: job())
    recording.open()
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, recording._fd)
    os.close(full)
    recording.output(b"lost")
    recording.output(b"not even tried")
    recording.close()
    assert [record.message for record in caplog.records] == [
        f"recording {tmp_path}/x.cast ends early: No space left on device"
    ]


def test_a_recording_that_ends_early_ends_with_a_whole_line(tmp_path: Path) -> None:
    """Lost: the whole recording, to a player that stumbles over half a line at its end."""
    path = tmp_path / "x.cast"
    recording = Recording(str(path), {"version": 2}, lambda job: job())
    recording.open()
    recording.output(b"whole")
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, hard))
    try:
        recording.output(b"more than there is room for")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    recording.close()
    assert path.read_bytes() == before


async def test_a_disk_that_is_too_slow_ends_the_recording(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What waits for it would fill the memory."""
    jobs: list[Any] = []
    recording = Recording(str(tmp_path / "x.cast"), {"version": 2}, jobs.append)
    recording.open()
    for _ in range(20):
        recording.output(b"x" * 1_000_000)
    assert "too slow" in caplog.text and len(recording._waiting) == 0
    recording.close()
    for job in jobs:
        job()
    assert (tmp_path / "x.cast").read_text() == '{"version": 2}\n'


async def test_a_replay_shows_what_the_terminal_showed(tmp_path: Path) -> None:
    with program("--record", str(tmp_path)) as server:
        async with session(server.url) as client:
            process = await client.shell("p", FULL_SCREEN, tty=True)
            await process.shows(b"a title")
            await process.write(b"\n")
            seen = (await process.closed()).pty
        server.stop()
        recorded(tmp_path)
    (file,) = tmp_path.iterdir()
    assert screen_of(await played_here(file)) == screen_of(seen)


EDITORS = {"curses": [sys.executable, str(ROOT / "tests" / "support" / "full_screen.py")]}
if vim := shutil.which("vim"):
    EDITORS["vim"] = [vim, "-u", "NONE", "-i", "NONE", "-n", "x.txt"]
READY = {"curses": " full screen ", "vim": "~"}
"""On the screen once it is the editor that reads, not the terminal, which echoes what is typed and may drop it."""
TYPED = "ihello\rworld \u00e9\x1b:set number\r:split\r"


async def edit(server: Program, editor: str, folder: Path) -> bytes:
    """Type into an editor that fills the screen, kill it there, and give all that its terminal showed."""
    environ = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm-256color"}
    async with session(server.url) as client:
        process = await client.start("p", *EDITORS[editor], tty=True, cwd=str(folder), env=environ)
        await client.until(lambda: READY[editor] in "".join(screen_of(process.output("pty"))))
        for keys in TYPED.partition("\x1b"):
            await process.write(keys.encode())
            await client.until(lambda: "world \u00e9" in "".join(screen_of(process.output("pty"))))
        await client.until(lambda: ":split" in "".join(screen_of(process.output("pty"))))
        await process.terminate()
        seen = (await process.closed()).pty
        assert (await shown(process))["rows"] == screen_of(seen)
        return seen


@pytest.mark.parametrize("editor", EDITORS)
async def test_an_editor_played_back_leaves_the_same_screen(editor: str, server: Program, tmp_path: Path) -> None:
    """What was recorded must be what was seen, also of a program that moves, scrolls and erases; on each player."""
    (folder := tmp_path / "recordings").mkdir()
    with program("--record", str(folder)) as recorder:
        seen = await edit(recorder, editor, tmp_path)
        recorder.stop()
    (file,) = folder.iterdir()
    assert screen_of(await played_here(file)) == screen_of(seen)
    assert screen_of(await played_by_asciinema(server, file, "play", "-s", "1000")) == screen_of(seen)
    assert screen_of(await played_by_asciinema(server, file, "cat")) == screen_of(seen)


async def played_here(file: Path) -> bytes:
    command = [sys.executable, "-m", "exec_server", "replay", str(file), "--speed", "0"]
    return (await asyncio.to_thread(subprocess.run, command, capture_output=True, check=True)).stdout


async def played_by_asciinema(server: Program, file: Path, *arguments: str) -> bytes:
    """On a terminal, which is what the player expects."""
    environ = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm-256color", "HOME": str(file.parent.parent)}
    async with session(server.url) as client:
        player = [sys.executable, "-m", "asciinema", *arguments, str(file)]
        ended = await (await client.start("p", *player, tty=True, env=environ, cwd=str(ROOT))).closed()
    assert ended.code == 0, ended.pty
    return ended.pty


@pytest.mark.parametrize("content", ["", "no json\n", '{"version": 9}\n', '{"version": 2}\n[1]\n', "\udcff"])
def test_a_file_that_is_no_recording_gets_one_line(content: str, tmp_path: Path) -> None:
    file = tmp_path / "x.cast"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    command = [sys.executable, "-m", "exec_server", "replay", str(file)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1 and result.stderr.startswith("Error: cannot play") and result.stderr.count("\n") == 1


def screen_of(output: bytes) -> list[str]:
    screen = pyte.Screen(80, 24)
    pyte.ByteStream(screen).feed(TerminalOutput().known(output))
    return [line.rstrip() for line in screen.display]


async def shown(process: Process) -> dict[str, Any]:
    return await process.client.call("process/screen", processId=process.id)


async def test_a_screen_is_what_a_terminal_would_show(server: Program) -> None:
    """Agents that drive an editor need the screen, not the escape sequences that painted it."""
    async with session(server.url) as client:
        process = await client.shell("p", FULL_SCREEN, tty=True)
        await process.shows(b"a title")
        await process.shows(b"\x1b[2;3H")
        screen = await shown(process)
        assert screen["rows"][4] == " " * 9 + "hello \u00e9" and len(screen["rows"]) == 24
        assert (screen["cursor"]["row"], screen["cursor"]["col"], screen["title"]) == (1, 2, "a title")
        assert screen["complete"] and screen["cols"] == 80
        await process.terminate()
        await process.closed()
        assert (await shown(process))["rows"][4] == " " * 9 + "hello \u00e9"


async def test_a_screen_follows_a_resize(server: Program) -> None:
    async with session(server.url) as client:
        process = await client.start("p", "/bin/cat", tty=True, rows=10, cols=40)
        assert len((await shown(process))["rows"]) == 10
        await client.call("process/resize", processId="p", rows=12, cols=50)
        screen = await shown(process)
        assert (len(screen["rows"]), screen["cols"]) == (12, 50)
        await process.terminate()


async def test_a_screen_without_its_beginning_says_so(server: Program) -> None:
    async with session(server.url) as client:
        process = await client.shell(
            "p", "head -c 3000000 /dev/zero | tr '\\0' 'x'; echo; echo end", tty=True, keep=False
        )
        await process.closed()
        screen = await shown(process)
        assert not screen["complete"] and "end" in screen["rows"]


async def test_pipes_have_no_screen(server: Program) -> None:
    async with session(server.url) as client:
        process = await client.start("p", "/bin/sleep", "60")
        error = await expect_error(shown(process))
        assert (error.code, error.data["kind"]) == (-32602, "notATerminal")
        await process.terminate()
