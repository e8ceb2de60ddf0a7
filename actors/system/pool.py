"""Threads for what may block: slow disks, an exec from them, a kill of hundreds of processes.

They are made when first needed, and anew after a fork. The threads are daemons, but what has begun is seen to its end
before the process goes: what a kill had stopped would stay stopped for ever, and a file would be half written.
"""

from __future__ import annotations

import atexit
import logging
import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

FINISH_S: Final = 2.0
"""How long the end of the process waits for what the threads are doing, in seconds."""


class Pool:
    """Runs callables in the order of `submit`, `size` at a time. Unbounded: callers bound what they hand in."""

    def __init__(self, size: int, name: str) -> None:
        self.size = size
        self._name = name
        self._make()
        os.register_at_fork(after_in_child=self._make)

    def _make(self) -> None:
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._unfinished = 0
        self._finished = threading.Condition()

    def submit(self, job: Callable[[], object]) -> None:
        """`job` must not raise; what it raises nevertheless is logged.

        Raises RuntimeError, and has nothing to do with the job, where there is no thread and none can be started.
        """
        if len(self._threads) < self.size:
            self._start_thread()
        with self._finished:
            self._unfinished += 1
        self._jobs.put(job)

    def start(self) -> None:
        """Have one thread from now on, so that `submit` never fails. Raises RuntimeError if none can be started."""
        if not self._threads:
            self._start_thread()

    def finish(self) -> bool:
        """Wait until nothing is being done, at most FINISH_S; whether that is so."""
        with self._finished:
            return self._finished.wait_for(lambda: not self._unfinished, FINISH_S)

    def _start_thread(self) -> None:
        with self._lock:
            if not self._threads:
                self._finish_at_exit()
            if len(self._threads) < self.size:
                thread = threading.Thread(target=self._run, args=(self._jobs,), name=self._name, daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    if not self._threads:
                        raise
                    return  # no more threads to be had; one will do
                self._threads.append(thread)

    def _finish_at_exit(self) -> None:
        if "multiprocessing.util" in sys.modules:  # whose processes do not run what is registered with atexit
            sys.modules["multiprocessing.util"].Finalize(None, self.finish, exitpriority=0)
        atexit.unregister(self.finish)
        atexit.register(self.finish)

    def _run(self, jobs: queue.SimpleQueue[Callable[[], object]]) -> None:
        while True:
            job = jobs.get()
            try:
                job()
            except Exception:
                log.exception("a job of %s failed", self._name)
            del job
            with self._finished:
                self._unfinished -= 1
                self._finished.notify_all()


SPAWN_POOL: Final = Pool(2, "exec-server-spawn")
"""For starting and killing children."""
SANDBOX_POOL: Final = Pool(4, "exec-server-sandbox")
"""For starts in a sandbox, which take tens of milliseconds each, and what comes at their end."""
FILE_POOL: Final = Pool(16, "exec-server-files")
"""For the file requests of clients. A session has a few of these threads at most, so that a disk that hangs for one
leaves some to others."""
