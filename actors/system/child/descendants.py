"""Which processes descend from which child, and how they are killed.

Found by the links that /proc shows from the leader down, while they hold. When a process dies its children
are handed to the subreaper (the server program) or to init: whose they were is then told by the cookie they
carry (`process_cookie`), or by the session they are in, if a walk has seen that session before. `sweep` looks every two
seconds, so that a session which lived that long is known.

In a program that is no subreaper, what outlives its leader is looked for among all processes of the machine.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Final

from actors.system.child import proc
from actors.system.child.process_cookie import COOKIES
from actors.system.child.table import CHILDREN, Command
from actors.system.pool import KILL_POOL

log = logging.getLogger(__name__)

SWEEP_PERIOD: Final = 2.0
"""Seconds from the start of one sweep to the start of the next."""
_SLICE_PERIOD: Final = 0.02
_ADOPTION_PART: Final = 0.25
"""The part of its budget that a kill on the loop may spend on a look for orphans; else a thread does all of it."""
_ADOPT_SHARE: Final = 20
"""Looking for orphans whenever a child exits may take one part in so many of the time."""
_WALKS: Final = 8
"""How many walks in a row may find nobody new and yet not end a search, because somebody went meanwhile."""
_WALKS_AT_MOST: Final = 1000
_REST_S: Final = 0.2
"""How long a kill waits for what it has told to stop: one that waits for a disk stops only when that answers."""
_REST_PAUSE_S: Final = 0.0002
"""The first pause between two looks at that; it grows, and is short as long as the loop may be waiting."""
_NO_DESCRIPTOR: Final = (errno.EMFILE, errno.ENFILE)
NOBODY: Final = 0
GONE: Final = -1
_RECENT_TICKS: Final = 10
_RECENT_S: Final = 0.05


class _Sweep:
    """The sweep that goes on, if one does, and when the last ones began."""

    def __init__(self) -> None:
        self.started = -SWEEP_PERIOD
        self.ticks = 0
        self.ticks_before = 0
        self.steps: Iterator[object] | None = None


class _Adoptions:
    """When orphans were looked up last, and when that may be done in passing again."""

    def __init__(self) -> None:
        self.began = 0.0
        self.next = 0.0
        self.seconds = 0.0
        """How long the last look took: it grows with the number of children."""


_SWEEP: Final = _Sweep()
_ADOPTIONS: Final = _Adoptions()
os.register_at_fork(after_in_child=lambda: _SWEEP.__init__())  # type: ignore[misc]


def note(child: Command, sid: int) -> None:
    """A descendant of `child` has been seen in session `sid`."""
    if sid != child.pid or child.exited:
        if child.sessions is None:
            child.sessions = {}
        child.sessions[sid] = proc.boot_ticks()
    if CHILDREN.owner(sid) is not child:
        CHILDREN.attribute(sid, child)
    CHILDREN.watch(sid)


def forget(child: Command) -> None:
    """Nothing is attributed to `child` any more."""
    CHILDREN.drop_cookie(child.cookie)
    CHILDREN.unattribute(child.pid, child)
    for sid in child.sessions or ():
        CHILDREN.unattribute(sid, child)
    child.sessions = None


def members(child: Command) -> Iterator[int]:
    """The descendants of `child` that can be told now, zombies too, noting their sessions. Among them NOBODY,
    for a step that found none (so that the caller can look at the time), and GONE, for a process that went
    before it could be looked at.
    """
    for pid in _linked_or_attributed(child):
        if pid > 0:
            sid = proc.session_of(pid)
            if sid:
                note(child, sid)
        yield pid


def _linked_or_attributed(child: Command) -> Iterator[int]:
    if child.unreaped:
        yield from proc.walk(child.pid)
    if CHILDREN.adopts:
        asked = time.monotonic()
        yield NOBODY  # others that are being killed may ask meanwhile, and one look answers all
        if _ADOPTIONS.began <= asked:
            adopt()
        for pid in [pid for pid, owner in list(CHILDREN.orphans.items()) if owner is child]:
            yield pid
            yield from proc.walk(pid)
    else:
        yield from _left_behind(child)


def _left_behind(child: Command) -> Iterator[int]:
    """Where orphans go to init: who carries the child's cookie, or is in an attributed session, having lived
    when that was last seen to be ours. A session that has become empty may since be a stranger's.
    """
    seen = dict(child.sessions or {})
    for pid in proc.all_pids():
        sid = proc.session_of(pid)
        if sid == child.pid and child.unreaped:
            yield NOBODY if pid == child.pid else pid
        elif child.cookie and COOKIES.of(pid) == child.cookie:
            yield pid
        elif sid in seen and (stat := proc.read_stat(pid)) is not None and stat.start_ticks <= seen[sid]:
            yield pid
            yield from proc.walk(pid)
        else:
            yield GONE if sid is None else NOBODY


def any_alive(child: Command) -> bool:
    """Whether a descendant of `child` is alive, as far as that can be told now."""
    if child.unreaped or not CHILDREN.adopts:
        found = members(child)
    else:
        seen = (child.sessions or {}).get(child.pid, 0)
        recent = proc.boot_ticks() - seen <= _RECENT_TICKS
        if recent or time.monotonic() - _ADOPTIONS.began > _RECENT_S:
            adopt()
        found = iter([pid for pid, owner in list(CHILDREN.orphans.items()) if owner is child])
    return any(pid > 0 and (stat := proc.read_stat(pid)) is not None and stat.alive for pid in found)


def kill(child: Command, budget_s: float) -> bool:
    """SIGKILL all `members`, and the group of a child that is unreaped. False: a thread goes on with it."""
    steps = _kill(child)
    deadline = time.monotonic() + budget_s
    if not KILLS.go_on and _ADOPTIONS.seconds < budget_s * _ADOPTION_PART:
        for _ in steps:
            if time.monotonic() >= deadline:
                break
        else:
            return True
    else:
        next(steps)  # it is told to stop at once
    return KILLS.finish(child, steps)


class Kills:
    """Kills that go on in a thread, side by side: a look at the children of the server is for all of them. Each by
    itself would take as long as there are children, and the end of a large session the square of that.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._new: list[tuple[Command, Iterator[object]]] = []
        self.go_on = False
        """Whether a thread is at it."""

    def finish(self, child: Command, steps: Iterator[object]) -> bool:
        """Have a thread go on with `steps`; True where there is none to be had, and it is done."""
        child.kill_goes_on()
        with self._lock:
            self._new.append((child, steps))
            begun, self.go_on = self.go_on, True
        if not begun:
            try:
                KILL_POOL.submit(self._run)
            except RuntimeError:  # no thread to be had: it takes as long as it takes
                self._run()
                return True
        return False

    def _run(self) -> None:
        going: list[tuple[Command, Iterator[object]]] = []
        while True:
            with self._lock:
                going += self._new
                self._new.clear()
                if not going:
                    self.go_on = False
                    return
            going = [each for each in going if self._step(*each)]

    def _step(self, child: Command, steps: Iterator[object]) -> bool:
        """One step of a kill; whether there are more."""
        try:
            next(steps)
            return True
        except StopIteration:
            pass
        except Exception:
            log.exception("the descendants of pid %d could not all be killed", child.pid)
        child.kill_is_over()
        return False


