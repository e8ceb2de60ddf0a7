"""Ways out of a managed sandbox, by system calls that mounts and namespaces do not stop."""

from __future__ import annotations

import os
import platform
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.system.child.environment import is_private
from tests.support.client import expect_error, session
from tests.support.managed import managed
from tests.support.program import Program, program

pytestmark = pytest.mark.anyio

BASE = str(Path(sys.base_prefix) / "bin" / "python3")
"""Outside of a virtual environment, so that nothing of it is needed."""


@pytest.fixture
def server() -> Iterator[Program]:
    with program() as started:
        yield started


async def inside(server: Program, workspace: Path, script: str, network: str = "restricted") -> list[str]:
    """What a Python script prints that runs in a sandbox, each line."""
    async with session(server.url) as client:
        box = managed(workspace, network=network)
        ended = await client.run("p", BASE, "-I", "-c", script, cwd=workspace.as_uri(), sandbox=box)
        assert ended.code == 0, ended.stderr.decode()
        return ended.stdout.decode().splitlines()


async def test_no_datagram_leaves_by_a_pair(server: Program, tmp_path: Path) -> None:
    """H3. Lost: whatever the command may read, to an accomplice's socket or to /dev/log."""
    workspace = tmp_path / "ws"
    workspace.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as outside:
        outside.bind(str(tmp_path / "outside"))
        outside.setblocking(False)
        script = f"""
import socket
for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, socket.SOCK_DGRAM | 1 << 32):
    try:
        a, b = socket.socketpair(socket.AF_UNIX, kind)
        a.sendto(b"secret", {str(tmp_path / "outside")!r})
        print("sent")
    except (PermissionError, OverflowError) as error:
        print(type(error).__name__)
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC):
    a, b = socket.socketpair(socket.AF_UNIX, kind)
    a.send(b"x"); print(b.recv(1).decode())
"""
        said = await inside(server, workspace, script)
        assert said == ["PermissionError"] * 3 + ["OverflowError"] + ["x"] * 3
        with pytest.raises(BlockingIOError):
            outside.recv(100)


@pytest.mark.parametrize("network", ["restricted", "enabled"])
async def test_no_program_gets_another_users_rights(server: Program, tmp_path: Path, network: str) -> None:
    """H5. Lost: the server's user, to every other user of the machine who runs what a command has left."""
    numbers = {"fchmodat2": 452, "openat2": 437}
    if platform.machine() == "x86_64":  # the older calls are not there elsewhere
        numbers |= {"chmod": 90, "fchmodat": 268, "open": 2, "creat": 85, "mkdir": 83, "mknod": 133}
    script = f"""
import ctypes, errno, os, stat
libc = ctypes.CDLL(None, use_errno=True)
numbers = {numbers}
def raw(name, *args):
    if name not in numbers: return
    ctypes.set_errno(0)
    if libc.syscall(numbers[name], *args) < 0: print(name, errno.errorcode[ctypes.get_errno()])
    else: print(name, "done")
open("f", "w").close()
fd = os.open("f", os.O_RDONLY)
for mode in (0o4755, 0o2755, 0o6777):
    for call in (
        lambda: os.chmod("f", mode), lambda: os.fchmod(fd, mode), lambda: os.mkdir("d", mode),
        lambda: os.open("new", os.O_CREAT | os.O_WRONLY, mode), lambda: os.open(".", os.O_TMPFILE | os.O_WRONLY, mode),
        lambda: os.mknod("n", mode | stat.S_IFREG),
    ):
        try: call(); print("done")
        except PermissionError: pass
    raw("chmod", b"f", mode); raw("fchmodat", -100, b"f", mode); raw("fchmodat2", -100, b"f", mode, 0)
    raw("open", b"r", os.O_CREAT | os.O_WRONLY, mode); raw("creat", b"r", mode); raw("mkdir", b"e", mode)
    raw("mknod", b"m", mode | stat.S_IFREG, 0)
    raw("openat2", -100, b"o", (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, mode, 0), 24)
os.chmod("f", 0o1711); os.mkdir("fine", 0o755); os.close(os.open("made", os.O_CREAT | os.O_WRONLY, 0o755))
os.open("f", os.O_RDONLY, 0o6777)
print("end")
"""
    said = await inside(server, tmp_path, script, network)
    assert said[-1] == "end"
    allowed = {f"{name} {'ENOSYS' if name == 'openat2' else 'EPERM'}" for name in numbers}
    assert set(said[:-1]) == allowed
    assert not [path for path in tmp_path.glob("[!.]*") if path.stat().st_mode & 0o6000]
    assert {path.name for path in tmp_path.iterdir()} >= {"f", "fine", "made"}


