"""`exec-server run`: a command elsewhere as if it were run here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from cyclopts import Parameter

from exec_server.cli.detach import detach as detached
from exec_server.cli.durations import seconds
from exec_server.cli.exit_status import NOT_RUN, USAGE, CliError, complain, outcome
from exec_server.cli.foreground import Foreground
from exec_server.cli.start import RunRequest, started
from exec_server.cli.target import TokenFile, Url, connected, target_of
from exec_server.cli.terminal import LocalTerminal, interactive, size
from exec_server.client.environments_file import ServerTarget

VALUED = ("--url", "--token-file", "--cwd", "--env", "--timeout", "--session", "--keep", "--on-disconnect")
"""Options of `run` that take a value; the first word that is none, nor an option, begins the command."""


def run(
    *command: str,
    url: Url = None,
    token_file: TokenFile = None,
    tty: Annotated[bool | None, Parameter(show_default=False)] = None,
    cwd: str | None = None,
    env: Annotated[list[str] | None, Parameter(negative=())] = None,
    timeout: str | None = None,
    detach: Annotated[bool, Parameter(negative=())] = False,
    session: str | None = None,
    keep: str | None = None,
    on_disconnect: Literal["keep", "terminate"] = "keep",
) -> int:
    """Run a command on a server as if it were run here: `exec-server run -- CMD…`.

    Its input and output are ours, its exit status is ours (128+n for signal n; 124 after --timeout; 125 if exec-server
    failed, 126 and 127 if the command could not be executed or was not found).

    Parameters
    ----------
    command
        The program and its arguments, as they are: for what a shell does, run `sh -c LINE`.
    tty
        Give it a terminal, or do not; without either it gets one if stdin and stdout are terminals.
    cwd
        The folder it runs in, by default that of the server.
    env
        NAME=VALUE, or NAME for the value that it has here; may be repeated.
    timeout
        How long it may run, such as 90s or 10m.
    detach
        Print an id and leave it running; `ps`, `logs`, `attach`, `kill` and `wait` find it. Its input is empty, or with
        --tty a terminal of its own.
    session
        With --detach: the name of the session it runs in, `default` if none is given.
    keep
        With --detach: how long a new session, and what runs in it, lives after the last `run --detach`; 24h by default.
    on_disconnect
        What becomes of the command when the connection is cut: `keep` lets it run on while it is connected again, so
        that it also outlives a `run` that was killed, by up to 80 s; `terminate` kills it at once.

    Background jobs that the command leaves behind run on after `run` has ended, until they end or `run` does: their
    session ends with it.
    """
    if not detach and (session is not None or keep is not None):
        return complain("--session and --keep are for commands that go on: add --detach", USAGE)
    if detach and on_disconnect != "keep":
        return complain("--detach leaves the connection: --on-disconnect terminate would end the command", USAGE)

    async def main() -> int:
        target = target_of(url, token_file)
        if not detach:
            return await _run(target, _wanted(command, tty, cwd, env, timeout, on_disconnect))
        wanted = _wanted(command, bool(tty), cwd, env, timeout)
        return await detached(target, wanted, session or "default", None if keep is None else seconds(keep, "--keep"))

    return outcome(main, NOT_RUN)


def _wanted(
    command: Sequence[str],
    tty: bool | None,
    cwd: str | None,
    env: Sequence[str] | None,
    timeout: str | None,
    on_disconnect: Literal["keep", "terminate"] = "keep",
) -> RunRequest:
    """The options, understood. Raises CliError."""
    if not command:
        raise CliError("no command: exec-server run [OPTIONS] -- CMD [ARGS]", USAGE)
    for word in (*command, *([] if cwd is None else [cwd]), *(env or ())):
        if not _is_text(word):
            raise CliError(f"{os.fsencode(word)!r}: only text can be sent, and this is not UTF-8", USAGE)
    tty = interactive() if tty is None else tty
    given = environment(env or (), os.environ)
    if tty and "TERM" in os.environ:
        given.setdefault("TERM", os.environ["TERM"])
    limit = None if timeout is None else seconds(timeout, "--timeout")
    return RunRequest(list(command), tty, cwd, given, limit, on_disconnect == "terminate")


def _is_text(word: str) -> bool:
    """Whether it is Unicode: bytes that are none have become halves of surrogate pairs (PEP 383)."""
    return not any("\ud800" <= each <= "\udfff" for each in word)


def environment(given: Sequence[str], ours: Mapping[str, str]) -> dict[str, str]:
    """The variables that `--env` means: NAME=VALUE, or NAME for ours. Raises CliError."""
    found = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not name:
            raise CliError(f"--env {item}: NAME=VALUE or NAME is needed", USAGE)
        if not equals:
            if name not in ours:
                raise CliError(f"--env {name}: it is not set here; give a value, {name}=VALUE", USAGE)
            value = ours[name]
        found[name] = value
    return found


def with_separator(argv: Sequence[str]) -> list[str]:
    """The words after `run` with `--` before the command, so that the command's own options stay its own."""
    at = 0
    while at < len(argv) and argv[at].startswith("-") and argv[at] not in ("-", "--"):
        at += 2 if argv[at] in VALUED else 1
    at = min(at, len(argv))
    rest = list(argv[at:])
    return [*argv[:at], *([] if rest[:1] == ["--"] or not rest else ["--"]), *rest]


async def _run(target: ServerTarget, wanted: RunRequest) -> int:
    async with connected(target) as client:
        terminal = LocalTerminal() if wanted.tty and os.isatty(0) else None
        asked = size() if wanted.tty else None
        process = await started(client, wanted, stdin=subprocess.PIPE, window=asked)
        return await Foreground(process, client, terminal, size_sent=asked).run()
