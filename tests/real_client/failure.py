"""How a scenario says that something is not as it must be."""

from __future__ import annotations


class Failure(Exception):
    """The client or the server did not do what the scenario needs."""


def check(holds: object, why: str) -> None:
    """Raise Failure with `why`, cut to a readable length, unless `holds`."""
    if not holds:
        raise Failure(why if len(why) < 900 else f"{why[:450]} … {why[-450:]}")
