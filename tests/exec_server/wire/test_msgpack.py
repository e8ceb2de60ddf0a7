"""A session on MessagePack, from end to end: over WebSocket and on stdio."""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgpack
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.support.client import ENV, Client, connected, expect_error, result_of, session, start_params
from tests.support.encodings import SUBPROTOCOL
from tests.support.program import Program, program, stdio_program

pytestmark = pytest.mark.anyio

EVERY_BYTE = bytes(range(256))


@pytest.fixture(params=["websocket", "stdio"])
async def client(request: pytest.FixtureRequest, server: Program) -> AsyncIterator[Client]:
    """A client that has shaken hands, on either carrier."""
    if request.param == "websocket":
        async with session(server.url, "msgpack") as client:
            yield client
    else:
        async with stdio_program(encoding="msgpack") as (client, _):
            await client.initialize()
            yield client


async def test_input_and_output_on_pipes(client: Client) -> None:
    """Lost: any byte of input or output that is no text."""
    data = EVERY_BYTE * 1000 + os.urandom(300_000)
    cat = await client.start("cat", "/bin/cat", pipeStdin=True)
    for at in range(0, len(data), 100_000):
        assert await cat.write(data[at : at + 100_000]) == "accepted"
    await client.call("process/closeStdin", processId="cat")
    ended = await cat.closed()
    assert ended.stdout == data
    assert (ended.code, ended.reason) == (0, "exited")


async def test_bytes_that_are_not_utf8_on_a_terminal(client: Client) -> None:
    """Lost: what a program draws in another character set, or how it ended."""
    ended = await client.run("p", "/bin/sh", "-c", r"printf 'a\377\376\200z'; kill -9 $$", tty=True)
    assert ended.pty == b"a\xff\xfe\x80z"
    assert (ended.code, ended.signal, ended.reason) == (137, "SIGKILL", "signaled")


async def test_typing_into_a_terminal(client: Client) -> None:
    """Lost: an interactive shell."""
    shell = await client.start("sh", "/bin/sh", tty=True, rows=33, cols=77, env={**ENV, "PS1": "> "})
    await shell.shows(b"> ")
    await shell.write(b"stty size\n")
    await shell.shows(b"33 77\r\n")
    await shell.write(b"exit 5\n")
    assert (await shell.closed()).code == 5


async def test_snapshot(client: Client) -> None:
    """Lost: the bytes of whoever asks later."""
    await client.run("p", "/bin/sh", "-c", r"head -c 50000 /dev/zero; printf '\377'; printf '\376' >&2")
    snapshot = await client.call("process/snapshot", processId="p")
    assert base64.b64decode(snapshot["stdout"]) == bytes(50_000) + b"\xff"
    assert base64.b64decode(snapshot["stderr"]) == b"\xfe"
    assert base64.b64decode(snapshot["terminal"]) == b""
    assert (snapshot["exitCode"], snapshot["truncated"]) == (0, False)


@pytest.mark.parametrize("carrier", ["websocket", "stdio"])
async def test_an_answer_that_is_made_piece_by_piece(carrier: str) -> None:
    """Lost: large answers, or their place in the stream."""
    size, flags = 5_000_000, ("--retained-output", "8000000")
    async with AsyncExitStack() as stack:
        if carrier == "websocket":
            client = await stack.enter_async_context(session(stack.enter_context(program(*flags)).url, "msgpack"))
        else:
            client, _ = await stack.enter_async_context(stdio_program(*flags, encoding="msgpack"))
            await client.initialize()
        process = await client.shell("p", rf"printf '\377'; head -c {size - 1} /dev/zero", keep=False)
        await process.closed()
        read = await client.send("process/read", processId="p")
        assert await client.call("environment/status") == {"status": "ready"}
        result = await result_of(read)
        data = b"".join(base64.b64decode(chunk["chunk"]) for chunk in result["chunks"])
        assert data == b"\xff" + bytes(size - 1)
        assert (result["exited"], result["nextSeq"]) == (True, process.next_seq)


async def test_errors_are_those_of_json(client: Client) -> None:
    """Lost: knowing what was wrong."""
    error = await expect_error(client.start("p", "/no/such/program"))
    assert (error.code, error.data["kind"]) == (-32603, "spawnNotFound")
    error = await expect_error(client.call("process/start", processId="p"))
    assert (error.code, error.message) == (-32602, "missing field `argv`")
    error = await expect_error(client.call("process/write", processId="p", writeId="w", chunk="no base64!"))
    assert (error.code, error.message) == (-32602, "invalid `chunk`: expected bin, got string")


