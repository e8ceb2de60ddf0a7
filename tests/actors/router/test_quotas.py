"""What a server's limits count: exactly what there is, whatever ends, and in whatever order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thespian.actors import ActorExitRequest

from actors.base.settings import Settings
from actors.router.actor import RouterActor
from actors.router.quotas import Quotas
from actors.system.limit_warnings import LimitWarnings
from protocol.errors import LimitReached
from tests.properties.session_world import ENVIRONMENT
from tests.support.sessions import Client, Server
from tests.support.simulated_process import Exits, Prints
from tests.support.simulation import Simulation

SETTINGS = Settings(environment=ENVIRONMENT, max_processes=4, retained_output_total=100, start_rate=1_000_000)
NAMES = st.sampled_from("ab")
STEPS = st.one_of(
    st.tuples(st.sampled_from(["begin", "over", "drop", "lose"]), NAMES, NAMES),
    st.tuples(st.just("keeps"), NAMES, NAMES, st.integers(0, 70)),
    st.tuples(st.just("keeps"), NAMES, NAMES, st.integers(0, 70), st.just(True)),
    st.tuples(st.just("end_session"), NAMES),
)


@given(st.lists(STEPS, max_size=60))
def test_totals_are_the_sums_of_what_there_is(steps: list[tuple[Any, ...]]) -> None:
    """Lost: room that nobody uses, a little with each process that ends in an unusual way."""
    totals = Quotas(SETTINGS)
    running: set[tuple[str, str]] = set()
    kept: dict[tuple[str, str], int] = {}
    finished: list[tuple[str, str]] = []
    for name, *facts in steps:
        key = (facts[0], facts[1]) if len(facts) > 1 else ("", "")
        if name == "begin" and key in running:
            continue  # an id that is in use
        try:
            doomed = getattr(totals, name)(*facts)
        except LimitReached:
            assert (name, len(running)) == ("begin", 4)
            continue
        if name == "begin":
            running.add(key)
        if name in ("over", "lose"):
            running.discard(key)
        if name in ("drop", "lose"):
            kept.pop(key, None)
            finished = [each for each in finished if each != key]
        if name == "keeps":
            kept[key] = facts[2]
            if len(facts) > 3 and key not in finished:
                finished.append(key)
            assert doomed == finished[: len(doomed)], "the oldest go first"
            for each in doomed:
                del kept[each]
            finished = finished[len(doomed) :]
            assert sum(kept.values()) <= 100 or not finished
        if name == "end_session":
            running = {each for each in running if each[0] != facts[0]}
            kept = {each: size for each, size in kept.items() if each[0] != facts[0]}
            finished = [each for each in finished if each[0] != facts[0]]
        assert (totals.running, totals.retained_bytes, totals.finished) == (
            len(running),
            sum(kept.values()),
            len(finished),
        )


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(7) as simulation:
        yield simulation


def totals_of(server: Server) -> Quotas:
    """What the router of a simulated server has counted."""
    cells = server.simulation.mail.cells.values()
    routers = [cell.instance for cell in cells if isinstance(cell.instance, RouterActor)]
    found: Quotas = routers[0].accounts.quotas
    return found


def start(client: Client, process_id: str) -> dict[str, Any]:
    number = client.starts(process_id)
    client._simulation.run_until_idle()
    return client.answer(number)


def test_a_lost_session_gives_back_what_it_had(simulation: Simulation) -> None:
    """Lost: room for good, with each actor that is lost."""
    server = Server(simulation, max_processes=3, max_sessions=2)
    lost, other = server.session(), server.session()
    for client, name in ((lost, "p"), (lost, "q"), (other, "p")):
        assert "result" in start(client, name)
    server.tell_process(Prints(1000), Exits(0, True), index=0)
    assert (totals_of(server).running, totals_of(server).finished) == (2, 1)
    cells = simulation.mail.cells.values()
    connection = next(cell.address for cell in cells if cell.class_name.endswith("ConnectionActor"))
    simulation.tell(connection, ActorExitRequest())
    simulation.run_until_idle()
    assert (totals_of(server).running, totals_of(server).retained_bytes) == (1, 0)
    third = server.session()
    assert "result" in start(third, "p") and "result" in start(third, "q")
    assert start(third, "r")["error"]["data"]["limit"] == "max_processes"


def test_a_lost_process_gives_its_place_back(simulation: Simulation) -> None:
    """Lost: room for good, with each actor that is lost."""
    server = Server(simulation, max_processes=1)
    client = server.session()
    start(client, "p")
    assert "error" in start(client, "q")
    simulation.tell(server.processes()[0][0], ActorExitRequest())
    simulation.run_until_idle()
    assert totals_of(server).running == 0
    assert "result" in start(client, "q")


def test_a_session_that_ends_gives_back_what_it_had(simulation: Simulation) -> None:
    """Lost: room for good, with each client that leaves."""
    server = Server(simulation, max_processes=1, max_sessions=1, session_ttl=5.0)
    start(server.session(), "p")
    assert server.connect().calls("initialize", clientName="x")["error"]["data"]["limit"] == "max_sessions"
    for cell in list(simulation.mail.cells.values()):
        if isinstance(cell.instance, RouterActor):
            for session in list(cell.instance.directory):
                cell.instance._end(session)
    simulation.run_until_idle()
    assert "result" in start(server.session(), "p")


def test_a_start_that_waits_for_its_answer_when_the_client_goes(simulation: Simulation) -> None:
    """Lost: a place, and a process that nobody knows of, if a connection is cut at the wrong moment."""
    server = Server(simulation, max_processes=1)
    client = server.session()
    client.starts("p")
    client.transport.cut()
    simulation.run_until_idle()
    again = server.session(client.session_id)
    assert [each["processId"] for each in again.calls("process/list")["result"]["processes"]] == ["p"]
    assert totals_of(server).running == 1


def test_a_limit_is_said_to_be_near_once_a_minute(simulation: Simulation, caplog: pytest.LogCaptureFixture) -> None:
    """Lost: the warning, or the log to thousands of them."""
    near = LimitWarnings()
    for used in (1, 79, 80, 81, 100):
        near.look("max_this", used, 100)
    near.look("max_that", 4, 5)
    assert [record.getMessage() for record in caplog.records] == [
        "max_this is near: 80 of 100 are in use",
        "max_that is near: 4 of 5 are in use",
    ]


def test_settings_that_change_hold_at_once() -> None:
    """Lost: a limit, until the next restart."""
    totals = Quotas(SETTINGS)
    totals.begin("a", "b")
    totals.reconfigure(msgspec.structs.replace(SETTINGS, max_processes=1))
    with pytest.raises(LimitReached):
        totals.begin("a", "c")
