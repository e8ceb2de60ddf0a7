"""`exec_command` and `write_stdin`: the commands of a machine as two tools of a model."""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from exec_server import TransportDisconnected, UnifiedExec
from exec_server.unified_exec import SandboxDenied, Snapshot, UnifiedExecError
from harness.tools.result import (
    Arguments,
    Before,
    ToolCall,
    ToolResult,
    definition,
    failed,
    given,
    parsed,
    printable_text,
)
from protocol.errors import ExecServerError
from protocol.sandbox import Sandbox

log = logging.getLogger("harness.tools")

EXEC_COMMAND = "exec_command"
WRITE_STDIN = "write_stdin"
COUNTER = "codex.tool.unified_exec"
"""The counter of commands, tagged `tty` with `true` or `false`."""

Count = Callable[[str, Mapping[str, str]], None]
"""Called with the name of a counter and its tags, once for each thing that is counted."""

_Size = Annotated[int, Meta(ge=0)]
_Tokens = Annotated[
    _Size | None, Meta(description="How much output to return at most, in tokens. Default: 10,000. More is cut.")
]


class ExecCommand(Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `exec_command`."""

    cmd: Annotated[str, Meta(description="The shell command to run.")]
    workdir: Annotated[
        str | None, Meta(description="The folder to run it in; relative ones are meant from the folder of the turn.")
    ] = None
    shell: Annotated[str | None, Meta(description="The shell to run it with. Default: the user's.")] = None
    login: Annotated[bool, Meta(description="Whether the shell is a login shell.")] = False
    tty: Annotated[
        bool, Meta(description="Whether it runs on a terminal. Only then can it be written to with `write_stdin`.")
    ] = False
    yield_time_ms: Annotated[
        _Size | None,
        Meta(description="How long to wait for its end, in ms, from 250 to 30,000. Default: 10,000."),
    ] = None
    max_output_tokens: _Tokens = None


class WriteStdin(Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `write_stdin`."""

    session_id: Annotated[int, Meta(description="The session ID of a command that runs.")]
    chars: Annotated[str, Meta(description="What to type; nothing, to look at the output only.")] = ""
    yield_time_ms: Annotated[
        _Size | None,
        Meta(
            description="How long to wait, in ms, from 250 to 30,000. Default: 10,000; 5,000 without `chars`.",
        ),
    ] = None
    max_output_tokens: _Tokens = None


_DEFINITIONS = (
    definition(
        EXEC_COMMAND,
        "Runs a command and returns its output, or its output so far and a session ID if it goes on.",
        ExecCommand,
    ),
    definition(
        WRITE_STDIN,
        "Writes to a command that runs, and returns what it has printed since it was last looked at.",
        WriteStdin,
    ),
)


class ShellTools:
    """The two tools over a UnifiedExec. `cwd` is the folder of the turn, None for that of the machine; `sandbox` what
    commands may do. `before` is asked before each call, `count` told of each command (tools/metrics.py has one).
    """

    def __init__(
        self,
        unified_exec: UnifiedExec,
        *,
        cwd: str | None = None,
        sandbox: Sandbox | None = None,
        before: Before | None = None,
        count: Count | None = None,
    ) -> None:
        self._commands = unified_exec
        self._cwd = cwd
        self._sandbox = sandbox
        self._before = before
        self._count = count

    def definitions(self) -> list[dict[str, Any]]:
        """Name, description and JSON Schema of the arguments of each tool; no others may be given."""
        return [dict(each) for each in _DEFINITIONS]

    async def call(self, name: str, arguments: Arguments, call_id: str) -> ToolResult:
        """Carry out a call of a model. Whatever goes wrong is text for the model; if this is cancelled, so is the
        command that it has started.
        """
        try:
            if name == EXEC_COMMAND:
                return await self._exec_command(parsed(arguments, ExecCommand), call_id)
            if name == WRITE_STDIN:
                return await self._write_stdin(parsed(arguments, WriteStdin), call_id)
            return failed(f"there is no tool {name!r} here, only {EXEC_COMMAND} and {WRITE_STDIN}")
        except SandboxDenied as denied:
            return failed(f"{name} failed: the sandbox seems to have denied it\n{snapshot_text(denied.snapshot)}")
        except (UnifiedExecError, ExecServerError, TransportDisconnected, ValueError) as error:
            return failed(f"{name} failed: {error}")
        except Exception as error:
            log.exception("the tool %s failed", name)
            return failed(f"{name} failed: {error!r}")

    async def _exec_command(self, options: ExecCommand, call_id: str) -> ToolResult:
        refusal = await self._refusal(EXEC_COMMAND, options, call_id)
        if refusal is not None:
            return failed(refusal)
        if self._count is not None:
            self._count(COUNTER, {"tty": "true" if options.tty else "false"})
        snapshot = await self._commands.exec_command(
            self._command(options),
            workdir=self._workdir(options.workdir),
            tty=options.tty,
            yield_time_ms=options.yield_time_ms,
            max_output_tokens=options.max_output_tokens,
            sandbox=self._sandbox,
            call_id=call_id,
        )
        return ToolResult(snapshot_text(snapshot), True)

    async def _write_stdin(self, options: WriteStdin, call_id: str) -> ToolResult:
        refusal = await self._refusal(WRITE_STDIN, options, call_id)
        if refusal is not None:
            return failed(refusal)
        snapshot = await self._commands.write_stdin(
            options.session_id,
            options.chars,
            yield_time_ms=options.yield_time_ms,
            max_output_tokens=options.max_output_tokens,
            call_id=call_id,
        )
        return ToolResult(snapshot_text(snapshot), True)

    async def _refusal(self, name: str, options: Struct, call_id: str) -> str | None:
        if self._before is None:
            return None
        return await self._before(ToolCall(name, given(options), call_id))

    def _command(self, options: ExecCommand) -> str | list[str]:
        if options.shell is None and not options.login:
            return options.cmd
        shell = options.shell or self._commands.environment.info.shell.path
        return [shell, "-lc" if options.login else "-c", options.cmd]

    def _workdir(self, workdir: str | None) -> str | None:
        if workdir is None or not workdir.strip():
            return self._cwd
        return workdir if self._cwd is None else posixpath.join(self._cwd, workdir)


def snapshot_text(snapshot: Snapshot) -> str:
    """A snapshot as a model reads it."""
    lines = [f"Chunk ID: {snapshot.chunk_id}", f"Wall time: {snapshot.wall_time_s:.4f} seconds"]
    if snapshot.exit_code is not None:
        lines.append(f"Process exited with code {snapshot.exit_code}")
    if snapshot.process_id is not None:
        lines.append(f"Process running with session ID {snapshot.process_id}")
    lines.append(f"Original token count: {snapshot.total_tokens}")
    if snapshot.failure is not None:
        lines.append(f"Failure: {snapshot.failure}")
    if snapshot.notice is not None:
        lines.append(f"Notice: {snapshot.notice}")
    return printable_text("\n".join([*lines, "Output:", snapshot.output]))
