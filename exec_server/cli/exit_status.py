"""How a client subcommand ends: with a status, and with one line on stderr where something went wrong."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any

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


def outcome(main: Callable[[], Coroutine[Any, Any, int]], failed: int = FAILED) -> int:
    """Run a subcommand on a loop of its own; its exit status: `failed` where exec-server failed, 130 after ^C, 141 if
    nobody reads its output any more.
    """
    _fill_standard_streams()
    try:
        status = asyncio.run(main())
        sys.stdout.flush()
        return status
    except (KeyboardInterrupt, BrokenPipeError) as ended:
        return quiet_end(ended)
    except CliError as error:
        return complain(str(error), failed if error.status is None else error.status)
    except Exception as error:
        return complain(explained(error), failed)


def quiet_end(ended: KeyboardInterrupt | BrokenPipeError) -> int:
    """The exit status of who was ended by ^C, or by a reader that has left: that of the signal."""
    if isinstance(ended, KeyboardInterrupt):
        return 130
    # What Python still holds for stdout has nowhere to go; without this its last flush would complain.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 141


def _fill_standard_streams() -> None:
    """Descriptors 0 to 2 that are closed would be given to a socket; they lead nowhere instead."""
    while (lowest := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(lowest)


def complain(message: str, status: int) -> int:
    """One line on stderr; `status`."""
    tell(message)
    return status


def tell(message: str) -> None:
    """One line on stderr, if that is still there."""
    line = " ".join(message.split())
    try:
        os.write(2, f"exec-server: {line}\n".encode(errors="backslashreplace"))
    except OSError:
        pass


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
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError):
        return str(error)
    return f"a fault of exec-server, please report it: {error!r}"
