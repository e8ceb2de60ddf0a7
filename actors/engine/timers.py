"""Timers: the wakeups that actors have asked for, by the time at which they are due."""

from __future__ import annotations

import heapq
import itertools

from thespian.actors import WakeupMessage

from actors.engine.cell import Cell

_MANY_DEAD = 64


class Timers:
    """A heap. Wakeups of actors that have ended are passed over, and thrown out when they are the greater part."""

    def __init__(self) -> None:
        self.entries: list[tuple[float, int, Cell, WakeupMessage]] = []
        self._order = itertools.count()
        self._dead = 0

    def add(self, deadline: float, cell: Cell, message: WakeupMessage) -> bool:
        """Enter a wakeup; whether it is the earliest of all now."""
        heapq.heappush(self.entries, (deadline, next(self._order), cell, message))
        cell.timers += 1
        return self.entries[0][0] == deadline

    @property
    def next(self) -> float | None:
        """When the earliest wakeup of a living actor is due; None where there is none."""
        entries = self.entries
        while entries and entries[0][2].instance is None:
            heapq.heappop(entries)
            self._dead -= 1
        return entries[0][0] if entries else None

    def take(self) -> tuple[Cell, WakeupMessage]:
        """Take out the earliest wakeup, the one `next` is about."""
        _, _, cell, message = heapq.heappop(self.entries)
        cell.timers -= 1
        return cell, message

    def drop(self, cell: Cell) -> None:
        """Take out what an actor that has ended had asked for."""
        self._dead += cell.timers
        cell.timers = 0
        if self._dead > _MANY_DEAD and self._dead * 2 > len(self.entries):
            self.entries = [entry for entry in self.entries if entry[2].instance is not None]
            heapq.heapify(self.entries)
            self._dead = 0
