"""The client for scripts and notebooks without an event loop: the same names, and nothing to await.

    from exec_server import sync

    with sync.connect_websocket("ws://127.0.0.1:8765") as client:
        print(client.run(["uname", "-a"], check=True).stdout)

Each connection has a thread with a loop of its own, in which the asyncio client runs. Objects here may be used from
any thread. What raises there raises here; what a method does is said there, and its parameters are those there.
`connect_stdio`, which takes streams of asyncio, has no counterpart.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import AsyncIterable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack

from exec_server.client import client as on_loop
from exec_server.client import connect, local_server
from exec_server.client import demultiplexer as on_loop_demultiplexer
from exec_server.client import environment as on_loop_environment
from exec_server.client import files as on_loop_files
from exec_server.client import other_session as on_loop_other_session
from exec_server.client import process as on_loop_process
from exec_server.client import streams as on_loop_streams
from exec_server.client.connect import CLIENT_NAME, INITIALIZE_S
from exec_server.client.errors import TransportDisconnected
from exec_server.client.events import ClientEvent, Event, ExitStatus, Output
from exec_server.client.files import AnyPath
from exec_server.client.start import StartOptions
from protocol.environment import EnvironmentInfo
from protocol.filesystem import OpenMode
from protocol.process import ProcessEntry
from protocol.requests import ParamsFor, ResultT
from protocol.sandbox import Sandbox

T = TypeVar("T")
A = TypeVar("A")
P = ParamSpec("P")
Argv = Sequence[str | os.PathLike[str]]


class Mirror(Generic[A]):
    """An object of the asyncio client, whose methods are waited for here."""

    def __init__(self, loop: Loop, mirrored: A) -> None:
        self._loop = loop
        self._mirrored = mirrored

    def __repr__(self) -> str:
        return repr(self._mirrored)


def waited(method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Mirror[A], P], T]:
    """A method that runs on the loop, and is waited for."""

    @wraps(method)
    def call(self: Mirror[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._loop.wait(method(self._mirrored, *args, **kwargs))

    return call


def iterated(method: Callable[Concatenate[A, P], AsyncIterable[T]]) -> Callable[Concatenate[Mirror[A], P], Iterator[T]]:
    """A method whose items are waited for one by one."""

    @wraps(method)
    def call(self: Mirror[A], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._loop.iterate(method(self._mirrored, *args, **kwargs))

    return call


def connecting(
    connect: Callable[P, AbstractAsyncContextManager[on_loop.ExecServerClient]],
) -> Callable[P, AbstractContextManager[ExecServerClient]]:
    """A way to a server, with a loop of its own."""

    @wraps(connect)
    @contextmanager
    def connected(*args: P.args, **kwargs: P.kwargs) -> Iterator[ExecServerClient]:
        with _entered(connect(*args, **kwargs)) as (loop, client):
            yield ExecServerClient(loop, client)

    return connected


class OutputStream(Mirror[on_loop_streams.OutputStream]):
    """See `exec_server.client.streams.OutputStream`."""

    def __iter__(self) -> Iterator[bytes]:
        return self._loop.iterate(self._mirrored)

    read = waited(on_loop_streams.OutputStream.read)
    readline = waited(on_loop_streams.OutputStream.readline)
    lines = iterated(on_loop_streams.OutputStream.lines)
    text = iterated(on_loop_streams.OutputStream.text)


class Process(Mirror[on_loop_process.Process]):
    """See `exec_server.Process`."""

    def __init__(self, loop: Loop, process: on_loop_process.Process) -> None:
        super().__init__(loop, process)
        self.process_id = process.process_id
        self.args = process.args
        self.tty = process.tty
        self.stdout = OutputStream(loop, process.stdout)
        self.stderr = OutputStream(loop, process.stderr)
        self.output: Iterator[Output] = loop.iterate(process.output)
        self.events: Iterator[Event] = loop.iterate(process.events)

    @property
    def returncode(self) -> ExitStatus | None:
        return self._mirrored.returncode

    def wait(self, timeout: float | None = None) -> ExitStatus:
        """As in asyncio, and like `Popen.wait`: raises subprocess.TimeoutExpired after `timeout` seconds."""
        try:
            return self._loop.wait(asyncio.wait_for(self._mirrored.wait(), timeout))
        except TimeoutError:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0) from None

    retained = iterated(on_loop_process.Process.retained)
    write = waited(on_loop_process.Process.write)
    close_stdin = waited(on_loop_process.Process.close_stdin)
    resize = waited(on_loop_process.Process.resize)
    signal = waited(on_loop_process.Process.signal)
    send_signal = signal
    terminate = waited(on_loop_process.Process.terminate)
    kill = waited(on_loop_process.Process.kill)
    communicate = waited(on_loop_process.Process.communicate)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.wait(self._mirrored.__aexit__(*exc))


class ExecServerClient(Mirror[on_loop.ExecServerClient]):
    """See `exec_server.ExecServerClient`."""

    @property
    def session_id(self) -> str:
        return self._mirrored.session_id

    @property
    def observe_id(self) -> str:
        return self._mirrored.observe_id

    @property
    def environment_info(self) -> EnvironmentInfo:
        return self._mirrored.environment_info

    @property
    def extensions(self) -> list[str]:
        return self._mirrored.extensions

    def call(self, params: ParamsFor[ResultT]) -> ResultT:
        return self._loop.wait(self._mirrored.call(params))

    def start(self, argv: Argv, **options: Unpack[StartOptions]) -> Process:
        return Process(self._loop, self._loop.wait(self._mirrored.start(argv, **options)))

    run = waited(on_loop.ExecServerClient.run)
    list = waited(on_loop.ExecServerClient.list)

    def attach(self, process_id: str) -> Process:
        return Process(self._loop, self._loop.wait(self._mirrored.attach(process_id)))

    def session(self, session_id: str) -> OtherSession:
        return OtherSession(self._loop, self._mirrored.session(session_id))

    def events(self) -> Iterator[ClientEvent]:
        return self._loop.iterate(self._loop.wait(self._subscribe()))

    async def _subscribe(self) -> on_loop_demultiplexer.EventStream:
        return self._mirrored.events()

    detach = waited(on_loop.ExecServerClient.detach)
    close = waited(on_loop.ExecServerClient.close)

    def __enter__(self) -> ExecServerClient:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class OtherSession(Mirror[on_loop_other_session.OtherSession]):
    """See `exec_server.OtherSession`."""

    @property
    def session_id(self) -> str:
        return self._mirrored.session_id

    list = waited(on_loop_other_session.OtherSession.list)

    def attach(self, process_id: str) -> Process:
        return Process(self._loop, self._loop.wait(self._mirrored.attach(process_id)))

    def handle(self, entry: ProcessEntry) -> Process:
        return Process(self._loop, self._loop.wait(self._handle(entry)))

    async def _handle(self, entry: ProcessEntry) -> on_loop_process.Process:
        return self._mirrored.handle(entry)


class OpenFile(Mirror[on_loop_files.OpenFile]):
    """See `exec_server.client.files.OpenFile`."""

    @property
    def position(self) -> int:
        return self._mirrored.position

    @position.setter
    def position(self, position: int) -> None:
        self._mirrored.position = position

    read = waited(on_loop_files.OpenFile.read)
    write = waited(on_loop_files.OpenFile.write)

    def __iter__(self) -> Iterator[bytes]:
        return self._loop.iterate(self._mirrored)


class Files(Mirror[on_loop_files.Files]):
    """See `exec_server.client.files.Files`."""

    @contextmanager
    def open(self, path: AnyPath, mode: OpenMode = "read", *, sandbox: Sandbox | None = None) -> Iterator[OpenFile]:
        with _entered_in(self._loop, self._mirrored.open(path, mode, sandbox=sandbox)) as file:
            yield OpenFile(self._loop, file)

    read = waited(on_loop_files.Files.read)
    write = waited(on_loop_files.Files.write)
    metadata = waited(on_loop_files.Files.metadata)
    list = waited(on_loop_files.Files.list)
    mkdir = waited(on_loop_files.Files.mkdir)
    remove = waited(on_loop_files.Files.remove)
    copy = waited(on_loop_files.Files.copy)
    resolve = waited(on_loop_files.Files.resolve)
    walk = waited(on_loop_files.Files.walk)


class Environment(Mirror[on_loop_environment.Environment]):
    """See `exec_server.Environment`."""

    def __init__(self, loop: Loop, environment: on_loop_environment.Environment) -> None:
        super().__init__(loop, environment)
        self.processes = ExecServerClient(loop, environment.processes)
        self.files = Files(loop, environment.files)

    @property
    def info(self) -> EnvironmentInfo:
        return self.processes.environment_info

    read_image = waited(on_loop_environment.Environment.read_image)

    @classmethod
    @contextmanager
    def create(cls, url: str | None = None, *, name: str | None = None) -> Iterator[Environment]:
        """See `exec_server.Environment.create`."""
        with _entered(on_loop_environment.Environment.create(url, name=name)) as (loop, environment):
            yield cls(loop, environment)


connect_websocket = connecting(connect.connect_websocket)
spawn_local_server = connecting(local_server.spawn_local_server)


@contextmanager
def connect_in_process(
    client_name: str = CLIENT_NAME, initialize_timeout: float = INITIALIZE_S
) -> Iterator[ExecServerClient]:
    """See `exec_server.connect_in_process`; a server of its own runs in the thread of this client."""
    from exec_server.client import in_process

    at = in_process.connect_in_process(client_name=client_name, initialize_timeout=initialize_timeout)
    with _entered(at) as (loop, client):
        yield ExecServerClient(loop, client)


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="exec-server-client", daemon=True)
        self._thread.start()

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there; its result. It is cancelled if this is interrupted (^C).

        Raises TransportDisconnected when the client, and the loop with it, has ended.
        """
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:
            coroutine.close()
            raise TransportDisconnected("the client was closed") from None
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, items: AsyncIterable[T]) -> Iterator[T]:
        """Its items, each waited for when it is asked for."""
        iterator = aiter(items)

        async def following() -> list[T]:
            try:
                return [await anext(iterator)]
            except StopAsyncIteration:
                return []

        try:
            while item := self.wait(following()):
                yield item[0]
        finally:
            if hasattr(iterator, "aclose") and not self._loop.is_closed():
                self.wait(iterator.aclose())

    def stop(self) -> None:
        """End the thread."""
        self.wait(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def _entered(manager: AbstractAsyncContextManager[T]) -> Iterator[tuple[Loop, T]]:
    """A context of the loop's world, entered and left in a loop of its own."""
    loop = Loop()
    try:
        with _entered_in(loop, manager) as value:
            yield loop, value
    finally:
        loop.stop()


@contextmanager
def _entered_in(loop: Loop, manager: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """A context of the loop's world, entered and left there."""
    value = loop.wait(_enter(manager))
    try:
        yield value
    except BaseException as error:
        if not loop.wait(_leave(manager, error)):
            raise
    else:
        loop.wait(_leave(manager, None))


async def _enter(manager: AbstractAsyncContextManager[T]) -> T:
    return await manager.__aenter__()


async def _leave(manager: AbstractAsyncContextManager[Any], error: BaseException | None) -> bool | None:
    if error is None:
        return await manager.__aexit__(None, None, None)
    return await manager.__aexit__(type(error), error, error.__traceback__)
