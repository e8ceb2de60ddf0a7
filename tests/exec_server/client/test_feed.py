"""Events of a process that come over connections that break: in order, each once, and gaps that are exact."""

from __future__ import annotations

from collections import deque

from hypothesis import example, given
from hypothesis import strategies as st

from exec_server.client.events import Closed, Event, Exited, Gap, Output
from exec_server.client.feed import Feed
from protocol.output_log import SMALL, OutputLog
from protocol.process import (
    ProcessClosed,
    ProcessExited,
    ProcessNotification,
    ProcessOutput,
    ProcessReadResult,
)
from tests.support.examples import examples

ACTIONS = ("print", "print", "print", "exit", "close", "cut", "resume", "hear", "hear", "ask", "answer")


class World:
    """One process with the log of a real server, what is under way to the client, and what the client was told."""

    def __init__(self, capacity: int, page: int) -> None:
        self.log = OutputLog(capacity)
        self.page = page
        self.feed = Feed("p")
        self.connected = True
        self.exited = self.closed = False
        self.notifications: deque[ProcessNotification] = deque()
        self.answers: deque[ProcessReadResult] = deque()
        self.asked = False
        self.told: list[Event] = []

    def act(self, action: str) -> None:
        getattr(self, "do_" + action)()
        if self.feed.behind is False:
            assert not self.answers or self.asked

    def notify(self, notification: ProcessNotification) -> None:
        if self.connected:
            self.notifications.append(notification)

    def do_print(self) -> None:
        if not self.closed:
            size = SMALL + self.log.next_seq % 7
            start = self.log.total_bytes
            chunk = self.log.append("stdout", bytes((start + n) % 251 for n in range(size)))
            self.notify(ProcessOutput.of("p", chunk))

    def do_exit(self) -> None:
        if not self.exited:
            self.exited = True
            self.notify(ProcessExited(process_id="p", seq=self.log.take_seq(), exit_code=3))

    def do_close(self) -> None:
        if self.exited and not self.closed:
            self.closed = True
            self.notify(ProcessClosed(process_id="p", seq=self.log.take_seq()))

    def do_cut(self) -> None:
        self.connected = self.asked = False
        self.notifications.clear()
        self.answers.clear()
        self.feed.lose_connection()

    def do_resume(self) -> None:
        self.connected = True

    def do_hear(self) -> None:
        if self.notifications:
            self.told += self.feed.notified(self.notifications.popleft())

    def do_ask(self) -> None:
        if self.connected and self.feed.behind and not self.asked:
            self.asked = True
            chunks, next_seq = self.log.read(self.feed.last_seq, self.page)
            code = 3 if self.exited else None
            self.answers.append(
                ProcessReadResult(
                    chunks, next_seq, self.exited, code, self.closed, evicted_bytes=self.log.evicted_bytes
                )
            )

    def do_answer(self) -> None:
        if self.answers:
            self.asked = False
            self.told += self.feed.read(self.answers.popleft())

    def settle(self) -> None:
        """Nothing more happens to the process or the network."""
        self.do_resume()
        for _ in range(10_000):
            if not (self.feed.behind or self.notifications or self.answers):
                return
            for action in ("ask", "answer", "hear"):
                self.act(action)
        raise AssertionError("it reads for ever")

    def check(self) -> None:
        """What was told is the truth."""
        at, kinds = 0, [type(event) for event in self.told]
        for event in self.told:
            if isinstance(event, Output):
                assert event.offset == at
                assert event.data == bytes((at + n) % 251 for n in range(len(event.data)))
                at += len(event.data)
            elif isinstance(event, Gap):
                assert event.size > 0
                assert event.from_seq <= event.to_seq
                at += event.size
            elif isinstance(event, Exited):
                assert event.status == 3
        assert at == self.log.total_bytes
        assert kinds.count(Exited) == self.exited
        assert kinds.count(Closed) == self.closed
        assert not self.closed or kinds[-1] is Closed
        assert Gap not in kinds or self.log.evicted_bytes


def play(actions: list[str], capacity: int, page: int) -> World:
    world = World(capacity, page)
    for action in actions:
        world.act(action)
    world.settle()
    world.check()
    return world


@given(st.lists(st.sampled_from(ACTIONS), max_size=60), st.sampled_from([1, 3, 100]), st.sampled_from([1, 2, 100]))
@example(["print", "hear", "cut", "exit", "print", "resume", "print", "ask", "hear", "answer"], 100, 100)
@example(["cut", "print", "print", "exit", "close", "resume"], 1, 1)
@example(["cut", "print", "print", "exit", "print", "print", "resume", "print", "ask", "hear", "answer"], 3, 1)
@example(["cut", "exit", "print", "print", "resume", "ask", "answer", "close", "hear"], 1, 100)
@example(["exit", "cut", "print", "resume", "close"], 1, 1)
@examples(500)
def test_every_event_is_told_once_or_is_in_a_gap(actions: list[str], chunks: int, pages: int) -> None:
    """Lost: output, or trust in what is told to be missing."""
    play(actions, chunks * (SMALL + 7), pages * (SMALL + 7))


def test_gaps_can_be_seen_to_fail() -> None:
    """The world above evicts."""
    world = play(["print", "hear", "cut", "print", "print", "print", "resume"], SMALL + 7, 100)
    assert [type(event) for event in world.told] == [Output, Gap, Output]


def test_a_server_that_skips_a_number_is_asked_for_it() -> None:
    """Lost: output that another server left out of its notifications without a word."""
    world = World(1 << 20, 1 << 20)
    for _ in range(3):
        world.do_print()
    del world.notifications[1]
    world.do_hear()
    world.do_hear()
    assert world.feed.behind
    world.settle()
    world.check()
