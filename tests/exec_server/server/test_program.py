"""The server as a process among others: how it starts and ends, what it leaves, what it does without resources."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.client import PATIENCE_S, Client, RpcError, WebSocketLink, connected, expect_error, session
from tests.support.program import ROOT, Program, command, eventually, marker, program, running

pytestmark = pytest.mark.anyio

TREE = "trap '' HUP TERM; sleep {0} & setsid sleep {0} & (setsid sh -c 'exec sleep {0}' &); echo ready; sleep {0}; :"
"""Four sleeps: one in a session of its own, one whose parents are gone besides."""
SLEEPS = 4


async def plant(client: Client, mark: str) -> None:
    """Two trees, one on pipes and one on a terminal, and a background job of a command that is over."""
    for tty in (False, True):
        shell = await client.shell(f"tree{tty}", TREE.format(mark), tty=tty)
        await shell.shows(b"ready")
    await client.run("over", "/bin/sh", "-c", f"trap '' HUP; setsid sleep {mark} >/dev/null 2>&1 & :")
    await eventually(lambda: len(running(mark)) == 2 * SLEEPS + 1, "all sleeps run")


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_server_and_all_that_descends_from_it(signum: int) -> None:
    """Lost: a clean machine after the end; clients are told goodbye, the status is 0."""
    mark = marker()
    with program() as server:
        async with connected(server.url) as client, session(server.url) as detached:
            await client.initialize()
            await plant(client, mark)
            await detached.start("sleep", "/bin/sleep", mark)
            await detached.abort()
            assert await asyncio.to_thread(server.stop, signum) == 0
            await client.lost.wait()
            assert client.link.socket.close_code == 1001
        assert not running(mark)


async def test_nothing_outlives_a_server_that_was_killed() -> None:
    """Lost: a clean machine after SIGKILL, which nobody can catch."""
    mark = marker()
    with program() as server:
        async with session(server.url) as client:
            await plant(client, mark)
            server.popen.kill()
            await asyncio.to_thread(server.wait)
            await eventually(lambda: not running(mark), "all are gone", 3.0)


def test_the_first_line_on_stdout_is_the_url() -> None:
    """Lost: clients that parse it (docs/wire-spec.md, "The program"); stderr tells it to people."""
    with program(stderr=subprocess.PIPE) as server:
        assert re.fullmatch(r"ws://127\.0\.0\.1:[0-9]+", server.url)
        server.stop()
        assert server.popen.stdout is not None and server.popen.stderr is not None
        assert server.popen.stdout.read() == b""
        assert server.popen.stderr.read().decode() == f"exec-server listening on {server.url}\n"


def test_the_server_starts_without_the_library_of_the_other_subcommands() -> None:
    """Lost: a seventh of the time until the server is ready."""
    code = "import sys, exec_server.server.program; sys.exit('cyclopts' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=PATIENCE_S).returncode == 0


@pytest.mark.parametrize(
    ("flags", "status", "said"),
    [
        (["--listen", "ws://localhost:0"], 1, "invalid websocket --listen URL `ws://localhost:0`"),
        (["--listen", "ftp://x"], 1, "unsupported --listen URL `ftp://x`"),
        (["--listen", "ws://0.0.0.0:0"], 1, "--allow-unauthenticated"),
        (["--no-such-flag"], 2, "--no-such-flag"),
        (["--session-ttl", "soon"], 2, "--session-ttl"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_line(flags: list[str], status: int, said: str) -> None:
    """Lost: knowing why it does not run."""
    done = subprocess.run(command(*flags), capture_output=True, cwd=ROOT, timeout=PATIENCE_S, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (status, b"")
    assert said in done.stderr.decode() and done.stderr.count(b"\n") == 1


def test_a_port_in_use_is_said_in_one_line(server: Program) -> None:
    """Lost: knowing why it does not run."""
    done = subprocess.run(
        command("--listen", server.url), capture_output=True, cwd=ROOT, timeout=PATIENCE_S, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 1
    assert done.stderr.decode().strip().splitlines() == [
        f"Error: cannot listen on {server.url}: Address already in use"
    ]


async def test_descriptors_that_were_inherited_do_not_reach_children() -> None:
    """Lost: isolation from whoever started the server."""
    leak = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leak, True)
    with program(close_fds=False) as server:
        os.close(leak)
        async with session(server.url) as client:
            assert (await client.run("ls", "/bin/ls", "/proc/self/fd")).stdout.split() == [b"0", b"1", b"2", b"3"]


async def test_closed_standard_descriptors_do_no_harm() -> None:
    """Lost: the first socket, where 0 and 2 are closed and it got such a number."""
    with program(prefix=["sh", "-c", 'exec "$@" <&- 2>&-', "sh"]) as server:
        async with session(server.url) as client:
            assert (await client.run("echo", "/bin/echo", "hi")).stdout == b"hi\n"
            assert (await client.run("tty", "/bin/echo", "hi", tty=True)).pty == b"hi\r\n"


async def test_signals_that_the_server_was_told_to_ignore_are_not_ignored_by_children() -> None:
    """Lost: ^C under nohup and in background shells (openai-agents-python#3074)."""
    with program(prefix=["sh", "-c", "trap '' INT HUP QUIT PIPE USR1; exec \"$@\"", "sh"]) as server:
        async with session(server.url) as client:
            for tty in (False, True):
                sleep = await client.start(f"sleep{tty}", "/bin/sleep", "1000", tty=tty)
                await sleep.signal()
                assert (await sleep.closed()).signal == "SIGINT"


async def test_child_limits_are_those_that_the_server_was_started_with() -> None:
    """Lost: programs that use select(2), which a large soft limit breaks."""
    with program(prefix=["prlimit", "--nofile=123:4000"]) as server:
        async with session(server.url) as client:
            # The soft limit is put back right after the start, which a busy machine may delay.
            script = "until [ $(ulimit -Sn) = 123 ]; do sleep 0.01; done; ulimit -Sn; ulimit -Hn; ulimit -Sc"
            assert (await client.run("sh", "/bin/sh", "-c", script)).stdout == b"123\n4000\n0\n"


async def exhaust(client: Client, tty: bool, most: int) -> RpcError:
    """Start sleeps until one cannot be started; the error."""
    for n in range(most):
        try:
            await client.start(f"sleep{n}", "/bin/sleep", "1000", tty=tty)
        except RpcError as error:
            return error
    raise AssertionError(f"{most} processes were started")


async def check_exhaustion(server: Program, tty: bool, reasons: Sequence[str], most: int = 100) -> None:
    """A resource runs out: a clear error, the id is free, nothing leaks, and all is well once it is there again."""
    async with session(server.url) as client:
        for n in range(3):  # what is loaded once is loaded then
            await client.run(f"first{n}", "/bin/true", tty=tty)
        await eventually(lambda: not server.zombies(), "all are reaped")
        before = server.load()
        for round_ in range(3):
            error = await exhaust(client, tty, most)
            assert (error.code, error.data["kind"]) == (-32603, "resourceExhausted"), str(error)
            assert error.data["reason"] in reasons, str(error)
            sleeps = [each for each in client.processes.values() if each.id.startswith("sleep")]
            full = server.load()
            for _ in range(5):
                error = await expect_error(client.start(f"sleep{len(sleeps)}", "/bin/sleep", "1000", tty=tty))
                assert error.data.get("kind") == "resourceExhausted", str(error)
            await server.falls_to(full)
            for process in sleeps:
                await process.terminate()
                assert (await process.closed()).code == 137
                del client.processes[process.id]
            await server.falls_to(before)
            assert (await client.run(f"after{round_}", "/bin/echo", "well", tty=tty)).code == 0


@pytest.mark.parametrize("tty", [False, True])
async def test_no_descriptors_left(tty: bool) -> None:
    """Lost: a server that survives the limit of open files."""
    with program("--process-retention", "0", prefix=["prlimit", "--nofile=64:64"]) as server:
        await check_exhaustion(server, tty, ["descriptors", "terminal"])


def can_mount() -> bool:
    return subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="needs the right to mount a file system of terminals of its own")
