"""BridgeActor: the bounds of one connection, the end of its input, and one answer for every request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.sessions import Client, Server
from tests.support.simulated_process import Prints, Reads
from tests.support.simulation import Simulation
from transport.bridge import TAKEN_BYTES

BUSY = {"kind": "busy"}


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(11) as simulation:
        yield simulation


def started(server: Server, **transport: Any) -> Client:
    """A client with one process, `a`."""
    client = server.session(**transport)
    client.starts("a")
    server.simulation.run_until_idle()
    return client


def polls(client: Client, wait_ms: int = 60_000) -> int:
    return client.asks("process/read", processId="a", afterSeq=99, waitMs=wait_ms)


@pytest.mark.parametrize("bound", [1, 3])
@pytest.mark.parametrize("method", ["environment/status", "process/terminate", "process/read"])
def test_more_requests_than_may_be_out_are_all_answered(simulation: Simulation, bound: int, method: str) -> None:
    """Lost: everything behind the bound, for a client that pipelines and then waits."""
    client = started(Server(simulation, max_pending_requests=bound))
    params = {} if method == "environment/status" else {"processId": "a"}
    asked = [client.asks(method, **params) for _ in range(40)]
    simulation.run_until_idle()
    assert [len(client.answers(number)) for number in asked] == [1] * 40


def test_no_more_requests_are_taken_than_may_be_out(simulation: Simulation) -> None:
    """Lost: the server's memory to one client that pipelines without end."""
    client = started(Server(simulation, max_pending_requests=3))
    waiting = [polls(client) for _ in range(5)]
    simulation.run_until_idle()
    assert client.transport.untaken == 2
    simulation.advance(60.0)
    simulation.advance(60.0)
    assert [len(client.answers(number)) for number in waiting] == [1] * 5


def test_reads_that_may_bring_much_are_taken_a_few_at_a_time(simulation: Simulation) -> None:
    """Lost: the server's memory to ten thousand pipelined reads of all that is retained."""
    client = started(Server(simulation))
    for _ in range(30):
        client.asks("process/read", processId="a")
    most = 0
    while simulation.deliver_one():
        out = len(simulation.instance(client.bridge)._pending)
        most = max(most, out)
    assert 0 < most <= 8
    assert len([frame for frame in client.frames if "chunks" in frame.get("result", {})]) == 30


