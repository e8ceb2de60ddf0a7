"""What a command in a managed sandbox cannot do, and what it still can. Each test tries the forbidden thing."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.client import ENV, Client, Ended, expect_error, session, start_params
from tests.support.managed import entry, managed, need_bubblewrap
from tests.support.program import Program, alive, eventually, marker, program, running

pytestmark = pytest.mark.anyio


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Path]:
    """A directory that commands may write to, beside one that they may not."""
    (tmp_path / "outside").mkdir()
    folder = tmp_path / "workspace"
    folder.mkdir()
    yield folder
    # Not Path.is_mount, which fails where a mount point goes while it looks.
    left = [name for name in (".git", ".codex", ".agents", ".aws") if os.path.ismount(folder / name)]
    assert not left


@pytest.fixture(params=[False, True], ids=["pipes", "terminal"])
def tty(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def run(client: Client, workspace: Path, script: str, sandbox: dict[str, Any], **more: Any) -> Ended:
    """Run a shell script in the sandbox."""
    shell = ("/bin/sh", "-c", script)
    return await client.run(f"p{len(client.processes)}", *shell, cwd=workspace.as_uri(), sandbox=sandbox, **more)


def shown(ended: Ended) -> str:
    return (ended.stdout + ended.stderr + ended.pty).decode()


async def test_nothing_is_written_outside(server: Program, workspace: Path, tty: bool) -> None:
    """Lost: all else that the server's user owns."""
    outside = workspace.parent / "outside"
    async with session(server.url) as client:
        script = f"echo in > in.txt && cat in.txt; echo out > {outside}/out.txt"
        start = start_params("p", "/bin/sh", "-c", script, cwd=workspace.as_uri(), sandbox=managed(workspace), tty=tty)
        process = client.follow("p", 1)
        assert (await client.call("process/start", **start))["sandboxType"] == "linuxSeccomp"
        ended = await process.closed()
        assert "in" in shown(ended) and "Read-only file system" in shown(ended)
        assert ended.code != 0 and process.exit is not None and process.exit["sandboxDenied"]
        assert (await process.read())["sandboxDenied"]
        assert (workspace / "in.txt").read_text() == "in\n" and not list(outside.iterdir())


async def test_what_is_no_denial_is_not_called_one(server: Program, workspace: Path) -> None:
    """Lost: clients ask the user to lift a sandbox that was not in the way."""
    async with session(server.url) as client:
        for script, code in (("echo sandbox", 0), ("echo plain; exit 3", 3)):
            process = await client.shell(f"p{code}", script, sandbox=managed(workspace))
            ended = await process.closed()
            assert ended.code == code and process.exit is not None and not process.exit["sandboxDenied"]
        free = await client.shell("free", "echo Permission denied; exit 1")
        assert (await free.closed()).code == 1 and free.exit is not None and not free.exit["sandboxDenied"]


async def test_a_link_inside_the_workspace_leads_nowhere_else(server: Program, workspace: Path, tty: bool) -> None:
    """Lost: whatever a command makes a link to in a place that it may write to."""
    target = workspace.parent / "outside" / "target"
    target.write_text("before")
    async with session(server.url) as client:
        script = (
            f"ln -s {target} link; ln -s {target.parent} folder; echo x > link; echo x > folder/new; ln {target} hard"
        )
        ended = await run(client, workspace, script, managed(workspace), tty=tty)
        assert ended.code and target.read_text() == "before" and list(target.parent.iterdir()) == [target]
        assert not (workspace / "hard").exists()


async def test_a_link_made_by_one_command_is_not_followed_for_the_next(server: Program, workspace: Path) -> None:
    """Lost: everything, if a command could turn a writable root into a link to `/`."""
    nested = workspace / "nested"
    nested.mkdir()
    async with session(server.url) as client:
        sandbox = managed(workspace, entry(nested, "write"))
        move = "mv nested moved && ln -s / nested"
        kept = await run(client, workspace, move, sandbox)  # there are protected names in it
        assert kept.code and not nested.is_symlink() and nested.is_dir()
        assert (await run(client, workspace, move, managed(workspace))).code == 0
        start = start_params("p", "true", cwd=workspace.as_uri(), sandbox=sandbox)
        error = await expect_error(client.call("process/start", **start))
        assert (error.code, error.data["kind"]) == (-32602, "sandboxUnsupported")
        assert str(nested) in error.message and "symbolic link" in error.message


