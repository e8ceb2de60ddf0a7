"""Programs of this package that run in processes of their own, as text.

launcher       sets limits, or enters a sandbox from inside, and becomes the command
file_helper    starts the file helper where nothing but this package can be imported
guardian       waits for the death of the server (sh)
walker         what the guardian becomes then: finds and kills what the server has left

Their text is read once and goes along with each start (`python -c`): a running server depends on none of their files
any more, which a sandbox may hide, an upgrade may replace, and the death of a server may leave on a dead disk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parent

LAUNCHER: Final = (_FOLDER / "launcher.py").read_bytes()
FILE_HELPER: Final = (_FOLDER / "file_helper.py").read_bytes()
GUARDIAN: Final = (_FOLDER / "guardian.sh").read_bytes()
WALKER: Final = (_FOLDER / "walker.py").read_bytes()


def python(interpreter: str, text: bytes, *args: bytes) -> list[bytes]:
    """The argv that runs a program of these: without site packages, environment variables or the user's folder."""
    return [interpreter.encode("utf-8", "surrogateescape"), b"-I", b"-S", b"-c", text, *args]
