"""Renderers: the processes that make screens (`screen_program`), one a session, and who gets one.

Rendering takes as long as a program wants that prints the worst there is. So it is done in a process of its own, with
limits of time and memory, which slows nobody but who asked: a session has one, and its screens wait for each other.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from importlib.util import find_spec
from typing import Final

import msgspec

from actors.process.screen_messages import LENGTH, Order, ShownScreen
from actors.system.child import Child
from actors.system.launch import LaunchRequest, launch
from actors.system.sandbox.spec import import_path, interpreter
from protocol.errors import Busy, InternalError

log = logging.getLogger("exec_server.screen")

RENDERERS_AT_ONCE: Final = 32
"""Renderers of a server. One more takes the place of one that has nothing to do."""
MOST_CELLS: Final = 500_000
"""Cells of the screens that one renderer holds; the one that was asked for longest ago is made anew when needed."""
ANSWER_S: Final = 30.0
"""How long a renderer may take for an answer, on a machine that is busy with something else; then it is ended."""
_MOST_ANSWER: Final = 32 << 20
_PIECE: Final = 1 << 20

Job = Callable[[], None]


def _import_path() -> list[str]:
    """Folders of the modules that a renderer imports."""
    found = (find_spec(name) for name in ("pyte", "wcwidth", "msgspec"))
    folders = [os.path.dirname(os.path.dirname(spec.origin)) for spec in found if spec is not None and spec.origin]
    return list(dict.fromkeys([*import_path(), *folders]))


_IMPORT_PATH: Final = _import_path()
_PROGRAM: Final = """
import sys
sys.path[:0] = sys.argv[1:]
from actors.process.screen_program import main
sys.exit(main())
"""
"""For a Python without its site module, which finds nothing but what it is told: in folders that were ours at the
start."""


class Renderer:
    """The renderer of one session. Jobs run in a thread, one after the other; it ends when there are none."""

    def __init__(self, session_id: str) -> None:
        self.screens: set[int] = set()
        """Screens that may be asked for again; the registry's."""
        self._lane = session_id
        self._lock = threading.Lock()
        self._jobs: deque[Job] = deque()
        self._busy = False
        self._child: Child | None = None
        self._held: OrderedDict[int, int] = OrderedDict()
        """Screen -> its cells, of those that the process holds; the one asked for last is last."""
        self._dropped: list[int] = []

    @property
    def busy(self) -> bool:
        """Whether somebody waits for it."""
        return self._busy

    def holds(self, screen: int) -> bool:
        """Whether the process knows this screen already."""
        with self._lock:
            return screen in self._held

    def submit(self, job: Job) -> None:
        """Run `job`, which must not raise, after those before it. Who submits sees to it that not too many wait. Raises
        RuntimeError where there is no thread to be had."""
        with self._lock:
            self._jobs.append(job)
            if self._busy:
                return
            self._busy = True
        try:
            threading.Thread(target=self._work, name="exec-server-screen", daemon=True).start()
        except RuntimeError:
            with self._lock:
                self._jobs.remove(job)
                self._busy = False
            raise

    def forget(self, screen: int) -> None:
        """The process need not hold this screen any more."""
        with self._lock:
            if self._held.pop(screen, None) is not None:
                self._dropped.append(screen)

    def end(self) -> None:
        """Nobody needs it any more: whatever it does is ended."""
        with self._lock:
            self._held.clear()
            child = self._child
            if child is not None:
                signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
        self.submit(self._drop)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    self._busy = False
                    return
                job = self._jobs.popleft()
            try:
                job()
            except Exception:
                log.exception("a job of a renderer failed")
            del job

    # -- in the thread --------------------------------------------------------------------------------------------

    def show(self, order: Order, cells: int) -> ShownScreen:
        """Have an order carried out. Raises ExecServerError, and then the process is gone, with all that it held."""
        with self._lock:
            if not order.fresh and order.screen not in self._held:
                raise Busy("the screen was lost while others of its session were made; ask again")
            self._held[order.screen] = cells
            self._held.move_to_end(order.screen)
            while sum(self._held.values()) > MOST_CELLS and len(self._held) > 1:
                self._dropped.append(self._held.popitem(last=False)[0])
            order = msgspec.structs.replace(order, dropped=[each for each in self._dropped if each != order.screen])
            self._dropped.clear()
        try:
            child = self._child or self._start()
            return msgspec.msgpack.decode(_exchange(child, msgspec.msgpack.encode(order)), type=ShownScreen)
        except BaseException as error:
            self._drop()
            if isinstance(error, msgspec.DecodeError):
                raise InternalError(f"the renderer answers nonsense: {error}") from None
            raise

    def _start(self) -> Child:
        argv = [interpreter(), "-I", "-S", "-c", _PROGRAM, *_IMPORT_PATH]
        child = launch(LaunchRequest(argv=argv, cwd="/", env={}, pipe_stdin=True, lane=self._lane))
        with self._lock:
            self._child = child
        return child

    def _drop(self) -> None:
        with self._lock:
            child, self._child = self._child, None
            self._held.clear()
            self._dropped.clear()
        if child is None:
            return
        child.kill_tree()
        ended = select.poll()
        ended.register(child.pidfd, select.POLLIN)
        if ended.poll(ANSWER_S * 1000):
            child.reap()
        child.release()


