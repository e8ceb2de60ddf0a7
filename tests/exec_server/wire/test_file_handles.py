"""fs/open, readBlock, writeBlock, close and watchMissing: what belongs to a connection, and ends with it."""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.exec_server.wire.file_calls import BAD_PARAMS, ENOENT, FAILED, REFUSED, on
from tests.support.client import Client, connected, expect_error, result_of, session
from tests.support.program import Program, eventually, program, stdio_program

pytestmark = pytest.mark.anyio
BLOCK = 1 << 20


@pytest.fixture
async def client(server: Program) -> AsyncIterator[Client]:
    async with session(server.url) as client:
        yield client


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def block(client: Client, handle: str, offset: int, length: int) -> tuple[bytes, bool]:
    result = await client.call("fs/readBlock", handleId=handle, offset=offset, len=length)
    return base64.b64decode(result["chunk"]), result["eof"]


async def refused(client: Client, method: str, **params: Any) -> tuple[int, str]:
    error = await expect_error(client.call(f"fs/{method}", **params))
    return error.code, error.data["kind"]


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
async def test_a_file_is_read_in_blocks(server: Program, tmp_path: Path, encoding: str) -> None:
    """Files that no message can hold."""
    content = os.urandom(2 * BLOCK + 5)
    (tmp_path / "f").write_bytes(content)
    async with session(server.url, encoding) as client:
        assert await on(client, "open", tmp_path / "f", handleId="h") == {"handleId": "h"}
        blocks = [await block(client, "h", offset, BLOCK) for offset in range(0, 3 * BLOCK, BLOCK)]
        assert b"".join(data for data, _ in blocks) == content
        assert [eof for _, eof in blocks] == [False, False, True]
        assert await block(client, "h", len(content) - 3, 3) == (content[-3:], False)
        assert await block(client, "h", len(content), 1) == (b"", True)
        assert await block(client, "h", 2**64 - 1, 1) == (b"", True)
        assert await block(client, "h", 2**63 - 1, 1) == (b"", True)


