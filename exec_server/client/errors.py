"""What goes wrong on the client's side. What a server answers is raised as it is: see protocol.errors.

ConnectionError
├── ConnectFailed            there was no connection to begin with
│   └── Unauthorized         the server does not let this client in
└── TransportDisconnected    the connection is gone, and its session with it
OutputGap                    output was evicted by the server before it could be read
"""

from __future__ import annotations


class ConnectFailed(ConnectionError):
    """No connection to the server came about; the text says where to and why."""


class Unauthorized(ConnectFailed):
    """The server does not let this client in (HTTP 401 or 403). Trying again would not help."""


class TransportDisconnected(ConnectionError):
    """The connection is gone and the session cannot be resumed, or a request got lost with a connection.

    `reason` is what ended it. The text begins with `exec-server transport disconnected`.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"exec-server transport disconnected: {reason}")
        self.reason = reason

    def __reduce__(self) -> tuple[type[TransportDisconnected], tuple[str]]:
        return type(self), (self.reason,)


class OutputGap(Exception):
    """Output of a process is missing here: the server could not keep it while there was no connection.

    Events `from_seq` to `to_seq` (both included) are lost, with `size` bytes of output, of whatever streams; None where
    the server does not say how many. Reading may go on behind the gap.
    """

    def __init__(self, process_id: str, from_seq: int, to_seq: int, size: int | None) -> None:
        amount = "unknown" if size is None else size
        super().__init__(f"{amount} bytes of output of process {process_id} were evicted before they could be read")
        self.process_id = process_id
        self.from_seq = from_seq
        self.to_seq = to_seq
        self.size = size

    def __reduce__(self) -> tuple[type[OutputGap], tuple[str, int, int, int | None]]:
        return type(self), (self.process_id, self.from_seq, self.to_seq, self.size)
