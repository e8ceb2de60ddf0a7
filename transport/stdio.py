"""One client on two descriptors, standard input and output: a line of JSON a message (docs/wire-spec.md, "stdio"),
or a map of MessagePack.

The descriptors are inherited, so other processes may share their open file descriptions: the shell its
terminal, a pipeline its pipes. `O_NONBLOCK` belongs to the description and dup(2) shares it, hence it is
never set on them. Instead

* a pipe, FIFO or terminal is opened anew through /proc/self/fd, which makes a description of our own
  (open(2)),
* a socket is used with MSG_DONTWAIT (recv(2)),
* whatever cannot wait for readiness (regular files, /dev/null) or cannot be opened anew gets a thread that
  blocks.

The thread of a regular file is never blocked for long; one on a pipe that could not be opened anew may be, so
both are daemons and do not hold up the end of the program.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import queue
import select
import socket
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from transport.base import INBOX_MESSAGES, BufferedTransport, Defer, Pieces
from transport.framing.framer import Framer
from transport.framing.lines import LineFramer
from transport.framing.websocket import MAX_MESSAGE
from transport.interface import ProbeAnswered

if TYPE_CHECKING:
    pass

READ_SIZE: Final = 256 * 1024

_WRITE_MARK = 256 * 1024  # messages are made while less than this waits to be written
_PULL_TURN = 4 * 1024 * 1024  # and no more than this in one turn
_BUFFERS_A_WRITE = 512  # half of IOV_MAX

_Argument = TypeVar("_Argument")
_log = logging.getLogger(__name__)


class StdioTransport(BufferedTransport):
    """Reads messages from one descriptor and writes messages to another: lines, or with a subprotocol maps of
    MessagePack. See `transport.interface.Transport`.

    Neither descriptor is closed or changed. A line that is too long or no UTF-8 ends the input, with the
    reason in `InputEnded`, and so does whatever is no map where a map should begin; what was read before it
    stands. `close` flushes and stops: there is no code to send. Raises OSError if a descriptor is not open.
    """

    resumable = False

    def __init__(
        self,
        input_fd: int = 0,
        output_fd: int = 1,
        *,
        subprotocol: str | None = None,
        max_message: int = MAX_MESSAGE,
        defer: Defer | None = None,
    ) -> None:
        super().__init__("stdio", "", asyncio.get_running_loop(), defer)
        self.subprotocol = subprotocol
        self._messages: Framer[str]
        if subprotocol is None:
            self._messages, self._terminator = LineFramer(max_message), b"\n"
        else:
            from transport.framing.msgpack import MessagePackFramer  # brings in a library that nobody else waits for

            self._messages, self._terminator = MessagePackFramer(max_message), b""
        self._at_end = False  # the source has nothing more
        self._waiting: deque[bytes | Pieces] = deque()
        self._waiting_bytes = 0
        self._in_message = False  # pieces of the first of _waiting are out
        self._handed = 0  # bytes given to the sink so far
        self._flush_due = False
        self._over: str | None = None  # the reason of our own close
        self._sink = _open_sink(output_fd, self._loop, self._flush, self._broken)
        self._source = _open_source(input_fd, self._loop, self._received)

    def send(self, message: bytes) -> None:
        if self._over is None:
            self._waiting.append(message)
            self._waiting_bytes += len(message) + len(self._terminator)
            self._flush_later()

    def send_pieces(self, pieces: Iterator[bytes], size: int = 0) -> None:
        if self._over is None:
            self._waiting.append(Pieces(pieces, size))
            self._waiting_bytes += size
            self._flush_later()

    def buffered(self) -> int:
        return self._waiting_bytes + self._sink.pending

    def probe(self) -> None:
        """There is nobody to ask: the descriptors tell who lives."""
        self._loop.call_soon(self._emit, ProbeAnswered())

    def close(self, code: int = 1000, reason: str = "") -> None:
        if self._over is None:
            self._over = reason or f"closed with code {code}"
            self._source.stop()
            self._watch_flush(partial(self._end, self._over))
            self._flush_later()

    def abort(self, reason: str) -> None:
        self._over = reason
        self._loop.call_soon(self._end, reason)

    # Reading.

    def _received(self, data: bytes) -> None:
        """What the source calls; no bytes are the end of the input."""
        self._at_end = self._at_end or not data
        self._read(data)

    def _read(self, data: bytes) -> None:
        if self._over is not None or self._ended is not None:
            return
        messages = self._messages
        room = 0 if self._inbox_full() else INBOX_MESSAGES - len(self._inbox)
        self._inbox_bytes += messages.read(data, self._inbox, room)
        if self._at_end and not messages.stopped:
            self._inbox_bytes += messages.finish(self._inbox)
        ended = messages.failure is not None or (self._at_end and not messages.stopped)
        if ended:
            self._source.stop()
        else:
            self._update_reading()
            if messages.stopped and not self._inbox_full():  # by blank lines: nobody will take those
                self._loop.call_soon(self._read_on)
        self._arrived()  # the bridge may take from within, so all else is settled before
        if ended:
            self._end_input(messages.failure or "")

    def _update_reading(self) -> None:
        wanted = not self._messages.stopped and not self._inbox_full()
        if wanted is self._paused:
            self._paused = not wanted
            if wanted:
                self._source.resume()
            else:
                self._source.pause()

    def _read_on(self) -> None:
        if self._paused and not self._inbox_full():
            self._read(b"")

    # Writing.

    def _flush_later(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            self._defer(self._flush)

    def _flush(self) -> None:
        """Write what waits, as long as it is taken."""
        self._flush_due = False
        made = 0
        while self._waiting and made < _PULL_TURN and self._closed is None:
            if self._sink.pending >= _WRITE_MARK:
                self._sink.flush()
                if self._sink.pending >= _WRITE_MARK:
                    break
            made += self._put_next()
        self._sink.flush()
        if self._waiting and self._sink.pending < _WRITE_MARK:
            self._flush_later()
        self._check_drained()
        if self._over is not None and not self._waiting and not self._sink.pending:
            self._end(self._over)

    def _put_next(self) -> int:
        first = self._waiting[0]
        if isinstance(first, bytes):
            self._waiting.popleft()
            self._waiting_bytes -= len(first) + len(self._terminator)
            self._put(first)
            self._end_message()
            return len(first)
        try:
            piece, made = first.next()
        except Exception as error:
            # Half of a message is out already, so there is no honest way to go on.
            _log.exception("%s: a message could not be made to its end", self.peer)
            self._end(f"a message could not be made to its end: {error!r}")
            return 0
        self._waiting_bytes -= made
        if piece:
            self._put(piece)
        else:
            if self._in_message:
                self._end_message()
            self._waiting.popleft()
        self._in_message = bool(piece)
        return len(piece)

    def _put(self, data: bytes) -> None:
        self._sink.put(data)
        self._handed += len(data)

    def _delivered(self) -> int:
        return self._handed - self._sink.pending

    def _end_message(self) -> None:
        if self._terminator:
            self._put(self._terminator)

    def _broken(self, error: OSError) -> None:
        self._end(f"standard output is broken: {error.strerror}")

    def _end(self, reason: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._over = self._over or reason
        self._source.stop()
        self._sink.stop()
        self._waiting.clear()
        self._waiting_bytes = 0
        self._emit_closed(reason)


class _Source(Protocol):
    """Calls `received` on the loop with what it reads, once more with nothing at the end."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def stop(self) -> None: ...


