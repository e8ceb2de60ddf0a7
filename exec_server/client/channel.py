"""One connection to a server, as a session needs it: requests go in, answers and notifications come out as Structs."""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct

from exec_server.client.calls import Call
from protocol.errors import ExecServerError
from protocol.wire_types import NotificationParams, WireStruct


class ChannelClosed(Exception):
    """The connection is over; the text is the reason."""


class Succeeded(Struct, frozen=True, gc=False):
    """The result of the call with this token."""

    token: int
    result: WireStruct


class Refused(Struct, frozen=True, gc=False):
    """The error that the call with this token was answered with."""

    token: int
    error: ExecServerError


Incoming = Succeeded | Refused | NotificationParams
"""The answer to a call, or else the Struct of a notification."""


class Channel(Protocol):
    """One connection. Its requests are sent in the order in which they are made."""

    resumable: bool
    """Whether its session outlives it."""
    in_process: bool
    """Whether the server is in this process, so that descriptors mean the same to it."""

    def send(self, call: Call[Any]) -> None:
        """Queue a request. Its `sent` becomes true when it may be on its way. Does nothing on a closed channel."""

    def initialized(self) -> None:
        """Tell the server, once, that the answer to `initialize` has come."""

    async def receive(self) -> Incoming:
        """The next thing that the server says. Raises ChannelClosed. As long as it is not called, the server waits."""

    async def close(self) -> None:
        """Say goodbye, and wait for the end, some seconds at most."""
