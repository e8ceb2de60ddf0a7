"""Members of a JSON object that others wrote: what has the wrong type is left out, with a warning. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from protocol.plugin_files import KIND_NAMES, kind_of, quoted, relative_path

MAX_ITEMS = 256
"""Of one list."""
T = TypeVar("T")


class Members:
    """The members of one object. `where` is its path in the document (``, `interface`); warnings name it."""

    def __init__(self, values: Mapping[str, Any], warnings: list[str], where: str = "") -> None:
        self._values = values
        self._warnings = warnings
        self._where = where

    def text(self, name: str) -> str | None:
        """A string that is not blank."""
        value = self._typed(name, str)
        return value if value is not None and value.strip() else None

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings; items that are none are left out."""
        return self._items(name, self._typed(name, list) or [], lambda text: text)

    def path(self, name: str) -> str | None:
        """A path, relative and without `./`; None for one that could lead out of its folder."""
        value = self._typed(name, str)
        return None if value is None else self._path(name, value)

    def paths(self, name: str, *, lone: bool = False) -> tuple[str, ...]:
        """A list of paths, with `lone` also one path; those that could lead out are left out."""
        value = self._typed(name, list, *([str] if lone else []))
        items = [value] if isinstance(value, str) else value or []
        return self._items(name, items, relative_path)

    def path_or_object(self, name: str) -> str | dict[str, Any] | None:
        """A path as `path` has it, or an object."""
        value = self._typed(name, str, dict)
        return self._path(name, value) if isinstance(value, str) else value

    def object(self, name: str) -> Members | None:
        """An object."""
        value = self._typed(name, dict)
        return None if value is None else Members(value, self._warnings, self.named(name))

    def first_of(self, name: str, items: list[Any]) -> list[Any]:
        """The items of a list that are looked at: MAX_ITEMS, each of which may cost a request and a warning."""
        if len(items) > MAX_ITEMS:
            self.warn(name, f"it has {len(items)} items; only the first {MAX_ITEMS} are looked at")
        return items[:MAX_ITEMS]

    def value(self, name: str) -> Any:
        """Whatever is there; None if nothing is."""
        return self._values.get(name)

    def warn(self, name: str, why: str) -> None:
        """Add a warning about a member."""
        self._warnings.append(f"{self.named(name)}: {why}")

    def named(self, name: str) -> str:
        """The path of a member in the document."""
        return f"{self._where}.{name}" if self._where else name

    def _typed(self, name: str, *types: type) -> Any:
        value = self._values.get(name)
        if value is None or type(value) in types:
            return value
        wanted = " or ".join(KIND_NAMES[each] for each in types)
        self.warn(name, f"it has to be {wanted}, not {kind_of(value)}; left out")
        return None

    def _path(self, name: str, text: str) -> str | None:
        try:
            return relative_path(text)
        except ValueError as error:
            self.warn(name, f"{error}, not {quoted(text)}; left out")
            return None

    def _items(self, name: str, items: list[Any], convert: Callable[[str], T]) -> tuple[T, ...]:
        taken = []
        for index, item in enumerate(self.first_of(name, items)):
            member = f"{name}[{index}]"
            if not isinstance(item, str):
                self.warn(member, f"it has to be a string, not {kind_of(item)}; left out")
                continue
            try:
                taken.append(convert(item))
            except ValueError as error:
                self.warn(member, f"{error}, not {quoted(item)}; left out")
        return tuple(taken)
