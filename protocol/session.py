"""`initialize` and `initialized`: the handshake of a connection (docs/protocol.md, "initialize")."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from protocol.environment import EnvironmentInfo
from protocol.requests import Owner, Params
from protocol.wire_types import MessageBytes, Millis, Name, NotificationParams, WireStruct

PROTOCOL_VERSION = "exec-server.v0"
MAX_MESSAGE_BYTES = 64 << 20
"""The longest message for a client that has not said what it can take."""


class ServerInfo(WireStruct, frozen=True):
    """Name and version of this program."""

    name: str
    version: str


class InitializeResult(WireStruct, frozen=True):
    """Who holds `session_id` owns the session; `observe_id` only lets others watch it."""

    session_id: str
    environment_info: EnvironmentInfo
    observe_id: str
    server: ServerInfo
    extensions: list[str] = msgspec.field(default_factory=list)
    protocol_version: str = PROTOCOL_VERSION


class InitializeParams(Params, frozen=True):
    """`resume_session_id` is UNSET where the member is absent, which only seed-era clients do; None asks for
    a new session.
    """

    METHOD = "initialize"
    RESULT = InitializeResult
    FAMILY = "initialize"
    OWNER = Owner.ROUTER

    client_name: Name
    resume_session_id: Name | UnsetType | None = UNSET
    session_ttl_ms: Millis | None = None
    """How long this session lives without a connection; at most what the server allows. None: as the server has it."""
    max_message_bytes: MessageBytes | None = None
    """The longest message that the client takes; None: 64 MiB."""

    @property
    def max_message(self) -> int:
        """The longest message for this client in bytes."""
        return self.max_message_bytes or MAX_MESSAGE_BYTES


class Initialized(NotificationParams, frozen=True):
    """The client's notification that it has read the result of `initialize`. Its params are ignored, whatever
    they are.
    """

    METHOD = "initialized"
