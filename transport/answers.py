"""Answers: the part of a BridgeActor that gives its client the results, errors and events that other actors send."""

from __future__ import annotations

from collections.abc import Callable

from actors.base.actor import BaseActor, Part
from actors.base.messages import Address, Answer, Notify, ProcessLost, ServiceLost
from protocol.dialect import Dialect
from protocol.errors import ActorLost, ExecServerError
from protocol.process import ProcessWriteResult
from transport.outbox import Outbox
from transport.pending import PendingRequests, why


class Answers(Part):
    """Answers every request once. `answered` is called after that: there is room for more."""

    def __init__(
        self,
        actor: BaseActor,
        pending: PendingRequests,
        outbox: Outbox,
        dialect: Dialect,
        answered: Callable[[], object],
    ) -> None:
        super().__init__(actor)
        self.pending = pending
        self.outbox = outbox
        self._dialect = dialect
        self._answered = answered
        self.events_wanted = True
        """Whether the client is still told what it has not asked for."""

    def receiveMsg_Answer(self, message: Answer, sender: Address) -> None:
        request = self.pending.settle(message.token, None)
        if request is None:
            return
        try:
            result = message.result
            if isinstance(result, ProcessWriteResult):
                result = self._dialect.write_answer(result, request.process_id or "")
            self.outbox.put_result(request.request_id, result)
        except ExecServerError as error:
            self.outbox.put_error(request.request_id, error)
        self._answered()

    def receiveMsg_Notify(self, message: Notify, router: Address) -> None:
        if self.events_wanted:
            self.outbox.put_notification(message.notification)

    def receiveMsg_ProcessLost(self, message: ProcessLost, router: Address) -> None:
        self.void(self.pending.void_with_process(message), why(message))
        self._answered()

    def receiveMsg_ServiceLost(self, message: ServiceLost, sender: Address) -> None:
        self.void(self.pending.void_with_service(message), why(message))
        self._answered()

    def void(self, tokens: list[int], reason: str) -> None:
        """Nobody answers these requests any more: they get an error that says why."""
        for token in tokens:
            self.refuse(token, ActorLost(reason))

    def refuse(self, token: int, error: ExecServerError) -> None:
        """Answer one request, if it still waits, with an error."""
        request = self.pending.settle(token, str((error.data or {}).get("kind", error.code)))
        if request is not None:
            self.outbox.put_error(request.request_id, error)
