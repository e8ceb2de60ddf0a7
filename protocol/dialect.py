"""What differs between generations of clients, in this one place (docs/wire-spec.md, "Generations").

A connection is seed-era if its `initialize` has no `resumeSessionId` member, no WebSocket subprotocol was
chosen and its first start has a native `cwd`. Until that start it is treated as current; from then on it is
one or the other.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from protocol.envelope import method_text
from protocol.errors import ExecServerError, InvalidRequest, MethodNotFound, UnknownProcess
from protocol.process import ProcessReadParams, ProcessStartParams, ProcessWriteResult, SeedReadParams
from protocol.requests import Params
from protocol.session import InitializeParams


class Dialect:
    """The generation of one connection's client, and what follows from it."""

    __slots__ = ("_candidate", "_decided", "seed_era")

    def __init__(self, subprotocol: str | None = None) -> None:
        self.seed_era = False
        """Whether the client is known to be of the seed's generation."""
        self._candidate = subprotocol is None
        self._decided = False

    def initialize(self, params: InitializeParams) -> None:
        """Take note of an `initialize` that succeeded."""
        if params.resume_session_id is not UNSET:
            self._candidate = False

    def translate(self, params: Params) -> Params:
        """What a request of this client means, in terms of a current client.

        The first `process/start` decides which generation it is, whether that will succeed or not.
        """
        if isinstance(params, ProcessStartParams) and not self._decided:
            self._decided = True
            self.seed_era = self._candidate and params.cwd.startswith("/")
        elif self.seed_era and isinstance(params, ProcessReadParams):
            return SeedReadParams(*msgspec.structs.astuple(params))
        return params

    @property
    def session_ends_with_connection(self) -> bool:
        """Whether a cut connection ends its session instead of detaching it."""
        return self.seed_era

    def unknown_method(self, method: str) -> ExecServerError:
        """The error for a method that this server does not have."""
        name = method_text(method)
        return InvalidRequest(f"unknown method: {name}") if self.seed_era else MethodNotFound(name)

    def write_answer(self, result: ProcessWriteResult, process_id: str) -> ProcessWriteResult:
        """The result as it is for a current client; for the seed's, raises InvalidRequest unless it was
        accepted.
        """
        if not self.seed_era or result.accepted:
            return result
        if result.status == "unknownProcess":
            raise UnknownProcess(process_id)
        if result.status == "stdinClosed":
            raise InvalidRequest(f"stdin is closed for process {process_id}")
        raise InvalidRequest(f"process id {process_id} is starting")
