"""The version of exec-server, for those below its public face."""

from __future__ import annotations

__version__ = "0.1.0"
