"""The writing side of a child: what waits for its standard input, who is told what became of a write."""

from __future__ import annotations

from collections.abc import Callable

from actors.base.messages import Address, Answer, Failure
from actors.process.child_poller import ChildPoller
from actors.process.stdin import Settled, StdinQueue, Write
from protocol.errors import InvalidParams
from protocol.process import ProcessWriteResult, WriteStatus

PUSHED_A_TURN = 256 * 1024
"""Bytes that a child is given before others have their turn; one that takes them as fast as they come would have all.
"""


class ChildInput:
    """Writes what the queue accepts, as the child takes it, and answers every write once through `tell`."""

    __slots__ = ("_queue", "_streams", "_tell", "on_written")

    def __init__(self, streams: ChildPoller, capacity: int, tell: Callable[[Address, Answer | Failure], None]) -> None:
        self._streams = streams
        self._queue = StdinQueue(capacity)
        self._tell = tell
        self.on_written: Callable[[bytes], None] | None = None
        """Told of all bytes that the child's stdin has taken."""

    @property
    def open(self) -> bool:
        """Whether a write can still be accepted."""
        return self._streams.has_input and not self._queue.ending

    def offer(self, write: Write) -> None:
        """Accept a write, or have it wait for room."""
        settled = self._queue.offer(write)
        self.push()
        if settled is None:
            return
        if settled.accepted and not self._streams.has_input and not self._queue.ending:
            # The pipe broke just now, and this write is lost with it.
            self._tell(write.bridge, Answer(write.token, self.result("stdinClosed")))
        else:
            self._tell_settled([settled])

    def has_taken(self, write_id: str | None) -> bool:
        """Whether a write of this id was accepted; asked again, its answer is the same, also after the end of input."""
        return self._queue.remembers(write_id)

    def push(self) -> None:
        """Write what the child takes now, PUSHED_A_TURN at most; `streams` says when there is room for more."""
        pushed = 0
        while (chunk := self._queue.next_chunk()) is not None and pushed < PUSHED_A_TURN:
            try:
                count = self._streams.write(chunk)
            except OSError:
                # EPIPE: nobody has the other end open any more (write(2)); EIO on a terminal means the same.
                self.close()
                return
            if not count:
                break
            pushed += count
            if self.on_written is not None:
                self.on_written(bytes(chunk[:count]))
            self._tell_settled(self._queue.written(count))
        self._streams.want_room(chunk is not None)
        if chunk is None and self._queue.ending:
            self.close()

    def close(self) -> None:
        """End of input; what was accepted and not written is lost, what waits is answered `stdinClosed`."""
        self._streams.close_input()
        for write in self._queue.close():
            self._tell(write.bridge, Answer(write.token, self.result("stdinClosed")))

    def withdraw(self, bridge: Address) -> list[Write]:
        """Take back the unanswered writes of a bridge, and go on with those behind them."""
        withdrawn = self._queue.withdraw(bridge)
        if withdrawn:
            self._tell_settled(self._queue.settle_waiting())
            self.push()
        return withdrawn

    def result(self, status: WriteStatus) -> ProcessWriteResult:
        """The answer to a write, or to a wish to close the input."""
        return ProcessWriteResult(
            status=status, accepted=status == "accepted", accepted_bytes=self._queue.accepted_bytes
        )

    def _tell_settled(self, settled: list[Settled]) -> None:
        for each in settled:
            write = each.write
            if each.accepted:
                self._tell(write.bridge, Answer(write.token, self.result("accepted")))
            else:
                text = f"offset {write.offset} is ahead of the {each.accepted_bytes} bytes of input accepted so far"
                error = InvalidParams(text, {"kind": "offsetAhead", "acceptedBytes": each.accepted_bytes})
                self._tell(write.bridge, Failure(write.token, error))
