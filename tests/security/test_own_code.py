"""Ways to have the server run what a command or a folder offers: its modules, its helper programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from actors.system.sandbox import probe
from tests.support.client import expect_error, session, start_params
from tests.support.managed import entry, managed, need_bubblewrap
from tests.support.program import program

pytestmark = pytest.mark.anyio

POISON = """
import os
open(os.path.dirname(os.path.abspath(__file__)) + '/ran-' + __name__, 'w').close()
raise SystemExit(99)
"""
NAMES = ("json", "pyte", "aiohttp", "jwt", "idna", "ptyprocess", "msgspec", "argparse", "sqlite3", "signal")
SCRIPT = Path(sysconfig.get_path("scripts")) / "exec-server"


@pytest.fixture
def poisoned(tmp_path: Path) -> Path:
    """A folder with modules that the server or the command line might take for their own."""
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(POISON)
    return tmp_path


def ran(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("ran-*"))


@pytest.mark.parametrize("how", ["script", "-P", "-m"])
def test_no_module_of_the_current_folder_is_loaded(poisoned: Path, how: str) -> None:
    """C1. Lost: the machine of whoever types `exec-server run` in a folder of somebody else."""
    # With a bare -m Python itself looks there for what it needs before us: json is not of that.
    command = (
        [str(SCRIPT)] if how == "script" else [sys.executable, *(["-P"] if how == "-P" else []), "-m", "exec_server"]
    )
    env = {**os.environ, "PYTHONPATH": ":"} if how == "script" else dict(os.environ)
    done = subprocess.run(
        [*command, "run", "--", "/bin/echo", "it ran"],
        cwd=poisoned,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran(poisoned) == []
    assert (done.returncode, done.stdout) == (0, "it ran\n"), done.stderr


async def test_no_module_is_loaded_that_a_command_has_made(tmp_path: Path) -> None:
    """C1. Lost: the sandbox, which a command leaves by a module that the server loads later."""
    with program(cwd=str(tmp_path)) as server:
        async with session(server.url) as client:
            script = "".join(f'echo \'open("{tmp_path}/ran-{name}", "w")\' > {name}.py; ' for name in NAMES)
            box = managed(tmp_path)
            ended = await client.run("p", "/bin/sh", "-c", script, cwd=tmp_path.as_uri(), sandbox=box)
            assert ended.code == 0 and len(list(tmp_path.glob("*.py"))) == len(NAMES)
            await client.shell("t", "sleep 30", tty=True, sandbox=box)
            await client.call("process/screen", processId="t")
            assert ran(tmp_path) == []


async def test_bwrap_is_not_looked_up_again(tmp_path: Path) -> None:
    """H1. Lost: everything, if a sandboxed command puts a bwrap into PATH and the server runs it."""
    need_bubblewrap()
    folder = tmp_path / "node_modules" / ".bin"
    folder.mkdir(parents=True)
    with program(env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}) as server:
        async with session(server.url) as client:
            fake = f"printf '#!/bin/sh\\ntouch {tmp_path}/escaped\\n' > {folder}/bwrap; chmod 755 {folder}/bwrap"
            ended = await client.run("p", "/bin/sh", "-c", fake, cwd=tmp_path.as_uri(), sandbox=managed(tmp_path))
            assert ended.code == 0 and os.access(folder / "bwrap", os.X_OK)
            ended = await client.run(
                "q", "/bin/sh", "-c", "echo x > /x", cwd=tmp_path.as_uri(), sandbox=managed(tmp_path)
            )
            assert ended.code != 0 and not (tmp_path / "escaped").exists()


async def test_a_bwrap_of_another_user_is_not_run(tmp_path: Path) -> None:
    """H1. Lost: the server's user, to whoever owns a folder in its PATH."""
    need_bubblewrap()
    assert os.geteuid() == 0, "a file is given to another user here, which only root can"
    real = shutil.which("bwrap")
    assert real
    folder = tmp_path / "bin"
    folder.mkdir()
    fake = folder / "bwrap"
    fake.write_text(f"#!/bin/sh\ntouch {tmp_path}/escaped\n")
    for change in ("file", "folder", "mode"):
        fake.chmod(0o777 if change == "mode" else 0o755)
        os.chown(fake, 65534 if change == "file" else 0, 0)
        os.chown(folder, 65534 if change == "folder" else 0, 0)
        for path, works in ((str(folder), False), (f"{folder}:{os.environ['PATH']}", True)):
            with program(env={**os.environ, "PATH": path}) as server:
                async with session(server.url) as client:
                    start = start_params("p", "/bin/true", sandbox=managed(tmp_path))
                    if works:
                        await client.call("process/start", **start)
                    else:
                        error = await expect_error(client.call("process/start", **start))
                        assert error.data["kind"] == "sandboxUnsupported" and "another user" in error.message
            assert not (tmp_path / "escaped").exists()


async def test_what_the_server_runs_is_never_writable() -> None:
    """H2. Lost: the sandbox, by one entry that names the server's code, or something in it."""
    need_bubblewrap()
    site_packages = Path(sysconfig.get_path("purelib"))
    bwrap = probe.program()
    assert bwrap
    code = [
        site_packages, site_packages / "aiohttp", site_packages / "thespian", Path(sys.prefix),
        Path(sys.executable).parent,
        Path(sysconfig.get_path("stdlib")) / "json", Path(probe.__file__).parent, Path(bwrap).parent, Path(bwrap),
        Path(os.path.realpath(sys.executable)), site_packages / "new_module.py",
    ]  # fmt: skip
    with program() as server:
        async with session(server.url) as client:
            for path in code:
                for box in (managed(Path("/nowhere"), entry(path, "write")), managed(path)):
                    start = start_params("p", "/bin/sh", "-c", f"echo > {path}/poison.py || echo > {path}", sandbox=box)
                    error = await expect_error(client.call("process/start", **start))
                    assert error.data["kind"] == "sandboxUnsupported", path
                    assert "the server runs code from" in error.message


async def test_a_user_site_in_the_workspace_is_not_writable(tmp_path: Path) -> None:
    """H2. Lost: a server whose packages are in the home that commands may write to."""
    lib = tmp_path / "lib"
    lib.mkdir()
    with program(env={**os.environ, "PYTHONPATH": str(lib)}) as server:
        async with session(server.url) as client:
            script = f"echo x > {lib}/json.py; echo x > {lib}/sitecustomize.py; mv {lib} {tmp_path}/away; echo x > fine"
            await client.run("p", "/bin/sh", "-c", script, cwd=tmp_path.as_uri(), sandbox=managed(tmp_path))
    assert list(lib.iterdir()) == [] and (tmp_path / "fine").exists()
