"""What JSON's grammar allows and this protocol forbids (docs/protocol.md, "Messages"): a key twice in one object, and
nesting deeper than `MAX_DEPTH`. For messages that are known to be well formed; linear in their length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

MAX_DEPTH = 127
"""Arrays and objects inside each other; upstream's limit of 128 refuses the 128th."""
MAX_TOKENS = 250_000
"""Keys, brackets, long strings, and runs of up to 8 short ones, in one message. The kernel starts no program
with as many arguments and variables, and no other request comes near; what is beyond would keep the loop for
seconds.
"""
_SMALL = 16 * 1024

# One step through a message: skips what is of no interest, then takes one thing that is.
#
#   skipped (up to 16 times)   [^"{}\[\]]++                     digits, commas, colons, white space, true, null
#                              "(...){0,4}+"(?!\s*+:)          a string of up to 128 characters that is no key
#   taken (the first that is)  1: "(...){0,4}+" and \s*+:       a key with its quotes
#                              2: [{}\[\]]                      a bracket
#                              3: "                             the quote of a string that is longer
#                              nothing                          16 were skipped, or it is the end
#
# A short string is up to four runs, each of up to 32 plain characters or one escape. For a longer one _tokens looks
# for the closing quote itself (bytes.index is ten times as fast) and goes on behind it. All quantifiers are possessive
# (`++`): no match is tried twice, so the whole is linear. `{"a":1,"b":["x",2]}` gives
#
#   step   1    2     3 skips 1,    4    5 skips "x",2   6    7
#   takes  {    "a"   "b"           [    ]               }    nothing
_TOKEN = re.compile(
    rb'(?:[^"{}\[\]]++|"(?:[^"\\]{1,32}+|\\.){0,4}+"(?!\s*+:)){0,16}+'
    rb'(?:("(?:[^"\\]{1,32}+|\\.){0,4}+")\s*+:|([{}\[\]])|(")|)'
)
_STRING_REST = re.compile(rb'(?:[^"\\]++|\\.)*+"')
_HOPS = 1
"""Escaped quotes in a string from which the regular expression, slower a byte but many times faster a quote, takes
over: a message may have millions.
"""
_COLON = re.compile(rb"\s*+:")
_decode_string = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode


class StrictnessError(ValueError):
    """The message is JSON, but not for us; the text says why."""


def check(message: bytes) -> None:
    """Raise StrictnessError if an object of `message` (a JSON object in UTF-8) repeats a key or it is nested
    too deep.
    """
    if len(message) <= _SMALL and message.count(b"{") + message.count(b"[") <= MAX_DEPTH:
        text = message.decode()
        _small_object(text, text.index("{"))
    else:
        _check_tokens(message)


def _refuse_duplicates(members: list[tuple[str, Any]]) -> None:
    if len(dict(members)) != len(members):
        seen: set[str] = set()
        for key, _ in members:
            if key in seen:
                raise StrictnessError(f"duplicate JSON object key `{key}`")
            seen.add(key)


# The standard library's scanner is in C and shows every object's members, but builds them: for small messages
# only.
_small_object: Callable[[str, int], Any] = json.JSONDecoder(
    object_pairs_hook=_refuse_duplicates, parse_int=str, parse_float=str, parse_constant=str
).raw_decode


def _check_tokens(message: bytes) -> None:
    """`check` for messages of any size: builds nothing but the sets of keys of the open objects."""
    seen: list[set[bytes]] = []
    for count, token in enumerate(_tokens(message)):
        if token is None:
            pass
        elif token == b"{" or token == b"[":
            if len(seen) == MAX_DEPTH:
                raise StrictnessError("recursion limit exceeded")
            seen.append(set())
        elif token == b"}" or token == b"]":
            seen.pop()
        elif token in seen[-1]:
            raise StrictnessError(f"duplicate JSON object key `{_decode_string(token)}`")
        else:
            seen[-1].add(token)
        if count >= MAX_TOKENS:
            raise StrictnessError(f"more than {MAX_TOKENS} strings, arrays and objects")


def _tokens(message: bytes) -> Iterator[bytes | None]:
    """All brackets, all keys with their quotes and without needless escapes, and None for what was
    skipped.
    """
    position = 0
    while True:
        for token in _TOKEN.finditer(message, position):
            if token[3]:
                break
            yield token[2] or (token[1] and _canonical(token[1]))
        else:
            return
        start = token.start(3)
        position = _string_end(message, start + 1)
        yield _canonical(message[start:position]) if _COLON.match(message, position) else None


def _canonical(key: bytes) -> bytes:
    return _encode(_decode_string(key)) if b"\\" in key else key


def _string_end(message: bytes, start: int) -> int:
    """The index behind the closing quote of the string whose text begins at `start`."""
    quote = message.index(b'"', start)
    for _ in range(_HOPS):
        if _backslashes_before(message, start, quote) % 2 == 0:
            return quote + 1
        quote = message.index(b'"', quote + 1)
    whole = _STRING_REST.match(message, start)
    assert whole is not None, "well-formed JSON closes its strings"
    return whole.end()


def _backslashes_before(message: bytes, start: int, quote: int) -> int:
    window = 1
    while True:
        tail = message[max(start, quote - window) : quote]
        run = len(tail) - len(tail.rstrip(b"\\"))
        if run < len(tail) or window >= quote - start:
            return run
        window *= 16
