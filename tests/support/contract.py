"""What router, sessions and processes promise on any Thespian system base, as scenarios against real children.

A scenario gets a `Stage`: a system with a configured router, and clients of it. A client is a ClientActor, which sends
on what the test says and passes on to the test what it gets, since only an actor has an address as a bridge has.

Run as a program - `python -m tests.support.contract BASE SCENARIO ADMIN_PORT` - it plays one scenario in a process of
its own, without loop and threads when the system is made, as Thespian's forking bases need it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import msgspec
from thespian.actors import ActorSystem, ActorTypeDispatcher

from actors.base.messages import (
    Answer,
    Attached,
    BridgeClosed,
    Call,
    CallElsewhere,
    Configure,
    Configured,
    Congestion,
    Failure,
    FlushWaits,
    Initialize,
    Notify,
    SessionTaken,
    Shutdown,
    ShutdownDone,
)
from actors.base.settings import Settings
from actors.system.child.table import CHILDREN
from protocol.process import (
    ProcessClosed,
    ProcessExited,
    ProcessOutput,
    ProcessReadParams,
    ProcessStartParams,
    ProcessTerminateParams,
    ProcessWriteParams,
)
from protocol.requests import Params
from protocol.session import InitializeParams
from tests.properties.session_world import ENVIRONMENT
from tests.support.program import running

PATIENCE_S = 30.0
SETTINGS = Settings(environment=ENVIRONMENT, session_ttl=0.5, process_retention=0.3)
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"stderr": {"class": "logging.StreamHandler", "level": "WARNING"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
}
"""Thespian's multi-process bases replace all logging in each of their processes by what they are given."""


class Say(msgspec.Struct, frozen=True, gc=False):
    """To a ClientActor: send this on, with the ClientActor's own address where the message says who asks."""

    number: int
    to: Any
    message: Any


class Heard(msgspec.Struct, frozen=True, gc=False):
    """From the ClientActor of this number: it has got this."""

    number: int
    message: Any


class ClientActor(ActorTypeDispatcher):
    """Stands where a bridge stands; everything it hears goes to whoever talks to it from outside."""

    def __init__(self) -> None:
        self._outside: Any = None
        self._number = 0

    def receiveMsg_Say(self, message: Say, sender: Any) -> None:
        self._outside, self._number = sender, message.number
        what = message.message
        if hasattr(what, "bridge"):
            what = msgspec.structs.replace(what, bridge=self.myAddress)
        elif isinstance(what, CallElsewhere):
            what = msgspec.structs.replace(what, call=msgspec.structs.replace(what.call, bridge=self.myAddress))
        self.send(message.to, what)

    def receiveUnrecognizedMessage(self, message: Any, sender: Any) -> None:
        if type(message).__module__.startswith("actors.") and self._outside is not None:
            self.send(self._outside, Heard(self._number, message))


class Stage:
    """One system, its router, and clients."""

    def __init__(self, system: ActorSystem, mark: str) -> None:
        self._system = system
        self._clients: list[Client] = []
        self.shut = False
        self.mark = mark
        """A number of seconds that no other process sleeps."""
        self.router = system.createActor("actors.router.actor.RouterActor")
        answer = system.ask(self.router, Configure(SETTINGS), timedelta(seconds=PATIENCE_S))
        assert isinstance(answer, Configured), answer

    def client(self, resume: str | None = None) -> Client:
        """A connection with a session."""
        client = Client(self, len(self._clients))
        self._clients.append(client)
        client.begin(resume)
        return client

    def create_client(self) -> Any:
        return self._system.createActor(ClientActor)

    def tell(self, to: Any, message: Any) -> None:
        self._system.tell(to, message)

    def listen(self, seconds: float) -> None:
        """Hand the next thing that a client hears to it."""
        heard = self._system.listen(timedelta(seconds=seconds))
        if isinstance(heard, Heard):
            self._clients[heard.number].heard.append(heard.message)
        self.shut |= isinstance(heard, ShutdownDone)

    def shut_down(self) -> None:
        """End every session."""
        self._system.tell(self.router, Shutdown())
        self.eventually(lambda: self.shut, "ShutdownDone")

    def eventually(self, holds: Callable[[], Any], what: str) -> None:
        """Wait for a fact about other processes, which tell nobody when it changes. The actors go on meanwhile."""
        end = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < end, f"not within {PATIENCE_S} s: {what}"
            self.listen(0.02)

    def all_gone(self) -> bool:
        """Whether no process of this scenario is left."""
        return not running(self.mark)


