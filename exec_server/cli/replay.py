"""`exec-server replay`: play a recording back in this terminal."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TextIO

from cyclopts import Parameter

from exec_server.cli.exit_status import OutputFailed, put
from exec_server.printable import printable
from exec_server.standard_fds import say


class RecordingError(Exception):
    """The file is no asciicast that can be played; the text says why and where."""


def replay(file: Path, *, speed: Annotated[float, Parameter(name="--speed")] = 1.0, idle_limit: float = 5.0) -> int:
    """Play an asciicast file, as `--record` writes it.

    Parameters
    ----------
    file
        The recording, asciicast version 2 or 3.
    speed
        2 plays twice as fast; 0 does not wait at all.
    idle_limit
        The longest pause, in seconds, before `speed`.
    """
    if speed < 0 or idle_limit < 0:
        say(2, "Error: --speed and --idle-limit must not be negative")
        return 2
    try:
        with file.open(encoding="utf-8") as lines:
            for pause, text in shown(lines):
                if speed:
                    time.sleep(min(pause, idle_limit) / speed)
                put(text)
    except (BrokenPipeError, OutputFailed):
        raise
    except (OSError, UnicodeDecodeError, RecordingError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        say(2, printable(f"Error: cannot play {file}: {reason}"))
        return 1
    return 0


def shown(lines: TextIO) -> Iterator[tuple[float, str]]:
    """What a recording shows: the seconds to wait before each piece, and the piece. Raises RecordingError."""
    version = _version(lines.readline())
    last = waited = 0.0
    for number, line in enumerate(lines, 2):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            at, code, data = json.loads(line)
            at = float(at)
        except (ValueError, TypeError):
            raise RecordingError(f"line {number} is no event") from None
        # Version 2 counts from the start, version 3 from the event before.
        waited += at if version == 3 else max(0.0, at - last)
        last = at
        if code == "o":
            yield waited, str(data)
            waited = 0.0


def _version(line: str) -> int:
    try:
        header: Any = json.loads(line)
        version = header["version"]
    except (ValueError, TypeError, KeyError):
        raise RecordingError("its first line is no asciicast header") from None
    if version not in (2, 3):
        raise RecordingError(f"asciicast version {version!r} is not 2 or 3")
    return int(version)
