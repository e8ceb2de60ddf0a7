"""Command lines whose standard streams are not what was expected."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import struct
import subprocess
import termios
from pathlib import Path
from typing import Any

import pytest

from exec_server.cli.exit_status import tell
from exec_server.cli.foreground import Foreground
from exec_server.client.errors import TransportDisconnected
from exec_server.printable import printable
from exec_server.server.logs import TextFormatter
from tests.exec_server.cli.commands import PROGRAM, Done, environ, one_line, running, typed
from tests.support.client import PATIENCE_S
from tests.support.program import ROOT, Program, eventually, marker
from tests.support.program import running as processes

pytestmark = pytest.mark.anyio
BROKEN = {"closed": ">&-", "full": ">/dev/full"}


async def shell(line: str, url: str | None, *argv: str, cwd: Path = ROOT) -> Done:
    """A command line in place of `"$@"` in a line of a shell."""
    done = await asyncio.to_thread(
        subprocess.run,
        ["bash", "-c", line, "bash", *PROGRAM, *argv],
        env=environ(url),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("how", BROKEN.values(), ids=BROKEN)
async def test_the_status_of_a_command_is_kept_whatever_stdout_is(server: Program, how: str) -> None:
    """Lost: what a cron job decides by, where its output goes nowhere."""
    done = await shell(f'"$@" {how}', server.url, "run", "--", "sh", "-c", "echo printed; exit 7")
    assert done.status == 7


async def test_output_that_is_lost_is_no_success(server: Program) -> None:
    """Lost: `run -- cat backup > /full/disk && rm backup`."""
    done = await shell('"$@" > /dev/full', server.url, "run", "--", "echo", "printed")
    assert done.status == 125
    assert b"No space left on device" in done.stderr
    assert b"status 0" in done.stderr


@pytest.mark.parametrize("how", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("argv", [("info",), ("schema",), ("ps",), ("--help",)], ids=" ".join)
async def test_a_table_that_cannot_be_printed_is_told_in_one_line(
    server: Program, argv: tuple[str, ...], how: str
) -> None:
    """Lost: a script that goes on with half a list, and a traceback for a full disk."""
    done = await shell(f'"$@" {how}', server.url, *argv)
    assert done.status == 1
    assert one_line(done.stderr).startswith("cannot write to standard output: ")


async def test_the_id_of_a_command_that_was_started_is_told_even_so(server: Program, tmp_path: Path) -> None:
    """Lost: a command that runs on, and nobody knows which."""
    argv = ("run", "--detach", "--", "true")
    done = await shell(f'export XDG_STATE_HOME={tmp_path}; "$@" > /dev/full', server.url, *argv)
    process_id = one_line(done.stderr).split()[0]
    assert done.status == 125
    assert (await typed(server.url, "wait", process_id, env={"XDG_STATE_HOME": str(tmp_path)})).status == 0


async def test_a_server_says_nothing_on_stdout_that_is_for_stderr() -> None:
    """Lost: a program that reads the server's address, and gets what was for people."""
    line = 'exec 3< <(exec "$@" 2>&-); server=$!; read -u 3 url; kill $server; cat <&3; echo "$url" >&2'
    done = await shell(line, None, "--listen", "ws://127.0.0.1:0")
    assert (done.stdout, done.stderr[:5]) == (b"", b"ws://")


async def test_a_terminal_of_no_columns_shows_all(server: Program, tmp_path: Path) -> None:
    """Lost: the list, on a terminal that does not know its size."""
    env = {"XDG_STATE_HOME": str(tmp_path)}
    await typed(server.url, "run", "--detach", "--", "sleep", "0.125", env=env)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
    process = await asyncio.create_subprocess_exec(*PROGRAM, "ps", env=environ(server.url, **env), stdout=theirs)
    assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0
    shown = os.read(ours, 4096).decode()
    os.close(ours)
    os.close(theirs)
    assert "COMMAND" in shown
    assert "sleep 0.125" in shown


@pytest.mark.parametrize("argv", [(), ("cp", ":/etc/hostname", "here"), ("run", "--cwd", "/", "--", "true")])
async def test_that_the_own_folder_is_gone_is_said(tmp_path: Path, argv: tuple[str, ...]) -> None:
    """Lost: which file it is that does not exist."""
    folder = tmp_path / "gone"
    folder.mkdir()
    done = await shell(f'rmdir {folder}; "$@"', None, *argv, cwd=folder)
    assert done.status in (1, 125)
    assert len(done.stderr.splitlines()) == 1
    assert b"the folder that exec-server was started in is gone" in done.stderr


