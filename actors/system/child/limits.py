"""Limits of one command that are in force before its program runs.

`posix_spawn` cannot set resource limits, so a limited command starts through a shim: a bare Python that sets them on
itself, enters its cgroup, and becomes the program. It costs some 15 ms, of limited commands alone.

CPU time, open files and file sizes are resource limits (setrlimit(2)) of each process. Memory and the number of
processes are bounded for the command as a whole, which only a cgroup v2 of its own can do: where the controllers are
not delegated to the server, such a limit is refused.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import resource
import sys
from pathlib import Path
from typing import Final

import msgspec

from actors.system.child.cgroup import current_cgroup
from protocol.errors import InvalidParams

log = logging.getLogger(__name__)

_numbers = itertools.count(1)

_SHIM: Final = """\
import json, os, resource, sys
limits, group, program = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
try:
    for number, value in limits:
        resource.setrlimit(number, (value, value))
    if group:
        with open(group + "/cgroup.procs", "w") as procs:
            procs.write("0")
    with open("/proc/self/environ", "rb") as environ:
        items = environ.read().split(b"\\0")
    os.execve(program, sys.argv[4:], dict(item.split(b"=", 1) for item in items if b"=" in item))
except Exception as error:
    print("exec-server: the limits of this command could not be set:", error, file=sys.stderr)
    os._exit(126)
"""


class Limits(msgspec.Struct, frozen=True, gc=False):
    """What a command may use; None is without a limit of its own."""

    cpu_seconds: int | None = None
    open_files: int | None = None
    file_size_bytes: int | None = None
    memory_bytes: int | None = None
    processes: int | None = None

    def check(self) -> None:
        """Raises InvalidParams for a limit above the server's hard one, or one that nothing here can enforce."""
        for name, number, value in self._resources():
            hard = resource.getrlimit(number)[1]
            if hard != resource.RLIM_INFINITY and value > hard:
                raise InvalidParams(f"`limits.{name}`: {value} is above the hard limit of {hard}")
        for name, controller in (("memoryBytes", "memory"), ("processes", "pids")):
            wanted = self.memory_bytes if controller == "memory" else self.processes
            if wanted is not None and controller not in _delegated_controllers():
                text = (
                    f"`limits.{name}` needs the {controller} controller of a cgroup v2 that is delegated to the server"
                )
                raise InvalidParams(text, {"kind": "limitUnsupported"})

    def make_group(self) -> Path | None:
        """A cgroup for the command, where one of its limits needs that. Raises OSError."""
        if self.memory_bytes is None and self.processes is None:
            return None
        parent = _parent_group()
        if parent is None:
            raise FileNotFoundError(0, "the delegated cgroup is gone")
        group = parent / f"exec-server-{os.getpid()}-command-{next(_numbers)}"
        group.mkdir()
        try:
            if self.memory_bytes is not None:
                (group / "memory.max").write_text(str(self.memory_bytes))
            if self.processes is not None:
                (group / "pids.max").write_text(str(self.processes))
        except OSError:
            group.rmdir()
            raise
        return group

    def wrapped(self, program: bytes, argv: list[bytes], group: Path | None) -> tuple[bytes, list[bytes]]:
        """The program and argv of the shim that becomes `program`."""
        numbers = json.dumps([[number, value] for _, number, value in self._resources()])
        python = os.fsencode(sys.executable)
        shim = [python, b"-I", b"-S", b"-c", _SHIM.encode(), numbers.encode(), os.fsencode(group or ""), program]
        return python, shim + argv

    def _resources(self) -> list[tuple[str, int, int]]:
        known = (
            ("cpuSeconds", resource.RLIMIT_CPU, self.cpu_seconds),
            ("openFiles", resource.RLIMIT_NOFILE, self.open_files),
            ("fileSizeBytes", resource.RLIMIT_FSIZE, self.file_size_bytes),
        )
        return [(name, number, value) for name, number, value in known if value is not None]


def remove_group(group: Path | None) -> None:
    """Remove the cgroup of a command that is over; one that a background job is still in stays."""
    if group is not None:
        try:
            group.rmdir()
        except OSError as error:
            log.info("the cgroup %s stays: %s", group, error.strerror)


def _parent_group() -> Path | None:
    """The delegated group: the one that the server was started in, of which its own leaf is a part."""
    group = current_cgroup()
    if isinstance(group, str):
        return None
    return group.parent if group.name.startswith("exec-server-") else group


def _delegated_controllers() -> set[str]:
    """The controllers that groups beside the server's leaf can have; enables them where that is possible."""
    parent = _parent_group()
    if parent is None:
        return set()
    try:
        offered = set((parent / "cgroup.controllers").read_text().split()) & {"memory", "pids"}
        enabled = set((parent / "cgroup.subtree_control").read_text().split())
        if missing := offered - enabled:
            (parent / "cgroup.subtree_control").write_text(" ".join(f"+{each}" for each in sorted(missing)))
    except OSError:
        return set()
    return offered
