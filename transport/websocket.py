"""WebSocket on a TCP socket: an asyncio protocol around the `websockets` library's sans-I/O layer (RFC 6455).

The library does the opening handshake, Ping and Pong, and the closing handshake. Data frames are ours, in
both directions (`transport.framing.websocket`): going out they are collected and written once a turn of the loop,
coming in no more of them are parsed than the inbox takes.

A connection goes through the states of `_State`, in that order. `TransportClosed` is told when the first of
these happens: a Close frame from the peer, a violation of the protocol, the end of its data, an abort, or the
end of our own `close`. What follows is only courtesy: the last bytes are flushed, our side is shut down, and
what the peer still sends is thrown away for a moment, because closing a socket with unread data resets it and
would lose our Close frame.
"""

from __future__ import annotations

import asyncio
import enum
import fcntl
import logging
import socket
import sys
import termios
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, cast

from websockets.server import ServerProtocol

from transport.admission import handshake
from transport.admission.auth import Grant
from transport.admission.rules import Admission, Refusal
from transport.base import INBOX_MESSAGES, BufferedTransport, Defer, Pieces
from transport.control_frames import ControlFrames
from transport.frame_output import FRAGMENT, PULL_MARK, FrameOutput
from transport.framing.websocket import BINARY, MAX_MESSAGE, WebSocketFramer
from transport.interface import ProbeAnswered
from transport.liveness import limit_retransmission_backoff
from transport.peer_watch import PeerWatch

