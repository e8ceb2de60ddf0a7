"""Start a command on pipes or on a terminal, and say what was wrong where that fails (docs/protocol.md,
"process/start").
"""

from __future__ import annotations

import errno
import logging
import os
import resource
import select
import signal
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from actors.system.child.child import Child, ExitStatus
from actors.system.child.environment import BY_EFFECTIVE_ID, find_program
from actors.system.child.limits import launched, make_group, remove_group
from actors.system.child.posix_spawn import Stdio, posix_spawn
from actors.system.child.process_cookie import COOKIES
from actors.system.child.spawn_cache import QUICK_S, SPAWN_CACHE, Key
from actors.system.child.table import CHILDREN
from actors.system.pool import SANDBOX_POOL, START_POOL
from actors.system.sandbox.enclosure import enclosure
from actors.system.sandbox.entrance import ENVIRONMENT, Entrance
from protocol.errors import ExecServerError, SpawnError
from protocol.process import ResourceLimits
from protocol.sandbox import Sandbox, to_enforce

log = logging.getLogger(__name__)

__all__ = ["Child", "ExitStatus", "SpawnRequest", "SpawnTicket", "spawn", "spawn_at_once", "spawn_soon"]

_BUSY_WAITS: Final = (0.001, 0.002, 0.004, 0.008, 0.016)
"""Seconds between tries while the program is open for writing (ETXTBSY): a script that was just written."""
_DISPOSAL_WAIT_MS: Final = 5000
_LONGEST_STRING: Final = 131072
"""MAX_ARG_STRLEN of execve(2), with the terminating NUL."""


class SpawnRequest(msgspec.Struct, frozen=True, gc=False):
    """What to start. `cwd` is an absolute native path; `env` is exact; `arg0` is what the child sees as
    argv[0].

    `pipe_stdin` without a terminal: a pipe instead of /dev/null. `rows` and `cols` are the terminal's, 1 to
    65535. `limits` have been checked (`check_limits`) by whoever asks.
    """

    argv: list[str]
    cwd: str
    env: dict[str, str]
    tty: bool = False
    pipe_stdin: bool = False
    rows: int = 24
    cols: int = 80
    arg0: str | None = None
    limits: ResourceLimits | None = None
    sandbox: Sandbox | None = None
    """A managed one is enforced."""
    pass_fds: tuple[int, ...] = ()
    """Descriptors of this process, above 2, that the child has under the same numbers."""
    lane: str | None = None
    """Whose starts it may wait for (see `actors.system.pool`): those of its session, which may have a disk that hangs.
    """

    @property
    def plain(self) -> bool:
        """Whether the program is executed as it is; limits and sandboxes cost files and time."""
        return self.limits is None and to_enforce(self.sandbox) is None

    @property
    def key(self) -> Key:
        """What of it decides which files are looked at before the program runs."""
        return self.argv[0] if self.argv else "", self.cwd, self.env.get("PATH")


class _Limits:
    child_open_files: int | None = None


def set_child_open_files(soft: int | None) -> None:
    """The soft limit of open files that children get, where this process has raised its own."""
    _Limits.child_open_files = soft


def spawn(request: SpawnRequest, *, patient: bool = True) -> Child:
    """Start the command; returns when its program is being executed. Blocks for about 0.2 ms, or for as long
    as the disk takes; up to 31 ms where the program is still open for writing, unless it is not `patient`.

    The program is looked for as execvp(3) does, in the child's PATH if `env` has one, else in this process's;
    a file without `#!` that the kernel cannot execute is run by /bin/sh, likewise.

    Raises SpawnError with a kind, `data.reason` - "argv", "env", "arg0", "cwd", "program", "interpreter",
    "size", "descriptors", "processes", "memory", "terminal", "sandbox" - and the `path` at fault; or
    SandboxUnsupported. Nothing is left open or running then.

    In a managed sandbox: returns when the command is being executed inside, which takes some 30 ms.
    """
    argv, env, cwd = _encoded(request)
    _check_passed(request.pass_fds)
    CHILDREN.reap_left()
    _check_cwd(cwd)
    program = _look_up(request, argv[0], cwd)
    if request.arg0 is not None:
        argv[0] = _encode(request.arg0, "arg0", request.tty)
    permissions = to_enforce(request.sandbox)
    if request.sandbox is not None and permissions is not None:
        entrance = Entrance(enclosure(request.sandbox, permissions), program, argv, env, cwd)
        return _spawn_inside(entrance, request)
    return _spawn_limited(_Execution(program, argv, env, cwd, _BUSY_WAITS if patient else ()), request)


