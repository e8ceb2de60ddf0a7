"""What the engine answers to Thespian_StatusReq. Imported when the first status is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thespian.actors import Thespian_ActorStatus, Thespian_SystemStatus
from thespian.system.timing import ExpirationTimer

if TYPE_CHECKING:
    from actors.engine.cell import Cell
    from actors.engine.core import Runtime


def actor_status(runtime: Runtime, cell: Cell) -> Thespian_ActorStatus:
    """One actor: its children, what waits in its mailbox, its pending wakeups."""
    status = Thespian_ActorStatus(
        cell.address,
        cell.class_name,
        runtime.system_cell.address,
        cell.parent.address if cell.parent else None,
        cell.source_hash,
        cell.exiting or None,
    )
    for child in (cell.children or {}).values():
        status.addChild(child.address)
    for message, sender in cell.inbox or ():
        status.addPendingMessage(sender, cell.address, message)
    _add_wakeups(runtime, status, cell)
    if cell.watch is not None:
        status.addKeyVal("watched descriptors", list(cell.watch.fds))
    return status


def system_status(runtime: Runtime) -> Thespian_SystemStatus:
    """The whole system: capabilities, top-level actors, names, counters, and the slow handlers if counted."""
    system = runtime.system_cell
    status = Thespian_SystemStatus(system.address, capabilities=runtime.capabilities, inShutdown=runtime.shutting_down)
    for child in (system.children or {}).values():
        status.addChild(child.address)
    for name, cell in runtime.names.items():
        status.addGlobalActor(name, cell.address)
    if runtime.dead_letter_handler is not None:
        status.setDeadLetterHandler(runtime.dead_letter_handler.address)
    _add_wakeups(runtime, status, None)
    status.addKeyVal("live actors", runtime.live_actors)
    status.addKeyVal("dead letters", runtime.dead_letters)
    status.addKeyVal("deepest mailbox", runtime.deepest_mailbox)
    for (actor, message), count in runtime.slow_handlers.items():
        status.addKeyVal(f"slow handler {actor} {message}", count)
    return status


def _add_wakeups(runtime: Runtime, status: Thespian_ActorStatus, only: Cell | None) -> None:
    now = runtime.clock()
    status.addWakeups(
        [
            (cell.address, ExpirationTimer(max(0.0, deadline - now)))
            for deadline, _, cell, _ in runtime.timers.entries
            if cell.instance is not None and (only is None or cell is only)
        ]
    )
