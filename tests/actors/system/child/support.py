"""Real children for tests: start one, see it through to its end, and look at what is left of others."""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from actors.system.child import Child, ExitStatus
from actors.system.launch import LaunchRequest, launch

ROOT = Path(__file__).resolve().parents[4]
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
PATIENCE = 20.0
"""Seconds that a test waits for an event before it says that it did not happen."""


def request(*argv: str, cwd: str = "/tmp", env: dict[str, str] | None = None, **more: object) -> LaunchRequest:
    whole = ENV if env is None else env
    return LaunchRequest(argv=list(argv), cwd=cwd, env=whole, **more)  # type: ignore[arg-type]


def start(*argv: str, **more: object) -> Child:
    return launch(request(*argv, **more))  # type: ignore[arg-type]


def wait_exit(child: Child) -> ExitStatus:
    """Reap the child as soon as its pidfd says that it has exited."""
    assert readable(child.pidfd), f"{child.pid} did not exit"
    return child.reap()


def read_all(fd: int) -> bytes:
    """What comes until the end of the stream."""
    parts = []
    while True:
        assert readable(fd), f"no end of output after {b''.join(parts)!r}"
        try:
            data = os.read(fd, 65536)
        except OSError:  # EIO: the end of a terminal
            data = b""
        if not data:
            return b"".join(parts)
        parts.append(data)


def read_until(fd: int, marker: bytes) -> bytes:
    """What comes until `marker` has come."""
    data = b""
    while marker not in data:
        assert readable(fd), f"{marker!r} did not come, only {data!r}"
        part = os.read(fd, 65536)
        assert part, f"the output ended before {marker!r}: {data!r}"
        data += part
    return data


def run(*argv: str, **more: object) -> tuple[ExitStatus, bytes, bytes]:
    """Start, read everything, reap, release: how it ended, its stdout (or terminal) and stderr."""
    child = start(*argv, **more)
    if child.master is not None:
        out, err = read_all(child.master), b""
    else:
        assert child.stdout is not None and child.stderr is not None
        out, err = read_all(child.stdout), read_all(child.stderr)
    status = wait_exit(child)
    child.release()
    return status, out, err


def end(child: Child) -> None:
    """Kill the child with all that it started, reap and release it."""
    child.kill_tree()
    if child.unreaped:
        wait_exit(child)
    child.release()


def readable(fd: int, seconds: float = PATIENCE) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def ends(pid: int, seconds: float = PATIENCE) -> bool:
    """Whether the process ends within that time (or has ended)."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return readable(pidfd, seconds)
    finally:
        os.close(pidfd)


def alive(pid: int) -> bool:
    return not ends(pid, 0)


def descriptors() -> dict[int, str]:
    """The open descriptors of this process and what they are."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue  # the one that listed the directory
    return found


def eventually(condition: object, what: str) -> None:
    """Wait until `condition()` holds, for what gives no event to wait for."""
    deadline = time.monotonic() + PATIENCE
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, what
        select.select([], [], [], 0.005)


class HangingProgram:
    """A program whose exec hangs until `go_on`, as on a disk that has gone away; it can be looked at meanwhile.

    An open of a file that somebody has a write lease on waits for that one (fcntl(2), F_SETLEASE).
    """

    def __init__(self, path: Path) -> None:
        shutil.copy("/bin/true", path)
        self.path = str(path)
        self._fd = os.open(path, os.O_RDONLY)
        fcntl.fcntl(self._fd, F_SETSIG, signal.SIGURG)  # which is ignored; the default, SIGIO, would end this process
        fcntl.fcntl(self._fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)

    def go_on(self) -> None:
        os.close(self._fd)


F_SETSIG = 10

PRELUDE = """
import os, select, signal, sys, threading, time
from actors.system.child import descendants, proc, process_setup
from actors.system.child.guardian import Guardian
from actors.system.launch import LaunchRequest, launch, launch_at_once, launch_soon
from actors.system.child.table import CHILDREN
from tests.actors.system.child.support import *
def say(*words):
    print(*words, flush=True)
"""


def program(code: str, *args: str, **more: object) -> subprocess.Popen[str]:
    """A program of its own, as a server is one, that runs `code` after PRELUDE. Its output is a pipe."""
    return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-c", PRELUDE + code, *args],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **more,
    )


def output_of(code: str, *args: str, **more: object) -> list[str]:
    """The lines that such a program prints; it must succeed."""
    with program(code, *args, **more) as running:
        out, _ = running.communicate(timeout=PATIENCE * 2)
    assert running.returncode == 0, out
    return out.splitlines()
