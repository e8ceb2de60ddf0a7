"""What a client found wrong."""

from __future__ import annotations


class Wrong(Exception):
    """Something is not as it must be; the text says what."""


def check(holds: object, what: str) -> None:
    """Raise Wrong unless something holds."""
    if not holds:
        raise Wrong(what)
