"""What the client is made to do, and what must come of it. One function a scenario; its docstring says what."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import re
import struct
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from tests.real_client.failure import check
from tests.real_client.mcp import STDIO_SERVER, HttpServer
from tests.real_client.model import function_call
from tests.real_client.play import Output, Play, patch, shell, typed
from tests.real_client.wire import Direction, Message
from tests.support.program import alive, eventually

AT_ONCE_MS = 400
"""For a command that is to run on: how long the tool waits before it says so."""
ECHO_LOOP = 'while IFS= read -r line; do [ "$line" = quit ] && exit 7; echo "got:$line:"; done'
ANCESTORS = (
    'p=$$; while [ "$p" -gt 1 ]; do printf "ancestor:%s\\n" "$p"; '
    "p=$(cut -d')' -f2- /proc/$p/stat | cut -d' ' -f3); done"
)


@dataclass(frozen=True)
class Scenario:
    """`beyond_upstream` ones fail against upstream's own server, `sandbox` ones where nothing can be confined."""

    name: str
    script: Callable[[Play], Awaitable[None]]
    sandbox: bool
    beyond_upstream: bool

    @property
    def purpose(self) -> str:
        return " ".join((self.script.__doc__ or "").split())


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    *, sandbox: bool = False, beyond_upstream: bool = False
) -> Callable[[Callable[[Play], Awaitable[None]]], Callable[[Play], Awaitable[None]]]:
    def add(script: Callable[[Play], Awaitable[None]]) -> Callable[[Play], Awaitable[None]]:
        name = script.__name__
        SCENARIOS[name] = Scenario(name, script, sandbox, beyond_upstream)
        return script

    return add


def must_succeed(output: Output, *texts: str) -> None:
    check(output.exit_code == 0, f"exit code {output.exit_code}: {output.text}")
    for text in texts:
        check(text in output.text, f"no {text!r} in {output.text}")


# Commands


@scenario()
async def short(play: Play) -> None:
    """A short command runs in its folder and in the server's environment, and is no child of the client."""
    await play.start()
    output = await play.one(shell(f"echo marker; pwd; {ANCESTORS}; echo side=$SIDE."))
    must_succeed(output, "marker", str(play.cwd), "ancestor:")
    check(str(play.pid) not in re.findall(r"ancestor:(\d+)", output.text), f"it ran below the client: {output.text}")
    starts = play.proxy.record.calls("process/start")
    check(len(starts) == 1, f"{len(starts)} process/start on the wire")
    if "SIDE" not in starts[0]["params"]["env"]:  # clients before 0.121 send their own environment
        check("side=client." not in output.text, f"it ran with the client's environment: {output.text}")


@scenario()
async def start_failure(play: Play) -> None:
    """A command in a folder that does not exist fails as a tool, and the session lives on."""
    await play.start()
    failed = await play.one(shell("echo ran", workdir=str(play.cwd / "not-there")))
    check(failed.exit_code is None and "ran" not in failed.text.split(), f"it ran: {failed.text}")
    must_succeed(await play.one(shell("echo alive")), "alive")


@scenario()
async def interactive(play: Play) -> None:
    """A command on a terminal is typed into, and its exit code arrives."""
    await play.start()
    first = await play.one(
        shell(f"pwd; test -t 0 && test -t 1 && echo is-tty; {ECHO_LOOP}", tty=True, wait_ms=AT_ONCE_MS)
    )
    await play.proxy.until_printed(b"is-tty")
    second = await play.one(typed(first.session, "hello\n", wait_ms=AT_ONCE_MS))
    await play.proxy.until_printed(b"got:hello:")
    last = await play.one(typed(first.session, "quit\n"))
    seen = first.text + second.text + last.text
    check(last.exit_code == 7, f"exit code {last.exit_code}: {last.text}")
    check(str(play.cwd) in seen and "is-tty" in seen and "got:hello:" in seen, f"the model saw {seen}")
    check(len(play.proxy.record.calls("process/write")) == 2, "two lines are two writes")


