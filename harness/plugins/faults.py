"""Faults of a plugin's folder, and the checks that its rules are made of. Blocks."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from harness.disk import NotAFile, read_file, why
from protocol.plugin_files import MAX_MANIFEST_BYTES, decoded_object, kind_of, relative_path

TODO = "[TODO:"


class Fault(Struct, frozen=True):
    """Something that is wrong: `member` is its path, in the manifest (`$.interface.logo`), or that of a file."""

    member: str
    text: str


class Faults:
    """What was found in the plugin at `root`, in the order in which it was looked for. A check returns what it has
    checked, None after a fault. `where` is the object that a member is in (``, `interface`).
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.found: list[Fault] = []

    def add(self, member: str, text: str) -> None:
        """One more."""
        self.found.append(Fault(member, text))

    def text(self, values: dict[str, Any], name: str, where: str = "", *, required: bool = True) -> str | None:
        value = values.get(name)
        if value is None:
            if required:
                self.add(at(where, name), "it is missing")
            return None
        if not isinstance(value, str) or not value.strip():
            self.add(at(where, name), f"it has to be a text that is not blank, not {short(value)}")
            return None
        return value

    def texts(self, values: dict[str, Any], name: str, where: str = "", *, required: bool = False) -> None:
        value = values.get(name)
        if value is None:
            if required:
                self.add(at(where, name), "it is missing: it has to be a list, which may be empty")
            return
        if not isinstance(value, list):
            self.add(at(where, name), f"it has to be a list of texts, not {kind_of(value)}")
            return
        for index, each in enumerate(value):
            if not isinstance(each, str) or not each.strip():
                member = f"{at(where, name)}[{index}]"
                self.add(member, f"it has to be a text that is not blank, not {short(each)}")

    def object(self, values: dict[str, Any], name: str, *, required: bool = False) -> dict[str, Any] | None:
        value = values.get(name)
        if value is None and required:
            self.add(f"$.{name}", "it is missing")
        elif value is not None and not isinstance(value, dict):
            self.add(f"$.{name}", f"it has to be an object, not {kind_of(value)}")
        return value if isinstance(value, dict) else None

    def url(self, values: dict[str, Any], name: str, where: str = "") -> None:
        value = self.text(values, name, where, required=False)
        if value is not None and TODO not in value and not _is_https(value):
            self.add(at(where, name), f"it has to be an absolute https:// URL, not {value!r}")

    def path(
        self, value: Any, member: str, is_there: Callable[[Path], bool], kind: str, *, below: str = ""
    ) -> str | None:
        """The path of something in the plugin, relative to its folder; None after a fault."""
        if not isinstance(value, str):
            self.add(member, f"it has to be a path, not {kind_of(value)}")
            return None
        if TODO in value:
            return None
        try:
            path = os.path.join(below, relative_path(value))
        except ValueError as error:
            self.add(member, f"{error}, not {value!r}")
            return None
        if not self.is_inside(path):
            self.add(member, f"{value!r} leads out of the plugin by a link")
            return None
        if not is_there(self.root / path):
            self.add(member, f"there is no {kind} {value!r} in the plugin")
            return None
        return path

    def is_inside(self, path: str) -> bool:
        return os.path.realpath(self.root / path).startswith(os.path.realpath(self.root).rstrip("/") + "/")

    def begins(self, path: str, magic: bytes) -> bool:
        try:
            with open(self.root / path, "rb") as file:
                return file.read(len(magic)) == magic
        except OSError:
            return False

    def content(self, file: str, limit: int) -> bytes | None:
        """What is in a file of the plugin; None after a fault."""
        if not self.is_inside(file):
            self.add(file, "it leads out of the plugin by a link")
            return None
        try:
            return read_file(self.root / file, limit)
        except FileNotFoundError:
            self.add(file, "it is missing")
        except NotAFile as error:
            self.add(file, f"it has to be a file: {error}")
        except (OSError, ValueError) as error:
            self.add(file, why(error))
        return None

    def json(self, file: str) -> dict[str, Any] | None:
        data = self.content(file, MAX_MANIFEST_BYTES)
        if data is None:
            return None
        try:
            return decoded_object(data)
        except ValueError as error:
            self.add(file, str(error))
            return None

    def left_to_do(self, value: Any, where: str) -> None:
        """Texts that were never filled in, wherever they are."""
        waiting = [(where, value)]
        while waiting:
            where, value = waiting.pop()
            if isinstance(value, str) and TODO in value:
                self.add(where, f"it was never filled in: {short(value)}")
            waiting += [(f"{where}{name}", each) for name, each in _children(value)][::-1]


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f".{name}", each) for name, each in value.items())
    elif isinstance(value, list):
        yield from ((f"[{index}]", each) for index, each in enumerate(value))


def _is_https(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme == "https" and bool(parts.hostname) and not any(each.isspace() for each in text)
    except ValueError:
        return False


def at(where: str, name: str) -> str:
    return f"$.{where}.{name}" if where else f"$.{name}"


def short(value: Any) -> str:
    return reprlib.repr(value)
