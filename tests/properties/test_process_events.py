"""What a client hears of a process, whatever its child does and in whatever order: real children, led by commands."""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.base.messages import (
    BridgeDetached,
    ProcessStarted,
)
from protocol.process import (
    ProcessClosed,
    ProcessExited,
    ProcessOutput,
    ProcessReadResult,
)
from tests.support.examples import examples
from tests.support.lone_process import Process, notifications, run_process
from tests.support.random_printer import printed
from tests.support.scripted import SCRIPTED_CHILD, ScriptedChildren

PRINTS_AT_RANDOM = Path(__file__).parents[1] / "support" / "random_printer.py"

# -- any interleaving -------------------------------------------------------------------------------------------------

WRITE = st.tuples(st.just("write"), st.integers(0, 3), st.sampled_from("oe"), st.integers(1, 3000))
CLOSE = st.tuples(st.just("close"), st.integers(0, 3), st.sampled_from("oe"))
STEPS = st.one_of(
    WRITE,
    WRITE,
    CLOSE,
    st.tuples(st.just("fork"), st.integers(0, 3)),
    st.tuples(st.just("exit"), st.integers(0, 3), st.sampled_from((0, 3, 255))),
    st.sampled_from([("hold",), ("release",), ("detach",), ("settle",), ("turn",)]),
)
SCRIPTS = st.lists(STEPS, max_size=12)