@scenario()
async def ctrl_c(play: Play) -> None:
    """^C reaches a command on a terminal and one on pipes; text for pipes is refused."""
    await play.start()
    trap = "trap 'echo caught; exit 5' INT; echo $((40 + 2))-ready; while :; do sleep 0.1; done"
    terminal, pipes = await play.turn(
        shell(trap, tty=True, wait_ms=AT_ONCE_MS), shell(trap, tty=False, wait_ms=AT_ONCE_MS)
    )
    await play.proxy.until(lambda record: record.output().count(b"42-ready") == 2)
    refused = await play.one(typed(pipes.session, "text\n", wait_ms=AT_ONCE_MS))
    check("stdin is closed" in refused.text, f"text was taken: {refused.text}")
    for session in (terminal.session, pipes.session):
        ended = await play.one(typed(session, "\x03"))
        check("caught" in ended.text and ended.exit_code == 5, f"exit code {ended.exit_code}: {ended.text}")


@scenario()
async def large(play: Play) -> None:
    """5 MB on pipes and 1 MB on a terminal arrive whole; the client shows head and tail."""
    await play.start()
    for size, tty in ((5_000_000, False), (1_000_000, True)):
        before = len(play.proxy.record.output())
        print_it = f"echo FIRST; head -c {size} /dev/zero | tr '\\0' x | fold -w 99; echo; echo LAST"
        must_succeed(await play.one(shell(print_it, tty=tty)), "FIRST", "LAST", "truncated")
        printed = play.proxy.record.output()[before:]
        check(printed.count(b"x") == size, f"{printed.count(b'x')} of {size} bytes arrived")


@scenario()
async def parallel(play: Play) -> None:
    """Four commands of one turn run at the same time: each waits for the others."""
    await play.start()
    outputs = await play.turn(
        *(shell(f"touch here.{n}; until [ $(ls here.* | wc -l) = 4 ]; do sleep 0.05; done; exit {n}") for n in range(4))
    )
    check([output.exit_code for output in outputs] == [0, 1, 2, 3], f"{[output.text for output in outputs]}")
    ids = {call["params"]["processId"] for call in play.proxy.record.calls("process/start")}
    check(len(ids) == 4, f"process ids {ids}")


async def pid_printed(play: Play) -> int:
    """Wait for `pid=N`, N being the number."""
    await play.proxy.until(lambda record: re.search(rb"pid=(\d+)\s", record.output()))
    found = re.search(rb"pid=(\d+)\s", play.proxy.record.output())
    assert found is not None
    return int(found[1])


@scenario()
async def left_running(play: Play) -> None:
    """A command that the model left running is ended with the client, and so are its jobs."""
    await play.start()
    output = await play.one(shell("sleep 100017 & echo pid=$!; wait", wait_ms=AT_ONCE_MS))
    check(output.session, "it runs on")
    pid = await pid_printed(play)
    check(alive(pid), "the job ended too early")
    await play.finish()
    await eventually(lambda: not alive(pid), "the end of the job")
    check(play.proxy.record.calls("process/terminate"), "no process/terminate on the wire")


@scenario()
async def user_interrupt(play: Play) -> None:
    """^C in the client's own terminal ends the command that runs."""
    await play.start()
    turn = asyncio.create_task(play.turn(shell("echo pid=$$; exec sleep 100018")))
    try:
        pid = await pid_printed(play)
        await play.interrupt()
        await eventually(lambda: not alive(pid), "the end of the command")
    finally:
        turn.cancel()
        await asyncio.gather(turn, return_exceptions=True)


# Cuts


@scenario()
async def reconnect(play: Play) -> None:
    """The network is gone for 2 s while a command prints: the model sees every line, once."""
    await play.start()
    count = "for n in $(seq 30); do echo line-$n; sleep 0.12; done; exit 4"
    turn = asyncio.create_task(play.one(shell(count)))
    await play.proxy.until_printed(b"line-3\n")
    await play.proxy.cut(2.0)
    output = await turn
    check(output.exit_code == 4, f"exit code {output.exit_code}: {output.text}")
    lines = re.findall(r"line-(\d+)", output.text)
    check(lines == [str(n) for n in range(1, 31)], f"lines lost or doubled: {lines}")
    resumed = play.proxy.record.calls("initialize")[-1]["params"].get("resumeSessionId")
    check(resumed, "the client did not resume its session")
    must_succeed(await play.one(shell("echo alive")), "alive")


