"""How the server ends: drained, asked, forced, hurried; as process 1; under systemd."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.client import PATIENCE_S, connected, expect_error, session
from tests.support.program import (
    ROOT,
    Program,
    alive,
    command,
    eventually,
    launched,
    marker,
    program,
    running,
    state_of,
)

pytestmark = pytest.mark.anyio

WAIT = "echo ready; while :; do sleep 0.05; done"
LONG = ("--grace", "1000")


async def begin_to_stop(server: Program) -> None:
    """SIGTERM, and wait until nobody is let in any more."""
    server.popen.send_signal(signal.SIGTERM)
    host, port = server.url.removeprefix("ws://").rsplit(":", 1)

    def refused() -> bool:
        with socket.socket() as sock:
            return sock.connect_ex((host, int(port))) != 0

    await eventually(refused, "the port is closed")


async def exit_status(server: Program) -> int:
    return await asyncio.to_thread(server.wait)


async def test_what_ends_in_time_ends_by_itself() -> None:
    """Lost: the last lines of a build, because the server was restarted."""
    with program(*LONG) as server:
        async with session(server.url) as client:
            sleeper = await client.start("p", "/bin/sh", "-c", "read line; echo done $line; exit 3", pipeStdin=True)
            await begin_to_stop(server)
            await sleeper.write(b"well\n")
            await sleeper.shows(b"done well\n")
            end = await sleeper.closed()
            assert (end.code, end.reason) == (3, "exited")
            assert await exit_status(server) == 0
            assert client.link.socket.close_code == 1001


async def test_nothing_new_begins_while_the_server_ends() -> None:
    """Lost: an end to the end."""
    with program(*LONG) as server:
        async with session(server.url) as client, connected(server.url) as late:
            sleeper = await client.start("p", "/bin/sleep", "1000")
            await begin_to_stop(server)
            error = await expect_error(client.start("q", "/bin/true"))
            assert (error.code, error.data) == (-32603, {"kind": "shuttingDown"})
            assert "shutting down" in str(await expect_error(late.initialize()))
            await sleeper.terminate()
            assert await exit_status(server) == 0


@pytest.mark.parametrize("tty", [False, True])
async def test_what_takes_longer_is_asked_then_forced(tty: bool) -> None:
    """Lost: a chance to put things in order; or an end, to those who ignore it."""
    with program("--grace", "0.1") as server:
        async with session(server.url) as client:
            polite = await client.shell("polite", "trap 'echo bye; exit 7' TERM HUP; " + WAIT, tty=tty)
            rude = await client.shell("rude", "trap '' TERM HUP; " + WAIT, tty=tty)
            for each in (polite, rude):
                await each.shows(b"ready")
            server.popen.send_signal(signal.SIGTERM)
            await polite.shows(b"bye")
            polite_end, rude_end = await polite.closed(), await rude.closed()
            assert (polite_end.code, polite_end.reason) == (7, "sessionEnded")
            assert (rude_end.signal, rude_end.reason) == ("SIGKILL", "sessionEnded")
            assert await exit_status(server) == 0


async def test_background_jobs_that_hold_the_output_end_too() -> None:
    """Lost: the end of a process, to whoever waits for it while the server ends."""
    with program("--grace", "0.1") as server:
        async with session(server.url) as client:
            process = await client.shell("p", "sleep 1000 & echo ready")
            await process.shows(b"ready")
            server.popen.send_signal(signal.SIGTERM)
            assert (await process.closed()).reason == "exited"
            assert await exit_status(server) == 0


async def test_a_second_signal_hurries() -> None:
    """Lost: a way out for who cannot wait."""
    with program(*LONG) as server:
        async with session(server.url) as client:
            await client.start("p", "/bin/sleep", "1000")
            await begin_to_stop(server)
            server.popen.send_signal(signal.SIGINT)
            assert await exit_status(server) == 0


async def test_the_end_of_its_terminal_ends_the_server() -> None:
    """Lost: a clean machine after somebody has closed a window; SIGHUP reloads only where there is no terminal."""
    mark = marker()
    master, slave = os.openpty()
    argv = command("--listen", "ws://127.0.0.1:0", "--grace", "0")
    with launched(argv, stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        os.close(slave)
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        async with session(url) as client:
            await client.start("p", "/bin/sleep", mark)
            process.send_signal(signal.SIGHUP)
            assert await asyncio.to_thread(process.wait, PATIENCE_S) == 0
        assert not running(mark)
    os.close(master)


@pytest.mark.parametrize("grace", ["0", "0.1"])
@pytest.mark.parametrize("script", ["yes", "yes | head -c 30000000"])
async def test_a_client_that_does_not_read_delays_little(grace: str, script: str) -> None:
    """Lost: the stop timeout of a service manager, to one client that reads nothing, and to what it left running."""
    code = (
        "import sys, exec_server.server.server as s, transport.base as t\n"
        "from exec_server.server import program\n"
        "s.TERM_S = s.LAST_REAP_S = s.GOODBYE_S = t.FLUSH_SECONDS = program.AFTER_GRACE_S = 1000.0\n"
        f"sys.exit(program.serve(['--listen', 'ws://127.0.0.1:0', '--grace', '{grace}']))\n"
    )
    argv = [sys.executable, "-c", code]
    with launched(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        async with session(url) as client:
            flood = await client.start("p", "/bin/sh", "-c", script)
            await flood.shows(b"y")
            client.link.socket.transport.pause_reading()
            process.terminate()
            assert await asyncio.to_thread(process.wait, PATIENCE_S) == 0
            client.link.socket.transport.abort()


async def test_a_loop_that_hangs_does_not_keep_the_process() -> None:
    """Lost: an end, if the server itself is at fault; and a clean machine after it."""
    mark = marker()
    code = (
        "import sys, time, exec_server.server.server as s\n"
        "from exec_server.server import program\n"
        "async def hang(self): time.sleep(1000)\n"
        "s.Server.stop = hang\n"
        "program.AFTER_GRACE_S = 1.0\n"
        "sys.exit(program.serve(['--listen', 'ws://127.0.0.1:0', '--grace', '0']))\n"
    )
    argv = [sys.executable, "-c", code]
    with launched(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        url = process.stdout.readline().decode().strip()
        async with session(url) as client:
            await client.start("p", "/bin/sleep", mark)
            process.terminate()
            assert await asyncio.to_thread(process.wait, PATIENCE_S) == 0
            assert b"leaving" in await asyncio.to_thread(process.stderr.read)
            await eventually(lambda: not running(mark), "the guardian has ended it", 5.0)


def can_unshare() -> bool:
    argv = ["unshare", "--pid", "--fork", "--mount-proc", "true"]
    return subprocess.run(argv, capture_output=True).returncode == 0


@pytest.mark.skipif(not can_unshare(), reason="needs the right to make a PID namespace")
async def test_process_1_of_a_container() -> None:
    """Lost: the table of processes, to zombies that nobody reaps; and the way to stop the container."""
    prefix = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    with program("--grace", "0", prefix=prefix) as outer:
        inner = Program(outer.popen)
        inner.pid = outer.children()[0]
        async with session(outer.url) as client:
            assert (await client.run("pid", "/bin/sh", "-c", "echo $PPID")).stdout == b"1\n"
            before = len(inner.children())
            orphans = "for i in 1 2 3 4 5; do (sh -c 'sleep 0.05 & setsid sleep 0.05 &' &); done"
            await client.run("orphans", "/bin/sh", "-c", orphans)
            await eventually(lambda: len(inner.children()) == before and not inner.zombies(), "orphans are reaped")
            await client.start("left", "/bin/sh", "-c", "setsid sleep 1000 & exec sleep 1000")
            left = list(inner.children())
            os.kill(inner.pid, signal.SIGTERM)
            assert await exit_status(outer) == 0
            assert not any(alive(pid) for pid in left)
            assert state_of(inner.pid) is None


class Manager:
    """Stands where systemd stands: a socket that is told of the server's life."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.socket.settimeout(PATIENCE_S)

    def hears(self, wanted: str) -> str:
        """Wait for a message that begins so."""
        while True:
            message = self.socket.recv(4096).decode()
            if message.startswith(wanted):
                return message


