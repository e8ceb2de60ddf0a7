"""posix_spawn(3) through ctypes: a new session, default signals, an exact working directory, on pipes or on a
terminal.

Why not the standard library: `subprocess.Popen` leaves ignored signals and the signal mask in the child,
`os.posix_spawn` holds the GIL until the exec is done and cannot change the directory, and whatever forks
copies the server's page tables and may hang beside a thread. glibc's posix_spawn costs the same whatever the
server's size.

What the child gets: its own session and process group (setsid), every signal at its default action, an empty
signal mask, the working directory asked for, and the descriptors 0, 1 and 2 only. Resource limits, umask and
niceness are the server's.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import sys
from ctypes import c_char_p, c_int, c_short, c_void_p
from typing import Final

_SETSIGDEF: Final = 0x04
_SETSIGMASK: Final = 0x08
_SETSID: Final = 0x80
_SIGSET: Final = 8
"""Bytes of a signal set that the kernel knows: one bit for each of 64 signals."""
_OPAQUE: Final = 1024
"""Bytes for one of libc's opaque structures; the largest is glibc's attributes with 336."""

_libc = ctypes.CDLL(None)
_libc.posix_spawn.argtypes = [c_void_p, c_char_p, c_void_p, c_void_p, c_void_p, c_void_p]
_libc.posix_spawn_file_actions_init.argtypes = [c_void_p]
_libc.posix_spawn_file_actions_destroy.argtypes = [c_void_p]
_libc.posix_spawn_file_actions_adddup2.argtypes = [c_void_p, c_int, c_int]
_libc.posix_spawn_file_actions_addclose.argtypes = [c_void_p, c_int]
_libc.posix_spawn_file_actions_addopen.argtypes = [c_void_p, c_int, c_char_p, c_int, ctypes.c_uint]

if not hasattr(_libc, "posix_spawn_file_actions_addchdir_np"):
    raise ImportError("this C library is too old: glibc 2.29 or musl 1.1.24 is needed, for posix_spawn in a directory")
_libc.posix_spawn_file_actions_addchdir_np.argtypes = [c_void_p, c_char_p]
HAS_CLOSEFROM: Final = hasattr(_libc, "posix_spawn_file_actions_addclosefrom_np")
"""glibc >= 2.34. Without it descriptors that lack close-on-exec are looked up before each spawn."""

if HAS_CLOSEFROM:
    _libc.posix_spawn_file_actions_addclosefrom_np.argtypes = [c_void_p, c_int]


class Stdio:
    """Where descriptors 0, 1 and 2 of the child come from: three open ones (-1: /dev/null) or one terminal by
    name.

    Opening the terminal's own side by name, after setsid, is what makes it the controlling terminal.

    With `passed`, which become 3, 4, ..., the program stays in the server's directory and has all signals blocked but
    SIGCHLD: it is a launcher, and what it launches sees to both.

    `kept` are above 2 and have the same numbers in the child.
    """

    __slots__ = ("descriptors", "kept", "passed", "terminal")

    def __init__(
        self,
        descriptors: tuple[int, int, int] = (-1, -1, -1),
        terminal: bytes | None = None,
        passed: tuple[int, ...] = (),
        kept: tuple[int, ...] = (),
    ) -> None:
        self.descriptors = descriptors
        self.terminal = terminal
        self.passed = passed
        self.kept = kept


def posix_spawn(executable: bytes, argv: list[bytes], env: list[bytes], cwd: bytes, stdio: Stdio) -> int:
    """Start `executable` (a path, relative to `cwd` if at all); the pid, once the exec is done. The GIL is
    released meanwhile.

    `env` holds `NAME=value` items. Raises OSError with the errno of what failed - clone, a file action or the exec - in
    which case no process is left. The caller keeps its descriptors.
    """
    passed = stdio.passed
    attributes = _shielded_attributes if passed else _attributes
    actions = ctypes.create_string_buffer(_OPAQUE)
    _check(_libc.posix_spawn_file_actions_init(actions))
    moved: list[int] = []
    try:
        if stdio.terminal is not None:
            _check(_libc.posix_spawn_file_actions_addopen(actions, 0, stdio.terminal, os.O_RDWR, 0))
            _check(_libc.posix_spawn_file_actions_adddup2(actions, 0, 1))
            _check(_libc.posix_spawn_file_actions_adddup2(actions, 0, 2))
        else:
            _add_descriptors(actions, stdio.descriptors, moved)
        for target, source in enumerate([_above(fd, 3 + len(passed), moved) for fd in passed], 3):
            _check(_libc.posix_spawn_file_actions_adddup2(actions, source, target))
        if not passed:
            _check(_libc.posix_spawn_file_actions_addchdir_np(actions, cwd))
        for fd in stdio.kept:
            _check(_libc.posix_spawn_file_actions_adddup2(actions, fd, fd))  # which ends close-on-exec
        _add_closes(actions, 3 + len(passed), stdio.kept)
        pid = c_int()
        _check(_libc.posix_spawn(ctypes.byref(pid), executable, actions, attributes, _vector(argv), _vector(env)))
        return pid.value
    finally:
        _libc.posix_spawn_file_actions_destroy(actions)
        for fd in moved:
            os.close(fd)


def _add_descriptors(actions: ctypes.Array[ctypes.c_char], descriptors: tuple[int, int, int], moved: list[int]) -> None:
    for target, source in enumerate(descriptors):
        if source < 0:
            mode = os.O_RDONLY if target == 0 else os.O_WRONLY
            _check(_libc.posix_spawn_file_actions_addopen(actions, target, b"/dev/null", mode, 0))
        else:
            _check(_libc.posix_spawn_file_actions_adddup2(actions, _above(source, 3, moved), target))


def _above(fd: int, lowest: int, moved: list[int]) -> int:
    """`fd`, or a duplicate of it where its number is one that an earlier action overwrites."""
    if fd >= lowest:
        return fd
    moved.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, lowest))
    return moved[-1]


def _add_closes(actions: ctypes.Array[ctypes.c_char], lowest: int, kept: tuple[int, ...]) -> None:
    if HAS_CLOSEFROM and not kept:
        _check(_libc.posix_spawn_file_actions_addclosefrom_np(actions, lowest))
        return
    for fd in inheritable_descriptors():
        if fd >= lowest and fd not in kept:
            _check(_libc.posix_spawn_file_actions_addclose(actions, fd))


def inheritable_descriptors() -> list[int]:
    """The open descriptors of this process above 2 that lack close-on-exec."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        try:
            if fd > 2 and not fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC:
                found.append(fd)
        except OSError as error:
            if error.errno != errno.EBADF:  # closed since: the listing's own descriptor, or by another thread
                raise
    return found


