"""`run --detach`, and what finds its commands again from other programs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exec_server.cli.detached_sessions import DetachedSession, DetachedSessions
from exec_server.cli.durations import shown
from exec_server.cli.exit_status import CliError
from exec_server.cli.kill import signal_name
from exec_server.cli.table import table
from tests.exec_server.cli.commands import PROGRAM, Done, Inside, environ, one_line, running, typed
from tests.exec_server.cli.tmux import Tmux
from tests.support.client import PATIENCE_S, connected, session
from tests.support.cutting_proxy import CuttingProxy
from tests.support.program import Program, eventually, launched, marker
from tests.support.program import running as processes

pytestmark = pytest.mark.anyio


class Shell:
    """Whoever types: a server, and a state folder of their own."""

    def __init__(self, url: str, folder: Path, inside: Inside) -> None:
        self.url = url
        self.folder = folder
        self._inside = inside
        self.env = {"XDG_STATE_HOME": str(folder)}

    async def type(self, *argv: str) -> Done:
        return await asyncio.to_thread(self._inside.type, self.url, *argv, env=self.env)

    async def detach(self, script: str, *options: str) -> str:
        """Leave `sh -c SCRIPT` running; its id."""
        done = await self.type("run", "--detach", *options, "--", "sh", "-c", script)
        assert (done.status, done.stderr) == (0, b"")
        return done.stdout.decode().strip()

    async def list(self, *options: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((await self.type("ps", "--json", *options)).stdout)
        return found

    def file(self) -> Path:
        (file,) = self.folder.glob("exec-server/sessions/*.json")
        return file

    def session_id(self, name: str = "default") -> str:
        found: str = json.loads(self.file().read_text())["sessions"][name]["session_id"]
        return found


@pytest.fixture
def shell(server: Program, tmp_path: Path, inside: Inside) -> Iterator[Shell]:
    """What is left running at the end of a test ends there."""
    shell = Shell(server.url, tmp_path, inside)
    yield shell
    asyncio.run(end_all(shell))


async def end_all(shell: Shell) -> None:
    for file in shell.folder.glob("exec-server/sessions/*.json"):
        async with session(shell.url) as client:
            for kept in json.loads(file.read_text())["sessions"].values():
                listed = await client.call("process/list", sessionId=kept["session_id"])
                for each in listed["processes"]:
                    await client.call("process/terminate", processId=each["processId"], sessionId=kept["session_id"])


async def test_the_life_of_a_command(shell: Shell) -> None:
    """Lost: long jobs: started, looked at, and waited for from other programs."""
    name = await shell.detach(
        "echo out; echo err >&2; read x; echo $x; while ! test -e go; do sleep 0.05; done; exit 3",
        "--cwd",
        str(shell.folder),
    )
    (entry,) = await shell.list()
    assert (entry["processId"], entry["running"], entry["session"]) == (name, True, "default")
    shown_table = (await shell.type("ps")).stdout.decode().splitlines()
    assert shown_table[0].split() == ["ID", "SESSION", "STATUS", "STARTED", "COMMAND"]
    assert shown_table[1].split()[:3] == [name, "default", "running"]
    async with running(shell.url, "logs", "-f", name, env=shell.env) as logs:
        assert await logs.line() == b"out\n"
        assert (await shell.type("logs", name)) == (0, b"out\n\n", b"err\n")
        assert (await shell.type("wait", "--timeout", "10ms", name)).status == 124
        (shell.folder / "go").touch()
        assert await logs.done() == (0, b"\n", b"err\n")
    assert (await shell.type("wait", name)).status == 3
    told = json.loads((await shell.type("wait", "--json", name)).stdout)
    assert told == {"processId": name, "exitCode": 3, "signal": None, "reason": "exited"}
    assert b"exited 3" in (await shell.type("ps")).stdout


async def test_kill_and_signals(shell: Shell) -> None:
    number = marker()
    name = await shell.detach(f"trap 'echo told' USR1; sleep {number} & while :; do wait; done")
    await eventually(lambda: processes(number), "the command runs")
    assert (await shell.type("kill", "-s", "usr1", name)).status == 0
    async with running(shell.url, "logs", "-f", name, env=shell.env) as logs:
        assert await logs.line() == b"told\n"
    assert (await shell.type("kill", name)).status == 0
    assert (await shell.type("wait", name)).status == 128 + signal.SIGTERM
    await eventually(lambda: not processes(number), "its descendants are gone, too")
    again = await shell.type("kill", name)
    assert again.status == 1 and "ended already" in one_line(again.stderr)


async def test_nothing_disturbs_who_holds_the_session(shell: Shell) -> None:
    """Lost: the connection of a program that works in the session; a second one would be refused, or displace it."""
    name = await shell.detach("echo begun; exec sleep 1000")
    async with connected(shell.url) as holder:
        await holder.initialize(resume=shell.session_id())
        assert [each["processId"] for each in await shell.list()] == [name]
        assert (await shell.type("logs", name)).stdout == b"begun\n"
        async with running(shell.url, "attach", name, env=shell.env) as attached:
            assert await attached.line() == b"begun\n"
            assert (await shell.type("kill", name)).status == 0
            assert await attached.wait() == 143
        assert not holder.lost.is_set()
        await holder.call("process/list")


async def test_commands_at_the_same_time_share_one_session(shell: Shell) -> None:
    """Lost: commands that nobody finds any more, because two programs wrote the file."""
    argv = ("run", "--detach", "--", "sleep", "1000")
    done = await asyncio.gather(*(typed(shell.url, *argv, env=shell.env) for _ in range(3)))
    names = [each.stdout.decode().strip() for each in done]
    assert {each["processId"] for each in await shell.list()} == set(names)
    file = shell.file()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert len(json.loads(file.read_text())["sessions"]) == 1


async def test_sessions_have_names(shell: Shell) -> None:
    one = await shell.detach("exec sleep 1000")
    two = await shell.detach("exec sleep 1000", "--session", "other", "--keep", "1h")
    assert [each["processId"] for each in await shell.list("--session", "other")] == [two]
    assert {each["processId"] for each in await shell.list()} == {one, two}
    assert one in one_line((await shell.type("kill", "--session", "other", one)).stderr)
    unknown = await shell.type("ps", "--session", "third")
    assert (unknown.status, "default, other" in one_line(unknown.stderr)) == (1, True)
    late = await shell.type("run", "--detach", "--session", "other", "--keep", "2h", "true")
    assert (late.status, "1h" in one_line(late.stderr)) == (125, True)


async def test_keep_is_how_long_the_session_lives(shell: Shell) -> None:
    """Lost: a machine full of forgotten jobs, or jobs that end too early."""
    number = marker()
    await shell.detach(f"exec sleep {number}", "--keep", "100ms")
    await eventually(lambda: not processes(number), "the session is over")
    async with asyncio.timeout(PATIENCE_S):
        while json.loads(shell.file().read_text())["sessions"]:
            await shell.list()  # forgets here what the server has forgotten
    assert await shell.list() == []
    assert await shell.detach("true"), "and another one takes its place"


async def test_a_server_that_was_started_anew_knows_nothing(tmp_path: Path, inside: Inside) -> None:
    """Lost: `run --detach` would fail for ever after a restart of the server."""
    socket = f"unix://{tmp_path}/socket"
    shell = Shell(socket, tmp_path, inside)
    for _ in range(2):
        argv = [*PROGRAM, "--listen", socket, "--grace", "0"]
        with launched(argv, env=environ(None), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as own:
            assert own.stdout is not None
            own.stdout.readline()
            name = await shell.detach("exec sleep 1000")
            assert [each["processId"] for each in await shell.list()] == [name]
            own.terminate()
            own.wait(PATIENCE_S)


async def test_a_command_that_cannot_start_leaves_nothing(shell: Shell) -> None:
    done = await shell.type("run", "--detach", "no-such-program")
    assert (done.status, done.stdout) == (127, b"")
    assert await shell.list() == []


async def test_output_that_was_not_kept_is_told(shell: Shell) -> None:
    """Lost: knowledge that a log begins in the middle."""
    name = await shell.detach("head -c 3000000 /dev/zero; echo end")
    assert (await shell.type("wait", name)).status == 0
    done = await shell.type("logs", "-f", name)
    told = int(one_line(done.stderr).split()[0])
    assert told > 1_000_000 and told + len(done.stdout) == 3_000_004
    assert done.stdout.endswith(b"end\n")


async def test_logs_go_on_over_a_cut(shell: Shell) -> None:
    name = await shell.detach("echo one; while ! test -e go; do sleep 0.05; done; echo two", "--cwd", str(shell.folder))
    kept = DetachedSessions(shell.url, shell.env).load()
    async with CuttingProxy(shell.url) as proxy:
        store = DetachedSessions(proxy.url, shell.env)
        async with store.locked():
            store.save(kept)
        async with running(proxy.url, "logs", "-f", name, env=shell.env) as logs:
            assert await logs.line() == b"one\n"
            proxy.cut()
            (shell.folder / "go").touch()
            assert await logs.done() == (0, b"two\n", b"")


async def test_interrupt_leaves_the_command_alone(shell: Shell) -> None:
    """Lost: the job that was only looked at."""
    name = await shell.detach("echo begun; exec sleep 1000")
    for subcommand in (["attach"], ["logs", "-f"]):
        async with running(shell.url, *subcommand, name, env=shell.env) as looking:
            assert await looking.line() == b"begun\n"
            os.kill(looking.pid, signal.SIGINT)
            assert await looking.done() == (130, b"", b"")
    assert [each["running"] for each in await shell.list()] == [True]


def test_attach_to_a_terminal(shell: Shell) -> None:
    """Lost: an editor that was left open elsewhere: its screen in a terminal of another size, and its keys."""
    vim = ["vim", "-u", "NONE", "-i", "NONE", "note"]
    options = ["--tty", "--cwd", str(shell.folder), "--env", "TERM=screen"]
    detached = [*PROGRAM, "run", "--detach", *options, "--", *vim]
    name = subprocess.check_output(detached, env=environ(shell.url, **shell.env), text=True).strip()
    attach = [*PROGRAM, "attach", name]
    with Tmux(shell.folder, environ(shell.url, **shell.env), cols=90, rows=30) as tmux:
        tmux.run(attach, "echo status $?")
        tmux.until(lambda screen: screen.count("~") >= 28, "28 empty lines of vim")
        tmux.text("ityped")
        tmux.shows("typed")
        tmux.keys("C-]", "C-]", "C-]")
        tmux.shows("status 0")
        assert tmux.value("alternate_on") == "0"
        tmux.run(attach, "echo status $?")
        tmux.shows("typed")
        tmux.keys("Escape")
        tmux.text(":wq")
        tmux.keys("Enter")
        tmux.shows("status 0")
    assert "typed" in (shell.folder / "note").read_text()


@pytest.mark.parametrize(
    ("argv", "status", "said"),
    [
        (["logs", "nobody"], 1, "exec-server ps"),
        (["wait", "nobody"], 125, "exec-server ps"),
        (["attach", "nobody"], 125, "exec-server ps"),
        (["kill", "nobody"], 1, "exec-server ps"),
        (["kill"], 2, "ID"),
        (["kill", "-s", "NONE", "x"], 2, "NONE"),
        (["logs"], 2, "ID"),
        (["ps", "--url", "local"], 1, "--url"),
        (["run", "--detach", "--url", "local", "true"], 125, "--url"),
        (["run", "--keep", "1h", "true"], 2, "--detach"),
        (["run", "--detach", "--keep", "long", "true"], 2, "--keep long"),
    ],
)
async def test_what_is_wrong_is_said_in_one_line(shell: Shell, argv: list[str], status: int, said: str) -> None:
    done = await shell.type(*argv)
    assert (done.status, done.stdout) == (status, b"")
    assert said.lower() in one_line(done.stderr).lower()


async def test_a_damaged_file_is_named(shell: Shell) -> None:
    await shell.detach("true")
    file, content = shell.file(), shell.file().read_bytes()
    file.write_text("{")
    done = await shell.type("ps")
    assert done.status == 1 and str(file) in one_line(done.stderr)
    file.write_bytes(content)


async def test_a_session_that_somebody_has_made_anew_is_not_forgotten(tmp_path: Path) -> None:
    store = DetachedSessions("ws://x", {"XDG_STATE_HOME": str(tmp_path)})
    old, new = DetachedSession("old", 1.0), DetachedSession("new", 1.0)
    async with store.locked():
        store.save({"a": new, "b": old})
    await store.forget({"a": old, "b": old})
    assert store.load() == {"a": new}


def test_tables_and_names() -> None:
    assert table(("A", "B"), [("long", "x\n\x1b[2J")]) == "A     B\nlong  x\\n\\x1b[2J\n"
    assert table(("A", "B"), [("long", "longer")], width=8) == "A     B\nlong  lo\n"
    assert [signal_name(text) for text in ("HUP", "sigusr1", "9")] == ["SIGHUP", "SIGUSR1", "SIGKILL"]
    with pytest.raises(CliError, match="--signal"):
        signal_name("64000")
    assert [shown(value) for value in (0, 59.9, 60, 7200, 86400)] == ["0s", "59s", "1m", "2h", "1d"]