async def test_systemd_is_told(tmp_path: Path) -> None:
    """Lost: services that start too early, and a server that hangs for ever."""
    path = str(tmp_path / "notify")
    manager = Manager(path)
    watched = {"WATCHDOG_USEC": "200000", "NOTIFY_SOCKET": path}
    with program("--grace", "0", env={**os.environ, **watched}) as server:
        assert f"STATUS=serving {server.url}" in await asyncio.to_thread(manager.hears, "READY=1")
        for _ in range(3):
            await asyncio.to_thread(manager.hears, "WATCHDOG=1")
        server.popen.send_signal(signal.SIGHUP)
        reloading = await asyncio.to_thread(manager.hears, "RELOADING=1")
        assert re.search(r"MONOTONIC_USEC=\d+", reloading)
        await asyncio.to_thread(manager.hears, "READY=1")
        async with session(server.url) as client:
            policy = {"inherit": "all", "ignoreDefaultExcludes": True, "exclude": [], "set": {}, "includeOnly": []}
            shown = await client.run("env", "/usr/bin/env", env={}, envPolicy=policy)
            assert b"NOTIFY_SOCKET" not in shown.stdout and b"WATCHDOG" not in shown.stdout
        server.popen.send_signal(signal.SIGTERM)
        assert "EXTEND_TIMEOUT_USEC=6000000" in await asyncio.to_thread(manager.hears, "STOPPING=1")
        assert await exit_status(server) == 0
    manager.socket.close()


