"""The limit of open files that commands get where this process has raised its own."""

from __future__ import annotations

import resource
from typing import Final


class ChildOpenFiles:
    """The soft RLIMIT_NOFILE of commands; None: they inherit this process's."""

    def __init__(self) -> None:
        self.soft: int | None = None

    def apply(self, pid: int) -> None:
        """Set it on a command that was just started. It runs already: one that asks within its first microseconds,
        before its libraries are loaded, would still see ours.
        """
        if self.soft is None:
            return
        try:
            hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
            if hard == resource.RLIM_INFINITY or self.soft <= hard:
                resource.prlimit(pid, resource.RLIMIT_NOFILE, (self.soft, hard))
        except (ProcessLookupError, PermissionError):
            return  # over already, or a set-uid program, whose limits are not ours to set


CHILD_OPEN_FILES: Final = ChildOpenFiles()