async def test_no_terminals_left() -> None:
    """Lost: a clear error where the machine has no PTY left."""
    script = (
        "mount -t devpts -o newinstance,ptmxmode=0666,max=8 devpts /dev/pts && mount --bind /dev/pts/ptmx /dev/ptmx"
        ' && exec "$@"'
    )
    with program("--process-retention", "0", prefix=["unshare", "-m", "sh", "-c", script, "sh"]) as server:
        await check_exhaustion(server, True, ["terminal"])


@pytest.mark.skipif(not can_mount(), reason="needs the right to mount")
async def test_a_machine_without_a_writable_temporary_folder() -> None:
    """Lost: containers that are read-only."""
    read_only = "mount --bind $each $each && mount -o remount,ro,bind $each"
    script = f'for each in /tmp /var/tmp; do {read_only}; done; cd /proc; exec "$@"'
    prefix = ["env", "-u", "TMPDIR", f"PYTHONPATH={ROOT}", "unshare", "-m", "sh", "-c", script, "sh"]
    with program(prefix=prefix) as server:
        async with session(server.url) as client:
            assert (await client.call("environment/info"))["tempDir"] == "file:///tmp"
            assert (await client.run("echo", "/bin/echo", "hi")).stdout == b"hi\n"


def with_few_processes() -> list[str]:
    """A `prefix` for a server whose user may have twenty processes and threads."""
    uid = 100_000 + os.getpid()  # the limit counts all processes of a user: nobody else may be this one
    prefix = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    return [
        *prefix,
        "--inh-caps=-all,+dac_read_search",
        "--ambient-caps=-all,+dac_read_search",
        "prlimit",
        "--nproc=20",
    ]


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to run a server as a user without processes")


