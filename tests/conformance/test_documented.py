"""Differences from upstream that no recorded trace shows; docs/compatibility.md says why they are."""

from __future__ import annotations

import os

import pytest

from tests.conformance.dialogue import Dialogue, text_of
from tests.conformance.helpers import closed, command, death_of, exited, printed, shell, until_forgotten
from tests.conformance.wires import serving
from tests.support.managed import need_bubblewrap

pytestmark = pytest.mark.anyio


async def test_chunks_are_larger(talk: Dialogue) -> None:
    """A fast child costs few messages: a chunk may be larger than upstream's 8192 bytes, never more than 64 KiB."""
    await talk.initialize()
    await talk.result("process/start", **command("p", "head", "-c", "16000000", "/dev/zero"))
    await closed(talk, "p")
    sizes = [len(text_of([each["params"]])) for each in talk.received if each.get("method") == "process/output"]
    assert sum(sizes) == 16_000_000
    assert 8192 < max(sizes) <= 65536


async def test_terminate_ends_descendants_in_other_sessions(talk: Dialogue) -> None:
    """`setsid` is no way out of terminate."""
    await talk.initialize()
    await talk.result("process/start", **shell("p", "setsid sleep 1000 >/dev/null 2>&1 & echo $!; wait"))
    death = death_of(await printed(talk, "p", 2))
    assert await talk.result("process/terminate", processId="p") == {"running": True}
    await death.come()


async def test_terminate_after_exit_brings_the_end(talk: Dialogue) -> None:
    """A client can end a process whose job holds the pipe; the answer is `running: false`, as upstream's."""
    await talk.initialize()
    await talk.result("process/start", **shell("p", "sleep 1000 & exit 0"))
    await exited(talk, "p")
    assert await talk.result("process/terminate", processId="p") == {"running": False}
    await closed(talk, "p")


async def test_background_jobs_outlive_the_record() -> None:
    """When the record of a finished command is dropped, its jobs run on, as long as the session lives."""
    async with serving(process_retention=0.1) as server, server.stdio() as wire:
        talk = Dialogue(wire)
        await talk.initialize()
        await talk.result("process/start", **shell("p", "sleep 1000 >/dev/null 2>&1 & echo $!"))
        pid = int(await printed(talk, "p", 2))
        death = death_of(b"%d" % pid)
        await closed(talk, "p")
        await until_forgotten(talk, "p")
        os.kill(pid, 0)
        await talk.result("process/start", **command("p", "true"))
        await closed(talk, "p")
        os.kill(pid, 0)
        await talk.close()
        await death.come()


async def test_evicted_output_is_counted() -> None:
    """A reader sees that something is missing, and how much."""
    async with serving(retained_output=65536) as server, server.websocket() as wire:
        talk = Dialogue(wire)
        await talk.initialize()
        await talk.result("process/start", **command("p", "head", "-c", "1000000", "/dev/zero"))
        await closed(talk, "p")
        read = await talk.result("process/read", processId="p")
        retained = len(text_of(read["chunks"]))
        assert retained <= 65536
        assert read["evictedBytes"] == 1_000_000 - retained == read["firstRetainedOffset"]
        assert read["firstRetainedSeq"] == read["chunks"][0]["seq"] > 1


async def test_the_type_of_a_sandbox(talk: Dialogue) -> None:
    """It says what is enforced, not what was sent."""
    need_bubblewrap()
    await talk.initialize()
    files = {"type": "unrestricted"}
    for number, (permissions, expected) in enumerate(
        (
            ({"type": "managed", "file_system": files, "network": "restricted"}, "linuxSeccomp"),
            ({"type": "managed", "file_system": files, "network": "enabled"}, "none"),
            ({"type": "disabled"}, "none"),
            ({"type": "external", "network": "enabled"}, "none"),
        )
    ):
        sandbox = {"permissions": permissions, "windowsSandboxLevel": "disabled"}
        result = await talk.result("process/start", **command(f"p{number}", "true", sandbox=sandbox))
        assert result["sandboxType"] == expected


async def test_signals_by_their_names(talk: Dialogue) -> None:
    """Upstream knows `interrupt` alone."""
    await talk.initialize()
    await talk.result("process/start", **command("p", "sleep", "1000"))
    assert await talk.result("process/signal", processId="p", signal="SIGUSR1") == {}
    assert (await exited(talk, "p"))["exitCode"] == 138


async def test_an_id_is_free_when_its_record_is_dropped() -> None:
    """As upstream after 80 s: until then the id is in use, then `unknown process id`."""
    async with serving(process_retention=0.1) as server, server.websocket() as wire:
        talk = Dialogue(wire)
        await talk.initialize(resumeSessionId=None)
        await talk.result("process/start", **command("r", "true"))
        await closed(talk, "r")
        await until_forgotten(talk, "r")
        await talk.expect_error(await talk.call("process/read", processId="r"), -32600, "unknown process id r")
        assert (await talk.result("process/start", **command("r", "true")))["processId"] == "r"