async def test_resume_from_one_encoding_to_the_other(server: Program) -> None:
    """Lost: a session whose next connection speaks the other encoding; its bytes are the same."""
    async with session(server.url, "msgpack") as first:
        script = r"printf '\377 one\n'; read line; printf '\376 %s\n' $line"
        process = await first.shell("p", script, pipeStdin=True)
        await process.shows(b"one\n")
        await first.abort()
    async with connected(server.url) as second:
        await second.initialize(first.session_id)
        process = second.follow("p")
        assert await process.write(b"two\n") == "accepted"
        await process.closed()
        await second.abort()
    async with connected(server.url, "msgpack") as third:
        await third.initialize(first.session_id)
        read = await third.call("process/read", processId="p")
        assert b"".join(base64.b64decode(chunk["chunk"]) for chunk in read["chunks"]) == b"\xff one\n\xfe two\n"


async def test_a_native_cwd_does_not_make_a_client_of_the_seeds_generation(server: Program) -> None:
    """Lost: statuses and resume, for whoever omits `resumeSessionId` and names a directory by its path."""
    async with connected(server.url, "msgpack") as client:
        await client.call("initialize", clientName="x")
        await client.notify("initialized")
        await client.run("p", "/bin/true", cwd="/")
        answer = await client.call("process/write", **client.write_params("nobody", b"x"))
        assert answer["status"] == "unknownProcess"
        error = await expect_error(client.call("no/such/method"))
        assert error.code == -32601


# -- the bytes on the wire ----------------------------------------------------------------------------------------


@asynccontextmanager
async def raw(server: Program, *offered: str) -> AsyncIterator[ClientConnection]:
    async with connect(server.url, subprotocols=list(offered), compression=None, proxy=None) as socket:  # type: ignore[arg-type]
        yield socket


async def answered(socket: ClientConnection, message: bytes | dict[str, Any]) -> Any:
    await socket.send(message if isinstance(message, bytes) else msgpack.packb(message))
    answer = await socket.recv()
    assert isinstance(answer, bytes), "a text frame"
    return msgpack.unpackb(answer)


async def test_chunks_are_raw_on_the_wire(server: Program) -> None:
    """Lost: a third of the bandwidth."""
    async with raw(server, "something.else", SUBPROTOCOL) as socket:
        assert socket.subprotocol == SUBPROTOCOL
        params: dict[str, Any] = {"clientName": "x", "resumeSessionId": None}
        result = (await answered(socket, {"id": 1, "method": "initialize", "params": params}))["result"]
        assert "msgpack" in result["extensions"]
        await socket.send(msgpack.packb({"method": "initialized"}))
        params = start_params("p", "/bin/cat", pipeStdin=True)
        assert "result" in await answered(socket, {"id": 2, "method": "process/start", "params": params})
        params = {"processId": "p", "chunk": EVERY_BYTE, "writeId": "w"}
        await socket.send(msgpack.packb({"id": 3, "method": "process/write", "params": params}))
        got = {}
        while len(got) < 2:
            message = msgpack.unpackb(await socket.recv())
            got[message.get("method", message.get("id"))] = message
        assert got[3]["result"]["status"] == "accepted"
        assert got["process/output"]["params"]["chunk"] == EVERY_BYTE


async def test_what_is_no_messagepack_is_answered_like_bad_json(server: Program) -> None:
    """Lost: knowing which of one's messages was not understood; or the connection with all that runs on it."""
    prefix = "failed to parse websocket JSON-RPC message from exec-server websocket 127.0.0.1:"
    async with raw(server, SUBPROTOCOL) as socket:
        for message in (b"", b"\xc1", b'{"id":1,"method":"environment/status"}', b"\x81\xa2id", b"\x80", b"\x91\x80"):
            answer = await answered(socket, message)
            assert (answer["id"], answer["error"]["code"]) == (-1, -32600)
            assert answer["error"]["message"].startswith(prefix)
        status = {"id": 7, "method": "environment/status"}
        assert (await answered(socket, status))["error"]["message"].startswith("client must call initialize")


async def test_a_text_frame_ends_the_connection_with_1003(server: Program) -> None:
    """Lost: the reason why nothing works, for a client that asks for MessagePack and speaks JSON."""
    async with raw(server, SUBPROTOCOL) as socket:
        await socket.send('{"id":1,"method":"environment/status"}')
        with pytest.raises(ConnectionClosed):
            await socket.recv()
        assert socket.close_code == 1003


@pytest.mark.parametrize("behind", [b'{"id":1}\n', b"\xc1", b"\x81\xa2id"], ids=["json", "no value", "cut off"])
async def test_a_broken_stream_on_stdio_ends_after_what_was_read(behind: bytes) -> None:
    """Lost: answers to good requests, or a program that hangs for ever on input that it cannot find its way in."""
    async with stdio_program(encoding="msgpack") as (client, program):
        await client.initialize()
        process = await client.shell("p", "echo ready; read line; echo got $line", pipeStdin=True)
        await process.shows(b"ready\n")
        answer = await client.send("process/write", **client.write_params("p", b"this\n"))
        await client.link.send(behind)
        if behind.startswith(b"\x81"):
            client.link.abort()
        assert (await answer)["result"]["status"] == "accepted"
        await client.lost.wait()
        assert program.wait() == 0
