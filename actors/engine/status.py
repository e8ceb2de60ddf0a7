"""Answers to Thespian_StatusReq. Imported when the first status is asked for."""

from __future__ import annotations

from thespian.actors import ActorAddress, Thespian_ActorStatus, Thespian_SystemStatus
from thespian.system.timing import ExpirationTimer

from actors.engine.cell import Cell
from actors.engine.life import Life
from actors.engine.timers import Timers


def actor_status(cell: Cell, system: ActorAddress, timers: Timers, now: float) -> Thespian_ActorStatus:
    """One actor: its children, its mailbox, its pending wakeups."""
    status = Thespian_ActorStatus(
        cell.address,
        cell.class_name,
        system,
        cell.parent.address if cell.parent else None,
        cell.source_hash,
        cell.exiting or None,
    )
    for child in (cell.children or {}).values():
        status.addChild(child.address)
    for message, sender in cell.inbox or ():
        status.addPendingMessage(sender, cell.address, message)
    _add_wakeups(status, timers, now, cell)
    if cell.watch is not None:
        status.addKeyVal("watched descriptors", list(cell.watch.fds))
    return status


def system_status(life: Life, now: float, slow_handlers: dict[tuple[str, str], int]) -> Thespian_SystemStatus:
    """The whole system: capabilities, top-level actors, names, counters, and the slow handlers if counted."""
    system, mail = life.system, life.mail
    status = Thespian_SystemStatus(system.address, capabilities=life.capabilities, inShutdown=life.shutting_down)
    for child in (system.children or {}).values():
        status.addChild(child.address)
    for name, cell in life.names.items():
        status.addGlobalActor(name, cell.address)
    if mail.dead_letter_handler is not None:
        status.setDeadLetterHandler(mail.dead_letter_handler.address)
    _add_wakeups(status, life.timers, now, None)
    status.addKeyVal("live actors", life.live_actors)
    status.addKeyVal("dead letters", mail.dead_letters)
    status.addKeyVal("deepest mailbox", mail.deepest)
    for (actor, message), count in slow_handlers.items():
        status.addKeyVal(f"slow handler {actor} {message}", count)
    return status


def _add_wakeups(status: Thespian_ActorStatus, timers: Timers, now: float, only: Cell | None) -> None:
    status.addWakeups(
        [
            (cell.address, ExpirationTimer(max(0.0, deadline - now)))
            for deadline, _, cell, _ in timers.entries
            if cell.instance is not None and (only is None or cell is only)
        ]
    )
