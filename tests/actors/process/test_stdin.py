"""What waits for a child's standard input (actors.process.stdin)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.process.stdin import REMEMBERED_WRITE_IDS, Settled, StdinQueue, Write


def write(
    token: int, chunk: bytes | None, write_id: str | None = None, bridge: str = "bridge", offset: int | None = None
) -> Write:
    return Write(token, bridge, write_id or str(token), chunk, offset)


def tokens(settled: list[Settled]) -> list[int]:
    return [each.write.token for each in settled if each.accepted]


def drain(queue: StdinQueue) -> bytes:
    """Write everything, accepting what waits on the way."""
    taken = b""
    while (chunk := queue.next_chunk()) is not None:
        taken += bytes(chunk)
        queue.written(len(chunk))
    return taken


def test_a_write_waits_when_the_queue_is_full_and_is_accepted_when_there_is_room() -> None:
    """A client that types ahead of a stuck child is held back instead of filling the server's memory."""
    queue = StdinQueue(10)
    assert queue.offer(write(1, b"12345678"))
    assert not queue.offer(write(2, b"abc"))
    assert tokens(queue.written(8)) == [2]
    assert drain(queue) == b"abc"


def test_a_chunk_larger_than_the_queue_is_taken_when_it_is_empty() -> None:
    queue = StdinQueue(10)
    assert queue.offer(write(1, b"x" * 100))
    assert not queue.offer(write(2, b"y"))
    assert drain(queue) == b"x" * 100 + b"y"


def test_nothing_overtakes_a_write_that_waits() -> None:
    """Input would arrive in another order than it was typed."""
    queue = StdinQueue(10)
    queue.offer(write(1, b"0123456789"))
    queue.offer(write(2, b"second"))
    assert not queue.offer(write(3, b""))
    assert tokens(queue.written(10)) == [2, 3]


def test_a_repeated_write_id_is_accepted_and_not_written_again() -> None:
    """A client that lost an answer sends the same write again after a resume."""
    queue = StdinQueue(100)
    queue.offer(write(1, b"once", "id"))
    assert queue.offer(write(2, b"once", "id"))
    assert drain(queue) == b"once"


def test_a_write_that_was_withdrawn_can_be_sent_again() -> None:
    """Its bytes never went in, so the repetition is the first."""
    queue = StdinQueue(4)
    queue.offer(write(1, b"full"))
    queue.offer(write(2, b"late", "id", bridge="old"))
    assert [each.token for each in queue.withdraw("old")] == [2]
    queue.offer(write(3, b"late", "id", bridge="new"))
    assert drain(queue) == b"fulllate"


def test_only_the_latest_write_ids_are_remembered() -> None:
    queue = StdinQueue(1 << 20)
    for number in range(REMEMBERED_WRITE_IDS + 1):
        queue.offer(write(number, b"x"))
    drain(queue)
    queue.offer(write(0, b"again"))
    queue.offer(write(REMEMBERED_WRITE_IDS, b"not again"))
    assert drain(queue) == b"again"


def test_an_offset_cuts_off_what_was_accepted_already() -> None:
    """A client that does not know how much of its last write arrived sends it again, and nothing is doubled."""
    queue = StdinQueue(100)
    queue.offer(write(1, b"hello", offset=0))
    again = queue.offer(write(2, b"hello world", offset=0))
    assert again is not None and again.accepted_bytes == 11
    assert drain(queue) == b"hello world"


def test_an_offset_ahead_of_what_was_accepted_is_refused_with_what_is_expected() -> None:
    """Taking it would leave a hole in the input that nobody sees."""
    queue = StdinQueue(100)
    queue.offer(write(1, b"hello"))
    ahead = queue.offer(write(2, b"!", offset=9))
    assert ahead is not None and not ahead.accepted and ahead.accepted_bytes == 5
    assert drain(queue) == b"hello"


def test_end_of_input_comes_after_every_write_before_it() -> None:
    queue = StdinQueue(4)
    queue.offer(write(1, b"full"))
    queue.offer(write(2, b"wait"))
    assert not queue.offer(write(3, None))
    queue.written(4)
    assert not queue.ending or queue.next_chunk() == b"wait"
    queue.written(4)
    assert queue.ending


def test_closing_tells_who_still_waits() -> None:
    """A write that is never answered hangs its client."""
    queue = StdinQueue(4)
    queue.offer(write(1, b"full"))
    queue.offer(write(2, b"wait"))
    assert [each.token for each in queue.close()] == [2]
    assert queue.next_chunk() is None and len(queue) == 0


@given(
    st.integers(1, 50),
    st.lists(st.one_of(st.binary(max_size=60), st.integers(1, 40)), max_size=40),
)
def test_what_is_accepted_comes_out_in_order_and_the_bound_holds(capacity: int, steps: list[bytes | int]) -> None:
    """Any mix of writes and partial drains: exactly the bytes offered, in order, and never more than the bound."""
    queue = StdinQueue(capacity)
    offered, taken = b"", b""
    answered: list[int] = []
    for token, step in enumerate(steps):
        if isinstance(step, bytes):
            offered += step
            if queue.offer(write(token, step)):
                answered.append(token)
        elif (chunk := queue.next_chunk()) is not None:
            count = min(step, len(chunk))
            taken += bytes(chunk[:count])
            answered += tokens(queue.written(count))
        assert len(queue) <= max(capacity, max((len(s) for s in steps if isinstance(s, bytes)), default=0))
    while (chunk := queue.next_chunk()) is not None:
        taken += bytes(chunk)
        answered += tokens(queue.written(len(chunk)))
    assert taken == offered
    assert answered == [token for token, step in enumerate(steps) if isinstance(step, bytes)]