class Client:
    """One connection, and what it has heard."""

    def __init__(self, stage: Stage, number: int) -> None:
        self.heard: list[Any] = []
        self._stage = stage
        self._number = number
        self._token = 0
        self._router = stage.router
        self._bridge = stage.create_client()

    def begin(self, resume: str | None) -> None:
        attached = self._answer(self._ask(self._router, Initialize, InitializeParams("test", resume), 1 << 20))
        assert isinstance(attached, Attached), attached
        self.session, self.session_id = attached.session, attached.result.session_id

    def _say(self, to: Any, message: Any) -> None:
        self._stage.tell(self._bridge, Say(self._number, to, message))

    def _ask(self, to: Any, kind: Callable[..., Any], *arguments: Any) -> int:
        self._token += 1
        self._say(to, kind(self._token, *arguments))
        return self._token

    def until(self, holds: Callable[[], Any], what: str) -> Any:
        """Listen until it holds; what it then is."""
        end = time.monotonic() + PATIENCE_S
        while not (found := holds()):
            left = end - time.monotonic()
            assert left > 0, f"not within {PATIENCE_S} s: {what}; heard {self.heard[-6:]}"
            self._stage.listen(min(left, 1.0))
        return found

    def _answer(self, token: int) -> Any:
        return self.until(
            lambda: next((each for each in self.heard if getattr(each, "token", 0) == token), None), "an answer"
        )

    def asks(self, params: Params) -> int:
        """Send a request; its token."""
        return self._ask(self.session, Call, None, params)

    def result(self, token: int) -> Any:
        answer = self._answer(token)
        assert isinstance(answer, Answer), answer
        return answer.result

    def error(self, token: int) -> Any:
        answer = self._answer(token)
        assert isinstance(answer, Failure), answer
        return answer.error

    def starts(self, process_id: str, script: str, tty: bool = False, pipe_stdin: bool = False) -> int:
        params = ProcessStartParams(process_id, ["/bin/sh", "-c", script], "/", ENV, tty, pipe_stdin)
        return self.asks(params)

    def runs(self, process_id: str, script: str, **how: Any) -> None:
        """Start it; returns when it runs."""
        assert self.result(self.starts(process_id, script, **how)).process_id == process_id

    def reads(self, process_id: str, after_seq: int = 0, wait_ms: int = 0) -> int:
        return self.asks(ProcessReadParams(process_id, after_seq=after_seq, wait_ms=wait_ms))

    def writes(self, process_id: str, data: bytes) -> int:
        return self.asks(ProcessWriteParams(process_id, data, f"w{self._token}"))

    def terminates(self, process_id: str) -> int:
        return self.asks(ProcessTerminateParams(process_id))

    def events(self, process_id: str) -> list[Any]:
        notes = [each.notification for each in self.heard if isinstance(each, Notify)]
        return [each for each in notes if each.process_id == process_id]

    def output(self, process_id: str) -> bytes:
        return b"".join(each.chunk for each in self.events(process_id) if isinstance(each, ProcessOutput))

    def prints(self, process_id: str, text: bytes) -> None:
        """Listen until the process has printed this."""
        self.until(lambda: text in self.output(process_id), f"{text!r}")

    def closes(self, process_id: str) -> ProcessExited:
        """Listen until the process is closed; how it ended. The numbers of its events are checked."""
        events = self.until(
            lambda: (
                [each for each in self.events(process_id) if isinstance(each, ProcessClosed)]
                and self.events(process_id)
            ),
            f"{process_id} closed",
        )
        assert [each.seq for each in events] == list(range(1, len(events) + 1))
        exited = [each for each in events if isinstance(each, ProcessExited)]
        assert len(exited) == 1
        assert isinstance(events[-1], ProcessClosed)
        return exited[0]

    def congested(self, process_id: str) -> None:
        """Returns when the process holds its output: when what went the same way afterwards is answered."""
        self._say(self._router, Congestion(self.session_id, True))
        self._token += 1
        call = Call(self._token, None, ProcessReadParams(process_id))
        self._say(self._router, CallElsewhere(self.session_id, self.session_id, call))
        self._answer(self._token)

    def relieved(self) -> None:
        self._say(self._router, Congestion(self.session_id, False))

    def ends_input(self) -> None:
        self._say(self.session, FlushWaits(None, self.session_id))

    def leaves(self, end_session: bool = False) -> None:
        """The connection is gone."""
        self._say(self._router, BridgeClosed(self.session_id, end_session))


