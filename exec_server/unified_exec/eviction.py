"""Which command has to go when there is no room for another. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

MAX_PROCESSES = 64
WARN_FROM = 60
PROTECTED = 8
"""So many of the most recently used are never chosen."""


class Candidate(NamedTuple):
    """A command: `last_used` is larger the later that was."""

    process_id: int
    last_used: int
    finished: bool


def victim(candidates: Iterable[Candidate]) -> int | None:
    """Of those that are not protected the least recently used finished one, else the least recently used; its id."""
    by_use = sorted(candidates, key=lambda each: each.last_used)
    unprotected = by_use[: max(0, len(by_use) - PROTECTED)]
    for each in unprotected:
        if each.finished:
            return each.process_id
    return unprotected[0].process_id if unprotected else None