def test_large_messages_are_taken_a_few_at_a_time(simulation: Simulation) -> None:
    """Lost: the turn of every other client, while one sends writes of megabytes."""
    client = started(Server(simulation))
    asked = [
        client.asks("process/write", processId="a", chunk="A" * (TAKEN_BYTES // 2), writeId=f"w{number}")
        for number in range(9)
    ]
    before = client.transport.untaken
    while simulation.deliver_one():
        assert before - client.transport.untaken <= 2
        before = client.transport.untaken
    assert [client.answer(number)["result"]["status"] for number in asked] == ["accepted"] * 9


def test_writes_that_a_child_does_not_read_are_refused_above_a_bound(simulation: Simulation) -> None:
    """Lost: the server's memory to a client that writes to a child which never reads; or all its other requests."""
    server = Server(simulation, max_pending_bytes=1000)
    client = started(server)
    server.tell_process(Reads(False))

    def write(size: int) -> int:
        number = client.asks("process/write", processId="a", chunk="AAAA" * (size // 3), writeId=f"w{client._asked}")
        simulation.run_until_idle()
        return number

    first, second = write(900), write(300)
    assert client.answers(first) == []
    assert client.answer(second)["error"]["data"] == BUSY
    assert client.calls("environment/status")["result"] == {"status": "ready"}
    server.tell_process(Reads(True))
    assert client.answer(first)["result"]["status"] == "accepted"
    larger = write(3000)  # one alone is taken, whatever its size
    assert client.answer(larger)["result"]["status"] == "accepted"


def test_a_wait_ends_with_its_connection(simulation: Simulation) -> None:
    """Lost: memory for the waits of clients that are gone, for up to a day each."""
    server = Server(simulation)
    client = started(server)
    polls(client, wait_ms=86_400_000)
    client.asks("process/wait", processId="a")
    simulation.run_until_idle()
    assert server.processes()[0][1].waits_for(client.bridge)
    client.transport.cut()
    simulation.run_until_idle()
    assert not server.processes()[0][1].waits_for(client.bridge)


def test_the_end_of_the_input_ends_the_waits(simulation: Simulation) -> None:
    """Lost: the answers of a script that pipes its requests in and reads until the end."""
    server = Server(simulation)
    client = started(server, resumable=False)
    server.tell_process(Reads(False))
    poll = polls(client)
    write = client.asks("process/write", processId="a", chunk="AAAA", writeId="w")
    status = client.asks("environment/status")
    client.transport.end_input()
    simulation.run_until_idle()
    assert client.answer(poll)["result"]["chunks"] == []
    assert client.answer(write)["error"]["code"] == -32603
    assert client.answer(status)["result"] == {"status": "ready"}
    assert client.transport.close_code == 1000
    assert simulation.live_actors == 1


def test_the_end_of_the_input_ends_waits_in_other_sessions(simulation: Simulation) -> None:
    """Lost: the same, for whoever watches somebody else's process."""
    server = Server(simulation)
    other = started(server)
    client = server.session(resumable=False)
    client.asks("process/attach", sessionId=other.session_id, processId="a", **{"as": "seen"})
    watched = client.asks("process/read", processId="seen", afterSeq=99, waitMs=60_000)
    named = client.asks("process/wait", sessionId=other.session_id, processId="a")
    client.transport.end_input()
    simulation.run_until_idle()
    assert client.answer(watched)["result"]["exited"] is False
    assert client.answer(named)["result"]["exited"] is False
    assert client.transport.close_code == 1000


def test_a_client_that_does_not_read_after_its_input_is_given_five_seconds(simulation: Simulation) -> None:
    """Lost: a server on stdio that never ends because nobody reads what it says."""
    server = Server(simulation, outbound_high_water=1000)
    client = started(server, resumable=False)
    client.transport.reading = False
    server.tell_process(Prints(3000))
    client.transport.end_input()
    simulation.advance(4.9)
    assert not client.transport.ended
    simulation.advance(0.2)
    assert client.transport.ended
    assert simulation.live_actors == 1


def test_requests_that_arrived_before_a_cut_are_carried_out(simulation: Simulation) -> None:
    """Lost: the last words of a client that hangs up: a terminate, a write."""
    server = Server(simulation, max_pending_requests=1)
    client = server.session()
    client.starts("a")
    client.asks("process/terminate", processId="a")
    client.transport.cut()
    simulation.run_until_idle()
    assert [process.state for _, process in server.processes()] == ["closed"]


def test_what_a_client_pipelines_behind_initialize_waits_for_its_answer(simulation: Simulation) -> None:
    """Lost: the start of a client that does not wait for answers."""
    client = Server(simulation).connect()
    client.asks("initialize", clientName="x", resumeSessionId=None)
    client.notifies("initialized")
    start = client.starts("a")
    simulation.run_until_idle()
    assert client.answer(start)["result"]["processId"] == "a"
    assert [frame.get("id") for frame in client.frames] == [1, 2]


@pytest.mark.parametrize(
    ("method", "family"),
    [("process/read", "exec"), ("environment/info", "environment info"), ("environment/status", "environment status")],
)
def test_methods_before_the_handshake_say_what_is_missing(simulation: Simulation, method: str, family: str) -> None:
    """Lost: the hint that tells a client's author what to do."""
    client = Server(simulation).connect()
    params = {"processId": "a"} if family == "exec" else {}
    before = client.calls(method, **params)["error"]
    assert (before["code"], before["message"]) == (-32600, f"client must call initialize before using {family} methods")
    client.calls("initialize", clientName="x", resumeSessionId=None)
    between = client.calls(method, **params)["error"]
    assert between["message"] == f"client must send initialized before using {family} methods"
    client.notifies("initialized")
    again = client.calls("initialize", clientName="x", resumeSessionId=None)["error"]
    assert again["message"] == "initialize may only be sent once per connection"


def test_a_large_answer_waits_quietly_for_its_client(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost: a whole core of the server, for as long as one client does not read a large answer."""
    monkeypatch.setattr("transport.outbox.PIECEMEAL_ABOVE", 1000)
    server = Server(simulation, outbound_high_water=3000)
    client = started(server)
    server.tell_process(Prints(2000), Prints(2000))
    client.transport.reading = False
    first = [client.asks("process/read", processId="a") for _ in range(3)]
    simulation.run_until_idle(1000)
    client.asks("environment/status")
    simulation.run_until_idle(1000)
    assert client.transport.untaken == 1, "no further request is taken"
    client.transport.wake_up()
    simulation.run_until_idle(1000)
    assert [len(client.answer(number)["result"]["chunks"]) for number in first] == [2, 2, 2]
    assert client.transport.untaken == 0
    server.tell_process(Prints(80))
    assert client.events()[-1] == ("process/output", 3), "the process reads on"
