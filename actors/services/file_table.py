"""What a connection has open and what it watches: handles, each with the requests about it in order, and watches."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from threading import Lock

from actors.base.messages import Address, Call
from actors.system.filesystem.handles import FileHandle
from actors.system.filesystem.watching import Watch
from actors.system.pool import FILE_POOL
from protocol.errors import ExecServerError
from protocol.filesystem import CloseParams, OpenParams, WriteBlockParams

log = logging.getLogger("exec_server.files")

MAX_HANDLES = 128
"""Open handles of a connection (docs/protocol.md, "fs/open")."""


class HandleQueue:
    """One handle id, and the requests about it that wait for those before them."""

    def __init__(self, table: FileTable, handle_id: str) -> None:
        self.table = table
        self.handle = FileHandle(handle_id)
        self.waiting: deque[Call] = deque()
        self.queued = False
        """Whether it waits for its turn, or a request about it is carried out."""
        self.counted = False
        """Whether it is one of MAX_HANDLES."""
        self.granted = False
        """Whether it is counted among the handles of all sessions."""
        self._lock = Lock()
        self._busy = False
        self._abandoned = False

    def begin(self) -> None:
        """A thread is about to use the handle."""
        with self._lock:
            self._busy = True

    def finish(self) -> None:
        """That thread is done with it; called there."""
        with self._lock:
            self._busy = False
            abandoned = self._abandoned
        if abandoned:
            self._finish_off()

    def keep_changes(self) -> None:
        """Nobody hears the answers any more: forget what only reads."""
        self.waiting = deque(call for call in self.waiting if _changes(call))

    def abandon(self) -> None:
        """Carry out what waits and changes something, then close: in a thread, after what is carried out now."""
        self.keep_changes()
        with self._lock:
            self._abandoned = True
            busy = self._busy
        if not busy:
            FILE_POOL.submit(self._finish_off)

    def _finish_off(self) -> None:
        for call in self.waiting:
            try:
                self.handle.carry_out(call.params)  # type: ignore[arg-type]  # only such are sent to a handle
            except ExecServerError as error:
                log.info("%s after the end of its session failed: %s", call.params.METHOD, error.message)
        try:
            self.handle.close()
        except ExecServerError as error:
            log.warning("closing a file failed: %s", error.message)


class FileTable:
    """The handles and watches of one connection; they end with it."""

    def __init__(self, on_closed: Callable[[], object]) -> None:
        """`on_closed` is called for each handle that was `granted`, when it is closed or about to be."""
        self._on_closed = on_closed
        self.watches: dict[int, tuple[Watch, Address]] = {}
        """With the bridge that is to be told."""
        self.looking = False
        self.is_retired = False
        self._lanes: dict[str, HandleQueue] = {}
        self._open = 0

    @property
    def is_empty(self) -> bool:
        return not self._lanes

    def lane(self, handle_id: str) -> HandleQueue:
        """The lane of this handle id, which is made if there is none."""
        lane = self._lanes.get(handle_id)
        if lane is None:
            lane = self._lanes[handle_id] = HandleQueue(self, handle_id)
        return lane

    def admit(self, lane: HandleQueue) -> bool:
        """Whether one more handle may be opened; it is counted then."""
        if not lane.counted:
            if self._open == MAX_HANDLES:
                return False
            self._open += 1
            lane.counted = True
        return True

    def settle(self, lane: HandleQueue) -> None:
        """After a request about this handle: count it no more if it is closed, forget it if nothing waits for it."""
        if self.is_retired and not lane.queued and lane.handle.fd is not None:
            lane.abandon()
            self._let_go(lane)
        elif lane.handle.fd is None and lane.counted:
            lane.counted = False
            self._open -= 1
            self._let_go(lane)
        if not lane.queued and (lane.handle.fd is None or self.is_retired):
            self._lanes.pop(lane.handle.id, None)

    def _let_go(self, lane: HandleQueue) -> None:
        if lane.granted:
            lane.granted = False
            self._on_closed()

    def retire(self) -> None:
        """The connection is gone: handles are closed after the writes to them that arrived, watches end now."""
        self.is_retired = True
        self.watches.clear()
        for lane in list(self._lanes.values()):
            lane.keep_changes()
            if not lane.queued:
                self.settle(lane)

    def abandon(self) -> None:
        """As `retire`, where there is no actor any more to see to it."""
        self.watches.clear()
        for lane in self._lanes.values():
            lane.abandon()
        self._lanes.clear()


def _changes(call: Call) -> bool:
    params = call.params
    return isinstance(params, (WriteBlockParams, CloseParams)) or (
        isinstance(params, OpenParams) and params.mode == "replace"
    )