class _Sink(Protocol):
    """Writes what was `put` when told to `flush`; calls `progressed` or `broken` later, on the loop."""

    pending: int
    """Bytes put and not yet written."""

    def put(self, data: bytes) -> None: ...
    def flush(self) -> None: ...
    def stop(self) -> None: ...


def _open_source(fd: int, loop: asyncio.AbstractEventLoop, received: Callable[[bytes], None]) -> _Source:
    kind = os.fstat(fd).st_mode
    if stat.S_ISSOCK(kind):
        return _ReadySource(_Socket(fd, select.EPOLLIN, loop), received)
    own = _open_anew(fd, kind, os.O_RDONLY)
    if own is None:
        return _ThreadSource(fd, loop, received)
    return _ReadySource(_Pipe(own, loop.add_reader, loop.remove_reader), received)


def _open_sink(
    fd: int, loop: asyncio.AbstractEventLoop, progressed: Callable[[], None], broken: Callable[[OSError], None]
) -> _Sink:
    kind = os.fstat(fd).st_mode
    if stat.S_ISSOCK(kind):
        return _ReadySink(_Socket(fd, select.EPOLLOUT, loop), loop, progressed, broken)
    own = _open_anew(fd, kind, os.O_WRONLY)
    if own is None:
        return _ThreadSink(fd, loop, progressed, broken)
    return _ReadySink(_Pipe(own, loop.add_writer, loop.remove_writer), loop, progressed, broken)


