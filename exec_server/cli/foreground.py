"""A process elsewhere in the foreground here: its output on ours, our input on its, signals and size passed on."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from collections.abc import Coroutine
from typing import Any

from exec_server.cli.exit_status import NOT_RUN, CliError, tell
from exec_server.cli.output_copy import OutputCopy
from exec_server.cli.std_streams import DescriptorReader
from exec_server.cli.terminal import LocalTerminal, size
from exec_server.client.client import ExecServerClient
from exec_server.client.errors import TransportDisconnected
from exec_server.client.events import Closed, Disconnected, Exited, ExitStatus, Failed, Gap, Output, Reconnected
from exec_server.client.process import Process

TIMED_OUT = 124
"""The exit status for a command that ran into its time limit, as of timeout(1)."""
WRITES_AHEAD = 8
"""Pieces of input that are on their way at the same time."""
GRACE_S = 2.0
"""How long a program on a terminal has to end when we are told to, in seconds."""
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
LEAVE = 0x1D
"""^]; three of them in a row leave an attached program alone."""


class Foreground:
    """One process in the foreground.

    `terminal` is ours, where the process has one and ours is its screen. `attached`: it was there before us, and goes
    on when we leave; else our end is its end.
    """

    def __init__(
        self,
        process: Process,
        client: ExecServerClient,
        terminal: LocalTerminal | None,
        attached: bool = False,
        size_sent: tuple[int, int] | None = None,
    ) -> None:
        self._process = process
        self._client = client
        self._terminal = terminal
        self._attached = attached
        self._size_sent = size_sent
        self._connected = True
        self._leaving: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._told_to_end: int | None = None
        self._resized = asyncio.Event()
        self._signals: asyncio.Queue[signal.Signals] = asyncio.Queue()
        self._escapes = 0

    async def run(self) -> int:
        """Until the process has closed its output, or we have to leave; the exit status.

        Raises CliError if the process is lost, BrokenPipeError if nobody reads our output.
        """
        output = asyncio.create_task(self._show_output())
        ours: list[Coroutine[Any, Any, None]] = [self._pass_input(), self._pass_signals(), self._tell_cuts()]
        if self._terminal is not None:
            ours.append(self._pass_size())
        tasks = [asyncio.create_task(each) for each in ours]
        handled = self._handle_signals()
        finished = False
        try:
            if self._terminal is not None:
                self._terminal.raw()
            await self._first(output, tasks)
            finished = output.done()
            return output.result() if finished else self._leaving.result()
        finally:
            for number in handled:
                asyncio.get_running_loop().remove_signal_handler(number)
            await _end([output, *tasks])
            if self._terminal is not None:
                self._terminal.restore()
                if not finished or output.exception() is not None:
                    self._terminal.tidy()

    async def _first(self, output: asyncio.Task[int], tasks: list[asyncio.Task[None]]) -> None:
        """Return when the output has ended or we are to leave; raise what goes wrong in between."""
        waiting: set[asyncio.Future[Any]] = {output, self._leaving, *tasks}
        while not output.done() and not self._leaving.done():
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                # That the session is lost is told by the output.
                if each is not output and not isinstance(each.exception(), ConnectionError):
                    each.result()

    def _leave(self, status: int) -> None:
        if not self._leaving.done():
            self._leaving.set_result(status)

    # -- output -------------------------------------------------------------------------------------------------

    async def _show_output(self) -> int:
        screen = OutputCopy(self._tell)
        status: ExitStatus | None = None
        async for event in self._process.events:
            if isinstance(event, Output):
                await screen.show(event)
            elif isinstance(event, Gap):
                amount = "unknown" if event.size is None else event.size
                self._tell(f"{amount} bytes of output are missing: the server could not keep them")
            elif isinstance(event, Exited):
                status = event.status
            elif isinstance(event, Failed):
                raise CliError(f"{event}; {self._fate()}", NOT_RUN)
            elif isinstance(event, Closed):
                break
        if self._told_to_end is not None:
            return self._told_to_end
        if status is None:
            raise CliError("the command has ended, but the server does not know how", NOT_RUN)
        if status.reason in ("timeout", "idleTimeout"):
            self._tell("the command was ended: its time was over")
            return TIMED_OUT
        return screen.status(shell_status(status))

    def _fate(self) -> str:
        return "the command may still run" if self._attached else "what became of the command is not known"

    async def _tell_cuts(self) -> None:
        """One line for each cut. Meanwhile our terminal is not raw, so that ^C is a signal, and ends the waiting."""
        async for event in self._client.events():
            if isinstance(event, Disconnected):
                self._connected = False
                if self._terminal is not None:
                    self._terminal.restore()
                tell(f"the connection is gone ({event.reason}); reconnecting, ^C gives up")
            elif isinstance(event, Reconnected):
                self._connected = True
                self._resized.set()
                if self._terminal is not None:
                    self._terminal.raw()

    def _tell(self, text: str) -> None:
        if self._terminal is None:
            tell(text)
            return
        self._terminal.restore()
        tell(text)
        self._terminal.raw()

    # -- input --------------------------------------------------------------------------------------------------

    async def _pass_input(self) -> None:
        reader = DescriptorReader(0)
        writes: deque[asyncio.Task[None]] = deque()
        try:
            while data := await reader.read():
                last = self._before_leaving(data) if self._attached and self._terminal is not None else None
                if last is not None:
                    await self._finish_writes([*writes, asyncio.create_task(self._process.write(last))])
                    self._leave(0)
                    return
                if len(writes) >= WRITES_AHEAD:
                    await writes.popleft()
                writes.append(asyncio.create_task(self._process.write(data)))
            for write in writes:
                await write
            await self._input_ended()
        except BrokenPipeError:
            # The command reads no more; whoever writes to us is to notice as if it wrote to the command.
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        finally:
            await _end(list(writes))

    async def _finish_writes(self, writes: list[asyncio.Task[None]]) -> None:
        """What was typed before we leave arrives, if the program takes it in time."""
        _, waiting = await asyncio.wait(writes, timeout=GRACE_S)
        if waiting:
            self._tell("the program does not read: some of what was typed may not have arrived")
        await _end(writes)

    async def _input_ended(self) -> None:
        if self._terminal is not None:
            self._leave(128 + signal.SIGHUP)  # our terminal is gone
        elif not self._attached:
            await self._process.close_stdin()

    def _before_leaving(self, data: bytes) -> bytes | None:
        """What was typed before the three ^] that leave; None where we stay."""
        for at, byte in enumerate(data):
            self._escapes = self._escapes + 1 if byte == LEAVE else 0
            if self._escapes == 3:
                return data[: max(0, at - 2)]
        return None

    # -- signals ------------------------------------------------------------------------------------------------

    def _handle_signals(self) -> list[signal.Signals]:
        loop = asyncio.get_running_loop()
        # What was ignored when we were started stays so, as of nohup(1).
        numbers = [each for each in PASSED_ON if signal.getsignal(each) is not signal.SIG_IGN]
        for number in numbers:
            loop.add_signal_handler(number, self._signalled, number)
        if self._terminal is not None:
            loop.add_signal_handler(signal.SIGWINCH, self._resized.set)
            loop.add_signal_handler(signal.SIGTSTP, self._stop)
            numbers += [signal.SIGWINCH, signal.SIGTSTP]
        return numbers

    def _signalled(self, number: signal.Signals) -> None:
        again = self._told_to_end is not None
        if not self._connected or self._attached or (self._terminal is not None and again):
            self._leave(128 + number)
            return
        if self._terminal is not None:
            self._told_to_end = 128 + number
        self._signals.put_nowait(number)

    async def _pass_signals(self) -> None:
        while True:
            number = await self._signals.get()
            try:
                await (self._process.signal(number) if self._terminal is None else self._process.terminate(GRACE_S))
            except TransportDisconnected as error:
                self._tell(str(error))  # it may have been lost with a connection; the next one need not be

    def _stop(self) -> None:
        """SIGTSTP from elsewhere; ^Z is a byte for the program."""
        assert self._terminal is not None
        self._terminal.restore()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._terminal.raw()
        self._resized.set()

    async def _pass_size(self) -> None:
        """Tell each new size: first that which our terminal has got since it was asked for the start."""
        while True:
            now = size()
            if now is not None and now != self._size_sent:
                try:
                    await self._process.resize(*now)
                    self._size_sent = now
                except TransportDisconnected:
                    pass  # if there is a next connection, `_tell_cuts` has it told again
            await self._resized.wait()
            self._resized.clear()


def shell_status(status: ExitStatus) -> int:
    """The exit status as a shell has it: 128+n for signal n."""
    return int(status) if status >= 0 else 128 - int(status)


async def _end(tasks: list[asyncio.Task[Any]]) -> None:
    """Cancel them and wait for them; what they raise is seen, and nobody's business any more."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()
