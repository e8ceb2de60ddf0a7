"""Mixed load of many clients, each piece of which checks what it got: nothing may be lost, doubled or mixed up."""

from __future__ import annotations

import asyncio
import base64
import itertools
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

from tests.security.target import Target
from tests.security.test_bad_input import bombard
from tests.support.client import Client, Process, connected
from tests.support.program import dial
from tests.transport.support import UPGRADE

BAD_INPUTS = 100
"""In one go of the attacker."""

LOOKS = 8


def numbers(last: int) -> bytes:
    """What `seq 1 LAST` prints."""
    return b"".join(b"%d\n" % number for number in range(1, last + 1))


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


class Load:
    """Clients of one server until `run` is told to stop; `count` says what they have done."""

    def __init__(self, attacked: Target, folder: Path, seed: int) -> None:
        self.attacked = attacked
        self.folder = folder
        self.count: Counter[str] = Counter()
        self.memory: list[int] = []
        """Bytes of the server at `LOOKS` moments under load."""
        self._random = random.Random(seed)
        self._names = itertools.count()

    async def run(self, seconds: float) -> None:
        """Raises what any of the clients found wrong."""
        end = time.monotonic() + seconds
        jobs: list[Callable[[], Awaitable[None]]] = [
            *[self.commands] * 3,
            *[self.terminals] * 2,
            self.input,
            self.files,
            *[self.resumes] * 2,
            self.observers,
            self.slow_reader,
            self.drops,
        ]

        async def again(job: Callable[[], Awaitable[None]]) -> None:
            while time.monotonic() < end:
                await job()

        async def attack() -> None:
            while time.monotonic() < end:
                await asyncio.to_thread(bombard, self.attacked, BAD_INPUTS)
                self.count["connections"] += BAD_INPUTS

        async def look_at_memory() -> None:
            for _ in range(LOOKS):
                await asyncio.sleep(seconds / LOOKS)
                self.memory.append(self.attacked.server.rss())

        async with asyncio.TaskGroup() as group:
            for job in jobs:
                group.create_task(again(job))
            group.create_task(attack())
            group.create_task(look_at_memory())

    @asynccontextmanager
    async def _session(self, resume: str | None = None) -> AsyncIterator[Client]:
        encoding = self._random.choice(["json", "msgpack"])
        async with connected(self.attacked.server.url, encoding) as client:
            await client.initialize(resume)
            self.count["connections"] += 1
            yield client

    def _ended(self, output: bytes, expected: bytes) -> None:
        assert digest(output) == digest(expected), f"{len(output)} bytes of {len(expected)}, {output[-80:]!r}"
        self.count["commands"] += 1
        self.count["bytes checked"] += len(output)

    async def commands(self) -> None:
        """Output on both streams of pipes, many short ones and some long."""
        async with self._session() as client:
            for number in range(20):
                out, err = self._random.choice([1, 10, 500, 60_000]), self._random.choice([0, 3, 2000])
                ended = await client.run(f"c{number}", "/bin/sh", "-c", f"seq 1 {out}; seq 1 {err} >&2")
                self._ended(ended.stdout, numbers(out))
                assert ended.stderr == numbers(err) and (ended.code, ended.reason) == (0, "exited")
                del client.processes[f"c{number}"]

    async def terminals(self) -> None:
        """A dialogue on a terminal, which is resized, and ends by a signal."""
        async with self._session() as client:
            script = "stty -echo; echo ready; while read line; do echo got $line; done"
            shell = await client.shell("t", script, tty=True)
            await shell.shows(b"ready\r\n")
            lines = [b"%d" % self._random.randrange(10**9) for _ in range(20)]
            for line in lines:
                await shell.write(line + b"\n")
                await client.call("process/resize", processId="t", rows=self._random.randint(1, 99), cols=80)
                await shell.shows(b"got " + line + b"\r\n")
            await shell.signal()
            ended = await shell.closed()
            assert ended.signal == "SIGINT"
            self._ended(ended.pty, b"ready\r\n" + b"".join(b"got %b\r\n" % line for line in lines))
            self.count["terminals"] += 1

    async def input(self) -> None:
        """Input whose digest the child tells."""
        async with self._session() as client:
            data = self._random.randbytes(self._random.choice([0, 1, 70_000, 3_000_000]))
            process = await client.start("i", "/usr/bin/env", "sha256sum", pipeStdin=True)
            for at in range(0, len(data), 100_000):
                assert await process.write(data[at : at + 100_000]) == "accepted"
            await client.call("process/closeStdin", processId="i")
            self._ended((await process.closed()).stdout, f"{digest(data)}  -\n".encode())

    async def files(self) -> None:
        """Files that are written, found, read and removed."""
        async with self._session() as client:
            for _ in range(10):
                path = str(self.folder / f"file{next(self._names)}")
                data = self._random.randbytes(self._random.choice([0, 10, 300_000]))
                await client.call("fs/writeFile", path=path, dataBase64=base64.b64encode(data).decode())
                read = await client.call("fs/readFile", path=path)
                assert digest(base64.b64decode(read["dataBase64"])) == digest(data)
                await client.call("fs/remove", path=path)
                self.count["files"] += 1
                self.count["bytes checked"] += len(data)

    async def resumes(self) -> None:
        """A connection is cut again and again in the middle of output, and the session taken up."""
        last = 60_000
        script = "for n in 1 2 3 4 5 6; do seq $(($n * 10000 - 9999)) $(($n * 10000)); sleep 0.1; done"
        collected = Collected()
        session_id = ""
        async with self._session() as client:
            process = await client.shell("r", script)
            session_id = client.session_id
            await client.until(lambda: bool(process.chunks))
            await client.abort()
            collected.add_heard(process)
        for _ in range(3):
            async with self._session(session_id) as client:
                process = client.follow("r")
                await collected.read_on(client, until_end=False)
                await client.abort()
                collected.add_heard(process)
                self.count["resumes"] += 1
        async with self._session(session_id) as client:
            client.follow("r")
            await collected.read_on(client, until_end=True)
            self.count["resumes"] += 1
        self._ended(collected.output(), numbers(last))

    async def observers(self) -> None:
        """Others watch a process, from its beginning or from now on."""
        async with self._session() as owner, self._session() as other:
            process = await owner.shell("o", "read line; seq 1 20000", pipeStdin=True)
            seen = other.follow("o", 1)
            await other.call("process/attach", processId="o", observeId=owner.observe_id, afterSeq=0)
            await process.write(b"\n")
            expected = numbers(20000)
            self._ended((await process.closed()).stdout, expected)
            assert digest((await seen.closed()).stdout) == digest(expected)
            self.count["observers"] += 1

    async def slow_reader(self) -> None:
        """A client that does not read for a while: its child waits, and nothing is lost."""
        async with self._session() as client:
            last = 700_000
            process = await client.start("s", "/usr/bin/env", "seq", "1", str(last))
            client.stop_reading()
            await asyncio.sleep(0.5)
            client.read_on()
            self._ended((await process.closed()).stdout, numbers(last))

    async def drops(self) -> None:
        """Connections that come to nothing."""
        for number in range(20):
            with dial(self.attacked.server) as dropped:
                dropped.sendall(UPGRADE[: number * 11])
            self.count["connections"] += 1
        await asyncio.sleep(0.05)


class Collected:
    """Output of one process over many connections, by its numbers."""

    def __init__(self) -> None:
        self._chunks: dict[int, bytes] = {}

    def add_heard(self, process: Process) -> None:
        for seq, _, chunk in process.chunks:
            assert self._chunks.setdefault(seq, chunk) == chunk, f"seq {seq} has two contents"

    async def read_on(self, client: Client, until_end: bool) -> None:
        """Read what is missing; to the end of the output, or once."""
        while True:
            read = await client.call("process/read", processId="r", afterSeq=self._complete_to(), waitMs=1000)
            for each in read["chunks"]:
                chunk = base64.b64decode(each["chunk"])
                assert self._chunks.setdefault(each["seq"], chunk) == chunk, f"seq {each['seq']} has two contents"
            if not until_end or (read["closed"] and not read["chunks"]):
                return

    def _complete_to(self) -> int:
        """The last number before the first hole."""
        return next(seq for seq in itertools.count() if seq + 1 not in self._chunks)

    def output(self) -> bytes:
        return b"".join(self._chunks[seq] for seq in sorted(self._chunks))
