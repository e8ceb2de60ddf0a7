"""SpawnError of an errno."""

from __future__ import annotations

from typing import Any

from protocol.errors import SpawnError


def spawn_failure(error: OSError, reason: str, detail: str, **data: Any) -> SpawnError:
    """The error of a start that failed so: `reason` is its part at fault, `detail` goes into the message, `data` along
    with it."""
    plain = SpawnError.from_errno(error.errno or 0, reason)
    assert plain.data is not None
    return SpawnError(plain.data["kind"], f"{plain.message}: {detail}", reason, errno=error.errno, **data)
