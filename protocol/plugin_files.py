"""Names and paths of plugins, for the server that lists plugins and for the agent that uses them. Pure.

A plugin is a folder with a manifest, a JSON object, at one of MANIFESTS.
"""

from __future__ import annotations

import re
import reprlib
from typing import Any

import msgspec

MANIFESTS = (".codex-plugin/plugin.json", ".claude-plugin/plugin.json")
"""Where a plugin's folder has its manifest. The first one that is there is the manifest, usable or not."""
MAX_MANIFEST_BYTES = 1 << 20
DEFAULT_SKILLS = "skills"
"""The folder of skills that every plugin may have, whatever its manifest says."""
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 120
_SEGMENT = re.compile(r"[A-Za-z0-9_-]+")
KIND_NAMES = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}


def is_segment(text: str) -> bool:
    """Whether `text` can be a part of an id, and so a namespace: one or more ASCII letters, digits, `_` and `-`."""
    return _SEGMENT.fullmatch(text) is not None


def relative_path(text: str) -> str:
    """The path as its plain components, `./skills/` as `skills`. Raises ValueError, saying what is wrong with it, for
    what does not begin with `./`, names the folder itself, or could lead out of it.
    """
    if not text.startswith("./"):
        raise ValueError("a path has to begin with `./`")
    rest = text[2:]
    if rest.startswith("/"):
        raise ValueError("a path may not be absolute")
    if "\0" in rest:
        raise ValueError("a path has no NUL")
    parts = [part for part in rest.split("/") if part not in ("", ".")]
    if not parts:
        raise ValueError("a path has to name something in the folder, not the folder itself")
    if ".." in parts:
        raise ValueError("a path may not have `..` in it")
    return "/".join(parts)


def decoded(data: bytes) -> Any:
    """The value of a JSON document. Raises ValueError with the reason for what is none, at whatever depth."""
    try:
        data.decode()
        return msgspec.json.decode(data)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 (byte {error.start})") from None
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
    except msgspec.MsgspecError as error:
        raise ValueError(f"it is no JSON: {error}") from None


def decoded_object(data: bytes) -> dict[str, Any]:
    """The same, for a document that has to be an object."""
    value = decoded(data)
    if not isinstance(value, dict):
        raise ValueError(f"it has to be an object, not {kind_of(value)}")
    return value


def kind_of(value: object) -> str:
    """What a JSON value is, for an error."""
    return "null" if value is None else KIND_NAMES.get(type(value), type(value).__name__)


def quoted(value: object) -> str:
    """A value for an error, in quotes if it is a string, with the middle of what is long left out."""
    return _SHORT.repr(value)


def plugin_name(values: dict[str, Any], folder: str) -> str:
    """The name in a manifest; that of the plugin's folder if it is blank or absent. Raises ValueError for a `name` that
    is no string.
    """
    name = values.get("name")
    if name is not None and not isinstance(name, str):
        raise ValueError(f"name: it has to be a string, not {kind_of(name)}")
    return folder if name is None or not name.strip() else name


def namespace(data: bytes, folder: str) -> str:
    """The namespace that a manifest gives to what is in its folder. Raises ValueError, with the reason, for a manifest
    that gives none.
    """
    name = plugin_name(decoded_object(data), folder)
    if not is_segment(name):
        raise ValueError(
            f"{quoted(name)} cannot be the name of a plugin: it has other than letters, digits, `_` and `-`"
        )
    return name
