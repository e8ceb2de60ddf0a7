"""Rules, and the arguments they become. That bwrap does what it is told then: tests/exec_server/wire/test_sandbox.py"""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from actors.system.sandbox.bubblewrap import NAMESPACES, arguments
from actors.system.sandbox.rules import Access, Rule, Rules

ACCESSES: tuple[Access, ...] = ("read", "write", "deny")
paths = st.lists(st.sampled_from("abc"), max_size=3).map(lambda parts: "/" + "/".join(parts))
lists = st.lists(st.builds(Rule, paths, st.sampled_from(ACCESSES), st.just("directory")), max_size=8)
RANK = {"read": 1, "write": 2, "deny": 3}


@given(lists, paths)
def test_the_most_specific_rule_decides_and_then_the_strictest(given_rules: list[Rule], path: str) -> None:
    """A protected folder would be writable because a wider entry came later."""
    above = [rule for rule in given_rules if f"{path}/".startswith(f"{rule.path.rstrip('/')}/")]
    expected = max(above, key=lambda rule: (len(rule.path), RANK[rule.access]), default=None)
    assert Rules(given_rules).access(path) == (expected and expected.access)


@given(lists)
def test_what_is_left_out_says_nothing_new(given_rules: list[Rule]) -> None:
    """A rule that is dropped as needless, and was not."""
    rules = Rules(given_rules)
    kept = Rules(rules.effective())
    for rule in rules:
        assert kept.access(rule.path) == rule.access


def mounts(args: list[str]) -> list[tuple[str, str]]:
    """The binds and file systems in their order: option and destination."""
    sizes = {"--bind": 2, "--ro-bind": 2, "--dev-bind": 2, "--tmpfs": 1, "--dev": 1, "--proc": 1}
    return [(each, args[at + sizes[each]]) for at, each in enumerate(args) if each in sizes]


@given(lists)
@example([Rule("/", "write"), Rule("/a/a", "write"), Rule("/a/a/a", "read"), Rule("/a/b/a", "read")])
def test_mounts_come_after_those_they_are_inside_of(given_rules: list[Rule]) -> None:
    """A wide mount would cover a narrow one, and what it protects."""
    made = mounts(arguments(Rules(given_rules), [], False, []))
    places = [path for _, path in made]
    for index, path in enumerate(places):
        covered = [each for each in places[:index] if each != path and f"{each}/".startswith(f"{path.rstrip('/')}/")]
        assert not covered, (covered, path)


@given(lists)
@example([Rule("/", "write"), Rule("/a/a", "write"), Rule("/a/a/a", "read"), Rule("/a/b/a", "read")])
def test_the_last_mount_above_a_path_is_what_its_rule_says(given_rules: list[Rule]) -> None:
    """bwrap does what the last mount says, not what was meant."""
    rules = Rules(given_rules)
    made = mounts(arguments(rules, [], False, []))
    option = {"read": "--ro-bind", "write": "--bind", "deny": "--tmpfs"}
    for rule in rules:
        above = [each for each, path in made if f"{rule.path}/".startswith(f"{path.rstrip('/')}/")]
        assert (above[-1] if above else "--tmpfs") == option[rule.access]


def test_the_namespaces_are_always_made() -> None:
    """A sandbox from which every process can be signalled, or that outlives its parent."""
    for rules in (None, Rules([Rule("/", "write")])):
        for network in (True, False):
            args = arguments(rules, [], network, ["/proc/sys"])
            needed = {*NAMESPACES, "--die-with-parent", "--cap-drop"}
            assert len(NAMESPACES) == 4 and needed <= set(args) and ("--unshare-net" in args) is not network
            assert args.index("--proc") < args.index("/proc/sys")


def test_what_is_between_a_writable_and_a_protected_directory_is_pinned() -> None:
    """Renamed, it would take the mount with it and leave the name free."""
    args = arguments(Rules([Rule("/", "read"), Rule("/w", "write"), Rule("/w/a/b/c", "read")]), [], False, [])
    assert mounts(args)[-4:] == [("--bind", "/w"), ("--bind", "/w/a"), ("--bind", "/w/a/b"), ("--ro-bind", "/w/a/b/c")]


def test_a_rule_that_says_nothing_new_takes_no_pin_away() -> None:
    """Lost: the protection of /w/a/a/k. /w/a was pinned for the second path, over the mount of the first; and the
    directories above the first could be renamed.
    """
    given_rules = [Rule("/", "read"), Rule("/w", "write"), Rule("/w/a/a", "write"), Rule("/w/a/a/k", "read")]
    args = arguments(Rules([*given_rules, Rule("/w/a/b/k", "read")]), [], False, [])
    pins = [("--bind", "/w/a"), ("--bind", "/w/a/a")]
    assert mounts(args)[-6:] == [
        ("--bind", "/w"), *pins, ("--ro-bind", "/w/a/a/k"), ("--bind", "/w/a/b"), ("--ro-bind", "/w/a/b/k")
    ]  # fmt: skip
