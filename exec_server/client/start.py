"""The arguments of a start, as `subprocess` has them, in the params of the wire. Pure."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from protocol.environment import EnvironmentInfo
from protocol.paths import native_path, path_uri
from protocol.process import EnvPolicy, ProcessStartParams, ResourceLimits
from protocol.sandbox import Sandbox
from protocol.session import InitializeResult

INHERIT = EnvPolicy(inherit="all", ignore_default_excludes=False, exclude=[], set={}, include_only=[])
"""The environment of the server, without names that have KEY, SECRET or TOKEN in them."""
EXTENSIONS = {
    "rows": "size",
    "cols": "size",
    "echo": "terminalModes",
    "raw": "terminalModes",
    "timeout": "timeouts",
    "idle_timeout": "timeouts",
    "closed_after_exit": "timeouts",
    "limits": "limits",
    "on_disconnect": "onDisconnect",
}
"""Options that not every server knows, and the extension that brings them."""


class RunOptions(TypedDict, total=False):
    """Options of `ExecServerClient.run` that it passes on to `start`."""

    cwd: str | os.PathLike[str] | None
    """A path on the server, relative to the server's own folder, which it is without one."""
    env: Mapping[str, str] | None
    """The whole environment. Without it the server's is inherited, but for names that look like secrets."""
    env_policy: EnvPolicy | None
    """What else is inherited; `env` is laid over that."""
    limits: ResourceLimits | None
    """Resource limits of the process and its descendants."""
    sandbox: Sandbox | None
    """The process may do only what this allows."""


class StartOptions(RunOptions, total=False):
    """Options of `ExecServerClient.start`; times in seconds."""

    stdin: int
    """`subprocess.PIPE`, or DEVNULL, the default. On a terminal it is the terminal in any case."""
    tty: bool
    """Whether it gets a terminal, of `rows` (24) by `cols` (80)."""
    rows: int | None
    cols: int | None
    echo: bool | None
    """False: the terminal does not show what is typed, as for a password."""
    raw: bool | None
    """True: the terminal passes every byte on as it is: lines may be longer than 4095 bytes, and ^C is no signal."""
    timeout: float | None
    """The server ends the process after this time,"""
    idle_timeout: float | None
    """and after this time without input and output."""
    closed_after_exit: float | None
    """How long after the exit output is waited for that a descendant holds open; for ever without it."""
    on_disconnect: Literal["keep", "terminate"] | None
    """What becomes of it when the connection is cut: `keep`, the default, as long as the session lives."""
    process_id: str | None
    """Its id in the session; a random one without it."""
    pass_fds: Sequence[int]
    """Descriptors above 2 that the process has under the same numbers, as with `subprocess`; only a server in this
    process can pass them on.
    """


def known(options: Mapping[str, object], kind: type, function: str) -> None:
    """Raise the TypeError of a function that is called with an option that `kind`, a TypedDict, does not have."""
    for name in options:
        if name not in kind.__annotations__:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def start_params(
    facts: InitializeResult, process_id: str, argv: Sequence[str | os.PathLike[str]], options: StartOptions
) -> ProcessStartParams:
    """See `ExecServerClient.start`. Raises NotImplementedError for what the server does not know."""
    if isinstance(argv, (str, bytes)):
        raise TypeError(f"argv is a sequence of strings, not {argv!r}; for a command line: ['sh', '-c', LINE]")
    stdin = options.get("stdin", subprocess.DEVNULL)
    if stdin not in (subprocess.PIPE, subprocess.DEVNULL):
        raise ValueError(f"stdin is PIPE or DEVNULL, not {stdin!r}: the process runs elsewhere")
    for name, extension in EXTENSIONS.items():
        if options.get(name) is not None and extension not in facts.extensions:
            raise NotImplementedError(f"{name}: this server lacks the extension `{extension}`")
    tty, rows, cols = options.get("tty", False), options.get("rows"), options.get("cols")
    cwd, env, env_policy = options.get("cwd"), options.get("env"), options.get("env_policy")
    machine = facts.environment_info
    return ProcessStartParams(
        process_id=process_id,
        argv=[os.fsdecode(word) for word in argv],
        cwd=machine.cwd if cwd is None else uri_on(machine, cwd),
        env=dict(env or {}),
        env_policy=INHERIT if env is None and env_policy is None else env_policy,
        tty=tty,
        pipe_stdin=stdin == subprocess.PIPE and not tty,
        rows=24 if rows is None else rows,
        cols=80 if cols is None else cols,
        echo=options.get("echo") is not False,
        raw=bool(options.get("raw")),
        timeout_ms=_millis(options.get("timeout")),
        idle_timeout_ms=_millis(options.get("idle_timeout")),
        closed_after_exit_ms=_millis(options.get("closed_after_exit")),
        on_disconnect=options.get("on_disconnect"),
        limits=options.get("limits"),
        sandbox=options.get("sandbox"),
    )


def uri_on(machine: EnvironmentInfo, path: str | os.PathLike[str]) -> str:
    """A path of a server's machine, relative to the server's own folder, as a URI. URIs stay as they are."""
    text = os.fspath(path)
    if text.startswith("file:"):
        return text
    return path_uri(os.path.join(native_path(machine.cwd), text))


def _millis(seconds: float | None) -> int | None:
    return None if seconds is None else max(1, round(seconds * 1000))
