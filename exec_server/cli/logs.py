"""`exec-server logs`: the output of a command that was left running."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from exec_server.cli.detached_processes import found
from exec_server.cli.detached_sessions import DetachedSessions
from exec_server.cli.exit_status import CliError, outcome, tell
from exec_server.cli.std_streams import DescriptorWriter
from exec_server.cli.target import TokenFile, Url, connected, detachable_url, target_of
from exec_server.client.environments_file import ServerTarget
from exec_server.client.events import Failed, Gap, Output


def logs(
    id: str,
    /,
    *,
    follow: Annotated[bool, Parameter(name=("--follow", "-f"), negative=())] = False,
    url: Url = None,
    token_file: TokenFile = None,
    session: str | None = None,
) -> int:
    """Print the output of a command, stdout and stderr apart: as much of it as the server has kept.

    Parameters
    ----------
    id
        As `run --detach` printed it.
    follow
        Go on until the command has ended.
    session
        Look for the command in this session only.
    """
    return outcome(lambda: _logs(target_of(url, token_file), id, follow, session))


async def _logs(target: ServerTarget, process_id: str, follow: bool, session: str | None) -> int:
    store = DetachedSessions(detachable_url(target))
    writer = DescriptorWriter()
    async with connected(target) as client:
        process = await found(client, store, process_id, session)
        async for event in process.events if follow else process.retained():
            if isinstance(event, Output):
                await writer.write(2 if event.stream == "stderr" else 1, event.data)
            elif isinstance(event, Gap):
                tell(f"{event.size} bytes of output are missing: the server has not kept them")
            elif isinstance(event, Failed):
                raise CliError(f"{process_id}: {event}")
    return 0
