"""HistoryLog: the message history of a user, which several programs write at once."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from msgspec import Struct

from harness.history.reading import count_lines, end_of_lines, first_line, lines_back, lines_before
from harness.history.record import MAX_LINE_BYTES, Record, decode_record, encode_record, log_id
from harness.history.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_NAME = "history.jsonl"
DEFAULT_MAX_BYTES = 16 << 20
MAX_TEXT_BYTES = 1 << 20
LOCK_TIMEOUT_S = 5.0
Persistence = Literal["save-all", "none"]
T = TypeVar("T")
_SEARCHES = 3
"""How often a search begins again whose log was trimmed meanwhile."""


class Metadata(NamedTuple):
    """The identity of a log, an opaque integer, and how many records it has. (0, 0): there is none."""

    log_id: int
    count: int  # type: ignore[assignment]  # a tuple has a method of this name


class Entry(Struct, frozen=True):
    """A record and its offset, 0 for the oldest; None for a malformed one."""

    offset: int
    record: Record | None


class Cursor(Struct, frozen=True):
    """Where the next older batch begins; `position` and what follows help while the file is the same."""

    log_id: int
    offset: int
    position: int
    length: int
    modified_ns: int


class Batch(Struct, frozen=True):
    """Entries, newest first; `cursor` is None at the oldest."""

    log_id: int
    entries: tuple[Entry, ...] = ()
    cursor: Cursor | None = None


class _Opened(NamedTuple):
    """The file while it is locked."""

    fd: int
    log_id: int
    records: int
    end: int
    length: int
    modified_ns: int


class HistoryLog:
    """The prompts in `home/history.jsonl`, home being the folder in which an agent keeps its state.

    `persistence` "none": nothing is stored, all can be read. `max_bytes`: beyond it the oldest are dropped, down to
    four fifths of it; None or 0 for no limit. `redact` gets each text and returns what is stored of it, None for
    nothing. `lock_timeout`: seconds that another program is waited for; then HistoryBusy is raised. `clock`: seconds
    since 1970.

    Each call is made in a thread; one that is cancelled goes on there. Each raises OSError and HistoryBusy. A path that
    leads to something else than a regular file, `/dev/null` for one, is a history that is switched off.
    """

    def __init__(
        self,
        home: str | os.PathLike[str],
        *,
        persistence: Persistence = "save-all",
        max_bytes: int | None = DEFAULT_MAX_BYTES,
        redact: Callable[[str], str | None] | None = None,
        lock_timeout: float = LOCK_TIMEOUT_S,
        max_text_bytes: int = MAX_TEXT_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if persistence not in ("save-all", "none"):
            raise ValueError(f"persistence is save-all or none, not {persistence!r}")
        if max_bytes is not None and max_bytes < 0:
            raise ValueError(f"max_bytes is 0 for no limit, or more, not {max_bytes}")
        self.path = Path(home) / FILE_NAME
        self._storage = Storage(self.path, lock_timeout)
        self._persistence = persistence
        self._max_bytes = max_bytes
        self._redact = redact
        self._max_text_bytes = max_text_bytes
        self._clock = clock
        self._counted: tuple[tuple[int, int, int], int] | None = None

    async def append(self, session_id: str, text: str) -> None:
        """Store a prompt of a thread; an empty one is none. Raises ValueError for one of more than `max_text_bytes`."""
        if self._persistence == "none":
            return
        stored = text if self._redact is None else self._redact(text)
        if not stored:
            return
        await asyncio.to_thread(self._append, Record(session_id, int(self._clock()), stored))

    async def metadata(self) -> Metadata:
        """Identity and count. Offsets below the count name the same records as long as the identity is the same."""
        return await asyncio.to_thread(self._metadata)

    async def lookup(self, log_id: int | None, offset: int) -> Record | None:
        """The record at an offset of the log `log_id`, or of whatever is there; None if there is none, or malformed."""
        return await asyncio.to_thread(self._lookup, log_id, offset)

    async def batch(self, log_id: int | None = None, offset: int | None = None) -> Batch:
        """Records from `offset` (None: the newest) to older ones: at most 128, and 64 KiB of them, but at least one.
        Empty for another log, and beyond the end.
        """
        return await asyncio.to_thread(self._batch, log_id, offset, None)

    async def older(self, cursor: Cursor) -> Batch:
        """The batch that follows."""
        return await asyncio.to_thread(self._batch, cursor.log_id, cursor.offset, cursor)

    async def search(self, needle: str, before: int | None = None, limit: int = 20) -> list[Entry]:
        """Records with this text in them, in whatever case, newest first; each text once. `before`: an offset; only
        older ones are looked at.
        """
        return await asyncio.to_thread(self._search, needle.casefold(), before, limit)

    async def trim(self, max_bytes: int | None = None) -> int:
        """Drop the oldest records as after an append, by this limit or the log's own; how many bytes that made free."""
        return await asyncio.to_thread(self._storage.trim, self._max_bytes if max_bytes is None else max_bytes)

    def _append(self, record: Record) -> None:
        line = encode_record(record)
        size = len(record.text.encode(errors="replace"))
        if size > self._max_text_bytes or len(line) > MAX_LINE_BYTES:
            raise ValueError(f"a prompt of {size} bytes is not stored: {self._max_text_bytes} are the most")
        self._storage.append(line, self._max_bytes)

    def _search(self, needle: str, before: int | None, limit: int) -> list[Entry]:
        for _ in range(_SEARCHES):
            found, is_whole = self._searched(needle, before, limit)
            if is_whole:
                break
        return found

    def _searched(self, needle: str, before: int | None, limit: int) -> tuple[list[Entry], bool]:
        """What was found, and whether the log stayed the same meanwhile."""
        found: dict[str, Entry] = {}
        if limit <= 0 or (before is not None and before <= 0):
            return [], True
        batch = self._batch(None, None if before is None else before - 1, None)
        while True:
            for entry in batch.entries:
                if entry.record is not None and needle in entry.record.text.casefold():
                    found.setdefault(entry.record.text, entry)
                    if len(found) == limit:
                        return [*found.values()], True
            if batch.cursor is None:
                return [*found.values()], True
            batch = self._batch(batch.cursor.log_id, batch.cursor.offset, batch.cursor)
            if not batch.entries:
                return [*found.values()], False

    def _metadata(self) -> Metadata:
        try:
            with self._opened() as opened:
                return Metadata(0, 0) if opened is None else Metadata(opened.log_id, opened.records)
        except PermissionError:
            return self._metadata_of_unreadable()

    def _metadata_of_unreadable(self) -> Metadata:
        try:
            status = os.stat(self.path)
        except OSError:
            return Metadata(0, 0)
        return (
            Metadata(log_id(status.st_dev, status.st_ino, b""), 0) if stat.S_ISREG(status.st_mode) else Metadata(0, 0)
        )

    def _lookup(self, wanted: int | None, offset: int) -> Record | None:
        with self._opened() as opened:
            end = None if opened is None else _end_of(opened, wanted, offset)
            if opened is None or end is None:
                return None
            raw = lines_back(opened.fd, end, 1)[0].raw
        return None if raw is None else decode_record(raw)

    def _batch(self, wanted: int | None, offset: int | None, cursor: Cursor | None) -> Batch:
        with self._opened() as opened:
            if opened is None:
                return Batch(0)
            newest = opened.records - 1 if offset is None else offset
            end = _end_of(opened, wanted, newest, cursor)
            if end is None:
                return Batch(opened.log_id)
            lines = lines_back(opened.fd, end)
        entries = tuple(
            Entry(newest - number, None if line.raw is None else decode_record(line.raw))
            for number, line in enumerate(lines)
        )
        older = newest - len(lines)
        if older < 0:
            return Batch(opened.log_id, entries)
        next_one = Cursor(opened.log_id, older, lines[-1].start, opened.length, opened.modified_ns)
        return Batch(opened.log_id, entries, next_one)

    @contextmanager
    def _opened(self) -> Iterator[_Opened | None]:
        with self._storage.reading() as fd:
            if fd is None:
                yield None
                return
            status = os.fstat(fd)
            identity = log_id(status.st_dev, status.st_ino, first_line(fd))
            end = end_of_lines(fd, status.st_size)
            state = identity, status.st_size, status.st_mtime_ns
            counted = self._counted
            count = counted[1] if counted is not None and counted[0] == state else count_lines(fd, end)
            self._counted = state, count
            yield _Opened(fd, identity, count, end, status.st_size, status.st_mtime_ns)


def _end_of(opened: _Opened, wanted: int | None, offset: int, cursor: Cursor | None = None) -> int | None:
    """Where the line of an offset ends; None if there is none."""
    if wanted not in (None, opened.log_id) or not 0 <= offset < opened.records:
        return None
    if cursor is not None and (cursor.length, cursor.modified_ns) == (opened.length, opened.modified_ns):
        return cursor.position
    return lines_before(opened.fd, opened.end, opened.records - 1 - offset)
