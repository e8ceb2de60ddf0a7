"""Who watches the processes of other sessions, and who of them is skipped ahead; pure.

An observer that is too slow never slows the child or its owner: while it is congested its output is left out, and it
is told by one `process/gap`, exactly how much, before the next thing it hears.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from actors.base.messages import Address
from protocol.process import ProcessClosed, ProcessExited, ProcessGap, ProcessOutput

Event = ProcessOutput | ProcessExited | ProcessClosed | ProcessGap


class Observer:
    """One attachment: the bridge that hears of a process, under the id `alias`."""

    __slots__ = ("_gap", "alias", "bridge", "congested", "observer_id")

    def __init__(self, observer_id: str, bridge: Address, alias: str) -> None:
        self.observer_id = observer_id
        """The session id of whoever observes."""
        self.bridge = bridge
        self.alias = alias
        self.congested = False
        self._gap: ProcessGap | None = None

    def hear(self, event: Event) -> Iterator[Event]:
        """What to send for an event: nothing while output is left out, else the event under this observer's id."""
        if self.congested and isinstance(event, ProcessOutput):
            self._leave_out(event)
            return
        yield from self.take_gap()
        if event.process_id != self.alias:
            event = msgspec.structs.replace(event, process_id=self.alias)
        yield event

    def take_gap(self) -> Iterator[ProcessGap]:
        """The gap that has not been told yet, if there is one."""
        if self._gap is not None:
            yield self._gap
            self._gap = None

    def _leave_out(self, event: ProcessOutput) -> None:
        first, size = event.seq, len(event.chunk)
        if self._gap is not None:
            first, size = self._gap.from_seq, self._gap.bytes + size
        self._gap = ProcessGap(process_id=self.alias, from_seq=first, to_seq=event.seq, bytes=size)


class Observers:
    """All attachments of a server, by observed process and by observer."""

    __slots__ = ("_by_observer", "_by_process")

    def __init__(self) -> None:
        self._by_process: dict[tuple[str, str], list[Observer]] = {}
        self._by_observer: dict[str, dict[str, tuple[str, str]]] = {}

    def __bool__(self) -> bool:
        """Whether anybody hears of any process."""
        return bool(self._by_process)

    def add(self, session_id: str, process_id: str, observer: Observer) -> None:
        """`observer` hears what happens to a process from now on. Its alias must be free (`taken`)."""
        key = (session_id, process_id)
        self._by_process.setdefault(key, []).append(observer)
        self._by_observer.setdefault(observer.observer_id, {})[observer.alias] = key

    def of(self, session_id: str, process_id: str) -> list[Observer]:
        """Who hears of a process."""
        return self._by_process.get((session_id, process_id), []) if self._by_process else []

    def by(self, observer_id: str) -> list[Observer]:
        """All attachments of one observer."""
        keys = set(self._by_observer.get(observer_id, {}).values())
        listening = [each for key in keys for each in self._by_process.get(key, ())]
        return [each for each in listening if each.observer_id == observer_id]

    def target(self, observer_id: str, alias: str) -> tuple[str, str] | None:
        """Session id and process id of what an observer watches, or watched until it closed, under an id of its own."""
        return self._by_observer.get(observer_id, {}).get(alias)

    def aliases(self, observer_id: str, session_id: str, process_id: str | None) -> list[str]:
        """The ids under which an observer watches, or watched, this process; any of the session with None."""
        watched = self._by_observer.get(observer_id, {})
        return [alias for alias, key in watched.items() if key[0] == session_id and process_id in (None, key[1])]

    def remove(self, observer_id: str, alias: str) -> None:
        """An observer watches one process no longer; nothing happens if it did not."""
        aliases = self._by_observer.get(observer_id, {})
        key = aliases.pop(alias, None)
        if key is None:
            return
        listening = self._by_process.get(key, [])
        left = [each for each in listening if (each.observer_id, each.alias) != (observer_id, alias)]
        if left:
            self._by_process[key] = left
        else:
            self._by_process.pop(key, None)
        if not aliases:
            del self._by_observer[observer_id]

    def remove_all(self, observer_id: str) -> None:
        """An observer is gone."""
        for alias in list(self._by_observer.get(observer_id, ())):
            self.remove(observer_id, alias)

    def close(self, session_id: str, process_id: str) -> None:
        """Nothing more will happen to a process; its observers may still read it, until they detach."""
        if self._by_process:
            self._by_process.pop((session_id, process_id), None)

    def forget(self, session_id: str, process_id: str) -> None:
        """The id is that of a new process: who watched the old one neither hears of it nor reads it."""
        if self._by_observer:
            self.close(session_id, process_id)
            for observer_id in list(self._by_observer):
                for alias in self.aliases(observer_id, session_id, process_id):
                    self.remove(observer_id, alias)
