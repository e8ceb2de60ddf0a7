"""Texts for what does not decode: msgspec's, with the member first and types in JSON's terms."""

from __future__ import annotations

import re

import msgspec

_AT = re.compile(r"(.*) - at `(?:key in )?\$\.?(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field (`[^`]*`)")
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


def params_fault(error: msgspec.ValidationError, kind: type[msgspec.Struct], binary: str) -> str:
    """Why params are not those of `kind`, with the wire's words where it has some (wire-spec section 2); `binary`
    is what the encoding calls bytes.
    """
    fault, path = _located(str(error))
    missing = _MISSING.fullmatch(fault)
    if missing:
        return f"missing field {missing[1]}" + (f" in `{path}`" if path else "")
    if path:
        return f"invalid `{path}`: {_in_json_terms(fault, binary)}"
    if fault.startswith("Expected `object`, got"):
        return f"{_in_json_terms(fault)}: params must be an object with the members of {kind.__name__}"
    return fault


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