def _spawn_inside(entrance: Entrance, request: SpawnRequest) -> Child:
    """Start the command in its sandbox. Raises SpawnError."""
    child: Child | None = None
    try:
        try:
            bwrap, argv = entrance.open(_Limits.child_open_files)
        except OSError as error:
            raise _failure(error, "descriptors", "no descriptor left for a sandbox") from None
        child = _spawn_limited(_Execution(bwrap, argv, ENVIRONMENT, b"/", passed=entrance.passed), request)
        entrance.close_passed()
        entrance.confirm(child)
    except BaseException:
        if child is not None:
            _dispose(child)
        entrance.close()
        raise
    child.at_end = entrance.at_end(child)
    return child


def _spawn_limited(execution: _Execution, request: SpawnRequest) -> Child:
    group: Path | None = None
    if request.limits is not None:
        try:
            group = make_group(request.limits)
        except OSError as error:
            raise _failure(error, "limits", "no cgroup for the limits of this command") from None
        program, argv = launched(request.limits, group, execution.program, execution.argv)
        execution = msgspec.structs.replace(execution, program=program, argv=argv)
    start = _start_on_terminal if request.tty else _start_on_pipes
    try:
        child = start(execution, request)
    except BaseException:
        remove_group(group)
        raise
    child.group = group
    if _Limits.child_open_files is not None:
        _restore_open_files(child.pid, _Limits.child_open_files)
    return child


def _encoded(request: SpawnRequest) -> tuple[list[bytes], list[bytes], bytes]:
    tty = request.tty
    if not request.argv:
        raise SpawnError("spawnFailed", "argv must not be empty", "argv")
    if not request.argv[0]:
        raise SpawnError("spawnFailed", f"missing program for {'PTY' if tty else 'pipe'} spawn", "program")
    argv = [_encode(item, "argv", tty) for item in request.argv]
    env = [_encode(f"{name}={value}", "env", tty) for name, value in request.env.items()]
    return argv, env, _encode(request.cwd, "cwd", tty)


def _encode(text: str, reason: str, tty: bool) -> bytes:
    """UTF-8 whatever the server's locale; surrogate escapes are the bytes they stand for."""
    if "\0" in text:
        message = "data provided contains a nul byte" if reason == "env" else "nul byte found in provided data"
        raise SpawnError("spawnFailed", message, reason)
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise SpawnError("spawnFailed", f"{reason} contains a lone surrogate", reason) from None


def _check_passed(descriptors: tuple[int, ...]) -> None:
    for fd in descriptors:
        try:
            if fd <= 2:
                raise OSError(errno.EBADF, "")
            os.fstat(fd)
        except OSError as error:
            raise _failure(error, "descriptors", f"pass_fds: {fd} is no open descriptor above 2") from None


def _check_cwd(cwd: bytes) -> None:
    try:
        if not stat.S_ISDIR(os.stat(cwd).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "")
        if not os.access(cwd, os.X_OK, effective_ids=BY_EFFECTIVE_ID):
            raise PermissionError(errno.EACCES, "")
    except OSError as error:
        path = os.fsdecode(cwd)
        raise _failure(error, "cwd", f"cwd {path}", path=path) from None


def _look_up(request: SpawnRequest, name: bytes, cwd: bytes) -> bytes:
    shown = request.argv[0]
    path = request.env.get("PATH")
    searched = os.environ.get("PATH", os.defpath) if path is None else path
    where = "the server's PATH" if path is None else f'PATH "{path}"'
    try:
        return find_program(name, cwd, searched.encode("utf-8", "surrogateescape"))
    except OSError as error:
        if b"/" in name:
            raise _failure(error, "program", f"program {shown}", path=shown) from None
        if request.tty and error.errno == errno.ENOENT:
            message = f"Unable to spawn {shown} because:\nNo viable candidates found in {where}"
            raise SpawnError("spawnFailed", message, "program", path=shown, errno=errno.ENOENT) from None
        raise _failure(error, "program", f"program {shown} in {where}", path=shown) from None


