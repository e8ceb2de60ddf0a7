"""Router and ConnectionActor: who gets a session and when, how long it lives, what becomes of process ids."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from thespian.actors import ActorExitRequest

from actors.base.messages import Shutdown, ShutdownDone
from actors.session.fair_release import RELEASED_AT_ONCE
from tests.support.sessions import Server
from tests.support.simulated_process import Exits, JobsEnd, Prints
from tests.support.simulation import Simulation

ATTACHED, UNKNOWN = -32010, -32600
NOBODY = "no such session"


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(7) as simulation:
        yield simulation


@pytest.fixture
def server(simulation: Simulation) -> Server:
    return Server(simulation)


def code(answer: dict[str, Any]) -> int | None:
    """The code of an error, None for a result."""
    number: int | None = answer.get("error", {}).get("code")
    return number


# -- resumes ----------------------------------------------------------------------------------------------------------


def test_a_resume_right_after_a_cut_succeeds(simulation: Simulation, server: Server) -> None:
    """Lost: everything that runs, at each short break of a network."""
    old = server.session()
    old.transport.cut()
    new = server.session(old.session_id)
    assert new.session_id == old.session_id


def test_a_living_connection_keeps_its_session(simulation: Simulation, server: Server) -> None:
    """Lost: the session of a client whose id somebody else uses by mistake."""
    old = server.session()
    new = server.session(old.session_id)
    assert code(new.answer(1)) == ATTACHED
    assert not old.transport.closed


def test_a_silent_connection_is_asked_for_two_seconds(simulation: Simulation, server: Server) -> None:
    """Lost: the session of a client that changed networks, until the old connection is noticed to be dead."""
    old = server.session()
    old.transport.go_silent()
    new = server.session(old.session_id)
    simulation.advance(1.9)
    assert new.answers(1) == []
    simulation.advance(0.2)
    assert new.session_id == old.session_id
    assert old.transport.close_code == 1001


def test_a_connection_that_answers_late_keeps_its_session(simulation: Simulation, server: Server) -> None:
    """Lost: the session of a client on a slow path."""
    old = server.session()
    old.transport.go_silent()
    new = server.session(old.session_id)
    simulation.advance(1.9)
    old.transport.wake_up()
    simulation.advance(10.0)
    assert code(new.answer(1)) == ATTACHED
    assert not old.transport.closed


def test_a_connection_that_closes_while_it_is_asked_gives_way_at_once(simulation: Simulation, server: Server) -> None:
    """Lost: two seconds, at each resume of a client that says goodbye late."""
    old = server.session()
    old.transport.go_silent()
    new = server.session(old.session_id)
    old.transport.cut()
    simulation.run_until_idle()
    assert new.session_id == old.session_id


def test_the_last_of_several_to_ask_gets_the_session(simulation: Simulation, server: Server) -> None:
    """Lost: the session of a client that connects again and again because its resume hangs on a dead path."""
    old = server.session()
    old.transport.go_silent()
    first = server.session(old.session_id)
    first.transport.go_silent()
    simulation.advance(1.0)
    second = server.session(old.session_id)
    simulation.advance(1.1)
    assert code(first.answer(1)) == ATTACHED
    assert second.session_id == old.session_id


def test_a_silent_connection_stays_if_nobody_wants_its_session_any_more(simulation: Simulation, server: Server) -> None:
    """Lost: a connection that was merely slow."""
    old = server.session()
    old.transport.go_silent()
    new = server.session(old.session_id)
    new.transport.cut()
    simulation.advance(10.0)
    assert not old.transport.closed


def test_a_session_lives_for_its_time_after_each_cut(simulation: Simulation, server: Server) -> None:
    """Lost: what ran, too early; or the memory and processes of clients that never come back."""
    client = server.session()
    for _ in range(2):
        client.transport.cut()
        simulation.advance(79.9)
        client = server.session(client.session_id)
    client.transport.cut()
    simulation.advance(80.1)
    assert code(server.session(client.session_id).answer(1)) == UNKNOWN


@pytest.mark.parametrize("wanted", [NOBODY, ""])
def test_an_unknown_session_can_be_asked_for_and_then_another(server: Server, wanted: str) -> None:
    """Lost: a connection, for one that tries an old id first."""
    client = server.connect()
    assert code(client.calls("initialize", clientName="x", resumeSessionId=wanted)) == UNKNOWN
    assert code(client.calls("initialize", clientName="x", resumeSessionId=None)) is None


def test_those_who_wait_for_a_session_that_ends_are_told_so(simulation: Simulation, server: Server) -> None:
    """Lost: a client that goes on asking for what is gone, because it heard that somebody holds it."""
    old = server.session(resumable=False)
    old.transport.go_silent()
    new = server.session(old.session_id)
    old.transport.cut()
    simulation.run_until_idle()
    assert code(new.answer(1)) == UNKNOWN


@pytest.mark.parametrize("when", range(6))
def test_a_cut_during_initialize_leaves_nothing(simulation: Simulation, server: Server, when: int) -> None:
    """Lost: memory, for good, for each client that gives up while it connects."""
    client = server.connect()
    client.asks("initialize", clientName="x", resumeSessionId=None)
    for _ in range(when):
        simulation.deliver_one()
    client.transport.cut()
    simulation.advance(80.1)
    assert simulation.live_actors == 1


def test_the_end_of_a_bridge_detaches_its_session(simulation: Simulation, server: Server) -> None:
    """Lost: a session that can neither be resumed nor expires."""
    client = server.session()
    simulation.tell(client.bridge, ActorExitRequest())
    simulation.run_until_idle()
    assert server.session(client.session_id).session_id == client.session_id


@pytest.mark.parametrize("kind", ["stdio", "seed-era"])
def test_a_session_that_cannot_be_resumed_ends_with_its_connection(
    simulation: Simulation, server: Server, kind: str
) -> None:
    """Lost: processes that nobody can reach any more."""
    client = server.connect(resumable=kind != "stdio")
    client.asks("initialize", clientName="x", **({"resumeSessionId": None} if kind == "stdio" else {}))
    client.notifies("initialized")
    client.starts("a", cwd="/")
    simulation.run_until_idle()
    client.transport.cut()
    simulation.run_until_idle()
    assert simulation.live_actors == 1


def test_a_shutdown_says_goodbye_to_all_and_ends_every_session(simulation: Simulation, server: Server) -> None:
    """Lost: clients that wait for a server which has gone, and children that nobody kills."""
    attached, detached, wanted = server.session(), server.session(), server.session()
    attached.starts("a")
    detached.transport.cut()
    wanted.transport.go_silent()
    contender = server.session(wanted.session_id)
    assert isinstance(simulation.ask(server.router, Shutdown()), ShutdownDone)
    assert [each.transport.close_code for each in (attached, wanted)] == [1001, 1001]
    assert code(contender.answer(1)) == -32603
    assert server.processes() == []
    assert code(server.connect().calls("initialize", clientName="x")) == -32603


# -- losses -----------------------------------------------------------------------------------------------------------


def test_the_loss_of_a_process_answers_what_it_had_to_answer(simulation: Simulation, server: Server) -> None:
    """Lost: a client that waits for ever for a request that a fault of the server swallowed."""
    client = server.session()
    client.starts("a")
    client.starts("b")
    simulation.run_until_idle()
    polls = [client.asks("process/read", processId=each, afterSeq=9, waitMs=60_000) for each in ("a", "b")]
    simulation.run_until_idle()
    lost, _ = server.processes()[0]
    simulation.instance(lost).dies_silently = True
    simulation.tell(lost, ActorExitRequest())
    late = client.asks("process/write", processId="a", chunk="", writeId="w")
    simulation.run_until_idle()
    error = client.answer(polls[0]).get("error", {})
    assert (error.get("code"), error.get("data")) in ((-32603, {"kind": "actorLost"}), (None, None))
    assert len(client.answers(late)) == 1
    assert client.answers(polls[1]) == [], "the other process goes on"


@pytest.mark.parametrize("exits_first", [False, True])
def test_a_process_that_is_lost_tells_its_last_events(
    simulation: Simulation, server: Server, exits_first: bool
) -> None:
    """Lost: the end of a process, for whoever waits for it, until the end of the session."""
    client, other = server.session(), server.session()
    client.starts("a")
    simulation.run_until_idle()
    other.calls("process/attach", processId="a", sessionId=client.session_id, **{"as": "seen"})
    server.tell_process(Prints(5))
    if exits_first:
        server.tell_process(Exits(3, False))
    lost, _ = server.processes()[0]
    simulation.instance(lost).dies_silently = True
    simulation.tell(lost, ActorExitRequest())
    simulation.run_until_idle()
    for each in (client, other):
        told = [frame for frame in each.frames if frame.get("method", "").startswith("process/")]
        assert [frame["method"] for frame in told] == ["process/output", "process/exited", "process/closed"]
        assert [frame["params"]["seq"] for frame in told] == [1, 2, 3]
        ended = told[1]["params"]
        expected = (3, None) if exits_first else (137, "SIGKILL")
        assert (ended["exitCode"], ended["signal"]) == expected
    simulation.run_until_idle()
    assert simulation.instance(server.router).directory.get(client.session_id).last_seq == {}


def test_the_loss_of_a_session_answers_everything_and_closes(simulation: Simulation, server: Server) -> None:
    """Lost: as above, for all requests of a connection; and a connection that goes on with nobody behind it."""
    client = server.session()
    client.starts("a")
    simulation.run_until_idle()
    session = simulation.instance(server.router).directory.get(client.session_id)
    simulation.tell(session.connection, ActorExitRequest())
    asked = [client.asks("environment/status") for _ in range(3)]
    simulation.run_until_idle()
    for number in asked:
        answer = client.answer(number)
        assert "result" in answer or answer["error"]["data"] == {"kind": "actorLost"}
    assert client.transport.close_code == 1011
    assert code(server.session(client.session_id).answer(1)) == UNKNOWN


# -- process ids ------------------------------------------------------------------------------------------------------


def test_an_id_is_free_again_when_its_record_goes(simulation: Simulation, server: Server) -> None:
    """Lost: the record of a finished process too early, or its id for good."""
    client = server.session()
    client.starts("a")
    simulation.run_until_idle()
    server.tell_process(Exits(0, True))
    simulation.advance(79.9)
    assert code(client.calls("process/read", processId="a")) is None
    again = client.starts("a")
    simulation.run_until_idle()
    assert client.answer(again)["error"]["message"] == "process a already exists"
    simulation.advance(0.2)
    assert client.calls("process/read", processId="a")["error"]["message"] == "unknown process id a"
    again = client.starts("a")
    simulation.run_until_idle()
    assert code(client.answer(again)) is None
    assert len(server.processes()) == 1


def test_background_jobs_outlive_the_record_of_their_command(simulation: Simulation, server: Server) -> None:
    """Lost: a server that a command started in the background, 80 s later; or, at the session's end, its trace."""
    client = server.session()
    client.starts("a", "jobs")
    simulation.run_until_idle()
    server.tell_process(Exits(0, True))
    simulation.advance(81.0)
    client.starts("a", "jobs")
    simulation.run_until_idle()
    assert [process.forgotten for _, process in server.processes()] == [True, False]
    server.tell_process(JobsEnd(), index=0)
    assert [process.forgotten for _, process in server.processes()] == [False]
    server.tell_process(Exits(0, True))
    simulation.advance(81.0)
    client.transport.cut()
    simulation.advance(81.0)
    assert simulation.live_actors == 1, "the jobs of an ended session are left alone"


