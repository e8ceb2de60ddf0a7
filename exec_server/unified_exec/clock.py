"""Time that can be stopped: what a call waits while a person is asked does not count."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class YieldClock:
    """Seconds that do not go on while it is paused. Pauses may overlap: it goes on when all are over."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._pauses = 0
        self._stopped_at = 0.0
        self._lost = 0.0
        self.runs = asyncio.Event()
        """Set while it is not paused."""
        self.runs.set()

    def time(self) -> float:
        """Its time, in seconds."""
        return (self._stopped_at if self._pauses else self._now()) - self._lost

    def pause(self) -> None:
        """Stop it, until `resume` was called as often."""
        if not self._pauses:
            self._stopped_at = self._now()
            self.runs.clear()
        self._pauses += 1

    def resume(self) -> None:
        """End one pause. Raises RuntimeError if there is none."""
        if not self._pauses:
            raise RuntimeError("resume without a pause")
        self._pauses -= 1
        if not self._pauses:
            self._lost += self._now() - self._stopped_at
            self.runs.set()

    async def wait(self, happened: asyncio.Event, deadline: float) -> None:
        """Wait until something has happened, or until this clock shows `deadline`."""
        while not happened.is_set() and (left := deadline - self.time()) > 0:
            if self.runs.is_set():
                await _wait(happened, left)
            else:
                runs = asyncio.ensure_future(self.runs.wait())
                happens = asyncio.ensure_future(happened.wait())
                try:
                    await asyncio.wait([runs, happens], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    runs.cancel()
                    happens.cancel()


async def _wait(happened: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await happened.wait()
    except TimeoutError:
        pass
