"""Which descriptors are watched for which actor."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from actors.engine.cell import Cell, Watch

log = logging.getLogger("exec_server.engine")

CANCELLED: Final[tuple[int, ...]] = ()
"""What is ready, in the message about a watch that was dropped before the message was delivered."""


class Watches:
    """A descriptor has one actor that watches it: the last to say so.

    `add_reader` and `remove_reader` are those of the driver (core.Runtime).
    """

    def __init__(self, add_reader: Callable[[int, Cell], None], remove_reader: Callable[[int], None]) -> None:
        self._add_reader = add_reader
        self._remove_reader = remove_reader
        self.owners: dict[int, Cell] = {}

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
                pending.ready = CANCELLED
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
