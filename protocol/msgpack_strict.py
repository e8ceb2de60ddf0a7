"""What a message in MessagePack must be besides well formed, so that it says no more than JSON could: keys are
strings, each once in its map; strings are UTF-8; no extension types, no numbers that are not finite. Nesting and
the number of values are bounded as for JSON. Linear in the length of the message; raw data is stepped over.

It is no job for `msgpack.unpackb` and its hooks, which build what they read: 64 MiB of raw data took 84 ms of the loop
and as much memory again there, and 0.05 ms here. Of depth, numbers of values, and what is in arrays the hooks see
nothing. For 60 MiB of short strings the library is faster (0.17 s against 0.41 s), but that is what nobody sends.
"""

from __future__ import annotations

import math
import struct

from protocol.json_strict import MAX_DEPTH, StrictnessError

MAX_VALUES = 250_000
"""Keys, members and elements in one message; see `json_strict.MAX_TOKENS`."""

# Bytes of a value by its first byte: what has no contents of its own to look at. 0: has, or is forbidden.
_FIXED = bytearray(256)
_FIXED[0x00:0x80] = _FIXED[0xE0:] = b"\x01" * 128  # positive fixint
_FIXED[0xE0:] = b"\x01" * 32  # negative fixint
for _head, _size in {
    0xC0: 1, 0xC2: 1, 0xC3: 1,  # nil, false, true
    0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9, 0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9,  # uint, int
}.items():  # fmt: skip
    _FIXED[_head] = _size
_BIN = {0xC4: 1, 0xC5: 2, 0xC6: 4}
_STR = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_ARRAY = {0xDC: 2, 0xDD: 4}
_MAP = {0xDE: 2, 0xDF: 4}
_FLOAT = {0xCA: struct.Struct(">f"), 0xCB: struct.Struct(">d")}
_EXTENSIONS = (0xC7, 0xC8, 0xC9, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8)


def check(message: bytes) -> None:
    """Raise StrictnessError if `message` is not exactly one value as described above."""
    scan = _Scan(message)
    try:
        end = scan.value(0, 0)
    except IndexError:
        end = len(message) + 1
    if end > len(message):
        raise StrictnessError("the message ends within a value")
    if end < len(message):
        raise StrictnessError(f"trailing bytes behind the message, from byte {end}")


class _Scan:
    """One pass over a message. Positions may run past its end, which `check` sees when it is over."""

    __slots__ = ("_data", "_left")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = MAX_VALUES

    def value(self, at: int, depth: int) -> int:
        """The position behind the value at `at`, which is inside of `depth` maps and arrays."""
        data = self._data
        head = data[at]
        size = _FIXED[head]
        if size:
            return at + size
        if 0xA0 <= head < 0xC0 or head in _STR:
            start, end = self._string(at)
            if not data[start:end].isascii():
                self._check_utf8(start, end)
            return end
        if head in _BIN:
            width = _BIN[head]
            return at + 1 + width + self._number(at + 1, width)
        if 0x80 <= head < 0x90:
            return self._map(at + 1, head & 0x0F, depth + 1)
        if 0x90 <= head < 0xA0:
            return self._array(at + 1, head & 0x0F, depth + 1)
        if head in _MAP:
            width = _MAP[head]
            return self._map(at + 1 + width, self._number(at + 1, width), depth + 1)
        if head in _ARRAY:
            width = _ARRAY[head]
            return self._array(at + 1 + width, self._number(at + 1, width), depth + 1)
        if head in _FLOAT:
            return self._float(at, _FLOAT[head])
        if head in _EXTENSIONS:
            raise StrictnessError(f"extension type at byte {at}")
        raise StrictnessError(f"invalid byte 0x{head:02x} at byte {at}")

    def _map(self, at: int, count: int, depth: int) -> int:
        # Most of a message is read in this loop, so short strings and fixed sizes have no calls of their own.
        self._enter(2 * count, depth)
        data, fixed = self._data, _FIXED
        keys = set()
        for _ in range(count):
            head = data[at]
            if 0xA0 <= head < 0xC0:
                start = at + 1
                at = start + head - 0xA0
            else:
                start, at = self._string(at)
            key = data[start:at]
            if key in keys:
                raise StrictnessError(f"duplicate MessagePack map key `{key.decode()}`")
            keys.add(key)
            if not key.isascii():
                self._check_utf8(start, at)
            head = data[at]
            if fixed[head]:
                at += fixed[head]
            elif 0xA0 <= head < 0xC0:
                start = at + 1
                at = start + head - 0xA0
                if not data[start:at].isascii():
                    self._check_utf8(start, at)
            else:
                at = self.value(at, depth)
        return at

    def _array(self, at: int, count: int, depth: int) -> int:
        self._enter(count, depth)
        for _ in range(count):
            at = self.value(at, depth)
        return at

    def _enter(self, values: int, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise StrictnessError("recursion limit exceeded")
        self._left -= values
        if self._left < 0:
            raise StrictnessError(f"more than {MAX_VALUES} keys and values")

    def _string(self, at: int) -> tuple[int, int]:
        """Where the text of the string at `at` begins and ends."""
        head = self._data[at]
        if 0xA0 <= head < 0xC0:
            return at + 1, at + 1 + (head & 0x1F)
        width = _STR.get(head)
        if width is None:
            raise StrictnessError(f"a map key at byte {at} is not a string")
        start = at + 1 + width
        return start, start + self._number(at + 1, width)

    def _check_utf8(self, start: int, end: int) -> None:
        try:
            self._data[start:end].decode()
        except UnicodeDecodeError as error:
            raise StrictnessError(f"invalid UTF-8 at byte {start + error.start}") from None

    def _float(self, at: int, form: struct.Struct) -> int:
        end = at + 1 + form.size
        raw = self._data[at + 1 : end]
        if len(raw) == form.size and not math.isfinite(form.unpack(raw)[0]):
            raise StrictnessError(f"a number that is not finite at byte {at}")
        return end

    def _number(self, at: int, width: int) -> int:
        return int.from_bytes(self._data[at : at + width], "big")
