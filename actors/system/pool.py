"""Thread pools for what may block: a slow disk, an exec from it, a kill of hundreds of processes.

A call into the kernel that hangs, because a network disk has gone away, cannot be given up, and keeps its thread. So no
pool is ever full of such: jobs are handed in by lanes (one for each session), a lane has a few threads at most, lanes
take turns, and a pool in which nothing begins although a job waits gets one thread more.

Threads are made when first needed, and anew after a fork. They are daemons, but what has begun is seen to its end
before the process goes: what a kill had stopped would stay stopped for ever, and a file would be half written.
"""

from __future__ import annotations

import atexit
import logging
import os
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final

log = logging.getLogger(__name__)

FINISH_S: Final = 2.0
"""How long the end of the process waits for what the threads are doing, in seconds."""
STALL_S: Final = 0.01
"""How long a job waits while no other begins, before there is a thread more for it, in seconds."""
LANE_SIZE: Final = 8
"""Jobs of one lane that are carried out at a time."""
MOST_THREADS: Final = 1024
"""Threads of one pool, when all others hang."""

Job = Callable[[], object]


class _Lane:
    """The jobs that may wait for each other."""

    __slots__ = ("jobs", "key", "queued", "running", "size")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.size = MOST_THREADS if key is None else LANE_SIZE
        self.jobs: deque[Job] = deque()
        self.running = 0
        self.queued = False
        """Whether its turn is in the queue: once at most, so that each lane has its turn after every other."""


class Pool:
    """Runs callables, those of one lane in the order of `submit`, `size` at a time and more while these hang.

    Unbounded: callers bound what they hand in.
    """

    def __init__(self, size: int, name: str, *, grows: bool = True) -> None:
        """`grows=False`: never more than `size` threads, whatever hangs."""
        self.size = size
        self.grows = grows
        self._name = name
        self._make()
        os.register_at_fork(after_in_child=self._make)

    def _make(self) -> None:
        self._lock = threading.Lock()
        self._turns: queue.SimpleQueue[_Lane] = queue.SimpleQueue()
        self._lanes: dict[Hashable, _Lane] = {}
        self._threads: set[threading.Thread] = set()
        self._watcher: threading.Thread | None = None
        self._somebody_waits = threading.Event()
        self._running = 0
        self._begun = 0
        self._unfinished = 0
        self._finished = threading.Condition(self._lock)

    @property
    def resting(self) -> int:
        """The most threads that it keeps when it has nothing to do."""
        return self.size + self.grows

    def submit(self, job: Job, lane: Hashable = None) -> None:
        """Have a job done, of `lane` or of none. It must not raise; what it raises nevertheless is logged.

        Raises RuntimeError, and has nothing to do with the job, where there is no thread and none can be started.
        """
        if len(self._threads) < self.size:
            self._start_thread(self.size)
        with self._lock:
            self._unfinished += 1
            entry = self._lanes.get(lane)
            if entry is None:
                entry = self._lanes[lane] = _Lane(lane)
            entry.jobs.append(job)
            self._queue(entry)
            somebody_waits = self._unfinished > len(self._threads)
        if somebody_waits and self.grows and self._watcher is None:
            self._start_watcher()

    def start(self) -> None:
        """Have one thread from now on, so that `submit` never fails. Raises RuntimeError if none can be started."""
        if not self._threads:
            self._start_thread(1)

    def finish(self) -> bool:
        """Wait until nothing is being done, at most FINISH_S; whether that is so."""
        with self._finished:
            return self._finished.wait_for(lambda: not self._unfinished, FINISH_S)

    # -- lanes, under the lock ------------------------------------------------------------------------------------

    def _queue(self, lane: _Lane) -> None:
        if lane.jobs and not lane.queued and lane.running < lane.size:
            lane.queued = True
            self._turns.put(lane)
            if self._unfinished > len(self._threads):
                self._somebody_waits.set()

    def _take(self, lane: _Lane) -> Job:
        job = lane.jobs.popleft()
        lane.queued = False
        lane.running += 1
        self._running += 1
        self._begun += 1
        self._queue(lane)
        return job

    def _done(self, lane: _Lane) -> None:
        lane.running -= 1
        self._running -= 1
        self._queue(lane)
        if not lane.running and not lane.jobs:
            del self._lanes[lane.key]
        self._unfinished -= 1
        if not self._unfinished:
            self._finished.notify_all()

    # -- threads --------------------------------------------------------------------------------------------------

    def _start_thread(self, most: int) -> None:
        with self._lock:
            if not self._threads:
                self._finish_at_exit()
            if len(self._threads) < most:
                thread = threading.Thread(target=self._run, args=(self._turns,), name=self._name, daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    if not self._threads:
                        raise
                    return  # no more threads to be had; one will do
                self._threads.add(thread)

    def _finish_at_exit(self) -> None:
        if "multiprocessing.util" in sys.modules:  # whose processes do not run what is registered with atexit
            sys.modules["multiprocessing.util"].Finalize(None, self.finish, exitpriority=0)
        atexit.unregister(self.finish)
        atexit.register(self.finish)

    def _run(self, turns: queue.SimpleQueue[_Lane]) -> None:
        while True:
            lane = turns.get()
            with self._lock:
                job = self._take(lane)
            try:
                job()
            except Exception:
                log.exception("a job of %s failed", self._name)
            del job
            with self._lock:
                self._done(lane)
                if len(self._threads) - self._running > self.size:  # those that hung go on, and this one is too many
                    self._threads.discard(threading.current_thread())
                    return
            del lane

    # -- growth ---------------------------------------------------------------------------------------------------

    def _start_watcher(self) -> None:
        with self._lock:
            if self._watcher is None:
                watcher = threading.Thread(target=self._grow, name=f"{self._name}-watcher", daemon=True)
                try:
                    watcher.start()
                except RuntimeError:
                    return  # no more threads to be had, for a job neither
                self._watcher = watcher

    def _grow(self) -> None:
        turns, somebody_waits = self._turns, self._somebody_waits
        while True:
            somebody_waits.wait()
            somebody_waits.clear()
            while turns.qsize():
                begun = self._begun
                time.sleep(STALL_S)
                if self._begun == begun and turns.qsize():
                    self._start_thread(MOST_THREADS)


START_POOL: Final = Pool(2, "exec-server-start")
"""For starts."""
SANDBOX_POOL: Final = Pool(4, "exec-server-sandbox")
"""For starts in a sandbox, which take tens of milliseconds each, and what comes at their end."""
KILL_POOL: Final = Pool(1, "exec-server-kill")
"""For kills, and what else waits for processes or cgroups. No job of it waits for a disk."""
RECORDING_POOL: Final = Pool(1, "exec-server-recording")
"""For writing recordings."""
FILE_POOL: Final = Pool(16, "exec-server-files")
"""For the file requests of clients."""