async def test_protected_names_stay_as_they_are(server: Program, workspace: Path) -> None:
    """Lost: what git, or an agent, obeys outside of the sandbox: a hook runs there."""
    (workspace / ".git").mkdir()
    async with session(server.url) as client:
        script = "touch .git/hook; mv .git old; rmdir .git; mkdir -p .codex/x .agents/x; touch kept; ls -A"
        ended = await run(client, workspace, script, managed(workspace))
        assert "kept" in shown(ended)
        assert not list((workspace / ".git").iterdir())
        await eventually(lambda: {each.name for each in workspace.iterdir()} == {".git", "kept"}, "no mount point left")
        allowed = managed(workspace, entry(workspace / ".git", "write"))
        assert (await run(client, workspace, "touch .git/hook", allowed)).code == 0


async def test_a_protected_path_cannot_be_moved_away(server: Program, workspace: Path) -> None:
    """Lost: a read-only path deep in a workspace: rename a folder above it, and make another."""
    (workspace / "a" / "b" / "keep").mkdir(parents=True)
    async with session(server.url) as client:
        script = "mv a z; mv a/b a/z; mkdir -p a/b/keep/x; touch a/b/keep/y a/free a/b/free"
        ended = await run(client, workspace, script, managed(workspace, entry(workspace / "a/b/keep", "read")))
        assert ended.code == 1
        assert sorted(os.listdir(workspace / "a")) == ["b", "free"]
        assert sorted(os.listdir(workspace / "a" / "b")) == ["free", "keep"]
        assert os.listdir(workspace / "a" / "b" / "keep") == []


async def test_what_is_denied_cannot_be_read(server: Program, workspace: Path, tty: bool) -> None:
    """Lost: secrets."""
    secrets, token = workspace.parent / "secrets", workspace.parent / "token"
    secrets.mkdir()
    (secrets / "key").write_text("very secret")
    token.write_text("very secret")
    async with session(server.url) as client:
        sandbox = managed(workspace, entry(secrets, "none"), entry(token, "deny"))
        script = f"cat {token}; cat {secrets}/key; ls {secrets}; cat /proc/*/root{token}; mv {secrets} {workspace}"
        ended = await run(client, workspace, script, sandbox, tty=tty)
        assert "very secret" not in shown(ended) and "Permission denied" in shown(ended)


async def test_only_what_is_listed_is_there(server: Program, workspace: Path) -> None:
    """Lost: all that no entry allows to read."""
    hidden = workspace.parent / "outside" / "hidden"
    hidden.write_text("very secret")
    minimal = {"path": {"type": "special", "value": {"kind": "minimal"}}, "access": "read"}
    async with session(server.url) as client:
        sandbox = managed(workspace, minimal, reads=False)
        ended = await run(client, workspace, f"cat {hidden}; touch /x; touch here; pwd; ls {workspace.parent}", sandbox)
        assert "very secret" not in shown(ended) and "outside" not in shown(ended).replace(str(hidden), "")
        assert (workspace / "here").exists() and str(workspace).encode() in ended.stdout


REACH = """\
import socket, sys
with socket.socket(int(sys.argv[1])) as sock:
    sock.settimeout(5)
    sock.connect(eval(sys.argv[2]))
    print("reached")
"""


