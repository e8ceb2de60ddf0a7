"""A machine that has nothing left: processes, disk, descriptors. The server says so, goes on, and recovers."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.client import PATIENCE_S, Client, RpcError, connected, expect_error, session
from tests.support.program import Program, dial, eventually, program
from tests.support.web import web_server
from tests.transport.support import UPGRADE

pytestmark = pytest.mark.anyio

BOMB = """
import os, sys, time
print("ready", flush=True)
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.05)
"""
PROCESSES = 120
"""What the bomb and the server may have together."""


async def first_refusal(client: Client) -> RpcError:
    """Start one command after the other until there is no process left for it."""
    async with asyncio.timeout(PATIENCE_S):
        for number in itertools.count():
            try:
                await client.run(f"c{number}", "/bin/echo", "hi")
            except RpcError as error:
                return error
    raise AssertionError


def of_user(uid: int) -> list[int]:
    """Processes and zombies of a user."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(FileNotFoundError, ProcessLookupError):
            if os.stat(f"/proc/{name}").st_uid == uid:
                found.append(int(name))
    return found


async def all_gone(uid: int) -> None:
    """Wait until a user has no process any more."""
    try:
        await eventually(lambda: not of_user(uid), "")
    except AssertionError:
        listed = subprocess.run(["ps", "-U", str(uid), "-o", "pid,ppid,sid,stat,etimes,args"], capture_output=True)
        raise AssertionError(f"still there:\n{listed.stdout.decode()[:3000]}") from None


@contextmanager
def server_of_a_user() -> Iterator[tuple[Program, int]]:
    """A server whose user may have few processes, and that user."""
    uid = 200_000 + os.getpid()  # the limit counts all processes of a user
    prefix = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    prefix += ["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]
    prefix += ["prlimit", f"--nproc={PROCESSES}:{PROCESSES}", "--cpu=60:60"]
    flags = ("--allow-other-users", "--session-ttl", "0", "--process-retention", "0")
    try:
        with program(*flags, prefix=prefix) as server:
            yield server, uid
    finally:
        subprocess.run(["pkill", "-KILL", "-U", str(uid)])  # whatever the test says, the machine goes on


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to run a server as a user that nobody else is")


@needs_root
async def test_a_fork_bomb_leaves_the_server_responsive() -> None:
    """Lost: the server of all, to the recursion of one; and the machine after it."""
    with server_of_a_user() as (server, uid):
        async with session(server.url) as client, session(server.url) as other:
            bomb = await client.start("bomb", "/usr/bin/env", "python3", "-c", BOMB)
            await bomb.shows(b"ready")
            error = await first_refusal(other)
            assert error.code == -32603 and error.data["kind"] == "resourceExhausted", error
            assert (await other.call("environment/status"))["status"]
            assert await bomb.terminate()
            await bomb.closed()
            await eventually(lambda: len(of_user(uid)) < 10, "all of it is gone")
            assert (await other.run("room", "/bin/echo", "hi")).stdout == b"hi\n"
        server.stop()
        assert not of_user(uid)


@needs_root
async def test_a_killed_server_takes_a_fork_bomb_along() -> None:
    """Lost: the machine, to a bomb that nobody is left to end, since it leaves no process to end it with."""
    with server_of_a_user() as (server, uid):
        async with connected(server.url) as client:
            await client.initialize()
            bomb = await client.start("bomb", "/usr/bin/env", "python3", "-c", BOMB)
            await bomb.shows(b"ready")
            await first_refusal(client)
            await asyncio.to_thread(server.stop, signal.SIGKILL)
            await all_gone(uid)


def can_mount() -> bool:
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="needs the right to mount a small file system")
async def test_a_full_disk_costs_what_it_must_and_no_more(tmp_path: Path) -> None:
    """Lost: processes and sessions, where only a file, a recording and the audit log, and with them new starts, have
    no room.
    """
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=256k none "$1" && shift && exec "$@"', "sh"]
    flags = ("--audit", f"{disk}/audit", "--record", str(disk), "--audit-argv", "yes")
    with (
        open(tmp_path / "log", "wb") as log,
        program(*flags, prefix=[*mount, str(disk)], stderr=log) as server,
    ):
        seen = Path(f"/proc/{server.pid}/root{disk}")
        async with session(server.url) as client:
            process = await client.shell("p", "while read line; do echo $line; done", tty=True)
            await process.write(b"before\n")
            await process.shows(b"before\r\nbefore\r\n")
            await client.call("fs/writeFile", path=f"{disk}/small", dataBase64="aGk=")
            error = await expect_error(
                client.call("fs/writeFile", path=f"{disk}/large", dataBase64="A" * (1 << 20)),
            )
            assert error.data["kind"] == "storageFull", error
            assert not any("large" in name for name in os.listdir(seen)), "half a file is left"
            await fill(seen / "filler")
            error = await expect_error(client.call("fs/writeFile", path=f"{disk}/small", dataBase64="A" * 8192))
            assert error.data["kind"] == "storageFull"
            assert (seen / "small").read_bytes() == b"hi", "what was there before is gone"
            for number in range(40):
                await process.write(b"x" * 200 + b"%d\n" % number)
            await process.shows(b"x39\r\n")
            refused = await expect_error(client.shell("q", "true", tty=True))
            assert refused.data["kind"] == "recordFailed"
            for process_id in ("r", "again"):  # before the second is refused, the line that the first failed is lost
                refused = await expect_error(client.start(process_id, "/bin/echo", "x" * 100_000))
                assert refused.data["kind"] == "notAudited"
            await eventually(lambda: "lines of the audit log" in (tmp_path / "log").read_text(), "lines are lost")
            (seen / "filler").unlink()
            await client.call("fs/writeFile", path=f"{disk}/again", dataBase64="aGk=")
            assert (await client.run("s", "/bin/echo", "tty", tty=True)).pty == b"tty\r\n"
            await eventually(lambda: b'"lost"' in (seen / "audit").read_bytes(), "lost lines are counted")
        for path in seen.glob("*.cast"):
            assert all(json.loads(line) for line in path.read_text().splitlines()), f"{path} has a torn line"
        assert all(json.loads(line) for line in (seen / "audit").read_text().splitlines())