# -- flow -------------------------------------------------------------------------------------------------------------


def test_a_slow_client_holds_its_own_processes_and_nobody_elses(simulation: Simulation) -> None:
    """Lost: the memory of the server to a client that does not read; or other clients' output."""
    server = Server(simulation, outbound_high_water=2000)
    slow, other = server.session(), server.session()
    for client, name in ((slow, "a"), (slow, "b"), (other, "c")):
        client.starts(name)
        simulation.run_until_idle()
    slow.transport.reading = False
    server.tell_process(Prints(3000), index=0)
    server.tell_process(Prints(3000), index=1)
    assert [process.held for _, process in server.processes()] == [True, True, False]
    slow.starts("d")
    simulation.run_until_idle()
    assert len(server.processes()) == 3, "no further request is taken"
    slow.transport.wake_up()
    simulation.run_until_idle()
    assert [process.held for _, process in server.processes()] == [False] * 4


class InTurn(random.Random):
    """The order of the engine: whoever has had mail for longest."""

    def randrange(self, *_: Any) -> int:
        return 0


def test_what_was_held_is_released_in_turns() -> None:
    """Lost: the bound on memory, were a thousand held processes to print at once when the client has read.

    Four are told to go on, and four more before it is known that those were enough.
    """
    with Simulation(InTurn()) as simulation:
        server = Server(simulation, outbound_high_water=2000)
        client = server.session()
        for number in range(40):
            client.starts(f"p{number}")
        simulation.run_until_idle()
        client.transport.reading = False
        server.tell_process(Prints(3000), index=0)
        for index in range(40):
            server.tell_process(Prints(3000), index=index)
        bridge, most = simulation.instance(client.bridge), 0
        for _ in range(100):
            client.transport.client_reads()
            while simulation.deliver_one():
                most = max(most, bridge._outbox._queued())
        assert most <= 2000 + 2 * RELEASED_AT_ONCE * 4300
        assert not any(process.held for _, process in server.processes())
        assert sum(method == "process/output" for method, _ in client.events()) == 41


def test_a_cut_releases_what_was_held(simulation: Simulation) -> None:
    """Lost: a command that stands still because somebody who read too slowly is gone."""
    server = Server(simulation, outbound_high_water=2000)
    client = server.session()
    client.starts("a")
    simulation.run_until_idle()
    client.transport.reading = False
    server.tell_process(Prints(3000))
    assert server.processes()[0][1].held
    client.transport.cut()
    simulation.run_until_idle()
    assert not server.processes()[0][1].held
