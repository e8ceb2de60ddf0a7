"""The server program as a subprocess, and what /proc tells of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from operator import le
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from actors.system.pool import FILE_POOL, KILL_POOL, RECORDING_POOL, SANDBOX_POOL, START_POOL
from exec_server.server.logs import WRITER
from tests.support.client import PATIENCE_S, Client, StdioLink, StdioMapLink
from tests.support.encodings import ENCODINGS

ROOT = Path(__file__).parents[2]
LINE_LIMIT = 256 << 20
POOLS = (START_POOL, SANDBOX_POOL, KILL_POOL, RECORDING_POOL, FILE_POOL, WRITER)
POOLED = 1 + sum(pool.resting for pool in POOLS)
"""Threads that a server may have for good: the loop's and those of its pools."""


class Facts:
    """What /proc tells of one process; all of it changes at any time."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def descriptors(self) -> dict[int, str]:
        """Open descriptors and what they are."""
        found = {}
        for name in os.listdir(f"/proc/{self.pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # closed since
                found[int(name)] = os.readlink(f"/proc/{self.pid}/fd/{name}")
        return found

    def threads(self) -> int:
        """Threads of its own; the kernel's that work for it on io_uring come and go."""
        names = self._of_tasks("comm")
        return sum(not name.startswith("iou-") for name in names)

    def _of_tasks(self, file: str) -> list[str]:
        """What this file in /proc says of each thread."""
        found = []
        for task in os.listdir(f"/proc/{self.pid}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended since
                found.append(Path(f"/proc/{self.pid}/task/{task}/{file}").read_text())
        return found

    def threads_left(self) -> int:
        """Threads beyond those that the pools keep once they have been needed, 0 for none."""
        return max(0, self.threads() - POOLED)

    def rss(self) -> int:
        """Resident bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def children(self) -> list[int]:
        """Kernel children, zombies included."""
        return [int(pid) for pids in self._of_tasks("children") for pid in pids.split()]

    def load(self) -> tuple[int, int, int]:
        """Descriptors, threads beyond the pools', and children: what must be as before once all is over."""
        return len(self.descriptors()), self.threads_left(), len(self.children())

    async def falls_to(self, load: tuple[int, int, int]) -> None:
        """Wait until there are no more descriptors, threads and children than these."""
        try:
            await eventually(lambda: all(map(le, self.load(), load)), "", 15.0)
        except AssertionError:
            raise AssertionError(f"expected {load}, got {self.load()}: {self.descriptors()}") from None

    def zombies(self) -> list[int]:
        return [pid for pid in self.children() if state_of(pid) == "Z"]


class Program(Facts):
    """A server program that runs: see `program` and `stdio_program`."""

    def __init__(self, popen: subprocess.Popen[bytes], url: str = "") -> None:
        super().__init__(popen.pid)
        self.popen = popen
        self.url = url

    def wait(self) -> int:
        """The exit status, once it has ended."""
        return self.popen.wait(PATIENCE_S)

    def stop(self, signum: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; the exit status."""
        self.popen.send_signal(signum)
        return self.wait()


def command(*flags: str) -> list[str]:
    return [sys.executable, "-m", "exec_server", *flags]


@contextlib.contextmanager
def launched(argv: Sequence[str], **popen: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A subprocess that does not outlive the block, whatever happens."""
    with subprocess.Popen(argv, **{"cwd": ROOT, **popen}) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def powerless() -> list[str]:
    """A `prefix` for a server that the system denies what it denies to ordinary users, also where tests run as root."""
    return [] if os.geteuid() else ["setpriv", "--bounding-set=-all"]


@contextlib.contextmanager
def program(*flags: str, prefix: Sequence[str] = (), **popen: Any) -> Iterator[Program]:
    """A server on a free loopback port. At the end it must leave at SIGTERM with status 0, unless it has ended.

    `prefix` is put before the command: `sh -c 'ulimit -n 64; exec "$@"' sh`.
    """
    argv = [*prefix, *command("--listen", "ws://127.0.0.1:0", "--grace", "0", *flags)]
    with launched(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **popen) as process:
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        assert url.startswith("ws://127.0.0.1:"), f"the first line on stdout is {url!r}"
        try:
            yield Program(process, url)
        except Exception as error:
            error.add_note(f"the server's exit status so far: {process.poll()}")
            raise
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0


@contextlib.asynccontextmanager
async def stdio_pipes(
    *flags: str, **popen: Any
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, Program]]:
    """A server on stdio: what reads its stdout, what writes to its stdin, and the program."""
    loop = asyncio.get_running_loop()
    with launched(command(*flags), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, **popen) as process:
        reader = asyncio.StreamReader(limit=LINE_LIMIT)
        source, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
        sink, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), process.stdin
        )
        try:
            yield reader, asyncio.StreamWriter(sink, protocol, None, loop), Program(process)
        finally:
            sink.close()
            source.close()


@contextlib.asynccontextmanager
async def stdio_program(*flags: str, encoding: str = "json", **popen: Any) -> AsyncIterator[tuple[Client, Program]]:
    """A server on stdio with a client on the other ends of its pipes."""
    if encoding != "json":
        flags = (*flags, "--encoding", encoding)
    make_link = StdioLink if encoding == "json" else StdioMapLink
    async with stdio_pipes(*flags, **popen) as (reader, writer, program):
        client = Client(make_link(reader, writer), ENCODINGS[encoding])
        try:
            yield client, program
        finally:
            await client.close()


def state_of(pid: int) -> str | None:
    """The state letter of proc(5), None where there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return stat.rpartition(")")[2].split()[0]


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    return state_of(pid) not in (None, "Z", "X")


def running(marker: str) -> list[int]:
    """Processes with `marker` as one of their arguments; tests mark theirs with `sleep NUMBER`."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            argv = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if marker.encode() in argv and alive(int(name)):
            found.append(int(name))
    return found


_serial = iter(range(1_000_000))


def marker() -> str:
    """A number of seconds that no other test sleeps."""
    return f"{100_000 + os.getpid() % 100_000}.{next(_serial):06}"


async def eventually(holds: Callable[[], Any], what: str, seconds: float = PATIENCE_S) -> None:
    """Wait for a fact about another process, which tells nobody when it changes."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        await asyncio.sleep(0.005)


def dial(server: Program) -> socket.socket:
    """A bare TCP connection to its port."""
    address = urlsplit(server.url)
    return socket.create_connection((address.hostname, address.port), PATIENCE_S)
