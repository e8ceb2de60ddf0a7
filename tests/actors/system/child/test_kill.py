"""Ending a command ends what it started, wherever that hid; its natural end does not."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest

from actors.system.child import descendants, proc
from actors.system.child.table import CHILDREN
from actors.system.pool import KILL_POOL, LANE_SIZE
from tests.actors.system.child.support import (
    alive,
    descriptors,
    end,
    ends,
    eventually,
    output_of,
    read_until,
    start,
    wait_exit,
)

WAYS = pytest.mark.parametrize("tty", [False, True], ids=["pipes", "terminal"])

NEST = """
trap '' HUP TERM
sleep 1000 & echo $!
setsid sh -c 'echo $$; exec sleep 1000' &
setsid sh -c 'setsid sh -c "echo \\$\\$; exec sleep 1000" & echo $$; wait' &
sh -c 'sleep 1000 & echo $!; echo $$; wait' &
wait
"""
"""Prints six pids: in the group, in sessions of their own, in a session below one, deaf to signals."""


def six_pids(data: bytes) -> list[int]:
    pids = [int(line) for line in data.split()]
    assert len(pids) == 6
    return pids


def read_lines(fd: int, count: int) -> bytes:
    data = b""
    while data.count(b"\n") < count:
        data += read_until(fd, b"\n")
    return data


@WAYS
def test_kill_tree_ends_descendants_in_sessions_of_their_own(tty: bool) -> None:
    """A build daemon that called setsid must not survive its command's end by the user."""
    child = start("sh", "-c", NEST, tty=tty)
    out = child.master if tty else child.stdout
    assert out is not None
    pids = six_pids(read_lines(out, 6))
    assert len({os.getsid(pid) for pid in pids}) >= 4
    assert child.has_descendants()
    assert child.kill_tree(budget_s=10)
    assert wait_exit(child) == (137, signal.SIGKILL)
    assert all(ends(pid) for pid in pids)
    child.release()


def test_a_tree_too_large_for_one_turn_of_the_loop_is_ended_by_a_thread() -> None:
    """Nothing may block the loop, and nothing may be forgotten for that, even if the child is given up
    meanwhile.
    """
    child = start("sh", "-c", "for i in 1 2 3 4 5 6 7 8; do setsid sleep 1000 & echo $!; done; wait")
    assert child.stdout is not None
    pids = [int(line) for line in read_lines(child.stdout, 8).split()]
    leader = child.pid
    assert child.kill_tree(budget_s=0) is False
    child.release()
    assert ends(leader)
    assert all(ends(pid) for pid in pids)
    while leader in CHILDREN:
        CHILDREN.reap_left()


FORKS = """
process_setup.become_subreaper()
child = start("sh", "-c", "while :; do setsid sleep 1000 & done")
eventually(child.has_descendants, "it does not fork")
child.kill_tree(budget_s=20)
wait_exit(child)
eventually(lambda: not descendants.reap_orphans() and not descendants.adopt(), "some have escaped")
child.release()
say("all ended")
"""


def test_a_command_that_forks_as_fast_as_it_can_is_ended() -> None:
    """Killing what was listed a moment ago would never catch up with it."""
    assert output_of(FORKS) == ["all ended"]


def test_a_natural_exit_leaves_background_jobs_alone() -> None:
    script = "read line; setsid sleep 1000 & echo $!; sleep 1000 & echo $!"
    child = start("sh", "-c", script, pipe_stdin=True)
    assert child.stdin is not None and child.stdout is not None
    os.write(child.stdin, b"\n")  # it has its cookie by now
    jobs = [int(line) for line in read_lines(child.stdout, 2).split()]
    assert wait_exit(child) == (0, None)
    assert all(alive(job) for job in jobs)
    assert child.has_descendants()
    # This process is no subreaper: they belong to init by now, and are told by what they inherited.
    child.kill_tree()
    assert all(ends(job) for job in jobs)
    eventually(lambda: not child.has_descendants(), "some live on")
    child.release()


def test_nothing_is_killed_by_the_number_of_a_session_that_was_reused() -> None:
    """A process that is younger than our last look at its session may be a stranger's."""
    child = start("sh", "-c", "sleep 1000 & echo $!")
    assert child.stdout is not None
    job = int(read_until(child.stdout, b"\n"))
    wait_exit(child)
    stat = proc.read_stat(job)
    assert stat is not None and child.sessions is not None
    child.sessions[child.pid] = stat.start_ticks - 1
    child.cookie = 0
    child.kill_tree()
    assert alive(job)
    os.kill(job, signal.SIGKILL)
    child.release()


DAEMONS = """
if sys.argv[1] == "server":
    process_setup.become_subreaper()
    assert process_setup.mark_descendants()
# A guest's commands get their cookie just after they start: they wait for that here. A server's are born with it.
script = '''
trap "" HUP
test "$1" = server || read line
(setsid sh -c 'echo $$; exec setsid sleep 1000' &)
(sh -c 'echo $$; exec sleep 1000' &)
'''
for tty in (False, True):
    child = start("sh", "-c", script + sys.argv[2], "sh", sys.argv[1], tty=tty, pipe_stdin=not tty)
    os.write(child.master if tty else child.stdin, b"\\n")
    out = child.master if tty else child.stdout
    data = b""
    while len(data.split()) < 2 or not data.endswith(b"\\n"):
        data += read_until(out, b"\\n")
    if "exit" in sys.argv[2]:
        say(wait_exit(child).code)
        child.kill_tree()
    else:
        child.kill_tree(budget_s=10)
        say(wait_exit(child).code)
    pids = [int(word) for word in data.split()]
    say(len(pids), all(ends(pid) for pid in pids))
    eventually(lambda: not child.has_descendants(), "some live on")
    child.release()
eventually(lambda: not descendants.reap_orphans() and not descendants.adopt(), "orphans are not reaped")
"""
"""Daemons, whose parents have gone before anybody could look, in sessions that nobody has seen."""