async def test_a_watchdog_of_another_process_is_left_alone(tmp_path: Path) -> None:
    """Lost: nothing; but signs of life from the wrong process hide that the right one hangs."""
    from exec_server.server.systemd import Notifier

    path = str(tmp_path / "notify")
    manager = Manager(path)
    notifier = Notifier({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1000", "WATCHDOG_PID": str(os.getpid() + 1)})
    notifier.ready("x")
    notifier.stopping(1)
    assert manager.socket.recv(99).startswith(b"READY=1")
    assert manager.socket.recv(99).startswith(b"STOPPING=1"), "no sign of life in between"
    manager.socket.close()
    Notifier({"NOTIFY_SOCKET": path}).ready("x")  # nobody listens: a warning, and no more
    Notifier({"NOTIFY_SOCKET": "vsock:2:1"}).ready("x")


ACTIVATE = """
import os, socket, sys
kind, pid = sys.argv[1:3]
if kind == "tcp":
    sock = socket.create_server(("127.0.0.1", 0))
elif kind == "network":
    sock = socket.create_server(("0.0.0.0", 0))
elif kind == "unix":
    sock = socket.socket(socket.AF_UNIX); sock.bind(sys.argv[3]); sock.listen()
elif kind == "udp":
    sock = socket.socket(type=socket.SOCK_DGRAM); sock.bind(("127.0.0.1", 0))
else:
    sock = open("/dev/null")
os.dup2(sock.fileno(), 3)
os.set_inheritable(3, True)
os.environ["LISTEN_PID"] = str(os.getpid()) if pid == "right" else "1"
os.environ["LISTEN_FDS"] = "2" if pid == "two" else "1"
os.environ["LISTEN_PID"] = str(os.getpid()) if pid == "two" else os.environ["LISTEN_PID"]
argv = [sys.executable, "-m", "exec_server", "--listen", "systemd:"]
os.execv(argv[0], argv)
"""


def activated(kind: str, pid: str = "right", path: str = "") -> list[str]:
    return [sys.executable, "-c", ACTIVATE, kind, pid, path]


@pytest.mark.parametrize("kind", ["tcp", "unix"])
async def test_a_socket_that_systemd_has_opened(tmp_path: Path, kind: str) -> None:
    """Lost: connections while the server is restarted."""
    path = str(tmp_path / "s")
    argv = activated(kind, path=path)
    with launched(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        assert url == f"unix://{path}" if kind == "unix" else url.startswith("ws://127.0.0.1:")
        options = {"path": path, "unix": True} if kind == "unix" else {}
        async with session("ws://localhost" if options else url, **options) as client:
            policy = {"inherit": "all", "ignoreDefaultExcludes": True, "exclude": [], "set": {}, "includeOnly": []}
            script = "env; ls /proc/self/fd"
            shown = await client.run("env", "/bin/sh", "-c", script, env={"PATH": "/bin:/usr/bin"}, envPolicy=policy)
            assert b"LISTEN_" not in shown.stdout and shown.stdout.split()[-4:] == [b"0", b"1", b"2", b"3"]
        process.terminate()
        assert await asyncio.to_thread(process.wait, PATIENCE_S) == 0
    assert kind == "tcp" or os.path.exists(path), "the file is systemd's"


@pytest.mark.parametrize(
    ("kind", "pid", "said"),
    [
        ("tcp", "wrong", "no socket was handed to this process (LISTEN_PID)"),
        ("tcp", "two", "takes one socket, and 2 were handed over"),
        ("udp", "right", "does not listen for streams"),
        ("file", "right", "descriptor 3 is no socket"),
        ("network", "right", "--allow-unauthenticated"),
    ],
)
def test_sockets_that_are_not_taken(kind: str, pid: str, said: str) -> None:
    """Lost: the rules about who may connect, by way of a socket that somebody else has opened."""
    done = subprocess.run(activated(kind, pid), cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_units_are_understood(tmp_path: Path) -> None:
    """Lost: an evening, to a misspelt key that systemd ignores."""
    for name in ("exec-server.service", "exec-server.socket"):
        text = (ROOT / "deploy" / name).read_text().replace("/usr/local/bin/exec-server", "/bin/true")
        (tmp_path / name).write_text(text)
    argv = ["systemd-analyze", "verify", "--man=no", *map(str, sorted(tmp_path.glob("exec-server.*")))]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S)
    complaints = [line for line in done.stderr.splitlines() if "exec-server." in line]
    assert complaints == [], done.stderr
