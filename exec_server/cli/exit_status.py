"""How a client subcommand ends: with a status, and with one line on stderr where something went wrong."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from exec_server.own_folder import GONE, is_gone
from exec_server.printable import printable
from exec_server.standard_fds import discard_stdout, say, write_all

FAILED = 1
USAGE = 2
NOT_RUN = 125
"""`run` and `attach`: exec-server itself failed, as with env(1) and timeout(1)."""


class CliError(Exception):
    """What to tell the user, in one line that says what to do. `status`: the exit status, None for that of failures of
    the subcommand.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class OutputFailed(OSError):
    """Stdout cannot be written; the text says why."""


def outcome(main: Callable[[], Coroutine[Any, Any, int]], failed: int = FAILED) -> int:
    """Run a subcommand on a loop of its own; its exit status: `failed` where exec-server failed, 128+n after signal n
    (^C is 2, SIGTERM is 15), 141 if nobody reads its output any more.
    """
    told = Told()
    with _interruptible():
        try:
            return asyncio.run(told.run(main))
        except asyncio.CancelledError:
            return told.status
        except (KeyboardInterrupt, BrokenPipeError) as ended:
            return quiet_end(ended)
        except CliError as error:
            return complain(str(error), failed if error.status is None else error.status)
        except Exception as error:
            return complain(explained(error), failed)


class Told:
    """Signals that ask us to end: what is under way is cancelled, and cleans up behind itself."""

    def __init__(self) -> None:
        self.status = FAILED
        """The exit status of who was ended by the first of them."""

    async def run(self, main: Callable[[], Coroutine[Any, Any, int]]) -> int:
        """Raises CancelledError after a signal."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def end(number: int) -> None:
            self.status = 128 + number
            task.cancel()

        for number in (signal.SIGTERM, signal.SIGHUP):
            if _has_signals() and signal.getsignal(number) is signal.SIG_DFL:  # else it is ignored, as by nohup(1)
                loop.add_signal_handler(number, end, number)
        return await main()


def _has_signals() -> bool:
    """Whether signals are ours to handle: Python gives them to its main thread."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def _interruptible() -> Iterator[None]:
    """^C is a KeyboardInterrupt in the block, unless it is ignored; before and behind it, it ends the program."""
    if not _has_signals() or signal.getsignal(signal.SIGINT) is not signal.SIG_DFL:
        yield
        return
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def put(text: str) -> None:
    """Print text on stdout, now. Raises BrokenPipeError, OutputFailed."""
    try:
        sys.stdout.flush()
        write_all(1, text.encode(sys.stdout.encoding, errors="backslashreplace"))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFailed(error.errno, f"cannot write to standard output: {error.strerror}") from None


def quiet_end(ended: KeyboardInterrupt | BrokenPipeError) -> int:
    """The exit status of who was ended by ^C, or by a reader that has left: that of the signal."""
    if isinstance(ended, KeyboardInterrupt):
        return 128 + signal.SIGINT
    discard_stdout()
    return 128 + signal.SIGPIPE


def complain(message: str, status: int) -> int:
    """One line on stderr; `status`."""
    tell(message)
    return status


def tell(message: str) -> None:
    """One line on stderr, if that is still there. What is in it comes from elsewhere, too, and stays text."""
    say(2, f"exec-server: {printable(' '.join(message.split()))}")


def explained(error: Exception) -> str:
    """An exception in words for who typed the command."""
    from exec_server.client.environments_file import EnvironmentsFileError
    from exec_server.client.errors import ConnectFailed, TransportDisconnected, Unauthorized
    from protocol.errors import ExecServerError

    if isinstance(error, Unauthorized):
        return f"{error}; give the token with --token-file FILE or EXEC_SERVER_TOKEN_FILE"
    if isinstance(error, ConnectFailed):
        return f"{error}; is a server running there? Name another with --url or EXEC_SERVER_URL"
    if isinstance(error, ExecServerError):
        return error.message
    if isinstance(error, (TransportDisconnected, EnvironmentsFileError, NotImplementedError, ValueError)):
        return str(error)
    if isinstance(error, FileNotFoundError) and error.filename is None and is_gone():
        return GONE
    if isinstance(error, OutputFailed):
        return str(error.strerror)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError):
        return str(error)
    return f"a fault of exec-server, please report it: {error!r}"
