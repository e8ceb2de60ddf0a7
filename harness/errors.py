"""The errors of the agent's side. What is only wrong in a file that others wrote is a warning in a result, none of
these.

HarnessError
├── HistoryBusy        others hold the lock of the history
├── PluginError        a plugin that cannot be made, or is none
├── MarketplaceError   a marketplace that cannot be read or changed, or a plugin that it does not offer
└── ReadError          a file that cannot be read
"""

from __future__ import annotations

from typing import Literal

MarketplaceFault = Literal[
    "place",
    "unreadable",
    "invalid",
    "busy",
    "exists",
    "unknownPlugin",
    "notAvailable",
    "invalidId",
    "unsupportedSource",
]
ReadFault = Literal["notFound", "notAFile", "notAFolder", "unreadable"]


class HarnessError(Exception):
    """The root of all. The text says what was wrong, with the value, and what to do."""


class HistoryBusy(HarnessError):
    """Others hold the lock of the history file for longer than was to be waited."""


class PluginError(HarnessError):
    """A plugin that cannot be made or found, or a manifest that is none."""


class MarketplaceError(HarnessError):
    """A marketplace file that is of no use, or a plugin in it that cannot be had; `kind` says which."""

    def __init__(self, text: str, kind: MarketplaceFault) -> None:
        super().__init__(text)
        self.kind: MarketplaceFault = kind

    def __reduce__(self) -> tuple[type[MarketplaceError], tuple[str, MarketplaceFault]]:
        return type(self), (str(self), self.kind)


class ReadError(HarnessError):
    """A file or folder that a Reader cannot read. `reason` is the text without the path."""

    def __init__(self, path: str, reason: str, kind: ReadFault) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
        self.kind: ReadFault = kind

    def __reduce__(self) -> tuple[type[ReadError], tuple[str, str, ReadFault]]:
        return type(self), (self.path, self.reason, self.kind)
