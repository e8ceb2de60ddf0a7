"""Bytes that come in pieces cut anywhere, as pieces of whole UTF-8 characters. Pure.

Bytes that are no UTF-8 are passed on as they are; nothing is added, and nothing left out.
"""

from __future__ import annotations

PIECE_BYTES = 8192


def incomplete_suffix(data: bytes, end: int | None = None) -> int:
    """How many of the last bytes before `end` begin a character that is not complete there: 0 to 3."""
    end = len(data) if end is None else end
    for back in range(1, min(3, end) + 1):
        byte = data[end - back]
        if byte < 0x80:
            return 0
        if byte >= 0xC0:
            return back if _length(byte) > back else 0
    return 0


def _length(lead: int) -> int:
    """The bytes of a character with this first one; 1 for what begins none."""
    if 0xC2 <= lead < 0xE0:
        return 2
    if 0xE0 <= lead < 0xF0:
        return 3
    return 4 if 0xF0 <= lead < 0xF5 else 1


class WholeCharacters:
    """One stream: pieces in, pieces of whole characters out, of at most PIECE_BYTES bytes each."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """What is complete with this piece."""
        data = self._rest + data
        end = len(data) - incomplete_suffix(data)
        self._rest = data[end:]
        return _pieces(data[:end])

    def finish(self) -> list[bytes]:
        """What is left at the end of the stream."""
        rest, self._rest = self._rest, b""
        return _pieces(rest)


def _pieces(data: bytes) -> list[bytes]:
    pieces = []
    start = 0
    while start < len(data):
        end = min(start + PIECE_BYTES, len(data))
        if end < len(data):
            end -= incomplete_suffix(data, end)
        pieces.append(data[start:end])
        start = end
    return pieces
