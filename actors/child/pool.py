"""Two threads for what may block: looking at slow disks, an exec from them, a kill of hundreds of processes.

Made when first needed, one pool a process, made anew after a fork. The threads are daemons, but a kill that has
begun is seen to its end before the process goes: what it had stopped would stay stopped for ever.
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

THREADS: Final = 2
FINISH_S: Final = 2.0
"""How long the end of the process waits for what the threads are doing, in seconds."""


class Pool:
    """Runs callables in the order of `submit`, two at a time. Unbounded: callers bound what they hand in."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._unfinished = 0
        self._finished = threading.Condition()

    def submit(self, job: Callable[[], object]) -> None:
        """`job` must not raise; what it raises nevertheless is logged."""
        with self._finished:
            self._unfinished += 1
        self._jobs.put(job)
        if len(self._threads) < THREADS:
            self._start_thread()

    def finish(self) -> bool:
        """Wait until nothing is being done, at most FINISH_S; whether that is so."""
        with self._finished:
            return self._finished.wait_for(lambda: not self._unfinished, FINISH_S)

    def _start_thread(self) -> None:
        with self._lock:
            if not self._threads:
                self._finish_at_exit()
            if len(self._threads) < THREADS:
                thread = threading.Thread(target=self._run, args=(self._jobs,), name="exec-server-spawn", daemon=True)
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
                log.exception("a job of the spawn pool failed")
            del job
            with self._finished:
                self._unfinished -= 1
                self._finished.notify_all()


def _renew() -> None:
    POOL.__init__()  # type: ignore[misc]


POOL = Pool()
os.register_at_fork(after_in_child=_renew)
