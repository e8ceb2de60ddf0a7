"""`exec-server serve`: the server program. Imports stay few here: a client waits for them at every start."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.audit import append_to
from exec_server import config
from exec_server.access import AccessError, admission_of, tls_of
from exec_server.config import Config, ConfigError
from exec_server.measures import Measures
from exec_server.reload import Reloader
from exec_server.server import Server, settings_of
from protocol.codec import MSGPACK_SUBPROTOCOL
from transport.admission import Admission
from transport.listen import (
    Listener,
    ListenUrlError,
    StdioUrl,
    UnixUrl,
    WebSocketUrl,
    parse_listen_url,
    serve_websocket,
)
from transport.stdio import StdioTransport

if TYPE_CHECKING:
    from ssl import SSLContext

LAST_BYTES_S = 1.5
"""How long connections have, after their goodbye, until their last bytes are on the way, in seconds."""


def serve(argv: Sequence[str]) -> int:
    """Run a server until SIGTERM or SIGINT or, on stdio, until the end of the input.

    Exit status 0 after that, 1 where it could not start, 2 where the command line is wrong.
    """
    try:
        settings = config.load(argv)
        url = parse_listen_url(settings.listen)
        entrance = Entrance(url, admission_of(settings, url), tls_of(settings, url))
    except ConfigError as error:
        return fail(str(error), status=2)
    except (ListenUrlError, AccessError) as error:
        return fail(str(error))
    if settings.audit:
        try:
            append_to(settings.audit, b"")
        except OSError as error:
            return fail(f"cannot write the audit log {settings.audit}: {error.strerror}")
    measures = Measures()
    logging.basicConfig(
        stream=sys.stderr,
        level=settings.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    try:
        run(program(argv, settings, entrance, measures))
    except OSError as error:
        return fail(f"cannot listen on {settings.listen}: {error.strerror}")
    return 0


class Entrance(NamedTuple):
    """Where clients come in, and who may."""

    url: StdioUrl | WebSocketUrl | UnixUrl
    admission: Admission
    tls: SSLContext | None


def fail(message: str, status: int = 1) -> int:
    """Tell on stderr, in one line, why the server does not run."""
    print(f"Error: {message}", file=sys.stderr)
    return status


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop where it is installed, else on asyncio's own loop."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(main)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """What makes the loop of the server."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def program(argv: Sequence[str], settings: Config, entrance: Entrance, measures: Measures) -> None:
    """The life of the server. Raises OSError if it cannot listen."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    server = Server(settings_of(settings))
    await server.start()
    measures.begin()
    reloader = Reloader(argv, settings, entrance.url, server)
    loop.add_signal_handler(signal.SIGHUP, stop.set if os.isatty(0) else reloader.request)
    listener: Listener | None = None
    try:
        if isinstance(entrance.url, StdioUrl):
            subprotocol = MSGPACK_SUBPROTOCOL if settings.encoding == "msgpack" else None
            server.connect(StdioTransport(subprotocol=subprotocol, defer=server.call_after_turn), on_closed=stop.set)
        else:
            listener = listen(settings, entrance, server)
            reloader.listener = listener
        await stop.wait()
        await reloader.end()
    finally:
        if listener is not None:
            listener.close()
        await server.stop()
        if listener is not None:
            await listener.wait_closed(LAST_BYTES_S)
        await measures.end()


def listen(settings: Config, entrance: Entrance, server: Server) -> Listener:
    """Serve WebSocket. The first line on stdout is the URL: programs read it there. Raises OSError."""
    assert not isinstance(entrance.url, StdioUrl)
    listener = serve_websocket(
        entrance.url,
        server.connect,
        admission=entrance.admission,
        tls=entrance.tls,
        subprotocols=[MSGPACK_SUBPROTOCOL],
        ping_interval=settings.ping_interval,
        defer=server.call_after_turn,
    )
    print(listener.url, flush=True)
    print(f"exec-server listening on {listener.url}", file=sys.stderr, flush=True)
    return listener
