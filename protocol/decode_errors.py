"""Texts for what does not decode: msgspec's, with the member first and types in JSON's terms."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

_AT = re.compile(r"(.*) - at `(?:key in )?\$\.?(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field (`[^`]*`)")
_TOO_LONG = re.compile(r"Expected `(str|array|object)` of length <= (\d+)")
_LENGTHS = {"str": "characters", "array": "elements", "object": "members"}
_STEP = re.compile(r"\[(\d+|\.\.\.)\]|([^.\[]+)")
_TYPES = re.compile(r"`(None|[a-z]+(?: \| [a-z]+)*)`")
_JSON_TERMS = {
    "str": "string",
    "int": "integer",
    "bool": "boolean",
    "float": "number",
    "None": "null",
}


def parse_reason(error: Exception) -> str:
    """Why a message is none of ours, for the peer; without the prefix that names the peer."""
    if isinstance(error, RecursionError):
        return "recursion limit exceeded"
    if isinstance(error, UnicodeDecodeError):
        return f"invalid UTF-8 at byte {error.start}"
    fault, path = _located(str(error))
    if path == "id":
        return "`id` is neither a string nor an integer of 64 bits"
    if path:
        return f"invalid `{path}`: {_in_json_terms(fault)}"
    if isinstance(error, msgspec.ValidationError) and fault.startswith("Expected `object`, got"):
        return "expected a JSON-RPC object"
    return _in_json_terms(fault.removeprefix("JSON is malformed: "))


def params_fault(
    error: msgspec.ValidationError, kind: type[msgspec.Struct], binary: str, length: Callable[[str, str], int]
) -> str:
    """Why params are not those of `kind`, with the wire's words where it has some (docs/protocol.md, "Types").

    `binary` is what the encoding calls bytes, `length` tells how long a value is (see `length_at`).
    """
    fault, path = _located(str(error))
    missing = _MISSING.fullmatch(fault)
    if missing:
        return f"missing field {missing[1]}" + (f" in `{path}`" if path else "")
    too_long = _TOO_LONG.fullmatch(fault)
    if too_long:
        of = _LENGTHS[too_long[1]]
        return f"invalid `{path}`: {length(path, too_long[1])} {of}, more than the {too_long[2]} that are allowed"
    if path:
        return f"invalid `{path}`: {_in_json_terms(fault, binary)}"
    if fault.startswith("Expected `object`, got"):
        return f"{_in_json_terms(fault)}: params must be an object with the members of {kind.__name__}"
    return fault


def length_at(params: Raw, path: str, kind: str, decode: Callable[..., Any]) -> int:
    """Length of the `str`, `array` or `object` at a path that msgspec has named; of the longest where it names several.

    Builds nothing else: params may be as long as a message.
    """
    found = [params]
    for index, name in _STEP.findall(path):
        if index == "...":
            found = [value for each in found for value in decode(each, type=dict[str, Raw]).values()]
        elif index:
            found = [decode(each, type=list[Raw])[int(index)] for each in found]
        else:
            found = [decode(each, type=dict[str, Raw])[name] for each in found]
    whole: Any = {"str": str, "array": list[Raw], "object": dict[str, Raw]}[kind]
    return max(len(decode(each, type=whole)) for each in found)


def _located(text: str) -> tuple[str, str]:
    """The fault, and the path of the member at fault (`sandbox.permissions`, `argv[0]`; empty at the top)."""
    located = _AT.fullmatch(text)
    return (located[1], located[2]) if located else (text, "")


def _in_json_terms(text: str, binary: str = "bytes") -> str:
    def terms(types: re.Match[str]) -> str:
        names = (binary if name == "bytes" else name for name in types[1].split(" | "))
        return " or ".join(_JSON_TERMS.get(name, name) for name in names)

    worded = _TYPES.sub(terms, text) if text.startswith("Expected") else text
    return worded[:1].lower() + worded[1:]
