"""The arguments of bwrap(1) that enforce rules. Pure.

Mounts are made in the order of the arguments. Sources are paths outside, destinations inside, and here always the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from actors.system.sandbox.rules import Link, Rule, Rules, is_inside

NAMESPACES = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]


def arguments(rules: Rules | None, links: Iterable[Link], network: bool, kernel_files: Iterable[str]) -> list[str]:
    """All that comes before the command. `rules` None: the file system stays as it is. `kernel_files` are paths in
    /proc that the server's user may write to, were it not for the sandbox.
    """
    made = [*NAMESPACES, *([] if network else ["--unshare-net"])]
    made += ["--die-with-parent", "--cap-drop", "ALL"]
    if rules is None:
        return [*made, "--dev-bind", "/", "/", *_proc(kernel_files)]
    effective = rules.effective()
    mounted = Rules(effective)
    root = rules.access("/")
    if root in ("read", "write"):  # else it is an empty one, of bwrap's own
        made += [_bind(root), "/", "/"]
    made += ["--dev", "/dev", *_proc(kernel_files)]
    for link in links:
        made += ["--symlink", link.target, link.path]
    pinned: set[str] = set()
    for rule in effective:
        if rule.path != "/":
            made += _pins(rule, mounted, pinned)
            made += _mount(rule, rules)
    for rule in reversed(effective):
        if rule.path != "/" and (rule.kind == "missing" or (rule.access == "deny" and rule.kind == "directory")):
            made += ["--remount-ro", rule.path]
    return made if root in ("read", "write") else [*made, "--remount-ro", "/"]


def _proc(kernel_files: Iterable[str]) -> list[str]:
    """A /proc of its own. What belongs to root in it, root may write to even without capabilities, the path of the
    handler of core dumps for one; so it becomes read-only.
    """
    return ["--proc", "/proc", *(item for path in kernel_files for item in ("--ro-bind", path, path))]


def _bind(access: str) -> str:
    return "--bind" if access == "write" else "--ro-bind"


def _mount(rule: Rule, rules: Rules) -> list[str]:
    path = rule.path
    if rule.kind == "missing":
        return ["--perms", "0000" if rule.access == "deny" else "0555", "--tmpfs", path]
    if rule.access != "deny":
        return [_bind(rule.access), path, path]
    if rule.kind == "file":
        return ["--ro-bind", "/dev/null", path]  # bind mounts are made nodev, so it cannot be opened
    return ["--perms", "0111" if rules.below(path) else "0000", "--tmpfs", path]


def _pins(rule: Rule, mounted: Rules, pinned: set[str]) -> list[str]:
    """Mounts that keep the directories between a writable one and a protected path from being renamed, and with them
    the path: a mount point cannot be. `mounted` are the rules that become mounts: one that says nothing new pins
    nothing, and what is above it has to be pinned before anything inside of it is mounted.
    """
    above = mounted.above(rule.path)
    if above is None or above.access != "write" or rule.access == "write":
        return []
    between = []
    path = os.path.dirname(rule.path)
    while is_inside(path, above.path):
        between.append(path)
        path = os.path.dirname(path)
    made: list[str] = []
    for path in reversed(between):
        if path not in pinned:
            pinned.add(path)
            made += ["--bind", path, path]
    return made