CLOSE_SECONDS: Final = 1.5
LINGERING: Final = 64
"""Connections that were not let in and may take so long to read why, at a time; further ones are closed at once."""
"""How long we wait for the peer's Close frame, and for the end of its data after it."""
ANSWER_SECONDS: Final = 60.0
"""How long a peer may take for an HTTP answer that is no `SMALL_ANSWER`."""
SMALL_ANSWER: Final = 8192
"""Bytes of an HTTP answer that fit into any socket's buffer."""

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
        super().__init__("websocket", peer, asyncio.get_running_loop(), defer)
        self._on_open = on_open
        self._on_lost = on_lost
        self._local = local
        self._admission = admission
        self._refused = refused
        self.grant: Grant | None = None
        """What let the client in, where a token was asked for."""
        self._counted = False
        self._lingers = False
        self._state = _State.HANDSHAKE
        self._subprotocols = subprotocols
        self._controls = ControlFrames(_library_log)
        self._frames = WebSocketFramer(max_message)
        self._output = FrameOutput(self._give_up_message)
        self._head = bytearray()
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._socket: socket.socket = cast(socket.socket, None)
        self._flush_due = False
        self._close: tuple[int, str] | None = None  # our Close frame while it is not sent
        self._reason = ""  # of our own close
        self._close_awaited = False
        self._limit = -1  # of the asyncio transport's buffer, as last set
        self._watch = PeerWatch(self._loop, ping_interval, self._took, self._ping, self.abort, self._hang_up)
        self._probing = False

    @property
    def undecided(self) -> bool:
        """Whether it has not been let in: it is in its handshake, or was refused."""
        return not self._counted and self._state is not _State.GONE

    @property
    def upgraded(self) -> bool:
        """Whether it is a WebSocket in use: not in its handshake any more, nor at its end."""
        return self._state is _State.OPEN

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = self._output.socket = cast(asyncio.Transport, transport)
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
            self._watch.heard()
            if self._probing:
                self._probing = False
                self._emit(ProbeAnswered())
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
        self._output.clear()
        if self._counted:
            self._admission.leave()
        if self._lingers:
            self._admission.lingering -= 1
        self._emit_closed(f"connection lost: {exc}" if exc is not None else "connection lost")
        if self._on_lost is not None:
            self._on_lost(self)

    # What the bridge calls.

    def send(self, message: bytes) -> None:
        if self._state is _State.OPEN:
            self._output.message(message)
            self._flush_soon(self._defer)

    def send_pieces(self, pieces: Iterator[bytes], size: int = 0) -> None:
        if self._state is _State.OPEN:
            self._output.pieces(Pieces(pieces, size))
            self._flush_soon(self._defer)

    def buffered(self) -> int:
        return 0 if self._state is _State.GONE else self._output.buffered

    def _delivered(self) -> int:
        return self._output.flushed - _unacknowledged(self._socket)

    def call_when_below(self, mark: int) -> None:
        super().call_when_below(mark)
        self._arm()

    def probe(self) -> None:
        if self._state is not _State.OPEN:
            return
        self._probing = True
        self._ping()
        if self._paused:
            self._loop.call_soon(self._watch.hung_up)

    def close(self, code: int = 1000, reason: str = "") -> None:
        if self._state is not _State.OPEN:
            return
        self._state = _State.CLOSING
        self._close = code, reason
        self._reason = reason or f"closed with code {code}"
        self._cancel_timers()
        self._watch_flush(lambda: self.abort("peer did not take what was queued"))
        self._loop.call_soon(self._flush)
        self._update_reading()

    def abort(self, reason: str) -> None:
        if self._state is not _State.GONE:
            self._state = _State.GONE
            self._cancel_timers()
            self._output.clear()
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
        answer = handshake.refusal(request, has_body, self._admission, self._local, self.address)
        if isinstance(answer, Refusal):
            self._refuse(answer)
            return False
        if answer is not None:
            self._answer(answer, with_body=request.method != "HEAD")
            return False
        entry = self._admission.judge_upgrade(request.headers, self.address)
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
            self._output.opcode = BINARY
            self._frames.binary_only = True
        return True

    def _upgraded(self) -> None:
        self._cancel_timers()
        self._state = _State.OPEN
        self._watch.start(self._socket)
        self._on_open(self)

    def _answer(self, answer: handshake.Answer, with_body: bool = True) -> None:
        encoded = answer.encode(with_body)
        self._output.raw(encoded)
        self._linger(CLOSE_SECONDS if len(encoded) < SMALL_ANSWER else ANSWER_SECONDS)

    def _refuse(self, stranger: Refusal) -> None:
        """Let the client not in, and not know at once."""
        self._refused = stranger
        self._cancel_timers()
        if stranger.delay is None:
            self._transport.abort()
            return
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
            self._send_controls(self._controls.fail(code, reason))
            self._finish(f"protocol violated by the peer: {reason}")
        elif self._state is _State.OPEN:
            self._update_reading()
            if frames.stopped and self._may_read():  # by control frames: nobody will take those
                self._loop.call_soon(self._read_on)

    def _receive_controls(self) -> None:
        received, self._frames.controls = self._frames.controls, []
        over = self._controls.receive(received)
        self._send_controls(self._controls.to_send())
        self._controls.pongs_end_at(self._output.end)
        if over is not None:
            self._finish(over)

    def _may_read(self) -> bool:
        return not self._inbox_full() and self._controls.pongs_fit(self._output)

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
        if wanted:
            self._transport.resume_reading()
            self._watch.resume()
        else:
            self._transport.pause_reading()
            self._taken = False
            self._watch.pause()

    # Writing.

    def _flush_soon(self, later: Defer) -> None:
        if not self._flush_due:
            self._flush_due = True
            later(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        if self._output.collected:
            self._output.write()
        if self._output.waits or self._mark is not None or self._state is not _State.OPEN or self._paused:
            self.resume_writing()

    def _send_controls(self, frames: Iterable[bytes]) -> None:
        for frame in frames:
            self._output.raw(frame)
        if self._output.collected:
            self._flush_soon(self._loop.call_soon)

    def _ping(self) -> None:
        self._send_controls(self._controls.ping())

    def _give_up_message(self, error: Exception) -> None:
        _log.error("%s: a message could not be made to its end", self.peer, exc_info=error)
        self.abort(f"a message could not be made to its end: {error!r}")

    def resume_writing(self) -> None:
        """The peer has taken something (asyncio calls this at the mark that `_arm` set), or something was queued: go on
        with whatever waited for that."""
        if self._state in (_State.LINGERING, _State.GONE):
            return
        if self._output.waits and self._output.pull():
            self._flush_soon(self._loop.call_soon)
        if self._state is _State.CLOSING:
            if self._frames.stopped:
                self._read(b"")  # the peer's Close may be in it
            if not self._output.waits:
                self._send_close()
        self._check_drained()
        self._read_on()
        self._arm()

    def _arm(self) -> None:
        """Have `resume_writing` called when the buffer of the socket has fallen to what we wait for."""
        if self._output.waits:
            limit = PULL_MARK // 4
        elif self._state is not _State.OPEN or self._controls.owes_pongs:
            limit = 0
        elif self._mark is not None:
            limit = self._mark
        else:
            limit = PULL_MARK // 4
        if limit != self._limit:
            self._limit = limit
            self._transport.set_write_buffer_limits(high=limit, low=limit)

    # Life and death.

    def _took(self) -> bool:
        """Whether something was taken since this was asked last."""
        taken, self._taken = self._taken, False
        return taken

    def _hang_up(self) -> None:
        """The peer has closed or reset the connection, unread data or not."""
        if self._state is _State.OPEN:
            self._finish(_NO_CLOSE_FRAME)
            self._transport.close()

    def _send_close(self) -> None:
        if self._state is not _State.CLOSING:
            return
        if self._close is not None:
            self._send_controls(self._controls.close(*self._close))
            self._close = None
            self._output.write()
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
        self._output.drop_waiting()
        if self._output.collected:
            self._output.write()
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        self._timer = self._loop.call_later(seconds, self._transport.abort)
        if not self._counted and not self._lingers:
            if self._admission.lingering >= LINGERING:
                self._transport.close()  # without a moment to read it in peace: strangers must not cost descriptors
                return
            self._lingers = True
            self._admission.lingering += 1
        try:
            self._transport.write_eof()
        except (OSError, NotImplementedError):  # reset in the meantime; TLS cannot be half-closed
            self._transport.close()

    def _cancel_timers(self) -> None:
        self._watch.stop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _unacknowledged(sock: socket.socket) -> int:
    """Bytes in the kernel that the peer has not acknowledged (tcp(7) SIOCOUTQ; on a Unix socket, not read)."""
    if sock.fileno() < 0:
        return 0
    return int.from_bytes(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)