KILLS: Final = Kills()
os.register_at_fork(after_in_child=lambda: KILLS.__init__())  # type: ignore[misc]


def _kill(child: Command) -> Iterator[object]:
    # Stopped processes neither fork nor exit nor change their session, so the links hold while they are
    # followed.
    child.signal_group(signal.SIGSTOP)
    found: dict[int, int] = {}
    try:
        yield from _stop_all(child, found)
    except OSError as error:
        if error.errno not in _NO_DESCRIPTOR:
            raise
        log.warning("no descriptor left to look for the descendants of pid %d", child.pid)
    child.signal_group(signal.SIGKILL)
    for pid, start_ticks in found.items():
        signal_process(pid, start_ticks, signal.SIGKILL)
        yield None


def _stop_all(child: Command, found: dict[int, int]) -> Iterator[object]:
    # A walk that finds nobody new has found all, unless one that went meanwhile left a child, or one was still in a
    # fork when it was told to stop: Linux sees that to its end. (A signal to a group reaches the child of a fork, too.)
    quiet = 0
    rest_by = time.monotonic() + _REST_S
    for _ in range(_WALKS_AT_MOST):
        fresh = gone = False
        at_rest = all(map(_is_at_rest, found))
        for pid in members(child):
            yield None
            gone = gone or pid == GONE
            if pid > 0 and pid not in found:
                stat = proc.read_stat(pid)
                if stat is not None:
                    found[pid] = stat.start_ticks
                    signal_process(pid, stat.start_ticks, signal.SIGSTOP)
                    fresh = True
        quiet = 0 if fresh else quiet + 1
        if fresh:
            rest_by = time.monotonic() + _REST_S
        elif not at_rest and time.monotonic() < rest_by:
            if quiet > 1:
                time.sleep(min(_REST_PAUSE_S * quiet, 0.01))
        elif quiet >= _WALKS or not gone:
            return
    log.warning("pid %d starts processes faster than they can be stopped", child.pid)


def _is_at_rest(pid: int) -> bool:
    """Whether a process that was told to stop has, or is dead: it is in no fork any more."""
    stat = proc.read_stat(pid)
    return stat is None or stat.state in "TtZXx"


def signal_process(pid: int, start_ticks: int, signum: int) -> None:
    """Signal the process `pid` that began at `start_ticks`, and no other one that may have its number by now.

    Its session would not tell it: a process may be just about to leave the one it was found in.
    """
    try:
        try:
            pidfd = os.pidfd_open(pid)
        except OSError as error:
            if error.errno not in _NO_DESCRIPTOR:
                raise
            os.kill(pid, signum)  # unchecked: killing must work then, and it was looked at an instant ago
            return
        try:
            stat = proc.read_stat(pid)
            if stat is not None and stat.start_ticks == start_ticks:
                signal.pidfd_send_signal(pidfd, signum)
        finally:
            os.close(pidfd)
    except ProcessLookupError:
        return  # it has ended by itself
    except PermissionError:
        log.warning("may not send signal %d to pid %d, a descendant of a command", signum, pid)


