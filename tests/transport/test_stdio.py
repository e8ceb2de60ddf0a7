"""stdio over everything that can stand behind descriptors 0 and 1: pipes, files, terminals, sockets."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.transport.support import Recorder
from transport.base import INBOX_MESSAGES
from transport.framing.websocket import MAX_MESSAGE
from transport.interface import Drained, InputEnded, MessagesArrived, ProbeAnswered, TransportClosed
from transport.stdio import StdioTransport

LINES = b"".join(b'{"id":%d}\n' % i for i in range(3000))


@pytest.fixture(params=["asyncio", "uvloop"])
def loop_name(request: pytest.FixtureRequest) -> str:
    return request.param


def start(loop_name: str, mode: str = "echo", **options: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.transport.stdio_echo", loop_name, mode]
    return subprocess.Popen(command, stderr=subprocess.PIPE, **options)


def finish(server: subprocess.Popen[bytes]) -> str:
    """What it said about its end."""
    assert server.stderr is not None
    with server.stderr:
        said = server.stderr.read().decode().strip()
    assert server.wait(20) == 0, said
    return said


@pytest.mark.parametrize("mode", ["echo", "pieces"])
def test_pipes(loop_name: str, mode: str) -> None:
    """Every line comes back in order, and the end of the input ends the program with all of them written."""
    server = start(loop_name, mode, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    output, said = server.communicate(b"\n \r\n" + LINES.replace(b"\n", b"\r\n") + b"last", timeout=30)
    assert output == LINES + b"last\n"
    assert said == b"end of input\n"


@pytest.mark.parametrize(
    ("loop_name", "size", "expected", "reason"),
    [
        ("asyncio", MAX_MESSAGE, MAX_MESSAGE + 1, b"end of input\n"),
        ("uvloop", MAX_MESSAGE + 1, 0, b"a line may have 67108864 bytes (max_message)\n"),
    ],
)
def test_a_line_of_64_mib(loop_name: str, size: int, expected: int, reason: bytes) -> None:
    """A large file in one request does not hit a limit of a line reader; one byte more is refused, with a reason."""
    server = start(loop_name, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    output, said = server.communicate(b"x" * size + b"\n", timeout=50)
    assert (len(output), said) == (expected, reason)


def test_files(loop_name: str, tmp_path: Path) -> None:
    """`exec-server < requests > answers` works, from where the files stand and without losing a line."""
    (tmp_path / "in").write_bytes(b"not this\n" + LINES)
    with open(tmp_path / "in", "rb", buffering=0) as source, open(tmp_path / "out", "ab") as target:
        target.write(b"kept\n")
        target.flush()
        source.seek(len(b"not this\n"))
        assert finish(start(loop_name, stdin=source, stdout=target)) == "end of input"
    assert (tmp_path / "out").read_bytes() == b"kept\n" + LINES


def test_dev_null(loop_name: str) -> None:
    """A service manager's /dev/null is an input that has ended."""
    server = start(loop_name, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert server.communicate(timeout=20) == (b"", b"end of input\n")


def test_socket(loop_name: str) -> None:
    """A socket, as inetd or a parent's socketpair gives it, serves for both directions, half-close included."""
    ours, theirs = socket.socketpair()
    with ours:
        server = start(loop_name, stdin=theirs, stdout=theirs)
        theirs.close()
        ours.sendall(b"one\ntwo\n")
        ours.shutdown(socket.SHUT_WR)
        with ours.makefile("rb") as answers:
            assert answers.read() == b"one\ntwo\n"
        assert finish(server) == "end of input"


def test_terminal(loop_name: str) -> None:
    """A person may type requests; ^D ends it, and the terminal is left as it was."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    attributes = termios.tcgetattr(slave)
    attributes[3] |= termios.ICANON
    termios.tcsetattr(slave, termios.TCSANOW, attributes)
    attributes = termios.tcgetattr(slave)
    server = start(loop_name, "greet", stdin=slave, stdout=slave)
    assert read_line(master) == b'{"ready":true}\n'
    os.write(master, b"hello\n")
    assert read_line(master) == b"hello\n"
    os.write(master, b"\x04")
    assert finish(server) == "end of input"
    assert not fcntl.fcntl(slave, fcntl.F_GETFL) & os.O_NONBLOCK
    assert termios.tcgetattr(slave) == attributes
    os.close(slave)
    os.close(master)


def read_line(fd: int) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        assert select.select([fd], [], [], 20)[0], f"nothing after {line!r}"
        line += os.read(fd, 1)
    return line


def test_hung_up_terminal(loop_name: str) -> None:
    """A closed terminal window is the end, not an endless loop on EIO."""
    master, slave = pty.openpty()
    server = start(loop_name, "greet", stdin=slave, stdout=slave, start_new_session=True)
    os.close(slave)
    read_line(master)
    os.close(master)
    finish(server)


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_flags_of_shared_descriptions_stay(loop_name: str, kind: str) -> None:
    """The shell's terminal and a pipeline's pipes are not made non-blocking behind the back of those who share them."""
    if kind == "pipe":
        (in_r, in_w), (out_r, out_w) = os.pipe(), os.pipe()
    else:
        pairs = socket.socketpair(), socket.socketpair()
        in_r, in_w, out_r, out_w = [end.detach() for pair in pairs for end in pair]
    server = start(loop_name, "greet", stdin=in_r, stdout=out_w)
    assert read_line(out_r) == b'{"ready":true}\n'
    os.write(in_w, b"x\n")
    assert read_line(out_r) == b"x\n"
    for fd in (in_r, out_w):
        assert not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK
    os.close(in_w)
    assert finish(server) == "end of input"
    for fd in (in_r, out_r, out_w):
        os.close(fd)


def test_broken_stdout(loop_name: str) -> None:
    """Nobody reads the answers any more: that is the end, without a traceback and without SIGPIPE."""
    server = start(loop_name, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(b"one\n")
    server.stdin.flush()
    assert server.stdout.readline() == b"one\n"
    server.stdout.close()
    server.stdin.write(b"two\n")
    server.stdin.flush()
    assert finish(server) == "standard output is broken: Broken pipe"
    server.stdin.close()


def test_full_disk(loop_name: str) -> None:
    """A file that cannot be written ends it as a broken pipe does, also through the thread."""
    with open("/dev/full", "wb") as target:
        server = start(loop_name, stdin=subprocess.PIPE, stdout=target)
        _, said = server.communicate(b"x\n", timeout=20)
    assert said == b"standard output is broken: No space left on device\n"


def test_line_that_is_not_utf8(loop_name: str) -> None:
    """What was read before bad input is answered; what comes after it is not."""
    server = start(loop_name, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    output, said = server.communicate(LINES + b"\xff\n" + LINES, timeout=20)
    assert output == LINES
    assert said == b"a line is not UTF-8\n"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_pipes_of_another_user(loop_name: str) -> None:
    """After `sudo -u` the inherited pipes cannot be opened anew; threads serve them."""
    server = start(loop_name, "nobody", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    output, said = server.communicate(LINES, timeout=20)
    assert output == LINES
    assert said == b"end of input\n"


# In this process, with a bridge that decides what is taken.


@pytest.fixture
def pipes() -> Iterator[tuple[int, int, int, int]]:
    """Input read end, input write end, output read end, output write end."""
    fds = [*os.pipe(), *os.pipe()]
    yield fds[0], fds[1], fds[2], fds[3]
    for fd in fds:
        try:
            os.close(fd)
        except OSError:
            pass  # closed by the test


@pytest.mark.anyio
async def test_reading_pauses(pipes: tuple[int, int, int, int]) -> None:
    """A client that pipes in a file of any size costs bounded memory while nothing is taken."""
    input_r, input_w, _, output_w = pipes
    connection = Recorder(StdioTransport(input_r, output_w), take=False)
    os.set_blocking(input_w, False)
    written = 0
    blocked = 0
    while blocked < 20:
        try:
            written += os.write(input_w, b"0123456\n" * 500)
            blocked = 0
        except BlockingIOError:
            blocked += 1
            await asyncio.sleep(0.001)
    assert written < 2 * 1024 * 1024
    taken: list[bytes] = []
    while len(taken) < written // 8:
        now = connection.call(connection.transport.take, 10_000)
        assert len(now) <= INBOX_MESSAGES
        taken += now
        await asyncio.sleep(0)
    assert set(taken) == {b"0123456"}
    os.close(input_w)
    await connection.until_ended()
    connection.transport.abort("done")
    await connection.until_closed()


@pytest.mark.anyio
async def test_writer_goes_on_after_the_end_of_input(pipes: tuple[int, int, int, int]) -> None:
    """`echo request | exec-server` gets its answer, however late it is made."""
    input_r, input_w, output_r, output_w = pipes
    connection = Recorder(StdioTransport(input_r, output_w))
    os.write(input_w, b"request")
    os.close(input_w)
    ended = await connection.until_ended()
    assert ended.reason == ""
    assert connection.messages == [b"request"]
    connection.transport.send(b"answer")
    connection.transport.send_pieces(iter([b"in ", b"pieces"]))
    connection.call(connection.transport.close, 1000, "done")
    assert await connection.until_closed() == "done"
    assert os.read(output_r, 100) == b"answer\nin pieces\n"
    assert not connection.transport.resumable


@pytest.mark.anyio
async def test_slow_reader(pipes: tuple[int, int, int, int]) -> None:
    """What stdout does not take is counted, pieces wait unmade, and Drained comes when it has fallen to the mark."""
    input_r, _, output_r, output_w = pipes
    connection = Recorder(StdioTransport(input_r, output_w))
    made = 0

    def pieces() -> Iterator[bytes]:
        nonlocal made
        for _ in range(100):
            made += 1
            yield b"p" * 65536

    connection.transport.send(b"m" * 1024 * 1024)
    connection.transport.send_pieces(pieces())
    connection.transport.send(b"after")
    connection.call(connection.transport.call_when_below, 100_000)
    await asyncio.sleep(0.01)
    assert made == 0
    assert connection.count(Drained) == 0
    assert connection.transport.buffered() > 900_000
    total = 1024 * 1024 + 1 + 100 * 65536 + 1 + 6
    read = await asyncio.to_thread(read_exactly, output_r, total)
    assert read == b"m" * 1024 * 1024 + b"\n" + b"p" * 6553600 + b"\nafter\n"
    await connection.until(lambda: connection.count(Drained) == 1)
    connection.transport.abort("done")
    await connection.until_closed()


def read_exactly(fd: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        data += os.read(fd, size - len(data))
    return bytes(data)


@pytest.mark.anyio
async def test_close_of_a_client_that_reads_nothing(
    pipes: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a session does not wait for ever for stdout."""
    monkeypatch.setattr("transport.base.STALL_SECONDS", 0.05)
    input_r, _, _, output_w = pipes
    connection = Recorder(StdioTransport(input_r, output_w))
    connection.transport.send(b"m" * 1024 * 1024)
    connection.call(connection.transport.close)
    await asyncio.wait_for(connection.until_closed(), 5)
    assert connection.transport.buffered() == 0
    assert connection.count(TransportClosed) == 1


@pytest.mark.anyio
async def test_no_descriptor_is_left(pipes: tuple[int, int, int, int]) -> None:
    """The caller's descriptors stay open, ours do not."""
    input_r, input_w, _, output_w = pipes
    before = set(os.listdir("/proc/self/fd"))
    connection = Recorder(StdioTransport(input_r, output_w))
    connection.call(connection.transport.probe)
    await connection.until(lambda: connection.count(ProbeAnswered))
    connection.transport.abort("done")
    await connection.until_closed()
    assert set(os.listdir("/proc/self/fd")) == before
    os.write(input_w, b"x")
    assert os.read(input_r, 1) == b"x"


@pytest.mark.anyio
async def test_threads_of_files_end(tmp_path: Path) -> None:
    """Nor do the threads that files need."""
    (tmp_path / "in").write_bytes(b"x\n" * 300_000)
    before = set(threading.enumerate())
    source = os.open(tmp_path / "in", os.O_RDONLY)
    target = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    connection = Recorder(StdioTransport(source, target), take=False)
    started = set(threading.enumerate()) - before
    assert len(started) == 2
    await connection.until(lambda: connection.count(MessagesArrived))
    connection.transport.abort("done")
    await connection.until_closed()
    for thread in started:
        await asyncio.to_thread(thread.join, 10)
        assert not thread.is_alive()
    os.close(source)
    os.close(target)


@pytest.mark.anyio
async def test_messages_come_before_the_end(pipes: tuple[int, int, int, int]) -> None:
    """InputEnded never overtakes the last requests, even if they have to wait for room."""
    input_r, input_w, _, output_w = pipes
    connection = Recorder(StdioTransport(input_r, output_w), take=False)
    os.write(input_w, b"x\n" * (INBOX_MESSAGES * 3))
    os.close(input_w)
    await connection.until(lambda: connection.count(MessagesArrived))
    taken: list[bytes] = []
    while not connection.count(InputEnded):
        taken += connection.call(connection.transport.take, 100)
        await asyncio.sleep(0)
    taken += connection.call(connection.transport.take, 10_000)
    assert len(taken) == INBOX_MESSAGES * 3
    connection.transport.abort("done")
    await connection.until_closed()


@pytest.mark.anyio
async def test_blank_lines_use_up_no_room(pipes: tuple[int, int, int, int]) -> None:
    """A client that sends nothing but newlines for a while is still read behind them."""
    input_r, input_w, _, output_w = pipes
    connection = Recorder(StdioTransport(input_r, output_w))
    os.write(input_w, b"\n" * (INBOX_MESSAGES * 10) + b"behind\n")
    await connection.until(lambda: connection.messages == [b"behind"])
    connection.transport.abort("done")
    await connection.until_closed()


def test_a_signal_ends_it_while_it_waits(loop_name: str) -> None:
    """A reader thread that is blocked does not keep the program from ending."""
    read_end, write_end = os.pipe()
    server = start(loop_name, "greet", stdin=read_end, stdout=subprocess.PIPE)
    assert server.stdout is not None
    with server.stdout:
        assert server.stdout.readline() == b'{"ready":true}\n'
        server.send_signal(signal.SIGTERM)
        assert server.wait(10) == -signal.SIGTERM
    assert server.stderr is not None
    server.stderr.close()
    os.close(read_end)
    os.close(write_end)