@scenario()
async def reconnect_idle(play: Play) -> None:
    """The network is gone between two commands."""
    await play.start()
    must_succeed(await play.one(shell("echo first")), "first")
    await play.proxy.cut(0.5)
    must_succeed(await play.one(shell("echo second")), "second")
    check(play.proxy.record.connections >= 2, "there was no second connection")


@scenario()
async def reconnect_tty(play: Play) -> None:
    """A command on a terminal survives a cut, and is typed into afterwards."""
    await play.start()
    first = await play.one(shell(f"stty -echo; echo is-ready; {ECHO_LOOP}", tty=True, wait_ms=AT_ONCE_MS))
    await play.proxy.until_printed(b"is-ready")
    await play.proxy.cut(1.0)
    second = await play.one(typed(first.session, "after-cut\n", wait_ms=AT_ONCE_MS))
    await play.proxy.until_printed(b"got:after-cut:")
    last = await play.one(typed(first.session, "quit\n"))
    check("got:after-cut:" in second.text + last.text, f"the model saw {second.text} {last.text}")
    check(last.exit_code == 7, f"exit code {last.exit_code}: {last.text}")


@scenario()
async def write_retry(play: Play) -> None:
    """An answer to process/write is lost with its connection; the client writes again, the command reads it once."""
    await play.start()
    loop = 'stty -echo; echo is-ready; n=0; while IFS= read -r l; do n=$((n+1)); echo "got:$l:$n"; done'
    first = await play.one(shell(loop, tty=True, wait_ms=AT_ONCE_MS))
    await play.proxy.until_printed(b"is-ready")
    cuts: list[asyncio.Task[None]] = []

    def lose(direction: Direction, message: Message) -> list[Message] | None:
        if direction == "to server" or cuts or "status" not in (message.get("result") or {}):
            return None
        cuts.append(asyncio.create_task(play.proxy.cut(0.4)))
        return []

    play.proxy.alter = lose
    await play.one(typed(first.session, "hi\n", wait_ms=AT_ONCE_MS))
    await play.one(typed(first.session, "again\n", wait_ms=AT_ONCE_MS))
    await play.proxy.until(lambda record: b"got:again:" in printed(play))
    got = re.findall(rb"got:(\w+):(\d)", printed(play))
    check(got == [(b"hi", b"1"), (b"again", b"2")], f"the command read {got}")
    write_ids = [call["params"]["writeId"] for call in play.proxy.record.calls("process/write")]
    check(len(write_ids) > len(set(write_ids)), f"nothing was written again: {write_ids}")


def printed(play: Play) -> bytes:
    """All output, that of recoveries by process/read included; each seq once."""
    chunks: dict[int, str] = {}
    for frame in play.proxy.record.frames:
        if frame.direction == "to client":
            told = (frame.message.get("result") or {}).get("chunks", [])
            if frame.message.get("method") == "process/output":
                told = [frame.message["params"]]
            chunks.update((chunk["seq"], chunk["chunk"]) for chunk in told)
    return b"".join(base64.b64decode(chunks[seq]) for seq in sorted(chunks))


# Environments


@scenario()
async def environments_toml(play: Play) -> None:
    """The server is chosen by a file in place of a variable."""
    await play.start(
        environments='default = "box"\ninclude_local = false\n\n[[environments]]\nid = "box"\nurl = "{url}"\n'
    )
    must_succeed(await play.one(shell("echo by-file")), "by-file")
    check(play.proxy.record.calls("process/start"), "no process/start on the wire")


# Files