# -- scenarios --------------------------------------------------------------------------------------------------------


def output_in_order(stage: Stage) -> None:
    client = stage.client()
    script = "i=0; while [ $i -lt 300 ]; do echo line $i; i=$((i+1)); done; exit 7"
    client.runs("a", script)
    assert client.closes("a").exit_code == 7
    assert client.output("a") == b"".join(b"line %d\n" % i for i in range(300))
    first = client.heard.index(next(each for each in client.heard if isinstance(each, Notify)))
    assert any(isinstance(each, Answer) for each in client.heard[:first]), "the answer to start comes first"


def both_streams_and_input(stage: Stage) -> None:
    client = stage.client()
    client.runs("a", "read x; echo out $x; echo err $x >&2; cat", pipe_stdin=True)
    assert client.result(client.writes("a", b"hello\nmore\n")).accepted
    client.prints("a", b"err hello\n")
    client.prints("a", b"more\n")
    outputs = [each for each in client.events("a") if isinstance(each, ProcessOutput)]
    assert b"".join(each.chunk for each in outputs if each.stream == "stderr") == b"err hello\n"
    assert client.result(client.terminates("a")).running
    assert client.closes("a").exit_code == 137
    assert client.result(client.writes("a", b"late")).status == "stdinClosed"


def a_terminal(stage: Stage) -> None:
    client = stage.client()
    client.runs("a", "stty size; read x; echo got $x; read y", tty=True)
    client.prints("a", b"24 80")
    assert client.result(client.writes("a", b"word\r")).accepted
    client.prints("a", b"got word")
    client.writes("a", b"\x03")
    assert client.closes("a").exit_code == 130


def a_read_that_waits(stage: Stage) -> None:
    client = stage.client()
    client.runs("a", "read x; echo $x; exec sleep " + stage.mark, pipe_stdin=True)
    short = client.reads("a", wait_ms=50)
    assert client.result(short).chunks == [], "answered when its time is over"
    long = client.reads("a", wait_ms=60_000)
    client.writes("a", b"now\n")
    assert b"".join(each.chunk for each in client.result(long).chunks) == b"now\n"
    last = client.reads("a", after_seq=client.result(long).next_seq - 1, wait_ms=60_000)
    client.ends_input()
    assert client.result(last).chunks == [], "answered when the input ends"


def failures(stage: Stage) -> None:
    client = stage.client()
    missing = ProcessStartParams("a", ["/no/such/program"], "/", ENV, False)
    assert client.error(client.asks(missing)).data["kind"] == "spawnNotFound"
    assert client.error(client.reads("a")).data["kind"] == "unknownProcess"
    client.runs("a", "exit 0")
    assert client.error(client.starts("a", "exit 0")).data["kind"] == "processExists"
    client.closes("a")


def hold_and_release(stage: Stage) -> None:
    client = stage.client()
    script = "read x; head -c 500000 /dev/zero; echo done; exec sleep " + stage.mark
    client.runs("a", script, pipe_stdin=True)
    client.congested("a")
    # Held, the child fills its pipe and stops; reads show how far it came, and that it does not come further.
    client.writes("a", b"go\n")
    assert client.result(client.reads("a", wait_ms=100)).chunks == []
    client.relieved()
    client.until(lambda: client.output("a").endswith(b"done\n"), "all of the output")
    assert len(client.output("a")) == 500_005


