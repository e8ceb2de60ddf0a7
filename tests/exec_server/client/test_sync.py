"""The client without an event loop."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

import exec_server
from exec_server import ConnectFailed, Exited, Output, TransportDisconnected
from exec_server.client import streams, sync
from exec_server.client.files import Files, OpenFile
from protocol.errors import SpawnError
from tests.actors.system.child.support import eventually
from tests.support.program import Program

Connecting = Callable[[Program], AbstractContextManager[sync.ExecServerClient]]
LINKS: dict[str, Connecting] = {
    "websocket": lambda server: sync.connect_websocket(server.url),
    "in-process": lambda server: sync.connect_in_process(),
    "local-server": lambda server: sync.spawn_local_server(),
}


@pytest.mark.parametrize("link", LINKS)
def test_a_script(server: Program, link: str) -> None:
    """Lost: everything that is not worth an event loop."""
    threads = threading.active_count()
    with LINKS[link](server) as client:
        assert client.run(["echo", "hi"], check=True).stdout == b"hi\n"
        with pytest.raises(SpawnError):
            client.start(["/no/such"])
        with client.start(["cat"], stdin=subprocess.PIPE) as cat:
            cat.write(b"one\ntwo\n")
            assert cat.stdout.readline() == b"one\n"
            cat.close_stdin()
            assert list(cat.stdout.lines()) == ["two"]
            assert cat.wait() == 0
            assert cat.returncode == 0
        with pytest.raises(subprocess.TimeoutExpired):
            client.start(["sleep", "1000"]).wait(timeout=0.05)
        process = client.start(["sh", "-c", "echo a; exit 3"])
        assert [type(event) for event in process.events][1] is Exited
    with pytest.raises(TransportDisconnected):
        process.kill()
    if link != "in-process":  # whose pool of threads stays
        eventually(lambda: threading.active_count() <= threads, "its threads have ended")


def test_an_iteration_may_be_left(server: Program) -> None:
    """Lost: a script that breaks out of a loop."""
    with sync.connect_websocket(server.url) as client:
        process = client.start(["sh", "-c", "while echo x; do :; done"])
        for _ in process.stdout:
            break
        for _ in process.output:
            break
        for line in process.stdout.lines():
            assert line == "x"
            break
        process.kill()


def test_errors_come_as_they_are() -> None:
    with pytest.raises(ConnectFailed), sync.connect_websocket("ws://127.0.0.1:1"):
        pass
    with pytest.raises(ZeroDivisionError), sync.connect_in_process():
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("here", "there"),
    [
        (sync.ExecServerClient, exec_server.ExecServerClient),
        (sync.Process, exec_server.Process),
        (sync.OutputStream, streams.OutputStream),
        (sync.Environment, exec_server.Environment),
        (sync.Files, Files),
        (sync.OpenFile, OpenFile),
    ],
)
def test_names_are_those_of_asyncio(here: type, there: type) -> None:
    """Lost: a name that is on one side only."""

    def names(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert names(there) - names(here) == ({"over"} if there is exec_server.ExecServerClient else set())
    assert names(here) <= names(there)


def test_a_handle_has_the_same_attributes(server: Program) -> None:
    with sync.connect_websocket(server.url) as client:
        process = client.start(["true"])
        public = {name for name in vars(process._mirrored) if not name.startswith("_")}
        assert public == {name for name in vars(process) if not name.startswith("_")}


def test_another_session(server: Program) -> None:
    """Lost: a script that looks at what another program has left running."""
    with sync.connect_websocket(server.url) as owner, sync.connect_websocket(server.url) as guest:
        own = owner.start(["sh", "-c", "echo left; read line; exit 4"], stdin=subprocess.PIPE)
        assert own.stdout.readline() == b"left\n"
        session = guest.session(owner.session_id)
        (entry,) = session.list()
        assert [type(event) for event in session.handle(entry).retained()] == [Output]
        process = session.attach(own.process_id)
        process.write(b"\n")
        assert process.wait() == 4
        assert process.stdout.read() == b"left\n"


def test_options_are_known_by_name(server: Program) -> None:
    """Lost: the error for a misspelt option, which would be ignored."""
    with sync.connect_websocket(server.url) as client:
        for call in (lambda: client.start(["true"], rws=3), lambda: client.run(["true"], tty=True)):  # type: ignore
            with pytest.raises(TypeError, match=r"(start|run)\(\) got an unexpected keyword argument '(rws|tty)'"):
                call()
