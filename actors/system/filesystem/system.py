"""System calls that Python's `os` lacks: fallocate(2), and the time of birth from statx(2)."""

from __future__ import annotations

import ctypes
import os
import struct

_libc = ctypes.CDLL(None, use_errno=True)
_fallocate = getattr(_libc, "fallocate64", None) or getattr(_libc, "fallocate", None)
_statx = getattr(_libc, "statx", None)  # glibc 2.28
if _fallocate is not None:
    _fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
if _statx is not None:
    _statx.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)

_KEEP_SIZE = 1
_AT_FDCWD = -100
_AT_SYMLINK_NOFOLLOW = 0x100
_STATX_BTIME = 0x800
_STATX_SIZE = 256
_BTIME_AT = 80
"""Where stx_btime stands in struct statx (linux/stat.h): seconds, then nanoseconds."""


def allocate(fd: int, size: int) -> None:
    """Reserve the room for the first `size` bytes of a file, which stays as long as it is. Raises OSError.

    The library's posix_fallocate would write into files whose file system cannot do it.
    """
    if _fallocate is None:
        raise OSError(38, os.strerror(38))
    if _fallocate(fd, _KEEP_SIZE, 0, size) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def birth_time_ms(name: str, folder: int | None = None, follow: bool = True) -> int:
    """When a file was created, in ms since 1970; 0 where the file system or the kernel does not tell."""
    if _statx is None:
        return 0
    buffer = ctypes.create_string_buffer(_STATX_SIZE)
    flags = 0 if follow else _AT_SYMLINK_NOFOLLOW
    if _statx(_AT_FDCWD if folder is None else folder, os.fsencode(name), flags, _STATX_BTIME, buffer) != 0:
        return 0
    (mask,) = struct.unpack_from("=I", buffer)
    if not mask & _STATX_BTIME:
        return 0
    seconds, nanoseconds = struct.unpack_from("=qI", buffer, _BTIME_AT)
    return max(0, int(seconds) * 1000 + int(nanoseconds) // 1_000_000)