async def test_the_own_folder_is_named_where_only_the_copy_needs_it(server: Program, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    done = await shell(f'rmdir {folder}; "$@"', server.url, "cp", ":/etc/hostname", "here", cwd=folder)
    assert (done.status, b"was started in is gone" in done.stderr) == (1, True)


@pytest.mark.parametrize(("word", "meant"), [("inf", "info"), ("atach", "attach"), ("zzzz", "--help")])
async def test_a_subcommand_that_is_none_is_told_with_the_nearest(word: str, meant: str) -> None:
    """Lost: the name that was meant."""
    done = await typed(None, word)
    assert done.status == 2
    assert f"no subcommand {word}; " in one_line(done.stderr)
    assert meant in one_line(done.stderr)


async def test_bytes_that_are_no_text_are_named() -> None:
    done = await shell("\"$@\" $'\\xff'", None, "run", "--", "printf")
    assert (done.status, one_line(done.stderr)) == (2, r"b'\xff': only text can be sent, and this is not UTF-8")


NASTY = "a\x1b]0;X\x07\u202eb\x9b\u2066\u2028\udcff"


def test_messages_do_nothing_to_the_terminal(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Lost: the title, the direction and the cursor of the terminal, to whoever names a file."""
    tell(NASTY)
    shown = one_line(capfdbinary.readouterr().err)
    assert shown == r"a\x1b]0;X\x07\u202eb\x9b\u2066 \udcff"
    assert printable("ä 漢\n") == "ä 漢\\n"


def test_lines_of_the_log_do_nothing_to_the_terminal() -> None:
    """Lost: the same, to whoever can cause a line of the log, and a line that pretends to be another."""
    import logging
    import sys

    try:
        raise ValueError(NASTY)
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "said %s", (NASTY,), sys.exc_info())
    text = TextFormatter().format(record)
    assert all(line.isprintable() for line in text.split("\n"))


async def test_left_out_lines_are_text(server: Program, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "d" / "a\x1b]0;X\x07")
    done = await typed(server.url, "cp", "-r", f":{tmp_path}/d", str(tmp_path / "here"))
    assert done.status == 1
    assert r"a\x1b]0;X\x07" in one_line(done.stderr)


async def test_what_was_typed_before_leaving_arrives(server: Program, tmp_path: Path) -> None:
    """Lost: the last line that was typed, where it came in one piece with ^]^]^]."""
    env = environ(server.url, XDG_STATE_HOME=str(tmp_path))
    script = f"echo ready; read x; echo got $x > {tmp_path}/typed"
    done = await typed(server.url, "run", "--detach", "--tty", "--", "sh", "-c", script, env=env)
    process_id = done.stdout.decode().strip()
    ours, theirs = pty.openpty()
    attach = await asyncio.create_subprocess_exec(
        *PROGRAM, "attach", process_id, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    )
    shown = b""
    while b"ready" not in shown:
        shown += await asyncio.to_thread(os.read, ours, 4096)
    os.write(ours, b"hello\n\x1d\x1d\x1d")
    assert await asyncio.wait_for(attach.wait(), PATIENCE_S) == 0
    os.close(ours)
    os.close(theirs)
    assert (await typed(server.url, "wait", process_id, env=env)).status == 0
    assert (tmp_path / "typed").read_text() == "got hello\n"


async def test_a_size_that_changes_during_a_start_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost: the size of a window that was changed while the start was on its way, and one that a cut has lost."""
    sizes = [(50, 132), (50, 132), (60, 140)]
    told: list[tuple[int, int]] = []
    arrived = asyncio.Event()

    class Cut:
        async def resize(self, rows: int, cols: int) -> None:
            told.append((rows, cols))
            if len(told) == 1:
                foreground._resized.set()
                raise TransportDisconnected("cut")
            if len(told) == 3:
                arrived.set()
            foreground._resized.set()

    monkeypatch.setattr("exec_server.cli.foreground.size", lambda: sizes.pop(0) if sizes else (60, 140))
    process: Any = Cut()
    foreground = Foreground(process, process, None, size_sent=(24, 80))
    passing = asyncio.create_task(foreground._pass_size())
    await asyncio.wait_for(arrived.wait(), PATIENCE_S)
    passing.cancel()
    assert told == [(50, 132), (50, 132), (60, 140)]


async def test_a_command_ends_with_its_connection_where_that_is_asked_for(server: Program) -> None:
    """Lost: a command that runs on, unseen, after `run` was killed."""
    mark = marker()
    argv = ("run", "--on-disconnect", "terminate", "--", "sh", "-c", f"echo begun; exec sleep {mark}")
    async with running(server.url, *argv) as command:
        assert await command.line() == b"begun\n"
        command.process.kill()
        await command.wait()
    await eventually(lambda: not processes(mark), "the command is gone")
