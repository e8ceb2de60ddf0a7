"""The module `os`, for code that is to be killed, or to find the disk full, at one of its writes."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from harness.history import reading, storage

CHANGING = ("write", "pwrite", "ftruncate")


class Killed(BaseException):
    """The end of a program by SIGKILL: it makes no further system call."""


class CrashingOs:
    """`os`, killed before its change number `fatal`; None for never. `changes` counts them. A write that is listed in
    `full` takes half of its bytes, and the next finds the disk full; one in `short` takes one byte.
    """

    def __init__(self, fatal: int | None = None, full: int | None = None, short: bool = False) -> None:
        self.fatal = fatal
        self.full = full
        self.short = short
        self.changes = 0
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in CHANGING:
            return real

        def change(fd: int, *arguments: Any) -> Any:
            if self.dead or self.changes == self.fatal:
                self.dead = True
                raise Killed
            self.changes += 1
            if name != "ftruncate":
                arguments = self._taken(bytes(arguments[0])), *arguments[1:]
            return real(fd, *arguments)

        return change

    def _taken(self, data: bytes) -> bytes:
        if self.full is not None and self.changes - 1 == self.full + 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.full == self.changes - 1:
            return data[: max(1, len(data) // 2)]
        return data[:1] if self.short else data


@contextmanager
def running_on(fake: CrashingOs, block: int = 1 << 20) -> Iterator[CrashingOs]:
    """The history's own code, with this `os`, and copies in blocks of so many bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "os", fake)
        patch.setattr(storage, "BLOCK", block)
        patch.setattr(reading, "BLOCK", max(32, block // 2))
        yield fake
