"""Paths and what may be done there: the most specific one decides. Pure."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

Access = Literal["read", "write", "deny"]
Kind = Literal["directory", "file", "missing"]
_RANK = {"read": 1, "write": 2, "deny": 3}


class Rule(NamedTuple):
    """At `path`, canonical, and below it this `access` holds. `missing`: nothing is there, nor may anything be made."""

    path: str
    access: Access
    kind: Kind = "directory"


class Link(NamedTuple):
    """A symbolic link on the way to a rule's path."""

    path: str
    target: str


class Rules:
    """At most one rule a path. Of several for the same path, `deny` holds, then `write`."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules: dict[str, Rule] = {}
        for rule in rules:
            self.add(rule)

    def __iter__(self) -> Iterator[Rule]:
        """Shorter paths first, so that each comes after those it is inside of."""
        return iter(sorted(self._rules.values(), key=lambda rule: (rule.path.count("/"), rule.path)))

    def __contains__(self, path: str) -> bool:
        return path in self._rules

    def add(self, rule: Rule) -> None:
        """Add one, unless a stronger one for the same path is there."""
        there = self._rules.get(rule.path)
        if there is None or _RANK[rule.access] > _RANK[there.access]:
            self._rules[rule.path] = rule

    def access(self, path: str) -> Access | None:
        """What may be done at `path`; None where no rule says anything, so that it is not even there."""
        rule = self._rules.get(path) or self.above(path)
        return None if rule is None else rule.access

    def above(self, path: str) -> Rule | None:
        """The most specific rule for a directory that `path` is inside of."""
        while path != "/":
            path = os.path.dirname(path)
            if path in self._rules:
                return self._rules[path]
        return None

    def below(self, path: str) -> bool:
        """Whether there is a rule for something inside of `path`."""
        return any(is_inside(each, path) for each in self._rules)

    def effective(self) -> list[Rule]:
        """The rules that say something other than the one above them, shorter paths first."""
        return [rule for rule in self if self._changes(rule)]

    def _changes(self, rule: Rule) -> bool:
        above = self.above(rule.path)
        if rule.kind == "missing":
            return above is not None and above.access == "write"
        return rule.access != (None if above is None else above.access)


def is_inside(path: str, directory: str) -> bool:
    """Whether `path` is below `directory`, and not the same."""
    return path != directory and path.startswith(directory.rstrip("/") + "/")
