"""ProcessActor where timing decides: what comes while the child is being started, held or finished. Real children."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.base.messages import BridgeDetached, Drain, OutputResumed, PauseOutput
from actors.process.actor import ProcessActor
from protocol.process import (
    ProcessClosed,
    ProcessExited,
    ProcessFlowParams,
    ProcessOutput,
    ProcessReadParams,
    ProcessWaitParams,
    ProcessWriteParams,
)
from tests.support.lone_process import Process, run_process
from tests.support.scripted import PATIENCE_S

SH = ["/bin/sh", "-c"]


def test_a_hold_that_its_connection_left_behind_does_not_stop_the_child() -> None:
    """Lost: a process that was started, held and left within a millisecond never printed again, for anybody."""

    async def scenario(process: Process) -> None:
        process.asks(ProcessFlowParams(process_id="p", paused=True))
        process.tell(BridgeDetached(process.probe.address))
        await process.closed()
        assert process.told("stdout") == b"hello\n"

    run_process(scenario, [*SH, "echo hello"])


def test_a_poll_that_its_connection_left_behind_does_not_wait() -> None:
    """Lost: memory, for up to a day, for each poll of a client that started something and went."""

    async def scenario(process: Process) -> None:
        poll = process.asks(ProcessReadParams(process_id="p", wait_ms=86_400_000))
        wait = process.asks(ProcessWaitParams(process_id="p"))
        process.tell(BridgeDetached(process.probe.address))
        write = process.asks(ProcessWriteParams(process_id="p", chunk=b"\n", write_id="w"))
        await process.closed()
        assert process.answer(write).result.accepted
        assert (process.answer(poll), process.answer(wait)) == (None, None)

    run_process(scenario, [*SH, "read line; echo hello"], pipe_stdin=True)


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "terminal"])
def test_the_last_output_is_told_however_slow_the_client(tty: bool) -> None:
    """Lost: the end of what a command printed, where `closedAfterExitMs` was over before a slow client had read."""

    async def scenario(process: Process) -> None:
        await process.probe.until(lambda: _exited(process), "exited")
        # Its time after the exit is over when this later one of the same actor is.
        wait = process.asks(ProcessReadParams(process_id="p", after_seq=1 << 40, wait_ms=30))
        await process.probe.until(lambda: process.answer(wait), "the later time is over")
        assert process.told("stdout", "pty") == b"", "told while it was held"
        await process.release()
        await process.closed()
        assert process.told("stdout", "pty").strip() == b"last words"
        assert isinstance(process.events[-1], ProcessClosed)

    held = {"held": True, "closed_after_exit_ms": 1}
    run_process(scenario, [*SH, "echo last words; sleep 1000 & exit 3"], tty=tty, **held)


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "terminal"])
@pytest.mark.parametrize("script", ["yes", "echo hello", "trap '' HUP; (sleep 1000 &) ; echo hello"])
def test_the_end_of_the_server_waits_for_nobody_who_takes_no_output(script: str, tty: bool) -> None:
    """Lost: seconds of every stop of the server, to one client that does not read; and the last words of its child."""

    async def scenario(process: Process) -> None:
        if script != "yes":
            await process.probe.until(lambda: _exited(process), "exited")
        process.tell(Drain(1000.0))
        await process.closed()
        assert script == "yes" or process.told("stdout", "pty").startswith(b"hello")
        kinds = [type(each) for each in process.events if not isinstance(each, ProcessOutput)]
        assert kinds == [ProcessExited, ProcessClosed]

    run_process(scenario, [*SH, script], held=True, tty=tty)


def _exited(process: Process) -> bool:
    return any(isinstance(each, ProcessExited) for each in process.events)


class FailsAtResume(ProcessActor):
    """A server with a fault."""

    def receiveMsg_PauseOutput(self, message: PauseOutput, sender: Any) -> None:
        if not message.paused:
            raise OSError("a fault")
        self._output.receiveMsg_PauseOutput(message, sender)


def test_a_fault_at_a_resume_ends_the_process_and_nobody_waits_for_it() -> None:
    """Lost: the output of every other process of a session, which waits until this one is released."""

    async def scenario(process: Process) -> None:
        process.tell(PauseOutput(True))
        wait = process.asks(ProcessWaitParams(process_id="p"))
        await process.read(0)
        process.tell(PauseOutput(False))
        await process.probe.until(lambda: process.probe.of(OutputResumed) or process.is_closed, "an end")
        assert [type(each) for each in process.events] == [ProcessExited, ProcessClosed]
        assert process.answer(wait).result.exited

    run_process(scenario, [*SH, "sleep 1000"], actor=FailsAtResume)


class CannotTell(FailsAtResume):
    def _tell_end(self, reason: Any) -> None:
        raise OSError("another fault")


def test_a_process_that_cannot_tell_its_end_leaves_no_actor_and_no_child() -> None:
    """Lost: its last events, which the router tells of an actor that is gone; and a child that nobody ends."""

    async def scenario(process: Process) -> None:
        process.tell(PauseOutput(True))
        await process.read(0)
        process.tell(PauseOutput(False))
        async with asyncio.timeout(PATIENCE_S):
            while process.engine.live_actors:
                await asyncio.sleep(0)

    run_process(scenario, [*SH, "sleep 1000"], actor=CannotTell)
