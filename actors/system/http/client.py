"""The thread that speaks HTTP for all sessions of this process.

Everything that costs time happens there: the import of the library, TLS, content codings. The thread is made with its
first user and ends with its last, and its connections with it. Nothing here blocks the caller.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import threading
from collections.abc import Callable
from typing import Any, Final

from actors.system.http.exchange import Exchange

log = logging.getLogger(__name__)


class HttpClient:
    """The exchanges of one session. `tell` is called in the thread, with a Response of `exchange`; each exchange
    ends with one ResponseWhole, ResponseEnded or ResponseFailed, unless it is aborted.
    """

    def __init__(self, tell: Callable[[Any], None]) -> None:
        self._tell = tell
        self._runner: _Runner | None = None
        self._exchanges: Any = None  # belongs to the thread

    def begin(self, exchange: Exchange) -> None:
        """Raises RuntimeError if there is no thread to be had."""
        if self._runner is None:
            self._runner = HTTP_THREAD.acquire()
        self._call("begin", exchange)

    def abort(self, number: int) -> None:
        """Nothing more is made for this exchange; what has been told may still arrive."""
        self._call("abort", number)

    def chunk_passed(self) -> None:
        self._call("chunk_passed")

    def body_passed(self, number: int) -> None:
        self._call("body_passed", number)

    def close(self) -> None:
        """Abort all; the thread ends if nobody else needs it."""
        if self._runner is not None:
            self._call("abort_all")
            self._runner = None
            HTTP_THREAD.release()

    def _call(self, method: str, *args: Any) -> None:
        if self._runner is not None:
            self._runner.loop.call_soon_threadsafe(self._called, self._runner, method, args)

    def _called(self, runner: _Runner, method: str, args: tuple[Any, ...]) -> None:
        if self._exchanges is None:
            self._exchanges = runner.exchanges(self._tell)
        getattr(self._exchanges, method)(*args)


class _Runner:
    """One thread with its loop."""

    def __init__(self) -> None:
        self.loop = asyncio.SelectorEventLoop()
        self._stopped = asyncio.Event()
        self._session: Any = None
        self._bodies: Any = None
        self.thread = threading.Thread(target=self._run, name="exec-server-http", daemon=True)
        try:
            self.thread.start()
        except RuntimeError:
            self.loop.close()
            raise

    def exchanges(self, tell: Callable[[Any], None]) -> Any:
        """In the thread, which alone waits for the import."""
        module = importlib.import_module("actors.system.http.requests")
        if self._session is None:
            self._session, self._bodies = module.open_session(), module.AllBodies()
        return module.Exchanges(self._session, self._bodies, tell)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._stopped.set)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
                runner.run(self._until_stopped())
        except Exception:
            log.exception("the thread for HTTP requests failed")

    async def _until_stopped(self) -> None:
        try:
            await self._stopped.wait()
        finally:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            if self._session is not None:
                await self._session.close()


class HttpThread:
    """Counts those who need the thread."""

    def __init__(self) -> None:
        self._make()
        os.register_at_fork(after_in_child=self._make)

    def _make(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._runner: _Runner | None = None
        self._ending: list[threading.Thread] = []

    def acquire(self) -> _Runner:
        with self._lock:
            if self._runner is None:
                self._runner = _Runner()
            self._users += 1
            return self._runner

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._runner is not None:
                runner, self._runner = self._runner, None
                self._ending = [thread for thread in self._ending if thread.is_alive()]
                self._ending.append(runner.thread)
                runner.stop()

    def join(self, timeout: float) -> bool:
        """Wait until the threads that nobody needs have ended, at most `timeout` seconds each; whether that is so."""
        for thread in self._ending:
            thread.join(timeout)
        return not any(thread.is_alive() for thread in self._ending)


HTTP_THREAD: Final = HttpThread()
