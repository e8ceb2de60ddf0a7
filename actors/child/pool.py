"""Two threads for what may block: looking at slow disks, an exec from them, a kill of hundreds of processes.

Made when first needed, one pool a process, made anew after a fork. The threads are daemons: nothing they do
must be finished for the process to end.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

THREADS: Final = 2


class Pool:
    """Runs callables in the order of `submit`, two at a time. Unbounded: callers bound what they hand in."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    def submit(self, job: Callable[[], object]) -> None:
        """`job` must not raise; what it raises nevertheless is logged."""
        self._jobs.put(job)
        if len(self._threads) < THREADS:
            self._start_thread()

    def _start_thread(self) -> None:
        with self._lock:
            if len(self._threads) < THREADS:
                thread = threading.Thread(target=self._run, args=(self._jobs,), name="exec-server-spawn", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    if not self._threads:
                        raise
                    return  # no more threads to be had; one will do
                self._threads.append(thread)

    @staticmethod
    def _run(jobs: queue.SimpleQueue[Callable[[], object]]) -> None:
        while True:
            job = jobs.get()
            try:
                job()
            except Exception:
                log.exception("a job of the spawn pool failed")
            del job


def _renew() -> None:
    POOL.__init__()  # type: ignore[misc]


POOL = Pool()
os.register_at_fork(after_in_child=_renew)