@pytest.mark.parametrize("kind", ["server", "guest"])
def test_double_forked_descendants_are_ended_with_their_command(kind: str) -> None:
    assert output_of(DAEMONS, kind, "sleep 1000") == ["137", "2 True"] * 2


@pytest.mark.parametrize("kind", ["server", "guest"])
def test_double_forked_descendants_are_ended_after_their_commands_exit(kind: str) -> None:
    """The end of a session after the command ended by itself."""
    assert output_of(DAEMONS, kind, "exit 0") == ["0", "2 True"] * 2


def test_a_reaped_child_keeps_no_descriptor_while_its_kill_goes_on() -> None:
    """Lost: descriptors, on a busy machine or where a command leaves hundreds of processes."""
    go_on = threading.Event()
    for _ in range(LANE_SIZE):
        KILL_POOL.submit(go_on.wait, "busy")
    before = descriptors()
    child = start("sleep", "1000", tty=True, lane="busy")
    assert not child.kill_tree(budget_s=0)
    os.kill(child.pid, signal.SIGKILL)
    wait_exit(child)
    child.release()
    assert descriptors() == before and not child.forgotten
    go_on.set()
    eventually(lambda: child.forgotten, "the kill does not end")


def test_the_children_of_another_command_are_left_alone() -> None:
    victim, other = start("sh", "-c", "setsid sleep 1000 & echo $!; wait"), start("sleep", "1000")
    assert victim.stdout is not None
    read_until(victim.stdout, b"\n")
    end(victim)
    assert alive(other.pid)
    end(other)


EVERYTHING = """
process_setup.become_subreaper()
child = start("sh", "-c", "(setsid sh -c 'echo $$; exec sleep 1000' &); exec sleep 1000")
pids = [child.pid, int(read_until(child.stdout, b"\\n"))]
child.release()
deadline = time.monotonic() + 20
while process_setup.kill_everything() and time.monotonic() < deadline:
    select.select([], [], [], 0.002)
say(all(ends(pid) for pid in pids))
"""


def test_what_nobody_owns_any_more_ends_with_the_server() -> None:
    assert output_of(EVERYTHING) == ["True"]


SWEEP = """
process_setup.become_subreaper()
children = [start("sh", "-c", "setsid sleep 1000 & echo $!; wait", env=ENV) for _ in range(30)]
sids = [int(read_until(child.stdout, b"\\n")) for child in children]
eventually(lambda: all(os.getsid(sid) == sid for sid in sids), "no session of its own")
slices = 0
while (delay := descendants.sweep(budget_s=0.0005)) < 0.5:
    slices += 1
say(slices > 1, delay <= 2, [CHILDREN.owner(sid) for sid in sids] == children, set(sids) <= CHILDREN.watched)
for child in children:
    end(child)
say([CHILDREN.owner(sid) for sid in sids] == [None] * 30)
eventually(lambda: not descendants.reap_orphans() and not descendants.adopt(), "orphans are not reaped")
say(not CHILDREN.watched & set(sids))
"""


def test_a_sweep_finds_sessions_in_short_slices() -> None:
    """A thousand commands must not stop the loop, and a session that ended is not known any more."""
    assert output_of(SWEEP) == ["True True True True", "True", "True"]


NO_DESCRIPTOR = """
import resource
child = start("sh", "-c", "sleep 1000 & echo $!; wait")
job = int(read_until(child.stdout, b"\\n"))
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (max(descriptors()) + 1, hard))
while True:
    try:
        os.dup(0)
    except OSError:
        break
child.kill_tree()
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
say(wait_exit(child).code, ends(job))
"""


def test_a_command_can_be_ended_with_no_descriptor_left() -> None:
    """When the server is at its limit, ending commands is what helps."""
    assert output_of(NO_DESCRIPTOR) == ["137 True"]


def test_h7c_many_kills_share_each_look_at_all_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost: seconds, at the end of a session of a thousand processes: each kill looked at all of them, on the loop."""
    jobs: list[Callable[[], object]] = []
    monkeypatch.setattr(CHILDREN, "adopts", True)
    monkeypatch.setattr(descendants._ADOPTIONS, "seconds", 1.0)  # as with thousands of children
    monkeypatch.setattr(KILL_POOL, "submit", jobs.append)
    children = [start("sleep", "1000") for _ in range(40)]
    looks = []
    children_of = proc.children_of
    monkeypatch.setattr(proc, "children_of", lambda pid: looks.append(pid) or children_of(pid))
    assert not any(child.kill_tree() for child in children)
    assert os.getpid() not in looks, "none was made on the loop"
    assert len(jobs) == 1
    jobs[0]()
    assert looks.count(os.getpid()) <= 10
    for child in children:
        assert wait_exit(child).signal == signal.SIGKILL
        child.release()
