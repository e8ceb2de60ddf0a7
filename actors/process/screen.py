"""What a terminal shows right now, made from its output on demand (an extra: `exec-server[screen]`).

For agents that drive full-screen programs. Rendering costs about a second a megabyte, so it is done elsewhere (see
`actors.process.renderer`), and only for what came since the last time.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable
from importlib.util import find_spec
from typing import Final

from actors.process.history import ProcessHistory
from actors.process.renderer import RENDERERS, Renderer
from actors.process.screen_messages import Order
from protocol.errors import Busy, ExecServerError, InternalError, InvalidRequest
from protocol.process import ProcessScreenResult, ScreenCursor

log = logging.getLogger("exec_server.screen")

ASKED_AT_ONCE: Final = 4
"""How many requests for one screen may wait for it."""
MOST_CELLS: Final = 250_000
"""Rows times columns of a terminal that has a screen."""

_numbers = itertools.count(1)

Steps = list[tuple[list[bytes], int, int]]
Done = Callable[[ProcessScreenResult | ExecServerError], None]


def available() -> bool:
    """Whether `pyte` is installed."""
    return find_spec("pyte") is not None


class Screen:
    """The screen of one terminal, up to a seq of its record. One resize at most is kept for the next time."""

    def __init__(self, session_id: str, rows: int, cols: int) -> None:
        self._session_id = session_id
        self._number = next(_numbers)
        self._size = rows, cols
        self._before_resize: int | None = None
        """The seq up to which the window was of the size before."""
        self._shown_size = rows, cols
        self._seq = 0
        self._complete = True
        self._harmful = False
        """Whether its output has been the end of a renderer, and must not be of another."""
        self._lock = threading.Lock()
        self._asked = 0

    def resize(self, record: ProcessHistory, rows: int, cols: int) -> None:
        """The window has another size, for what is printed from now on."""
        if self._before_resize is None:
            self._before_resize = record.next_seq - 1
        self._size = rows, cols

    def render(self, record: ProcessHistory, done: Done) -> None:
        """Call `done` in a thread, with what the terminal shows now. Raises Busy where too many wait for that, and
        InvalidRequest where the terminal is too large."""
        rows, cols = self._size
        if rows * cols > MOST_CELLS:
            text = f"a terminal of {rows} rows and {cols} columns has more than {MOST_CELLS} cells, and no screen"
            raise InvalidRequest(text, {"kind": "tooLarge"})
        if self._asked >= ASKED_AT_ONCE:
            raise Busy(f"{ASKED_AT_ONCE} requests wait for this screen already")
        renderer = RENDERERS.of(self._session_id, self._number)
        order = self._order(record, renderer)
        complete = self._complete
        self._count(1)

        def job() -> None:
            answer = self._carry_out(renderer, order, rows * cols, complete)
            self._count(-1)
            done(answer)

        try:
            renderer.submit(job)
        except RuntimeError as error:
            self._count(-1)
            raise InternalError(f"no thread to be had for a screen: {error}") from None

    def close(self) -> None:
        """Nobody asks for it any more."""
        RENDERERS.close(self._session_id, self._number)

    def _count(self, by: int) -> None:
        with self._lock:
            self._asked += by

    def _order(self, record: ProcessHistory, renderer: Renderer) -> Order:
        """What is new, or all there is where the renderer does not know the screen yet."""
        fresh = not renderer.holds(self._number) and not self._asked
        if fresh and not self._harmful:
            self._seq, self._complete = 0, True
        size = self._shown_size
        steps: Steps = []
        if self._before_resize is not None:
            steps.append((self._news(record, self._before_resize), *self._size))
        steps.append((self._news(record), *self._size))
        self._shown_size, self._before_resize = self._size, None
        first = size if size[0] * size[1] <= MOST_CELLS else self._size
        return Order(self._number, fresh, *first, steps, [])

    def _news(self, record: ProcessHistory, up_to: int | None = None) -> list[bytes]:
        output, self._seq, whole = record.output_since(self._seq, up_to)
        self._complete = self._complete and whole
        return output

    def _carry_out(
        self, renderer: Renderer, order: Order, cells: int, complete: bool
    ) -> ProcessScreenResult | ExecServerError:
        try:
            shown = renderer.show(order, cells)
        except Busy as error:
            return error
        except ExecServerError as error:
            log.warning("a screen could not be rendered: %s", error.message)
            self._harmful, self._complete = True, False
            return error
        except Exception as error:
            log.exception("a screen could not be rendered")
            return InternalError(f"the screen could not be rendered: {error}")
        row, col = shown.cursor
        return ProcessScreenResult(
            rows=shown.rows,
            cols=shown.cols,
            cursor=ScreenCursor(row=row, col=col, visible=shown.cursor_visible),
            title=shown.title,
            complete=complete and shown.complete,
        )
