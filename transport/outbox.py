"""Outbox of one client: what is to be sent waits unencoded while the client has enough to take."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from actors.system.budget import ANSWERS
from protocol.codec import Codec
from protocol.envelope import RequestId
from protocol.errors import ExecServerError, InvalidRequest
from protocol.process import ProcessReadResult
from protocol.session import MAX_MESSAGE_BYTES
from protocol.watermark import Watermark
from protocol.wire_types import NotificationParams, WireStruct
from transport.interface import Transport
from transport.observer import Observer

PIECEMEAL_ABOVE = 1 << 20
"""Answers that are larger are encoded piece by piece, as the client takes them; bytes."""
NOTIFICATION_BYTES = 256
"""Bytes that a notification takes beside its output, rather less than that."""


class Outbox:
    """Results, errors and notifications on their way to one client, in their order, errors aside.

    `on_congestion(True)` is called when more than `high_water` bytes wait for the client, encoded or not, and
    `on_congestion(False)` when it has taken all but a quarter of that.
    """

    def __init__(
        self,
        transport: Transport,
        codec: Codec,
        observer: Observer,
        high_water: int,
        on_congestion: Callable[[bool], object],
    ) -> None:
        self.max_message = MAX_MESSAGE_BYTES
        """The longest message that the client takes, in bytes."""
        self._transport = transport
        self._codec = codec
        self._observer = observer
        self._on_congestion = on_congestion
        self._mark = Watermark(high_water, high_water // 4, self._congested, lambda: on_congestion(False))
        self._waiting: deque[tuple[RequestId | None, WireStruct, int]] = deque()
        self._waiting_bytes = 0
        self._written = 0

    @property
    def congested(self) -> bool:
        """Whether the client has to take some before it is given more. Nothing waits unencoded while this is false."""
        return self._mark.above

    @property
    def progress(self) -> tuple[int, int]:
        """A value that changes when the client takes something."""
        return self._written, self._transport.buffered()

    def put_error(self, request_id: RequestId, error: ExecServerError) -> None:
        """Send an error, ahead of what waits unencoded."""
        self._send(self._codec.encode_error(request_id, error))
        self._mark.update(self._queued())

    def put_notification(self, notification: NotificationParams) -> None:
        """Send a notification."""
        self._put(None, notification, NOTIFICATION_BYTES + notification.bulk_bytes * 4 // 3)

    def put_result(self, request_id: RequestId, result: WireStruct) -> None:
        """Send a result: a read cut to what the client can take. Raises InvalidRequest for any other that is longer,
        and LimitReached where all clients together have no room for it.
        """
        size = self._codec.encoded_size_hint(result)
        if size > self.max_message and isinstance(result, ProcessReadResult):
            result = result.cut_to(self.max_message, self._codec.encoded_size_hint)
            size = self._codec.encoded_size_hint(result)
        elif size > self.max_message:
            text = f"the answer takes {size} bytes, more than the {self.max_message} of maxMessageBytes"
            raise InvalidRequest(text, {"kind": "tooLarge"})
        if size > PIECEMEAL_ABOVE:
            ANSWERS.take(self, size)
        self._put(request_id, result, size)

    def drained(self) -> None:
        """The transport has called: encode what it has room for now."""
        waiting, high = self._waiting, self._mark.high
        while waiting and self._transport.buffered() < high:
            request_id, message, size = waiting.popleft()
            self._waiting_bytes -= size
            self._encode(request_id, message, size)
        queued = self._queued()
        if queued > self._mark.low:
            self._transport.call_when_below(self._mark.low)
        self._mark.update(queued)

    def clear(self) -> None:
        """Forget what waits unencoded: there is nobody to send it to."""
        self._waiting.clear()
        self._waiting_bytes = 0
        ANSWERS.lose(self)

    def _put(self, request_id: RequestId | None, message: WireStruct, size: int) -> None:
        """Send what takes about `size` bytes."""
        queued = self._queued()
        if self._waiting or queued >= self._mark.high:
            self._waiting.append((request_id, message, size))
            self._waiting_bytes += size
        else:
            self._encode(request_id, message, size)
        if queued + size > self._mark.high:
            self._mark.update(self._queued())

    def _queued(self) -> int:
        """Bytes that wait for the client, encoded or not."""
        return self._waiting_bytes + self._transport.buffered()

    def _congested(self) -> None:
        self._on_congestion(True)
        self._transport.call_when_below(self._mark.low)

    def _encode(self, request_id: RequestId | None, message: WireStruct, size: int) -> None:
        if request_id is None:
            assert isinstance(message, NotificationParams)
            self._send(self._codec.encode_notification(message))
        elif size > PIECEMEAL_ABOVE:
            self._transport.send_pieces(
                self._counted(self._codec.encode_result_pieces(request_id, message), size), size
            )
        else:
            self._send(self._codec.encode_result(request_id, message))

    def _send(self, data: bytes) -> None:
        self._written += 1
        self._observer.sent(len(data))
        self._transport.send(data)

    def _counted(self, pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
        try:
            for piece in pieces:
                self._written += 1
                self._observer.sent(len(piece))
                yield piece
        finally:
            ANSWERS.give_back(self, size)
