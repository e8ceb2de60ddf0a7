"""The descriptors of one child, behind one epoll descriptor that an actor can watch.

An epoll descriptor is itself pollable (epoll(7)), so one ThespianWatch serves reading, writing and exit. Plain epoll
rather than `selectors`: exits are seen by pidfd, so there is no other system to serve, and it costs half.
"""

from __future__ import annotations

import errno
import os
from select import EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, epoll

from actors.system.child import Child, SpawnTicket
from protocol.errors import SpawnError
from protocol.process import Stream

READ_SIZE = 65536
"""Bytes taken at once from a pipe, and at most joined into one chunk of a terminal."""
TERMINAL_READ_SIZE = 8192
"""Bytes asked of a terminal's master at once; the kernel hands out less than that anyway."""

SPAWN = "spawn"
EXIT = "exit"
STDIN = "stdin"

_OVER = EPOLLHUP | EPOLLERR
_MOST_READY = 8  # a child has fewer descriptors than that


class ChildPoller:
    """Owns the epoll descriptor and the standard streams of a child.

    What is watched for follows from the state, in `_watch` alone. A descriptor is unregistered before it is closed:
    a duplicate elsewhere would keep it in the set (epoll(7)).
    """

    __slots__ = (
        "_child",
        "_epoll",
        "_held",
        "_input",
        "_names",
        "_open",
        "_outputs",
        "_parked",
        "_room_wanted",
        "_ticket",
        "_watched",
    )

    _epoll: epoll

    def __init__(self) -> None:
        self._open = False
        self._ticket: SpawnTicket | None = None
        self._child: Child | None = None
        self._outputs: dict[Stream, int] = {}
        self._input: int | None = None
        self._names: dict[int, str] = {}
        self._watched: dict[int, int] = {}
        self._held = False
        self._parked = False
        self._room_wanted = False

    def open(self) -> None:
        """Make the epoll descriptor, before anything else is watched. Raises OSError where there is none left."""
        self._epoll = epoll()
        self._open = True

    def fileno(self) -> int:
        """The number to watch for reading: readable when `ready` has something to say."""
        return self._epoll.fileno()

    def ready(self) -> list[str]:
        """What is ready now: `spawn`, `stdin` (room), a name of an output stream, and `exit` last."""
        names: list[str] = []
        exited = False
        for fd, mask in self._epoll.poll(0, _MOST_READY):
            name, watched = self._names[fd], self._watched[fd]
            if name == EXIT:
                exited = True
                continue
            if watched & EPOLLOUT and mask & (EPOLLOUT | _OVER):
                names.append(STDIN)
            if watched & EPOLLIN and mask & (EPOLLIN | _OVER):
                names.append(name)
        if exited:
            names.append(EXIT)
        return names

    # -- life -----------------------------------------------------------------------------------------------------

    def await_spawn(self, ticket: SpawnTicket) -> None:
        """`ready` says `spawn` once the ticket has a result."""
        self._ticket = ticket
        self._register(ticket.fileno(), SPAWN, EPOLLIN)

    def take_child(self) -> Child:
        """The child that has been spawned, watched from now on (its output only if not held). Raises SpawnError."""
        assert self._ticket is not None
        ticket, self._ticket = self._ticket, None
        self._unregister(ticket.fileno())
        child = ticket.result()
        self.watch_child(child)
        return child

    def watch_child(self, child: Child) -> None:
        """Watch this child from now on (its output only if not held). Raises SpawnError; then it has ended."""
        self._child = child
        try:
            self._watch_child(child)
        except OSError as error:
            # The kernel bounds what all epoll descriptors of a user may watch (epoll(7), max_user_watches).
            self._outputs.clear()
            self._input = None
            child.kill_tree()
            child.release()
            raise SpawnError.from_errno(error.errno or errno.EIO, "descriptors") from None

    def _watch_child(self, child: Child) -> None:
        self._register(child.pidfd, EXIT, EPOLLIN)
        if child.master is not None:
            self._outputs["pty"] = self._input = child.master
        else:
            self._input = child.stdin
            if child.stdout is not None:
                self._outputs["stdout"] = child.stdout
            if child.stderr is not None:
                self._outputs["stderr"] = child.stderr
        self._watch_outputs()

    def forget_exit(self, child: Child) -> None:
        """The exit has been seen; to be called before the child is reaped, which closes its pidfd."""
        self._unregister(child.pidfd)

    def close_streams(self) -> None:
        """Close every standard stream that is still open."""
        self.close_input()
        for name in list(self._outputs):
            self.close_output(name)

    def close(self) -> None:
        """Watch nothing any more; streams that are open stay so until the child is released.

        The watch on `fileno()` must be gone before (a reused number would lose events).
        """
        if self._ticket is not None:
            self._unregister(self._ticket.fileno())
            self._ticket.abandon()
            self._ticket = None
        if self._open:
            self._open = False
            self._epoll.close()

    # -- output ---------------------------------------------------------------------------------------------------

    @property
    def outputs(self) -> tuple[Stream, ...]:
        """The output streams that have not ended."""
        return tuple(self._outputs)

    @property
    def held(self) -> bool:
        """Whether output is left in the kernel."""
        return self._held

    def hold(self) -> None:
        """Stop watching output; the kernel's buffers fill and the child waits."""
        self._held = True
        self._watch_outputs()

    def release(self) -> None:
        """Watch output again."""
        self._held = False
        self._watch_outputs()

    def park(self) -> None:
        """Stop watching a terminal that nobody has open just now: closing its master would hang up on the child."""
        self._parked = True
        self._room_wanted = False
        self._watch_outputs()

    def unpark(self) -> None:
        """Look at a parked terminal again."""
        self._parked = False
        self._watch_outputs()

    def read(self, name: Stream) -> bytes | None:
        """Output of a stream, up to 64 KiB; b"" when it has ended, None when there is nothing now."""
        fd = self._outputs[name]
        if name != "pty":
            try:
                return os.read(fd, READ_SIZE)
            except BlockingIOError:
                return None
        return _read_terminal(fd)

    def close_output(self, name: Stream) -> None:
        """The stream has ended, or nobody wants the rest of it."""
        fd = self._outputs.pop(name)
        if fd == self._input:
            self._input = None
        self._unregister(fd)
        self._close(name, fd)

    # -- input ----------------------------------------------------------------------------------------------------

    @property
    def has_input(self) -> bool:
        """Whether standard input is open for writing."""
        return self._input is not None

    def write(self, data: memoryview) -> int:
        """Bytes of `data` that the child's stdin took, perhaps 0. Raises OSError where nobody can read it."""
        assert self._input is not None
        try:
            return os.write(self._input, data)
        except BlockingIOError:
            return 0

    def want_room(self, wanted: bool) -> None:
        """Have `ready` say `stdin` when there is room, or no longer."""
        if self._input is not None and wanted != self._room_wanted:
            self._room_wanted = wanted
            self._watch(self._input)

    def close_input(self) -> None:
        """End of input for a child on pipes. On a terminal only the writing stops: the master stays open to read."""
        fd = self._input
        if fd is None:
            return
        self.want_room(False)
        self._input = None
        if fd not in self._outputs.values():
            self._unregister(fd)
            self._close("stdin", fd)

    # -- the set of watched descriptors ---------------------------------------------------------------------------

    def _watch_outputs(self) -> None:
        for fd in self._outputs.values():
            self._watch(fd)

    def _watch(self, fd: int) -> None:
        """Watch a standard stream for what the state asks for."""
        name: str = STDIN
        events = EPOLLOUT if fd == self._input and self._room_wanted else 0
        for stream, output in self._outputs.items():
            if output == fd:
                name = stream
                if not self._held and not self._parked:
                    events |= EPOLLIN
        if events == self._watched.get(fd, 0):
            return
        if not events:
            self._unregister(fd)
        elif fd in self._watched:
            self._watched[fd] = events
            self._epoll.modify(fd, events)
        else:
            self._register(fd, name, events)

    def _register(self, fd: int, name: str, events: int) -> None:
        self._epoll.register(fd, events)
        self._names[fd] = name
        self._watched[fd] = events

    def _unregister(self, fd: int) -> None:
        if self._watched.pop(fd, 0):
            del self._names[fd]
            self._epoll.unregister(fd)

    def _close(self, name: str, fd: int) -> None:
        """Close a descriptor of the child and let the child know that it has it no longer."""
        setattr(self._child, "master" if name == "pty" else name, None)
        os.close(fd)


def _read_terminal(fd: int) -> bytes | None:
    parts: list[bytes] = []
    size = 0
    while size < READ_SIZE:
        try:
            part = os.read(fd, TERMINAL_READ_SIZE)
        except BlockingIOError:
            break
        except OSError:
            # EIO: every descriptor of the terminal's other side is closed (tty_ioctl(4), pty(7)).
            part = b""
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else b"".join(parts)
