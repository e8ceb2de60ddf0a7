"""Set-up of the process of the server program, and what is done once a second because of it.

For the program alone: a server inside somebody else's program leaves that process as it is.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable

from actors.system.child import descendants, process_setup
from actors.system.child.cgroup import OwnCgroup, enter_own_cgroup
from actors.system.child.guardian import Guardian
from actors.system.limit_warnings import LimitWarnings
from exec_server.server import fd_usage
from exec_server.server.malloc_trim import IdleCollections, Memory, resident

log = logging.getLogger("exec_server")

SWEEP_S = 1.0
"""When it is swept again after a sweep that failed, in seconds."""
LAST_KILL_S = 2.0
"""How long the end of the server waits for what it has killed to be gone, in seconds."""
LAST_KILL_STEP_S = 0.005


class Measures:
    """The process-wide measures of one server program, from `take` to `end`."""

    def __init__(self, max_open_files: int = 0) -> None:
        """`max_open_files`: the soft limit of this process; 0: as high as may be."""
        process_setup.open_standard_descriptors()
        process_setup.close_inherited_on_exec()
        process_setup.keep_exit_statuses()
        process_setup.raise_open_files(max_open_files)
        process_setup.write_no_core_files()
        process_setup.mark_descendants()
        self._subreaper = process_setup.become_subreaper()
        process_setup.mark_descendants()
        cgroup = enter_own_cgroup()
        self._cgroup = cgroup if isinstance(cgroup, OwnCgroup) else None
        self._guardian = Guardian(self._cgroup)
        self._near = LimitWarnings()
        self._memory = Memory()
        self._collections = IdleCollections()
        self._sweeper: asyncio.TimerHandle | None = None

    def begin(self, each_second: Callable[[Callable[[], None]], None]) -> None:
        """Start the guardian and the sweeps, on the running loop, and the checks, by what is called `each_second`. What
        has been made so far stays for good.
        """
        gc.freeze()
        self._guardian.start()
        each_second(self._check)
        self._sweep()

    def _check(self) -> None:
        self._guardian.check()
        fd_usage.look(self._near)
        now = time.monotonic()
        self._memory.look(resident(), now, freed=self._collections.look(time.process_time(), now))
        descendants.reap_orphans()

    def _sweep(self) -> None:
        pause = SWEEP_S
        try:
            pause = descendants.sweep()
        finally:  # whatever went wrong is logged by the loop, and tried again
            self._sweeper = asyncio.get_running_loop().call_later(pause, self._sweep)

    async def end(self) -> None:
        """Kill whatever descends from this process, attributed or not; at most LAST_KILL_S."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        deadline = time.monotonic() + LAST_KILL_S
        while self._subreaper and (left := process_setup.kill_everything()):
            if time.monotonic() > deadline:
                log.warning("%d processes are still there after SIGKILL", left)
                break
            await asyncio.sleep(LAST_KILL_STEP_S)
        if self._cgroup is not None:
            self._cgroup.kill_and_leave()
        self._guardian.stop()
