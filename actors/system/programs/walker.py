"""The end of everything that a killed server has left: `walker BASE RANGE CGROUP SESSION...`.

Killed is whoever is in one of the sessions, carries a cookie from BASE on (RLIMIT_RTTIME, see
`actors.system.child.process_cookie`), or descends from such a one. CGROUP, unless it is "", is removed afterwards.
"""

import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

WALKS = 400
PAUSE_S = 0.005


class Process(NamedTuple):
    """A process that is no zombie, as /proc shows it."""

    pid: int
    parent: int
    session: int
    at_rest: bool
    """Stopped: a fork that it was in has ended, and its child can be seen."""


class Walker:
    """What is to be killed, and what has been found of it."""

    def __init__(self, sessions: set[int], has_cookie: Callable[[int], bool], send: Callable[[int, int], None]) -> None:
        self.sessions = sessions
        self.has_cookie = has_cookie
        self.send = send
        self.found: set[int] = set()

    def find(self, look: Callable[[], Iterable[Process]]) -> None:
        """Stop whoever is found, and look again until there is nobody new.

        One that was in a fork when it was stopped still ends that: nobody new counts only once all were at rest.
        """
        for _ in range(WALKS):
            at_rest = self.walk(list(look()))
            if at_rest and not self.stop_fresh(list(look())):
                return
            if not at_rest:
                time.sleep(PAUSE_S)

    def walk(self, table: list[Process]) -> bool:
        """Stop who is new; whether nobody is, and all others are at rest."""
        known = frozenset(self.found)
        return not self.stop_fresh(table) and all(each.at_rest for each in table if each.pid in known)

    def stop_fresh(self, table: list[Process]) -> bool:
        """Whether there was anybody new."""
        fresh = {each.pid for each in table if each.session in self.sessions or self.has_cookie(each.pid)} - self.found
        grown = True
        while grown:
            known = fresh | self.found
            below = {each.pid for each in table if each.parent in known} - known
            grown = bool(below)
            fresh |= below
        for pid in fresh:
            self.send(pid, signal.SIGSTOP)
        self.found |= fresh
        return bool(fresh)

    def kill(self) -> None:
        for pid in self.found:
            self.send(pid, signal.SIGKILL)
        for session in self.sessions:
            self.send(-session, signal.SIGKILL)


def cookies(base: int, size: int) -> Callable[[int], bool]:
    """Whether a process has one of these."""

    def has_cookie(pid: int) -> bool:
        try:
            soft = resource.prlimit(pid, resource.RLIMIT_RTTIME)[0]
        except OSError:
            return False
        return base <= soft < base + size

    return has_cookie


def processes() -> Iterator[Process]:
    """All but zombies, the first one, this one, and its parent."""
    ours = {1, os.getpid(), os.getppid()}
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as stream:
                fields = stream.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it has ended
        if len(fields) > 3 and fields[0] not in (b"Z", b"X") and int(name) not in ours:
            yield Process(int(name), int(fields[1]), int(fields[3]), fields[0] in (b"T", b"t"))


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass  # it has ended, or is somebody else's


def remove(cgroup: str) -> None:
    for _ in range(9):
        try:
            os.rmdir(cgroup)
        except OSError:  # busy while somebody in it dies
            time.sleep(0.2)
        else:
            return


def main(arguments: list[str]) -> None:
    base, size, cgroup, *sessions = arguments
    walker = Walker(set(map(int, sessions)), cookies(int(base), int(size)), send)
    try:
        walker.find(processes)
    finally:  # what has been found, and stopped, must not stay so
        walker.kill()
    if cgroup:
        remove(cgroup)


if __name__ == "__main__":
    main(sys.argv[1:])
