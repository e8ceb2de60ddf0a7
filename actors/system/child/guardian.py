"""Should the server be killed with SIGKILL, its guardian ends what it has started.

It is a few lines of `sh` (`programs/guardian.sh`) in a session of their own, which ignore what a terminal or a service
manager sends. They read `+ sid` and `- sid` from a pipe whose other end only the server holds. At its end they first
stop all known sessions' leading groups, so that links hold; then a small Python (`programs/walker.py`) walks /proc and
kills the known sessions, what carries a cookie of the server (`process_cookie`), and all that descends from either;
then whatever is left of the groups is killed once more. With a cgroup of the server's own they write `cgroup.kill`
before all that. `.` says that the server ended by itself and there is nothing to do.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import time
from typing import Final

from actors.system import programs
from actors.system.child.cgroup import OwnCgroup
from actors.system.child.posix_spawn import Stdio, posix_spawn
from actors.system.child.process_cookie import COOKIES, RANGE
from actors.system.child.table import CHILDREN

log = logging.getLogger(__name__)

_PENDING_LIMIT: Final = 1 << 20
"""Bytes kept for a guardian that does not read; then it is replaced."""
_UNTOLD_LIMIT: Final = 256
"""Sessions that the guardian may not know yet."""
_RESTART_PAUSE: Final = 1.0
_GOODBYE_MS: Final = 1000


class Guardian:
    """The guardian of this process: one at a time, replaced when it dies, told of sessions by the table of
    children.

    To be started by the server program once, after `enter_own_cgroup`. `fileno` is readable when it has died;
    then, and once a second, call `check`. Nothing here blocks but `stop`.
    """

    def __init__(self, cgroup: OwnCgroup | None = None) -> None:
        self._cgroup = cgroup
        self._pid = 0
        self._pidfd = -1
        self._pipe = -1
        self._pending = bytearray()
        self._untold: dict[int, None] = {}
        """Sessions that it has not been told of, in the order in which they came."""
        self._not_before = 0.0
        _running.append(self)

    @property
    def pid(self) -> int:
        """0 while there is none."""
        return self._pid

    def fileno(self) -> int:
        """The pidfd; -1 while there is none. Another one after each replacement."""
        return self._pidfd

    def start(self) -> bool:
        """Start it and tell it all sessions there are. False where that failed; `check` tries again, a second
        later.
        """
        self._not_before = time.monotonic() + _RESTART_PAUSE
        try:
            reader, writer = os.pipe()
        except OSError:
            log.exception("no descriptor left for a guardian")
            return False
        try:
            pid, pidfd = self._spawn(reader)
        except OSError:
            log.exception("the guardian does not start")
            os.close(writer)
            return False
        finally:
            os.close(reader)
        os.set_blocking(writer, False)
        with CHILDREN.lock:
            self._pid, self._pidfd, self._pipe = pid, pidfd, writer
            self._pending.clear()
            self._untold.clear()
            self._send(b"".join(b"+ %d\n" % sid for sid in CHILDREN.set_watcher(self)))
        return True

    def _spawn(self, reader: int) -> tuple[int, int]:
        with CHILDREN.spawning():
            pid = posix_spawn(b"/bin/sh", self._argv(), _ENVIRONMENT, b"/", Stdio((reader, -1, -1)))
            try:
                pidfd = os.pidfd_open(pid)
            except OSError:
                os.kill(pid, signal.SIGKILL)  # before its input ends, at which it would do its work
                os.waitpid(pid, 0)
                raise
            CHILDREN.add(pid, "guardian")
        return pid, pidfd

    def add(self, sid: int) -> None:
        """For the table: session `sid` is to end with this process.

        Where children are born with a cookie the guardian knows them by that, and is told of sessions only at the next
        `check`: for most commands, which are over by then, it is not woken at all.
        """
        if self._pipe < 0:
            return
        self._untold[sid] = None
        if not COOKIES.carried or len(self._untold) >= _UNTOLD_LIMIT:
            self._tell()

    def remove(self, sid: int) -> None:
        """For the table: session `sid` is none of ours any more."""
        if sid in self._untold:
            del self._untold[sid]
        else:
            self._send(b"- %d\n" % sid)

    def check(self) -> bool:
        """Replace the guardian if it has died or does not read; write what it has not taken yet. Whether one
        lives.

        Closes the old `fileno`: no loop may be watching that number during the call.
        """
        with CHILDREN.lock:
            self._tell()
            if self._pid and self._has_died():
                log.warning("the guardian has died and is replaced")
                self._drop()
        if self._pid:
            return True
        return time.monotonic() >= self._not_before and self.start()

    def stop(self) -> None:
        """The server ends by itself and has ended its children: the guardian goes without killing anything.

        Waits for it, at most a second.
        """
        with CHILDREN.lock:
            CHILDREN.set_watcher(None)
            self._send(b".\n")
            pid, pidfd, self._pid, self._pidfd = self._pid, self._pidfd, 0, -1
            if self._pending and pid:
                os.kill(pid, signal.SIGKILL)  # an end of its input that no goodbye precedes means our death
            self._close_pipe()
        if not pid:
            return
        ending = select.poll()
        ending.register(pidfd, select.POLLIN)
        if not ending.poll(_GOODBYE_MS):
            os.kill(pid, signal.SIGKILL)
        with CHILDREN.lock:
            os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
            CHILDREN.remove(pid)
        os.close(pidfd)

    def _argv(self) -> list[bytes]:
        home, leaf = (b"", b"")
        if self._cgroup is not None:
            home, leaf = os.fsencode(self._cgroup.parent), os.fsencode(self._cgroup.path)
        python = os.fsencode(sys.executable or "")
        cookies = [b"%d" % COOKIES.base, b"%d" % RANGE]
        return [
            b"sh",
            b"-c",
            programs.GUARDIAN,
            b"exec-server-guardian",
            python,
            programs.WALKER,
            home,
            leaf,
            *cookies,
        ]

    def _tell(self) -> None:
        """Tell of all sessions that it does not know yet, and what it has not taken."""
        untold = b"".join(b"+ %d\n" % sid for sid in self._untold)
        self._untold.clear()
        self._send(untold)

    def _send(self, data: bytes) -> None:
        if self._pipe < 0:
            return
        self._pending += data
        self._flush()

    def _flush(self) -> None:
        while self._pending and self._pipe >= 0:
            try:
                del self._pending[: os.write(self._pipe, self._pending)]
            except BlockingIOError:
                if len(self._pending) > _PENDING_LIMIT:
                    os.kill(self._pid, signal.SIGKILL)  # `check` replaces it
                    self._close_pipe()
                return
            except BrokenPipeError:
                self._close_pipe()

    def _has_died(self) -> bool:
        return os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG) is not None

    def _drop(self) -> None:
        CHILDREN.remove(self._pid)
        CHILDREN.set_watcher(None)
        self._close_pipe()
        os.close(self._pidfd)
        self._pid, self._pidfd = 0, -1

    def _close_pipe(self) -> None:
        self._pending.clear()
        self._untold.clear()
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1


_ENVIRONMENT: Final = [b"PATH=/usr/bin:/bin", b"LC_ALL=C"]
_running: list[Guardian] = []


def _let_go() -> None:
    # A forked process must not hold the pipe open: the guardian would never see its end.
    for guardian in _running:
        guardian._close_pipe()
    _running.clear()


os.register_at_fork(after_in_child=_let_go)