class _Execution(msgspec.Struct, frozen=True):
    """What the kernel is asked to execute."""

    program: bytes
    argv: list[bytes]
    env: list[bytes]
    cwd: bytes
    busy_waits: tuple[float, ...] = _BUSY_WAITS
    passed: tuple[int, ...] = ()
    """The descriptors of a sandbox's entrance (see `Stdio`)."""

    def start(self, stdio: Stdio) -> int:
        """The pid. ETXTBSY is waited out; ENOEXEC goes to the shell, as with execvp(3). Raises SpawnError."""
        for wait in (*self.busy_waits, None):
            try:
                return posix_spawn(self.program, self.argv, self.env, self.cwd, stdio)
            except OSError as error:
                if error.errno == errno.ENOEXEC and self.program != _SHELL:
                    argv = [_SHELL, self.program, *self.argv[1:]]
                    return msgspec.structs.replace(self, program=_SHELL, argv=argv).start(stdio)
                if error.errno != errno.ETXTBSY or wait is None:
                    raise self._explained(error, stdio) from None
            time.sleep(wait)
        raise AssertionError("unreachable")

    def _explained(self, error: OSError, stdio: Stdio) -> SpawnError:
        """posix_spawn(3) has one errno for all that can fail; what it was is found out by looking again."""
        program = os.fsdecode(self.program)
        match error.errno:
            case errno.E2BIG:
                longest = max(map(len, self.argv + self.env)) + 1
                total = sum(map(len, self.argv + self.env)) + len(self.argv) + len(self.env)
                detail = f"argv and env have {total} bytes, the longest {longest} of {_LONGEST_STRING}"
                return _failure(error, "size", detail, bytes=total, longest=longest)
            case errno.EAGAIN:
                return _failure(error, "processes", "no more processes may be started")
            case errno.EMFILE | errno.ENFILE:
                return _failure(error, "descriptors", "no descriptor left")
            case errno.ENOMEM:
                return _failure(error, "memory", "no memory left")
            case errno.ETXTBSY:
                return _failure(error, "program", f"program {program} is open for writing", path=program)
            case errno.ENOENT | errno.EACCES | errno.ENOTDIR | errno.EIO | errno.ENXIO:
                return self._missing(error, stdio)
        return _failure(error, "program", f"program {program}", path=program)

    def _missing(self, error: OSError, stdio: Stdio) -> SpawnError:
        program, terminal = os.fsdecode(self.program), stdio.terminal
        try:
            _check_cwd(self.cwd)
        except SpawnError as cwd_error:
            return cwd_error
        if terminal is not None and not os.access(terminal, os.R_OK | os.W_OK):
            return _failure(error, "terminal", f"terminal {os.fsdecode(terminal)}", path=os.fsdecode(terminal))
        if error.errno == errno.ENOENT and os.path.exists(os.path.join(self.cwd, self.program)):
            return _failure(error, "interpreter", f"the interpreter that {program} names", path=program)
        return _failure(error, "program", f"program {program}", path=program)


_SHELL: Final = b"/bin/sh"


def _start_on_pipes(execution: _Execution, request: SpawnRequest) -> Child:
    ours: list[int] = []
    theirs: list[int] = []
    try:
        try:
            for wanted, reading in ((request.pipe_stdin, False), (True, True), (True, True)):
                if wanted:
                    reader, writer = os.pipe()
                    mine, other = (reader, writer) if reading else (writer, reader)
                    ours.append(mine)
                    theirs.append(other)
                    os.set_blocking(mine, False)
                else:
                    theirs.append(-1)
        except OSError as error:
            raise _failure(error, "descriptors", "no descriptor left for a pipe") from None
        with CHILDREN.spawning():
            stdio = Stdio((theirs[0], theirs[1], theirs[2]), passed=execution.passed, kept=request.pass_fds)
            pid = execution.start(stdio)
            _close(theirs)  # which leaves room for the pidfd
            *stdin, stdout, stderr = ours
            return _enter(pid, request, stdin=stdin[0] if stdin else None, stdout=stdout, stderr=stderr)
    except BaseException:
        _close(theirs)
        _close(ours)
        raise


