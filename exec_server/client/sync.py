"""The client for scripts and notebooks without an event loop: the same names, and nothing to await.

    from exec_server import sync

    with sync.connect_websocket("ws://127.0.0.1:8765") as client:
        print(client.run(["uname", "-a"], check=True).stdout)

Each connection has a thread with a loop of its own, in which the asyncio client runs. Objects here may be used from
any thread. What raises there raises here; what a method does is said there. `connect_stdio`, which takes streams of
asyncio, has no counterpart.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import AsyncIterable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from exec_server.client import client as on_loop
from exec_server.client import connect, local_server
from exec_server.client import demultiplexer as on_loop_demultiplexer
from exec_server.client import environment as on_loop_environment
from exec_server.client import files as on_loop_files
from exec_server.client import process as on_loop_process
from exec_server.client import streams as on_loop_streams
from exec_server.client.errors import TransportDisconnected
from exec_server.client.events import ClientEvent, Event, ExitStatus, Output
from exec_server.client.files import AnyPath
from protocol.environment import EnvironmentInfo
from protocol.filesystem import DirectoryEntry, GetMetadataResult, OpenMode, WalkResult
from protocol.process import ProcessEntry
from protocol.requests import ParamsFor, ResultT

if TYPE_CHECKING:
    from exec_server.client.images import Picture

T = TypeVar("T")
Argv = Sequence[str | os.PathLike[str]]


@contextmanager
def connect_websocket(url: str, *args: Any, **options: Any) -> Iterator[ExecServerClient]:
    """See `exec_server.connect_websocket`."""
    with _entered(connect.connect_websocket(url, *args, **options)) as (loop, client):
        yield ExecServerClient(loop, client)


@contextmanager
def connect_in_process(**options: Any) -> Iterator[ExecServerClient]:
    """See `exec_server.connect_in_process`; the server runs in the thread of this client."""
    from exec_server.client import in_process

    with _entered(in_process.connect_in_process(**options)) as (loop, client):
        yield ExecServerClient(loop, client)


@contextmanager
def spawn_local_server(command: Sequence[str] | None = None, **options: Any) -> Iterator[ExecServerClient]:
    """See `exec_server.spawn_local_server`."""
    with _entered(local_server.spawn_local_server(command, **options)) as (loop, client):
        yield ExecServerClient(loop, client)


class Environment:
    """See `exec_server.Environment`."""

    def __init__(self, loop: Loop, environment: on_loop_environment.Environment) -> None:
        self.processes = ExecServerClient(loop, environment.processes)
        self.files = Files(loop, environment.files)

        self._loop = loop
        self._environment = environment

    @property
    def info(self) -> EnvironmentInfo:
        return self.processes.environment_info

    def read_image(self, path: AnyPath, **options: Any) -> Picture:
        return self._loop.wait(self._environment.read_image(path, **options))

    @classmethod
    @contextmanager
    def create(cls, url: str | None = None, **options: Any) -> Iterator[Environment]:
        """See `exec_server.Environment.create`."""
        with _entered(on_loop_environment.Environment.create(url, **options)) as (loop, environment):
            yield cls(loop, environment)


class Files:
    """See `exec_server.client.files.Files`."""

    def __init__(self, loop: Loop, files: on_loop_files.Files) -> None:
        self._loop = loop
        self._files = files

    def read(self, path: AnyPath, **options: Any) -> bytes:
        return self._loop.wait(self._files.read(path, **options))

    def write(self, path: AnyPath, data: bytes, **options: Any) -> None:
        self._loop.wait(self._files.write(path, data, **options))

    @contextmanager
    def open(self, path: AnyPath, mode: OpenMode = "read", **options: Any) -> Iterator[OpenFile]:
        with _entered_in(self._loop, self._files.open(path, mode, **options)) as file:
            yield OpenFile(self._loop, file)

    def metadata(self, path: AnyPath, **options: Any) -> GetMetadataResult:
        return self._loop.wait(self._files.metadata(path, **options))

    def list(self, path: AnyPath, **options: Any) -> list[DirectoryEntry]:
        return self._loop.wait(self._files.list(path, **options))

    def mkdir(self, path: AnyPath, **options: Any) -> None:
        self._loop.wait(self._files.mkdir(path, **options))

    def remove(self, path: AnyPath, **options: Any) -> None:
        self._loop.wait(self._files.remove(path, **options))

    def copy(self, source: AnyPath, destination: AnyPath, **options: Any) -> None:
        self._loop.wait(self._files.copy(source, destination, **options))

    def resolve(self, path: AnyPath, **options: Any) -> str:
        return self._loop.wait(self._files.resolve(path, **options))

    def walk(self, path: AnyPath, **options: Any) -> WalkResult:
        return self._loop.wait(self._files.walk(path, **options))


class OpenFile:
    """See `exec_server.client.files.OpenFile`."""

    def __init__(self, loop: Loop, file: on_loop_files.OpenFile) -> None:
        self._loop = loop
        self._file = file

    @property
    def position(self) -> int:
        return self._file.position

    @position.setter
    def position(self, position: int) -> None:
        self._file.position = position

    def read(self, size: int = on_loop_files.BLOCK) -> bytes:
        return self._loop.wait(self._file.read(size))

    def write(self, data: bytes) -> None:
        self._loop.wait(self._file.write(data))

    def __iter__(self) -> Iterator[bytes]:
        return self._loop.iterate(self._file)


class ExecServerClient:
    """See `exec_server.ExecServerClient`."""

    def __init__(self, loop: Loop, client: on_loop.ExecServerClient) -> None:
        self._loop = loop
        self._client = client

    @property
    def session_id(self) -> str:
        return self._client.session_id

    @property
    def observe_id(self) -> str:
        return self._client.observe_id

    @property
    def environment_info(self) -> EnvironmentInfo:
        return self._client.environment_info

    @property
    def extensions(self) -> list[str]:
        return self._client.extensions

    def call(self, params: ParamsFor[ResultT]) -> ResultT:
        return self._loop.wait(self._client.call(params))

    def start(self, argv: Argv, **options: Any) -> Process:
        return Process(self._loop, self._loop.wait(self._client.start(argv, **options)))

    def run(self, argv: Argv, **options: Any) -> subprocess.CompletedProcess[bytes]:
        return self._loop.wait(self._client.run(argv, **options))

    def list(self) -> list[ProcessEntry]:
        return self._loop.wait(self._client.list())

    def attach(self, process_id: str) -> Process:
        return Process(self._loop, self._loop.wait(self._client.attach(process_id)))

    def events(self) -> Iterator[ClientEvent]:
        return self._loop.iterate(self._loop.wait(self._subscribe()))

    async def _subscribe(self) -> on_loop_demultiplexer.EventStream:
        return self._client.events()

    def detach(self) -> str:
        return self._loop.wait(self._client.detach())

    def close(self) -> None:
        self._loop.wait(self._client.close())

    def __enter__(self) -> ExecServerClient:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Process:
    """See `exec_server.Process`."""

    def __init__(self, loop: Loop, process: on_loop_process.Process) -> None:
        self._loop = loop
        self._process = process
        self.process_id = process.process_id
        self.args = process.args
        self.tty = process.tty
        self.stdout = OutputStream(loop, process.stdout)
        self.stderr = OutputStream(loop, process.stderr)
        self.output: Iterator[Output] = loop.iterate(process.output)
        self.events: Iterator[Event] = loop.iterate(process.events)

    def __repr__(self) -> str:
        return repr(self._process)

    @property
    def returncode(self) -> ExitStatus | None:
        return self._process.returncode

    def wait(self, timeout: float | None = None) -> ExitStatus:
        """As in asyncio, and like `Popen.wait`: raises subprocess.TimeoutExpired after `timeout` seconds."""
        try:
            return self._loop.wait(asyncio.wait_for(self._process.wait(), timeout))
        except TimeoutError:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0) from None

    def write(self, data: bytes) -> None:
        self._loop.wait(self._process.write(data))

    def close_stdin(self) -> None:
        self._loop.wait(self._process.close_stdin())

    def resize(self, rows: int, cols: int) -> None:
        self._loop.wait(self._process.resize(rows, cols))

    def signal(self, signal: int | str) -> None:
        self._loop.wait(self._process.signal(signal))

    send_signal = signal

    def terminate(self, grace: float = 5.0) -> bool:
        return self._loop.wait(self._process.terminate(grace))

    def kill(self) -> bool:
        return self._loop.wait(self._process.kill())

    def communicate(self, input: bytes | None = None, timeout: float | None = None) -> tuple[bytes, bytes]:
        return self._loop.wait(self._process.communicate(input, timeout))

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.wait(self._process.__aexit__(*exc))


class OutputStream:
    """See `exec_server.client.streams.OutputStream`."""

    def __init__(self, loop: Loop, stream: on_loop_streams.OutputStream) -> None:
        self._loop = loop
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        return self._loop.iterate(self._stream)

    def read(self, n: int = -1) -> bytes:
        return self._loop.wait(self._stream.read(n))

    def readline(self, *args: Any, **options: Any) -> bytes:
        return self._loop.wait(self._stream.readline(*args, **options))

    def lines(self, *args: Any, **options: Any) -> Iterator[str]:
        return self._loop.iterate(self._stream.lines(*args, **options))

    def text(self, *args: Any, **options: Any) -> Iterator[str]:
        return self._loop.iterate(self._stream.text(*args, **options))


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
