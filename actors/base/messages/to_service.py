"""Messages to a service: the actor that carries out the requests of one family, such as files."""

from __future__ import annotations

import msgspec

from actors.base.messages.shared import BridgeAttached, BridgeDetached, Call, FlushWaits, PauseOutput
from actors.base.settings import Settings


class OpenService(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to a new service, first of all. A service carries out the requests of a family, such as files.

    It gets Call, BridgeAttached, BridgeDetached, FlushWaits and PauseOutput as they come, and answers the
    bridge that asked.
    """

    settings: Settings
    attached: BridgeAttached | None
    paused: bool
    session_id: str = ""


ToService = OpenService | Call | BridgeAttached | BridgeDetached | FlushWaits | PauseOutput