@scenario()
async def startup(play: Play) -> None:
    """The instructions and the skills of a project reach the model by way of the server's file methods."""
    play.cwd.joinpath(".git").mkdir()
    play.cwd.joinpath("AGENTS.md").write_text("INSTRUCTIONS-MARKER é\n")
    skill = play.cwd / ".agents" / "skills" / "greet"
    skill.mkdir(parents=True)
    skill.joinpath("SKILL.md").write_text("---\nname: greet\ndescription: SKILL-MARKER\n---\nSay hello.\n")
    await play.start()
    must_succeed(await play.one(shell("true")))
    assert play.asked is not None
    check("INSTRUCTIONS-MARKER é" in play.asked.text(), "AGENTS.md is not in the prompt")
    check("SKILL-MARKER" in play.asked.text(), "the project's skill is not in the prompt")
    check(play.proxy.record.calls("fs/readFile"), "no fs/readFile on the wire")


@scenario()
async def apply_patch(play: Play) -> None:
    """Files are added in new folders, updated, deleted and moved; patches that do not fit change nothing."""
    for name, content in {"edit.txt": "one\ntwo\nthree\n", "gone.txt": "bye\n", "old.txt": "move me\n"}.items():
        play.cwd.joinpath(name).write_text(content)
    await play.start()
    add = ("*** Add File: new/deep/added.txt", "+hello é", "+world")
    update = ("*** Update File: edit.txt", "@@", " one", "-two", "+TWO", " three")
    move = ("*** Update File: old.txt", "*** Move to: moved.txt", "@@", "-move me", "+moved")
    done = await play.one(patch(*add, *update, "*** Delete File: gone.txt", *move))
    check("Success" in done.text, done.text)
    expected = {"new/deep/added.txt": "hello é\nworld\n", "edit.txt": "one\nTWO\nthree\n", "moved.txt": "moved\n"}
    check(files(play.cwd) == expected, f"the folder has {files(play.cwd)}")
    wrong, missing = await play.turn(
        patch("*** Update File: edit.txt", "@@", "-absent", "+x"), patch("*** Delete File: never.txt")
    )
    check("Success" not in wrong.text and "Success" not in missing.text, f"{wrong.text} {missing.text}")
    check(files(play.cwd) == expected, f"a patch that does not fit left {files(play.cwd)}")
    check(play.proxy.record.calls("fs/writeFile"), "the patch did not go over the wire")


def files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@scenario()
async def view_image(play: Play) -> None:
    """A picture reaches the model; a missing file and a folder are told."""
    picture = play.cwd / "pic.png"
    picture.write_bytes(png(64, 64))
    await play.start()
    seen = await play.one(function_call("view_image", "", path=str(picture)))
    check("data:image/png;base64," in json.dumps(seen.raw), f"no picture: {seen.text}")
    missing, folder = await play.turn(
        function_call("view_image", "", path=str(play.cwd / "nope.png")),
        function_call("view_image", "", path=str(play.cwd)),
    )
    check("nope.png" in missing.text, missing.text)
    check("data:image" not in json.dumps(folder.raw), "a folder is no picture")


@scenario(beyond_upstream=True)
async def large_file(play: Play) -> None:
    """A picture of 40 MB reaches the model: more than one frame of the client's WebSocket may hold."""
    picture = play.cwd / "large.png"
    picture.write_bytes(png(64, 64, extra=40_000_000))
    await play.start()
    seen = await play.one(function_call("view_image", "", path=str(picture)))
    check("data:image/png;base64," in json.dumps(seen.raw), f"no picture: {seen.text}")
    largest = max(play.proxy.record.frames, key=lambda frame: sum(frame.fragments))
    check(sum(largest.fragments) > 53_000_000, f"the largest message has {sum(largest.fragments)} bytes")
    must_succeed(await play.one(shell("echo alive")), "alive")


def png(width: int, height: int, extra: int = 0) -> bytes:
    """A picture; `extra` bytes that no packer can shrink are added to it in a chunk that viewers pass over."""
    row = b"\0" + b"".join(bytes((x * 4 % 256, 0, 90)) for x in range(width))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    padding = png_chunk(b"exTr", random.Random(1).randbytes(extra)) if extra else b""
    pixels = png_chunk(b"IDAT", zlib.compress(row * height))
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + padding + pixels + png_chunk(b"IEND", b"")


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


