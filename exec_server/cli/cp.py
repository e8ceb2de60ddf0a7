"""`exec-server cp`: files and folders to a server and back."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Annotated

from cyclopts import Parameter

from exec_server.cli.copy import CopyPlan, Download, RemoteCopy, Transfer, Upload
from exec_server.cli.exit_status import FAILED, USAGE, CliError, outcome, tell
from exec_server.cli.progress import Progress, progress
from exec_server.cli.target import TokenFile, Url, connected, target_of
from exec_server.client.environments_file import ServerTarget
from exec_server.client.files import Files


def cp(
    *paths: str,
    recursive: Annotated[bool, Parameter(name=("--recursive", "-r"), negative=())] = False,
    quiet: Annotated[bool, Parameter(name=("--quiet", "-q"), negative=())] = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> int:
    """Copy files: `exec-server cp notes.txt :work/` to the server, `exec-server cp :work/notes.txt .` back.

    A path that begins with a colon is one on the server, relative to the server's folder. As with cp(1) several
    sources go into a folder, and one goes into it if the folder is there; of `src/.` and `.` the content does. A file
    has its old content or its new one, at every moment. Contents are copied, no modes, owners or times; what links
    lead to, but not folders behind links.

    Parameters
    ----------
    paths
        One or more sources, and the destination.
    recursive
        Copy folders and all that is in them.
    quiet
        Show no progress.
    """

    async def main() -> int:
        sources, destination = divided(paths)
        return await _cp(target_of(url, token_file), sources, destination, recursive, not quiet and sys.stderr.isatty())

    return outcome(main)


def divided(paths: tuple[str, ...]) -> tuple[list[str], str]:
    """Sources and destination. Raises CliError."""
    if len(paths) < 2:
        raise CliError("a source and a destination are needed: exec-server cp FILE :PATH, or cp :PATH FILE", USAGE)
    *sources, destination = paths
    if len({source.startswith(":") for source in sources}) > 1:
        raise CliError("the sources are here and on the server: copy them one after the other", USAGE)
    if not sources[0].startswith(":") and not destination.startswith(":"):
        raise CliError("both are here; a path on the server begins with a colon, :PATH", USAGE)
    if any(path in ("", ":") for path in paths):
        raise CliError("a path is empty", USAGE)
    return sources, destination


async def _cp(target: ServerTarget, sources: list[str], destination: str, recursive: bool, show: bool) -> int:
    task = asyncio.current_task()
    assert task is not None
    told = asyncio.Event()

    def end() -> None:
        told.set()
        task.cancel()  # what is half written is removed on the way out

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
    try:
        async with connected(target) as client:
            transfer = transfer_of(Files(client), sources, destination)
            with progress(show) as shown:
                return await _copy_all(transfer, sources, destination, recursive, shown)
    except asyncio.CancelledError:
        if not told.is_set():
            raise
        return 128 + signal.SIGTERM


def transfer_of(files: Files, sources: list[str], destination: str) -> Transfer:
    """The direction."""
    if not sources[0].startswith(":"):
        return Upload(files)
    return RemoteCopy(files) if destination.startswith(":") else Download(files)


def name_of(source: str) -> str:
    """The name that a source has in a folder; none for `/`, `src/.` and `src/..`, whose content goes into the folder,
    as with cp(1).
    """
    name = os.path.basename(source.rstrip("/"))
    return "" if name in (".", "..") else name


async def _copy_all(transfer: Transfer, sources: list[str], destination: str, recursive: bool, shown: Progress) -> int:
    target = destination.removeprefix(":")
    into = await transfer.is_folder(target)
    if not into and len(sources) > 1:
        raise CliError(f"{destination}: there is no such folder")
    plan = CopyPlan()
    for source in sources:
        path = source.removeprefix(":")
        await transfer.plan(plan, path, os.path.join(target, name_of(path)) if into else target, recursive)
    if not into and target.endswith("/") and not plan.folders and plan.files:
        raise CliError(f"{destination}: there is no such folder")
    shown.total(sum(item.size for item in plan.files))
    for folder in plan.folders:
        await transfer.mkdir(folder)
    for item in plan.files:
        shown.file(item.source)
        await transfer.copy(item, shown.advance)
    for what in plan.left_out:
        tell(f"left out: {what}")
    return FAILED if plan.left_out else 0