async def test_the_network_is_cut(server: Program, workspace: Path, tty: bool) -> None:
    """Lost: a way to carry data out, to the services of this machine too."""
    path = workspace / "socket"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        os.chdir(workspace)  # the names of Unix sockets are short
        unix.bind("socket")
        os.chdir("/")
        unix.listen()
        async with session(server.url) as client:
            for family, address in ((socket.AF_INET, tcp.getsockname()), (socket.AF_UNIX, "socket")):
                assert path.exists()
                argv = (sys.executable, "-c", REACH, str(int(family)), repr(address))
                where = {"cwd": workspace.as_uri(), "tty": tty}
                free = await client.run(f"free{family}", *argv, **where)
                assert "reached" in shown(free), "the test itself is wrong"
                held = await client.run(f"held{family}", *argv, **where, sandbox=managed(workspace))
                assert held.code and "reached" not in shown(held)
            enabled = managed(workspace, network="enabled")
            argv = (sys.executable, "-c", REACH, "2", repr(tcp.getsockname()))
            assert "reached" in shown(await client.run("enabled", *argv, sandbox=enabled))


async def test_loopback_works_inside(server: Program, workspace: Path) -> None:
    """Lost: tests that talk to a server of their own."""
    code = (
        "import socket; a = socket.create_server(('127.0.0.1', 0)); socket.create_connection(a.getsockname()); print(7)"
    )
    async with session(server.url) as client:
        ended = await client.run("p", sys.executable, "-c", code, sandbox=managed(workspace))
        assert ended.stdout == b"7\n"


async def test_other_processes_are_out_of_reach(server: Program, workspace: Path, tty: bool) -> None:
    """Lost: the server itself, and every other process of its user."""
    async with session(server.url) as client:
        other = await client.start("other", "/bin/sleep", "1000")
        pid = (await client.call("process/list"))["processes"][0]["pid"]
        script = f"kill -9 {pid} {server.pid}; ls /proc/{pid} /proc/{server.pid}; kill -9 -1; echo survived"
        ended = await run(client, workspace, script, managed(workspace), tty=tty)
        assert "No such" in shown(ended) or ended.code
        assert alive(pid) and alive(server.pid) and other.exit is None
        await other.terminate()


async def test_the_kernel_is_out_of_reach(server: Program, workspace: Path) -> None:
    """Lost: the machine. Root may write to /proc/sys without any capability: the handler of core dumps runs outside."""
    async with session(server.url) as client:
        handler = Path("/proc/sys/kernel/core_pattern").read_text()
        script = "for f in /proc/sys/kernel/core_pattern /sys/kernel/uevent_helper; do echo x > $f; done"
        script += "; mount -t tmpfs x /mnt; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status"
        ended = await run(client, workspace, script, managed(workspace))
        assert Path("/proc/sys/kernel/core_pattern").read_text() == handler
        assert sorted(ended.stdout.split()[1::2]) == [b"0000000000000000", b"0000000000000000", b"1"]


async def test_namespaces_inside_lift_nothing(server: Program, workspace: Path) -> None:
    """Lost: what is mounted read-only, or hidden. In a user namespace of its own a command has all capabilities."""
    (workspace / ".git").mkdir()
    secret = workspace.parent / "outside" / "secret"
    secret.write_text("very secret")
    async with session(server.url) as client:
        script = f"umount .git {secret.parent}; mount -o remount,bind,rw .git; touch .git/hook; cat {secret}"
        for flags in ("-rm", "-Um"):
            sandbox = managed(workspace, entry(secret.parent, "deny"))
            ended = await run(client, workspace, f"unshare {flags} sh -c '{script}'", sandbox)
            assert ended.code and "very secret" not in shown(ended)
        assert not list((workspace / ".git").iterdir())


TYPE = "import fcntl, termios\nfcntl.ioctl(0, termios.TIOCSTI, b'x')"


async def test_nobody_types_into_the_terminal_but_the_client(server: Program, workspace: Path) -> None:
    """Lost: what a shell outside would read as typed by the user."""
    async with session(server.url) as client:
        ended = await client.run("p", sys.executable, "-c", TYPE, tty=True, sandbox=managed(workspace))
        assert ended.code == 1 and b"Operation not permitted" in ended.pty


async def test_no_descriptor_leads_outside(server: Program, workspace: Path) -> None:
    """Lost: the sandbox, by way of an open directory or a pipe of the server's."""
    async with session(server.url) as client:
        code = "import os; print([fd for fd in range(3, 256) if os.path.exists(f'/proc/self/fd/{fd}')])"
        ended = await client.run("p", sys.executable, "-c", code, sandbox=managed(workspace))
        assert ended.stdout == b"[]\n"