# Servers of the Model Context Protocol that run on, or are reached from, the exec-server's machine


async def probed(play: Play, **arguments: str) -> Output:
    """Call the MCP server's tool; the client begins its turn without waiting for a server that is slow to start."""
    while "unsupported call" in (said := await play.one(function_call("hello", "", "mcp__probe", **arguments))).text:
        await play.one(shell("sleep 0.2"))
    return said


@scenario()
async def mcp_stdio(play: Play) -> None:
    """An MCP server is started by the exec-server, and talked to on its standard input and output."""
    play.cwd.joinpath("probe.py").write_text(STDIO_SERVER)
    await play.start(
        more='[mcp_servers.probe]\ncommand = "{python}"\nargs = ["{cwd}/probe.py"]\ncwd = "{cwd}"\n'
        'environment_id = "remote"\nstartup_timeout_sec = 20\nenv = {{ PROBE = "given" }}\n'
    )
    said = await probed(play, who="codex")
    check("hi codex PROBE=given" in said.text, f"the tool said {said.text}")
    piped = [call for call in play.proxy.record.calls("process/start") if call["params"].get("pipeStdin")]
    check(piped, "no process/start with pipeStdin on the wire")


@scenario()
async def mcp_http(play: Play) -> None:
    """An MCP server is reached over HTTP from the exec-server's machine; its answer is a stream of events."""
    async with HttpServer() as server:
        await play.start(
            more=f'[mcp_servers.probe]\nurl = "{server.url}"\nenvironment_id = "remote"\nstartup_timeout_sec = 20\n'
        )
        said = await probed(play)
        check("hi by http" in said.text, f"the tool said {said.text}")
        check("tools/call" in server.asked, f"the server was asked {server.asked}")
        check(play.proxy.record.calls("http/request"), "no http/request on the wire")
        check(play.proxy.record.notifications("http/request/bodyDelta"), "no streamed body on the wire")


# Sandboxes


@scenario(sandbox=True)
async def sandbox_workspace(play: Play) -> None:
    """Commands and patches may write within the workspace, and nowhere else."""
    await play.start(
        sandbox="workspace-write",
        more="[sandbox_workspace_write]\nexclude_slash_tmp = true\nexclude_tmpdir_env_var = true\n",
    )
    inside, outside = await play.turn(
        shell("echo inside > in.txt && cat in.txt"), shell(f"echo outside > {play.outside}/out.txt")
    )
    must_succeed(inside, "inside")
    check(outside.exit_code not in (0, None), f"exit code {outside.exit_code}: {outside.text}")
    # Of a path outside the client itself says no; that a link leads there only the server can see.
    play.cwd.joinpath("link").symlink_to(play.outside)
    added, refused = await play.turn(patch("*** Add File: a.txt", "+a"), patch("*** Add File: link/b.txt", "+b"))
    check("Success" in added.text and "Success" not in refused.text, f"{added.text} {refused.text}")
    asked = [call["params"]["path"] for call in play.proxy.record.calls("fs/writeFile")]
    check(any(path.endswith("link/b.txt") for path in asked), f"the server was asked to write {asked}")
    check(files(play.outside) == {}, f"written outside of the workspace: {files(play.outside)}")


@scenario(sandbox=True)
async def sandbox_read_only(play: Play) -> None:
    """Commands may read, and write nowhere; there is no network."""
    play.cwd.joinpath("kept.txt").write_text("kept\n")
    await play.start(sandbox="read-only")
    must_succeed(await play.one(shell("cat kept.txt")), "kept")
    written, connected = await play.turn(
        shell("echo new > kept.txt"), shell(f"bash -c 'echo > /dev/tcp/127.0.0.1/{play.model.port}'")
    )
    check(written.exit_code not in (0, None), f"exit code {written.exit_code}: {written.text}")
    check(connected.exit_code not in (0, None), f"a connection was made: {connected.text}")
    check(files(play.cwd) == {"kept.txt": "kept\n"}, f"written: {files(play.cwd)}")
