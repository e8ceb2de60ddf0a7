"""Encoding of a Struct with large members (`WireStruct.BULK`) in parts, so that no copy of the whole is made and each
part is made only when it is asked for. Both encodings do it alike; what differs they say with a `BulkFormat`.

The Struct is encoded with empty bulk members and cut where those are: the result is its frame, one part more than there
are bulk members. The parts of their values go between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from protocol.wire_types import WireStruct


class BulkFormat(NamedTuple):
    """How one encoding writes bulk members."""

    encode: Callable[[Any], bytes]
    """Encodes anything whole."""
    frame: Callable[[WireStruct], list[bytes]]
    """Encodes all but the bulk members."""
    header: Callable[[Any], bytes]
    """What stands before a value, which says how long it is."""
    data: Callable[[bytes], Iterable[bytes]]
    """Encodes bytes, in parts of about `piece`."""
    separator: bytes
    """What stands between elements of a list."""
    whole_below: int
    """Bytes of bulk below which a Struct is encoded faster whole."""
    piece: int
    """Bytes, encoded, from which a piece is given out."""

    def is_large(self, struct: WireStruct) -> bool:
        """Whether encoding it in parts is faster than encoding it whole."""
        names = type(struct).BULK
        if not names:
            return False
        size = struct.bulk_bytes
        if size < self.whole_below:
            return False
        values = [getattr(struct, name) for name in names]
        return size >= self.whole_below * sum(len(value) if isinstance(value, list) else 1 for value in values)

    def parts(self, struct: WireStruct) -> Iterator[bytes]:
        """The encoding of `struct`, in small and large parts."""
        frame = self.frame(struct)
        for name, part in zip(type(struct).BULK, frame, strict=False):
            value = getattr(struct, name)
            yield part + self.header(value)
            yield from self._elements(value) if isinstance(value, list) else self.data(value)
        yield frame[-1]

    def _elements(self, values: list[WireStruct]) -> Iterator[bytes]:
        # Each has one bulk member, of bytes. Output is read so: no generator a chunk.
        separator = b""
        for each in values:
            value = getattr(each, type(each).BULK[0])
            if len(value) < self.whole_below:
                yield separator + self.encode(each)
            else:
                head, tail = self.frame(each)
                yield separator + head + self.header(value)
                yield from self.data(value)
                yield tail
            separator = self.separator

    def pieces(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        """The same bytes in pieces of about `piece` bytes."""
        pending: list[bytes] = []
        size = 0
        for part in parts:
            pending.append(part)
            size += len(part)
            if size >= self.piece:
                yield b"".join(pending)
                pending.clear()
                size = 0
        if pending:
            yield b"".join(pending)


_EMPTY: dict[type[WireStruct], dict[str, Any]] = {}


def emptied(struct: WireStruct, keep: str | None = None) -> WireStruct:
    """The Struct with its bulk members empty, but for `keep`, which has one element."""
    kind = type(struct)
    empty = _EMPTY.get(kind)
    if empty is None:
        values = {name: getattr(struct, name) for name in kind.BULK}
        empty = _EMPTY[kind] = {name: [] if isinstance(value, list) else b"" for name, value in values.items()}
    if keep is not None:
        empty = {**empty, keep: [0] if isinstance(empty[keep], list) else b"\0"}
    return msgspec.structs.replace(struct, **empty)
