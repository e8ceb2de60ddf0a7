"""What RFC 8259 leaves open and this protocol forbids (wire-spec section 2), in JSON that is known to be well
formed: a key twice in one object, and nesting deeper than `MAX_DEPTH`. Linear in the message, and no tree is
built.
"""

from __future__ import annotations

import re

import msgspec

MAX_DEPTH = 127
"""Arrays and objects inside each other; upstream's limit of 128 refuses the 128th."""
MAX_TOKENS = 1_000_000
"""Strings, braces and brackets that `check` will look at: a second of work. No request of this protocol comes
near.
"""

# A whole string if it is short and has no escape, else its opening quote; after a key, the colon; or a
# bracket.
_TOKEN = re.compile(rb'"(?:([^"\\]{0,128}+)"(\s*+:)?)?|[{}\[\]]')
_COLON = re.compile(rb"\s*+:")
_decode_string = msgspec.json.Decoder(str).decode


class StrictnessError(ValueError):
    """The message is JSON, but not for us; the text says why."""


def check(message: bytes) -> None:
    """Raise StrictnessError if any object of `message` (well-formed JSON) repeats a key, or it is nested too
    deep.
    """
    keys: list[set[bytes] | None] = []
    position = tokens = 0
    while position >= 0:
        resume = -1
        for token in _TOKEN.finditer(message, position):
            tokens += 1
            key = token[1]
            if key is not None:
                if token[2] is None:
                    continue
                position = token.start()
            else:
                kind = token[0]
                if kind == b"{" or kind == b"[":
                    if len(keys) == MAX_DEPTH:
                        raise StrictnessError(f"recursion limit exceeded at byte {token.start()}")
                    keys.append(set() if kind == b"{" else None)
                    continue
                if kind != b'"':
                    keys.pop()
                    continue
                position = token.start()
                end = _string_end(message, position + 1)
                colon = _COLON.match(message, end)
                resume = end if colon is None else colon.end()
                if colon is None:
                    break
                key = message[position + 1 : end - 1]
                if b"\\" in key:
                    key = _decode_string(message[position:end]).encode()
            seen = keys[-1]
            assert seen is not None, "a key outside an object is not JSON"
            if key in seen:
                name = key.decode(errors="replace")
                raise StrictnessError(f"duplicate JSON object key `{name}` at byte {position}")
            seen.add(key)
            if resume >= 0:
                break
        if tokens > MAX_TOKENS:
            raise StrictnessError(f"more than {MAX_TOKENS} strings, arrays and objects")
        position = resume


def _string_end(message: bytes, start: int) -> int:
    """The index behind the closing quote of the string whose text begins at `start`."""
    end = message.index(b'"', start)
    while message[end - 1] == 0x5C:
        first = end - 1
        while first > start and message[first - 1] == 0x5C:
            first -= 1
        if (end - first) % 2 == 0:
            break
        end = message.index(b'"', end + 1)
    return end + 1
