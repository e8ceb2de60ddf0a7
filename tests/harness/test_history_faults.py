"""The history when programs are killed, the disk is full, and many write at once (sections 1.3, 1.4, 1.6 and 1.7)."""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from harness.history import log as log_module
from harness.history.log import HistoryLog
from harness.history.record import Record, decode_record, dropped, encode_record
from harness.history.storage import Storage
from tests.harness.crashing_os import CrashingOs, Killed, running_on
from tests.support.examples import examples
from tests.support.program import ROOT

LIMIT = 2000


def lines_of(path: Path) -> list[bytes]:
    """What readers see: without a torn tail."""
    return path.read_bytes().split(b"\n")[:-1]


def texts_of(path: Path) -> list[str]:
    return [record.text for line in lines_of(path) if (record := decode_record(line))]


def filled(home: Path, sizes: list[int]) -> Path:
    home.mkdir(parents=True, exist_ok=True)
    path = home / "history.jsonl"
    records = [Record("t", number, f"{number}:" + "x" * size) for number, size in enumerate(sizes)]
    path.write_bytes(b"".join(map(encode_record, records)))
    return path


@pytest.mark.parametrize("sizes", [[50] * 30, [10, 900, 10, 1200, 10], [10] * 5 + [1800], [700, 700, 700, 700]])
@pytest.mark.parametrize("block", [64, 256, 4096])
def test_killed_at_each_change(tmp_path: Path, sizes: list[int], block: int) -> None:
    """Section 1.7. Lost: records that nothing wanted to drop, to the end of a program in the middle of a trim."""
    newest = encode_record(Record("t", 99, "newest"))
    for fatal in range(1000):
        path = filled(tmp_path / str(fatal), sizes)
        before = texts_of(path)
        lines, _ = dropped([*(len(line) + 1 for line in lines_of(path)), len(newest)], LIMIT)
        assert lines > 0
        with running_on(CrashingOs(fatal), block) as fake:
            try:
                Storage(path, 1).append(newest, LIMIT)
            except Killed:
                pass
        readable = texts_of(path)
        assert {*before[lines:]} <= {*readable}
        assert fatal == 0 or "newest" in readable
        Storage(path, 1).append(encode_record(Record("t", 100, "later")), 0)
        assert texts_of(path)[-1] == "later"
        if not fake.dead:
            assert readable == [*before[lines:], "newest"] and path.stat().st_size <= LIMIT + 100
            return
    raise AssertionError("it never came to its end")


def test_writes_that_take_a_byte_at_a_time(tmp_path: Path) -> None:
    """Section 1.3, rule 2."""
    path = filled(tmp_path, [50] * 30)
    expected = texts_of(path)
    with running_on(CrashingOs(short=True)):
        Storage(path, 1).append(encode_record(Record("t", 99, "newest")), LIMIT)
    lines, _ = dropped([*map(len, map(encode_record, (Record("t", n, t) for n, t in enumerate(expected)))), 47], LIMIT)
    assert texts_of(path) == [*expected[lines:], "newest"]


@pytest.mark.parametrize("torn", [b"", b'{"sess'])
def test_a_disk_that_is_full_in_the_middle_of_an_append(tmp_path: Path, torn: bytes) -> None:
    """Section 1.3, rule 1. Lost: what was in the file, or the next prompt, glued to a torn line."""
    path = filled(tmp_path, [10])
    with path.open("ab") as file:
        file.write(torn)
    before = path.read_bytes()
    with running_on(CrashingOs(full=0)), pytest.raises(OSError, match="No space left"):
        Storage(path, 1).append(encode_record(Record("t", 99, "x" * 100)), LIMIT)
    assert path.read_bytes() == before


def test_a_file_that_the_system_lets_grow_no_further(tmp_path: Path) -> None:
    """The same by the kernel itself: a write that is cut short, and the next one that fails (setrlimit(2))."""
    code = f"""
import resource, sys
from pathlib import Path
from harness.history.storage import Storage
resource.setrlimit(resource.RLIMIT_FSIZE, ({LIMIT}, {LIMIT}))
try:
    Storage(Path(sys.argv[1]), 1).append(b"x" * 1000 + bytes([10]), None)
except OSError as error:
    print(error.errno)
"""
    path = filled(tmp_path, [1500])
    before = path.read_bytes()
    printed = subprocess.check_output([sys.executable, "-c", code, str(path)], cwd=ROOT, text=True)
    assert int(printed) == errno.EFBIG
    assert path.read_bytes() == before
    assert resource.RLIMIT_FSIZE is not None


