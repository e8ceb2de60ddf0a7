"""The one table of live children of this operating-system process: the only state that actors share.

It answers two questions. Is a pid among our kernel children one that we started, or an orphan that the kernel
handed to us as subreaper? And: which child does a process belong to, by the session (sid) it is in?

A session number stays taken as long as any process is in the session, so attribution by sid needs no group
numbers: every process group lies within one session (credentials(7)).
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Protocol


class Command(Protocol):
    """A child that was asked for (`Child`), as far as the table and the search for descendants know it."""

    pid: int
    cookie: int
    lane: str | None
    sessions: dict[int, int] | None
    forgotten: bool

    @property
    def exited(self) -> bool: ...
    @property
    def unreaped(self) -> bool: ...
    def signal_group(self, signum: int) -> bool: ...
    def kill_goes_on(self) -> None: ...
    def kill_is_over(self) -> None: ...


class SessionWatcher(Protocol):
    """Whoever must know which sessions to end should this process be killed (the guardian). Neither call
    blocks.
    """

    def add(self, sid: int) -> None: ...
    def remove(self, sid: int) -> None: ...


class ChildTable:
    """Thread-safe. Every child of this process is in it from spawn to reaping, helpers included."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """Held for microseconds, and while a child is reaped: between waitid and removal a pid may be reused.
        """
        self.adopts = False
        """Whether this process is a subreaper, so that unknown kernel children are orphans of our commands.
        """
        self.orphans: dict[int, Command | None] = {}
        """Adopted orphans that are not reaped, and whose descendants they are as far as is known."""
        self.watched: set[int] = set()
        """The sessions that the watcher has been told of."""
        self.kills = 0
        """Kills that go on in threads; whoever is killed may be left to `reap_left` when they are over."""
        self._watcher: SessionWatcher | None = None
        self._live: dict[int, Command | str] = {}
        self._left: set[int] = set()
        self._owners: dict[int, Command] = {}
        self._by_cookie: dict[int, Command] = {}
        self._unconfirmed: dict[int, int] = {}
        self._in_flight: set[int] = set()
        self._next_stamp = 0

    @contextlib.contextmanager
    def spawning(self) -> Iterator[None]:
        """To be held over every spawn in this process and its `add`: the new pid is not taken for an orphan.

        Spawns run side by side; a slow exec holds up nobody.
        """
        with self.lock:
            stamp = self._next_stamp
            self._next_stamp += 1
            self._in_flight.add(stamp)
        try:
            yield
        finally:
            with self.lock:
                self._in_flight.discard(stamp)

    def add(self, pid: int, entry: Command | str) -> None:
        """Enter a child that is not reaped yet: a command, or the name of a helper."""
        with self.lock:
            self._live[pid] = entry
            if not isinstance(entry, str):
                self._owners[pid] = entry
                if entry.cookie:
                    self._by_cookie[entry.cookie] = entry
                self.watch(pid)

    def remove(self, pid: int) -> None:
        """A child has been reaped (call it under `lock` together with the reaping). What it left stays
        attributed.
        """
        self._live.pop(pid, None)

    def abandon(self, pid: int) -> None:
        """Nobody waits for this child any more: it is reaped as an orphan, or by `reap_left`."""
        with self.lock:
            if self.adopts:
                self.remove(pid)
            else:
                self._live[pid] = "released"
                self._left.add(pid)

    def reap_left(self) -> int:
        """Reap those of the children that were left which have exited; how many have not, and how many kills go
        on in threads. Called at each spawn and exit, and once a second by a server.
        """
        if not self._left:
            return self.kills
        with self.lock:
            for pid in list(self._left):
                try:
                    if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                        continue
                    self.unwatch(pid)
                    os.waitid(os.P_PID, pid, os.WEXITED)
                except ChildProcessError:
                    self.unwatch(pid)  # somebody else in this process has reaped it
                self._left.discard(pid)
                self.remove(pid)
            return len(self._left) + self.kills

    def commands(self) -> list[Command]:
        """The children that are not helpers, unreaped or with sessions that are still attributed to them."""
        with self.lock:
            return list(dict.fromkeys(self._owners.values()))

    def is_helper(self, pid: int) -> bool:
        """Whether this is a child that serves the server itself."""
        return isinstance(self._live.get(pid), str)

    def __contains__(self, pid: int) -> bool:
        return pid in self._live

    def __len__(self) -> int:
        return len(self._live)

    def attribute(self, sid: int, child: Command) -> None:
        """A process in session `sid` descends from `child`; so does whoever is found in it later."""
        with self.lock:
            self._owners[sid] = child
            self.watch(sid)

    def owner(self, sid: int) -> Command | None:
        """The child whose descendants are in session `sid`, if it is known."""
        return self._owners.get(sid)

    def with_cookie(self, cookie: int) -> Command | None:
        """The child that was given this cookie, unless it is given up."""
        return self._by_cookie.get(cookie)

    def drop_cookie(self, cookie: int) -> None:
        """The child with this cookie is given up."""
        self._by_cookie.pop(cookie, None)

    def unattribute(self, sid: int, child: Command) -> None:
        """Session `sid` is empty, or `child` is given up: nobody is looked for in it any more."""
        with self.lock:
            if self._owners.get(sid) is child:
                del self._owners[sid]

    def set_watcher(self, watcher: SessionWatcher | None) -> list[int]:
        """From now on `watcher` is told of sessions; the ones that it has to know already are returned."""
        with self.lock:
            self._watcher = watcher
            return list(self.watched)

    def watch(self, sid: int) -> None:
        """Session `sid` is to end with this process."""
        with self.lock:
            if sid not in self.watched:
                self.watched.add(sid)
                if self._watcher is not None:
                    self._watcher.add(sid)

    def unwatch(self, sid: int) -> None:
        """Session `sid` is about to become empty. To be called before its last process is reaped: its number
        is free for strangers afterwards.
        """
        with self.lock:
            if sid in self.watched:
                self.watched.discard(sid)
                if self._watcher is not None:
                    self._watcher.remove(sid)

    def unknown(self, kernel_children: list[int], is_orphan: Callable[[int], bool] = lambda pid: False) -> list[int]:
        """Of the pids that the kernel says are our children, those that this process did not spawn.

        A pid seen while a spawn is under way may be that spawn's: it is unknown only once all those spawns
        are over and it still is not in the table, or where `is_orphan` can tell, for a spawn may hang. Call it under
        `lock`, with a list read under the same lock.
        """
        oldest = min(self._in_flight, default=self._next_stamp)
        found: list[int] = []
        unconfirmed: dict[int, int] = {}
        for pid in kernel_children:
            if pid not in self._live:
                stamp = self._unconfirmed.get(pid, self._next_stamp)
                if pid in self.orphans or oldest >= stamp or is_orphan(pid):
                    found.append(pid)
                else:
                    unconfirmed[pid] = stamp
        self._unconfirmed = unconfirmed
        return found


def _forget_all() -> None:
    # A forked process has none of these children, nor the threads that may have held the lock.
    CHILDREN.__init__()  # type: ignore[misc]


CHILDREN = ChildTable()
os.register_at_fork(after_in_child=_forget_all)
