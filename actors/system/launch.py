"""Start of a command: direct, within limits or in a sandbox; on the loop or in a thread. The one place that chooses."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from actors.system.child import Child, Execution, SpawnRequest, SpawnTicket, dispose, prepare, spawn_failure, start
from actors.system.child.limits import launched, make_group, remove_group
from actors.system.child.open_files import CHILD_OPEN_FILES
from actors.system.child.spawn import looked_at
from actors.system.child.spawn_cache import QUICK_S, SPAWN_CACHE, Key, is_fixed
from actors.system.pool import SANDBOX_POOL, START_POOL
from actors.system.sandbox.sandbox_launcher import ENVIRONMENT, SandboxLauncher
from actors.system.sandbox.spec import sandbox_spec
from protocol.errors import ExecServerError, SpawnError
from protocol.process import ResourceLimits
from protocol.sandbox import ManagedPermissions, Sandbox, to_enforce


class LaunchRequest(SpawnRequest, frozen=True, gc=False):
    """What to start, and within what. `limits` have been checked (`check_limits`) by whoever asks; a managed sandbox is
    enforced.
    """

    limits: ResourceLimits | None = None
    sandbox: Sandbox | None = None

    @property
    def permissions(self) -> ManagedPermissions | None:
        """What a sandbox is to enforce; None where there is none."""
        return to_enforce(self.sandbox)

    @property
    def direct(self) -> bool:
        """Whether the program is executed as it is; limits and sandboxes cost files and time."""
        return self.limits is None and self.permissions is None

    @property
    def key(self) -> Key:
        """What of it decides which files are looked at before the program runs."""
        return self.argv[0] if self.argv else "", self.cwd, self.env.get("PATH")


def launch(request: LaunchRequest, *, patient: bool = True) -> Child:
    """Start the command; returns when its program is being executed. Blocks for about 0.2 ms, in a sandbox some 30 ms,
    or for as long as the disk takes; up to 31 ms where the program is still open for writing, unless it is not
    `patient`.

    Raises SpawnError as `child.start` does, also with the reasons "limits" and "sandbox", or SandboxUnsupported.
    Nothing is left open or running then.
    """
    execution = prepare(request)
    if request.sandbox is not None and request.permissions is not None:
        spec = sandbox_spec(request.sandbox, request.permissions)
        return _launch_inside(SandboxLauncher(spec, execution), request)
    if not patient:
        execution = msgspec.structs.replace(execution, busy_waits=())
    return _launch_limited(execution, request)


def _launch_inside(launcher: SandboxLauncher, request: LaunchRequest) -> Child:
    child: Child | None = None
    try:
        try:
            bwrap, argv = launcher.open(CHILD_OPEN_FILES.soft)
        except OSError as error:
            raise spawn_failure(error, "descriptors", "no descriptor left for a sandbox") from None
        child = _launch_limited(Execution(bwrap, argv, ENVIRONMENT, b"/", passed=launcher.passed), request)
        launcher.close_passed()
        launcher.confirm(child)
    except BaseException:
        if child is not None:
            dispose(child)
        launcher.close()
        raise
    child.at_end = launcher.at_end(child)
    return child


def _launch_limited(execution: Execution, request: LaunchRequest) -> Child:
    if request.limits is None:
        return start(execution, request)
    group: Path | None = None
    try:
        group = make_group(request.limits)
    except OSError as error:
        raise spawn_failure(error, "limits", "no cgroup for the limits of this command") from None
    program, argv = launched(request.limits, group, execution.program, execution.argv)
    try:
        child = start(msgspec.structs.replace(execution, program=program, argv=argv), request)
    except BaseException:
        remove_group(group)
        raise
    child.group = group
    return child


def launch_at_once(request: LaunchRequest) -> Child | None:
    """`launch` for the loop, where that is sure not to block it; None: take `launch_soon`. Raises SpawnError."""
    if not request.direct or not SPAWN_CACHE.holds(request.key):
        return None
    started = time.monotonic()
    try:
        child = launch(request, patient=False)
    except SpawnError as error:
        SPAWN_CACHE.forget(request.key)
        if error.data is not None and error.data.get("errno") == errno.ETXTBSY:
            return None
        raise
    if time.monotonic() - started > QUICK_S:
        SPAWN_CACHE.forget(request.key)
    return child


def launch_soon(request: LaunchRequest, before: Callable[[], object] | None = None) -> SpawnTicket:
    """`launch` in a thread of this process, so that a slow disk holds up nobody but its own lane. Raises SpawnError
    only where there is no descriptor or no thread left. `before` runs first, in the same thread; a SpawnError
    that it raises is the result.
    """
    try:
        ticket = SpawnTicket(request.lane)
    except OSError as error:
        raise spawn_failure(error, "descriptors", "no descriptor left for an eventfd") from None
    pool = START_POOL if request.permissions is None else SANDBOX_POOL
    try:
        pool.submit(lambda: _launch_in_thread(request, before, ticket), request.lane)
    except RuntimeError as error:
        ticket.abandon()
        raise SpawnError("resourceExhausted", str(error), "threads") from None
    return ticket


def _launch_in_thread(request: LaunchRequest, before: Callable[[], object] | None, ticket: SpawnTicket) -> None:
    seconds = 0.0

    def timed() -> Child:
        nonlocal seconds
        if before is not None:
            before()
        started = time.monotonic()
        child = launch(request)
        seconds = time.monotonic() - started
        return child

    if ticket.run(timed) and request.direct and not SPAWN_CACHE.holds(request.key):
        try:
            cwd, program, *folders = looked_at(request)
        except (OSError, ExecServerError):
            return  # moved away since
        if is_fixed(program):
            SPAWN_CACHE.learn(request.key, seconds, (cwd, program, *folders))
