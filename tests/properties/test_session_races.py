"""Races of the router, sessions and resumes, with the real actors under a virtual clock and a seeded order of messages.

What a failure prints runs the same again: `play(seed, script)`. Scripts that once failed are examples here, shrunken,
each with what a client lost by it.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.session_world import ACTIONS, UNTIL_IDLE, Script, Step, play, script_of
from tests.support.examples import examples

OPEN: Step = ("open", (0, 0), UNTIL_IDLE)

STEPS = st.one_of(
    [
        st.tuples(
            st.just(name),
            st.tuples(*(st.integers(0, limit - 1) for limit in limits)),
            st.sampled_from((UNTIL_IDLE, 0, 1, 2, 4, 7)),
        )
        for name, limits in ACTIONS.items()
    ]
)

ALL = UNTIL_IDLE
BURST = 6
"""Pipelined requests, more than the world's bridges take at once."""
START: Step = ("start", (0, 0, 1), ALL)
TWO_AND_A_PROCESS: Script = [OPEN, OPEN, START]
WATCHED: Script = [*TWO_AND_A_PROCESS, ("attach", (1, 1, 0, 0), ALL)]
"""The second client watches the process of the first."""
FOREVER = 4
"""As an argument of a read: it waits 90 s."""

ONCE_FAILED: dict[str, Script] = {
    "a cut before the answer to initialize left the new session attached for ever": [
        ("open", (0, 0), 0),
        ("cut", (0,), ALL),
    ],
    "the session of a lost bridge stayed attached for ever": [OPEN, ("lose_bridge", (0,), ALL)],
    "a contender of a session that ended was told that somebody holds it": [
        ("open", (2, 0), ALL),
        ("silence", (0,), ALL),
        ("violate", (0,), ALL),
        ("pause", (1,), ALL),
        ("resume", (0, 0, 0), ALL),
    ],
    "a silent client was cut off for a contender that had gone": [
        OPEN,
        ("silence", (0,), ALL),
        ("resume", (0, 0, 0), ALL),
        ("cut", (1,), ALL),
        ("pause", (5,), ALL),
    ],
    "a client with all its requests out was not heard again after the answers": [
        OPEN,
        ("start", (0, 0, 0), ALL),
        *[("status", (0,), 0)] * BURST,
        *[("terminate", (0, 0), 0)] * BURST,
    ],
    "the loss of a process failed the next start of its id, which then ran": [
        OPEN,
        ("start", (0, 0, 0), ALL),
        ("lose_process", (0,), 0),
        START,
    ],
    "the loss of a finished process left its deadline to the next one of its id": [
        OPEN,
        START,
        ("exit", (0, 1), ALL),
        ("lose_process", (0,), ALL),
        START,
        ("pause", (11,), ALL),
    ],
    "a read in a session that ended was never answered": [
        ("open", (2, 0), ALL),
        OPEN,
        ("start", (0, 0, 0), ALL),
        ("elsewhere", (1, 1, 0, FOREVER), ALL),
        ("cut", (0,), ALL),
    ],
    "an attach to a process that was lost was never answered": [
        OPEN,
        OPEN,
        ("start", (0, 0, 0), ALL),
        ("attach", (1, 1, 0, 0), ALL),
        ("lose_process", (0,), ALL),
    ],
    "a read of a watched process that was lost was never answered": [
        *WATCHED,
        ("lose_process", (0,), 0),
        ("observe", (1, 0, FOREVER), ALL),
    ],
    "a detach that overtook its attach left an attachment that nobody could end": [
        *TWO_AND_A_PROCESS,
        ("attach", (1, 1, 0, 0), 0),
        ("detach", (1, 0), ALL),
        ("print", (0, 0), ALL),
    ],
    "an attachment outlived its observer's connection": [*WATCHED, ("cut", (1,), ALL)],
    "an observer that had been skipped ahead was not told after it had caught up": [
        *WATCHED,
        ("stall", (1,), ALL),
        *[("print", (0, 3), ALL)] * 3,
        ("wake", (1,), ALL),
    ],
    "a read behind an attach that failed because the session ended was never answered": [
        ("open", (2, 0), ALL),
        OPEN,
        ("start", (0, 0, 0), ALL),
        ("attach", (1, 1, 0, 0), ALL),
        ("observe", (1, 0, FOREVER), ALL),
        ("cut", (0,), ALL),
    ],
    "a read under an id that was then detached was never answered when the session ended": [
        ("open", (2, 0), ALL),
        OPEN,
        ("start", (0, 0, 0), ALL),
        ("attach", (1, 1, 0, 0), ALL),
        ("observe", (1, 0, FOREVER), ALL),
        ("detach", (1, 0), ALL),
        ("cut", (0,), ALL),
    ],
    "an attachment to a finished process went over to the next one of its id": [
        *TWO_AND_A_PROCESS,
        ("exit", (0, 1), ALL),
        ("attach", (1, 1, 0, 2), ALL),
        ("pause", (11,), ALL),
        START,
        ("print", (0, 0), ALL),
    ],
    "the loss of a process failed an attach to another one of its id": [
        *TWO_AND_A_PROCESS,
        ("start", (1, 0, 1), ALL),
        ("lose_process", (1,), 0),
        ("attach", (1, 1, 0, 0), ALL),
        ("print", (0, 0), ALL),
    ],
    "a wait in another session stayed when the session of whoever asked was lost": [
        *TWO_AND_A_PROCESS,
        ("elsewhere", (1, 1, 0, FOREVER), ALL),
        ("lose_session", (0,), ALL),
    ],
    "a displaced client's long poll waited on in the session it had lost": [
        *TWO_AND_A_PROCESS,
        ("silence", (0,), ALL),
        ("resume", (1, 0, 0), ALL),
        ("tick", (), 0),
        ("read", (0, 0, FOREVER), 0),
        ("wake", (0,), ALL),
    ],
    "output stayed held after its slow client was cut off": [
        OPEN,
        START,
        ("stall", (0,), ALL),
        ("print", (0, 3), ALL),
        ("cut", (0,), ALL),
    ],
    "the books forgot that a process had ended": [
        OPEN,
        START,
        ("exit", (0, 1), ALL),
        ("pause", (11,), ALL),
        ("start", (0, 1, 1), ALL),
        ("stall", (0,), ALL),
        ("print", (0, 3), ALL),
    ],
    "a wait of a client whose input had ended was not answered": [
        OPEN,
        START,
        ("read", (0, 0, FOREVER), ALL),
        ("end_input", (0,), ALL),
    ],
    "a wait in another session, of a client whose input had ended, was not answered": [
        *TWO_AND_A_PROCESS,
        ("elsewhere", (1, 1, 0, FOREVER), ALL),
        ("end_input", (1,), ALL),
    ],
}


