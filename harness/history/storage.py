"""The history file under its lock: who appends, trims or reads it waits for the others, whatever program they are.

The lock is flock(2) on the file itself, which other programs take, too. A program that is killed between any two system
calls leaves a file of which every record that is not to be dropped can still be read.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import random
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import HistoryBusy
from harness.history.reading import end_of_lines, first_line, is_there_again, line_lengths, lines_before, read_at
from harness.history.record import BLANKS, MAX_LINE_BYTES, drop, exceeds

_log = logging.getLogger(__name__)
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
"""What flock(2) says on a file system that has none."""
_OPENED = os.O_CLOEXEC | os.O_NONBLOCK
_PAUSES_S = 0.01, 0.05
_TRIES = 5
"""How often a file is opened again that was replaced while its lock was waited for."""
BLOCK = 1 << 20
_MARK_BYTES = 24


class Storage:
    """A history file. Everything here blocks. A path that leads to something else than a regular file is a history that
    is switched off: it is empty, and nothing is done to it.
    """

    def __init__(self, path: Path, lock_timeout: float) -> None:
        self.path = path
        self._lock_timeout = lock_timeout

    def append(self, line: bytes, max_bytes: int | None) -> None:
        """Add a line, and trim. The file is made, for its owner only, if it is not there. On an error it is as before.
        Raises OSError, HistoryBusy.
        """
        self._make_home()
        with self._locked(os.O_RDWR | os.O_APPEND | os.O_CREAT, fcntl.LOCK_EX) as (fd, has_lock):
            if fd is None:
                return
            _append(fd, line, has_lock)
            try:
                if has_lock:
                    _trim(fd, max_bytes)
            except OSError as error:
                _log.warning("%s could not be trimmed: %s", self.path, error)

    def trim(self, max_bytes: int | None) -> int:
        """Drop what is too old for `max_bytes`; how many bytes that were. Raises OSError, HistoryBusy, also for a file
        system without locks.
        """
        with self._locked(os.O_RDWR, fcntl.LOCK_EX) as (fd, has_lock):
            if fd is None:
                return 0
            if not has_lock:
                raise HistoryBusy(f"{self.path} is on a file system without locks, and is never trimmed there")
            before = os.fstat(fd).st_size
            os.ftruncate(fd, end_of_lines(fd, before))  # a torn line is nobody's newest
            _trim(fd, max_bytes)
            return before - os.fstat(fd).st_size

    @contextmanager
    def reading(self) -> Iterator[int | None]:
        """A descriptor of the file while nobody changes it; None without a history. Raises OSError, HistoryBusy."""
        with self._locked(os.O_RDONLY, fcntl.LOCK_SH) as (fd, _):
            yield fd

    def _make_home(self) -> None:
        home = self.path.parent
        if not home.is_dir():
            home.parent.mkdir(parents=True, exist_ok=True)
            home.mkdir(mode=0o700, exist_ok=True)

    @contextmanager
    def _locked(self, flags: int, operation: int) -> Iterator[tuple[int | None, bool]]:
        """The file, and whether the file system has locks; (None, False) without a history."""
        for _ in range(_TRIES):
            fd = self._open(flags)
            if fd is None:
                yield None, False
                return
            try:
                has_lock = self._lock(fd, operation)
                if self._is_the_file(fd):
                    yield fd, has_lock
                    return
            finally:
                os.close(fd)
        raise HistoryBusy(f"{self.path} is replaced by another program all the time; try again")

    def _open(self, flags: int) -> int | None:
        try:
            if not stat.S_ISREG(os.stat(self.path).st_mode):  # to open a device may already do something
                return None
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                return None
        except NotADirectoryError:
            if flags & os.O_CREAT:
                raise
            return None
        try:
            fd = os.open(self.path, flags | _OPENED, 0o600)
        except FileNotFoundError:
            if flags & os.O_CREAT:
                raise
            return None
        try:
            return self._checked(fd, flags)
        except BaseException:
            os.close(fd)
            raise

    def _checked(self, fd: int, flags: int) -> int | None:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            return None
        if flags & os.O_CREAT and status.st_mode & 0o777 != 0o600 and status.st_uid == os.geteuid():
            os.fchmod(fd, 0o600)
        return fd

    def _lock(self, fd: int, operation: int) -> bool:
        deadline = time.monotonic() + self._lock_timeout
        while True:
            try:
                fcntl.flock(fd, operation | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    text = f"{self.path}: others have held its lock for {self._lock_timeout:g} s; try again"
                    raise HistoryBusy(text) from None
            except OSError as error:
                if error.errno in _NO_LOCKS:
                    return False
                raise
            time.sleep(random.uniform(*_PAUSES_S))

    def _is_the_file(self, fd: int) -> bool:
        """Whether the path still leads to the open file."""
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(fd))
        except FileNotFoundError:
            return False


def _append(fd: int, line: bytes, has_lock: bool) -> None:
    size = os.fstat(fd).st_size
    rest = memoryview(line)
    if size and read_at(fd, 1, size - 1) != b"\n":
        rest = memoryview(b"\n" + line)
    try:
        while rest:
            rest = rest[_taken(os.write(fd, rest)) :]
    except BaseException:
        if has_lock:  # without one this might be somebody else's line by now
            os.ftruncate(fd, size)
        raise


def _trim(fd: int, max_bytes: int | None) -> None:
    """Drop lines from the front. The file ends with a line end."""
    size = os.fstat(fd).st_size
    if not exceeds(size, max_bytes):
        return
    newest = size - lines_before(fd, size, 1)
    _, left = drop(line_lengths(fd), size, newest, max_bytes or 0)
    cut = size - left
    if cut == 0:
        return
    mark = _mark(fd)
    if len(mark) > cut:
        return  # for lines that short the limit is exceeded a little
    # pwrite(2): "if a file is opened with O_APPEND, on Linux pwrite() appends data to the end of the file"
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_APPEND)
    _move_to_front(fd, cut, size, mark)
    os.ftruncate(fd, left + len(mark))


def _mark(fd: int) -> bytes:
    """Blanks that tell the next first line from every other, where an earlier first line might come back: one that is
    in the file again, because the same prompt was sent twice in a second, or a trim was killed; and from then on.
    """
    first = first_line(fd)
    text = first.lstrip(BLANKS)
    if len(first) - len(text) < _MARK_BYTES and not is_there_again(fd, text):
        return b""
    return bytes(secrets.choice(BLANKS) for _ in range(_MARK_BYTES))


def _move_to_front(fd: int, start: int, end: int, mark: bytes) -> None:
    """Copy what is from `start` to `end` to the front, with `mark` before it.

    Whole lines at a time: after each write every line is there, in front, behind, or in both places; where a copy ends
    in the middle of what was there one is torn that is whole in front.
    """
    to = 0
    before = mark
    while start < end:
        lines = _whole_lines(fd, start, end)
        block = memoryview(before + lines)
        start += len(lines)
        before = b""
        while block:
            taken = _taken(os.pwrite(fd, block, to))
            to += taken
            block = block[taken:]


def _whole_lines(fd: int, start: int, end: int) -> bytes:
    """As many lines as a block holds; a longer one alone, up to what can be a record."""
    size = BLOCK
    while True:
        block = read_at(fd, min(size, end - start), start)
        whole = block.rfind(b"\n") + 1
        if whole:
            return block[:whole]
        if start + len(block) >= end or size >= MAX_LINE_BYTES + BLOCK:
            return block
        size += BLOCK


def _taken(count: int) -> int:
    """What a write took. Raises OSError for nothing, which would be tried for ever."""
    if count == 0:
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    return count