@pytest.mark.parametrize("network", ["restricted", "enabled"])
async def test_no_user_namespace_is_made_inside(server: Program, tmp_path: Path, network: str) -> None:
    """L12. Lost: the capabilities that one has in it, and what of the kernel they open."""
    numbers = {"x86_64": (56, 272), "aarch64": (220, 97)}[platform.machine()]
    script = f"""
import ctypes, errno, os, subprocess, threading
libc = ctypes.CDLL(None, use_errno=True)
clone, unshare = {numbers}
calls = (clone, (0x10000011, 0, 0, 0, 0)), (unshare, (0x10000000,)), (435, (None, 0)), (425, (8, None))
for number, args in calls:
    print(libc.syscall(number, *args), errno.errorcode[ctypes.get_errno()])
thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
print(subprocess.run(["echo", "child"], capture_output=True, text=True).stdout.strip())
"""
    said = await inside(server, tmp_path, script, network)
    assert said == ["-1 EPERM", "-1 EPERM", "-1 ENOSYS", "-1 EPERM", "thread", "child"]


async def test_a_copy_has_no_rights_of_the_servers_user(server: Program, tmp_path: Path) -> None:
    """H5. Lost: root, where a server of root copies a program of another user that has the set-user-ID bit."""
    (tmp_path / "tree").mkdir()
    for source in (tmp_path / "source", tmp_path / "tree" / "source"):
        source.write_text("#!/bin/sh\n")
        os.chown(source, 65534, 65534)
        source.chmod(0o6755)
    (tmp_path / "old").write_text("old")
    async with session(server.url) as client:
        for name, new in (("source", "new"), ("source", "old"), ("tree", "copy")):
            paths = {"sourcePath": (tmp_path / name).as_uri(), "destinationPath": (tmp_path / new).as_uri()}
            await client.call("fs/copy", **paths, recursive=True)
    for new in ("new", "old", "copy/source"):
        assert (tmp_path / new).stat().st_mode & 0o7777 == 0o755, new


async def test_a_link_that_another_user_has_planted_is_not_followed(server: Program, tmp_path: Path) -> None:
    """H6. Lost: a file of the server's user, overwritten through a link in /tmp that somebody else has made."""
    assert os.geteuid() == 0, "a link is given to another user here, which only root can"
    sticky = tmp_path / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    victim, source = tmp_path / "victim", tmp_path / "source"
    victim.write_text("mine")
    source.write_text("yours")
    (sticky / "planted").symlink_to(victim)
    (sticky / "own").symlink_to(victim)
    os.lchown(sticky / "planted", 65534, 65534)

    calls = (
        ("fs/writeFile", {"dataBase64": "eA=="}, "path"),
        ("fs/copy", {"sourcePath": source.as_uri(), "recursive": False}, "destinationPath"),
        ("fs/open", {"handleId": "h", "mode": "replace"}, "path"),
    )
    async with session(server.url) as client:
        for method, params, where in calls:
            error = await expect_error(client.call(method, **params, **{where: (sticky / "planted").as_uri()}))
            assert "ermission denied" in error.message, method
            assert victim.read_text() == "mine", method
        for method, params, where in calls:
            await client.call(method, **params, **{where: (sticky / "own").as_uri()})
            assert victim.read_text() != "mine", method
            victim.write_text("mine")


def test_the_servers_telemetry_is_its_own() -> None:
    """L7. Lost: the password of the collector of traces, to every command that inherits all, and every web server."""
    assert is_private("OTEL_EXPORTER_OTLP_HEADERS") and is_private("OTEL_EXPORTER_OTLP_TRACES_HEADERS")
    assert not is_private("HOTEL_NAME")


async def test_the_servers_secrets_cannot_be_read_inside(tmp_path: Path) -> None:
    """H4. Lost: the sandbox, by a token with which a command starts others outside of it."""
    workspace, state = tmp_path / "ws", tmp_path / "state" / "exec-server"
    workspace.mkdir()
    (state / "sessions").mkdir(parents=True)
    (state / "sessions" / "x.json").write_text("secret")
    audit = workspace / "audit"
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    with program("--audit", str(audit), env=env) as server:
        script = f"""
for path in {str(audit)!r}, {str(state / "sessions" / "x.json")!r}:
    for mode in "r", "a":
        try:
            with open(path, mode) as file: print(file.read())
        except OSError as error: print("no")
"""
        assert await inside(server, workspace, script, "enabled") == ["no"] * 4
    assert audit.read_text()
