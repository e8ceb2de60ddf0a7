"""`exec-server serve`: the server program. Imports stay few here: a client waits for them at every start."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from actors.session.audit import append_to
from actors.system.sandbox.private_files import keep_private
from exec_server.own_folder import GONE, is_gone
from exec_server.printable import printable
from exec_server.server import logs
from exec_server.server.access import AccessError, warn_of_open_doors
from exec_server.server.config import Config, ConfigError
from exec_server.server.config_sources import load
from exec_server.server.dump import Dumper
from exec_server.server.entrance import Entrance, entrance_of, open_listener
from exec_server.server.process_setup import Measures
from exec_server.server.reload import Reloader
from exec_server.server.server import Server, settings_of
from exec_server.server.shutdown import AFTER_GRACE_S, END_SIGNALS, ShutdownSignal, Watchdog
from exec_server.server.systemd import Notifier
from exec_server.server.threads import in_thread
from exec_server.standard_fds import say
from protocol.codec import MSGPACK_SUBPROTOCOL
from transport.admission.rules import Admission
from transport.listen import Listener, ListenUrlError, StdioUrl
from transport.stdio import StdioTransport

if TYPE_CHECKING:
    from exec_server.server.metrics_port import MetricsPort
    from exec_server.server.tracing import OpenTelemetry

LEAVING_S = 0.5
"""How long the guardian may take to end what a server leaves that could not end by itself, in seconds."""
LAST_BYTES_S = 1.5
"""How long connections have, after their goodbye, until their last bytes are on the way, in seconds."""


def serve(argv: Sequence[str]) -> int:
    """Run a server until SIGTERM or SIGINT or, on stdio, until the end of the input.

    Exit status 0 after that, 1 where it could not start, 2 where the command line is wrong.
    """
    if is_gone():
        return fail(GONE)
    try:
        settings = load(argv)
        entrance = entrance_of(settings)
    except ConfigError as error:
        return fail(str(error), status=2)
    except (ListenUrlError, AccessError) as error:
        return fail(str(error))
    if settings.audit:
        try:
            append_to(settings.audit, b"")
        except OSError as error:
            return fail(f"cannot write the audit log {settings.audit}: {error.strerror}")
    keep_private(_private_files(settings))
    measures = Measures(settings.open_files)
    try:
        logs.begin(settings.log_level, settings.log_format)
    except RuntimeError as error:
        return fail(f"cannot start the thread that writes the log: {error}; this user may have too few (ulimit -u)")
    try:
        run(program(argv, settings, entrance, measures))
    except WatchingError as error:
        return fail(str(error))
    except OSError as error:
        return fail(f"cannot listen on {settings.listen}: {error.strerror}")
    return 0


def _private_files(settings: Config) -> list[str]:
    """What lets one in here, or tells of what was done: secrets, keys, the audit log and ids of detached sessions."""
    named = (settings.ws_token_file, settings.ws_shared_secret_file, settings.tls_key, settings.audit, settings.record)
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return [*filter(None, named), os.path.join(state, "exec-server")]


class WatchingError(Exception):
    """There can be no metrics, or no traces; the text says why, on one line."""


def tracer_of(settings: Config) -> OpenTelemetry | None:
    """What traces requests, where that is asked for. Raises WatchingError."""
    if not settings.otel:
        return None
    try:
        from exec_server.server.tracing import OpenTelemetry
    except ImportError:
        raise WatchingError("--otel needs `pip install 'exec-server[otel]'`") from None
    return OpenTelemetry()


async def metrics_port(settings: Config, server: Server) -> MetricsPort | None:
    """The port for whoever watches over the server, where there is to be one. Raises WatchingError."""
    if not settings.metrics_listen:
        return None
    from exec_server.server.metrics_port import MetricsPort, parse_address

    try:
        from exec_server.server import metrics
    except ImportError:
        raise WatchingError("--metrics-listen needs `pip install 'exec-server[metrics]'`") from None
    port = MetricsPort(server.metrics, metrics.CONTENT_TYPE)
    try:
        url = await port.listen(parse_address(settings.metrics_listen))
    except ValueError as error:
        raise WatchingError(f"--metrics-listen: {error}") from None
    except OSError as error:
        raise WatchingError(f"cannot listen on {settings.metrics_listen}: {error.strerror}") from None
    say(2, f"exec-server metrics on {url}/metrics")
    return port


def fail(message: str, status: int = 1) -> int:
    """Tell on stderr, in one line, why the server does not run."""
    say(2, printable(f"Error: {message}"))
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
    stop = ShutdownSignal()
    stop.obey(*END_SIGNALS)
    tracer = tracer_of(settings)
    server = Server(settings_of(settings), tracer)
    await server.start()
    measures.begin(server.each_second)
    notifier = Notifier()
    reloader = Reloader(argv, settings, entrance.url, server, notifier)
    hang_up = stop.ask if os.isatty(0) else reloader.request
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hang_up)
    dumper = Dumper(server)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, dumper.request)
    watchers: MetricsPort | None = None
    try:
        watchers = await metrics_port(settings, server)
        if isinstance(entrance.url, StdioUrl):
            subprotocol = MSGPACK_SUBPROTOCOL if settings.encoding == "msgpack" else None
            transport = StdioTransport(
                subprotocol=subprotocol, max_message=settings.max_message, defer=server.call_after_turn
            )
            server.connect(transport, on_closed=stop.end_of_client)
        else:
            reloader.listener = listen(settings, entrance, server)
        notifier.ready(reloader.shown)
        await stop.wait()
    finally:
        seconds = reloader.config.grace + AFTER_GRACE_S
        last_resort = Watchdog(seconds - LEAVING_S)
        notifier.stopping(seconds)
        if watchers is not None:
            watchers.ready = False
        await end(server, reloader, stop, measures, dumper)
        if watchers is not None:
            await watchers.close()
        if tracer is not None:
            await in_thread(tracer.close)
        notifier.end()
        last_resort.cancel()


async def end(server: Server, reloader: Reloader, stop: ShutdownSignal, measures: Measures, dumper: Dumper) -> None:
    """End everything: at most as long as the grace of the settings and AFTER_GRACE_S."""
    listener = reloader.listener
    if listener is not None:
        listener.close()
    await reloader.end()
    await server.drain(reloader.config.grace, stop.hurried)
    await dumper.end()
    await server.stop()
    if listener is not None:
        await listener.wait_closed(LAST_BYTES_S)
    await measures.end()


def listen(settings: Config, entrance: Entrance, server: Server) -> Listener:
    """Serve WebSocket. The first line on stdout is the URL: programs read it there. Raises OSError."""
    listener = open_listener(settings, entrance, server)
    warn_of_open_doors(settings, entrance.url)
    say(1, listener.url)
    if entrance.admission.web is not None:
        say(1, page_url(listener.url, entrance.admission))
    say(2, f"exec-server listening on {listener.url}")
    return listener


def page_url(listening: str, admission: Admission) -> str:
    """Where a browser finds the page. It has a one-time code in its fragment, which is in no request and no log; where
    tokens are asked for the page asks for one instead."""
    assert admission.web is not None
    origin = min(admission.web.origins, default=listening.replace("ws", "http", 1))
    origin = origin.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    return f"{origin}/" if admission.authenticator is not None else f"{origin}/#code={admission.web.first_code()}"
