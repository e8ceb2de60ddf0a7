"""The way into a sandbox: bwrap(1) starts a bare Python there, which executes the command or tells why not.

bwrap stays outside as the leader of the command's session, and must outlive every signal that is meant for the command:
a ^C on its terminal, a SIGTERM to its group. So it is started with all signals blocked. The entrance unblocks them, and
one that came meanwhile finds the command. It also tells what cannot be told from outside: that bwrap has succeeded.
"""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Callable
from typing import Final

from actors.system import programs
from actors.system.child import Child, Execution
from actors.system.child.proc import children_of
from actors.system.sandbox.mount_points import MOUNT_POINTS
from actors.system.sandbox.spec import SandboxSpec, interpreter
from protocol.errors import SpawnError, os_error_text

ENTER_S: Final = 20.0
"""How long bwrap and the entrance may take together, in seconds."""
_MOST_SAID: Final = 4096
_SPEC, _REPORT, _ARGUMENTS, _FILTER = 3, 4, 5, 6
ENVIRONMENT: Final = [b"PATH=/usr/local/bin:/usr/bin:/bin"]
"""bwrap's own: a command's might make it load libraries from a place that a sandboxed command can write to."""


class SandboxLauncher:
    """One start of a command in a sandbox. `passed` are the descriptors that bwrap must get as 3, 4, ...; `close`
    releases all that is still open here."""

    def __init__(self, spec: SandboxSpec, execution: Execution) -> None:
        self._spec = spec
        self._inside = execution
        self._report = -1
        self.passed: tuple[int, ...] = ()

    def open(self, soft_open_files: int | None) -> tuple[bytes, list[bytes]]:
        """Open the descriptors; bwrap's program and argv. Raises OSError."""
        inside = self._inside
        program, argv, env, cwd = inside.program, inside.argv, inside.env, inside.cwd
        soft = b"" if soft_open_files is None else b"%d" % soft_open_files
        spec = b"".join(item + b"\0" for item in (soft, cwd, program, b"%d" % len(argv), *argv, *env))
        made = [os.fsencode(item) + b"\0" for item in self._spec.arguments]
        made += [b"--seccomp\0%d\0" % _FILTER]
        opened: list[int] = []
        try:
            opened.append(_memory(spec))
            self._report, write_end = os.pipe()
            opened.append(write_end)
            opened += [_memory(b"".join(made)), _memory(self._spec.filter)]
        finally:
            self.passed = tuple(opened)
        bwrap = os.fsencode(self._spec.program)
        launcher = programs.python(interpreter(), programs.LAUNCHER, b"sandbox")
        return bwrap, [bwrap, b"--args", b"%d" % _ARGUMENTS, b"--", *launcher]

    def close_passed(self) -> None:
        """bwrap has them, or never will."""
        for fd in self.passed:
            os.close(fd)
        self.passed = ()

    def close(self) -> None:
        """What is left open, and the mount points, where no child came of it."""
        self.close_passed()
        self._close_report()
        MOUNT_POINTS.release(self._spec.mount_points)

    def confirm(self, child: Child) -> None:
        """Wait until the command is being executed. Raises SpawnError where it is not, whatever the reason."""
        report = self._read_report()
        self._close_report()
        if report == b"+":
            return
        if not report.startswith(b"+"):
            said = _said(child)
            if f"execvp {interpreter()}" in said:
                said += " (its libraries are not there: an entry for `root` or `minimal` is needed)"
            raise SpawnError("spawnFailed", f"the sandbox could not be set up: {said}", "sandbox")
        reason, _, code = report[1:].decode().partition(" ")
        path = os.fsdecode(self._inside.cwd if reason == "cwd" else self._inside.program)
        plain = SpawnError.from_errno(int(code), reason)
        text = f"{os_error_text(int(code))}: {reason} {path} in the sandbox"
        raise SpawnError((plain.data or {})["kind"], text, reason, path=path, errno=int(code))

    def at_end(self, child: Child) -> Callable[[], object] | None:
        """What there is to do, in a thread, once the child has exited; None where that is nothing."""
        held = self._spec.mount_points
        if not held:
            return None
        first = _watch_first(child.pid)

        def release() -> None:
            # bwrap's exit ends whoever is left inside, the first process there last of all.
            if first >= 0:
                ended = select.poll()
                ended.register(first, select.POLLIN)
                ended.poll(ENTER_S * 1000)
                os.close(first)
            MOUNT_POINTS.release(held)

        return release

    def _read_report(self) -> bytes:
        report = b""
        deadline = time.monotonic() + ENTER_S
        ready = select.poll()
        ready.register(self._report, select.POLLIN)
        while ready.poll(max(0.0, deadline - time.monotonic()) * 1000):
            piece = os.read(self._report, 64)
            if not piece:
                return report
            report += piece
        return b""

    def _close_report(self) -> None:
        if self._report >= 0:
            os.close(self._report)
            self._report = -1


def _watch_first(pid: int) -> int:
    """A pidfd of the first process in a sandbox whose bwrap is `pid`; -1 where it has ended."""
    for child in children_of(pid):
        try:
            return os.pidfd_open(child)
        except OSError:
            continue
    return -1


def _memory(content: bytes) -> int:
    fd = os.memfd_create("exec-server-sandbox", os.MFD_CLOEXEC)
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _said(child: Child) -> str:
    """What bwrap has printed, or Python where it could not start inside."""
    for fd in (child.stderr, child.master):
        if fd is None:
            continue
        try:
            text = os.read(fd, _MOST_SAID).decode(errors="replace").strip()
        except (BlockingIOError, OSError) as error:
            text = "" if error.errno in (errno.EAGAIN, errno.EIO) else str(error)
        if text:
            return text
    return f"no word from bwrap within {ENTER_S:.0f} s"
