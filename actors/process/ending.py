"""Ending: the part of a ProcessActor that ends its child, at once or gently, for a wish or a limit of time."""

from __future__ import annotations

import signal
from typing import Final

from actors.base.actor import BaseActor
from actors.process.idle_timer import IdleTimer
from actors.process.run import Run, State
from protocol.process import ExitReason, ProcessTerminateParams, ProcessTerminateResult

GRACEFUL_S: Final = 5.0
"""Between SIGTERM and SIGKILL of a graceful terminate that says nothing else, in seconds."""
TIME_LIMIT_GRACE_S: Final = 2.0
"""Between SIGTERM and SIGKILL when a time limit is reached, in seconds."""


class Ending:
    """Ends the child with all its descendants."""

    def __init__(self, actor: BaseActor, run: Run) -> None:
        self._deadlines = actor.deadlines
        self._run = run
        self._once_started: float | None = None
        """The grace, in seconds, with which a child is to be ended that is being spawned."""

    def started(self) -> None:
        """The child runs: set its limits of time, or end it, if that was asked for meanwhile."""
        run, params = self._run, self._run.start.params
        if params.timeout_ms is not None:
            self._deadlines.set("timeout", params.timeout_ms / 1000, self._time_is_over)
        if params.idle_timeout_ms is not None:
            run.idle = IdleTimer(params.idle_timeout_ms / 1000)
            if run.poller.held:
                run.idle.pause()
            self.watch_idle()
        if self._once_started is not None:
            self.end(run.reason or "terminated", self._once_started)

    def exited(self) -> None:
        """The limits of time hold no longer."""
        for key in ("timeout", "idle"):
            self._deadlines.cancel(key)

    def terminate(self, params: ProcessTerminateParams) -> ProcessTerminateResult:
        """Carry out a process/terminate."""
        grace_s = 0.0
        if params.mode == "graceful":
            grace_s = GRACEFUL_S if params.timeout_ms is None else params.timeout_ms / 1000
        self.end("terminated", grace_s)
        return ProcessTerminateResult(running=self._run.state in (State.STARTING, State.RUNNING))

    def end(self, reason: ExitReason, grace_s: float) -> None:
        """End the child: at once, or by SIGTERM now and SIGKILL after `grace_s`; what has exited already, at once. The
        first reason holds."""
        run, child = self._run, self._run.child
        if run.state is State.STARTING:
            run.reason, self._once_started = run.reason or reason, grace_s
        elif run.state is State.EXITED:
            self.kill()  # whatever keeps its output open
        elif run.state is State.RUNNING and child is not None:
            run.reason = run.reason or reason
            if not grace_s:
                self.kill()
                return
            child.signal_group(signal.SIGTERM)
            if run.start.params.tty:
                child.signal_group(signal.SIGHUP)  # interactive shells ignore SIGTERM
            child.signal_group(signal.SIGCONT)  # a stopped process acts on neither before it goes on
            self._deadlines.set("kill", grace_s, self.kill)

    def kill(self) -> None:
        """Kill the child and its descendants, or what it left behind."""
        if self._run.child is not None:
            self._run.child.kill_tree()

    def resumed(self) -> None:
        """Output is read again: silence counts from now on."""
        if self._run.idle is not None:
            self._run.idle.resume()
            self.watch_idle()

    def watch_idle(self) -> None:
        """End a child that has been silent for too long, or look again when that may be."""
        idle = self._run.idle
        if idle is None or self._run.state is not State.RUNNING:
            return
        remaining = idle.remaining()
        if remaining == 0.0:
            self.end("idleTimeout", TIME_LIMIT_GRACE_S)
        elif remaining is not None:
            self._deadlines.set("idle", remaining, self.watch_idle)

    def _time_is_over(self) -> None:
        self.end("timeout", TIME_LIMIT_GRACE_S)
