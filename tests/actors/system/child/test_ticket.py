"""Spawning in a thread: nothing is lost, and nothing is left, whenever the ticket is used or abandoned."""

from __future__ import annotations

import os
import selectors
import threading
from pathlib import Path

import pytest

from actors.system import launch as launch_module
from actors.system.child.table import CHILDREN
from actors.system.launch import LaunchRequest, launch_soon
from actors.system.pool import LANE_SIZE
from protocol.errors import SpawnError
from tests.actors.system.child.support import end, eventually, output_of, read_all, readable, request, wait_exit


def test_the_ticket_becomes_readable_and_has_the_child() -> None:
    ticket = launch_soon(request("echo", "hello"))
    with selectors.DefaultSelector() as selector:
        selector.register(ticket.fileno(), selectors.EVENT_READ)
        assert selector.select(20)
        selector.unregister(ticket.fileno())
    child = ticket.result()
    assert ticket.fileno() == -1
    assert child.stdout is not None
    assert read_all(child.stdout) == b"hello\n"
    wait_exit(child)
    child.release()
    ticket.abandon()  # too late, and harmless
    with pytest.raises(RuntimeError):
        ticket.result()


def test_a_failure_is_told_by_the_ticket() -> None:
    ticket = launch_soon(request("/no/such/program"))
    assert readable(ticket.fileno())
    with pytest.raises(SpawnError, match="No such file"):
        ticket.result()


def test_a_fault_of_ours_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start without an answer would wait for ever."""

    def broken(_: LaunchRequest) -> None:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(launch_module, "launch", broken)
    ticket = launch_soon(request("true"))
    assert readable(ticket.fileno())
    with pytest.raises(SpawnError, match="a fault"):
        ticket.result()


def test_a_ticket_that_is_abandoned_when_it_is_over() -> None:
    """The session ended just then: its child must not run on."""
    ticket = launch_soon(request("sleep", "1000"))
    assert readable(ticket.fileno())
    (child,) = CHILDREN.commands()
    ticket.abandon()
    ticket.abandon()
    assert ticket.fileno() == -1
    eventually(lambda: child.status is not None, "the child was not reaped")
    assert child.status == (137, 9)


def test_a_ticket_that_is_abandoned_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()
    really_spawn = launch_module.launch
    children = []

    def slowly(asked: LaunchRequest) -> object:
        begun.set()
        assert go_on.wait(20)
        children.append(really_spawn(asked))
        return children[0]

    monkeypatch.setattr(launch_module, "launch", slowly)
    ticket = launch_soon(request("sleep", "1000", tty=True))
    assert begun.wait(20)
    with pytest.raises(RuntimeError):
        ticket.result()
    ticket.abandon()
    go_on.set()
    eventually(lambda: children and children[0].status is not None, "the child was not reaped")


def test_a_ticket_that_is_abandoned_before_it_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is started at all."""
    go_on = threading.Event()
    really_spawn = launch_module.launch

    def slowly(asked: LaunchRequest) -> object:
        assert go_on.wait(20)
        return really_spawn(asked)

    monkeypatch.setattr(launch_module, "launch", slowly)
    before = [launch_soon(request("true", lane="a")) for _ in range(LANE_SIZE)]
    waiting = launch_soon(request("touch", str(tmp_path / "started"), lane="a"))
    after = launch_soon(request("true", lane="a"))
    waiting.abandon()
    go_on.set()
    for ticket in (*before, after):
        assert readable(ticket.fileno())
        end(ticket.result())
    assert os.listdir(tmp_path) == []


def test_many_at_once() -> None:
    tickets = [launch_soon(request("true", tty=number % 2 == 0)) for number in range(100)]
    for ticket in tickets:
        assert readable(ticket.fileno())
        end(ticket.result())


def test_a_forked_process_has_threads_and_a_table_of_its_own() -> None:
    """Thespian's own engine forks its actors; a lock or thread of the parent would hang the first start."""
    lines = output_of(
        "first = launch_soon(request('sleep', '1000'))\n"
        "assert readable(first.fileno())\n"
        "CHILDREN.lock.acquire()\n"
        "pid = os.fork()\n"
        "if not pid:\n"
        "    assert len(CHILDREN) == 0\n"
        "    ticket = launch_soon(request('sh', '-c', 'exit 9'))\n"
        "    assert readable(ticket.fileno())\n"
        "    os._exit(wait_exit(ticket.result()).code)\n"
        "CHILDREN.lock.release()\n"
        "say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
        "end(first.result())\n"
    )
    assert lines == ["9"]