def detach_and_resume(stage: Stage) -> None:
    client = stage.client()
    client.runs("a", "read x; echo $x; exec sleep " + stage.mark, pipe_stdin=True)
    client.leaves()
    again = stage.client(client.session_id)
    again.writes("a", b"still here\n")
    again.prints("a", b"still here")
    assert b"".join(each.chunk for each in again.result(again.reads("a")).chunks) == b"still here\n"


def expiry(stage: Stage) -> None:
    client = stage.client()
    client.runs("a", f"sleep {stage.mark} & setsid sleep {stage.mark} & echo up; wait")
    client.prints("a", b"up")
    client.runs("b", f"sleep {stage.mark} >/dev/null 2>&1 & exit 0")
    client.closes("b")
    stage.eventually(lambda: len(running(stage.mark)) >= 3, "all run")
    client.leaves()
    stage.eventually(stage.all_gone, "the session has ended with everything that it left")


def an_end_with_the_connection(stage: Stage) -> None:
    client = stage.client()
    client.runs("a", "exec sleep " + stage.mark, tty=True)
    client.leaves(end_session=True)
    stage.eventually(stage.all_gone, "the session has ended")


def a_record_that_goes(stage: Stage) -> None:
    client = stage.client()
    client.runs("a", f"sleep {stage.mark} >/dev/null 2>&1 & exit 0")
    client.closes("a")
    deadline = time.monotonic() + PATIENCE_S
    while isinstance(client._answer(client.reads("a")), Answer):
        assert time.monotonic() < deadline, "the record stays"
    client.runs("a", "exit 4")
    client.until(
        lambda: any(isinstance(each, ProcessExited) and each.exit_code == 4 for each in client.events("a")), "4"
    )
    assert running(stage.mark), "a background job ends with its session, not with the record of its command"


def shutdown(stage: Stage) -> None:
    client, detached = stage.client(), stage.client()
    for each in (client, detached):
        each.runs("a", "trap '' TERM HUP INT; echo up; while :; do sleep " + stage.mark + "; done", tty=True)
        each.prints("a", b"up")
    detached.leaves()
    stage.shut_down()
    client.until(lambda: any(isinstance(each, SessionTaken) for each in client.heard), "goodbye")
    stage.eventually(stage.all_gone, "every session has ended")


SCENARIOS: dict[str, Callable[[Stage], None]] = {
    each.__name__: each
    for each in (
        output_in_order,
        both_streams_and_input,
        a_terminal,
        a_read_that_waits,
        failures,
        hold_and_release,
        detach_and_resume,
        expiry,
        an_end_with_the_connection,
        a_record_that_goes,
        shutdown,
    )
}


# -- playing them -----------------------------------------------------------------------------------------------------


@contextmanager
def system(base: str, port: int) -> Iterator[ActorSystem]:
    """A system on this base; nothing of it is left afterwards."""
    if base == "asyncioBase":
        from actors.engine import install

        install()
        capabilities: dict[str, Any] = {}
    else:
        capabilities = {"Admin Port": port}
    system = ActorSystem(base, capabilities, LOGGING, transientUnique=True)
    try:
        yield system
    finally:
        system.shutdown()


def play(base: str, scenario: str, port: int = 0) -> None:
    """Play one scenario; AssertionError if a promise is broken, or if anything is left at its end."""
    mark = f"{100_000 + os.getpid() % 100_000}.{list(SCENARIOS).index(scenario) + 1:03}"
    with system(base, port) as actors:
        stage = Stage(actors, mark)
        SCENARIOS[scenario](stage)
    end = time.monotonic() + PATIENCE_S
    while CHILDREN.reap_left() or not stage.all_gone():  # the kernel takes its time over what has been killed
        assert time.monotonic() < end, "something is left after the system"
        time.sleep(0.01)


def main() -> None:
    base, scenario, port = sys.argv[1:]
    play(base, scenario, int(port))


if __name__ == "__main__":
    main()
