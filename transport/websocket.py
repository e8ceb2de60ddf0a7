"""WebSocket on a TCP socket: an asyncio protocol around the `websockets` library's sans-I/O layer (RFC 6455).

The library does the opening handshake, Ping and Pong, and the closing handshake. Data frames are ours, in
both directions (`transport.framing.websocket`): going out they are collected and written once a turn of the loop,
coming in no more of them are parsed than the inbox takes.

A connection goes through the states of `_State`, in that order. `TransportClosed` is told when the first of
these happens: a Close frame from the peer, a violation of the protocol, the end of its data, an abort, or the
end of our own `close`. What follows is only courtesy: the last bytes are flushed, our side is shut down, and
what the peer still sends is thrown away for a moment, because closing a socket with unread data resets it and
would lose our Close frame.

While reading is paused, the loop does not look at the socket, so its end would go unnoticed. Every second,
and when asked for a sign of life, a connection that nobody took from in the meantime is polled for a hang-up
(poll(2) POLLRDHUP, which does not mind unread data).
"""

from __future__ import annotations

import asyncio
import enum
import fcntl
import logging
import select
import socket
import sys
import termios
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import Final, cast

from websockets.protocol import Protocol, Side
from websockets.protocol import State as LibraryState
from websockets.server import ServerProtocol

from transport.admission import handshake
from transport.admission.auth import Grant
from transport.admission.rules import Admission, Refusal
from transport.base import INBOX_MESSAGES, BufferedTransport, Defer
from transport.framing.websocket import BINARY, FIN, MAX_MESSAGE, TEXT, WebSocketFramer, frame_header
from transport.interface import ProbeAnswered
from transport.liveness import Liveness, limit_retransmission_backoff, read_tcp_info

FRAGMENT_ABOVE: Final = 4 * 1024 * 1024
"""Larger messages go out in several frames, so that a Pong need not wait for all of it."""
FRAGMENT: Final = 1024 * 1024
CLOSE_SECONDS: Final = 1.5
"""How long we wait for the peer's Close frame, and for the end of its data after it."""
ANSWER_SECONDS: Final = 60.0
"""How long a peer may take for an HTTP answer that is no `SMALL_ANSWER`."""
SMALL_ANSWER: Final = 8192
"""Bytes of an HTTP answer that fit into any socket's buffer."""
LOOK_SECONDS: Final = 1.0
"""Between two looks for a hang-up while reading is paused."""
UNSENT_PONGS: Final = 256
"""Reading pauses while more Pongs than this wait to be sent: who pings and does not read must not fill our
memory."""

_WRITE_AT_ONCE = 256 * 1024  # more than this in one turn is written before its end
_PULL_MARK = 256 * 1024  # fragments are made while less than this waits in the socket's buffer
_PULL_TURN = 4 * 1024 * 1024  # and no more than this in one turn
_PING = 0x9
_NO_CLOSE_FRAME = "peer closed the connection without a Close frame"

_log = logging.getLogger(__name__)
# The library logs every frame with its contents at DEBUG, and a line a connection at INFO.
_library_log = logging.getLogger(__name__ + ".library")
_library_log.setLevel(logging.WARNING)


class _State(enum.IntEnum):
    HANDSHAKE = 0
    OPEN = 1
    CLOSING = 2
    """`close` was called: flushing, then waiting for the peer's Close."""
    LINGERING = 3
    """The last byte is written; what comes in is thrown away."""
    GONE = 4


