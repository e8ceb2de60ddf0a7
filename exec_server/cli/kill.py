"""`exec-server kill`: end commands that were left running, or send them a signal."""

from __future__ import annotations

import signal as signals
from typing import Annotated

from cyclopts import Parameter

from exec_server.cli.detached_processes import found
from exec_server.cli.detached_sessions import DetachedSessions
from exec_server.cli.durations import seconds
from exec_server.cli.exit_status import FAILED, USAGE, CliError, outcome, tell
from exec_server.cli.target import TokenFile, Url, connected, detachable_url, target_of
from exec_server.client.environments_file import ServerTarget


def kill(
    *ids: str,
    signal: Annotated[str | None, Parameter(name=("--signal", "-s"))] = None,
    grace: str = "5s",
    url: Url = None,
    token_file: TokenFile = None,
    session: str | None = None,
) -> int:
    """End commands: SIGTERM, later SIGKILL to what is left of each and its descendants. Returns at once.

    Parameters
    ----------
    ids
        As `run --detach` printed them.
    signal
        Send only this signal, such as HUP or SIGUSR1.
    grace
        The time between SIGTERM and SIGKILL.
    session
        Look for the commands in this session only.
    """

    async def main() -> int:
        if not ids:
            raise CliError("which command? exec-server kill ID…", USAGE)
        name = None if signal is None else signal_name(signal)
        return await _kill(target_of(url, token_file), ids, name, seconds(grace, "--grace"), session)

    return outcome(main)


async def _kill(
    target: ServerTarget, ids: tuple[str, ...], signal: str | None, grace: float, session: str | None
) -> int:
    store = DetachedSessions(detachable_url(target))
    status = 0
    async with connected(target) as client:
        for process_id in ids:
            try:
                process = await found(client, store, process_id, session)
                if process.returncode is not None:
                    raise CliError(f"{process_id} has ended already")
            except CliError as error:
                tell(str(error))
                status = FAILED
            else:
                await (process.terminate(grace) if signal is None else process.signal(signal))
    return status


def signal_name(text: str) -> str:
    """`HUP`, `sighup` and `1` are `SIGHUP`. Raises CliError."""
    try:
        return signals.Signals(int(text)).name
    except ValueError:
        pass
    name = text.upper()
    name = name if name.startswith("SIG") else "SIG" + name
    if name not in signals.Signals.__members__:
        raise CliError(f"--signal {text}: there is no such signal; `kill -l` lists them", USAGE)
    return name
