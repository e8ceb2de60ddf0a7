"""Tools for commands: unified exec, with what else a model should be told of a command."""

from __future__ import annotations

import asyncio
import secrets
import signal
from typing import Annotated

from mcp_types import ToolAnnotations
from msgspec import Meta, Struct

from exec_server.client.errors import TransportDisconnected
from exec_server.mcp.activity import Activity, shown_command
from exec_server.mcp.call import Call
from exec_server.mcp.errors import ToolError
from exec_server.mcp.machine import Link
from exec_server.mcp.paths import absolute
from exec_server.mcp.session import McpSession
from exec_server.mcp.tooling import Answer, Arguments, Tool
from exec_server.unified_exec.limits import MAX_YIELD_MS, MIN_YIELD_MS
from exec_server.unified_exec.report import SandboxDenied, Snapshot, UnifiedExecError
from protocol.errors import ExecServerError, MethodNotFound
from protocol.process import ProcessScreenParams, ProcessScreenResult

MAX_CHARS_BYTES = 1 << 20
"""The most that one call can type, in bytes."""
MAX_COMMAND_BYTES = 100_000
"""The longest command line, in bytes: Linux gives one argument 131,072 (MAX_ARG_STRLEN)."""
INTERRUPT_S = 2.0
"""How long a cancelled command has to end after SIGINT, in seconds; then it is killed."""

ProcessId = Annotated[int, Meta(description="Id of a running command, from exec_command.")]
YieldMs = Annotated[int | None, Meta(description="How long to wait for the end, in ms; held within 250 to 30000.")]
OutputTokens = Annotated[int | None, Meta(description="Most output to return (default 10000 tokens).")]


class ExecArguments(Arguments, frozen=True):
    cmd: Annotated[str, Meta(description="Shell command line.")]
    workdir: Annotated[str | None, Meta(description="Folder to run it in.")] = None
    tty: Annotated[bool, Meta(description="Give it a terminal: needed for input and for full-screen programs.")] = False
    yield_time_ms: YieldMs = None
    max_output_tokens: OutputTokens = None


class WriteArguments(Arguments, frozen=True):
    process_id: ProcessId
    chars: Annotated[
        str, Meta(description=r"What to type: \n is Enter, \u0003 ^C, \u0004 ^D, \u001b[A Up. Empty: only look.")
    ] = ""
    yield_time_ms: YieldMs = None
    max_output_tokens: OutputTokens = None


class ProcessArguments(Arguments, frozen=True):
    process_id: ProcessId


class NoArguments(Arguments, frozen=True):
    pass


class CommandResult(Struct, frozen=True):
    output: str
    exit_code: int | None
    process_id: int | None
    total_bytes: int
    omitted_bytes: int
    wall_time_s: float
    waiting_for_input: bool
    last_line: str | None
    notice: str | None


class ProcessInfo(Struct, frozen=True):
    process_id: int
    command: str
    workdir: str | None
    tty: bool
    running: bool
    exit_code: int | None
    age_s: float
    quiet_s: float
    waiting_for_input: bool
    last_line: str


class ProcessList(Struct, frozen=True):
    processes: list[ProcessInfo]


class Cursor(Struct, frozen=True):
    row: int
    col: int
    visible: bool


class ScreenResult(Struct, frozen=True):
    rows: list[str]
    cols: int
    cursor: Cursor
    title: str
    complete: bool


# -- calls ------------------------------------------------------------------------------------------------------


async def exec_command(session: McpSession, arguments: ExecArguments, call: Call) -> Answer:
    """Run a command line; a cancelled call interrupts it."""
    size = len(arguments.cmd.encode("utf-8", "surrogatepass"))
    if size > MAX_COMMAND_BYTES or "\0" in arguments.cmd:
        wrong = "contains NUL" if "\0" in arguments.cmd else f"has {size} bytes, more than {MAX_COMMAND_BYTES}"
        raise ToolError(f"cmd {wrong}. Write a script with write_file, and run that.")
    link = await session.link()
    session.activities.keep(set(link.commands.process_ids))
    call_id = secrets.token_hex(8)
    running = asyncio.create_task(
        link.commands.exec_command(
            arguments.cmd,
            workdir=absolute(arguments.workdir or ".", link.paths.base),
            tty=arguments.tty,
            yield_time_ms=arguments.yield_time_ms,
            max_output_tokens=arguments.max_output_tokens,
            sandbox=link.paths.sandbox,
            call_id=call_id,
        )
    )
    try:
        async with call.telling(lambda: _newest(session.activities.of_call(call_id))):
            snapshot = await asyncio.shield(running)
    except SandboxDenied as denied:
        why = f"The sandbox seems to have kept it from its work. {session.policy.explained(link.paths.base)}"
        return _answer(session, denied.snapshot, arguments.yield_time_ms, why, failed=True)
    except asyncio.CancelledError:
        session.run(_interrupted(session, link, call_id, running))
        raise
    return _answer(session, snapshot, arguments.yield_time_ms)