class WebSocketTransport(BufferedTransport, asyncio.Protocol):
    """One connection from a client, as `transport.interface.Transport` has it.

    `on_open` is called with it after a successful upgrade, and has to see to it that `open` is called.
    `peer` says who is at the other end and `local` which of our addresses it connected to; where it is `refused`
    already, it is told that and nothing else. `admission` judges its request. `defer` calls a callback at the end of
    this turn; `ping_interval` is in seconds. `subprotocols` are such as have binary messages: where one of them is
    chosen, a text frame ends the connection with code 1003.
    """

    def __init__(
        self,
        on_open: Callable[[WebSocketTransport], None],
        *,
        peer: str,
        local: str,
        admission: Admission,
        refused: Refusal | None = None,
        subprotocols: Sequence[str] = (),
        ping_interval: float = 10.0,
        max_message: int = MAX_MESSAGE,
        defer: Defer | None = None,
        on_lost: Callable[[WebSocketTransport], None] | None = None,
    ) -> None:
        super().__init__(f"exec-server websocket {peer}", asyncio.get_running_loop(), defer)
        self._on_open = on_open
        self._on_lost = on_lost
        self._address = peer
        self._local = local
        self._admission = admission
        self._refused = refused
        self.grant: Grant | None = None
        """What let the client in, where a token was asked for."""
        self._counted = False
        self._ping_interval = ping_interval
        self._state = _State.HANDSHAKE
        self._subprotocols = subprotocols
        self._library = Protocol(Side.SERVER, state=LibraryState.OPEN, logger=_library_log)
        self._frames = WebSocketFramer(max_message)
        self._opcode = TEXT  # of what we send
        self._head = bytearray()
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._socket: socket.socket = cast(socket.socket, None)
        # Out. Buffers of this turn, then messages behind one that is made piece by piece.
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._flush_due = False
        self._waiting: deque[bytes | Iterator[bytes]] = deque()
        self._waiting_bytes = 0
        self._offset = 0  # into the first of _waiting, if that is bytes
        self._fragmenting = False  # its first frame is out
        self._handed = 0  # bytes given to the asyncio transport so far
        self._close: tuple[int, str] | None = None  # our Close frame while it is not sent
        self._reason = ""  # of our own close
        self._close_awaited = False
        self._limit = -1  # of the asyncio transport's buffer, as last set
        # In.
        self._pongs = 0
        self._pongs_end = 0  # value of _handed behind the last Pong
        self._liveness = Liveness(0.0, ping_interval)
        self._look: asyncio.TimerHandle | None = None
        self._probing = False

    @property
    def upgraded(self) -> bool:
        """Whether it is a WebSocket in use: not in its handshake any more, nor at its end."""
        return self._state is _State.OPEN

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._socket = transport.get_extra_info("socket")
        if self._socket.family in (socket.AF_INET, socket.AF_INET6):
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            limit_retransmission_backoff(self._socket)
        if self._refused is not None:
            self._refuse(self._refused)
            return
        self._timer = self._loop.call_later(handshake.HEAD_SECONDS, self._head_is_late)

    def data_received(self, data: bytes) -> None:
        if self._state is _State.OPEN:
            self._liveness.heard_at = monotonic()
            if self._probing:
                self._answer_probe()
            self._read(data)
            self._arrived()
        elif self._state is _State.CLOSING:
            self._read(data)
        elif self._state is _State.HANDSHAKE and self._refused is None:
            self._receive_head(data)

    def eof_received(self) -> bool:
        if self._state in (_State.OPEN, _State.CLOSING):
            self._finish(_NO_CLOSE_FRAME)
        self._transport.close()  # what is queued is still flushed
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._state = _State.GONE
        self._cancel_timers()
        self._drop_output()
        if self._counted:
            self._admission.leave()
        self._emit_closed(f"connection lost: {exc}" if exc is not None else "connection lost")
        if self._on_lost is not None:
            self._on_lost(self)

    def pause_writing(self) -> None:
        """Nothing to do: who sends looks at `buffered()`."""

    # What the bridge calls.

    def send(self, message: bytes) -> None:
        if self._state is not _State.OPEN:
            return
        size = len(message)
        if self._waiting or size > FRAGMENT_ABOVE:
            self._waiting.append(message)
            self._waiting_bytes += size
        else:
            header = frame_header(FIN | self._opcode, size)
            out = self._out
            out.append(header)
            out.append(message)
            self._out_bytes += size + len(header)
            if self._out_bytes > _WRITE_AT_ONCE:
                self._write_out()
        if not self._flush_due:
            self._flush_due = True
            self._defer(self._flush)

    def send_pieces(self, pieces: Iterator[bytes]) -> None:
        if self._state is not _State.OPEN:
            return
        self._waiting.append(pieces)
        if not self._flush_due:
            self._flush_due = True
            self._defer(self._flush)

    def buffered(self) -> int:
        if self._state is _State.GONE:
            return 0
        return self._out_bytes + self._waiting_bytes + self._transport.get_write_buffer_size()

    def _delivered(self) -> int:
        return self._handed - self._transport.get_write_buffer_size() - _unacknowledged(self._socket)

    def call_when_below(self, mark: int) -> None:
        super().call_when_below(mark)
        self._arm()

    def probe(self) -> None:
        if self._state is not _State.OPEN:
            return
        self._probing = True
        self._send_ping()
        if self._paused:
            self._loop.call_soon(self._end_if_hung_up)

    def close(self, code: int = 1000, reason: str = "") -> None:
        if self._state is not _State.OPEN:
            return
        self._state = _State.CLOSING
        self._close = code, _cut(reason)
        self._reason = reason or f"closed with code {code}"
        self._cancel_timers()
        self._watch_flush(lambda: self.abort("peer did not take what was queued"))
        self._loop.call_soon(self._flush)
        self._update_reading()

    def abort(self, reason: str) -> None:
        if self._state is not _State.GONE:
            self._state = _State.GONE
            self._cancel_timers()
            self._drop_output()
            self._loop.call_soon(self._emit_closed, reason)  # before the loop tells of a lost connection
            self._transport.abort()

    # The opening handshake.

    def _receive_head(self, data: bytes) -> None:
        head = self._head
        head += data
        end = handshake.head_end(head, len(head) - len(data))
        if end < 0:
            if not handshake.may_be_http(head):
                self._answer(handshake.NOT_HTTP)
            elif len(head) > handshake.HEAD_LIMIT:
                self._answer(handshake.HEAD_TOO_LARGE)
            return
        if end > handshake.HEAD_LIMIT:
            self._answer(handshake.HEAD_TOO_LARGE)
            return
        self._head = bytearray()
        if self._judge_head(bytes(head[:end])):
            self._upgraded()
            if end < len(head):
                self.data_received(bytes(head[end:]))

    def _judge_head(self, head: bytes) -> bool:
        """Answer the request; True if that was an upgrade."""
        # Only for this: it keeps the request as long as it lives, with the client's token in it.
        library = ServerProtocol(
            select_subprotocol=handshake.choose_subprotocol(self._subprotocols), logger=_library_log
        )
        parsed = handshake.parse_head(library, head)
        if parsed is None:
            self._answer(handshake.NOT_HTTP)
            return False
        request, has_body = parsed
        answer = handshake.refusal(request, has_body, self._admission, self._local, self._address)
        if isinstance(answer, Refusal):
            self._refuse(answer)
            return False
        if answer is not None:
            self._answer(answer, with_body=request.method != "HEAD")
            return False
        entry = self._admission.judge_upgrade(request.headers, self._address)
        if isinstance(entry, Refusal):
            self._refuse(entry)
            return False
        self.grant, self.watches = entry
        response = library.accept(request)
        if response.status_code != 101:
            self._answer(handshake.Answer(response.status_code, bytes(response.body).decode()))
            return False
        full = self._admission.enter()
        if full is not None:
            self._refuse(full)
            return False
        self._counted = True
        library.send_response(response)
        self._transport.writelines(library.data_to_send())
        self.subprotocol = library.subprotocol
        if self.subprotocol is not None:
            self._opcode = BINARY
            self._frames.binary_only = True
        return True

    def _upgraded(self) -> None:
        self._cancel_timers()
        self._state = _State.OPEN
        self._liveness = Liveness(monotonic(), self._ping_interval)
        self._schedule_look(self._ping_interval)
        self._on_open(self)

    def _answer(self, answer: handshake.Answer, with_body: bool = True) -> None:
        self._out.append(answer.encode(with_body))
        self._linger(CLOSE_SECONDS if len(self._out[-1]) < SMALL_ANSWER else ANSWER_SECONDS)

    def _refuse(self, stranger: Refusal) -> None:
        """Let the client not in, and not know at once."""
        self._refused = stranger
        self._cancel_timers()
        if not stranger.delay:
            self._answer(handshake.answer_to(stranger))
            return
        self._paused = True
        self._transport.pause_reading()
        self._timer = self._loop.call_later(stranger.delay, self._answer, handshake.answer_to(stranger))

    def _head_is_late(self) -> None:
        self._timer = None
        if self._head:
            self._answer(handshake.HEAD_TOO_SLOW)
        else:
            self._transport.abort()

    # Reading.

    def _read(self, data: bytes) -> None:
        """Parse as much as there is room for; answer control frames; end the connection if they say so."""
        frames = self._frames
        if self._state is _State.OPEN:
            room = INBOX_MESSAGES - len(self._inbox) if self._may_read() else 0
            self._inbox_bytes += frames.read(data, self._inbox, room)
        else:
            frames.read(data, deque(), len(data) + FRAGMENT)  # only a Close interests us now
        if frames.controls:
            self._receive_controls()
        if frames.failure is not None and self._state in (_State.OPEN, _State.CLOSING):
            code, reason = frames.failure
            self._library.fail(code, reason)
            self._write_library()
            self._finish(f"protocol violated by the peer: {reason}")
        elif self._state is _State.OPEN:
            self._update_reading()
            if frames.stopped and self._may_read():  # by control frames: nobody will take those
                self._loop.call_soon(self._read_on)

    def _receive_controls(self) -> None:
        controls, self._frames.controls = self._frames.controls, []
        library = self._library
        for raw in controls:
            library.receive_data(raw)
            self._pongs += raw[0] & 0x0F == _PING
            if library.close_rcvd is not None or library.parser_exc is not None:
                break
        library.events_received()
        self._write_library()
        self._pongs_end = self._handed + self._out_bytes
        if library.close_rcvd is not None or library.parser_exc is not None:
            self._finish(_close_reason(library))

    def _may_read(self) -> bool:
        return not self._inbox_full() and self._pongs_fit()

    def _pongs_fit(self) -> bool:
        if self._pongs < UNSENT_PONGS:
            return True
        if self._handed - self._transport.get_write_buffer_size() < self._pongs_end:
            return False
        self._pongs = 0
        return True

    def _read_on(self) -> None:
        """There may be room again: parse what was kept, then read from the socket."""
        if self._paused and self._state is _State.OPEN and self._may_read():
            self._read(b"")
            self._arrived()

    def _update_reading(self) -> None:
        wanted = self._state is not _State.OPEN or not (self._frames.stopped or not self._may_read())
        if wanted is not self._paused:
            return
        self._paused = not wanted
        now = monotonic()
        if wanted:
            self._transport.resume_reading()
            self._liveness.resume(now)
        else:
            self._transport.pause_reading()
            self._liveness.pause(now)
            self._taken = False
            self._schedule_look(LOOK_SECONDS)

    # Writing.

    def _flush(self) -> None:
        self._flush_due = False
        if self._out:
            self._write_out()
        if self._waiting or self._mark is not None or self._state is not _State.OPEN or self._paused:
            self._after_progress()

    def _write_out(self) -> None:
        out, self._out = self._out, []
        self._handed += self._out_bytes
        self._out_bytes = 0
        self._transport.writelines(out)

    def _write_library(self) -> None:
        for buffer in self._library.data_to_send():
            if buffer:  # an empty one means: shut down our side, which `_linger` does
                self._out.append(buffer)
                self._out_bytes += len(buffer)
        if self._out and not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _send_ping(self) -> None:
        self._library.send_ping(b"")
        self._write_library()

    def resume_writing(self) -> None:
        """The buffer of the socket has fallen to the mark that `_arm` set."""
        self._after_progress()

    def _after_progress(self) -> None:
        """The peer has taken something, or something was queued: go on with whatever waited for that."""
        if self._state in (_State.LINGERING, _State.GONE):
            return
        if self._waiting:
            self._pull()
        if self._state is _State.CLOSING:
            if self._frames.stopped:
                self._read(b"")  # the peer's Close may be in it
            if not self._waiting:
                self._send_close()
        self._check_drained()
        self._read_on()
        self._arm()

    def _pull(self) -> None:
        """Make frames of the messages that wait, as long as the peer takes them."""
        made = 0
        while self._waiting and made < _PULL_TURN:
            if self._out_bytes >= _PULL_MARK:
                self._write_out()
            if self._transport.get_write_buffer_size() >= _PULL_MARK:
                break
            first = self._waiting[0]
            if isinstance(first, bytes):
                made += self._pull_bytes(first)
            else:
                piece = self._next_piece(first)
                if piece is None:
                    return
                made += len(piece)
        else:
            if self._waiting and not self._flush_due:
                self._flush_due = True
                self._loop.call_soon(self._flush)
        if self._out:
            self._write_out()

    def _pull_bytes(self, message: bytes) -> int:
        if self._offset == 0 and len(message) <= FRAGMENT_ABOVE:
            piece = message
        else:
            piece = message[self._offset : self._offset + FRAGMENT]
        self._offset += len(piece)
        last = self._offset == len(message)
        self._put_frame(piece, last)
        self._waiting_bytes -= len(piece)
        if last:
            self._offset = 0
            self._waiting.popleft()
        return len(piece)

    def _next_piece(self, pieces: Iterator[bytes]) -> bytes | None:
        """Put the next piece out and return it; an empty one at the end of the message, None if its maker
        failed."""
        try:
            piece = next(pieces, b"")
        except Exception as error:
            # Half of a message is out already, so there is no honest way to go on.
            _log.exception("%s: a message could not be made to its end", self.peer)
            self.abort(f"a message could not be made to its end: {error!r}")
            return None
        if piece:
            self._put_frame(piece, last=False)
        else:
            if self._fragmenting:
                self._put_frame(b"", last=True)
            self._waiting.popleft()
        return piece

    def _put_frame(self, payload: bytes, last: bool) -> None:
        first = (0 if self._fragmenting else self._opcode) | (FIN if last else 0)
        header = frame_header(first, len(payload))
        self._fragmenting = not last
        self._out.append(header)
        self._out.append(payload)
        self._out_bytes += len(header) + len(payload)

    def _arm(self) -> None:
        """Have `resume_writing` called when the buffer of the socket has fallen to what we wait for."""
        if self._waiting:
            limit = _PULL_MARK // 4
        elif self._state is not _State.OPEN or self._pongs >= UNSENT_PONGS:
            limit = 0
        elif self._mark is not None:
            limit = self._mark
        else:
            limit = _PULL_MARK // 4
        if limit != self._limit:
            self._limit = limit
            self._transport.set_write_buffer_limits(high=limit, low=limit)

    def _drop_output(self) -> None:
        self._out, self._out_bytes = [], 0
        self._waiting.clear()
        self._waiting_bytes = 0

    # Life and death.

    def _schedule_look(self, delay: float) -> None:
        if self._look is not None:
            self._look.cancel()
        self._look = self._loop.call_later(delay, self._look_at_peer)

    def _look_at_peer(self) -> None:
        self._look = None
        if self._paused and not self._taken and self._end_if_hung_up():
            return
        self._taken = False
        now = monotonic()
        verdict = self._liveness.judge(now, read_tcp_info(self._socket))
        if verdict.gone is not None:
            self.abort(verdict.gone)
            return
        if verdict.ping:
            self._send_ping()
        delay = verdict.next_look - now
        self._schedule_look(min(delay, LOOK_SECONDS) if self._paused else delay)

    def _end_if_hung_up(self) -> bool:
        """End the connection if the peer has closed or reset it, unread data or not."""
        if self._state is not _State.OPEN or not _hung_up(self._socket):
            return False
        self._finish(_NO_CLOSE_FRAME)
        self._transport.close()
        return True

    def _answer_probe(self) -> None:
        self._probing = False
        self._emit(ProbeAnswered())

    def _send_close(self) -> None:
        if self._state is not _State.CLOSING:
            return
        if self._close is not None:
            self._library.send_close(*self._close)
            self._close = None
            self._write_library()
            self._write_out()
        if self._transport.get_write_buffer_size() == 0 and not self._close_awaited:
            self._close_awaited = True
            self._cancel_timers()
            self._timer = self._loop.call_later(CLOSE_SECONDS, self._end_unanswered)

    def _end_unanswered(self) -> None:
        """The peer has all, and says nothing: it is not waited for a second time."""
        self._emit_closed(self._reason)
        self._state = _State.LINGERING
        self._timer = self._loop.call_later(CLOSE_SECONDS, self._transport.abort)  # TLS waits for the peer as well
        self._transport.close()

    def _finish(self, reason: str) -> None:
        """The connection is over: tell it, then end it politely."""
        self._emit_closed(reason if self._state is _State.OPEN else self._reason)
        self._linger()

    def _linger(self, seconds: float = CLOSE_SECONDS) -> None:
        self._state = _State.LINGERING
        self._cancel_timers()
        self._waiting.clear()
        self._waiting_bytes = 0
        if self._out:
            self._write_out()
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        self._timer = self._loop.call_later(seconds, self._transport.abort)
        try:
            self._transport.write_eof()
        except (OSError, NotImplementedError):  # reset in the meantime; TLS cannot be half-closed
            self._transport.close()

    def _cancel_timers(self) -> None:
        for timer in (self._timer, self._look):
            if timer is not None:
                timer.cancel()
        self._timer = self._look = None


def _hung_up(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLRDHUP)
    return bool(poll.poll(0))


def _unacknowledged(sock: socket.socket) -> int:
    """Bytes in the kernel that the peer has not acknowledged (tcp(7) SIOCOUTQ; on a Unix socket, not read)."""
    if sock.fileno() < 0:
        return 0
    return int.from_bytes(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)


def _close_reason(library: Protocol) -> str:
    if library.close_rcvd is None:
        return f"protocol violated by the peer: {library.parser_exc}"
    return f"peer closed with code {library.close_rcvd.code} {library.close_rcvd.reason}".rstrip()


def _cut(reason: str) -> str:
    """A Close frame has room for 123 bytes of reason (RFC 6455, 5.5)."""
    return reason.encode()[:123].decode(errors="ignore")
