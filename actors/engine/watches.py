"""Watches: the descriptors that actors wait for, and the messages about those that are ready."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable

from thespian.actors import WatchMessage

from actors.engine.cell import Cell, Group, Watch

log = logging.getLogger("exec_server.engine")


class Watches:
    """All watches of one system. A descriptor has one actor that watches it: the last to say so.

    `add_reader(fd, cell)` and `remove_reader(fd)` are those of the driver (runtime.Runtime); `wake` has a turn come.
    """

    def __init__(
        self,
        add_reader: Callable[[int, Cell], None],
        remove_reader: Callable[[int], None],
        wake: Callable[[], None],
    ) -> None:
        self._add_reader = add_reader
        self._remove_reader = remove_reader
        self._wake = wake
        self.owners: dict[int, Cell] = {}
        self.ready: deque[Group] = deque()
        """The groups with an actor whose descriptors are ready, in the order of their turns."""

    def fd_ready(self, cell: Cell, fd: int) -> None:
        """Let the actor know that `fd` is readable, with the message that is on its way already if there is one."""
        watch = cell.watch
        if watch is None or fd not in watch.fds:
            return
        pending = watch.pending
        if pending is None:
            watch.pending = pending = WatchMessage([fd])
            waiting = cell.group.watches
            if not waiting:
                self.ready.append(cell.group)
            waiting.append((cell, pending))
            self._wake()
        elif fd not in pending.ready:
            pending.ready.append(fd)

    def take(self) -> tuple[Cell, WatchMessage] | None:
        """Take out the next message about descriptors and have its group wait behind the others.

        None if the watch was dropped meanwhile.
        """
        group = self.ready.popleft()
        cell, message = group.watches.popleft()
        if group.watches:
            self.ready.append(group)
        watch = cell.watch
        if watch is None or watch.pending is not message:
            return None
        watch.pending = None
        return cell, message

    def set(self, cell: Cell, filenos: Iterable[int]) -> None:
        """Watch exactly these descriptors for the actor; readers of those that stay are not touched.

        An actor that closes a descriptor must return a watch without it before the number can be used again.
        """
        wanted = list(filenos)
        watch = cell.watch
        if watch is None:
            if not wanted or cell.exiting or cell.instance is None:
                return
            watch = cell.watch = Watch()
        owners = self.owners
        for fd in watch.fds:
            if fd not in wanted and owners.get(fd) is cell:
                del owners[fd]
                self._remove_reader(fd)
        for fd in wanted:
            if fd not in watch.fds:
                self._claim(cell, fd)
        watch.fds = wanted
        pending = watch.pending
        if pending is not None:
            still = [fd for fd in pending.ready if fd in wanted]
            if still:
                pending.ready = still
            else:
                watch.pending = None
        if not wanted:
            cell.watch = None

    def _claim(self, cell: Cell, fd: int) -> None:
        owner = self.owners.get(fd)
        if owner is cell:
            return
        if owner is not None:
            log.warning("descriptor %d was watched by %s, now by %s", fd, owner.class_name, cell.class_name)
            self.set(owner, [other for other in owner.watch.fds if other != fd] if owner.watch else ())
        try:
            self._add_reader(fd, cell)
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            log.error("%s cannot watch descriptor %r: %s", cell.class_name, fd, error)
            return
        self.owners[fd] = cell