def _exchange(child: Child, order: bytes) -> bytes:
    """The answer to an order. Raises InternalError where there is none, or not in time."""
    assert child.stdin is not None and child.stdout is not None and child.stderr is not None
    deadline = time.monotonic() + ANSWER_S
    left = memoryview(LENGTH.pack(len(order)) + order)
    answer, said = bytearray(), bytearray()
    ready = select.poll()
    ready.register(child.stdout, select.POLLIN)
    ready.register(child.stderr, select.POLLIN)
    ready.register(child.stdin, select.POLLOUT)
    while len(answer) < LENGTH.size or len(answer) < LENGTH.size + LENGTH.unpack_from(answer)[0]:
        events = ready.poll(max(0.0, deadline - time.monotonic()) * 1000)
        if not events:
            raise InternalError(f"the screen could not be rendered in {ANSWER_S:.0f} s", {"kind": "timedOut"})
        for fd, _ in events:
            if fd == child.stdin:
                try:
                    left = left[os.write(fd, left[:_PIECE]) :]
                except BlockingIOError:
                    continue
                except BrokenPipeError:
                    left = left[:0]  # its end is told by its output
                if not left:
                    ready.unregister(fd)
                continue
            piece = os.read(fd, _PIECE)
            if not piece and fd == child.stdout:
                text = said.decode(errors="replace").strip().rpartition("\n")[2]
                raise InternalError(f"the renderer of the screen has ended: {text or 'it was killed'}")
            if not piece:
                ready.unregister(fd)
            elif fd == child.stdout:
                answer += piece
                if len(answer) > _MOST_ANSWER:
                    raise InternalError(f"the screen has more than {_MOST_ANSWER} bytes")
            else:
                said += piece
                del said[:-4096]
    return bytes(answer[LENGTH.size :])


class Renderers:
    """Who has a renderer; to be asked on one thread."""

    def __init__(self, most: int = RENDERERS_AT_ONCE) -> None:
        self._most = most
        self._of: OrderedDict[str, Renderer] = OrderedDict()

    def of(self, session_id: str, screen: int) -> Renderer:
        """The renderer of a session, one of whose screens is this. Raises Busy where all that there may be are at
        work."""
        renderer = self._of.get(session_id)
        if renderer is None:
            self._make_room()
            renderer = self._of[session_id] = Renderer(session_id)
        self._of.move_to_end(session_id)
        renderer.screens.add(screen)
        return renderer

    def close(self, session_id: str, screen: int) -> None:
        """This screen is not asked for any more; the last of its session takes the renderer with it."""
        renderer = self._of.get(session_id)
        if renderer is None:
            return
        renderer.screens.discard(screen)
        renderer.forget(screen)
        if not renderer.screens:
            del self._of[session_id]
            _end(renderer)

    def _make_room(self) -> None:
        if len(self._of) < self._most:
            return
        idle = next((session for session, each in self._of.items() if not each.busy), None)
        if idle is None:
            raise Busy(f"screens of {self._most} sessions are being made; try again later")
        _end(self._of.pop(idle))


def _end(renderer: Renderer) -> None:
    try:
        renderer.end()
    except (RuntimeError, ProcessLookupError) as error:
        log.warning("a renderer could not be ended: %s", error)


RENDERERS: Final = Renderers()
