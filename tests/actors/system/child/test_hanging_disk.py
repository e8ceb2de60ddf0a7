"""A disk that has gone away: who waits for it waits alone."""

from __future__ import annotations

from pathlib import Path

from tests.actors.system.child.support import output_of

HANGS = """
from actors.system.child.spawn_cache import SPAWN_CACHE
from actors.system.pool import LANE_SIZE, RECORDING_POOL
from pathlib import Path

process_setup.become_subreaper()
assert process_setup.mark_descendants()
disk = HangingProgram(Path(sys.argv[1], "program"))
lost = [launch_soon(request(disk.path, lane="lost")) for _ in range(2 * LANE_SIZE)]
eventually(lambda: len(proc.children_of(os.getpid())) == LANE_SIZE, "they do not hang")
"""


def test_starts_that_hang_delay_no_start_of_another_session(tmp_path: Path) -> None:
    """Lost: all commands of all sessions, to the network disk of one."""
    lines = output_of(
        HANGS
        + """
for number in range(20):
    ticket = launch_soon(request("true", lane="other"))
    assert readable(ticket.fileno())
    end(ticket.result())
warm = request("true", lane="other")
SPAWN_CACHE.learn(warm.key, 0.0, [])
end(launch_at_once(warm))
say(len(proc.children_of(os.getpid())) == LANE_SIZE, any(readable(ticket.fileno(), 0) for ticket in lost))
disk.go_on()
for ticket in lost:
    assert readable(ticket.fileno())
    end(ticket.result())
say("all")
""",
        str(tmp_path),
    )
    assert lines == ["True False", "all"]


def test_a_start_while_another_hangs_is_born_with_its_cookie(tmp_path: Path) -> None:
    """Lost: the end of a daemon that a command starts in its first instant, as long as any disk is gone."""
    lines = output_of(
        HANGS
        + """
from concurrent.futures import ThreadPoolExecutor
from actors.system.child.process_cookie import COOKIES, Cookies
Cookies.assign = lambda self, pid, cookie: say("too late")
def mistaken(number):
    child = start("cat", "/proc/self/limits", lane="other")
    limits = read_all(child.stdout).decode()
    (told,) = [line.split()[3] for line in limits.splitlines() if line.startswith("Max realtime timeout")]
    cookie = child.cookie
    end(child)
    return told != str(cookie)
with ThreadPoolExecutor(8) as threads:
    say(sum(threads.map(mistaken, range(200))))
say(COOKIES.of(os.getpid()) == COOKIES.base)
disk.go_on()
for ticket in lost:
    assert readable(ticket.fileno())
    end(ticket.result())
""",
        str(tmp_path),
    )
    assert lines == ["0", "True"]


def test_starts_that_hang_delay_no_kill_no_recording_and_no_cgroups_end(tmp_path: Path) -> None:
    """Lost: the end of a command, because another session's disk is gone."""
    lines = output_of(
        HANGS
        + """
for lane in range(4):  # more than the threads that there are at first
    lost += [launch_soon(request(disk.path, lane=lane)) for _ in range(LANE_SIZE)]
eventually(lambda: len(proc.children_of(os.getpid())) == 5 * LANE_SIZE, "they do not hang")
child = start("sh", "-c", "read line; (setsid sh -c 'echo $$; exec sleep 1000' &); exec sleep 1000", pipe_stdin=True)
os.write(child.stdin, b"\\n")
daemon = int(read_until(child.stdout, b"\\n"))
eventually(lambda: daemon in descendants.adopt(), "an orphan is not seen")
say(CHILDREN.orphans[daemon] is child)
child.group = Path(sys.argv[1], "group")
child.group.mkdir()
say(child.kill_tree(budget_s=0), ends(daemon), wait_exit(child).code)
child.release()
eventually(lambda: child.forgotten and not child.group.exists(), "the kill does not end")
written = threading.Event()
RECORDING_POOL.submit(written.set, "other")
say(written.wait(PATIENCE))
ticket = launch_soon(request("sleep", "1000", lane="other"))
assert readable(ticket.fileno())
(sleeper,) = CHILDREN.commands()
ticket.abandon()
eventually(lambda: sleeper.status is not None, "what was abandoned is not ended")
disk.go_on()
for ticket in lost:
    ticket.abandon()
eventually(lambda: not proc.children_of(os.getpid()) or descendants.reap_orphans(), "not all are over")
""",
        str(tmp_path),
    )
    assert lines == ["True", "False True 137", "True"]
