"""fs/watchMissing: whether what is missing is still missing (docs/protocol.md, "fs/watchMissing").

The paths are looked at again and again. That sees an appearance on every file system, below folders that are missing
too, and whatever happened between two looks is seen by the next; only what comes and goes in between is not.
"""

from __future__ import annotations

import os

from protocol.errors import InvalidRequest
from protocol.filesystem import WatchMissingParams
from protocol.paths import file_path

LOOK_EVERY_S = 0.25
MAX_WATCHES = 64
"""Watches of a connection."""
MAX_PATHS = 64
"""Paths of a watch."""


class Watch:
    """What one watch waits for; native paths."""

    def __init__(self, params: WatchMissingParams) -> None:
        """Raises InvalidParams for a path that is none, InvalidRequest for too many of them."""
        if len(params.missing) > MAX_PATHS:
            raise InvalidRequest(f"at most {MAX_PATHS} paths may be in `missing`", {"kind": "tooMany"})
        self.id = params.watch_id
        self._missing = [file_path(path) for path in params.missing]
        self._present = None if params.present is None else file_path(params.present)

    def is_pending(self) -> bool:
        """Whether there is something to wait for: all that is to be missing is, and `present` is there. Blocks."""
        if not self._missing or any(map(os.path.exists, self._missing)):
            return False
        return self._present is None or os.path.exists(self._present)
