"""Processes: the part of a ConnectionActor that owns process ids and the actors behind them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from thespian.actors import ActorExitRequest

from actors.base.actor import BaseActor, Part, log
from actors.base.log_context import about
from actors.base.messages import (
    Address,
    Call,
    CancelReservation,
    DropRecord,
    Failure,
    Forget,
    Forgotten,
    NearLimit,
    OutputResumed,
    PauseOutput,
    ProcessEvent,
    ProcessLost,
    ProcessStarted,
    RecordDropped,
    Reservation,
    ReserveProcess,
    StartAudited,
    StartFailed,
    StartProcess,
)
from actors.session import audit
from actors.session.entries import Entry, State
from actors.session.facts import SessionFacts
from actors.session.fair_release import FairRelease
from actors.session.start_rules import check_start
from actors.system.limit_warnings import near
from protocol.errors import ExecServerError, InternalError, ShuttingDown
from protocol.paths import cwd_path
from protocol.process import ProcessEntry, ProcessExited, ProcessStartParams


class Processes(Part):
    """Process id -> its entry. A ProcessActor is made at once; it waits for StartProcess, and with it what is asked of
    it meanwhile."""

    def __init__(self, actor: BaseActor, facts: SessionFacts, on_over: Callable[[], None]) -> None:
        """`on_over` is called when a process is over and closed, or never began."""
        super().__init__(actor)
        self._facts = facts
        self._on_over = on_over
        self._entries: dict[str, Entry] = {}
        self._running = 0
        self._flow = FairRelease()

    # -- what there is --------------------------------------------------------------------------------------------

    def __contains__(self, process_id: str) -> bool:
        return process_id in self._entries

    @property
    def paused(self) -> bool:
        """Whether nothing more is to be made for the client."""
        return self._flow.held

    @property
    def all_closed(self) -> bool:
        """Whether nothing more will be told of any process."""
        return all(entry.state is State.CLOSED for entry in self._entries.values())

    def shown(self) -> list[ProcessEntry]:
        """The processes as process/list shows them."""
        return [entry.shown() for entry in self._entries.values()]

    def dumped(self, show_argv: bool) -> list[dict[str, Any]]:
        """The processes as a dump of the server shows them."""
        return [entry.dumped(show_argv) for entry in self._entries.values()]

    def tell(self, process_id: str, message: Any) -> None:
        """Send to the actor of a process that is there."""
        self.send(self._entries[process_id].actor, message)

    def tell_all(self, message: Any, *, unclosed: bool = False) -> None:
        """Send to the actors of all processes, or of those that are not closed."""
        for entry in self._entries.values():
            if not unclosed or entry.state is not State.CLOSED:
                self.send(entry.actor, message)

    # -- starts ---------------------------------------------------------------------------------------------------

    def start(self, call: Call, params: ProcessStartParams) -> None:
        """Begin a process under an id that is free, if rules and limits allow it; else answer why not."""
        facts = self._facts
        cwd = params.cwd
        try:
            cwd = cwd_path(params.cwd)
            if facts.draining:
                raise ShuttingDown
            check_start(params, self._running, facts.settings)
        except ExecServerError as error:
            facts.audit(audit.failed, params, cwd, facts.client, error)
            self.send(call.bridge, Failure(call.token, error))
            return
        actor = self.actor.createActor(facts.opened.process_class)
        self._entries[params.process_id] = Entry(call, params, cwd, facts.client, actor)
        self._running += 1
        maximum = facts.settings.max_processes_per_session
        if self._running == near(maximum):
            self.send(facts.router, NearLimit("max_processes_per_session", self._running, maximum))
        self.send(facts.router, ReserveProcess(facts.session_id, params.process_id, call.token, params.tty))

    def receiveMsg_Reservation(self, message: Reservation, router: Address) -> None:
        entry = self._entries.get(message.process_id)
        if entry is None or entry.state is not State.RESERVING or entry.call.token != message.token:
            return  # its actor was lost meanwhile, and its place with it
        if message.error is None and self._facts.is_audited:
            entry.state = State.AUDITING
            line = audit.starting(self._facts.session_id, entry.params, entry.cwd, entry.by)
            self._facts.audit_start(entry.call.token, line, message.process_id)
        else:
            self._spawn(entry, message.error)

    def receiveMsg_StartAudited(self, message: StartAudited, auditor: Address) -> None:
        entry = self._entries.get(message.process_id)
        if entry is not None and entry.state is State.AUDITING and entry.call.token == message.token:
            self._spawn(entry, message.error)

    def _spawn(self, entry: Entry, refusal: ExecServerError | None) -> None:
        if refusal is None:
            entry.state = State.STARTING
            self._flow.add(entry.params.process_id)
        start = StartProcess(
            session_id=self._facts.session_id,
            token=entry.call.token,
            bridge=entry.call.bridge,
            router=self._facts.router,
            params=entry.params,
            cwd=entry.cwd,
            settings=self._facts.settings,
            paused=self.paused,
            refusal=refusal,
        )
        self.send(entry.actor, start)

    def receiveMsg_ProcessStarted(self, message: ProcessStarted, process: Address) -> None:
        entry = self._entries.get(message.result.process_id)
        if entry is not None:
            entry.started(message)
            if log.isEnabledFor(logging.INFO):
                log.info("process started", extra=self._about(entry, pid=message.pid))
            facts = (entry.params, entry.cwd, entry.by, message.pid, message.started_at_ms)
            self._facts.audit(audit.started, *facts)

    def receiveMsg_StartFailed(self, message: StartFailed, process: Address) -> None:
        entry = self._entries.pop(message.process_id, None)
        if entry is not None:
            self._running -= entry.counts
            self._facts.audit(audit.failed, entry.params, entry.cwd, entry.by, message.error)
            if entry.state is not State.RESERVING:
                self.send(self._facts.router, CancelReservation(self._facts.session_id, message.process_id))
        self._over(message.process_id)
        self.send(message.bridge, Failure(message.token, message.error))
        self.send(process, ActorExitRequest())

    # -- ends -----------------------------------------------------------------------------------------------------

    def receiveMsg_ProcessEvent(self, message: ProcessEvent, process: Address) -> None:
        event = message.notification
        entry = self._entries.get(event.process_id)
        if entry is None:
            return
        if isinstance(event, ProcessExited):
            self._running -= entry.counts
            entry.exited(event)
            how = (event.exit_code, event.signal, event.reason)
            if log.isEnabledFor(logging.INFO):
                facts = dict(zip(("exit_code", "signal", "reason"), how, strict=True))
                log.info("process exited", extra=self._about(entry, pid=entry.pid, **facts))
            self._facts.audit(audit.ended, event.process_id, entry.pid, *how)
        else:
            entry.state = State.CLOSED
            self._over(event.process_id)
            retention = self._facts.settings.process_retention
            self.actor.deadlines.set(event.process_id, retention, lambda: self._expire(event.process_id))

    def _expire(self, process_id: str) -> None:
        self._drop(process_id)
        self.send(self._facts.router, RecordDropped(self._facts.session_id, process_id))

    def receiveMsg_DropRecord(self, message: DropRecord, router: Address) -> None:
        entry = self._entries.get(message.process_id)
        if entry is not None and entry.state is State.CLOSED:  # else it was dropped already, and there is a new one
            self.actor.deadlines.cancel(message.process_id)
            self._drop(message.process_id)

    def _drop(self, process_id: str) -> None:
        """Forget a process that is closed."""
        self.send(self._entries.pop(process_id).actor, Forget())

    def receiveMsg_Forgotten(self, message: Forgotten, process: Address) -> None:
        self.send(process, ActorExitRequest())

    def lose(self, actor: Address, newest: int) -> None:
        """An actor has ended; if it was told to, it is not in the list any more. Else void its requests up to the token
        `newest`."""
        entry = next((each for each in self._entries.values() if each.actor == actor), None)
        if entry is None:
            return
        process_id = entry.params.process_id
        log.error("the actor of a process ended by itself", extra=self._about(entry))
        del self._entries[process_id]
        if entry.counts:
            self._running -= 1
            self._facts.audit(audit.ended, process_id, entry.pid, None, None, "actorLost")
        self.actor.deadlines.cancel(process_id)
        self._over(process_id)
        self.send(self._facts.router, ProcessLost(self._facts.session_id, process_id, newest))

    def end(self) -> None:
        """The session is over, and its processes end with it."""
        for process_id, entry in self._entries.items():
            if entry.state in (State.STARTING, State.RUNNING):  # STARTING: it may have been spawned a moment ago
                self._facts.audit(audit.ended, process_id, entry.pid, None, None, "sessionEnded")
        self._entries.clear()

    def refuse(self, process_id: str, error: Exception) -> None:
        """A fault kept its start from being passed on."""
        entry = self._entries.get(process_id)
        if entry is not None and entry.state is not State.RUNNING:
            failure = InternalError(f"the start failed inside the server: {error}")
            self.receiveMsg_StartFailed(
                StartFailed(process_id, entry.call.token, entry.call.bridge, failure), entry.actor
            )

    def _over(self, process_id: str) -> None:
        """It prints nothing more, or never did."""
        self._flow.remove(process_id)
        self._go_on_resuming()
        self._on_over()

    def _about(self, entry: Entry, **more: Any) -> dict[str, Any]:
        return about(self._facts.session_id, entry.params.process_id, **more)

    # -- flow -----------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """The client is slow: nothing more is to be read of any process."""
        for process_id in self._flow.hold():
            self.tell(process_id, PauseOutput(True))

    def resume(self) -> None:
        """Go on, a few processes at a time."""
        self._flow.release()
        self._go_on_resuming()

    def receiveMsg_OutputResumed(self, message: OutputResumed, process: Address) -> None:
        self._flow.answered(message.process_id)
        self._go_on_resuming()

    def _go_on_resuming(self) -> None:
        for process_id in self._flow.next_batch():
            self.tell(process_id, PauseOutput(False))