async def test_environment_and_arguments_are_exact(server: Program, workspace: Path) -> None:
    """Lost: a variable, or arg0; or a secret, which everybody could read in the arguments of bwrap."""
    async with session(server.url) as client:
        env = {**ENV, "a.b": "1", "SECRET": "s3cr3t"}
        code = "import os; print(open('/proc/self/cmdline', 'rb').read()[:5], sorted(os.environ))"
        process = await client.start(
            "p",
            sys.executable,
            "-c",
            code + "; input()",
            arg0="hello",
            env=env,
            pipeStdin=True,
            sandbox=managed(workspace),
        )
        shown_so_far = await process.shows(b"\n")
        assert shown_so_far.startswith(b"b'hello'") and all(name.encode() in shown_so_far for name in env)
        pid = (await client.call("process/list"))["processes"][0]["pid"]
        assert b"s3cr3t" not in Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
        await process.write(b"\n")
        assert (await process.closed()).code == 0


async def test_signals_reach_the_command_and_not_the_sandbox(server: Program, workspace: Path) -> None:
    """Lost: a command that cleans up when it is told to end."""
    async with session(server.url) as client:
        script = "trap 'echo got int; exit 9' INT; echo ready; while :; do sleep 0.1; done"
        process = await client.shell("p", script, sandbox=managed(workspace))
        await process.shows(b"ready")
        await process.signal("interrupt")
        ended = await process.closed()
        assert (ended.code, ended.stdout) == (9, b"ready\ngot int\n")
        dies = await client.shell("dies", "echo ready; exec sleep 1000", sandbox=managed(workspace))
        await dies.shows(b"ready")
        await dies.signal("SIGTERM")
        assert (await dies.closed()).code == 128 + signal.SIGTERM


async def test_a_terminal_works_inside(server: Program, workspace: Path) -> None:
    """Lost: an interactive shell: its size, ^C for what runs in it, and its exit code."""
    async with session(server.url) as client:
        argv = ("/bin/bash", "--norc", "-i") if shutil.which("bash") else ("/bin/sh", "-i")
        env = {**ENV, "PS1": "> "}
        shell = await client.start("p", *argv, tty=True, rows=30, cols=90, env=env, sandbox=managed(workspace))
        await shell.shows(b"> ")
        await shell.write(b"stty size\n")
        await shell.shows(b"30 90")
        await client.call("process/resize", processId="p", rows=31, cols=91)
        await shell.write(b"stty size\n")
        await shell.shows(b"31 91")
        # A shell of its own prints it: by then it is in the foreground, and not the shell that started it.
        await shell.write(b"sh -c 'echo $((6*7)); exec sleep 1000'\n")
        await shell.shows(b"42")
        await shell.write(b"\x03")
        await shell.write(b"echo $((7*7))\n")
        await shell.shows(b"49")
        await shell.write(b"exit 5\n")
        assert (await shell.closed()).code == 5


async def test_descendants_end_with_the_command(server: Program, workspace: Path, tty: bool) -> None:
    """Lost: a daemon that outlives its sandboxed command, or one that nobody can kill."""
    async with session(server.url) as client:
        for how, script in (("exit", "exit 0"), ("terminate", "exec sleep 1000")):
            number = marker()
            command = f"setsid sleep {number} >/dev/null 2>&1 </dev/null & sleep {number} & echo ready; {script}"
            process = await client.shell(how, command, tty=tty, sandbox=managed(workspace))
            await process.shows(b"ready")
            if how == "terminate":
                assert await process.terminate()
            await process.closed()
            await eventually(lambda number=number: not running(number), "the descendants' end")  # type: ignore[misc]


