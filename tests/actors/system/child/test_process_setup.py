"""What the server program changes about itself before it starts anything."""

from __future__ import annotations

import signal

import pytest

from actors.system import doctor
from actors.system.child import proc
from tests.actors.system.child.support import output_of


def test_closed_standard_descriptors_are_opened_so_that_no_socket_gets_their_number() -> None:
    """A log line written to descriptor 2 would go to whichever client has that number."""
    lines = output_of(
        "keep = os.dup(1)\n"
        "os.close(0); os.close(2)\n"
        "opened = process_setup.open_standard_descriptors()\n"
        "again = process_setup.open_standard_descriptors()\n"
        "now = [os.readlink(f'/proc/self/fd/{fd}') for fd in (0, 2)]\n"
        "say(opened, again, now)\n"
    )
    assert lines == ["[0, 2] [] ['/dev/null', '/dev/null']"]


def test_inherited_descriptors_are_closed_on_exec() -> None:
    lines = output_of(
        "stray = os.dup(1); os.set_inheritable(stray, True)\n"
        "say(process_setup.close_inherited_on_exec() == [stray], os.get_inheritable(stray))\n"
        "say(process_setup.close_inherited_on_exec(), os.get_inheritable(1))\n"
    )
    assert lines == ["True False", "[] True"]


def test_no_core_files_by_default_but_a_command_may_ask_for_them() -> None:
    lines = output_of(
        "import resource\n"
        "hard = resource.getrlimit(resource.RLIMIT_CORE)[1]\n"
        "process_setup.write_no_core_files()\n"
        "say(resource.getrlimit(resource.RLIMIT_CORE) == (0, hard))\n"
        "say(run('sh', '-c', 'ulimit -Sc')[1].decode().strip())\n"
    )
    assert lines == ["True", "0"]


def test_an_ignored_sigchld_does_not_cost_exit_statuses() -> None:
    """Whoever starts the server so would otherwise make every command end with 255."""
    lines = output_of(
        "say(process_setup.keep_exit_statuses(), process_setup.keep_exit_statuses())\n"
        "say(tuple(run('sh', '-c', 'exit 3')[0]))\n",
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    )
    assert lines == ["True False", "(3, None)"]


def test_adopted_orphans_are_reaped_and_children_of_others_are_not() -> None:
    """Zombies fill the process table; a status taken from somebody else hangs them."""
    lines = output_of(
        "import subprocess\n"
        "process_setup.become_subreaper()\n"
        "with CHILDREN.spawning():\n"
        "    helper = subprocess.Popen(['sh', '-c', 'exit 4'])\n"
        "    CHILDREN.add(helper.pid, 'helper')\n"
        "script = 'exec 3<&0; (setsid sh -c \"echo \\\\$\\\\$; exec cat <&3\" &)'\n"
        "child = start('sh', '-c', script, pipe_stdin=True)\n"
        "orphan = int(read_until(child.stdout, b'\\n'))\n"
        "wait_exit(child)\n"
        "eventually(lambda: orphan in descendants.adopt(), 'it is not adopted')\n"
        "child.release()\n"  # closes its stdin, which ends the orphan
        "eventually(lambda: descendants.reap_orphans() == 1, 'it is not reaped')\n"
        "say(os.path.exists(f'/proc/{orphan}'), CHILDREN.watched)\n"
        "say(helper.wait())\n"
    )
    assert lines == ["False set()", "4"]


def test_a_cookie_never_replaces_a_limit_that_somebody_has_set() -> None:
    """A real-time program that is limited to so many microseconds must stay so."""
    lines = output_of(
        "import resource\n"
        "from actors.system.child.process_cookie import COOKIES\n"
        "resource.setrlimit(resource.RLIMIT_RTTIME, (100000, 200000))\n"
        "say(process_setup.mark_descendants())\n"
        "child = start('sleep', '1000')\n"
        "say(child.cookie, resource.prlimit(child.pid, resource.RLIMIT_RTTIME))\n"
        "say(child.kill_tree(10), wait_exit(child).code)\n"
    )
    assert lines == ["False", "0 (100000, 200000)", "True 137"]


def test_every_command_has_a_cookie_of_its_own_and_the_server_keeps_its() -> None:
    lines = output_of(
        "from actors.system.child.process_cookie import COOKIES\n"
        "process_setup.mark_descendants()\n"
        "script = 'read line; sleep 1000 & echo $! ready; wait'\n"
        "children = [start('sh', '-c', script, tty=tty, pipe_stdin=not tty) for tty in (False, True)]\n"
        "for child in children: os.write(child.master or child.stdin, b'\\n')\n"
        "below = [int(read_until(child.master or child.stdout, b'ready').split()[0]) for child in children]\n"
        "cookies = [child.cookie for child in children]\n"
        "say(len(set(cookies)) == 2, [COOKIES.of(pid) for pid in below] == cookies)\n"
        "say(COOKIES.of(os.getpid()) == COOKIES.base, COOKIES.of(os.getppid()))\n"
        "for child in children: end(child)\n"
    )
    assert lines == ["True True", "True 0"]


def test_doctor_names_every_guarantee_and_this_machine_has_what_the_tests_rely_on() -> None:
    facts = {fact.name: fact for fact in doctor.facts()}
    assert list(facts) == [
        "pidfd",
        "subreaper",
        "cgroup",
        "addclosefrom_np",
        "proc_children",
        "terminals",
        "open_files",
        "user_namespaces",
        "bwrap",
        "guardian",
    ]
    for name in ("pidfd", "subreaper", "terminals", "guardian"):
        assert facts[name].holds, facts[name]
    assert all(fact.holds or fact.detail for fact in facts.values())


@pytest.mark.parametrize("has_children", [True, False])
def test_children_are_found_with_and_without_the_kernels_list_of_them(
    has_children: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CONFIG_PROC_CHILDREN may be missing; then killing a tree must still find it."""
    from tests.actors.system.child.support import end, read_until, start

    if has_children and not proc.HAS_CHILDREN:
        pytest.skip("this kernel has no CONFIG_PROC_CHILDREN")
    monkeypatch.setattr(proc, "HAS_CHILDREN", has_children)
    child = start("sh", "-c", "sleep 1000 & echo $!; sh -c 'sleep 1000 & echo $!; wait' & wait")
    assert child.stdout is not None
    pids = set()
    while len(pids) < 2:
        pids.update(int(line) for line in read_until(child.stdout, b"\n").split())
    found = set(proc.walk(child.pid))
    assert pids < found and len(found) == 3
    end(child)