@needs_root
async def test_no_processes_left() -> None:
    """Lost: a clear error where the user may have no more processes (EAGAIN)."""
    with program("--process-retention", "0", prefix=with_few_processes()) as server:
        await check_exhaustion(server, False, ["processes", "threads"])


@needs_root
async def test_the_log_needs_no_process_that_is_not_there(tmp_path: Path) -> None:
    """Lost: a connection, to a line of the log: the first one needed a thread, and there was none."""
    flags = ("--log-level", "info")
    with (tmp_path / "log").open("wb") as log, program(*flags, prefix=with_few_processes(), stderr=log) as server:
        async with session(server.url) as client, connected(server.url) as rude:
            await exhaust(client, False, 100)
            await rude.notify("initialized")  # before initialize, which closes the connection, and is logged
            await rude.lost.wait()
            assert isinstance(rude.link, WebSocketLink) and rude.link.socket.close_code == 1008
            assert (await client.call("environment/status"))["status"] == "ready"
    assert "initialized notification before initialize" in (tmp_path / "log").read_text()


async def test_connections_beyond_the_descriptors_wait() -> None:
    """Lost: a server that spins or dies when it cannot accept; who waits is served once there is room."""
    with program(prefix=["prlimit", "--nofile=64:64"]) as server:
        waiting = [asyncio.create_task(open_session(server.url)) for _ in range(60)]
        try:
            await eventually(lambda: sum(task.done() for task in waiting) >= 40, "most are served")
            first = [task for task in waiting if task.done()][:30]
            for task in first:
                await task.result().close()
            done, _ = await asyncio.wait(waiting, timeout=PATIENCE_S)
            assert len(done) == 60
            late = next(task.result() for task in reversed(waiting) if task not in first)
            assert (await late.run("true", "/bin/true")).code == 0
        finally:
            for task in waiting:
                task.cancel()
            for task in waiting:
                if task.done() and not task.cancelled():
                    await task.result().close()


async def open_session(url: str) -> Client:
    from websockets.asyncio.client import connect

    from tests.support.client import WebSocketLink

    client = Client(WebSocketLink(await connect(url, compression=None, proxy=None, open_timeout=None)))
    await client.initialize()
    return client
