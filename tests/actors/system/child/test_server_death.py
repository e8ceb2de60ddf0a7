"""A server that is killed with SIGKILL takes its children along, on pipes and terminals alike."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from actors.system.child.cgroup import current_cgroup
from tests.actors.system.child.support import PATIENCE, alive, ends, eventually, output_of, program

SERVER = """
from actors.system.child.cgroup import OwnCgroup, enter_own_cgroup
process_setup.become_subreaper()
process_setup.mark_descendants()
cgroup = enter_own_cgroup() if sys.argv[1] == "cgroup" else None
guardian = Guardian(cgroup if isinstance(cgroup, OwnCgroup) else None)
assert guardian.start()
NEST = '''
trap "" HUP TERM
sleep 1000 & echo $!
sh -c 'echo $$; exec sleep 1000' &
setsid sh -c 'echo $$; sleep 1000' &
(setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' &)
wait
'''
pids = [guardian.pid]
for tty in (False, True):
    child = start("sh", "-c", NEST, tty=tty)
    pids.append(child.pid)
    data = b""
    while data.count(b"\\n") < 4:
        data += read_until(child.master if tty else child.stdout, b"\\n")
    pids += [int(word) for word in data.split()]
"""
REST = """
say(*pids)
sys.stdin.read()
"""


def killed_server(way: str, more: str = "") -> list[int]:
    """The guardian's pid and those of everything that the server had started when it was killed."""
    with program(SERVER + more + REST, way) as server:
        assert server.stdout is not None
        pids = [int(word) for word in server.stdout.readline().split()]
        assert len(pids) == 11
        assert all(alive(pid) for pid in pids)
        server.send_signal(signal.SIGKILL)
        server.wait(PATIENCE)
    return pids


@pytest.mark.parametrize("more", ["", "guardian.check()\n"], ids=["at once", "later, when the guardian was told"])
def test_nothing_survives_a_killed_server(more: str) -> None:
    """Plain, in the background, deaf to hangups, in sessions of their own, daemons: none is left."""
    assert all(ends(pid) for pid in killed_server("plain", more))


def test_a_session_that_is_over_is_not_told_as_alive() -> None:
    """Lost: a stranger's processes, whose session has the number of a command that was over long before."""
    more = (
        "stranger = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
        "resource.prlimit(stranger.pid, resource.RLIMIT_RTTIME, (-1, -1))\n"
        "guardian.add(stranger.pid); guardian.remove(stranger.pid); guardian.check()\n"
        "say(stranger.pid)\n"
    )
    with program("import resource, subprocess\n" + SERVER + more + REST, "plain") as server:
        assert server.stdout is not None
        stranger = int(server.stdout.readline())
        pids = [int(word) for word in server.stdout.readline().split()]
        server.send_signal(signal.SIGKILL)
        server.wait(PATIENCE)
    assert all(ends(pid) for pid in pids)
    assert alive(stranger)
    os.kill(stranger, signal.SIGKILL)


@pytest.mark.skipif(isinstance(current_cgroup(), str), reason="no cgroup v2 is delegated to this process")
def test_nothing_survives_where_there_is_a_cgroup_and_the_cgroup_goes_too() -> None:
    more = "say(cgroup.path, os.getpid() in map(int, open(cgroup.path / 'cgroup.procs').read().split()))\n"
    with program(SERVER + more + REST, "cgroup") as server:
        assert server.stdout is not None
        path, inside = server.stdout.readline().split()
        assert inside == "True"
        pids = [int(word) for word in server.stdout.readline().split()]
        server.send_signal(signal.SIGKILL)
        server.wait(PATIENCE)
    assert all(ends(pid) for pid in pids)
    eventually(lambda: not os.path.exists(path), "the cgroup is left behind")


@pytest.mark.skipif(isinstance(current_cgroup(), str), reason="no cgroup v2 is delegated to this process")
def test_a_server_that_ends_by_itself_empties_and_removes_its_cgroup() -> None:
    lines = output_of(
        SERVER
        + "guardian.stop()\n"
        + "say(cgroup.kill_and_leave(), cgroup.path.exists())\n"
        + "say(all(ends(pid) for pid in pids))\n",
        "cgroup",
    )
    assert lines == ["True False", "True"]


def test_a_dead_guardian_is_replaced_and_told_the_list() -> None:
    """Somebody's `kill -9` on it must not cost the guarantee."""
    more = (
        "os.kill(guardian.pid, signal.SIGKILL)\n"
        "assert readable(guardian.fileno())\n"
        "eventually(guardian.check, 'it is not replaced')\n"
        "assert guardian.pid != pids[0] and ends(pids[0], 0)\n"
        "pids[0] = guardian.pid\n"
    )
    assert all(ends(pid) for pid in killed_server("plain", more))


