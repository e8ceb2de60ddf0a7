"""Commands of a session as they are seen from outside: when they printed last, and what the last line is. Pure.

Made of the events of unified exec; times are those of the loop, in seconds.
"""

from __future__ import annotations

import re

from exec_server.unified_exec.report import Begin, Command, End, Event, OutputDelta, TerminalInteraction

LINE_CHARS = 300
"""How much of a line is shown."""
QUIET_S = 1.0
"""A command on a terminal that prints nothing for so long may wait for input."""
_SEEN_BYTES = 4 * LINE_CHARS
"""What of the end of a piece of output is looked at."""
_CONTROL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~]?)"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
)
"""Control sequences (ECMA-48, 5.4 to 5.6) and control characters, but for tab, newline and carriage return."""


class Activity:
    """One command."""

    def __init__(self, begin: Begin, now: float) -> None:
        self.begin = begin
        self.began = now
        self.active = now
        """When it printed, or was typed to, last."""
        self.total_bytes = 0
        self.running = True
        self.exit_code: int | None = None
        self._line = ""
        self._whole = ""

    @property
    def last_line(self) -> str:
        """The line that the cursor is in, as text; where that is empty, the last one that is not."""
        return self._line.strip() or self._whole

    def is_quiet(self, now: float) -> bool:
        """Whether it runs on a terminal and has not printed for so long that it may wait for input."""
        return self.running and self.begin.tty and now - self.active >= QUIET_S

    def print(self, text: str, size: int, now: float) -> None:
        """The end of a piece of output of `size` bytes."""
        self.active = now
        self.total_bytes += size
        *whole, last = (self._line + _CONTROL.sub("", text)).replace("\r\n", "\n").split("\n")
        for line in reversed(whole):
            if shown := _overwritten(line).strip():
                self._whole = shown[:LINE_CHARS]
                break
        # A \r at the end may be half of \r\n: what it returns over is still what a person sees.
        ended, returned = (last[:-1], "\r") if last.endswith("\r") else (last, "")
        self._line = _overwritten(ended)[-LINE_CHARS:] + returned


def _overwritten(line: str) -> str:
    """What is seen of a line with carriage returns in it."""
    return line.rstrip("\r").rpartition("\r")[2]


class Activities:
    """All commands of a session that may still be asked for, by their process ids."""

    def __init__(self) -> None:
        self._by_process: dict[int, Activity] = {}
        self._by_call: dict[str, Activity] = {}

    def __len__(self) -> int:
        return len(self._by_call)

    def take(self, event: Event, now: float) -> Activity | None:
        """Note an event; the command that it is about."""
        if isinstance(event, Begin):
            activity = self._by_process[event.process_id] = self._by_call[event.call_id] = Activity(event, now)
            return activity
        found = self._by_call.get(event.call_id)
        if found is None:
            return None
        match event:
            case OutputDelta(data=data):
                found.print(data[-_SEEN_BYTES:].decode("utf-8", "replace"), len(data), now)
            case TerminalInteraction(chars=chars):
                if chars:
                    found.active = now
            case End(exit_code=exit_code):
                found.running, found.exit_code = False, exit_code
        return found

    def of_process(self, process_id: int) -> Activity | None:
        """The command with this process id."""
        return self._by_process.get(process_id)

    def of_call(self, call_id: str) -> Activity | None:
        """The command that was begun under this id."""
        return self._by_call.get(call_id)

    def keep(self, process_ids: set[int]) -> None:
        """Forget those that have ended and are not among these."""
        for process_id, activity in list(self._by_process.items()):
            if not activity.running and process_id not in process_ids:
                del self._by_process[process_id]
                self._by_call.pop(activity.begin.call_id, None)

    def clear(self) -> None:
        """Forget all of them."""
        self._by_process.clear()
        self._by_call.clear()


def shown_command(command: Command) -> str:
    """A command on one line."""
    text = command if isinstance(command, str) else " ".join(command)
    line = " ".join(text.split())
    return line if len(line) <= LINE_CHARS else line[: LINE_CHARS - 1] + "…"
