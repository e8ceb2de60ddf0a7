"""Where an actor gets its messages."""

from __future__ import annotations

from typing import Any

Address = Any
"""A thespian.actors.ActorAddress; Thespian has no types of its own to offer."""
