"""UnifiedExec: starts commands, keeps those that go on, and shows what has happened since they were last looked at."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from exec_server.client.environment import Environment
from exec_server.client.errors import TransportDisconnected
from exec_server.client.process import Process
from exec_server.client.start import INHERIT
from exec_server.unified_exec.clock import YieldClock
from exec_server.unified_exec.command import RunningCommand
from exec_server.unified_exec.eviction import MAX_PROCESSES
from exec_server.unified_exec.limits import REACT_MS, estimated_tokens, output_limit, yield_window_ms
from exec_server.unified_exec.report import (
    Begin,
    Command,
    End,
    Event,
    SandboxDenied,
    Snapshot,
    StdinClosed,
    TerminalInteraction,
)
from exec_server.unified_exec.table import CommandTable
from protocol.errors import ExecServerError, InvalidRequest
from protocol.sandbox import Sandbox

log = logging.getLogger("exec_server.unified_exec")

END_S = 2.0
"""How long `close` and `terminate` wait for the end of what they kill, in seconds."""
OVERLAY = {
    "NO_COLOR": "1",
    "TERM": "dumb",
    "COLORTERM": "",
    "LANG": "C.UTF-8",
    "LC_CTYPE": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GH_PAGER": "cat",
}
"""What every command gets in its environment, over whatever is set: output for a reader that is no terminal."""


class UnifiedExec:
    """The commands of one language model, on one machine. An async context manager, which ends them with its block.

    At most 64 are kept. For one more, of those that are not among the 8 used last the one goes that was not used for
    longest, a finished one first; it is killed if it runs. `on_event` is called with each event in order; it must not
    block. `consecutive_ids`: process ids are 1000, 1001, … instead of random ones from 1000 on. On the server a process
    is called by the same number, or where the session has one of that name, by that number, `-`, and something random.
    """

    def __init__(
        self,
        environment: Environment,
        *,
        on_event: Callable[[Event], None] | None = None,
        consecutive_ids: bool = False,
    ) -> None:
        self.environment = environment
        """Where its commands run."""
        self._on_event = on_event
        self._table = CommandTable(consecutive_ids)
        self._followed: set[RunningCommand] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._clock = YieldClock(asyncio.get_running_loop().time)
        self._closed = False

    async def __aenter__(self) -> UnifiedExec:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @property
    def process_ids(self) -> list[int]:
        """Of the commands that are kept: what runs, and what has ended but was not shown to its end."""
        return list(self._table)

    def process(self, process_id: int) -> Process:
        """The handle of a command, to signal it or to ask about it; reading from it takes output away from the
        snapshots. Raises UnknownCommand.
        """
        return self._table.find(process_id).process

    # -- calls --------------------------------------------------------------------------------------------------

    async def exec_command(
        self,
        cmd: Command,
        *,
        workdir: str | None = None,
        tty: bool = False,
        yield_time_ms: int | None = None,
        max_output_bytes: int | None = None,
        max_output_tokens: int | None = None,
        env: Mapping[str, str] | None = None,
        sandbox: Sandbox | None = None,
        call_id: str | None = None,
    ) -> Snapshot:
        """Start a command and wait for its end, or `yield_time_ms` (10,000; held within 250 to 30,000).

        `cmd` is a line for the shell of the machine, or a program with its arguments. `workdir` is a folder there.
        With `tty` it has a terminal, and can be written to. `env` is laid over the inherited environment. Output is cut
        to 10,000 tokens (of 4 bytes) unless one of the limits says otherwise, at most 1 MiB.

        Raises what starting raises (SpawnError, …), after an End with its text; SandboxDenied; Busy if there is no room
        and nothing may go; ValueError for a negative limit. If this is cancelled, the command is killed.
        """
        limit = output_limit(max_output_bytes, max_output_tokens)
        window = yield_window_ms(yield_time_ms)
        began = self._now()
        self._make_room()
        begin = Begin(call_id or secrets.token_hex(8), self._table.reserve(), cmd, workdir, tty)
        command = await self._start(begin, env, sandbox)
        try:
            await self._clock.wait(command.finished, self._clock.time() + window / 1000)
        except BaseException:
            self._drop(command, "the call was cancelled")
            raise
        snapshot = self._snapshot(command, began, limit, begin.call_id, self._table.warning())
        if command.sandbox_denied and snapshot.process_id is None:
            raise SandboxDenied(snapshot)
        return snapshot

    async def write_stdin(
        self,
        process_id: int,
        chars: str = "",
        *,
        yield_time_ms: int | None = None,
        max_output_bytes: int | None = None,
        max_output_tokens: int | None = None,
        call_id: str | None = None,
    ) -> Snapshot:
        r"""Type `chars` (`"\x03"` is ^C, `"\x04"` the end of input) and wait, as `exec_command` does, from 100 ms after
        they were written on. Without `chars` only look; then the default is 5,000 ms.

        If the command has ended, the snapshot says so, and that `chars` were not delivered. Raises UnknownCommand if
        there is none of this id, or it was shown to its end; StdinClosed for `chars` to a command without a terminal.
        If this is cancelled, the command goes on and no output is lost.
        """
        limit = output_limit(max_output_bytes, max_output_tokens)
        window = yield_window_ms(yield_time_ms, poll=not chars) / 1000
        command = self._table.find(process_id)
        if chars and not command.begin.tty and not command.ended:
            raise StdinClosed(process_id)
        began = self._now()
        self._table.use(command)
        self._tell(TerminalInteraction(command.begin.call_id, process_id, chars))
        notice = None
        if chars:
            notice = await self._write(command, chars.encode("utf-8", "replace"), window)
            window += REACT_MS / 1000
        await self._clock.wait(command.finished, self._clock.time() + window)
        if notice == _NOT_DELIVERED:
            command.finish(None if command.ended else "its terminal is closed")
        return self._snapshot(command, began, limit, call_id or secrets.token_hex(8), notice)

    async def terminate(self, process_id: int) -> Snapshot:
        """Kill a command with its descendants; the rest of its output. Raises UnknownCommand."""
        command = self._table.find(process_id)
        began = self._now()
        self._run(_kill(command.process))
        try:
            async with asyncio.timeout(END_S):
                await command.finished.wait()
        except TimeoutError:
            command.finish(f"it was killed, but its end was not heard of within {END_S} s")
        return self._snapshot(command, began, output_limit(None, None), secrets.token_hex(8), None)

    # -- the yield clock ----------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Stop the clock of all calls that wait, as long as a person is asked; they still return at once when their
        command ends. Until `resume` was called as often.
        """
        self._clock.pause()

    def resume(self) -> None:
        """End one `pause`. Raises RuntimeError without one."""
        self._clock.resume()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A block with the clock stopped."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    # -- the end ------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Kill what still runs, background jobs too, and forget everything. Calls that wait return."""
        self._closed = True
        for command in list(self._followed):
            if command.ended:
                self._run(_kill(command.process))  # something of it still holds the output open
            self._drop(command, _CLOSED)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=END_S)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # -- parts --------------------------------------------------------------------------------------------------

    async def _start(self, begin: Begin, env: Mapping[str, str] | None, sandbox: Sandbox | None) -> RunningCommand:
        began = self._now()
        self._tell(begin)
        argv = begin.command
        if isinstance(argv, str):
            argv = [self.environment.info.shell.path, "-c", argv]
        try:
            start = partial(
                self.environment.processes.start,
                argv,
                cwd=begin.workdir,
                env={**(env or {}), **OVERLAY},
                env_policy=INHERIT,
                tty=begin.tty,
                sandbox=sandbox,
            )
            try:  # one number for the model, the events, and the server's logs
                process = await start(process_id=str(begin.process_id))
            except InvalidRequest as error:
                if (error.data or {}).get("kind") != "processExists":
                    raise
                process = await start(process_id=f"{begin.process_id}-{secrets.token_hex(4)}")
            if self._closed:
                await _kill(process)
                raise RuntimeError(_CLOSED)
        except BaseException as error:
            failure = str(error) or type(error).__name__
            self._tell(End(begin.call_id, begin.process_id, None, failure, self._now() - began, 0))
            self._table.release(begin.process_id)
            raise
        command = RunningCommand(begin, self.environment.processes, process, began, self._tell)
        self._table.settle(command)
        self._followed.add(command)
        self._run(self._follow(command))
        return command

    async def _follow(self, command: RunningCommand) -> None:
        await command.follow()
        self._followed.discard(command)

    async def _write(self, command: RunningCommand, data: bytes, seconds: float) -> str | None:
        """Write to a command; what the caller has to be told."""
        if command.ended:
            return _NOT_DELIVERED
        try:
            async with asyncio.timeout(seconds):
                await command.process.write(data)
        except TimeoutError:
            return "the input is not taken yet: the command does not read"
        except ConnectionError:  # BrokenPipeError: it has ended; TransportDisconnected
            return _NOT_DELIVERED
        return None

    def _snapshot(
        self, command: RunningCommand, began: float, limit: int, call_id: str, notice: str | None
    ) -> Snapshot:
        finished = command.finished.is_set()
        taken = command.take(limit)
        if finished:
            self._table.forget(command)
            if notice is not None and notice != _NOT_DELIVERED:
                notice = None  # it is about a command that goes on
        return Snapshot(
            call_id=call_id,
            chunk_id=secrets.token_hex(3),
            command=command.begin.command,
            output=taken.text,
            omitted_bytes=taken.omitted_bytes,
            total_bytes=taken.total_bytes,
            total_tokens=estimated_tokens(taken.total_bytes),
            exit_code=command.exit_code if finished else None,
            process_id=None if finished else command.begin.process_id,
            wall_time_s=self._now() - began,
            failure=command.failure,
            notice="; ".join(filter(None, (notice, taken.notice))) or None,
        )

    def _make_room(self) -> None:
        if self._closed:
            raise RuntimeError(_CLOSED)
        while (command := self._table.to_evict()) is not None:
            self._drop(command, f"it was ended to make room: at most {MAX_PROCESSES} commands are kept")

    def _drop(self, command: RunningCommand, why: str) -> None:
        """End a command for our own reasons, and forget it."""
        if not command.ended:
            self._run(_kill(command.process))
        command.finish(why)
        self._table.forget(command)

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _tell(self, event: Event) -> None:
        if self._on_event is None:
            return
        try:
            self._on_event(event)
        except Exception:
            log.exception("on_event failed for %s", type(event).__name__)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


_CLOSED = "unified exec was closed"
_NOT_DELIVERED = "the command has ended; the input was not delivered"


async def _kill(process: Process) -> None:
    try:
        await process.kill()
    except (ExecServerError, TransportDisconnected):
        pass  # there is nothing to kill any more
