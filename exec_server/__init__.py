"""exec-server: runs commands on a machine for somebody who is elsewhere."""

from __future__ import annotations

__version__ = "0.1.0"