def _start_on_terminal(execution: _Execution, request: SpawnRequest) -> Child:
    from actors.system.child.terminal import open_master  # ptyprocess is loaded when the first terminal is asked for

    open_now: list[int] = []
    try:
        try:
            master, name = open_master(request.rows, request.cols)
            open_now.append(master)
            place = [os.dup(master)]  # keeps a number free for the pidfd
            open_now += place
        except OSError as error:
            raise _no_terminal(error) from None
        with CHILDREN.spawning():
            pid = execution.start(Stdio(terminal=name, passed=execution.passed, kept=request.pass_fds))
            open_now.remove(place[0])
            _close(place)
            return _enter(pid, request, master=master)
    except BaseException:
        _close(open_now)
        raise


def _no_terminal(error: OSError) -> SpawnError:
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return _failure(error, "descriptors", "no descriptor left for a terminal")
    if error.errno == errno.ENOSPC:
        return _failure(error, "terminal", "no terminal left (/proc/sys/kernel/pty/max)")
    return _failure(error, "terminal", "cannot open /dev/ptmx", path="/dev/ptmx")


def _enter(
    pid: int,
    request: SpawnRequest,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    master: int | None = None,
) -> Child:
    """The Child of a process that runs, in the table. Where even that fails the process is killed."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError as error:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise _failure(error, "descriptors", "no descriptor left to watch the child") from None
    with CHILDREN.lock:  # a process that has a cookie of its own is either in the table or an orphan
        child = Child(pid, pidfd, stdin, stdout, stderr, master, COOKIES.assign(pid))
        child.lane = request.lane
        CHILDREN.add(pid, child)
    return child


def _restore_open_files(pid: int, soft: int) -> None:
    """Children get the soft limit that this process began with. They run already: one that asks within its
    first microseconds, before its libraries are loaded, would still see ours.
    """
    try:
        hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
        if hard == resource.RLIM_INFINITY or soft <= hard:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
    except (ProcessLookupError, PermissionError):
        return  # over already, or a set-uid program, whose limits are not ours to set


def _failure(error: OSError, reason: str, detail: str, **data: Any) -> SpawnError:
    plain = SpawnError.from_errno(error.errno or 0, reason)
    assert plain.data is not None
    return SpawnError(plain.data["kind"], f"{plain.message}: {detail}", reason, errno=error.errno, **data)


def _close(descriptors: list[int]) -> None:
    while descriptors:
        fd = descriptors.pop()
        if fd >= 0:
            os.close(fd)


class SpawnTicket:
    """A spawn under way in a thread. `fileno` becomes readable when it is over; unregister it, then call
    `result`.
    """

    __slots__ = ("_abandoned", "_before", "_child", "_error", "_eventfd", "_lane", "_lock", "_over", "_request")

    def __init__(self, request: SpawnRequest, before: Callable[[], object] | None = None) -> None:
        self._request: SpawnRequest | None = request
        self._lane = request.lane
        self._before = before
        self._lock = threading.Lock()
        self._eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._over = False
        self._abandoned = False
        self._child: Child | None = None
        self._error: ExecServerError | None = None

    def fileno(self) -> int:
        """The eventfd; -1 once the ticket is used up."""
        return self._eventfd

    def result(self) -> Child:
        """The child, which is the caller's from now on; closes the eventfd. Raises what `spawn` did where there is
        none, and RuntimeError before the spawn is over, or on a ticket that is used up.
        """
        with self._lock:
            if not self._over or self._eventfd < 0:
                raise RuntimeError("the spawn is not over, or its result has been taken")
            self._close_eventfd()
            child, self._child = self._child, None
        if child is None:
            raise self._error or RuntimeError("a spawn without a result")
        return child

    def abandon(self) -> None:
        """Nobody wants the child any more: whatever comes of it is killed, reaped and closed. Does nothing on
        a ticket that is used up.
        """
        with self._lock:
            self._abandoned = True
            if self._eventfd < 0:
                return
            self._close_eventfd()
            child, self._child = self._child, None
        if child is not None:
            START_POOL.submit(lambda: _dispose(child), self._lane)

    def _run(self) -> None:
        request, self._request = self._request, None
        if self._abandoned or request is None:
            return
        child: Child | None = None
        seconds = 0.0
        try:
            if self._before is not None:
                self._before()
            started = time.monotonic()
            child = spawn(request)
            seconds = time.monotonic() - started
        except ExecServerError as error:
            self._error = error
        except Exception as error:
            log.exception("spawn failed in an unexpected way")
            self._error = SpawnError("spawnFailed", f"{type(error).__name__}: {error}")
        self._hand_over(child)
        if child is not None:
            _learn(request, seconds)

    def _hand_over(self, child: Child | None) -> None:
        with self._lock:
            self._over = True
            if not self._abandoned:
                self._child = child
                os.eventfd_write(self._eventfd, 1)
                return
        if child is not None:
            _dispose(child)

    def _close_eventfd(self) -> None:
        os.close(self._eventfd)
        self._eventfd = -1


def _learn(request: SpawnRequest, seconds: float) -> None:
    """In a thread: whether the next such start may go without one."""
    if request.plain and not SPAWN_CACHE.holds(request.key):
        try:
            places = _looked_at(request)
        except OSError:
            return  # moved away since
        SPAWN_CACHE.learn(request.key, seconds, places)


def _looked_at(request: SpawnRequest) -> list[bytes]:
    """The places on the disk that a start looks at: the directory, the program, and where that was looked for."""
    argv, _, cwd = _encoded(request)
    name, path = argv[0], request.env.get("PATH")
    searched = (os.environ.get("PATH", os.defpath) if path is None else path).encode("utf-8", "surrogateescape")
    found = os.path.join(cwd, find_program(name, cwd, searched))
    places = [cwd, found]
    if b"/" not in name:
        folders = [os.path.join(cwd, folder) for folder in searched.split(b":")]
        places += [folder for folder in folders if os.path.isdir(folder)]
    return places


def spawn_at_once(request: SpawnRequest) -> Child | None:
    """`spawn` for the loop, where that is sure not to block it; None: take `spawn_soon`. Raises SpawnError."""
    if not request.plain or not SPAWN_CACHE.holds(request.key):
        return None
    started = time.monotonic()
    try:
        child = spawn(request, patient=False)
    except SpawnError as error:
        SPAWN_CACHE.forget(request.key)
        if error.data is not None and error.data.get("errno") == errno.ETXTBSY:
            return None
        raise
    if time.monotonic() - started > QUICK_S:
        SPAWN_CACHE.forget(request.key)
    return child


def spawn_soon(request: SpawnRequest, before: Callable[[], object] | None = None) -> SpawnTicket:
    """`spawn` in a thread of this process, so that a slow disk holds up nobody but its own lane. Raises SpawnError
    only where there is no descriptor or no thread left. `before` runs first, in the same thread; a SpawnError
    that it raises is the result.
    """
    try:
        ticket = SpawnTicket(request, before)
    except OSError as error:
        raise _failure(error, "descriptors", "no descriptor left for an eventfd") from None
    try:
        pool = START_POOL if to_enforce(request.sandbox) is None else SANDBOX_POOL
        pool.submit(ticket._run, request.lane)
    except RuntimeError as error:
        ticket.abandon()
        raise SpawnError("resourceExhausted", str(error), "threads") from None
    return ticket


def _dispose(child: Child) -> None:
    """In a thread: the end of a child that nobody waits for."""
    child.kill_tree()
    ending = select.poll()
    ending.register(child.pidfd, select.POLLIN)
    if ending.poll(_DISPOSAL_WAIT_MS):
        child.reap()
    child.release()
