"""Head and tail of output that is too long to be shown, with a note between them. Pure."""

from __future__ import annotations

from typing import NamedTuple

from exec_server.unified_exec.characters import incomplete_suffix
from protocol.head_tail import Excerpt


class Cut(NamedTuple):
    """Text to be shown, and how many bytes of the output are not in it."""

    text: str
    omitted_bytes: int


def shown(data: bytes) -> str:
    """Output as text: U+FFFD stands for what is no UTF-8."""
    return data.decode("utf-8", "replace")


def cut(excerpt: Excerpt, limit: int) -> Cut:
    """At most `limit` bytes of text (in UTF-8) of an excerpt, half of it from the beginning and half from the end.

    Cuts are made between characters. The note that stands for what is left out is not counted.
    """
    data, head_bytes, dropped = excerpt
    if not dropped and len(data) <= limit:
        text = shown(data)
        if len(text.encode()) <= limit:
            return Cut(text, 0)
    head = _prefix(data[:head_bytes] if dropped else data, limit // 2)
    head_text = shown(head)
    tail = _suffix(data[head_bytes:] if dropped else data[len(head) :], limit - len(head_text.encode()))
    omitted = dropped + len(data) - len(head) - len(tail)
    return Cut(f"{head_text}\n[… {omitted} bytes omitted …]\n{shown(tail)}", omitted)


def _prefix(data: bytes, limit: int) -> bytes:
    end = min(len(data), limit)
    while True:
        end -= incomplete_suffix(data, end)
        size = len(shown(data[:end]).encode())
        if size <= limit:
            return data[:end]
        end = end * limit // size  # what is no UTF-8 takes more room as text


def _suffix(data: bytes, limit: int) -> bytes:
    length = min(len(data), limit)
    while True:
        start = _next_character(data, len(data) - length)
        size = len(shown(data[start:]).encode())
        if size <= limit:
            return data[start:]
        length = (len(data) - start) * limit // size


def _next_character(data: bytes, start: int) -> int:
    """Where the first character that begins at `start` or later begins; there may be a cut before the data, too."""
    end = min(start + 3, len(data))
    while start < end and data[start] & 0xC0 == 0x80:
        start += 1
    return start
