"""How much of its input a child is given at a time (actors.process.child_input)."""

from __future__ import annotations

from typing import Any, cast

from actors.base.messages import Answer
from actors.process.child_input import PUSHED_A_TURN, ChildInput
from actors.process.child_poller import ChildPoller
from actors.process.stdin import Write

PIPE = 64 * 1024


class GreedyChild:
    """Takes a pipe's content as fast as it comes."""

    has_input = True

    def __init__(self) -> None:
        self.taken = 0
        self.room_wanted = False

    def write(self, data: memoryview) -> int:
        count = min(len(data), PIPE)
        self.taken += count
        return count

    def want_room(self, wanted: bool) -> None:
        self.room_wanted = wanted


def test_a_child_that_takes_all_at_once_is_not_given_all_at_once() -> None:
    """Lost: the turn of every other client, while one with a fast child writes megabytes."""
    child = GreedyChild()
    answers: list[Any] = []
    input = ChildInput(cast(ChildPoller, child), 1 << 20, lambda bridge, answer: answers.append(answer))
    input.offer(Write(1, "bridge", None, bytes(PUSHED_A_TURN * 2 + 1)))
    pushes = 1
    while child.room_wanted:
        assert child.taken <= pushes * PUSHED_A_TURN
        input.push()
        pushes += 1
    assert (child.taken, pushes) == (PUSHED_A_TURN * 2 + 1, 3)
    assert [type(answer) for answer in answers] == [Answer]
