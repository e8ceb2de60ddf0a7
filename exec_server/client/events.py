"""What a client is told of its processes, in the order in which it happened."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from exec_server.client.errors import TransportDisconnected
from protocol.errors import ActorLost
from protocol.process import ExitReason, Stream


class ExitStatus(int):
    """How a process ended. As a number it is what `subprocess` calls returncode: the exit code, or -n for signal n."""

    signal: str | None
    """The name of the signal it died of (`SIGKILL`); None if it exited by itself."""
    reason: ExitReason
    """Why it ended: docs/protocol.md, `process/exited`."""

    @classmethod
    def of(cls, exit_code: int, signal: str | None, reason: ExitReason | None) -> ExitStatus:
        """The status that the wire tells with these members; there a death by signal n has exit code 128+n."""
        status = cls(exit_code if signal is None else 128 - exit_code)
        status.signal = signal
        status.reason = reason or ("exited" if signal is None else "signaled")
        return status

    @property
    def code(self) -> int | None:
        """The exit code, None if it died of a signal."""
        return int(self) if self.signal is None else None

    def __repr__(self) -> str:
        how = f"exit code {int(self)}" if self.signal is None else self.signal
        return f"<ExitStatus {how}, {self.reason}>"

    def __str__(self) -> str:
        return str(int(self))


class Output(Struct, frozen=True):
    """A piece of output, as the process's program or terminal wrote it: 1 to 65,536 bytes, not cut for text."""

    process_id: str
    seq: int
    stream: Stream
    offset: int
    """Bytes of output of this process before it, both streams together."""
    data: bytes


class Gap(Struct, frozen=True):
    """Output that the server could not keep until it was read: events `from_seq` to `to_seq`, `size` bytes.

    A server without the extension `gaps` does not say how many bytes: None.
    """

    process_id: str
    from_seq: int
    to_seq: int
    size: int | None


class Exited(Struct, frozen=True):
    """The process has been waited for. Output may still follow."""

    process_id: str
    seq: int
    status: ExitStatus
    sandbox_denied: bool = False


class Closed(Struct, frozen=True):
    """The process has exited, and its output is at its end. The last event, unless Failed is."""

    process_id: str
    seq: int


FailureKind = Literal["disconnected", "unknownProcess", "processLost"]
"""Why nothing more is heard of a process: the session is lost, the server does not know the process any more, or the
server has lost it.
"""


class Failed(Struct, frozen=True):
    """Nothing more will be heard of the process: its session is gone, or the server lost it. The last event."""

    process_id: str
    reason: str
    """In words, for people; programs decide on `kind`."""
    kind: FailureKind

    def error(self) -> TransportDisconnected | ActorLost:
        """The exception for who reads no events: TransportDisconnected for `disconnected`, ActorLost for the others."""
        if self.kind == "disconnected":
            return TransportDisconnected(self.reason)
        return ActorLost(f"process {self.process_id}: {self.reason}")

    def __str__(self) -> str:
        return str(self.error()) if self.kind == "disconnected" else self.reason


Event = Output | Gap | Exited | Closed | Failed


class Disconnected(Struct, frozen=True):
    """In a stream of all events: the connection was cut, and the session is being resumed."""

    reason: str


class Reconnected(Struct, frozen=True):
    """In a stream of all events: the session goes on, on a new connection."""


class Missed(Struct, frozen=True):
    """In a stream of all events of a connection: so many were left out here, because they were not taken in time."""

    count: int


ClientEvent = Event | Disconnected | Reconnected | Missed