def test_a_server_that_ends_by_itself_takes_the_guardian_along_and_nothing_else() -> None:
    lines = output_of(
        "guardian = Guardian()\n"
        "assert guardian.start()\n"
        "pid = guardian.pid\n"
        "child = start('sleep', '1000')\n"
        "guardian.stop()\n"
        "say(ends(pid, 0), alive(child.pid), guardian.fileno(), len(CHILDREN))\n"
        "end(child)\n"
    )
    assert lines == ["True True -1 1"]


def test_the_guardian_is_deaf_to_what_ends_a_service() -> None:
    """A service manager sends SIGTERM to all; the guardian must outlive the server, not go first."""
    lines = output_of(
        "guardian = Guardian()\n"
        "assert guardian.start()\n"
        "child = start('cat', pipe_stdin=True)\n"
        "status = lambda: open(f'/proc/{guardian.pid}/status').read()\n"
        "deaf = lambda: int(status().split('SigIgn:')[1].split()[0], 16) & 0x4003 == 0x4003\n"
        "eventually(deaf, 'it still listens')\n"
        "for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):\n"
        "    os.killpg(guardian.pid, number)\n"
        "end(child)\n"
        "say(guardian.check(), alive(guardian.pid))\n"
        "say(os.getsid(guardian.pid) == guardian.pid)\n"
        "say(sorted(os.listdir(f'/proc/{guardian.pid}/fd')))\n"
        "guardian.stop()\n"
    )
    assert lines == ["True True", "True", "['0', '1', '2']"]


def test_a_guardian_that_does_not_read_never_blocks_us() -> None:
    """Its pipe is full after some thousand starts; a write that waits for it would stop the whole server."""
    lines = output_of(
        "guardian = Guardian()\n"
        "assert guardian.start()\n"
        "first = guardian.pid\n"
        "os.kill(first, signal.SIGSTOP)\n"
        "for number in range(300_000):\n"
        "    guardian.add(1_000_000_000 + number % 10)\n"
        "    guardian.remove(1_000_000_000 + number % 10)\n"
        "    if guardian.fileno() >= 0 and readable(guardian.fileno(), 0):\n"
        "        break\n"
        "assert ends(first)\n"
        "eventually(guardian.check, 'it is not replaced')\n"
        "say(guardian.pid != first)\n"
        "guardian.stop()\n"
    )
    assert lines == ["True"]


def test_a_goodbye_that_the_guardian_cannot_read_is_not_taken_for_our_death() -> None:
    """It would kill the server's children, and the server, in the middle of an orderly end."""
    lines = output_of(
        "process_setup.mark_descendants()\n"
        "guardian = Guardian()\n"
        "assert guardian.start()\n"
        "child = start('sleep', '1000')\n"
        "pid = guardian.pid\n"
        "os.kill(pid, signal.SIGSTOP)\n"
        "for number in range(10_000):\n"
        "    guardian.add(1_000_000_000)\n"
        "guardian.stop()\n"
        "say(ends(pid, 0), alive(child.pid))\n"
        "end(child)\n"
    )
    assert lines == ["True True"]


def test_the_guardian_forgets_what_was_reaped() -> None:
    """Its number may be a stranger's by the time the server dies."""
    with program(
        "guardian = Guardian()\nassert guardian.start()\n"
        "child = start('true')\nwait_exit(child)\nchild.release()\n"
        "say(guardian.pid, child.pid, sorted(CHILDREN.watched))\nsys.stdin.read()\n"
    ) as server:
        assert server.stdout is not None
        guardian, _, watched = server.stdout.readline().split(maxsplit=2)
        assert watched.strip() == "[]"
        server.kill()
    assert ends(int(guardian))


def test_a_forked_process_does_not_keep_the_guardian_from_seeing_the_end() -> None:
    with program(
        "guardian = Guardian()\nassert guardian.start()\n"
        "forked = os.fork()\n"
        "if not forked:\n"
        "    os.setsid()\n"
        "    time.sleep(1000)\n"
        "child = start('sleep', '1000')\n"
        "say(forked, guardian.pid, child.pid)\nsys.stdin.read()\n",
        stderr=subprocess.DEVNULL,
    ) as server:
        assert server.stdout is not None
        forked, guardian, child = map(int, server.stdout.readline().split())
        server.kill()
        server.wait(PATIENCE)
        assert ends(child)
        assert ends(guardian)
        os.kill(forked, signal.SIGKILL)
