"""Messages to a ProcessActor, all of them from its ConnectionActor."""

from __future__ import annotations

import msgspec

from actors.base.address import Address
from actors.base.messages.shared import BridgeDetached, Call, Drain, FlushWaits, Observe, PauseOutput
from actors.base.settings import Settings
from protocol.errors import ExecServerError
from protocol.process import ProcessStartParams


class StartProcess(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to a new ProcessActor, first of all. `cwd` is a native path; `paused`: no output for now.

    `refusal`: there may be no child, for this reason; the ProcessActor answers what has been asked of it since.
    """

    session_id: str
    token: int
    bridge: Address
    router: Address
    params: ProcessStartParams
    cwd: str
    settings: Settings
    paused: bool
    refusal: ExecServerError | None = None


class Forget(msgspec.Struct, frozen=True, gc=False):
    """ConnectionActor to ProcessActor: the id is free again; answer Forgotten once nothing of the child is left."""


ToProcess = StartProcess | Forget | Call | Drain | BridgeDetached | FlushWaits | PauseOutput | Observe
