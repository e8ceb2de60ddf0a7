"""What a terminal shows right now, made from its output by `pyte` on demand (an extra: `exec-server[screen]`).

For agents that drive full-screen programs. Rendering costs about a second a megabyte, so it is done in a thread of its
own, and only for what came since the last time.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from importlib.util import find_spec

from actors.process.history import ProcessHistory
from actors.process.terminal_output import TerminalOutput
from protocol.errors import Busy, ExecServerError, InternalError
from protocol.process import ProcessScreenResult, ScreenCursor

log = logging.getLogger("exec_server.screen")


ASKED_AT_ONCE = 4
"""How many requests for one screen may wait for it."""


def available() -> bool:
    """Whether `pyte` is installed."""
    return find_spec("pyte") is not None


class Screen:
    """The screen of one terminal, up to a seq of its record. Rendering is done by `RENDERER`, in order."""

    def __init__(self, rows: int, cols: int) -> None:
        import pyte

        self._screen = pyte.Screen(cols, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._output = TerminalOutput()
        self._seq = 0
        self._complete = True
        self._lock = threading.Lock()
        self._asked = 0

    def resize(self, record: ProcessHistory, rows: int, cols: int) -> None:
        """The window has another size, for what is printed from now on."""
        output = self._news(record)

        def job() -> None:
            self._show(output)
            self._screen.resize(rows, cols)

        RENDERER.submit(job)

    def render(self, record: ProcessHistory, done: Callable[[ProcessScreenResult | ExecServerError], None]) -> None:
        """Call `done` in a thread, with what the terminal shows now. Raises Busy where too many wait for that."""
        with self._lock:
            if self._asked >= ASKED_AT_ONCE:
                raise Busy(f"{ASKED_AT_ONCE} requests wait for this screen already")
            self._asked += 1
        output, complete = self._news(record), self._complete

        def job() -> None:
            try:
                self._show(output)
                answer: ProcessScreenResult | ExecServerError = self._result(complete)
            except Exception as error:
                log.exception("a screen could not be rendered")
                answer = InternalError(f"the screen could not be rendered: {error}")
            with self._lock:
                self._asked -= 1
            done(answer)

        RENDERER.submit(job)

    def _news(self, record: ProcessHistory) -> list[bytes]:
        output, self._seq, whole = record.output_since(self._seq)
        self._complete = self._complete and whole
        return output

    def _show(self, output: list[bytes]) -> None:
        for data in output:
            self._stream.feed(self._output.known(data))

    def _result(self, complete: bool) -> ProcessScreenResult:
        screen = self._screen
        return ProcessScreenResult(
            rows=[line.rstrip() for line in screen.display],
            cols=screen.columns,
            cursor=ScreenCursor(row=screen.cursor.y, col=screen.cursor.x, visible=not screen.cursor.hidden),
            title=screen.title,
            complete=complete,
        )


class Renderer:
    """One daemon thread, made when it is first needed, that runs jobs in order."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, job: Callable[[], object]) -> None:
        """Run `job` after those before it. Who submits sees to it that not too many wait."""
        self._jobs.put(job)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="exec-server-screen", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            job = self._jobs.get()
            try:
                job()
            except Exception:
                log.exception("a job of the renderer failed")
            del job


RENDERER = Renderer()
