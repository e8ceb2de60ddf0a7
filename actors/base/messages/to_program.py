"""Answers of the RouterActor to the program that made it."""

from __future__ import annotations

from typing import Any

import msgspec


class Configured(msgspec.Struct, frozen=True, gc=False):
    """The router's answer to Configure: it takes bridges from now on."""


class AllIdle(msgspec.Struct, frozen=True, gc=False):
    """The router's answer to Drain: every process of every session is over and closed."""


class ShutdownDone(msgspec.Struct, frozen=True, gc=False):
    """The router's answer to Shutdown: every session has been told to end."""


class Dumped(msgspec.Struct, frozen=True, gc=False):
    """The router's answer to Dump: a list of JSON objects."""

    sessions: Any


class Measured(msgspec.Struct, frozen=True, gc=False):
    """The router's answer to Measure."""

    figures: Any
    """actors.base.counters.Counters."""


ToProgram = Configured | AllIdle | ShutdownDone | Dumped | Measured
