"""Attachments: the part of a ConnectionActor through which its client watches processes of other sessions."""

from __future__ import annotations

from typing import Final

from actors.base.actor import BaseActor, Part
from actors.base.messages import Address, Attach, AttachFailed, Call, Detach, Failure, ReadObserved
from actors.session.facts import SessionFacts
from protocol.errors import InvalidRequest, UnknownProcess
from protocol.process import (
    ProcessAttachParams,
    ProcessDetachParams,
)

MOST_ATTACHMENTS: Final = 128
"""Processes that a connection watches at a time (docs/protocol.md, "process/attach")."""


class Attachments(Part):
    """Ids under which the client watches processes. They end with its connection."""

    def __init__(self, actor: BaseActor, facts: SessionFacts) -> None:
        super().__init__(actor)
        self._facts = facts
        self._tokens: dict[str, int] = {}
        """With the token of the request that made each."""

    def __contains__(self, alias: str) -> bool:
        return alias in self._tokens

    def attach(self, call: Call, params: ProcessAttachParams, alias: str) -> None:
        """Watch a process under an id that is free; a failure where too many are watched."""
        if len(self._tokens) >= MOST_ATTACHMENTS:
            text = f"at most {MOST_ATTACHMENTS} processes may be attached per connection"
            self.send(call.bridge, Failure(call.token, InvalidRequest(text, {"kind": "tooMany"})))
            return
        self._tokens[alias] = call.token
        self.send(self._facts.router, Attach(self._facts.session_id, call, alias))

    def receiveMsg_AttachFailed(self, message: AttachFailed, router: Address) -> None:
        if self._tokens.get(message.alias) == message.token:
            del self._tokens[message.alias]

    def detach(self, call: Call, params: ProcessDetachParams) -> None:
        """Watch a process no longer; a failure if it is not watched."""
        if self._tokens.pop(params.process_id, None) is None:
            self.send(call.bridge, Failure(call.token, UnknownProcess(params.process_id)))
        else:
            self.send(self._facts.router, Detach(self._facts.session_id, call, params.process_id))

    def ask(self, call: Call, alias: str) -> None:
        """Pass on a request about a process that is watched; a failure if it does more than read."""
        if call.params.OBSERVABLE:
            self.send(self._facts.router, ReadObserved(self._facts.session_id, alias, call))
        else:
            error = InvalidRequest(f"process {alias} is only watched here, not owned", {"kind": "notOwner"})
            self.send(call.bridge, Failure(call.token, error))

    def clear(self) -> None:
        """The connection is gone."""
        self._tokens.clear()
