"""What a terminal prints, reduced to the control sequences that `pyte` understands; pure.

pyte takes part of a sequence that it does not know for text, some bring it to a stop - a private `m`, as vim sends it,
or more numbers than a function takes -, and a title may grow without bound there. The grammar is that of ECMA-48,
sections 5.4 to 5.6, in UTF-8.
"""

from __future__ import annotations

import re

_SEQUENCE = re.compile(
    rb"\x1b(?:"
    rb"(?P<string>[]PX^_])"  # begins OSC, DCS, SOS, PM or APC
    rb"|\[(?P<params>[0-?]*+)(?P<between>[ -/]*+)(?:(?P<final>[@-~])|(?=.))"
    rb"|[ -\"$&'*-/][ -/]*+(?:[0-~]|(?=.))"  # an escape with bytes between; pyte knows those with # % ( )
    rb"|(?=[^ -~]))"  # broken off
    rb"|\xc2[\x80-\x9f]",  # the same functions as one character, which hardly anybody sends
    re.DOTALL,
)
_UNFINISHED = re.compile(rb"(?:\x1b(?:\[[0-?]*[ -/]*|[ -\"$&'*-/][ -/]*)?|\xc2)\Z")
_STRING_END = re.compile(rb"\x1b\\|\x07|[\x18\x1a]")
_TITLE = re.compile(rb"[012];[^\x00-\x1f]*")
_PLAIN_PARAMS = re.compile(rb"\??[0-9;]*")
_PRIVATE = b"hlJK"
"""Functions that have a meaning with `?`."""
_NUMBERS = {b"H": 2, b"f": 2, b"r": 2, b"m": 32, b"h": 32, b"l": 32}
"""How many numbers a function takes; the others take one."""
_ERASES_UP_TO = {b"J": 3, b"K": 2}
"""The kinds of J and K."""
_DIGITS = 4
_LONGEST = 1024
"""Bytes of a title, or of an unfinished sequence that is waited for; longer ones are left out."""


class TerminalOutput:
    """The output of one terminal, in pieces that may be cut anywhere."""

    __slots__ = ("_in_string", "_rest", "_string")

    def __init__(self) -> None:
        self._rest = b""
        self._in_string = False
        self._string = bytearray()  # what there is of it, in bounds

    def known(self, data: bytes) -> bytes:
        """What is to be shown of the next bytes; an unfinished sequence is kept for the next call."""
        data, self._rest = self._rest + data, b""
        shown: list[bytes] = []
        at = 0
        while at < len(data):
            at = self._pass_string(data, at, shown) if self._in_string else self._pass_text(data, at, shown)
        return b"".join(shown)

    def _pass_text(self, data: bytes, at: int, shown: list[bytes]) -> int:
        """Text, and a sequence that follows; where to go on."""
        found = _SEQUENCE.search(data, at)
        if found is None:
            rest = _UNFINISHED.search(data, at)
            end = len(data) if rest is None else rest.start()
            shown.append(data[at:end])
            self._rest = data[end:] if len(data) - end <= _LONGEST else b""
            return len(data)
        shown.append(data[at : found.start()])
        if found["string"] is not None:
            self._in_string = True
            self._string[:] = found["string"]
        elif found["final"] is not None:
            shown.append(_understood(found))
        return found.end()

    def _pass_string(self, data: bytes, at: int, shown: list[bytes]) -> int:
        """A string to its end, or the end of the data; titles are shown."""
        found = _STRING_END.search(data, at)
        if found is None:
            self._rest = data[-1:] if data.endswith(b"\x1b") else b""
        end = len(data) - len(self._rest) if found is None else found.start()
        self._string += data[at : min(end, at + _LONGEST + 2 - len(self._string))]
        if found is None:
            return len(data)
        self._in_string = False
        title = bytes(self._string[1:])
        if self._string[:1] == b"]" and len(title) <= _LONGEST and _TITLE.fullmatch(title):
            shown.append(b"\x1b]" + title + b"\x07")
        return found.end()


def _understood(sequence: re.Match[bytes]) -> bytes:
    """A control sequence as pyte takes it; nothing of one that it does not."""
    params, final = sequence["params"], sequence["final"]
    private = params.startswith(b"?")
    if sequence["between"] or not _PLAIN_PARAMS.fullmatch(params) or (private and final not in _PRIVATE):
        return b""
    numbers = params.split(b";")[: _NUMBERS.get(final, 1)]
    mark = b"?" if private else b""
    numbers = [_bounded(number.lstrip(b"?")) for number in numbers]
    if int(numbers[0] or 0) > _ERASES_UP_TO.get(final, 9999):
        return b""
    return b"\x1b[" + mark + b";".join(numbers) + final


def _bounded(number: bytes) -> bytes:
    """A number that `int` takes, at most as large as pyte takes it: of some thousands of digits it is an error."""
    digits = number.lstrip(b"0")
    return digits if len(digits) <= _DIGITS else b"9" * _DIGITS
