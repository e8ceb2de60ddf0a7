"""Direct start of a command on pipes or on a terminal, and what was wrong where that fails (docs/protocol.md,
"process/start").
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import time
from typing import Final

import msgspec

from actors.system.child.child import Child
from actors.system.child.environment import BY_EFFECTIVE_ID, MAX_STRING, find_program
from actors.system.child.open_files import CHILD_OPEN_FILES
from actors.system.child.posix_spawn import Stdio, posix_spawn
from actors.system.child.process_cookie import COOKIES
from actors.system.child.spawn_failure import spawn_failure
from actors.system.child.table import CHILDREN
from protocol.errors import SpawnError

BUSY_WAITS: Final = (0.001, 0.002, 0.004, 0.008, 0.016)
"""Seconds between tries while the program is open for writing (ETXTBSY): a script that was just written."""


_MOST_STRINGS: Final = 6 << 20
"""Bytes of argv and env that execve(2) takes at most, whatever the limit of the stack (_STK_LIM / 4 * 3)."""


def check_size(argv: list[str], env: dict[str, str]) -> None:
    """Raise SpawnError where the kernel is sure to refuse so much argv and env: it need not be kept until it does."""
    total = sum(map(len, argv)) + len(argv) + sum(map(len, env)) + sum(map(len, env.values())) + 2 * len(env)
    if total > _MOST_STRINGS:
        detail = f"argv and env have {total} bytes and more, of {_MOST_STRINGS}"
        raise spawn_failure(OSError(errno.E2BIG, ""), "size", detail, bytes=total)


class SpawnRequest(msgspec.Struct, frozen=True, gc=False):
    """What to start. `cwd` is an absolute native path; `env` is exact; `arg0` is what the child sees as
    argv[0].

    `pipe_stdin` without a terminal: a pipe instead of /dev/null. `rows` and `cols` are the terminal's, 1 to
    65535.
    """

    argv: list[str]
    cwd: str
    env: dict[str, str]
    tty: bool = False
    pipe_stdin: bool = False
    rows: int = 24
    cols: int = 80
    echo: bool = True
    raw: bool = False
    arg0: str | None = None
    pass_fds: tuple[int, ...] = ()
    """Descriptors of this process, above 2, that the child has under the same numbers."""
    lane: str | None = None
    """Whose starts it may wait for (see `actors.system.pool`): those of its session, which may have a disk that hangs.
    """


class Execution(msgspec.Struct, frozen=True):
    """What the kernel is asked to execute."""

    program: bytes
    argv: list[bytes]
    env: list[bytes]
    cwd: bytes
    busy_waits: tuple[float, ...] = BUSY_WAITS
    passed: tuple[int, ...] = ()
    """The descriptors of a launcher (see `Stdio`)."""

    def start(self, stdio: Stdio, cookie: int) -> tuple[int, bool]:
        """The pid, and whether it was born with its cookie. ETXTBSY is waited out; ENOEXEC goes to the shell, as with
        execvp(3). Raises SpawnError.
        """
        for wait in (*self.busy_waits, None):
            try:
                with COOKIES.birth(cookie) as born:
                    return posix_spawn(self.program, self.argv, self.env, self.cwd, stdio), born
            except OSError as error:
                if error.errno == errno.ENOEXEC and self.program != _SHELL:
                    argv = [_SHELL, self.program, *self.argv[1:]]
                    return msgspec.structs.replace(self, program=_SHELL, argv=argv).start(stdio, cookie)
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
                detail = f"argv and env have {total} bytes, the longest {longest} of {MAX_STRING}"
                return spawn_failure(error, "size", detail, bytes=total, longest=longest)
            case errno.EAGAIN:
                return spawn_failure(error, "processes", "no more processes may be started")
            case errno.EMFILE | errno.ENFILE:
                return spawn_failure(error, "descriptors", "no descriptor left")
            case errno.ENOMEM:
                return spawn_failure(error, "memory", "no memory left")
            case errno.ETXTBSY:
                return spawn_failure(error, "program", f"program {program} is open for writing", path=program)
            case errno.ENOENT | errno.EACCES | errno.ENOTDIR | errno.EIO | errno.ENXIO:
                return self._missing(error, stdio)
        return spawn_failure(error, "program", f"program {program}", path=program)

    def _missing(self, error: OSError, stdio: Stdio) -> SpawnError:
        program, terminal = os.fsdecode(self.program), stdio.terminal
        try:
            _check_cwd(self.cwd)
        except SpawnError as cwd_error:
            return cwd_error
        if terminal is not None and not os.access(terminal, os.R_OK | os.W_OK):
            return spawn_failure(error, "terminal", f"terminal {os.fsdecode(terminal)}", path=os.fsdecode(terminal))
        if error.errno == errno.ENOENT and os.path.exists(os.path.join(self.cwd, self.program)):
            return spawn_failure(error, "interpreter", f"the interpreter that {program} names", path=program)
        return spawn_failure(error, "program", f"program {program}", path=program)


def prepare(request: SpawnRequest) -> Execution:
    """What to execute for a request, which is looked for and checked. Blocks for as long as the disk takes.

    The program is looked for as execvp(3) does, in the child's PATH if `env` has one, else in this process's.
    Raises SpawnError, as `start` does.
    """
    argv, env, cwd = _encoded(request)
    _check_passed(request.pass_fds)
    _check_cwd(cwd)
    program = _look_up(request, argv[0], cwd)
    if request.arg0 is not None:
        argv[0] = _encode(request.arg0, "arg0", request.tty)
    return Execution(program, argv, env, cwd)


def start(execution: Execution, request: SpawnRequest) -> Child:
    """Start an execution on the pipes or the terminal of a request; returns when its program is being executed.

    Blocks for about 0.2 ms, or for as long as the disk takes; for the sum of `busy_waits` where the program is still
    open for writing. A file without `#!` that the kernel cannot execute is run by /bin/sh, as execvp(3) does.

    Raises SpawnError with a kind, `data.reason` - "argv", "env", "arg0", "cwd", "program", "interpreter", "size",
    "descriptors", "processes", "memory", "terminal" - and the `path` at fault. Nothing is left open or running then.
    """
    CHILDREN.reap_left()
    child = _start_on_terminal(execution, request) if request.tty else _start_on_pipes(execution, request)
    CHILD_OPEN_FILES.apply(child.pid)
    return child


def looked_at(request: SpawnRequest) -> list[bytes]:
    """The places on the disk that a start looks at: the directory, the program, and where that was looked for. Blocks.
    Raises SpawnError or OSError."""
    argv, _, cwd = _encoded(request)
    name, searched = argv[0], _search_path(request)
    places = [cwd, os.path.join(cwd, find_program(name, cwd, searched))]
    if b"/" not in name:
        folders = [os.path.join(cwd, folder) for folder in searched.split(b":")]
        places += [folder for folder in folders if os.path.isdir(folder)]
    return places


def _search_path(request: SpawnRequest) -> bytes:
    path = request.env.get("PATH")
    return (os.environ.get("PATH", os.defpath) if path is None else path).encode("utf-8", "surrogateescape")


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
            raise spawn_failure(error, "descriptors", f"pass_fds: {fd} is no open descriptor above 2") from None


def _check_cwd(cwd: bytes) -> None:
    try:
        if not stat.S_ISDIR(os.stat(cwd).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "")
        if not os.access(cwd, os.X_OK, effective_ids=BY_EFFECTIVE_ID):
            raise PermissionError(errno.EACCES, "")
    except OSError as error:
        path = os.fsdecode(cwd)
        raise spawn_failure(error, "cwd", f"cwd {path}", path=path) from None


def _look_up(request: SpawnRequest, name: bytes, cwd: bytes) -> bytes:
    shown = request.argv[0]
    path = request.env.get("PATH")
    where = "the server's PATH" if path is None else f'PATH "{path}"'
    try:
        return find_program(name, cwd, _search_path(request))
    except OSError as error:
        if b"/" in name:
            raise spawn_failure(error, "program", f"program {shown}", path=shown) from None
        if error.errno == errno.E2BIG:
            raise spawn_failure(error, "size", f"PATH has {len(path or '')} characters, of {MAX_STRING}") from None
        if request.tty and error.errno == errno.ENOENT:
            # Clients of upstream know this text; programs go by the kind, which is that of any missing program.
            message = f"Unable to spawn {shown} because:\nNo viable candidates found in {where}"
            raise SpawnError("spawnNotFound", message, "program", path=shown, errno=errno.ENOENT) from None
        raise spawn_failure(error, "program", f"program {shown} in {where}", path=shown) from None


_SHELL: Final = b"/bin/sh"


def _start_on_pipes(execution: Execution, request: SpawnRequest) -> Child:
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
            raise spawn_failure(error, "descriptors", "no descriptor left for a pipe") from None
        with CHILDREN.spawning(), COOKIES.spawning() as cookie:
            stdio = Stdio((theirs[0], theirs[1], theirs[2]), passed=execution.passed, kept=request.pass_fds)
            pid, born = execution.start(stdio, cookie)
            _close(theirs)  # which leaves room for the pidfd
            *stdin, stdout, stderr = ours
            return _enter(
                pid,
                cookie if born else COOKIES.assign(pid, cookie),
                request,
                stdin=stdin[0] if stdin else None,
                stdout=stdout,
                stderr=stderr,
            )
    except BaseException:
        _close(theirs)
        _close(ours)
        raise


def _start_on_terminal(execution: Execution, request: SpawnRequest) -> Child:
    from actors.system.child.terminal import open_master  # ptyprocess is loaded when the first terminal is asked for

    open_now: list[int] = []
    try:
        try:
            master, name = open_master(request.rows, request.cols, echo=request.echo, raw=request.raw)
            open_now.append(master)
            place = [os.dup(master)]  # keeps a number free for the pidfd
            open_now += place
        except OSError as error:
            raise _no_terminal(error) from None
        with CHILDREN.spawning(), COOKIES.spawning() as cookie:
            stdio = Stdio(terminal=name, passed=execution.passed, kept=request.pass_fds)
            pid, born = execution.start(stdio, cookie)
            open_now.remove(place[0])
            _close(place)
            return _enter(pid, cookie if born else COOKIES.assign(pid, cookie), request, master=master)
    except BaseException:
        _close(open_now)
        raise


def _no_terminal(error: OSError) -> SpawnError:
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return spawn_failure(error, "descriptors", "no descriptor left for a terminal")
    if error.errno == errno.ENOSPC:
        return spawn_failure(error, "terminal", "no terminal left (/proc/sys/kernel/pty/max)")
    return spawn_failure(error, "terminal", "cannot open /dev/ptmx", path="/dev/ptmx")


def _enter(
    pid: int,
    cookie: int,
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
        raise spawn_failure(error, "descriptors", "no descriptor left to watch the child") from None
    child = Child(pid, pidfd, stdin, stdout, stderr, master, cookie)
    child.lane = request.lane
    CHILDREN.add(pid, child)
    return child


def _close(descriptors: list[int]) -> None:
    while descriptors:
        fd = descriptors.pop()
        if fd >= 0:
            os.close(fd)