def sweep(budget_s: float = 0.002) -> float:
    """Look at the descendants of running children, for at most about `budget_s`; the seconds until the next
    call.

    A whole sweep begins every SWEEP_PERIOD. To be called by a timer of the server program, on the loop.
    """
    now = time.monotonic()
    if _SWEEP.steps is None:
        due = _SWEEP.started + SWEEP_PERIOD - now
        if due > 0:
            return due
        _SWEEP.started = now
        _SWEEP.ticks_before, _SWEEP.ticks = _SWEEP.ticks, proc.boot_ticks()
        _SWEEP.steps = _sweep_all()
    deadline = now + budget_s
    for _ in _SWEEP.steps:
        if time.monotonic() >= deadline:
            return _SLICE_PERIOD
    _SWEEP.steps = None
    return max(_SLICE_PERIOD, _SWEEP.started + SWEEP_PERIOD - time.monotonic())


def _sweep_all() -> Iterator[object]:
    adopt()
    orphans: dict[Command, list[int]] = {}
    for pid, owner in list(CHILDREN.orphans.items()):
        if owner is not None:
            orphans.setdefault(owner, []).append(pid)
    for child in CHILDREN.commands():
        roots = orphans.get(child, [])
        if child.unreaped:
            roots = [child.pid, *roots]
        for root in roots:
            for pid in proc.walk(root):
                yield None
                sid = proc.session_of(pid)
                if sid:
                    note(child, sid)
        _drop_empty_sessions(child)
        yield None


def _drop_empty_sessions(child: Command) -> None:
    if not CHILDREN.adopts or child.sessions is None:
        return  # elsewhere nothing tells that a session is empty; the times of birth keep strangers out
    with CHILDREN.lock:
        for sid, last_seen in list(child.sessions.items()):
            if last_seen < _SWEEP.ticks_before:
                del child.sessions[sid]
                CHILDREN.unattribute(sid, child)
                CHILDREN.unwatch(sid)


def adopt() -> list[int]:
    """Look up which processes the kernel has handed to this one, and attribute them; all that are not reaped.

    Costs about 0.3 µs a child of this process and 2 µs an orphan. Empty where this process is no subreaper.
    """
    if not CHILDREN.adopts:
        return []
    started = time.monotonic()
    with CHILDREN.lock:
        found = CHILDREN.unknown(proc.children_of(os.getpid()), _is_orphan)
        known = CHILDREN.orphans
        CHILDREN.orphans = {}
        for pid in found:
            sid = proc.session_of(pid)
            owner = known.get(pid)
            if sid is not None:
                if owner is None or owner.forgotten:
                    owner = CHILDREN.with_cookie(COOKIES.of(pid)) or CHILDREN.owner(sid)
                if owner is not None:
                    note(owner, sid)
                CHILDREN.watch(sid)
            CHILDREN.orphans[pid] = owner
        ended = time.monotonic()
        _ADOPTIONS.began = started
        _ADOPTIONS.seconds = ended - started
        _ADOPTIONS.next = ended + _ADOPT_SHARE * (ended - started)
    return found


def _is_orphan(pid: int) -> bool:
    """Whether a child of this process that is not in the table is certainly no spawn under way: its cookie is that of
    a command in the table, or it is neither in our session nor leads its own.
    """
    if COOKIES.is_of_table(COOKIES.of(pid)):
        return True
    return proc.session_of(pid) not in (None, pid, os.getsid(0))


def adopt_in_passing(sid: int) -> bool:
    """`adopt`, unless that has been done so lately that it would take a noticeable share of the time. Whether
    an orphan in session `sid` is known.
    """
    if not CHILDREN.adopts:
        return False
    if time.monotonic() >= _ADOPTIONS.next:
        adopt()
    return any(proc.session_of(pid) == sid for pid in CHILDREN.orphans)


def reap_orphans() -> int:
    """Reap the adopted orphans that have ended; how many. To be called once a second by the server program.

    Each is reaped by its own number, which stays its own until then. Never P_ALL: that would take the exit
    status of children that others wait for.
    """
    with CHILDREN.lock:
        stats = {pid: stat for pid in adopt() if (stat := proc.read_stat(pid)) is not None}
        ended = [pid for pid, stat in stats.items() if not stat.alive]
        in_use = {stat.session for stat in stats.values() if stat.alive}
        for pid in ended:
            del CHILDREN.orphans[pid]
            sid = stats[pid].session
            if sid not in in_use and sid not in CHILDREN:
                CHILDREN.unwatch(sid)
        return sum(map(_reap, ended))


def _reap(pid: int) -> bool:
    try:
        pidfd = os.pidfd_open(pid)
    except OSError as error:
        if error.errno not in _NO_DESCRIPTOR:
            raise
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG) is not None
    try:
        return os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG) is not None
    finally:
        os.close(pidfd)
