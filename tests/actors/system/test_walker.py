"""What is found of a killed server's processes, whatever they do meanwhile. No processes are needed to tell."""

from __future__ import annotations

import signal

import pytest

from actors.system.programs import walker
from actors.system.programs.walker import Process, Walker


def test_the_child_of_a_fork_that_a_stop_came_into_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost: the machine, to a fork bomb of a killed server: the one that was not found makes all the others anew."""
    monkeypatch.setattr(walker, "PAUSE_S", 0.0)
    bomb, child, other = 10, 11, 12
    running, stopped = Process(bomb, 1, bomb, False), Process(bomb, 1, bomb, True)
    tables = iter(
        [
            [running],  # is stopped, but in a fork just now
            [running],
            [running],
            [stopped, Process(child, 1, bomb, False), Process(other, 1, other, False)],
            [stopped, Process(child, 1, bomb, True), Process(other, 1, other, False)],
            [stopped, Process(child, 1, bomb, True), Process(other, 1, other, False)],
        ]
    )
    sent: list[tuple[int, int]] = []
    walking = Walker({99}, lambda pid: pid in (bomb, child), lambda pid, number: sent.append((pid, number)))
    walking.find(lambda: next(tables))
    walking.kill()
    stop, kill = signal.SIGSTOP, signal.SIGKILL
    assert sent == [(bomb, stop), (child, stop), (bomb, kill), (child, kill), (-99, kill)]


def test_one_that_cannot_be_stopped_does_not_keep_the_others_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost: the end of all the rest, to one that waits for a disk."""
    monkeypatch.setattr(walker, "PAUSE_S", 0.0)
    sent: list[tuple[int, int]] = []
    walking = Walker({7}, lambda pid: False, lambda pid, number: sent.append((pid, number)))
    walking.find(lambda: [Process(7, 1, 7, False), Process(8, 7, 8, True)])
    walking.kill()
    assert set(sent[:2]) == {(7, signal.SIGSTOP), (8, signal.SIGSTOP)} and (8, signal.SIGKILL) in sent[2:]
