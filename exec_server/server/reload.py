"""SIGHUP: read the settings, tokens and certificates again, while the server runs.

All is read before anything is changed, so a mistake changes nothing. What holds for new connections, sessions and
processes only is left alone in those that exist, with one exception: a connection whose token is no longer good is
ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from exec_server.server.access import AccessError, admission_of, tls_of
from exec_server.server.config import OPTIONS, Config, ConfigError, flag_of
from exec_server.server.config_sources import load
from exec_server.server.server import Server, settings_of
from exec_server.server.systemd import Notifier
from exec_server.server.threads import in_thread
from transport.admission.rules import Admission
from transport.listen import Listener, StdioUrl, UnixUrl, WebSocketUrl

if TYPE_CHECKING:
    from ssl import SSLContext

log = logging.getLogger("exec_server")


class Fresh(NamedTuple):
    """What was read: settings as far as they may change, and what cannot be changed to what is written now."""

    config: Config
    admission: Admission
    tls: SSLContext | None
    fixed: list[str]


class Reloader:
    """Reloads on request, one at a time; a request while one is under way brings another one after it."""

    def __init__(
        self,
        argv: Sequence[str],
        config: Config,
        url: StdioUrl | WebSocketUrl | UnixUrl,
        server: Server,
        notifier: Notifier,
    ) -> None:
        self._argv = argv
        self.config = config
        """The settings in force."""
        self._url = url
        self._server = server
        self._notifier = notifier
        self.listener: Listener | None = None
        """Where clients come in, once there is one."""
        self._task: asyncio.Task[None] | None = None
        self._again = False
        self._ended = False

    @property
    def shown(self) -> str:
        """What is served, for the service manager."""
        return "stdio" if self.listener is None else self.listener.url

    def request(self) -> None:
        """Reload soon. For a signal handler of the loop."""
        self._again = True
        if self._task is None and not self._ended:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def end(self) -> None:
        """Reload no more. Waits for a reload that is under way; it is a matter of reading a few small files."""
        self._ended = True
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        try:
            while self._again:
                self._again = False
                self._notifier.reloading()
                try:
                    fresh = await in_thread(read, self._argv, self.config, self._url)
                except (ConfigError, AccessError) as error:
                    log.error("nothing was reloaded: %s", error)
                else:
                    self._apply(fresh)
                self._notifier.ready(self.shown)
        finally:
            self._task = None

    def _apply(self, fresh: Fresh) -> None:
        for name in fresh.fixed:
            log.warning("%s is changed only by a restart", flag_of(name))
        self.config = fresh.config
        logging.getLogger().setLevel(fresh.config.log_level.upper())
        self._server.reconfigure(settings_of(fresh.config))
        ended = 0
        if self.listener is not None:
            ended = self.listener.reload(fresh.admission, fresh.tls)
        log.info("reloaded; %d connections ended whose tokens are no longer good", ended)


def read(argv: Sequence[str], now: Config, url: StdioUrl | WebSocketUrl | UnixUrl) -> Fresh:
    """Read everything anew. Raises ConfigError, AccessError."""
    written = load(argv)
    changed = [option for option in OPTIONS if getattr(written, option.name) != getattr(now, option.name)]
    live = {option.name: getattr(written, option.name) for option in changed if option.live}
    config = msgspec.structs.replace(now, **live)
    fixed = [option.name for option in changed if not option.live]
    return Fresh(config, admission_of(config, url), tls_of(config, url), fixed)
