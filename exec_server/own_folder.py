"""Our own folder, which somebody may have removed since we were started in it."""

from __future__ import annotations

import os

GONE = "the folder that exec-server was started in is gone: cd to one that is there, and start it again"


def is_gone() -> bool:
    """Whether it has no path any more (getcwd(2), ENOENT)."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False
