"""Start of a command on a server, as `run` does it in the foreground and with `--detach`."""

from __future__ import annotations

from msgspec import Struct

from exec_server.cli.exit_status import NOT_RUN, CliError
from exec_server.client.client import ExecServerClient
from exec_server.client.process import Process
from exec_server.client.start import INHERIT
from protocol.errors import ExecServerError, SpawnError

NOT_EXECUTABLE = 126
NOT_FOUND = 127


class RunRequest(Struct, frozen=True):
    """What to run, and how. `env` is laid over the environment of the server."""

    argv: list[str]
    tty: bool
    cwd: str | None
    env: dict[str, str]
    timeout: float | None
    terminate_on_disconnect: bool = False


async def started(
    client: ExecServerClient,
    wanted: RunRequest,
    stdin: int,
    process_id: str | None = None,
    window: tuple[int, int] | None = None,
) -> Process:
    """The command, started, on a terminal of this window (rows, columns). Raises CliError where it cannot be, and
    else as `ExecServerClient.start`.
    """
    rows, cols = window or (None, None)
    try:
        return await client.start(
            wanted.argv,
            stdin=stdin,
            cwd=wanted.cwd,
            env=wanted.env,
            env_policy=INHERIT,
            tty=wanted.tty,
            rows=rows,
            cols=cols,
            timeout=wanted.timeout,
            on_disconnect="terminate" if wanted.terminate_on_disconnect else None,
            process_id=process_id,
        )
    except SpawnError as error:
        raise CliError(error.message, spawn_status(error)) from None


def spawn_status(error: ExecServerError) -> int:
    """The exit status for a command that could not be started, as of env(1)."""
    data = error.data or {}
    if data.get("reason") not in ("program", "interpreter"):
        return NOT_RUN
    return {"spawnNotFound": NOT_FOUND, "spawnPermissionDenied": NOT_EXECUTABLE}.get(data.get("kind", ""), NOT_RUN)
