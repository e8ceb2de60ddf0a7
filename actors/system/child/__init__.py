"""The seam to the operating system: children on pipes and terminals, their signals, exits and descendants.

What can be promised about the processes that a command starts:

* Each command leads its own session and process group. Its exit is seen at once, by pidfd, whoever still
  holds its pipes. A natural exit kills nothing.
* Every descendant inherits a cookie that tells its command (`process_cookie`), whatever it does with its session and
  parents.
* Killing a command (`Child.kill_tree`) ends its group and every descendant that is linked to it, carries its
  cookie, or is in a session that was seen to be its. Sessions, double forks and daemons make no difference: all
  are stopped before any is killed. What can escape is a process that has lost its cookie (also through a login of
  su(1), by pam_limits), and whose parents have died, and whose session no sweep saw while they lived
  (`descendants.SWEEP_PERIOD`, two seconds); and a chain of processes of which each forks and exits at once.
* The server program is a subreaper: what lost its parent becomes its child, and ends at the latest with the
  server (`process_setup.kill_everything`), attributed or not. In a program that merely runs a server inside
  itself such a process goes to init, and is looked for among all processes when its command is killed; there a
  command gets its cookie only just after its start, and what it forked within that instant counts as having none.
* If the server is killed with SIGKILL, the guardian ends within about a second every command's session, every
  session that a sweep or the search for orphans has found, whatever carries the server's cookie, and what is
  linked to any of them then. The exception is as above.
* With a cgroup v2 of the server's own, and a guardian that runs: at the server's end, by itself or by SIGKILL,
  everything in the cgroup ends, within some 10 ms. Only a process that may write to another cgroup (root, in
  general) can have left it. The kill of one single command is the same with and without a cgroup.
* If the server and the guardian are both killed within the same instant, nothing is left to kill: only a
  terminal's hangup, or the service manager, ends the rest. A guardian that is killed alone is replaced when
  it is looked at next (every second) and told the list.
* Never killed: a process that is not certainly ours. A group is signalled only while its leader is unreaped;
  others one by one, through a pidfd, after a look at when they began.

SIGCHLD is not used. Processes in another pid namespace are killed with their namespace's init, which is a
descendant like any other. A process in uninterruptible sleep dies when it wakes.
"""

from __future__ import annotations

from actors.system.child.child import Child, ExitStatus
from actors.system.child.spawn import Execution, SpawnRequest, prepare, start
from actors.system.child.spawn_failure import spawn_failure
from actors.system.child.ticket import SpawnTicket, dispose

__all__ = [
    "Child",
    "Execution",
    "ExitStatus",
    "SpawnRequest",
    "SpawnTicket",
    "dispose",
    "prepare",
    "spawn_failure",
    "start",
]
