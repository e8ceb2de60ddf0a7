"""The server's own files, which no command in a sandbox may see: with them it would get in by the front door."""

from __future__ import annotations

import os
from collections.abc import Iterable

from actors.system.sandbox.rules import Rule, Rules

_private: list[str] = []


def keep_private(paths: Iterable[str]) -> None:
    """These files and folders are hidden in every sandbox that restricts files, from now on; the last call counts."""
    _private[:] = [os.path.abspath(path) for path in paths]


def hide_private(rules: Rules) -> None:
    """Deny what is private and is there, wherever else its place can be seen. Looks at the file system; blocks."""
    for path in map(os.path.realpath, _private):
        if rules.access(path) not in (None, "deny") and os.path.exists(path):
            rules.add(Rule(path, "deny", "directory" if os.path.isdir(path) else "file"))
