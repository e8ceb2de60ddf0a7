"""Accounts: the part of the RouterActor that counts what all sessions have together, and refuses what is too much."""

from __future__ import annotations

import copy

from actors.base.actor import BaseActor, Part
from actors.base.counters import Counters
from actors.base.messages import (
    Address,
    CancelReservation,
    DropRecord,
    Measure,
    Measured,
    NearLimit,
    RecordDropped,
    Reservation,
    ReserveProcess,
    RetainedBytes,
    TrafficReport,
)
from actors.base.settings import Settings
from actors.router.directory import Directory
from actors.router.quotas import Quotas
from actors.system.budget import BUDGETS, HANDLES
from protocol.errors import ExecServerError, LimitReached, ShuttingDown
from protocol.process import ProcessClosed, ProcessExited


class Accounts(Part):
    """Quotas, and counters for whoever watches over the server. Whoever starts a process asks here first."""

    def __init__(self, actor: BaseActor, directory: Directory, settings: Settings) -> None:
        super().__init__(actor)
        self._directory = directory
        self.quotas = Quotas(settings)
        _set_budgets(settings)
        self._counters = Counters()
        self.draining = False
        """Nothing new is begun."""

    def reconfigure(self, settings: Settings) -> None:
        """These limits hold from now on."""
        self.quotas.reconfigure(settings)
        _set_budgets(settings)

    # -- sessions -------------------------------------------------------------------------------------------------

    def check_session(self) -> None:
        """One more session is asked for. Raises LimitReached."""
        try:
            self.quotas.check_session(len(self._directory))
        except LimitReached as error:
            self._count_refusal(error)
            raise

    def end_session(self, session_id: str) -> None:
        """A session is gone, and all it had."""
        self.quotas.end_session(session_id)
        HANDLES.lose(session_id)

    # -- processes ------------------------------------------------------------------------------------------------

    def receiveMsg_ReserveProcess(self, message: ReserveProcess, session: Address) -> None:
        if message.session_id not in self._directory:
            return  # it is about to end, with all it has
        error: ExecServerError | None = None
        try:
            if self.draining:
                raise ShuttingDown
            self.quotas.begin(message.session_id, message.process_id)
        except LimitReached as refused:
            error = refused
            self._count_refusal(refused)
        except ShuttingDown as refused:
            error = refused
        else:
            self._counters.count(self._counters.starts, "tty" if message.tty else "pipe")
        self.send(session, Reservation(message.process_id, message.token, error))

    def receiveMsg_CancelReservation(self, message: CancelReservation, session: Address) -> None:
        self._counters.failed_starts += 1
        self.lose(message.session_id, message.process_id)

    def over(self, session_id: str, event: ProcessExited | ProcessClosed, retained: int, evicted: int) -> None:
        """A process has exited, or is closed and keeps so many bytes."""
        if isinstance(event, ProcessExited):
            self.quotas.over(session_id, event.process_id)
            self._counters.count(self._counters.exits, event.reason or "exited")
        else:
            self._counters.evicted_bytes += evicted
            self._keep(session_id, event.process_id, retained, finished=True)

    def lose(self, session_id: str, process_id: str) -> None:
        """A process is gone, and all it had."""
        self.quotas.lose(session_id, process_id)

    def receiveMsg_RetainedBytes(self, message: RetainedBytes, process: Address) -> None:
        self._counters.evicted_bytes += message.evicted
        self._keep(message.session_id, message.process_id, message.size)

    def _keep(self, session_id: str, process_id: str, size: int, finished: bool = False) -> None:
        """A process keeps so many bytes of its output; what is too much for the server goes."""
        if session_id not in self._directory:
            return
        for doomed_session, doomed in self.quotas.keeps(session_id, process_id, size, finished):
            session = self._directory.get(doomed_session)
            if session is not None:
                self.send(session.connection, DropRecord(doomed))

    def receiveMsg_RecordDropped(self, message: RecordDropped, session: Address) -> None:
        self.quotas.drop(message.session_id, message.process_id)

    # -- for whoever watches --------------------------------------------------------------------------------------

    def receiveMsg_NearLimit(self, message: NearLimit, sender: Address) -> None:
        self.quotas.note_near(message.limit, message.used, message.maximum)

    def receiveMsg_TrafficReport(self, message: TrafficReport, bridge: Address) -> None:
        counters = self._counters
        counters.received_bytes += message.received_bytes
        counters.sent_bytes += message.sent_bytes
        counters.add_requests(message.requests)

    def receiveMsg_Measure(self, message: Measure, sender: Address) -> None:
        counters, quotas = self._counters, self.quotas
        counters.sessions = len(self._directory)
        counters.attached_sessions = sum(session.bridge is not None for session in self._directory)
        counters.running_processes, counters.finished_processes = quotas.running, quotas.finished
        counters.retained_bytes = quotas.retained_bytes
        counters.file_handles = HANDLES.used
        counters.refusals.update({name: budget.refusals for name, budget in BUDGETS.items() if budget.refusals})
        self.send(sender, Measured(copy.deepcopy(counters)))

    def _count_refusal(self, error: LimitReached) -> None:
        assert error.data is not None
        self._counters.count(self._counters.refusals, error.data["limit"])


def _set_budgets(settings: Settings) -> None:
    for name, budget in BUDGETS.items():
        budget.maximum = getattr(settings, name)