@examples(150)
@given(st.integers(0, 1 << 16), st.lists(STEPS, max_size=25))
def test_no_race_breaks_a_promise_to_a_client(seed: int, script: Script) -> None:
    """One answer a request, one connection a session, events in order and to their owner, nothing left behind."""
    play(seed, [OPEN, *script])


@pytest.mark.parametrize("what", ONCE_FAILED)
def test_no_race_that_was_lost_once_is_lost_again(what: str) -> None:
    """Each in many orders of the same messages, since an order is what it takes."""
    for seed in range(30):
        play(seed, ONCE_FAILED[what])


@pytest.mark.parametrize("block", range(4))
def test_no_long_race_breaks_a_promise_to_a_client(block: int) -> None:
    """Many clients and sessions, hours of virtual time. A failure names its seed: `play(seed, script_of(seed))`."""
    play_all(range(block * 40, (block + 1) * 40), 60)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("block", range(10))
def test_no_race_of_thousands_breaks_a_promise_to_a_client(block: int) -> None:
    """As above, longer."""
    play_all(range(1000 + block * 500, 1000 + (block + 1) * 500), 120)


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(max_examples=3000)
@given(st.integers(0, 1 << 16), st.lists(STEPS, max_size=60))
def test_no_race_that_hypothesis_finds_breaks_a_promise_to_a_client(seed: int, script: Script) -> None:
    """As the first, with more and longer scripts."""
    play(seed, [OPEN, *script])


def play_all(seeds: range, length: int) -> None:
    for seed in seeds:
        try:
            play(seed, script_of(seed, length))
        except AssertionError as error:
            raise AssertionError(f"play({seed}, script_of({seed}, {length})): {error}") from error
