"""Output: the part of a ProcessActor that reads what the child prints, and leaves it in the kernel when it must."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from actors.base.actor import BaseActor, Part
from actors.base.messages import Address, OutputResumed, PauseOutput
from actors.process.publisher import Publisher
from actors.process.read_coalescer import ReadCoalescer
from actors.process.run import Run, State
from protocol.process import Stream

DRAINED_AT_EXIT: Final = 1 << 20
"""Bytes of a stream that are read before `exited` is sent, so that a short command's output comes before its exit."""
TERMINAL_RETRY_S: Final = 0.5
"""How often a terminal that nobody has open is looked at again while its child lives, in seconds."""


class Output(Part):
    """Reads the child's streams unless its session's client is slow, or its owner wants none now (process/flow)."""

    def __init__(
        self,
        actor: BaseActor,
        run: Run,
        publisher: Publisher,
        on_end: Callable[[], None],
        on_resume: Callable[[], None],
    ) -> None:
        """`on_end`: a stream has ended. `on_resume`: output is read again, so that silence can be told from a pause."""
        super().__init__(actor)
        self._run = run
        self._publisher = publisher
        self._on_end = on_end
        self._on_resume = on_resume
        self.coalescer = ReadCoalescer()
        """Says when nothing is to be watched for a moment, so that small pieces come together."""
        self._paused_for_session = run.start.paused
        self._paused_by: Address | None = None
        """The bridge of whoever wants no output now."""
        self._overdue = False
        """Nobody waits any longer for those who hold the streams open; what is there is still to be read."""
        self._server_ends = False

    # -- reading --------------------------------------------------------------------------------------------------

    def take(self, name: Stream) -> int:
        """Read a stream once and send it on; the number of bytes, 0 where there was nothing or the stream ended."""
        run = self._run
        data = run.poller.read(name)
        if data is None:
            return 0
        if not data:
            self._ended(name)
            return 0
        if self.coalescer.read(len(data)):
            self.actor.deadlines.set("rest", self.coalescer.rest_s, self.coalescer.end)
        if run.idle is not None:
            run.idle.touch()
        if run.recording is not None:
            run.recording.output(data)
        self._publisher.tell(run.history.output(name, data))
        return len(data)

    def take_ready(self, name: str) -> None:
        """A stream of this name has something to read, or has ended; unless it ended meanwhile, or nobody reads."""
        for stream in self._run.poller.outputs:
            if stream == name and not self._run.poller.held:
                self.take(stream)

    def drain(self) -> None:
        """Read what is there, up to a bound."""
        poller = self._run.poller
        for name in poller.outputs:
            taken = 0
            while taken < DRAINED_AT_EXIT and name in poller.outputs and (count := self.take(name)):
                taken += count

    def on_input(self) -> None:
        """Somebody writes to the child, and waits for the echo."""
        self.coalescer.on_input()
        if self._run.idle is not None:
            self._run.idle.touch()

    def _ended(self, name: Stream) -> None:
        run = self._run
        if name == "pty" and run.state is State.RUNNING:
            run.poller.park()
            self.actor.deadlines.set("terminal", TERMINAL_RETRY_S, self._look_again)
            return
        run.poller.close_output(name)
        self._on_end()

    def _look_again(self) -> None:
        self._run.poller.unpark()
        self._run.input.push()

    def abandon(self) -> None:
        """The exit was long enough ago: take what is there, and wait no longer for who holds the streams open."""
        if self._run.state is not State.EXITED:
            return
        if self._run.poller.held:
            self._overdue = True
            return
        self._close()

    def server_ends(self) -> None:
        """Nobody is waited for any more who does not take the output."""
        self._server_ends = True
        self.give_up_paused()

    def give_up_paused(self) -> None:
        """While the server ends: what is there goes out, no more."""
        if self._server_ends and self._run.state is State.EXITED and self._run.poller.held:
            self._close()

    def _close(self) -> None:
        self.drain()
        self._run.poller.close_streams()
        self._on_end()

    # -- pauses ---------------------------------------------------------------------------------------------------

    def receiveMsg_PauseOutput(self, message: PauseOutput, session: Address) -> None:
        self._paused_for_session = message.paused
        self.apply_pause()
        if not message.paused:
            self.send(session, OutputResumed(self._run.process_id))

    def pause_by(self, bridge: Address | None) -> None:
        """The client of this bridge wants no output now; None: it wants it again."""
        self._paused_by = bridge
        self.apply_pause()

    def leave(self, bridge: Address) -> None:
        """This bridge holds no output back any more."""
        if self._paused_by == bridge:
            self.pause_by(None)

    def apply_pause(self) -> None:
        """Read output, or leave it in the kernel, as the session's flow and the owner want it."""
        run = self._run
        if run.state in (State.CLOSED, State.FAILED):
            return
        if self._paused_for_session or self._paused_by is not None:
            run.poller.hold()
            if run.idle is not None:
                run.idle.pause()
            self.give_up_paused()
        elif run.poller.held:
            run.poller.release()
            self._on_resume()
            if run.state in (State.RUNNING, State.EXITED):
                for name in run.poller.outputs:
                    self.take(name)
            if self._overdue:
                self.abandon()
