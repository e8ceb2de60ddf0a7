"""One command that was started: its descriptors, its signals, its exit, its descendants."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from actors.system.child import descendants
from actors.system.child.limits import remove_group
from actors.system.child.proc import boot_ticks
from actors.system.child.table import CHILDREN
from actors.system.pool import KILL_POOL, SANDBOX_POOL, Pool

if TYPE_CHECKING:
    from actors.system.child.terminal import Terminal

log = logging.getLogger(__name__)

UNKNOWN_EXIT_CODE = 255
"""The code of a child that somebody else in this process has reaped (waitpid(-1), or SIGCHLD ignored)."""


class ExitStatus(NamedTuple):
    """How a child ended: `code` is 128+n where signal n killed it."""

    code: int
    signal: int | None


class Child:
    """A live or exited child; made by `spawn`.

    `stdin`, `stdout`, `stderr` (pipes, None where there is none) or `master` (terminal) are non-blocking,
    close-on-exec and the caller's: it reads, writes and closes them, and says so by setting them to None.
    `pidfd` becomes readable when the child has exited, whoever still holds its pipes; then, after
    unregistering it, call `reap`.

    All methods are for one thread at a time and return within milliseconds.
    """

    __slots__ = (
        "_given_up",
        "_kills",
        "_terminal",
        "_tty",
        "at_end",
        "cookie",
        "forgotten",
        "group",
        "lane",
        "master",
        "pid",
        "pidfd",
        "sessions",
        "status",
        "stderr",
        "stdin",
        "stdout",
    )

    def __init__(
        self,
        pid: int,
        pidfd: int,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        master: int | None = None,
        cookie: int = 0,
    ) -> None:
        self.pid = pid
        self.pidfd = pidfd
        """-1 after `reap`."""
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.master = master
        self.cookie = cookie
        """What its descendants carry (see `process_cookie`); 0 if nothing."""
        self.lane: str | None = None
        """Whose jobs its own may wait for (see `actors.system.pool`)."""
        self.group: Path | None = None
        """The cgroup of its own that its limits need."""
        self.status: ExitStatus | None = None
        """None until `reap`."""
        self.sessions: dict[int, int] | None = None
        """Sessions of descendants and when each was seen last, by the clock of `ProcessStat.start_ticks`; the
        child's own among them once it is reaped. None: no such session.
        """
        self.at_end: Callable[[], object] | None = None
        """Run once in a thread when the child has been reaped, or given up."""
        self._terminal: Terminal | None = None
        self._tty = master is not None
        self._kills = 0
        self._given_up = False
        self.forgotten = False
        """Released, and nothing is attributed to it any more."""

    @property
    def tty(self) -> bool:
        """Whether it was started on a terminal."""
        return self._tty

    @property
    def exited(self) -> bool:
        """Whether it has exited and is reaped."""
        return self.status is not None

    @property
    def unreaped(self) -> bool:
        """Whether its pid, and with it the numbers of its group and session, are certainly its own."""
        return self.status is None and self.pidfd >= 0

    def signal_group(self, signum: int) -> bool:
        """Send a signal to the child's process group. False where it was sent to nobody: the child is reaped,
        and the number of its group may be a stranger's; or the kernel refuses, because all of the group are
        other users.
        """
        try:
            with CHILDREN.lock:  # against a reap between the look and the signal
                if not self.unreaped:
                    return False
                os.killpg(self.pid, signum)
        except ProcessLookupError:
            return False
        except PermissionError:
            log.warning("may not send signal %d to the group of pid %d", signum, self.pid)
            return False
        return True

    def kill_tree(self, budget_s: float = 0.004) -> bool:
        """SIGKILL the child, its group, and all its descendants that are linked or attributed to it.

        They are stopped first, so that none can escape by forking meanwhile. What takes longer than
        `budget_s` (hundreds of processes) goes on in a thread by itself, and the answer is False. The child
        is not reaped: its `pidfd` becomes readable.
        """
        if self._kills:
            return False
        return descendants.kill(self, budget_s)

    def has_descendants(self) -> bool:
        """Whether a descendant is alive, as far as it is linked or attributed."""
        return descendants.any_alive(self)

    def reap(self) -> ExitStatus:
        """Take the exit status of a child that has exited, and close `pidfd`. What it left behind lives on.

        Raises BlockingIOError, and changes nothing, where the child has not exited. Repeated, it says the
        same again.
        """
        if self.status is not None:
            return self.status
        ended = self._wait(os.WNOWAIT)
        with CHILDREN.lock:
            # The kernel has handed the descendants to us by now; their sid tells whose they are, and keeps
            # its number.
            if not descendants.adopt_in_passing(self.pid):
                CHILDREN.unwatch(self.pid)
            if ended is not None:
                self._wait(0)
            CHILDREN.remove(self.pid)
            self.status = _status(ended)
            if self.sessions is None:
                self.sessions = {}
            self.sessions[self.pid] = boot_ticks()
        os.close(self.pidfd)
        self.pidfd = -1
        self._run_at_end()
        CHILDREN.reap_left()
        return self.status

    def _run_at_end(self) -> None:
        at_end, self.at_end = self.at_end, None
        if at_end is not None:
            _submit(SANDBOX_POOL, at_end, self.lane)

    def _wait(self, flag: int) -> os.waitid_result | None:
        try:
            ended = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG | flag)
        except ChildProcessError:
            log.warning("somebody else in this process has taken the exit status of pid %d", self.pid)
            return None
        if ended is None:
            raise BlockingIOError(f"pid {self.pid} has not exited")
        return ended

    def release(self) -> None:
        """The caller gives the child up: everything still open is closed, and nothing can be attributed to
        the child any more; after a kill that goes on in a thread, since a hangup would let the stopped child
        run, but for the streams of one that is reaped: at its exit the terminal was hung up. Kills nothing. A child
        that has not exited is reaped whenever that is noticed.
        """
        with CHILDREN.lock:
            self._given_up = True
            if not self._kills:
                self._forget()
            elif not self.unreaped:
                self.close_streams()

    def _forget(self) -> None:
        self.forgotten = True
        self.close_streams()
        descendants.forget(self)
        self._run_at_end()
        if self.group is not None:
            group = self.group
            _submit(KILL_POOL, lambda: remove_group(group), self.lane)
        if self.pidfd >= 0:
            CHILDREN.abandon(self.pid)
            os.close(self.pidfd)
            self.pidfd = -1

    def kill_goes_on(self) -> None:
        """A thread goes on with a kill: until `kill_is_over` the child must stay known."""
        with CHILDREN.lock:
            self._kills += 1
            CHILDREN.kills += 1

    def kill_is_over(self) -> None:
        """The thread is done."""
        with CHILDREN.lock:
            self._kills -= 1
            CHILDREN.kills -= 1
            if self._given_up and not self._kills:
                self._forget()

    def close_streams(self) -> None:
        """Close the standard streams that are not None."""
        for name in ("stdin", "stdout", "stderr", "master"):
            fd = getattr(self, name)
            if fd is not None:
                setattr(self, name, None)
                os.close(fd)

    def resize(self, rows: int, cols: int) -> None:
        """Set the window size; the foreground group gets SIGWINCH if it changed. Raises ValueError without an
        open terminal.
        """
        self._open_terminal().setwinsize(rows, cols)

    def eof_char(self) -> bytes:
        """What to write for end of input, as termios has it now: b"" in raw mode. Raises ValueError without a
        terminal.
        """
        return self._open_terminal().eof_char()

    def _open_terminal(self) -> Terminal:
        if self.master is None:
            raise ValueError("the child has no open terminal")
        if self._terminal is None:
            from actors.system.child.terminal import Terminal  # and ptyprocess, when the first is asked for

            self._terminal = Terminal(self.pid, self.master)
        return self._terminal


def _submit(pool: Pool, job: Callable[[], object], lane: str | None) -> None:
    """Have a job done in a thread; at once where none can be had."""
    try:
        pool.submit(job, lane)
    except RuntimeError:
        job()


def _status(ended: os.waitid_result | None) -> ExitStatus:
    if ended is None:
        return ExitStatus(UNKNOWN_EXIT_CODE, None)
    if ended.si_code == os.CLD_EXITED:
        return ExitStatus(ended.si_status, None)
    return ExitStatus(128 + ended.si_status, ended.si_status)