def _open_anew(fd: int, kind: int, mode: int) -> int | None:
    """A description of our own for a pipe or terminal, non-blocking; None if there is none to be had."""
    if not stat.S_ISFIFO(kind) and not (stat.S_ISCHR(kind) and os.isatty(fd)):
        return None
    try:
        return os.open(f"/proc/self/fd/{fd}", mode | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None  # another user's pipe, no reader, no /proc: the thread will do, and tell what is broken


class _Pipe:
    """A pipe or terminal that was opened anew, for one direction."""

    def __init__(self, fd: int, watch: Callable[..., object], unwatch: Callable[[int], object]) -> None:
        self._fd = fd
        self._watch = watch
        self._unwatch = unwatch

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back whenever it is ready."""
        self._watch(self._fd, callback)

    def unwatch(self) -> None:
        self._unwatch(self._fd)

    def read(self) -> bytes:
        return os.read(self._fd, READ_SIZE)

    def write(self, buffers: list[bytes | memoryview]) -> int:
        return os.writev(self._fd, buffers)

    def close(self) -> None:
        os.close(self._fd)


class _Socket:
    """A socket, asked with every call not to wait; for one direction.

    It is watched through an epoll descriptor, because uvloop sets O_NONBLOCK on whatever it watches itself.
    """

    def __init__(self, fd: int, events: int, loop: asyncio.AbstractEventLoop) -> None:
        self._socket = socket.socket(fileno=os.dup(fd))
        self._epoll = select.epoll()
        self._epoll.register(self._socket, events)
        self._loop = loop

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back whenever it is ready."""
        self._loop.add_reader(self._epoll.fileno(), callback)

    def unwatch(self) -> None:
        self._loop.remove_reader(self._epoll.fileno())

    def read(self) -> bytes:
        return self._socket.recv(READ_SIZE, socket.MSG_DONTWAIT)

    def write(self, buffers: list[bytes | memoryview]) -> int:
        return self._socket.sendmsg(buffers, (), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

    def close(self) -> None:
        self._epoll.close()
        self._socket.close()


class _ReadySource:
    def __init__(self, ready: _Pipe | _Socket, received: Callable[[bytes], None]) -> None:
        self._ready = ready
        self._received = received
        self._open = True
        self.resume()

    def pause(self) -> None:
        if self._open:
            self._ready.unwatch()

    def resume(self) -> None:
        if self._open:
            self._ready.watch(self._on_readable)

    def stop(self) -> None:
        if self._open:
            self._open = False
            self._ready.unwatch()
            self._ready.close()

    def _on_readable(self) -> None:
        try:
            data = self._ready.read()
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""  # EIO: the terminal is gone; ECONNRESET: the socket is
        self._received(data)


class _ReadySink:
    def __init__(
        self,
        ready: _Pipe | _Socket,
        loop: asyncio.AbstractEventLoop,
        progressed: Callable[[], None],
        broken: Callable[[OSError], None],
    ) -> None:
        self.pending = 0
        self._ready = ready
        self._loop = loop
        self._progressed = progressed
        self._broken = broken
        self._buffers: deque[bytes | memoryview] = deque()
        self._waits = False  # for room
        self._open = True

    def put(self, data: bytes) -> None:
        self._buffers.append(data)
        self.pending += len(data)

    def flush(self) -> None:
        if not self._waits:
            self._write()

    def stop(self) -> None:
        if self._open:
            self._open = False
            self._wait(False)
            self._ready.close()
            self._buffers.clear()
            self.pending = 0

    def _write(self) -> None:
        buffers = self._buffers
        while buffers and self._open:
            try:
                written = self._ready.write(list(itertools.islice(buffers, _BUFFERS_A_WRITE)))
            except (BlockingIOError, InterruptedError):
                self._wait(True)
                return
            except OSError as error:
                buffers.clear()
                self.pending = 0
                self._loop.call_soon(self._broken, error)
                break
            self.pending -= written
            while written:
                first = buffers.popleft()
                if written < len(first):
                    buffers.appendleft(memoryview(first)[written:])
                    break
                written -= len(first)
        self._wait(False)

    def _wait(self, wanted: bool) -> None:
        if wanted is not self._waits:
            self._waits = wanted
            if wanted:
                self._ready.watch(self._on_writable)
            else:
                self._ready.unwatch()

    def _on_writable(self) -> None:
        self._write()
        self._progressed()


class _ThreadSource:
    """One read ahead at a time: the thread goes on when the loop has taken the last one and is not paused."""

    def __init__(self, fd: int, loop: asyncio.AbstractEventLoop, received: Callable[[bytes], None]) -> None:
        self._fd = fd
        self._loop = loop
        self._received = received
        self._go = threading.Semaphore(1)
        self._paused = False
        self._reading = True  # the thread may read, or has been told to
        self._stopped = False
        threading.Thread(target=self._run, name="stdin", daemon=True).start()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._next()

    def stop(self) -> None:
        self._stopped = True
        self._next()

    def _next(self) -> None:
        if not self._reading and (not self._paused or self._stopped):
            self._reading = True
            self._go.release()

    def _run(self) -> None:
        while True:
            self._go.acquire()
            if self._stopped:
                return
            try:
                data = os.read(self._fd, READ_SIZE)
            except OSError:
                data = b""
            if not _call_on_loop(self._loop, self._deliver, data) or not data:
                return

    def _deliver(self, data: bytes) -> None:
        self._reading = False
        if not self._stopped:
            self._received(data)
        self._next()


class _ThreadSink:
    def __init__(
        self,
        fd: int,
        loop: asyncio.AbstractEventLoop,
        progressed: Callable[[], None],
        broken: Callable[[OSError], None],
    ) -> None:
        self.pending = 0
        self._fd = fd
        self._loop = loop
        self._progressed = progressed
        self._broken = broken
        self._buffers: list[bytes] = []
        self._work: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="stdout", daemon=True).start()

    def put(self, data: bytes) -> None:
        self._buffers.append(data)
        self.pending += len(data)

    def flush(self) -> None:
        if self._buffers:
            self._work.put(b"".join(self._buffers))
            self._buffers.clear()

    def stop(self) -> None:
        self._work.put(None)

    def _run(self) -> None:
        while (data := self._work.get()) is not None:
            rest = memoryview(data)
            try:
                while rest:
                    rest = rest[os.write(self._fd, rest) :]
            except OSError as error:
                _call_on_loop(self._loop, self._broken, error)
                return
            if not _call_on_loop(self._loop, self._written, len(data)):
                return

    def _written(self, size: int) -> None:
        self.pending -= size
        self._progressed()


def _call_on_loop(loop: asyncio.AbstractEventLoop, callback: Callable[[_Argument], None], argument: _Argument) -> bool:
    """False if the loop has ended in the meantime."""
    try:
        loop.call_soon_threadsafe(callback, argument)
    except RuntimeError:
        return False
    return True
