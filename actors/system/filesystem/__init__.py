"""The seam to the file system: one function a request, which blocks and knows no actors.

`carry_out` is what the file helper runs inside a sandbox; outside, `actors.system.files` chooses.
"""

from __future__ import annotations

from actors.system.filesystem.operations import carry_out

__all__ = ["carry_out"]
