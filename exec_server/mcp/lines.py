"""Lines of a file that is read block by block, and text of it. Pure."""

from __future__ import annotations

from msgspec import Struct

from exec_server.unified_exec.characters import incomplete_suffix


class Excerpt(Struct, frozen=True):
    """Part of a file: `data` from byte `offset` on."""

    data: bytes
    offset: int
    next_line: int | None
    """The line that begins behind it; None where it ends within a line, or at the end of the file."""

    @property
    def end(self) -> int:
        """The byte behind it."""
        return self.offset + len(self.data)


class LineReader:
    """The `count` lines from line `first` on (from 1), but at most `most` bytes. Fed with blocks until it is `full`."""

    def __init__(self, first: int, count: int, most: int) -> None:
        self._count = count
        self._most = most
        self._first = self._line = first
        self._at = 1
        self._offset = 0
        self._kept = bytearray()

    @property
    def full(self) -> bool:
        """Whether more would change nothing."""
        return self._count <= 0 or len(self._kept) > self._most or self._kept.count(b"\n") >= self._count

    @property
    def lines_seen(self) -> int:
        """How many lines there are before the first one, as far as is known."""
        return self._at - 1

    def feed(self, block: bytes) -> None:
        """The next bytes of the file."""
        start = 0
        while self._at < self._first:
            newline = block.find(b"\n", start)
            if newline < 0:
                self._offset += len(block) - start
                return
            self._at += 1
            self._offset += newline + 1 - start
            start = newline + 1
        self._kept += block[start:]

    def excerpt(self) -> Excerpt:
        """What was wanted, as far as it has been fed."""
        end = _end_of_lines(self._kept, self._count)
        if end > self._most:
            end = self._kept.rfind(b"\n", 0, self._most) + 1
            if not end:  # one line is longer than all that is wanted
                end = self._most - incomplete_suffix(bytes(self._kept[: self._most]))
        data = bytes(self._kept[:end])
        whole = data.endswith(b"\n")
        return Excerpt(data, self._offset, self._first + data.count(b"\n") if whole else None)


def _end_of_lines(data: bytearray, count: int) -> int:
    """The offset behind so many lines, or the end of the data."""
    end = 0
    for _ in range(count):
        newline = data.find(b"\n", end)
        if newline < 0:
            return len(data)
        end = newline + 1
    return end


def trimmed(data: bytes) -> bytes:
    """Bytes from the middle of a text, without the halves of characters at both ends."""
    start = 0
    while start < min(3, len(data)) and 0x80 <= data[start] < 0xC0:
        start += 1
    return data[start : len(data) - incomplete_suffix(data)]


def text_of(data: bytes) -> str | None:
    """Bytes as text, None where they are none: no UTF-8, or with NUL."""
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