def _vector(items: list[bytes]) -> ctypes.Array[c_char_p]:
    return (c_char_p * (len(items) + 1))(*items)


def _check(code: int) -> None:
    if code:
        raise OSError(code, os.strerror(code))


def _make_attributes(mask: bytes) -> ctypes.Array[ctypes.c_char]:
    attributes, signals = ctypes.create_string_buffer(_OPAQUE), ctypes.create_string_buffer(_OPAQUE)
    _check(_libc.posix_spawnattr_init(attributes))
    _check(_libc.posix_spawnattr_setflags(attributes, c_short(_SETSIGDEF | _SETSIGMASK | _SETSID)))
    _libc.sigemptyset(signals)
    ctypes.memmove(signals, mask, _SIGSET)
    _check(_libc.posix_spawnattr_setsigmask(attributes, signals))
    # By hand: sigfillset leaves out 32 and 33, libc's own, which posix_spawn then ignores in the child instead.
    ctypes.memset(signals, 0xFF, _SIGSET)
    _check(_libc.posix_spawnattr_setsigdefault(attributes, signals))
    return attributes


_attributes = _make_attributes(bytes(_SIGSET))
"""One for all spawns; posix_spawn only reads it."""
_shielded_attributes = _make_attributes(
    ((1 << 8 * _SIGSET) - 1 ^ 1 << signal.SIGCHLD - 1).to_bytes(_SIGSET, sys.byteorder)
)
"""The same for a program that signals must not reach."""