async def test_a_file_is_written_in_blocks(client: Client, tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old content")
    (tmp_path / "old").chmod(0o640)
    for name in ("old", "new"):
        await on(client, "open", tmp_path / name, handleId=name, mode="replace")
        assert (tmp_path / name).read_bytes() == b""
        for offset, data in ((4, b"z" * BLOCK), (0, b"a"), (BLOCK + 6, b"!")):
            assert await client.call("fs/writeBlock", handleId=name, offset=offset, chunk=text(data)) == {}
        assert (tmp_path / name).read_bytes() == b"a\0\0\0" + b"z" * BLOCK + b"\0\0!"
        for offset in (2**63 - 1, 2**64 - 1):
            assert await refused(client, "writeBlock", handleId=name, offset=offset, chunk="eA==") == (
                FAILED,
                "fileTooLarge",
            )
        assert await client.call("fs/close", handleId=name) == {}
    assert (tmp_path / "old").stat().st_mode & 0o777 == 0o640


async def test_what_handles_refuse(client: Client, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 10)
    os.mkfifo(tmp_path / "fifo")
    path = str(tmp_path / "f")
    await client.call("fs/open", handleId="r", path=path)
    await client.call("fs/open", handleId="w", path=str(tmp_path / "g"), mode="replace")
    invalid = (REFUSED, "invalidInput")
    for length in (0, BLOCK + 1, 2**64 - 1):
        assert await refused(client, "readBlock", handleId="r", offset=0, len=length) == invalid
    for data in (b"", bytes(BLOCK + 1)):
        assert await refused(client, "writeBlock", handleId="w", offset=0, chunk=text(data)) == invalid
    assert await refused(client, "readBlock", handleId="w", offset=0, len=1) == (FAILED, "badHandle")
    assert await refused(client, "writeBlock", handleId="r", offset=0, chunk="eA==") == (FAILED, "badHandle")
    assert await refused(client, "readBlock", handleId="x", offset=0, len=1) == (ENOENT, "unknownHandle")
    assert await refused(client, "writeBlock", handleId="x", offset=0, chunk="eA==") == (ENOENT, "unknownHandle")
    assert await refused(client, "open", handleId="r", path=path) == (REFUSED, "alreadyExists")
    assert await refused(client, "open", handleId="é" * 17, path=path) == invalid
    assert await client.call("fs/open", handleId="é" * 16, path=path) == {"handleId": "é" * 16}
    for mode in ("read", "replace"):
        params = {"handleId": "n", "mode": mode}
        assert await refused(client, "open", path=str(tmp_path / "fifo"), **params) == (REFUSED, "notAFile")
    assert await refused(client, "open", handleId="n", path=str(tmp_path / "none")) == (ENOENT, "notFound")
    assert await client.call("fs/close", handleId="never was") == {}


async def test_a_handle_in_a_sandbox_is_refused(client: Client, tmp_path: Path) -> None:
    """It would lead out of the sandbox, or be opened without it."""
    permissions = {"type": "managed", "file_system": {"type": "restricted", "entries": []}, "network": "restricted"}
    sandbox = {"permissions": permissions, "windowsSandboxLevel": "disabled"}
    path = str(tmp_path / "f")
    expected = (BAD_PARAMS, "sandboxUnsupported")
    assert await refused(client, "open", handleId="h", path=path, mode="replace", sandbox=sandbox) == expected
    assert os.listdir(tmp_path) == []
    assert await refused(client, "readBlock", handleId="h", offset=0, len=1) == (ENOENT, "unknownHandle")


async def test_a_connection_has_128_handles(tmp_path: Path) -> None:
    """One client would take the descriptors of all. A handle that is closed, or was never opened, does not count."""
    (tmp_path / "f").touch()
    with program() as server:
        async with session(server.url) as client:
            before = len(server.descriptors())
            answers = [await client.send("fs/open", handleId=str(n), path=str(tmp_path / "none")) for n in range(200)]
            for answer in answers:
                assert (await expect_error(result_of(answer))).code == ENOENT
            for number in range(128):
                await client.call("fs/open", handleId=str(number), path=str(tmp_path / "f"))
            one_more = {"handleId": "128", "path": str(tmp_path / "f")}
            assert await refused(client, "open", **one_more) == (REFUSED, "tooMany")
            assert len(server.descriptors()) == before + 128
            await client.call("fs/close", handleId="7")
            await client.call("fs/open", **one_more)
            await client.abort()
            await eventually(lambda: len(server.descriptors()) < before, "the handles are closed")


async def test_requests_on_a_handle_keep_their_order(client: Client, tmp_path: Path) -> None:
    """A client that sends all at once would get the file in another order than it wrote it."""
    path = str(tmp_path / "f")
    answers = []
    for turn in range(20):
        answers.append(await client.send("fs/open", handleId="h", path=path, mode="replace"))
        for number in range(50):
            chunk = text(b"%02d-%02d" % (turn, number))
            answers.append(await client.send("fs/writeBlock", handleId="h", offset=0, chunk=chunk))
        answers.append(await client.send("fs/close", handleId="h"))
    answers.append(await client.send("fs/open", handleId="h", path=path))
    for answer in answers:
        await result_of(answer)
    assert await block(client, "h", 0, 10) == (b"19-49", True)


async def test_what_arrived_before_a_cut_is_written(tmp_path: Path) -> None:
    """The last blocks of a file, and the file that was sent before the network went, would be missing."""
    with program() as server:
        async with session(server.url) as client:
            before = len(server.descriptors())
            await client.send("fs/open", handleId="h", path=str(tmp_path / "f"), mode="replace")
            for number in range(30):
                params = {"handleId": "h", "offset": number * 1000, "chunk": text(b"%d" % (number % 10) * 1000)}
                await client.send("fs/writeBlock", **params)
            for number in range(30):
                await client.send("fs/writeFile", path=str(tmp_path / f"w{number}"), dataBase64="eA==")
            await client.call("environment/status")
            await client.abort()
            await eventually(lambda: (tmp_path / "w29").exists() and all_written(tmp_path / "f"), "all is written")
            await eventually(lambda: len(server.descriptors()) < before, "the handle is closed")


def all_written(path: Path) -> bool:
    return path.read_bytes() == b"".join(b"%d" % (number % 10) * 1000 for number in range(30))


async def test_a_session_that_ends_closes_its_files(tmp_path: Path) -> None:
    """On stdio the session ends with the connection: writes that were read are done, and the program leaves."""
    async with stdio_program() as (client, server):
        await client.initialize()
        opened = await client.send("fs/open", handleId="h", path=str(tmp_path / "f"), mode="replace")
        for number in range(30):
            params = {"handleId": "h", "offset": number * 1000, "chunk": text(b"%d" % (number % 10) * 1000)}
            answer = await client.send("fs/writeBlock", **params)
        client.link.end_input()  # type: ignore[attr-defined]
        await result_of(opened)
        await result_of(answer)
        assert server.wait() == 0
    assert all_written(tmp_path / "f")


async def test_a_client_that_does_not_read_gets_no_more(tmp_path: Path) -> None:
    """10,000 blocks of 1 MiB in the server's memory would end it."""
    (tmp_path / "f").write_bytes(bytes(BLOCK))
    with program() as server:
        async with session(server.url) as client:
            await client.call("fs/open", handleId="h", path=str(tmp_path / "f"))
            client.stop_reading()
            answers = [await client.send("fs/readBlock", handleId="h", offset=0, len=BLOCK) for _ in range(2000)]
            async with session(server.url) as other:
                await other.call("fs/open", handleId="h", path=str(tmp_path / "f"))
                assert await block(other, "h", 0, BLOCK) == (bytes(BLOCK), False)
            assert memory(server.pid) < 250 << 20
            client.read_on()
            for answer in answers[:50]:
                assert len((await result_of(answer))["chunk"]) == 1_398_104
            await client.abort()


def memory(pid: int) -> int:
    """Resident bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


# -- fs/watchMissing ----------------------------------------------------------------------------------------------


async def watch(client: Client, watch_id: int, *missing: Path, present: Path | None = None) -> bool:
    params = {"missing": [str(path) for path in missing], "present": None if present is None else str(present)}
    return bool((await client.call("fs/watchMissing", watchId=watch_id, **params))["watching"])


async def changed(client: Client, *watch_ids: int) -> None:
    """Wait until these, and no others, have been told."""
    await client.until(lambda: set(watch_ids) <= set(client.changed), lambda: f"{watch_ids} in {client.changed}")
    assert sorted(client.changed) == sorted(watch_ids)
    client.changed.clear()


async def test_an_appearance_is_told_once(client: Client, tmp_path: Path) -> None:
    """A client that waits for a file would wait for ever, or be told of it again and again."""
    (tmp_path / "here").mkdir()
    (tmp_path / "link").symlink_to("target")
    assert await watch(client, 1, tmp_path / "a", tmp_path / "b")
    assert await watch(client, 2, tmp_path / "deep/below/c")
    assert await watch(client, 2**64 - 1, tmp_path / "never", present=tmp_path / "here")
    assert await watch(client, 4, tmp_path / "link")
    (tmp_path / "b").touch()
    await changed(client, 1)
    (tmp_path / "deep/below").mkdir(parents=True)
    (tmp_path / "deep/below/c").touch()
    await changed(client, 2)
    (tmp_path / "here").rmdir()
    await changed(client, 2**64 - 1)
    (tmp_path / "target").touch()
    await changed(client, 4)
    (tmp_path / "a").touch()
    assert await watch(client, 1, tmp_path / "later")
    (tmp_path / "later").touch()
    await changed(client, 1)


async def test_when_there_is_nothing_to_wait_for(client: Client, tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    assert not await watch(client, 1)
    assert not await watch(client, 1, tmp_path / "none", tmp_path / "f")
    assert not await watch(client, 1, tmp_path / "none", present=tmp_path / "gone")
    assert await watch(client, 1, tmp_path / "none")
    assert not await watch(client, 1, tmp_path / "other"), "the id was in use"
    assert await watch(client, 2, tmp_path / "none")
    (tmp_path / "none").touch()
    (tmp_path / "other").touch()
    await changed(client, 2)


async def test_watches_are_bounded_and_end_with_their_connection(server: Program, tmp_path: Path) -> None:
    """A client could make the server look at files for ever."""
    async with session(server.url) as client:
        error = await expect_error(watch(client, 0, *[tmp_path / "none"] * 65))
        assert (error.code, error.data["kind"]) == (REFUSED, "tooMany")
        for number in range(64):
            assert await watch(client, number, tmp_path / "none")
        error = await expect_error(watch(client, 64, tmp_path / "none"))
        assert (error.code, error.data["kind"]) == (REFUSED, "tooMany")
        session_id = client.session_id
        await client.abort()
    async with connected(server.url) as again:
        await again.initialize(session_id)
        assert await watch(again, 5, tmp_path / "mine")
        (tmp_path / "none").touch()
        (tmp_path / "mine").touch()
        await changed(again, 5)