async def write_stdin(session: McpSession, arguments: WriteArguments, call: Call) -> Answer:
    """Type, and look; a cancelled call leaves the command as it is."""
    size = len(arguments.chars.encode("utf-8", "surrogatepass"))
    if size > MAX_CHARS_BYTES:
        raise ToolError(f"chars has {size} bytes, more than {MAX_CHARS_BYTES}. Use write_file for so much.")
    link = await session.link()
    activity = session.activities.of_process(arguments.process_id)
    async with call.telling(lambda: _newest(activity)):
        snapshot = await link.commands.write_stdin(
            arguments.process_id,
            arguments.chars,
            yield_time_ms=arguments.yield_time_ms,
            max_output_tokens=arguments.max_output_tokens,
        )
    return _answer(session, snapshot, arguments.yield_time_ms)


async def terminate_process(session: McpSession, arguments: ProcessArguments, call: Call) -> Answer:
    """Kill a command with its descendants."""
    link = await session.link()
    return _answer(session, await link.commands.terminate(arguments.process_id), None)


async def list_processes(session: McpSession, arguments: NoArguments, call: Call) -> Answer:
    """The commands that are kept."""
    link = await session.link()
    now = session.now()
    kept = link.commands.process_ids
    session.activities.keep(set(kept))
    found = [_info(id, each, now) for id in sorted(kept) if (each := session.activities.of_process(id)) is not None]
    lines = [
        f"{each.process_id}  {_state(each)}  {each.age_s:.0f} s old  {each.command}"
        + (f"\n    last line: {each.last_line}" if each.last_line else "")
        for each in found
    ]
    return Answer(ProcessList(found), "\n".join(lines) or "No processes.")


async def read_screen(session: McpSession, arguments: ProcessArguments, call: Call) -> Answer:
    """What the terminal of a command shows."""
    screen = await screen_of(await session.link(), arguments.process_id)
    cursor = screen.cursor
    result = ScreenResult(
        screen.rows, screen.cols, Cursor(cursor.row, cursor.col, cursor.visible), screen.title, screen.complete
    )
    return Answer(result, screen_text(screen))


async def screen_of(link: Link, process_id: int) -> ProcessScreenResult:
    """The screen of a command. Raises ToolError where it has none, UnknownCommand."""
    process = link.commands.process(process_id)
    if not process.tty:
        raise ToolError(f"Process {process_id} has no terminal, and so no screen: start it with tty true.")
    try:
        return await link.environment.processes.call(ProcessScreenParams(process.process_id))
    except MethodNotFound:
        raise ToolError("This machine's server renders no screens (it needs `exec-server[screen]`).") from None


def screen_text(screen: ProcessScreenResult) -> str:
    """A screen as lines, numbered from 0, with a line about the cursor."""
    cursor = screen.cursor
    shown = "" if cursor.visible else ", hidden"
    head = f"Cursor at row {cursor.row}, column {cursor.col}{shown}; {len(screen.rows)} rows of {screen.cols} columns."
    if screen.title:
        head += f" Title: {screen.title}."
    if not screen.complete:
        head += " The beginning of the output is gone; the screen may be wrong."
    last = max((n for n, row in enumerate(screen.rows) if row), default=-1)
    return "\n".join([head, *(f"{n:2} {row}" for n, row in enumerate(screen.rows[: max(last, cursor.row) + 1]))])


# -- parts ------------------------------------------------------------------------------------------------------


async def _interrupted(session: McpSession, link: Link, call_id: str, running: asyncio.Task[Snapshot]) -> None:
    """End the command of a cancelled call: SIGINT, and SIGKILL to what is left of it."""
    activity = session.activities.of_call(call_id)
    try:
        process = None if activity is None else link.commands.process(activity.begin.process_id)
        if process is not None and not running.done():
            await process.signal(signal.SIGINT)
            await asyncio.wait([running], timeout=INTERRUPT_S)
    except (ExecServerError, UnifiedExecError, TransportDisconnected):
        process = None  # it was not started, or it is gone
    running.cancel()
    await asyncio.wait([running])
    try:
        if process is not None:
            await process.kill()
        if activity is not None:
            await link.commands.terminate(activity.begin.process_id)
    except (ExecServerError, UnifiedExecError, TransportDisconnected):
        pass  # forgotten, as it should be