async def test_failures_to_start_say_what_was_wrong(server: Program, workspace: Path, tty: bool) -> None:
    """Lost: telling a missing program from a broken sandbox."""
    gone = workspace.parent / "outside" / "gone"
    gone.mkdir()
    script = workspace / "script"
    script.write_text("#!/nonexistent/interpreter\n")
    script.chmod(0o755)
    async with session(server.url) as client:
        for argv, cwd, kind, word in (
            (["nosuchprogram"], workspace, "spawnNotFound", "nosuchprogram"),
            (["/nonexistent/program"], workspace, "spawnNotFound", "/nonexistent/program"),
            (["true"], gone, "spawnNotFound", str(gone)),
            ([str(script)], workspace, "spawnNotFound", str(script)),
        ):
            sandbox = managed(workspace, entry(gone.parent, "none"))
            start = start_params("p", *argv, cwd=cwd.as_uri(), sandbox=sandbox, tty=tty)
            error = await expect_error(client.call("process/start", **start))
            assert (error.code, error.data["kind"]) == (-32603, kind) or (gone == cwd and "denied" in error.message), (
                error
            )
            assert word in error.message
        assert (await client.call("process/list"))["processes"] == []


async def test_what_cannot_be_enforced_is_refused(server: Program, workspace: Path) -> None:
    """Lost: a sandbox that is looser than the client believes."""
    glob = {"path": {"type": "glob_pattern", "pattern": "**/*.env"}, "access": "deny"}
    unknown = {"path": {"type": "special", "value": {"kind": "unknown", "path": "x"}}, "access": "none"}
    above = {"path": {"type": "special", "value": {"kind": "project_roots", "subpath": "../x"}}, "access": "write"}
    plain = managed(workspace)
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        (managed(workspace, glob), {}, "**/*.env"),
        (managed(workspace, unknown), {}, "unknown"),
        (managed(workspace, above), {}, "../x"),
        (managed(workspace, entry("/proc", "write")), {}, "/proc"),
        (plain, {"networkProxy": {"proxy": {}}}, "networkProxy"),
        (plain, {"enforceManagedNetwork": True, "managedNetwork": {"loopbackPorts": [80]}}, "loopbackPorts"),
        (managed(workspace, network="enabled"), {"enforceManagedNetwork": True}, "enforceManagedNetwork"),
    ]
    async with session(server.url) as client:
        for sandbox, more, word in cases:
            start = start_params("p", "true", cwd=workspace.as_uri(), sandbox=sandbox, **more)
            error = await expect_error(client.call("process/start", **start))
            assert (error.code, error.data["kind"]) == (-32602, "sandboxUnsupported") and word in error.message, error
        strange = managed(workspace, {**entry("/etc", "write"), "except": ["/etc/passwd"]})
        error = await expect_error(client.call("process/start", **start_params("p", "true", sandbox=strange)))
        assert error.code == -32602 and "except" in error.message
        cut = start_params("p", "true", cwd=workspace.as_uri(), sandbox=plain, enforceManagedNetwork=True)
        assert (await client.call("process/start", **cut))["sandboxType"] == "linuxSeccomp"


async def test_without_bubblewrap_nothing_runs(tmp_path: Path) -> None:
    """Lost: the sandbox, and nobody would know."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "workspace").mkdir()
    need_bubblewrap()
    with program(env={**os.environ, "PATH": str(tmp_path / "empty")}) as bare:
        async with session(bare.url) as client:
            touch = ("/bin/sh", "-c", f"echo x > {tmp_path}/x")
            start = start_params("p", *touch, sandbox=managed(tmp_path / "workspace"))
            error = await expect_error(client.call("process/start", **start))
            assert (error.code, error.data["kind"]) == (-32602, "sandboxUnsupported")
            assert "install the package bubblewrap" in error.message
            assert not (tmp_path / "x").exists()


async def test_a_bubblewrap_that_does_not_work_is_refused(tmp_path: Path) -> None:
    """Lost: the reason, and how to mend it, where namespaces are forbidden."""
    (tmp_path / "bin").mkdir()
    broken = tmp_path / "bin" / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    with program(env={**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}) as server:
        async with session(server.url) as client:
            start = start_params("p", "true", sandbox=managed(tmp_path))
            error = await expect_error(client.call("process/start", **start))
            assert (error.code, error.data["kind"]) == (-32602, "sandboxUnsupported")
            assert "No permissions to create new namespace" in error.message and "user namespaces" in error.message
