"""Durations as people write them: `90`, `1.5s`, `10m`, `24h`, `7d`. Pure."""

from __future__ import annotations

import re

from exec_server.cli.exit_status import USAGE, CliError

_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d|)")
LONGEST_S = 10 * 365 * 86400


def seconds(text: str, option: str) -> float:
    """Seconds of a duration, more than 0 and at most ten years. Raises CliError that names the option."""
    match = _DURATION.fullmatch(text.strip())
    value = 0.0 if match is None else float(match[1]) * _UNITS[match[2]]
    if not 0.001 <= value <= LONGEST_S:
        raise CliError(f"{option} {text}: a duration is a number above 0 with s, m, h or d, such as 90s or 24h", USAGE)
    return value


def shown(value: float) -> str:
    """A duration in its largest unit: `3h`."""
    for unit in ("d", "h", "m"):
        if value >= _UNITS[unit]:
            return f"{int(value // _UNITS[unit])}{unit}"
    return f"{max(0, int(value))}s"
