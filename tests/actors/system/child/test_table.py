"""The rule that tells an adopted orphan from a child of our own, which must never be reaped as one."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.system.child.table import ChildTable


class Spawning(RuleBasedStateMachine):
    """Spawns in any overlap, orphans that come at any time, looks at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.table = ChildTable()
        self.spawns: list[tuple[object, int | None]] = []
        self.ours: set[int] = set()
        self.orphans: set[int] = set()
        self.found: set[int] = set()
        self.next_pid = 100

    def pid(self) -> int:
        self.next_pid += 1
        return self.next_pid

    @rule()
    def begin(self) -> None:
        spawn = self.table.spawning()
        spawn.__enter__()
        self.spawns.append((spawn, None))

    @precondition(lambda self: any(pid is None for _, pid in self.spawns))
    @rule(data=st.data())
    def clone(self, data: st.DataObject) -> None:
        index = data.draw(st.sampled_from([i for i, (_, pid) in enumerate(self.spawns) if pid is None]))
        pid = self.pid()
        self.spawns[index] = (self.spawns[index][0], pid)
        self.ours.add(pid)

    @precondition(lambda self: self.spawns)
    @rule(data=st.data(), fails=st.booleans())
    def finish(self, data: st.DataObject, fails: bool) -> None:
        spawn, pid = self.spawns.pop(data.draw(st.integers(0, len(self.spawns) - 1)))
        if pid is not None:
            if fails:
                self.ours.discard(pid)  # the exec failed, and libc has reaped the process
            else:
                self.table.add(pid, "child")
        spawn.__exit__(None, None, None)  # type: ignore[attr-defined]

    @rule()
    def adopt(self) -> None:
        self.orphans.add(self.pid())

    @rule()
    def look(self) -> None:
        self.found = set(self.table.unknown(sorted(self.ours | self.orphans)))
        self.table.orphans = dict.fromkeys(self.found)

    @precondition(lambda self: self.orphans)
    @rule(data=st.data())
    def look_while_a_spawn_may_hang(self, data: st.DataObject) -> None:
        """What is known to be an orphan is found whatever is under way."""
        certain = data.draw(st.sets(st.sampled_from(sorted(self.orphans))))
        found = set(self.table.unknown(sorted(self.ours | self.orphans), certain.__contains__))
        assert certain <= found
        self.found = found
        self.table.orphans = dict.fromkeys(found)

    @invariant()
    def no_child_of_ours_is_taken_for_an_orphan(self) -> None:
        assert not self.found & self.ours

    @invariant()
    def orphans_are_found_when_no_spawn_is_under_way(self) -> None:
        if not self.spawns:
            assert set(self.table.unknown(sorted(self.ours | self.orphans))) == self.orphans

    def teardown(self) -> None:
        """However long spawns overlap, those of the first look are over at some time."""
        self.look()
        self.begin()
        newest, _ = self.spawns.pop()
        for spawn, pid in self.spawns:
            if pid is not None:
                self.table.add(pid, "child")
            spawn.__exit__(None, None, None)  # type: ignore[attr-defined]
        assert set(self.table.unknown(sorted(self.ours | self.orphans))) == self.orphans
        newest.__exit__(None, None, None)  # type: ignore[attr-defined]


TestSpawning = Spawning.TestCase
