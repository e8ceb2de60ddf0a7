"""Our own standard streams, for a loop that must not block on them, and without making them non-blocking: others share
them.
"""

from __future__ import annotations

import asyncio
import errno
import os
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from exec_server.standard_fds import write_all

READ = 1 << 16

T = TypeVar("T")


class Worker:
    """A thread for one call at a time that may block for ever; the program ends all the same."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[tuple[Callable[[], object], asyncio.Future[object]]] = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    async def call(self, job: Callable[[], T]) -> T:
        """What `job` returns or raises. If this is cancelled the call goes on, and its result is dropped."""
        future: asyncio.Future[object] = self._loop.create_future()
        self._jobs.put((job, future))
        return await future  # type: ignore[return-value]

    def _work(self) -> None:
        while True:
            job, future = self._jobs.get()
            result, error = None, None
            try:
                result = job()
            except Exception as raised:
                error = raised
            try:
                self._loop.call_soon_threadsafe(_settle, future, result, error)
            except RuntimeError:
                return  # the loop is over


def _settle(future: asyncio.Future[object], result: object, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class DescriptorReader:
    """Reads a descriptor when it is asked to, so that whoever writes to it waits for us."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._worker: Worker | None = None

    async def read(self) -> bytes:
        """Up to 64 KiB as soon as there are any; `b""` at the end, also of a terminal that is gone or a descriptor that
        was closed before we began.
        """
        try:
            if self._worker is None:
                try:
                    await readable(self._fd)
                    return os.read(self._fd, READ)
                except PermissionError:
                    self._worker = Worker()  # a regular file cannot be polled
            return await self._worker.call(lambda: os.read(self._fd, READ))
        except BlockingIOError:
            return await self.read()  # somebody else was faster
        except OSError as error:
            if error.errno in (errno.EIO, errno.EBADF):
                return b""
            raise


async def readable(fd: int) -> None:
    """Wait until reading does not block. Raises PermissionError for what cannot be polled."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[object] = loop.create_future()
    loop.add_reader(fd, _settle, ready, None, None)
    try:
        await ready
    finally:
        loop.remove_reader(fd)


class DescriptorWriter:
    """Writes to descriptors in a thread, one piece at a time."""

    def __init__(self) -> None:
        self._worker = Worker()

    async def write(self, fd: int, data: bytes) -> None:
        """Write all of it. Raises BrokenPipeError and other OSErrors."""
        await self._worker.call(lambda: write_all(fd, data))