def play(script: list[tuple[Any, ...]], tty: bool, held: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/commands"
        argv = [sys.executable, "-I", "-S", str(SCRIPTED_CHILD), path]

        async def scenario(process: Process) -> None:
            async with ScriptedChildren(path) as children:
                await children.arrive()
                streams = {"o": "pty", "e": "pty"} if tty else {"o": "stdout", "e": "stderr"}
                run = Run(process, children, streams)
                for name, *arguments in script:
                    await getattr(run, name)(*arguments)
                await run.finish()
                run.judge()

        run_process(scenario, argv, tty=tty, held=held)


class Run:
    """One script: what the child was told to do, and what must follow from it."""

    def __init__(self, process: Process, children: ScriptedChildren, streams: dict[str, str]) -> None:
        self.process = process
        self.children = children
        self.streams = streams
        self.written: dict[str, bytes] = dict.fromkeys(streams.values(), b"")
        self.before_exit: dict[str, bytes] | None = None
        self.exit_code = 0
        self.told_while_held = self._told()
        self._serial = 0

    async def write(self, who: int, stream: str, size: int) -> None:
        child = self.children.pick(who)
        if child is not None and stream in child.open:
            self._serial += 1
            data = f"<{self._serial}:{stream}>".encode().ljust(size, b".")
            await child.does(f"{stream} {len(data)}", data)
            self.written[self.streams[stream]] += data

    async def close(self, who: int, stream: str) -> None:
        child = self.children.pick(who)
        if child is not None and stream in child.open:
            await child.does(stream.upper())
            child.open.discard(stream)

    async def fork(self, who: int) -> None:
        child = self.children.pick(who)
        # On a terminal a fork would be hung up on when the leader ends, whenever that comes.
        if child is not None and "pty" not in self.written:
            await child.does("F")
            await self.children.arrive(set(child.open))

    async def exit(self, who: int, code: int) -> None:
        child = self.children.pick(who)
        if child is None:
            return
        if child is self.children.first:
            self.exit_code = code
            # While output is held an exit may be told before it.
            self.before_exit = None if self.process.held else dict(self.written)
        await self.children.end(child, code)

    async def hold(self) -> None:
        await self.process.hold()
        self.before_exit = None
        self.told_while_held = self._told()

    async def release(self) -> None:
        if not self.process.held:
            return
        await self.process.read(0, 0)
        assert self._told() == self.told_while_held, "output was told while it was held"
        assert {**self._nothing(), **await self.process.release()} == self.written, (
            "released, but what was there has not been told"
        )

    def _nothing(self) -> dict[str, bytes]:
        return dict.fromkeys(self.written, b"")

    def _told(self) -> dict[str, bytes]:
        return {name: self.process.told(name) for name in self.written}

    async def detach(self) -> None:
        self.process.tell(BridgeDetached(self.process.probe.address))

    async def turn(self) -> None:
        await asyncio.sleep(0)

    async def settle(self) -> None:
        """Until all that was written has been told, unless it is held."""
        if not self.process.held:
            await self.process.probe.until(self._all_told, "everything that was written is told")

    def _all_told(self) -> bool:
        return all(self.process.told(name) == data for name, data in self.written.items())

    async def finish(self) -> None:
        await self.release()
        for child in list(self.children.living):
            await self.exit(self.children.living.index(child), 0)
        await self.process.closed()

    def judge(self) -> None:
        messages = self.process.probe.messages
        assert isinstance(messages[0], ProcessStarted), "the answer to start comes first"
        events = self.process.events
        assert [each.seq for each in events] == list(range(1, len(events) + 1))
        exited = [each for each in events if isinstance(each, ProcessExited)]
        assert [each.exit_code for each in exited] == [self.exit_code]
        assert [each for each in events if isinstance(each, ProcessClosed)] == [events[-1]]
        outputs = [each for each in events if isinstance(each, ProcessOutput)]
        for name, data in self.written.items():
            assert b"".join(each.chunk for each in outputs if each.stream == name) == data
            if self.before_exit is not None:
                early = b"".join(each.chunk for each in outputs if each.stream == name and each.seq < exited[0].seq)
                assert early.startswith(self.before_exit[name]), "output from before the exit was told after it"
        offset = 0
        for each in outputs:
            assert each.offset == offset
            offset += len(each.chunk)


@examples(50)
@given(SCRIPTS, st.booleans(), st.booleans())
def test_events_are_in_order_and_whole_whatever_the_child_does(script: Any, tty: bool, held: bool) -> None:
    """Numbers 1, 2, 3 without a hole, the answer to start first, exited once, closed last, every byte once."""
    play(script, tty, held)


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(max_examples=600)
@given(st.lists(STEPS, max_size=14), st.booleans(), st.booleans())
def test_events_are_in_order_and_whole_in_many_more_orders(script: Any, tty: bool, held: bool) -> None:
    """As above."""
    play(script, tty, held)


# -- a child that prints at random ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_reads_agree_with_events_while_a_child_prints_at_random(seed: int) -> None:
    """Lost: what a client that was away reads is not what it would have heard, or is gone without being counted."""
    print_and_read(seed)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_reads_agree_with_events_of_many_more_children() -> None:
    """As above; a failure says for which seed."""
    for seed in range(100, 300):
        try:
            print_and_read(seed)
        except AssertionError as error:
            raise AssertionError(f"print_and_read({seed}): {error}") from error


def print_and_read(seed: int) -> None:
    chance = random.Random(seed)
    retained = chance.choice((0, 600, 5000, 40_000, 1 << 20))
    argv = [sys.executable, "-I", "-S", str(PRINTS_AT_RANDOM), str(seed), "150"]

    async def scenario(process: Process) -> None:
        while not process.is_closed:
            seen = len(process.probe.messages)
            if chance.random() < 0.2:
                await (process.release() if process.held else process.hold())
            after = chance.choice((0, chance.randrange(0, len(process.events) + 2)))
            limit = chance.choice((None, 0, 1, 900, 100_000))
            judge_read(process, await process.read(after, limit), after, limit, retained)
            if process.held:
                await process.release()
            await process.probe.until(
                lambda seen=seen: len(process.probe.messages) > seen + 1 or process.is_closed, "more"
            )
        judge_read(process, await process.read(0), 0, None, retained)
        by_stream = {name: process.told(name) for name in ("stdout", "stderr")}
        assert by_stream == expected_output(seed)

    run_process(scenario, argv, tty=False, retained=retained)


def judge_read(process: Process, result: ProcessReadResult, after: int, limit: int | None, retained: int) -> None:
    """The answer came after the events that were told before it, and before all later ones."""
    place = next(i for i, each in enumerate(process.probe.messages) if getattr(each, "result", None) is result)
    before = notifications(process.probe.messages[:place])
    outputs = [each for each in before if isinstance(each, ProcessOutput)]
    first = result.first_retained_seq
    kept = [each for each in outputs if first is not None and each.seq >= first]
    assert sum(len(each.chunk) for each in outputs) == result.evicted_bytes + sum(len(each.chunk) for each in kept)
    assert sum(len(each.chunk) for each in kept) <= retained
    assert result.first_retained_offset == (kept[0].offset if kept else None)
    wanted = [each for each in kept if each.seq > after]
    given_ = [(each.seq, each.stream, each.offset, each.chunk) for each in result.chunks]
    assert given_ == [(each.seq, each.stream, each.offset, each.chunk) for each in wanted[: len(given_)]]
    total = sum(len(each.chunk) for each in result.chunks)
    if len(given_) < len(wanted):
        assert limit is not None and total + len(wanted[len(given_)].chunk) > limit, "left out, although it fits"
        assert result.next_seq == result.chunks[-1].seq + 1
    else:
        assert result.next_seq == len(before) + 1
    assert limit is None or total <= limit or len(given_) == 1
    assert result.exited == any(isinstance(each, ProcessExited) for each in before)
    assert result.closed == any(isinstance(each, ProcessClosed) for each in before)


def expected_output(seed: int) -> dict[str, bytes]:
    """What `random_printer.py SEED 150` writes, by stream."""
    written = {"stdout": b"", "stderr": b""}
    for name, data, _ in printed(seed, 150):
        written[name] += data
    return written
