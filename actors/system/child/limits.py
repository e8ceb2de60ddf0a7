"""Limits of one command that are in force before its program runs.

`posix_spawn` cannot set resource limits, so a limited command starts through a launcher: a bare Python that sets them
on itself, enters its cgroup, and becomes the program. It costs some 15 ms, of limited commands alone.

CPU time, open files and file sizes are resource limits (setrlimit(2)) of each process. Memory and the number of
processes are bounded for the command as a whole, which only a cgroup v2 of its own can do: where the controllers are
not delegated to the server, such a limit is refused.
"""

from __future__ import annotations

import itertools
import logging
import os
import resource
import sys
from pathlib import Path

from actors.system import programs
from actors.system.child.cgroup import current_cgroup
from protocol.errors import InvalidParams
from protocol.process import ResourceLimits

log = logging.getLogger(__name__)

_numbers = itertools.count(1)


def check_limits(limits: ResourceLimits) -> None:
    """Raises InvalidParams for a limit above the server's hard one, or one that nothing here can enforce."""
    for name, number, value in _resources(limits):
        hard = resource.getrlimit(number)[1]
        if hard != resource.RLIM_INFINITY and value > hard:
            raise InvalidParams(f"`limits.{name}`: {value} is above the hard limit of {hard}")
    for name, controller, wanted in (
        ("memoryBytes", "memory", limits.memory_bytes),
        ("processes", "pids", limits.processes),
    ):
        if wanted is not None and controller not in _delegated_controllers():
            text = f"`limits.{name}` needs the {controller} controller of a cgroup v2 that is delegated to the server"
            raise InvalidParams(text, {"kind": "limitUnsupported"})


def make_group(limits: ResourceLimits) -> Path | None:
    """A cgroup for the command, where one of its limits needs that. Raises OSError."""
    if limits.memory_bytes is None and limits.processes is None:
        return None
    parent = _parent_group()
    if parent is None:
        raise FileNotFoundError(0, "the delegated cgroup is gone")
    group = parent / f"exec-server-{os.getpid()}-command-{next(_numbers)}"
    group.mkdir()
    try:
        if limits.memory_bytes is not None:
            (group / "memory.max").write_text(str(limits.memory_bytes))
        if limits.processes is not None:
            (group / "pids.max").write_text(str(limits.processes))
    except OSError:
        group.rmdir()
        raise
    return group


def remove_group(group: Path | None) -> None:
    """Remove the cgroup of a command that is over; one that a background job is still in stays."""
    if group is not None:
        try:
            group.rmdir()
        except OSError as error:
            log.info("the cgroup %s stays: %s", group, error.strerror)


def launched(
    limits: ResourceLimits, group: Path | None, program: bytes, argv: list[bytes]
) -> tuple[bytes, list[bytes]]:
    """The program and argv of the launcher that becomes `program` within the limits and the cgroup."""
    settings = ",".join(f"{number}={value}" for _, number, value in _resources(limits))
    arguments = [b"limits", settings.encode(), os.fsencode(group or ""), program, *argv]
    return os.fsencode(sys.executable), programs.python(sys.executable, programs.LAUNCHER, *arguments)


def _resources(limits: ResourceLimits) -> list[tuple[str, int, int]]:
    known = (
        ("cpuSeconds", resource.RLIMIT_CPU, limits.cpu_seconds),
        ("openFiles", resource.RLIMIT_NOFILE, limits.open_files),
        ("fileSizeBytes", resource.RLIMIT_FSIZE, limits.file_size_bytes),
    )
    return [(name, number, value) for name, number, value in known if value is not None]


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
