"""Lines of an open history file, from its end. Nothing here holds more than a line of MAX_LINE_BYTES, whatever the size
of the file. A line is what ends with `\\n`; everything here blocks, and raises OSError.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from harness.history.record import IDENTITY_BYTES, MAX_LINE_BYTES

BLOCK = 64 << 10
MAX_BATCH_LINES = 128
MAX_BATCH_BYTES = 64 << 10


class Line(NamedTuple):
    """Where a line begins, and its bytes; None for one of more than MAX_LINE_BYTES."""

    start: int
    raw: bytes | None


def read_at(fd: int, size: int, offset: int) -> bytes:
    """`size` bytes from `offset`; fewer only at the end of the file."""
    parts = []
    while size > 0 and (part := os.pread(fd, size, offset)):
        parts.append(part)
        size -= len(part)
        offset += len(part)
    return b"".join(parts)


def first_line(fd: int) -> bytes:
    """What of the first line tells the log from others, with its `\\n` if that is all of it; empty if there is none."""
    head, newline, _ = read_at(fd, IDENTITY_BYTES + 1, 0).partition(b"\n")
    return head + newline if newline or len(head) > IDENTITY_BYTES else b""


def is_there_again(fd: int, first: bytes) -> bool:
    """Whether a further line begins with this first line, or its beginning."""
    needle = b"\n" + first
    position = 0
    before = b""
    while block := read_at(fd, BLOCK, position):
        if needle in before + block:
            return True
        before = (before + block)[1 - len(needle) :]
        position += len(block)
    return False


def count_lines(fd: int, end: int) -> int:
    """How many lines there are before `end`."""
    count = position = 0
    while position < end and (block := read_at(fd, min(BLOCK, end - position), position)):
        count += block.count(b"\n")
        position += len(block)
    return count


def line_lengths(fd: int) -> Iterator[int]:
    """The lengths of the lines, oldest first, with their `\\n`."""
    position = begun = 0
    while block := read_at(fd, BLOCK, position):
        at = block.find(b"\n")
        while at >= 0:
            yield position + at + 1 - begun
            begun = position + at + 1
            at = block.find(b"\n", at + 1)
        position += len(block)


def end_of_lines(fd: int, size: int) -> int:
    """Where the last line ends. What is behind it is torn."""
    return lines_before(fd, size, 0)


def lines_before(fd: int, end: int, lines: int) -> int:
    """Where the line begins that is `lines` lines before `end`; 0 if there are no more of them."""
    wanted = lines + 1  # line ends to go back over: those of the lines, and of the one before
    while end > 0:
        start = max(0, end - BLOCK)
        block = read_at(fd, end - start, start)
        here = block.count(b"\n")
        if here >= wanted:
            at = len(block)
            for _ in range(wanted):
                at = block.rfind(b"\n", 0, at)
            return start + at + 1
        wanted -= here
        end = start
    return 0


def lines_back(fd: int, end: int, most: int = MAX_BATCH_LINES) -> list[Line]:
    """The lines that end at `end` and before, newest first: at most so many, of MAX_BATCH_BYTES together; or one that
    is longer.
    """
    start = max(0, end - MAX_BATCH_BYTES - 1)  # one more: the end of the line before
    block = read_at(fd, end - start, start)
    lines: list[Line] = []
    at = len(block)
    while at > 0 and len(lines) < most:
        before = block.rfind(b"\n", 0, at - 1)
        if before < 0 and start > 0:
            break
        lines.append(Line(start + before + 1, block[before + 1 : at]))
        at = before + 1
    if lines or end == 0:
        return lines
    begin = lines_before(fd, end, 1)
    return [Line(begin, read_at(fd, end - begin, begin) if end - begin <= MAX_LINE_BYTES else None)]