def _newest(activity: Activity | None) -> str:
    return "" if activity is None else activity.last_line


def _state(info: ProcessInfo) -> str:
    if not info.running:
        return f"ended ({'no exit code' if info.exit_code is None else f'exit code {info.exit_code}'})"
    return "waiting for input?" if info.waiting_for_input else "running"


def _info(process_id: int, activity: Activity, now: float) -> ProcessInfo:
    return ProcessInfo(
        process_id=process_id,
        command=shown_command(activity.begin.command),
        workdir=activity.begin.workdir,
        tty=activity.begin.tty,
        running=activity.running,
        exit_code=activity.exit_code,
        age_s=round(now - activity.began, 1),
        quiet_s=round(now - activity.active, 1),
        waiting_for_input=activity.is_quiet(now),
        last_line=activity.last_line,
    )


def _answer(
    session: McpSession, snapshot: Snapshot, asked_ms: int | None, why: str | None = None, failed: bool = False
) -> Answer:
    activity = None if snapshot.process_id is None else session.activities.of_process(snapshot.process_id)
    now = session.now()
    waiting = activity is not None and activity.is_quiet(now)
    notices = [why, snapshot.failure, snapshot.notice]
    if asked_ms is not None and not MIN_YIELD_MS <= asked_ms <= MAX_YIELD_MS:
        notices.append(f"yield_time_ms {asked_ms} was held within {MIN_YIELD_MS} to {MAX_YIELD_MS}")
    if waiting and activity is not None:
        notices.append(
            f"nothing was printed for {now - activity.active:.1f} s: it may be waiting for input, which write_stdin "
            "types; read_screen shows its screen"
        )
    result = CommandResult(
        output=snapshot.output,
        exit_code=snapshot.exit_code,
        process_id=snapshot.process_id,
        total_bytes=snapshot.total_bytes,
        omitted_bytes=snapshot.omitted_bytes,
        wall_time_s=round(snapshot.wall_time_s, 3),
        waiting_for_input=waiting,
        last_line=activity.last_line if activity is not None else None,
        notice="; ".join(filter(None, notices)) or None,
    )
    return Answer(result, _text(result), failed=failed)


def _text(result: CommandResult) -> str:
    """A result as a model reads it best: how it stands, then the output."""
    if result.process_id is not None:
        head = f"Running as process {result.process_id}, after {result.wall_time_s:.1f} s"
        if result.last_line:
            head += f"; last line: {result.last_line!r}"
    elif result.exit_code is None:
        head = "Ended, without a known exit code"
    else:
        head = f"Exit code {result.exit_code}, after {result.wall_time_s:.1f} s"
    if result.omitted_bytes:
        head += f"; {result.omitted_bytes} of {result.total_bytes} bytes of output are left out"
    notice = f"\nNotice: {result.notice}." if result.notice else ""
    return f"{head}.{notice}\n{result.output}" if result.output else f"{head}.{notice}\n(no output)"


COMMAND_TOOLS = (
    Tool(
        "exec_command",
        "Run a command",
        "Run a shell command. Returns its output and exit_code if it ends within yield_time_ms (default 10000); else "
        "process_id: go on with write_stdin. Of long output both ends are shown. Without tty it has no input; with tty "
        "and waiting_for_input it may show a prompt: answer with write_stdin.",
        ExecArguments,
        CommandResult,
        ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True),
        exec_command,
    ),
    Tool(
        "write_stdin",
        "Type into a command, or look at it",
        "Type chars into a running command (started with tty), or with none only wait for more (default 5000 ms). "
        "Returns the output since the last call, as exec_command does.",
        WriteArguments,
        CommandResult,
        ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True),
        write_stdin,
    ),
    Tool(
        "list_processes",
        "List commands",
        "Commands of this session that run, or whose end was not shown yet: state, age, last line.",
        NoArguments,
        ProcessList,
        ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
        list_processes,
    ),
    Tool(
        "terminate_process",
        "End a command",
        "Kill a command with all its descendants; returns the rest of its output. To only interrupt, write_stdin ^C.",
        ProcessArguments,
        CommandResult,
        ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False),
        terminate_process,
    ),
    Tool(
        "read_screen",
        "Read a terminal's screen",
        "What the terminal of a command (started with tty) shows now, with the cursor: for editors, menus, pagers.",
        ProcessArguments,
        ScreenResult,
        ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
        read_screen,
    ),
)
