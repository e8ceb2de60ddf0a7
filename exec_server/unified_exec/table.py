"""The commands of unified exec by their ids: who is there, who was, and who has to go for one more."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterator

from exec_server.unified_exec.command import RunningCommand
from exec_server.unified_exec.eviction import MAX_PROCESSES, WARN_FROM, Candidate, victim
from exec_server.unified_exec.report import UnknownCommand
from protocol.errors import Busy

FIRST_ID = 1000
RANDOM_IDS = 99_000
"""Random ids are below FIRST_ID + RANDOM_IDS."""
ENDS_KEPT = 1024
"""So many commands that were forgotten are remembered by how they ended."""


class CommandTable:
    """At most MAX_PROCESSES commands, those whose start is under way counted in."""

    def __init__(self, consecutive_ids: bool) -> None:
        self._consecutive = consecutive_ids
        self._next_id = FIRST_ID
        self._uses = 0
        self._commands: dict[int, RunningCommand] = {}
        self._starting: set[int] = set()
        self._ends: OrderedDict[int, str] = OrderedDict()

    def __iter__(self) -> Iterator[int]:
        return iter(list(self._commands))

    def find(self, process_id: int) -> RunningCommand:
        """A command that is there. Raises UnknownCommand, which says how it ended if that is remembered."""
        command = self._commands.get(process_id)
        if command is None:
            raise UnknownCommand(process_id, self._ends.get(process_id))
        return command

    def use(self, command: RunningCommand) -> None:
        """It is the most recently used one now."""
        self._uses += 1
        command.last_used = self._uses

    def to_evict(self) -> RunningCommand | None:
        """Which command has to be forgotten before `reserve`; None if there is room. Raises Busy if none may go."""
        if len(self._commands) + len(self._starting) < MAX_PROCESSES:
            return None
        chosen = victim(
            Candidate(process_id, command.last_used, command.finished.is_set())
            for process_id, command in self._commands.items()
        )
        if chosen is None:
            raise Busy(f"{len(self._starting)} commands are being started; try again when some of them are")
        return self._commands[chosen]

    def reserve(self) -> int:
        """An id for a command that is being started; `settle` or `release` follows."""
        while True:
            process_id = self._next_id if self._consecutive else FIRST_ID + random.randrange(RANDOM_IDS)
            self._next_id += self._consecutive
            if not any(process_id in known for known in (self._commands, self._starting, self._ends)):
                self._starting.add(process_id)
                return process_id

    def release(self, process_id: int) -> None:
        """It was not started."""
        self._starting.discard(process_id)

    def settle(self, command: RunningCommand) -> None:
        """It runs."""
        self._starting.discard(command.begin.process_id)
        self._commands[command.begin.process_id] = command
        self.use(command)

    def forget(self, command: RunningCommand) -> None:
        """Nobody will ask for it any more. Once is enough."""
        command.forgotten = True
        process_id = command.begin.process_id
        if self._commands.get(process_id) is command:
            del self._commands[process_id]
            self._ends[process_id] = command.failure or f"exit code {command.exit_code}"
            if len(self._ends) > ENDS_KEPT:
                self._ends.popitem(last=False)

    def warning(self) -> str | None:
        """What a caller should know whose command goes on."""
        count = len(self._commands)
        if count < WARN_FROM:
            return None
        return f"{count} of at most {MAX_PROCESSES} commands are open; beyond that the least recently used one is ended"
