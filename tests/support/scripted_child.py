"""A program that does what the test says, over a Unix socket: `python -I -S scripted_child.py SOCKET`.

Commands are lines, each answered by `+` once it is done: `o N` and `e N`, with N bytes behind the line, write these to
standard output or error; `O` and `E` close them; `F` forks a copy, which connects for commands of its own; `X N` exits.
"""

from __future__ import annotations

import _socket
import os
import sys

STREAMS = {"o": 1, "e": 2}


def connect(path: str) -> _socket.socket:
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.connect(path)
    return connection


def read_exactly(connection: _socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            os._exit(0)  # the test is over
        data += part
    return data


def read_line(connection: _socket.socket) -> str:
    line = b""
    while not line.endswith(b"\n"):
        line += read_exactly(connection, 1)
    return line.decode().strip()


def write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def main() -> None:
    path = sys.argv[1]
    connection = connect(path)
    while True:
        name, _, argument = read_line(connection).partition(" ")
        if name in STREAMS:
            write(STREAMS[name], read_exactly(connection, int(argument)))
        elif name.lower() in STREAMS:
            os.close(STREAMS[name.lower()])
        elif name == "F":
            if os.fork() == 0:
                connection = connect(path)
                continue
        elif name == "X":
            os._exit(int(argument))
        connection.send(b"+")


main()
