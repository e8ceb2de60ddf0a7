"""What this server adds to the wire, with real children: one test each (docs/protocol.md, "How the wire may grow")."""

from __future__ import annotations

import asyncio
import base64
import os
from typing import Any

import pytest

from tests.support.client import Client, RpcError, connected, expect_error, result_of, session
from tests.support.program import Program

pytestmark = pytest.mark.anyio

TRAP = "trap 'echo caught; exit 9' TERM; echo ready; while :; do sleep 0.05; done"


@pytest.fixture
def url(server: Program) -> str:
    """Of a server that other tests use too."""
    return server.url


async def wait(client: Client, process_id: str, **params: Any) -> dict[str, Any]:
    return await client.call("process/wait", processId=process_id, **params)


async def snapshot(client: Client, process_id: str) -> dict[str, Any]:
    result = await client.call("process/snapshot", processId=process_id)
    for stream in ("stdout", "stderr", "terminal"):
        result[stream] = base64.b64decode(result[stream])
    return result


# -- size and resize ----------------------------------------------------------------------------------------------


async def test_a_terminal_has_the_size_that_was_asked_for(url: str) -> None:
    async with session(url) as client:
        ended = await (await client.shell("p", "stty size", tty=True, rows=50, cols=132)).closed()
        assert ended.pty == b"50 132\r\n"


async def test_a_resize_reaches_the_program_as_sigwinch(url: str) -> None:
    """A full-screen program that does not hear of it draws for a window that is not there."""
    async with session(url) as client:
        script = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done"
        process = await client.shell("p", script, tty=True)
        await process.shows(b"ready")
        await client.call("process/resize", processId="p", rows=33, cols=77)
        assert b"33 77" in (await process.closed()).pty


async def test_a_resize_pipelined_behind_the_start_is_remembered(url: str) -> None:
    async with session(url) as client:
        process = client.follow("p", 1)
        argv = ["/bin/sh", "-c", "read line; stty size"]
        start = await client.send("process/start", processId="p", argv=argv, cwd="/", env={"PATH": "/bin"}, tty=True)
        resize = await client.send("process/resize", processId="p", rows=10, cols=20)
        await result_of(start)
        await result_of(resize)
        await process.write(b"\n")
        assert b"10 20" in (await process.closed()).pty


@pytest.mark.parametrize(("rows", "cols"), [(0, 80), (70_000, 80), (24, -1), (24, 65_536)])
async def test_a_size_out_of_range_is_refused(url: str, rows: int, cols: int) -> None:
    async with session(url) as client:
        process = await client.start("p", "/bin/cat", tty=True)
        error = await expect_error(client.call("process/resize", processId="p", rows=rows, cols=cols))
        assert error.code == -32602 and ("rows" in error.message or "cols" in error.message)
        assert await process.terminate()


async def test_pipes_cannot_be_resized_and_live_on(url: str) -> None:
    async with session(url) as client:
        process = await client.start("p", "/bin/sleep", "60")
        error = await expect_error(client.call("process/resize", processId="p", rows=1, cols=1))
        assert error.code == -32602
        assert await process.terminate()
        unknown = await expect_error(client.call("process/resize", processId="nobody", rows=1, cols=1))
        assert unknown.code == -32600


# -- how it ended -------------------------------------------------------------------------------------------------


async def test_a_death_by_signal_is_told_with_the_signal(url: str) -> None:
    """An exit code of 137 alone does not say whether the program chose it."""
    async with session(url) as client:
        for tty in (False, True):
            ended = await (await client.shell(f"p{tty}", "kill -9 $$", tty=tty)).closed()
            assert (ended.code, ended.signal, ended.reason) == (137, "SIGKILL", "signaled")
        chosen = await (await client.shell("chosen", "exit 137")).closed()
        assert (chosen.code, chosen.signal, chosen.reason) == (137, None, "exited")


async def test_terminate_is_told_as_the_reason_also_of_a_chosen_exit(url: str) -> None:
    async with session(url) as client:
        process = await client.shell("p", TRAP)
        await process.shows(b"ready")
        params = {"processId": "p", "mode": "graceful", "timeoutMs": 20_000}
        assert (await client.call("process/terminate", **params))["running"]
        ended = await process.closed()
        assert (ended.stdout, ended.code, ended.signal, ended.reason) == (b"ready\ncaught\n", 9, None, "terminated")