async def fill(path: Path) -> None:
    """Take all the room that is left."""
    with open(path, "wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(512))


async def test_without_a_descriptor_everything_says_so_and_works_again_later(tmp_path: Path) -> None:
    """Lost: the server, or what it told its clients, at the limit of open files."""
    (tmp_path / "file").write_bytes(b"content")
    few = ["prlimit", "--nofile=64:64"]
    with program("--process-retention", "0", "--session-ttl", "0", prefix=few) as server:
        async with web_server() as web, web_server() as unknown, session(server.url) as client:
            pages = [web.url("/hello")]
            attempts: dict[str, Callable[[], Awaitable[Any]]] = {
                "read": lambda: client.call("fs/readFile", path=str(tmp_path / "file")),
                "write": lambda: client.call("fs/writeFile", path=str(tmp_path / "new"), dataBase64="aGk="),
                "http": lambda: client.request(pages[-1]),
                "pipes": lambda: client.run("pipes", "/bin/true"),
                "tty": lambda: client.run("tty", "/bin/true", tty=True),
            }
            for attempt in attempts.values():
                await attempt()
            pages.append(unknown.url("/hello"))  # to which no connection is kept
            before = len(server.descriptors())
            with ExitStack() as held:
                for _ in range(100):  # those that are not accepted wait
                    held.enter_context(dial(server)).sendall(UPGRADE)
                await eventually(lambda: len(server.descriptors()) == 64, "none is left")
                for name, attempt in attempts.items():
                    error = await expect_error(attempt())
                    kind = "httpConnectFailed" if name == "http" else "resourceExhausted"
                    assert (name, error.code, error.data.get("kind")) == (name, -32603, kind), error
                    assert kind == "resourceExhausted" or "Too many open files" in error.message
                walked = await client.call("fs/walk", path=str(tmp_path), options=WALK)
                assert "Too many open files" in walked["errors"][0]["message"]
                assert (await client.call("environment/status"))["status"]
            await eventually(lambda: len(server.descriptors()) <= before, "they are back")
            for attempt in attempts.values():
                await attempt()


WALK = {"maxDepth": 2, "maxDirectories": 9, "maxEntries": 9, "followDirectorySymlinks": False}


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_ten_thousand_short_commands_leave_nothing(figures: Callable[[str, list[str]], None]) -> None:
    """Lost: the server, after some days of an agent's work."""
    with program("--process-retention", "0", "--session-ttl", "1") as server:

        async def some(url: str, first: int, count: int) -> None:
            async with session(url) as client:
                for number in range(first, first + count):
                    ended = await client.run(f"c{number}", "/bin/echo", str(number), tty=number % 5 == 0)
                    assert (ended.stdout or ended.pty).split() == [b"%d" % number]
                    del client.processes[f"c{number}"]

        async def together(count: int) -> None:
            await asyncio.gather(*(some(server.url, n * count, count) for n in range(20)))

        async with session(server.url):
            before = server.load()
        await together(20)
        await server.falls_to(before)
        memory = server.rss()
        await together(500)
        await server.falls_to(before)
        grown = server.rss() - memory
        assert grown < 16 << 20
    now = f"memory {memory / 2**20:.1f} -> {(memory + grown) / 2**20:.1f} MiB, descriptors, threads, children {before}"
    figures("10,000 commands over 20 connections", [now])