def test_a_disk_that_is_full_in_the_middle_of_a_trim(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Section 1.6: the append has succeeded, and nothing that was to be kept is lost; the next one trims."""
    sizes = [50] * 30
    for full in range(1, 6):
        path = filled(tmp_path / str(full), sizes)
        before = texts_of(path)
        lines, _ = dropped([*(len(line) + 1 for line in lines_of(path)), 43], LIMIT)
        caplog.clear()
        with running_on(CrashingOs(full=full), 300), caplog.at_level(logging.WARNING):
            Storage(path, 1).append(encode_record(Record("t", 9, "newest")), LIMIT)
        assert "could not be trimmed" in caplog.text
        assert {*before[lines:], "newest"} <= {*texts_of(path)}
        Storage(path, 1).append(encode_record(Record("t", 9, "later")), LIMIT)
        assert path.stat().st_size <= LIMIT and texts_of(path)[-2:] == ["newest", "later"]


async def at_once(call: Callable[..., Any], *arguments: Any) -> Any:
    """In place of a thread, which would take most of the time."""
    return call(*arguments)


class AnyHistory(RuleBasedStateMachine):
    """Appends, trims, kills between any two system calls and lookups, in any order, by two programs.

    An offset of one identity names one record for ever, and what no rule drops stays readable. Prompts are told apart
    by their time, but those that are the same, in one second and one after the other.
    """

    @initialize(limit=st.integers(1, 900), block=st.sampled_from([40, 100, 1 << 20]))
    def begin(self, limit: int, block: int) -> None:
        self.runner = asyncio.Runner()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(log_module.asyncio, "to_thread", at_once)
        self.folder = Path(os.environ.get("TMPDIR", "/tmp")) / f"any-history-{os.getpid()}-{id(self)}"
        self.now = 0
        self.logs = [HistoryLog(self.folder, max_bytes=limit, clock=lambda: self.now) for _ in range(2)]
        self.limit = limit
        self.block = block
        self.text = "first"
        self.named: dict[tuple[int, int], Record | None] = {}

    @rule(
        program=st.integers(0, 1),
        text=st.text(st.sampled_from('a{"\\\n é'), max_size=300),
        again=st.booleans(),
        fatal=st.none() | st.integers(0, 6),
    )
    def append(self, program: int, text: str, again: bool, fatal: int | None) -> None:
        if not again:
            self.now += 1
            self.text = f"{self.now} {text}"
        line = encode_record(Record("t", self.now, self.text))
        self._change(program, line, fatal)

    @rule(program=st.integers(0, 1), limit=st.integers(1, 900), fatal=st.none() | st.integers(0, 6))
    def trim(self, program: int, limit: int, fatal: int | None) -> None:
        path = self.logs[program].path
        kept = self._kept(b"", limit)
        with running_on(CrashingOs(fatal), self.block):
            try:
                self.runner.run(self.logs[program].trim(limit))
            except Killed:
                pass
        if path.exists():
            assert kept <= {*self._records()}

    def _change(self, program: int, line: bytes, fatal: int | None) -> None:
        kept = self._kept(line, self.limit)
        with running_on(CrashingOs(fatal), self.block):
            try:
                self.runner.run(self.logs[program].append("t", self.text))
                kept.add(line.removesuffix(b"\n"))
            except Killed:
                pass
        assert kept <= {*self._records()}

    def _records(self) -> list[bytes]:
        """The lines that are records, without the blanks that a trim may have put before them."""
        path = self.logs[0].path
        return [line.lstrip(b" \t") for line in lines_of(path) if decode_record(line)] if path.exists() else []

    def _kept(self, line: bytes, limit: int) -> set[bytes]:
        """The records that are there, and that no rule lets anybody drop now."""
        path = self.logs[0].path
        data = path.read_bytes() if path.exists() else b""
        if line and data and not data.endswith(b"\n"):
            data += b"\n"
        there = [each + b"\n" for each in data.split(b"\n")[:-1]]
        number, _ = dropped([len(each) for each in [*there, line] if each], limit)
        return {each.strip(b" \t\n") for each in there[number:] if decode_record(each)}

    @invariant()
    def an_offset_names_one_record(self) -> None:
        if not hasattr(self, "logs"):
            return
        for log in self.logs:
            log_id, count = self.runner.run(log.metadata())
            for offset in range(count):
                record = self.runner.run(log.lookup(log_id, offset))
                assert self.named.setdefault((log_id, offset), record) == record
            batch = self.runner.run(log.batch(log_id))
            assert all(self.named[log_id, entry.offset] == entry.record for entry in batch.entries)

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.close()
            self.patch.undo()
            self.logs[0].path.unlink(missing_ok=True)
            if self.folder.exists():
                self.folder.rmdir()


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(examples(50), stateful_step_count=20)


def test_killed_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost: a record under the name of another, after trims that were killed and have left copies of lines, which
    become the first line later.
    """
    monkeypatch.setattr(log_module.asyncio, "to_thread", at_once)
    with asyncio.Runner() as runner:
        for number, kills in enumerate(itertools.product([4], [None, 2, 4], [None, 3, 4], [2, 3])):
            named: dict[tuple[int, int], Record | None] = {}
            path = filled(tmp_path / str(number), [0] * 12)
            log = HistoryLog(path.parent, max_bytes=path.stat().st_size)
            for fatal in (*kills, None, None, None, None):
                with running_on(CrashingOs(fatal), 90):
                    try:
                        runner.run(log.append("t", f"{len(named)}:"))
                    except Killed:
                        pass
                log_id, count = runner.run(log.metadata())
                for offset in range(count):
                    record = runner.run(log.lookup(log_id, offset))
                    assert named.setdefault((log_id, offset), record) == record


APPENDER = """
import asyncio, sys
from harness.history.log import HistoryLog

async def main(home, name, count, limit):
    log = HistoryLog(home, max_bytes=limit, lock_timeout=60)
    sys.stdin.readline()
    for number in range(count):
        await log.append(name, f"{name} {number}")
        print(number, flush=True)

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
"""


def appender(home: Path, name: str, count: int, limit: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", APPENDER, str(home), name, str(count), str(limit)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def all_at_once(home: Path, programs: int, count: int, limit: int) -> int:
    """Run so many programs; the largest size of the file that was seen."""
    children = [appender(home, f"program{name}", count, limit) for name in range(programs)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    largest = 0
    path = home / "history.jsonl"
    while any(child.poll() is None for child in children):
        largest = max(largest, path.stat().st_size if path.exists() else 0)
        os.sched_yield()
    for child in children:
        child.communicate()
        assert child.returncode == 0
    return largest


def test_eight_programs_at_once(tmp_path: Path) -> None:
    """Bad input: no line lost, none torn."""
    all_at_once(tmp_path, 8, 200, 0)
    records = [decode_record(line) for line in lines_of(tmp_path / "history.jsonl")]
    texts = [record.text for record in records if record]
    assert len(records) == len(texts) == len({*texts}) == 1600
    for name in range(8):
        own = [text for text in texts if text.startswith(f"program{name} ")]
        assert own == [f"program{name} {number}" for number in range(200)]


def test_eight_programs_at_once_with_trims(tmp_path: Path) -> None:
    """Bad input: no line lost but what the trim took. The limit holds at any time, but for the record on its way in."""
    limit = 5000
    largest = all_at_once(tmp_path, 8, 200, limit)
    path = tmp_path / "history.jsonl"
    records = [decode_record(line) for line in lines_of(path)]
    longest = max(map(len, lines_of(path))) + 1
    assert None not in records
    assert limit * 4 // 5 - longest < path.stat().st_size <= limit
    assert 0 < largest <= limit + longest + 1
    texts = [record.text for record in records if record]
    for name in range(8):
        numbers = [int(text.split()[1]) for text in texts if text.startswith(f"program{name} ")]
        assert numbers == [*range(200 - len(numbers), 200)]


@pytest.mark.slow
def test_twenty_programs_at_once(tmp_path: Path) -> None:
    """Section 1.7."""
    all_at_once(tmp_path, 20, 200, 0)
    texts = texts_of(tmp_path / "history.jsonl")
    assert len(texts) == len({*texts}) == 4000


@pytest.mark.parametrize("killed_after", [1, 40, 90, 163])
def test_a_program_that_is_killed(tmp_path: Path, killed_after: int) -> None:
    """Section 1.7, kill -9 while it appends and trims as fast as it can."""
    child = appender(tmp_path, "t", 1_000_000, 3000)
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write("\n")
    child.stdin.flush()
    acknowledged = [int(child.stdout.readline()) for _ in range(killed_after)]
    child.send_signal(signal.SIGKILL)
    acknowledged += map(int, child.communicate()[0].splitlines())
    path = tmp_path / "history.jsonl"
    numbers = sorted({int(text.split()[1]) for text in texts_of(path)})
    assert numbers[-1] >= acknowledged[-1]
    assert numbers == [*range(numbers[0], numbers[-1] + 1)]
    assert numbers[0] == 0 or len(numbers) > 3000 * 4 // 5 // 60
    asyncio.run(HistoryLog(tmp_path).append("t", "later"))
    assert texts_of(path)[-1] == "later"
