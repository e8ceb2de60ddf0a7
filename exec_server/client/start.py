"""The arguments of a start, as `subprocess` has them, in the params of the wire. Pure."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from protocol.environment import EnvironmentInfo
from protocol.paths import native_path, path_uri
from protocol.process import EnvPolicy, ProcessStartParams, ResourceLimits
from protocol.sandbox import Sandbox
from protocol.session import InitializeResult

INHERIT = EnvPolicy(inherit="all", ignore_default_excludes=False, exclude=[], set={}, include_only=[])
"""The environment of the server, without names that have KEY, SECRET or TOKEN in them."""


def start_params(
    facts: InitializeResult,
    process_id: str,
    argv: Sequence[str | os.PathLike[str]],
    *,
    stdin: int,
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
    env_policy: EnvPolicy | None,
    tty: bool,
    rows: int | None,
    cols: int | None,
    timeout: float | None,
    idle_timeout: float | None,
    limits: ResourceLimits | None,
    on_disconnect: Literal["keep", "terminate"] | None,
    closed_after_exit: float | None,
    sandbox: Sandbox | None,
) -> ProcessStartParams:
    """See `ExecServerClient.start`. Raises NotImplementedError for what the server does not know."""
    if isinstance(argv, (str, bytes)):
        raise TypeError(f"argv is a sequence of strings, not {argv!r}; for a command line: ['sh', '-c', LINE]")
    if stdin not in (subprocess.PIPE, subprocess.DEVNULL):
        raise ValueError(f"stdin is PIPE or DEVNULL, not {stdin!r}: the process runs elsewhere")
    _require(facts, "size", rows=rows, cols=cols)
    _require(facts, "timeouts", timeout=timeout, idle_timeout=idle_timeout, closed_after_exit=closed_after_exit)
    _require(facts, "limits", limits=limits)
    _require(facts, "onDisconnect", on_disconnect=on_disconnect)
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
        timeout_ms=_millis(timeout),
        idle_timeout_ms=_millis(idle_timeout),
        closed_after_exit_ms=_millis(closed_after_exit),
        on_disconnect=on_disconnect,
        limits=limits,
        sandbox=sandbox,
    )


def uri_on(machine: EnvironmentInfo, path: str | os.PathLike[str]) -> str:
    """A path of a server's machine, relative to the server's own folder, as a URI. URIs stay as they are."""
    text = os.fspath(path)
    if text.startswith("file:"):
        return text
    return path_uri(os.path.join(native_path(machine.cwd), text))


def _millis(seconds: float | None) -> int | None:
    return None if seconds is None else max(1, round(seconds * 1000))


def _require(facts: InitializeResult, extension: str, **given: float | str | Struct | None) -> None:
    for name, value in given.items():
        if value is not None and extension not in facts.extensions:
            raise NotImplementedError(f"{name}: this server lacks the extension `{extension}`")
