"""Files on the user's own disk, read within a bound and replaced as a whole. Everything here blocks."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


class NotAFile(ValueError):
    """A folder, FIFO, device or socket in the place of a regular file."""


def read_file(path: Path, limit: int) -> bytes:
    """The content of a regular file. Raises NotAFile for another kind of file, ValueError for more than `limit` bytes;
    OSError.
    """
    data = read_at_most(path, limit + 1)
    if len(data) > limit:
        raise ValueError(f"it has more than {limit} bytes")
    return data


def read_at_most(path: str | Path, limit: int) -> bytes:
    """The first `limit` bytes of a regular file, or all of it. Raises NotAFile for another kind of file; OSError."""
    _regular(os.stat(path))  # before it is opened: to open a device can do something
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        _regular(os.fstat(descriptor))
        return file.read(limit)


def replace_file(path: Path, data: bytes) -> None:
    """Make `data` the content of a file, made if it is not there. Whoever reads it, and whatever happens meanwhile,
    there is the old content or the new. A link stays, and the mode of a file that is there. Raises OSError.
    """
    target = Path(os.path.realpath(path))
    descriptor, beside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, _mode(target))
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(beside, target)
    except BaseException:
        os.unlink(beside)
        raise


def why(error: Exception) -> str:
    """What an exception of these functions says about a file whose name the reader already has."""
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
        raise NotAFile(f"it is {kind}")


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        mask = os.umask(0)  # there is no way to ask for it only
        os.umask(mask)
        return 0o666 & ~mask
