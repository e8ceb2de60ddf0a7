"""The descriptors of one child, behind one selector whose own file number an actor can watch.

An epoll or kqueue descriptor is itself pollable, so one ThespianWatch serves reading, writing and exit.
"""

from __future__ import annotations

import errno
import os
import selectors

from actors.child.spawn import Child, SpawnTicket
from protocol.errors import SpawnError
from protocol.process import Stream

READ_SIZE = 65536
"""Bytes taken at once from a pipe, and at most joined into one chunk of a terminal."""
TERMINAL_READ_SIZE = 8192
"""Bytes asked of a terminal's master at once; the kernel hands out less than that anyway."""

SPAWN = "spawn"
EXIT = "exit"
STDIN = "stdin"


class ChildStreams:
    """Owns the selector and the standard streams of a child; a descriptor is unregistered before it is closed."""

    __slots__ = ("_child", "_held", "_input", "_outputs", "_parked", "_selector", "_ticket")

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._ticket: SpawnTicket | None = None
        self._child: Child | None = None
        self._outputs: dict[Stream, int] = {}
        self._input: int | None = None
        self._held = False
        self._parked = False

    def fileno(self) -> int:
        """The number to watch for reading: readable when `ready` has something to say."""
        return self._selector.fileno()

    def ready(self) -> list[str]:
        """What is ready now: `spawn`, `stdin` (room), a name of an output stream, and `exit` last."""
        names: list[str] = []
        for key, mask in self._selector.select(0):
            if mask & selectors.EVENT_WRITE:
                names.append(STDIN)
            if mask & selectors.EVENT_READ:
                names.append(key.data)
        if EXIT in names:
            names.remove(EXIT)
            names.append(EXIT)
        return names

    # -- life ---------------------------------------------------------------------------------------------------

    def await_spawn(self, ticket: SpawnTicket) -> None:
        """`ready` says `spawn` once the ticket has a result."""
        self._ticket = ticket
        self._selector.register(ticket.fileno(), selectors.EVENT_READ, SPAWN)

    def take_child(self) -> Child:
        """The child that has been spawned, watched from now on (its output only if not held). Raises SpawnError."""
        assert self._ticket is not None
        ticket, self._ticket = self._ticket, None
        self._selector.unregister(ticket.fileno())
        child = self._child = ticket.result()
        try:
            self._watch_child(child)
        except OSError as error:
            # The kernel bounds what all epoll descriptors of a user may watch (epoll(7), max_user_watches).
            self._outputs.clear()
            self._input = None
            child.kill_tree()
            child.release()
            raise SpawnError.from_errno(error.errno or errno.EIO, "descriptors") from None
        return child

    def _watch_child(self, child: Child) -> None:
        self._selector.register(child.pidfd, selectors.EVENT_READ, EXIT)
        if child.master is not None:
            self._outputs["pty"] = self._input = child.master
        else:
            self._input = child.stdin
            if child.stdout is not None:
                self._outputs["stdout"] = child.stdout
            if child.stderr is not None:
                self._outputs["stderr"] = child.stderr
        if not self._held:
            self._watch_outputs()

    def forget_exit(self, child: Child) -> None:
        """The exit has been seen; to be called before the child is reaped, which closes its pidfd."""
        self._selector.unregister(child.pidfd)

    def close_streams(self) -> None:
        """Close every standard stream that is still open."""
        self.close_input()
        for name in list(self._outputs):
            self.close_output(name)

    def close(self) -> None:
        """Close everything. The watch on `fileno()` must be gone before (a reused number would lose events)."""
        if self._ticket is not None:
            self._selector.unregister(self._ticket.fileno())
            self._ticket.abandon()
            self._ticket = None
        self.close_streams()
        self._selector.close()

    # -- output -------------------------------------------------------------------------------------------------

    @property
    def outputs(self) -> tuple[Stream, ...]:
        """The output streams that have not ended."""
        return tuple(self._outputs)

    @property
    def held(self) -> bool:
        return self._held

    def hold(self) -> None:
        """Stop watching output; the kernel's buffers fill and the child waits."""
        if not self._held:
            self._held = True
            for fd in () if self._parked else self._outputs.values():
                if fd == self._input and self._wants_room():
                    self._selector.modify(fd, selectors.EVENT_WRITE, "pty")
                else:
                    self._selector.unregister(fd)

    def release(self) -> None:
        """Watch output again."""
        if self._held:
            self._held = False
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
        if fd in self._selector.get_map():
            self._selector.unregister(fd)
        self._close(name, fd)

    def park(self, name: Stream) -> None:
        """Stop watching a terminal that nobody has open just now: closing its master would hang up on the child."""
        fd = self._outputs[name]
        self._parked = True
        self.want_room(False)
        if fd in self._selector.get_map():
            self._selector.unregister(fd)

    def unpark(self) -> None:
        """Look at a parked terminal again."""
        if self._parked:
            self._parked = False
            if not self._held:
                self._watch_outputs()

    def _watch_outputs(self) -> None:
        if self._parked:
            return
        for name, fd in self._outputs.items():
            if fd in self._selector.get_map():
                self._selector.modify(fd, selectors.EVENT_READ | selectors.EVENT_WRITE, name)
            else:
                self._selector.register(fd, selectors.EVENT_READ, name)

    # -- input --------------------------------------------------------------------------------------------------

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
        fd = self._input
        if fd is None or wanted == self._wants_room():
            return
        reading = fd in self._outputs.values() and not self._held and not self._parked
        events = (selectors.EVENT_READ if reading else 0) | (selectors.EVENT_WRITE if wanted else 0)
        name = "pty" if fd in self._outputs.values() else STDIN
        if events == 0:
            self._selector.unregister(fd)
        elif fd in self._selector.get_map():
            self._selector.modify(fd, events, name)
        else:
            self._selector.register(fd, events, name)

    def close_input(self) -> None:
        """End of input for a child on pipes. On a terminal only the writing stops: the master stays open to read."""
        fd = self._input
        if fd is None:
            return
        self.want_room(False)
        self._input = None
        if fd not in self._outputs.values():
            self._close("stdin", fd)

    def _close(self, name: str, fd: int) -> None:
        """Close a descriptor of the child and let the child know that it has it no longer."""
        setattr(self._child, "master" if name == "pty" else name, None)
        os.close(fd)

    def _wants_room(self) -> bool:
        fd = self._input
        if fd is None:
            return False
        key = self._selector.get_map().get(fd)
        return key is not None and bool(key.events & selectors.EVENT_WRITE)


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
