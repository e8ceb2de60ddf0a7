"""Descriptors 0 to 2, whatever they are: closed, full, a pipe without a reader."""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress


def fill_standard_fds() -> None:
    """Have descriptors 0 to 2 open, so that no file or socket gets their numbers, and `sys.stdout` and `sys.stderr` be
    streams. Call it before anything is opened. A closed input is one at its end; writing fails as it did, with EBADF.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            opened = os.open(os.devnull, os.O_RDONLY)  # the lowest number that is free
            assert opened == fd
            os.set_inheritable(fd, True)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115


def say(fd: int, line: str) -> None:
    """A line on stdout or stderr, if it can be written: who serves goes on where nobody listens."""
    with suppress(OSError):
        write_all(fd, f"{line}\n".encode(errors="backslashreplace"))


def write_all(fd: int, data: bytes) -> None:
    """Write all of it, also to what somebody made non-blocking. Raises OSError."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            poll = select.poll()
            poll.register(fd, select.POLLOUT)
            poll.poll()


def discard_stdout() -> None:
    """Have stdout lead nowhere from now on. What Python still holds for it would fail once more when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
