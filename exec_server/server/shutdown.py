"""How the server program ends: asked by signals, in steps that each have an end.

SIGTERM and SIGINT: nobody new is let in, running processes have `--grace` seconds to end, then they are asked to
(SIGTERM), then killed. A second signal goes to the killing at once. Should anything hang, the program leaves anyway:
its guardian kills what it leaves behind.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from typing import Final

log = logging.getLogger("exec_server")

AFTER_GRACE_S: Final = 6.0
"""How long the end may take beyond `--grace`, in seconds, whatever happens."""


class ShutdownSignal:
    """The wish to end, and whether it is urgent."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self.hurried = asyncio.Event()

    def obey(self, *signums: int) -> None:
        """End at the first of these signals, hurry at the second. On the running loop."""
        for signum in signums:
            asyncio.get_running_loop().add_signal_handler(signum, self.ask)

    def ask(self) -> None:
        """End; asked again: hurry."""
        if self._asked.is_set():
            self.hurried.set()
        self._asked.set()

    def end_of_client(self) -> None:
        """The one client of stdio has gone: there is nobody to wait for."""
        self._asked.set()
        self.hurried.set()

    async def wait(self) -> None:
        """Wait until somebody asks."""
        await self._asked.wait()


class Watchdog:
    """Ends this process after so many seconds, should its loop hang and a thread could be had to see to it.

    `cancel` when all went well.
    """

    def __init__(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._leave, (seconds,))
        self._timer.daemon = True
        try:
            self._timer.start()
        except RuntimeError as error:
            log.warning("nothing ends this process should it hang now: %s", error)

    def cancel(self) -> None:
        """The end has come by itself."""
        self._timer.cancel()

    def _leave(self, seconds: float) -> None:
        log.error("the end has taken %.1f seconds: leaving, and what is left to the guardian", seconds)
        logging.shutdown()
        os._exit(0)


END_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
