"""Text out of pieces of bytes that were cut anywhere. Pure."""

from __future__ import annotations

LINE_LIMIT = 1 << 20
"""The longest line by default, in bytes."""


class LineTooLong(ValueError):
    """A line has more bytes than the limit. Reading goes on behind what was skipped, in the same line.

    `beginning`: what was skipped, in bytes the limit.
    """

    def __init__(self, message: str, beginning: bytes = b"") -> None:
        super().__init__(message)
        self.beginning = beginning


class CutLine(str):
    """The beginning of a line that was longer than the limit; `missing`: how many bytes of it follow that nobody gets,
    its end not counted.
    """

    missing: int

    @classmethod
    def of(cls, text: str, missing: int) -> CutLine:
        """A line that was cut."""
        line = cls(text)
        line.missing = missing
        return line


class LineSplitter:
    """Pieces of bytes in, whole lines out, with their ends."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._searched = 0

    def feed(self, data: bytes) -> None:
        """Append a piece."""
        self._rest += data

    def line(self, limit: int) -> bytes | None:
        r"""The next line with its `\n`; None if it is not whole yet. Raises LineTooLong if it has more than `limit`
        bytes without that.
        """
        end = self._rest.find(b"\n", self._searched)
        if (end if end >= 0 else len(self._rest)) > limit:
            beginning = bytes(self._rest[:limit])
            del self._rest[:limit]
            self._searched = 0
            raise LineTooLong(f"a line is longer than {limit} bytes", beginning)
        if end < 0:
            self._searched = len(self._rest)
            return None
        line = bytes(self._rest[: end + 1])
        del self._rest[: end + 1]
        self._searched = 0
        return line

    def skip(self) -> tuple[int, bool]:
        """Drop what there is of a line: how many bytes, its end not counted, and whether that was there."""
        end = self._rest.find(b"\n")
        size = len(self._rest) if end < 0 else end
        del self._rest[: len(self._rest) if end < 0 else end + 1]
        self._searched = 0
        return size, end >= 0

    def last(self) -> bytes:
        """What is left at the end of the stream: a line without an end, or nothing."""
        line = bytes(self._rest)
        self._rest.clear()
        self._searched = 0
        return line
