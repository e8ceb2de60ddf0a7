"""`exec-server run` on pipes: as if the command were run here."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from exec_server.cli.durations import seconds
from exec_server.cli.exit_status import CliError
from exec_server.cli.run import VALUED, environment, run, with_separator
from tests.exec_server.cli.commands import PROGRAM, Inside, environ, one_line, running, typed
from tests.support.cutting_proxy import CuttingProxy
from tests.support.program import ROOT, Facts, Program, alive, eventually, launched, marker, program
from tests.support.program import running as processes

pytestmark = pytest.mark.anyio
MIB = 1 << 20


async def test_output_streams_and_status(server: Program) -> None:
    """Lost: what a script does with a command's output and status."""
    done = await typed(server.url, "run", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert done == (3, b"out\n", b"err\n")


async def test_death_by_a_signal_is_128_and_its_number(server: Program) -> None:
    assert (await typed(server.url, "run", "--", "sh", "-c", "kill -9 $$")).status == 137


async def test_input_is_streamed_and_its_end_passed_on(server: Program) -> None:
    """Lost: a conversation with a program over pipes, and the end of programs that read all of their input."""
    async with running(server.url, "run", "sh", "-c", "while read x; do echo got $x; done; echo end") as command:
        for word in (b"one", b"two"):
            command.stdin.write(word + b"\n")
            assert await command.line() == b"got " + word + b"\n"
        command.stdin.close()
        assert await command.line() == b"end\n"
        assert await command.wait() == 0


async def test_input_from_a_file_and_from_nothing(server: Program, tmp_path: Path) -> None:
    """Lost: `< file`, which no event loop can poll, and cron jobs, whose input is closed."""
    file = tmp_path / "input"
    file.write_bytes(os.urandom(300_000))
    argv = [*PROGRAM, "run", "md5sum"]
    with file.open("rb") as opened:
        out = await asyncio.to_thread(subprocess.check_output, argv, stdin=opened, env=environ(server.url))
    assert out.split()[0].decode() == hashlib.md5(file.read_bytes()).hexdigest()
    closed = ["sh", "-c", 'exec "$@" <&-', "sh", *argv]
    out = await asyncio.to_thread(subprocess.check_output, closed, env=environ(server.url))
    assert out.split()[0].decode() == hashlib.md5(b"").hexdigest()


async def flooded(server: Program, size: int) -> tuple[int, int]:
    """`yes | exec-server run -- cat | head -c SIZE | md5sum`: checks the sum; the most memory that the client and the
    server had, in bytes.
    """
    script = 'yes | "$@" | head -c $SIZE | md5sum'
    shell = await asyncio.create_subprocess_exec(
        "sh",
        "-c",
        script,
        "sh",
        *PROGRAM,
        "run",
        "--",
        "cat",
        env=environ(server.url, SIZE=str(size)),
        stdout=asyncio.subprocess.PIPE,
    )
    printed = asyncio.create_task(shell.communicate())
    client = server_size = 0
    while not printed.done():
        await asyncio.wait([printed], timeout=0.1)
        server_size = max(server_size, server.rss())
        for pid in Facts(shell.pid).children() if not printed.done() else ():
            try:
                if b"exec_server" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    client = max(client, Facts(pid).rss())
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has just ended
    expected = hashlib.md5()
    for start in range(0, size, MIB):
        expected.update((b"y\n" * (MIB // 2))[: size - start])
    assert (await printed)[0].split()[0].decode() == expected.hexdigest()
    return client, server_size


async def test_a_flood_in_both_directions_in_flat_memory() -> None:
    """Lost: the machine's memory, on either end, when more is piped through than fits."""
    with program() as server:
        client, server_size = await flooded(server, 20_000_000)
        assert client < 120 * MIB and server_size < 150 * MIB


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_gigabyte_in_both_directions_in_flat_memory() -> None:
    with program() as server:
        client, server_size = await flooded(server, 1_000_000_000)
        assert client < 120 * MIB and server_size < 150 * MIB


async def test_a_reader_that_leaves_ends_the_command(server: Program) -> None:
    """Lost: `| head`: the command would run on elsewhere with nobody there, or a traceback would be shown."""
    number = marker()
    async with running(server.url, "run", "--", "sh", "-c", f"sleep {number} & exec yes") as command:
        await command.line()
        command.process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]
        assert await command.wait() == 141
        assert await command.stderr.read() == b""
    await eventually(lambda: not processes(number), "the command is gone")


async def test_a_command_that_closes_its_input_is_no_error(server: Program) -> None:
    """Lost: `yes | run head -1`."""
    done = await typed(
        server.url, "run", "sh", "-c", "read x; exec <&-; echo $x", input=b"first\n" + b"more\n" * 100_000
    )
    assert done == (0, b"first\n", b"")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_signals_are_passed_on(server: Program, number: signal.Signals) -> None:
    """Lost: a command that can clean up, and decides about its own exit status."""
    script = f"trap 'echo cleaned; exit 9' {number.name[3:]}; echo ready; while :; do sleep 0.05; done"
    async with running(server.url, "run", "--no-tty", "--", "sh", "-c", script) as command:
        assert await command.line() == b"ready\n"
        os.kill(command.pid, number)
        assert await command.line() == b"cleaned\n"
        assert await command.wait() == 9


async def test_a_signal_that_was_ignored_before_stays_ignored(server: Program) -> None:
    """Lost: `nohup exec-server run …`."""

    def nohup() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    async with running(server.url, "run", "sh", "-c", "echo ready; read x; echo $x", preexec=nohup) as command:
        assert await command.line() == b"ready\n"
        os.kill(command.pid, signal.SIGHUP)
        assert await command.done(b"on\n") == (0, b"on\n", b"")


async def test_a_cut_shows_as_one_line(server: Program) -> None:
    """Lost: a long command, and what it said meanwhile, at the first hiccup of a network."""
    async with (
        CuttingProxy(server.url) as proxy,
        running(proxy.url, "run", "sh", "-c", "read x; echo $x; read y; echo $y") as command,
    ):
        command.stdin.write(b"before\n")
        assert await command.line() == b"before\n"
        proxy.cut()
        assert "reconnecting" in await command.complaint()
        assert await command.done(b"after\n") == (0, b"after\n", b"")


async def test_interrupt_gives_up_waiting_for_a_server_that_is_gone(server: Program) -> None:
    """Lost: 45 seconds in which ^C does nothing."""
    async with (
        CuttingProxy(server.url) as proxy,
        running(proxy.url, "run", "sh", "-c", "echo ready; sleep 1000") as command,
    ):
        assert await command.line() == b"ready\n"
        proxy.refuse = True
        proxy.cut()
        assert "reconnecting" in await command.complaint()
        os.kill(command.pid, signal.SIGINT)
        assert await command.wait() == 130


async def test_a_server_that_ends_is_told(server: Program) -> None:
    """Lost: the difference between a command that failed and one of which nobody knows."""
    with program() as own:
        async with running(own.url, "run", "--", "sh", "-c", "echo ready; exec sleep 1000") as command:
            assert await command.line() == b"ready\n"
            own.stop()
            await command.complaint()
            os.kill(command.pid, signal.SIGTERM)
            assert await command.wait() == 143


async def test_a_time_limit(server: Program) -> None:
    done = await typed(server.url, "run", "--timeout", "0.1s", "sleep", "1000")
    assert done.status == 124
    assert "time was over" in one_line(done.stderr)


async def test_folder_and_environment(server: Program) -> None:
    """Lost: variables from here, without their values in the list of processes."""
    argv = ["run", "--cwd", "/usr", "--env", "A=1", "--env=B", "sh", "-c", "pwd; echo $A $B"]
    assert await typed(server.url, *argv, env={"B": "2"}) == (0, b"/usr\n1 2\n", b"")


async def test_a_terminal_without_one_here(server: Program) -> None:
    """Lost: programs that insist on a terminal, in CI."""
    done = await typed(
        server.url, "run", "--tty", "sh", "-c", "test -t 0 && test -t 1 && echo $TERM", env={"TERM": "vt9"}
    )
    assert done == (0, b"vt9\r\n", b"")


async def test_local_needs_no_server() -> None:
    done = await typed(None, "run", "--url", "local", "sh", "-c", "cat; echo err >&2; exit 4", input=b"in")
    assert done == (4, b"in", b"err\n")


async def test_interrupt_of_a_local_command_is_the_commands_business() -> None:
    """Lost: with ^C the server of one's own would die before the command could clean up."""
    script = "trap 'echo cleaned; exit 9' INT; echo ready; while :; do sleep 0.05; done"
    async with running(None, "run", "--", "sh", "-c", script) as command:
        assert await command.line() == b"ready\n"
        os.killpg(command.pid, signal.SIGINT)
        assert await command.line() == b"cleaned\n"
        assert await command.wait() == 9


async def test_a_local_command_ends_with_us() -> None:
    number = marker()
    async with running(None, "run", "--", "sh", "-c", f"echo ready; exec sleep {number}") as command:
        assert await command.line() == b"ready\n"
        (pid,) = processes(number)
        command.process.kill()
        await command.wait()
        await eventually(lambda: not alive(pid), "the command is gone")


async def test_unix_socket_and_token(tmp_path: Path) -> None:
    """Lost: servers that are not open to everybody."""
    token = tmp_path / "token"
    token.write_text("s3cret-s3cret-s3cret\n")
    socket = f"unix://{tmp_path}/socket"
    flags = ("--ws-auth", "capability-token", "--ws-token-file", str(token))
    with launched([*PROGRAM, "--listen", socket, *flags], env=environ(None), stdout=subprocess.PIPE) as own:
        assert own.stdout is not None
        own.stdout.readline()
        argv = ("run", "echo", "in")
        assert (await typed(socket, *argv, env={"EXEC_SERVER_TOKEN_FILE": str(token)})).stdout == b"in\n"
        flagged = await typed(None, "run", "--url", socket, "--token-file", str(token), "echo", "in")
        assert flagged.stdout == b"in\n"
        refused = await typed(socket, *argv)
        assert refused.status == 125 and "--token-file" in one_line(refused.stderr)


@pytest.mark.parametrize(
    ("argv", "status", "said"),
    [
        (["no-such-program"], 127, "no-such-program"),
        (["/etc/passwd"], 126, "/etc/passwd"),
        (["--cwd", "/no/such/folder", "true"], 125, "/no/such/folder"),
        (["--env", "NO_SUCH_VARIABLE", "true"], 2, "NO_SUCH_VARIABLE=VALUE"),
        (["--env", "=x", "true"], 2, "NAME=VALUE"),
        (["--timeout", "soon", "true"], 2, "--timeout soon"),
        (["--colour", "true"], 2, "--colour"),
        ([], 2, "-- CMD"),
        (["--url", "ws://127.0.0.1:1", "true"], 125, "--url"),
        (["--url", "gopher://x", "true"], 125, "gopher"),
        (["--token-file", "/no/such/file", "true"], 125, "/no/such/file"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    server: Program, inside: Inside, argv: list[str], status: int, said: str
) -> None:
    done = inside.type(server.url, "run", *argv)
    assert (done.status, done.stdout) == (status, b"")
    assert said in one_line(done.stderr)


def test_options_of_the_command_are_its_own() -> None:
    """Lost: `run grep --url …` would connect somewhere else."""
    assert with_separator(["ls", "-l", "--url", "x"]) == ["--", "ls", "-l", "--url", "x"]
    assert with_separator(["--url", "x", "--tty", "ls", "--", "-l"]) == ["--url", "x", "--tty", "--", "ls", "--", "-l"]
    assert with_separator(["--cwd=/", "--", "-odd"]) == ["--cwd=/", "--", "-odd"]
    assert with_separator(["--url"]) == ["--url"]
    assert with_separator([]) == []


def test_every_option_with_a_value_is_known_to_take_one() -> None:
    """Lost: the value of a new option would be taken for the command."""
    valued = {
        name
        for name, annotation in run.__annotations__.items()
        if name not in ("command", "return") and "bool" not in annotation
    }
    assert {f"--{name.replace('_', '-')}" for name in valued} == set(VALUED)


def test_environment_and_durations() -> None:
    assert environment(["A=b=c", "D"], {"D": "", "E": "x"}) == {"A": "b=c", "D": ""}
    assert [seconds(text, "--x") for text in ("2", "1.5s", "10m", "24h", "7d", "250ms")] == [
        2,
        1.5,
        600,
        86400,
        604800,
        0.25,
    ]
    for text in ("", "0", "-1", "1w", "1e9d", "99999999999"):
        with pytest.raises(CliError, match="--x"):
            seconds(text, "--x")


def test_a_start_loads_only_what_it_uses() -> None:
    """Lost: tenths of a second at every command."""
    code = (
        "import json, sys; from exec_server.cli import main; main(['run', '--url', 'ws://127.0.0.1:1', 'true']);"
        "print(json.dumps([*sys.modules]))"
    )
    out = subprocess.run([sys.executable, "-c", code], env=environ(None), capture_output=True, check=True, cwd=ROOT)
    loaded = set(json.loads(out.stdout))
    assert not loaded & {
        "thespian",
        "actors",
        "rich.progress",
        "rich.table",
        "exec_server.server.server",
        "exec_server.cli.doctor",
    }