async def test_a_graceful_terminate_ends_in_a_kill(url: str) -> None:
    """A program that ignores SIGTERM must not live on for ever."""
    async with session(url) as client:
        process = await client.shell("p", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
        await process.shows(b"ready")
        await client.call("process/terminate", processId="p", mode="graceful", timeoutMs=200)
        ended = await process.closed()
        assert (ended.code, ended.signal, ended.reason) == (137, "SIGKILL", "terminated")


async def test_an_interactive_shell_on_a_terminal_ends_gracefully_too(url: str) -> None:
    """Such shells ignore SIGTERM; a hangup they obey."""
    async with session(url) as client:
        process = await client.start("p", "/bin/sh", "-i", tty=True)
        await client.call("process/terminate", processId="p", mode="graceful", timeoutMs=20_000)
        assert (await process.closed()).reason == "terminated"


async def test_a_time_limit_keeps_the_output_so_far(url: str) -> None:
    async with session(url) as client:
        process = await client.shell("p", "echo begun; exec sleep 60", timeoutMs=300)
        ended = await process.closed()
        assert (ended.stdout, ended.signal, ended.reason) == (b"begun\n", "SIGTERM", "timeout")


async def test_silence_ends_a_process_and_output_keeps_it_alive(url: str) -> None:
    async with session(url) as client:
        process = await client.shell(
            "p", "for i in 1 2 3 4; do echo $i; sleep 0.2; done; exec sleep 60", idleTimeoutMs=600
        )
        ended = await process.closed()
        assert (ended.stdout, ended.reason) == (b"1\n2\n3\n4\n", "idleTimeout")


@pytest.mark.parametrize("member", ["timeoutMs", "idleTimeoutMs", "closedAfterExitMs"])
@pytest.mark.parametrize("value", [-1, 1.5, 10**18, "1"])
async def test_times_that_are_none_are_refused(url: str, member: str, value: object) -> None:
    async with session(url) as client:
        error = await expect_error(client.shell("p", "true", **{member: value}))
        assert error.code == -32602 and member in error.message
        assert (await (await client.shell("p", "true")).closed()).code == 0


async def test_closed_does_not_wait_for_ever_for_a_background_job(url: str) -> None:
    """`closed` would never come while a daemon holds the pipe."""
    async with session(url) as client:
        process = await client.shell("p", "sleep 60 & echo done", closedAfterExitMs=200)
        assert (await process.closed()).stdout == b"done\n"


async def test_terminating_an_exited_process_ends_who_holds_its_pipe(url: str) -> None:
    async with session(url) as client:
        process = await client.shell("p", "sleep 60 & echo done")
        await process.exited()
        assert not await process.terminate()
        assert (await process.closed()).code == 0


# -- input --------------------------------------------------------------------------------------------------------


async def test_end_of_input_on_pipes(url: str) -> None:
    """`wc`, `sort` and every filter wait for it."""
    async with session(url) as client:
        process = await client.start("p", "/usr/bin/wc", "-c", pipeStdin=True)
        writes = [await client.send("process/write", **client.write_params("p", b"x" * 100_000)) for _ in range(30)]
        end = await client.send("process/closeStdin", processId="p")
        assert (await result_of(end))["status"] == "accepted"
        assert [(await result_of(each))["status"] for each in writes] == ["accepted"] * 30
        assert (await process.closed()).stdout.strip() == b"3000000"
        late = await client.call("process/closeStdin", processId="p")
        assert late["status"] == "stdinClosed"


async def test_end_of_input_on_a_terminal_is_what_termios_says(url: str) -> None:
    async with session(url) as client:
        process = await client.shell("p", "stty eof q; echo ready; cat; echo over", tty=True)
        await process.shows(b"ready")
        assert (await client.call("process/closeStdin", processId="p"))["status"] == "accepted"
        assert b"over" in (await process.closed()).pty


async def test_closing_input_that_is_not_open(url: str) -> None:
    async with session(url) as client:
        await client.start("p", "/bin/sleep", "60")
        assert (await client.call("process/closeStdin", processId="p"))["status"] == "stdinClosed"
        assert (await client.call("process/closeStdin", processId="nobody"))["status"] == "unknownProcess"


async def test_a_write_with_an_offset_is_never_doubled_and_never_leaves_a_hole(url: str) -> None:
    async with session(url) as client:
        process = await client.start("p", "/bin/cat", pipeStdin=True)
        first = await client.call("process/write", **client.write_params("p", b"hello"), offset=0)
        assert first["acceptedBytes"] == 5
        again = await client.call("process/write", **client.write_params("p", b"hello world"), offset=0)
        assert again["acceptedBytes"] == 11
        error = await expect_error(client.call("process/write", **client.write_params("p", b"!"), offset=99))
        assert error.code == -32602 and error.data["acceptedBytes"] == 11
        await client.call("process/closeStdin", processId="p")
        assert (await process.closed()).stdout == b"hello world"


async def test_a_signal_by_its_name(url: str) -> None:
    async with session(url) as client:
        process = await client.shell("p", "trap 'echo got it; exit 3' USR1; echo ready; while :; do sleep 0.05; done")
        await process.shows(b"ready")
        await process.signal("SIGUSR1")
        assert (await process.closed()).stdout == b"ready\ngot it\n"


async def test_an_unknown_signal_is_refused_with_those_that_are_known(url: str) -> None:
    async with session(url) as client:
        process = await client.start("p", "/bin/sleep", "60")
        error = await expect_error(process.signal("SIGNONE"))
        assert error.code == -32602 and "interrupt" in error.message and "SIGTERM" in error.message
        assert await process.terminate()


# -- waiting and looking ------------------------------------------------------------------------------------------


async def test_a_wait_answers_at_the_exit(url: str) -> None:
    async with session(url) as client:
        process = await client.start("p", "/bin/cat", pipeStdin=True)
        pending = await client.send("process/wait", processId="p")
        assert not (await wait(client, "p", waitMs=0))["exited"]
        await client.call("process/closeStdin", processId="p")
        result = await result_of(pending)
        assert (result["exited"], result["exitCode"], result["reason"]) == (True, 0, "exited")
        await process.closed()
        assert (await wait(client, "p"))["closed"]


async def test_a_wait_for_nobody_is_refused(url: str) -> None:
    async with session(url) as client:
        assert (await expect_error(wait(client, "nobody"))).code == -32600


async def test_a_snapshot_has_head_and_tail_and_counts_what_is_between(url: str) -> None:
    """A model that reads 50 MB of a build log needs the first error and the last words."""
    async with session(url) as client:
        script = "echo first; head -c 50000000 /dev/zero; echo last; echo quiet >&2"
        process = await client.shell("p", script, keep=False)
        await process.closed()
        result = await snapshot(client, "p")
        head = result["headBytes"]["stdout"]
        assert head == 65536 and result["stdout"].startswith(b"first\n\0\0") and result["stdout"].endswith(b"\0last\n")
        assert len(result["stdout"]) - head >= 65536
        assert len(result["stdout"]) + result["droppedBytes"]["stdout"] == 50_000_000 + len("first\nlast\n")
        assert result["truncated"] and result["stderr"] == b"quiet\n" and result["droppedBytes"]["stderr"] == 0
        assert (result["running"], result["exitCode"]) == (False, 0)


async def test_a_list_of_processes(url: str) -> None:
    """After a crash of the client this is how it finds what it left running."""
    async with session(url) as client:
        running = await client.start("running", "/bin/sleep", "60", cwd="/tmp", tty=True)
        await client.run("over", "/bin/sh", "-c", "exit 4")
        entries = {each["processId"]: each for each in (await client.call("process/list"))["processes"]}
        assert list(entries) == ["running", "over"]
        assert entries["running"]["argv"] == ["/bin/sleep", "60"] and entries["running"]["cwd"] == "file:///tmp"
        assert entries["running"]["running"] and entries["running"]["tty"]
        os.kill(entries["running"]["pid"], 0)
        assert (entries["over"]["running"], entries["over"]["exitCode"], entries["over"]["host"]) == (False, 4, None)
        await running.terminate()


async def test_a_start_in_a_folder_that_is_none_does_not_spoil_a_list(url: str) -> None:
    """The list was asked for before the start was answered."""
    async with session(url) as client:
        params = {"argv": ["true"], "cwd": "relative", "env": {}, "tty": False}
        starts, lists = [], []
        for number in range(20):
            starts.append(await client.send("process/start", processId=str(number), **params))
            lists.append(await client.send("process/list"))
        assert [await result_of(each) for each in lists] == [{"processes": []}] * 20
        for each in starts:
            error = await expect_error(result_of(each))
            assert error.code == -32602 and "relative" in error.message


async def test_eviction_is_told_to_the_byte(url: str) -> None:
    async with session(url) as client:
        process = await client.start("p", "/usr/bin/head", "-c", "5000000", "/dev/zero", keep=False)
        await process.closed()
        result = await process.read(afterSeq=0)
        kept = sum(len(base64.b64decode(each["chunk"])) for each in result["chunks"])
        assert result["evictedBytes"] + kept == 5_000_000
        assert result["firstRetainedOffset"] == result["evictedBytes"] == result["chunks"][0]["offset"]
        assert result["firstRetainedSeq"] == result["chunks"][0]["seq"]


async def test_an_answer_fits_what_the_client_can_take(url: str) -> None:
    async with connected(url, max_size=256 * 1024) as client:
        await client.initialize(maxMessageBytes=256 * 1024)
        process = await client.start("p", "/usr/bin/head", "-c", "900000", "/dev/zero")
        await process.closed()
        got, after = b"", 0
        while True:
            result = await process.read(afterSeq=after)
            if not result["chunks"]:
                break
            got += b"".join(base64.b64decode(each["chunk"]) for each in result["chunks"])
            after = result["nextSeq"] - 1
        assert got == bytes(900_000)


async def test_an_answer_that_cannot_fit_is_refused(url: str) -> None:
    """A client that set a limit drops its connection at a longer message."""
    async with connected(url, max_size=256 * 1024) as client:
        await client.initialize(maxMessageBytes=256 * 1024)
        script = "head -c 100000 /dev/zero; head -c 100000 /dev/zero >&2"
        await (await client.shell("p", script, keep=False)).closed()
        await client.run("q", "/bin/true", *["x" * 1000] * 300)
        for method in ("process/snapshot", "process/list"):
            error = await expect_error(client.call(method, processId="p"))
            assert (error.code, error.data["kind"]) == (-32600, "tooLarge"), method
        assert (await wait(client, "p"))["exited"]


async def test_a_client_that_can_take_next_to_nothing_is_refused(url: str) -> None:
    async with connected(url) as client:
        error = await expect_error(client.initialize(maxMessageBytes=1000))
        assert error.code == -32602 and "maxMessageBytes" in error.message


# -- holding, and the end of a connection -------------------------------------------------------------------------


async def test_the_owner_can_hold_a_childs_output(url: str) -> None:
    async with session(url) as client:
        process = await client.start("p", "/bin/cat", pipeStdin=True)
        await client.call("process/flow", processId="p", paused=True)
        await process.write(b"held\n")
        assert (await process.read(afterSeq=0, waitMs=100))["chunks"] == []
        await client.call("process/flow", processId="p", paused=False)
        await process.shows(b"held\n")
        await process.terminate()


async def test_a_hold_ends_with_its_connection(url: str) -> None:
    """Nobody would be left to release it."""
    async with session(url) as first:
        process = await first.start("p", "/bin/cat", pipeStdin=True)
        await first.call("process/flow", processId="p", paused=True)
        await process.write(b"held\n")
        await first.abort()
        async with connected(url) as second:
            await second.initialize(resume=first.session_id)
            second.follow("p")
            result = await second.call("process/read", processId="p", afterSeq=0, waitMs=20_000)
            assert base64.b64decode(result["chunks"][0]["chunk"]) == b"held\n"


async def test_a_process_can_end_with_its_connection(url: str) -> None:
    async with session(url) as first:
        await first.start("p", "/bin/sleep", "60", onDisconnect="terminate")
        await first.start("q", "/bin/sleep", "60", onDisconnect="keep")
        await first.abort()
        async with connected(url) as second:
            await second.initialize(resume=first.session_id)
            ended = await wait(second, "p", waitMs=20_000)
            assert (ended["exited"], ended["reason"]) == (True, "terminated")
            assert not (await wait(second, "q", waitMs=0))["exited"]
            await second.call("process/terminate", processId="q")


async def test_a_session_may_ask_for_a_life_of_its_own_length(url: str) -> None:
    """With 50 ms it is gone long before the 80 s of others. A try to resume it too early would prolong its life."""
    async with connected(url) as first, connected(url) as observer:
        observe_id = (await first.initialize(sessionTtlMs=50))["observeId"]
        await first.start("p", "/bin/sleep", "60")
        await observer.initialize()
        watched = observer.follow("p", 1)
        await observer.call("process/attach", observeId=observe_id, processId="p")
        await first.abort()
        await watched.closed()
        async with connected(url) as late:
            assert (await expect_error(late.initialize(resume=first.session_id))).code == -32600


# -- other sessions -----------------------------------------------------------------------------------------------


async def test_who_knows_a_session_id_has_power_over_its_processes(url: str) -> None:
    async with session(url) as owner, session(url) as other:
        process = await owner.start("p", "/bin/cat", pipeStdin=True)
        there = {"sessionId": owner.session_id}
        await other.call("process/write", **other.write_params("p", b"from afar\n"), **there)
        await process.shows(b"from afar\n")
        listed = await other.call("process/list", **there)
        assert [each["processId"] for each in listed["processes"]] == ["p"]
        read = await other.call("process/read", processId="p", afterSeq=0, **there)
        assert base64.b64decode(read["chunks"][0]["chunk"]) == b"from afar\n"
        assert (await other.call("process/terminate", processId="p", **there))["running"]
        assert (await process.closed()).reason == "terminated"


async def test_an_observe_id_gives_no_power(url: str) -> None:
    async with connected(url) as owner, session(url) as other:
        observe_id = (await owner.initialize())["observeId"]
        process = await owner.start("p", "/bin/sleep", "60")
        for method in ("process/terminate", "process/read", "process/list"):
            error = await expect_error(other.call(method, processId="p", sessionId=observe_id))
            assert error.code == -32600 and "unknown session" in error.message
        assert not (await wait(owner, "p", waitMs=0))["exited"]
        await process.terminate()


async def test_an_observer_sees_what_was_and_what_comes_under_an_id_of_its_own(url: str) -> None:
    async with connected(url) as owner, session(url) as observer:
        observe_id = (await owner.initialize())["observeId"]
        process = await owner.start("p", "/bin/cat", pipeStdin=True)
        await process.write(b"before\n")
        await process.shows(b"before\n")
        watched = observer.follow("mine", 1)
        attach = {"observeId": observe_id, "processId": "p", "as": "mine"}
        assert (await observer.call("process/attach", **attach))["nextSeq"] == 2
        await process.write(b"after\n")
        await watched.shows(b"after\n")
        read = await observer.call("process/read", processId="mine", afterSeq=1)
        assert base64.b64decode(read["chunks"][0]["chunk"]) == b"after\n"
        error = await expect_error(observer.call("process/terminate", processId="mine"))
        assert error.code == -32600 and error.data["kind"] == "notOwner"
        await owner.call("process/closeStdin", processId="p")
        ended = await watched.closed()
        assert (ended.stdout, ended.code) == (b"before\nafter\n", 0)
        assert (await wait(observer, "mine"))["closed"]


async def test_an_observer_is_told_when_the_session_it_watches_ends(url: str) -> None:
    async with connected(url) as owner, session(url) as observer:
        observe_id = (await owner.initialize(sessionTtlMs=0))["observeId"]
        await owner.start("p", "/bin/sleep", "60")
        watched = observer.follow("p", 1)
        await observer.call("process/attach", observeId=observe_id, processId="p")
        await owner.abort()
        assert (await watched.closed()).reason == "sessionEnded"


async def test_a_detached_observer_hears_nothing_more(url: str) -> None:
    async with connected(url) as owner, session(url) as observer:
        observe_id = (await owner.initialize())["observeId"]
        process = await owner.start("p", "/bin/cat", pipeStdin=True)
        observer.follow("p", 1)
        await observer.call("process/attach", observeId=observe_id, processId="p")
        await observer.call("process/detach", processId="p")
        await process.write(b"unheard\n")
        await process.shows(b"unheard\n")
        assert (await expect_error(observer.call("process/read", processId="p"))).code == -32600
        assert observer.processes["p"].methods == []
        await process.terminate()


async def test_what_cannot_be_watched(url: str) -> None:
    async with connected(url) as owner, session(url) as observer:
        result = await owner.initialize()
        observe_id = result["observeId"]
        await owner.start("p", "/bin/sleep", "60")
        own = await observer.start("p", "/bin/sleep", "60")
        cases: list[tuple[dict[str, Any], str]] = [
            ({"observeId": "no-such", "processId": "p", "as": "x"}, "unknown session"),
            ({"observeId": observe_id, "processId": "gone", "as": "x"}, "unknown process"),
            ({"observeId": observe_id, "processId": "p"}, "already in use"),
        ]
        for params, text in cases:
            error = await expect_error(observer.call("process/attach", **params))
            assert error.code == -32600 and text in error.message
        own_id = await expect_error(owner.call("process/attach", observeId=observe_id, processId="p", **{"as": "x"}))
        assert own_id.code == -32600
        assert await own.terminate()
        observer.follow("x", 1)
        await observer.call("process/attach", observeId=observe_id, processId="p", **{"as": "x"})
        taken = await expect_error(observer.shell("x", "true"))
        assert taken.code == -32600 and "already exists" in taken.message


async def test_an_observer_that_stops_reading_is_skipped_ahead_and_the_owner_is_not_slowed(url: str) -> None:
    """One stuck viewer must not stop a build, nor be left with a screen that is silently wrong."""
    size = 30_000_000
    async with connected(url) as owner, session(url) as observer:
        observe_id = (await owner.initialize())["observeId"]
        watched = Watcher()
        observer.processes["p"] = watched  # type: ignore[assignment]
        process = await owner.start(
            "p", "/bin/sh", "-c", f"read line; head -c {size} /dev/zero", pipeStdin=True, keep=False
        )
        await observer.call("process/attach", observeId=observe_id, processId="p")
        observer.stop_reading()
        await process.write(b"go\n")
        await process.closed()
        assert process.sizes["stdout"] == size
        observer.read_on()
        await observer.until(lambda: watched.closed, lambda: f"closed after {watched.next_seq}")
        assert watched.gap_bytes > 0 and watched.output_bytes + watched.gap_bytes == size


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_of_two_observers_the_one_that_pauses_is_told_exactly_what_it_missed(url: str) -> None:
    """100 MB while a viewer's machine sleeps for 5 s: the build goes on, and the viewer is right again afterwards."""
    size = 100_000_000
    script = f"read line; head -c {size} /dev/zero; read line; echo again"
    async with connected(url) as owner, session(url) as fast, session(url) as slow:
        observe_id = (await owner.initialize())["observeId"]
        watchers = {fast: Watcher(), slow: Watcher()}
        process = await owner.start("p", "/bin/sh", "-c", script, pipeStdin=True, keep=False)
        for observer, watcher in watchers.items():
            observer.processes["p"] = watcher  # type: ignore[assignment]
            await observer.call("process/attach", observeId=observe_id, processId="p")
        slow.stop_reading()
        paused = asyncio.create_task(asyncio.sleep(5))
        await process.write(b"go\n")
        await owner.until(lambda: process.sizes["stdout"] == size)
        await fast.until(lambda: watchers[fast].known_bytes == size)
        await paused
        assert watchers[slow].known_bytes < size
        slow.read_on()
        await slow.until(lambda: watchers[slow].known_bytes == size)
        assert watchers[slow].gap_bytes > size / 2
        gaps = watchers[slow].gap_bytes
        await process.write(b"go\n")
        for observer, watcher in watchers.items():
            await observer.until(lambda watcher=watcher: watcher.closed)
            assert watcher.known_bytes == size + len("again\n")
        assert watchers[slow].gap_bytes == gaps, "it was skipped ahead although it read again"


async def test_an_observer_that_comes_back_says_where_it_was(url: str) -> None:
    """A viewer that was away while its place was evicted: with `afterOffset` the gap is exact, and never nonsense."""
    async with connected(url) as owner, session(url) as observer:
        observe_id = (await owner.initialize())["observeId"]
        script = "echo first; read line; head -c 3000000 /dev/zero"
        process = await owner.start("p", "/bin/sh", "-c", script, pipeStdin=True, keep=False)
        await owner.until(lambda: process.sizes["stdout"] == 6)
        await process.write(b"go\n")
        await process.closed()
        watched: dict[str, Any] = {"observeId": observe_id, "processId": "p", "afterSeq": 1}
        for wrong in (4_000_000, 3_000_007):
            error = await expect_error(observer.call("process/attach", **watched, afterOffset=wrong))
            assert (error.code, error.data["kind"]) == (-32602, "wrongOffset")
        watcher = Watcher()
        watcher.next_seq = 2
        observer.processes["p"] = watcher  # type: ignore[assignment]
        await observer.call("process/attach", **watched, afterOffset=6)
        await observer.until(lambda: watcher.closed)
        assert watcher.gap_bytes > 0 and watcher.known_bytes == 3_000_000


class Watcher:
    """Hears events and gaps, and holds the sum to its promise: every seq heard, or in a gap."""

    def __init__(self) -> None:
        self.next_seq = 1
        self.output_bytes = self.gap_bytes = 0
        self.closed = False

    @property
    def known_bytes(self) -> int:
        """Of output that it heard, or was told that it did not."""
        return self.output_bytes + self.gap_bytes

    def feed(self, method: str, params: dict[str, Any]) -> None:
        first, last = (params["fromSeq"], params["toSeq"]) if method == "gap" else (params["seq"], params["seq"])
        assert first == self.next_seq, (method, params.get("seq"), self.next_seq)
        self.next_seq = last + 1
        if method == "gap":
            self.gap_bytes += params["bytes"]
        elif method == "output":
            self.output_bytes += len(base64.b64decode(params["chunk"]))
        self.closed = method == "closed"


async def test_initialize_says_what_is_in_force(url: str) -> None:
    async with connected(url) as client:
        result = await client.initialize()
        assert {"resize", "attach", "snapshot", "gracefulTerminate"} <= set(result["extensions"])
        assert result["server"]["name"] == "exec-server" and result["protocolVersion"] == "exec-server.v0"


async def test_other_hosts_are_refused_while_there_are_none(url: str) -> None:
    async with session(url) as client:
        error = await expect_error(client.shell("p", "true", host="elsewhere"))
        assert error.code == -32602 and "host" in error.message


# -- limits ---------------------------------------------------------------------------------------------------------


async def test_limits_are_in_force_before_the_program_runs_and_nothing_else_changes(url: str) -> None:
    """A shim that left a trace in the environment, the arguments or the descriptors would change what programs do."""
    script = "ulimit -t; ulimit -n; ulimit -f; echo $0 $1; env; ls /proc/self/fd | wc -l"
    env = {"PATH": "/usr/bin:/bin", "X": "caf\u00e9 \n="}
    limits = {"cpuSeconds": 7, "openFiles": 99, "fileSizeBytes": 51200}
    async with session(url) as client:
        argv = ("/bin/bash", "-c", script, "zero", "one")
        limited = await client.run("p", *argv, env=env, limits=limits)
        free = await client.run("q", *argv, env=env)
        assert limited.stdout.splitlines()[:3] == [b"7", b"99", b"50"]
        assert limited.stdout.splitlines()[3:] == free.stdout.splitlines()[3:]


async def test_a_program_that_uses_up_its_cpu_time_is_killed(url: str) -> None:
    async with session(url) as client:
        ended = await (await client.shell("p", "while :; do :; done", limits={"cpuSeconds": 1})).closed()
        assert ended.signal in ("SIGXCPU", "SIGKILL") and ended.reason == "signaled"


async def test_limited_commands_run_on_a_terminal_with_an_arg0_of_their_own(url: str) -> None:
    async with session(url) as client:
        process = await client.start(
            "p", "/bin/sh", "-c", "echo $0; ulimit -n; tty", tty=True, arg0="-login", limits={"openFiles": 50}
        )
        ended = await process.closed()
        assert ended.pty.startswith(b"-login\r\n50\r\n/dev/pts/")


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({"openFiles": 0}, "openFiles"),
        ({"cpuSeconds": -1}, "cpuSeconds"),
        ({"openFiles": 2**50}, "hard limit"),
    ],
)
async def test_limits_that_cannot_be_kept_are_refused(url: str, limits: dict[str, int], text: str) -> None:
    """A limit that is ignored is worse than none: somebody relies on it."""
    async with session(url) as client:
        error = await expect_error(client.shell("p", "true", limits=limits))
        assert error.code == -32602 and text in error.message
        assert (await (await client.shell("p", "true")).closed()).code == 0


async def test_a_limit_of_processes_is_kept_or_refused(url: str) -> None:
    """It needs the pids controller of a delegated cgroup v2, which not every machine has; ignored it never is."""
    async with session(url) as client:
        try:
            process = await client.shell("p", "true & true & true & true & wait; echo done", limits={"processes": 2})
        except RpcError as error:
            assert (error.code, error.data["kind"]) == (-32602, "limitUnsupported")
        else:
            assert b"done" not in (await process.closed()).stdout
