"""A server inside another program, on its loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from exec_server.server.config import Config
from exec_server.server.entrance import entrance_of, open_listener
from exec_server.server.server import Server, settings_of
from transport.listen import StdioUrl

LAST_BYTES_S = 1.5
"""How long connections have, after their goodbye, until their last bytes are on the way, in seconds."""


@asynccontextmanager
async def serve(config: Config | None = None) -> AsyncIterator[Server]:
    """A server on the running loop for the length of the block: `async with serve(Config(...)) as server`.

    It listens where `config.listen` says, and `server.url` is where that is; with the default, `stdio://`, nowhere:
    then `connect_in_process(server)` is the way to it. Who may come in, and with which certificate, is as for the
    program (docs/configuration.md). Of the settings those that concern the process (`open_files`, `log_level`,
    `metrics_listen` and the like) are the caller's own matter.

    At the end of the block everything that still runs is killed. Raises
    ListenUrlError and AccessError for settings that cannot be used, OSError if it cannot listen.
    """
    config = config or Config()
    entrance = entrance_of(config)
    server = Server(settings_of(config))
    await server.start()
    listener = None
    try:
        if not isinstance(entrance.url, StdioUrl):
            listener = open_listener(config, entrance, server)
            server.url = listener.url
        yield server
    finally:
        if listener is not None:
            listener.close()
        await server.stop()
        if listener is not None:
            await listener.wait_closed(LAST_BYTES_S)
