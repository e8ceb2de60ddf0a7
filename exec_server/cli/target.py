"""Which server a client subcommand talks to, and the connection to it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from exec_server.cli.exit_status import CliError
from exec_server.client.client import ExecServerClient
from exec_server.client.environments_file import ServerTarget, chosen_target
from exec_server.own_folder import GONE, is_gone

CLIENT_NAME = "exec-server command line"

Url = Annotated[
    str | None,
    Parameter(
        name="--url",
        help="The server: `ws://HOST:PORT`, `wss://HOST:PORT`, `unix:///PATH`, or `local` for one of its own. Without "
        "it EXEC_SERVER_URL, else the default of the file of environments, else local.",
    ),
]
TokenFile = Annotated[
    str | None,
    Parameter(name="--token-file", help="A file with the token for the server; without it EXEC_SERVER_TOKEN_FILE."),
]
Json = Annotated[bool, Parameter(name="--json", negative=(), help="Print JSON, for programs.")]


def target_of(url: str | None, token_file: str | None) -> ServerTarget:
    """The server that the options mean. Raises EnvironmentsFileError."""
    target = (
        chosen_target(None)
        if url is None
        else ServerTarget(url=url, token_file=os.environ.get("EXEC_SERVER_TOKEN_FILE"))
    )
    if token_file is None:
        return target
    return ServerTarget(url=target.url, token_file=token_file, command=target.command)


def detachable_url(target: ServerTarget) -> str:
    """The URL of a server that goes on when we leave. Raises CliError for one of our own."""
    if target.url is None or target.url == "local":
        raise CliError("a server of one's own ends with this program: name one that runs with --url or EXEC_SERVER_URL")
    return target.url


@asynccontextmanager
async def connected(
    target: ServerTarget, *, session_ttl: float | None = None, resume_session_id: str | None = None
) -> AsyncIterator[ExecServerClient]:
    """A client of that server. Raises as `connect_websocket` does, CliError for a token that is of no use."""
    if target.command is not None or target.url in (None, "local"):
        if is_gone():
            raise CliError(GONE)
        from exec_server.client.local_server import spawn_local_server

        os.environ.setdefault("EXEC_SERVER_LOG_LEVEL", "error")  # its warnings are not for who types a command
        async with spawn_local_server(target.command, CLIENT_NAME) as client:
            yield client
        return
    from exec_server.client.connect import connect_websocket

    assert target.url is not None
    async with connect_websocket(
        target.url,
        CLIENT_NAME,
        token=token_of(target.token_file),
        session_ttl=session_ttl,
        resume_session_id=resume_session_id,
    ) as client:
        yield client


def token_of(path: str | None) -> str | None:
    """The token in a file. Raises CliError."""
    if not path:
        return None
    try:
        token = Path(path).expanduser().read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise CliError(f"cannot read the token file {path}: {reason}") from None
    if not token:
        raise CliError(f"the token file {path} is empty")
    return token
