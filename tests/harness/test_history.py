"""The message history: what is stored, and what is found again (sections 1.2 to 1.7)."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import stat
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import HistoryBusy
from harness.history import log as log_module
from harness.history import reading, storage
from harness.history.log import Batch, HistoryLog, Metadata
from harness.history.record import MAX_LINE_BYTES, Record, decode_record, encode_record

pytestmark = pytest.mark.anyio
GOOD = encode_record(Record("t", 1, "good"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def file_of(home: Path, *lines: bytes) -> Path:
    home.mkdir(parents=True, exist_ok=True)
    path = home / "history.jsonl"
    path.write_bytes(b"".join(lines))
    return path


def log_with(home: Path, count: int, size: int = 10) -> HistoryLog:
    file_of(home, *(encode_record(Record("t", number, f"{number:06} " + "x" * size)) for number in range(count)))
    return HistoryLog(home)


async def test_an_empty_home(home: Path) -> None:
    """Section 1.7."""
    log = HistoryLog(home)
    assert await log.metadata() == (0, 0)
    assert await log.lookup(1, 0) is None
    assert await log.lookup(None, 0) is None
    assert await log.batch() == Batch(0)
    assert await log.search("x") == []
    assert await log.trim(1) == 0
    assert not home.exists()


async def test_two_programs(home: Path) -> None:
    """Section 1.7. Lost: an offset that names another prompt as soon as a second agent runs."""
    log = HistoryLog(home, clock=lambda: 1_700_000_000.9)
    await log.append("t", "older")
    await log.append("t", "newer")
    log_id, count = await log.metadata()
    assert log_id >= 1 and count == 2
    assert await log.lookup(log_id, 1) == Record("t", 1_700_000_000, "newer")
    await HistoryLog(home).append("u", "of another program")
    assert await log.metadata() == (log_id, 3)
    found = await log.lookup(log_id, 2)
    assert found is not None and found.text == "of another program"
    assert await log.lookup(log_id + 1, 2) is None
    assert await log.lookup(log_id, 3) is None
    assert await log.lookup(log_id, -1) is None
    assert await log.lookup(None, 0) == Record("t", 1_700_000_000, "older")
    await log.append("t", "")
    assert (await log.metadata()).count == 3


async def test_modes(home: Path) -> None:
    """Sections 1.3, 1.7. Lost: prompts that everybody on the machine can read."""
    log = HistoryLog(home / "deep" / "er")
    await log.append("t", "x")
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.path.parent.stat().st_mode) == 0o700
    log.path.chmod(0o644)
    await log.append("t", "x")
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a file of somebody else")
async def test_the_mode_of_a_file_of_somebody_else_is_not_ours(home: Path) -> None:
    path = file_of(home, GOOD)
    os.chown(path, 12345, 12345)
    path.chmod(0o644)
    await HistoryLog(home).append("t", "x")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


async def test_what_is_not_stored(home: Path) -> None:
    """Section 1.2."""
    await HistoryLog(home, persistence="none").append("t", "x")
    assert not home.exists()
    log = HistoryLog(home, redact=lambda text: None if "secret" in text else text.replace("token", "…"))
    await log.append("t", "a secret")
    await log.append("t", "a token")
    assert [entry.record and entry.record.text for entry in (await log.batch()).entries] == ["a …"]
    off = HistoryLog(home, persistence="none")
    await off.append("t", "x")
    assert (await off.metadata()).count == 1
    found = await off.lookup(None, 0)
    assert found is not None and found.text == "a …"


async def test_bad_settings(home: Path) -> None:
    for wrong in ({"persistence": "some"}, {"max_bytes": -1}):
        with pytest.raises(ValueError, match=str(next(iter(wrong.values())))):
            HistoryLog(home, **wrong)  # type: ignore[arg-type]


async def test_prompts_that_are_too_large(home: Path) -> None:
    """Section 1.3, rule 6."""
    log = HistoryLog(home)
    with pytest.raises(ValueError, match="1048577 bytes"):
        await log.append("t", "a" * 1_048_577)
    with pytest.raises(ValueError, match="1048578 bytes"):
        await log.append("t", "é" * 524_289)
    await log.append("t", "a" * 1_048_576)
    await log.append("t", "\ud800" * 1000)
    await HistoryLog(home, max_text_bytes=2 << 20).append("t", "b" * 1_048_577)
    assert (await log.metadata()).count == 3
    with pytest.raises(ValueError, match="is not stored"):
        await HistoryLog(home, max_text_bytes=1 << 30).append("t", "\x01" * (3 << 20))


async def test_malformed_lines_keep_their_offset(home: Path) -> None:
    """Section 1.7."""
    file_of(home, GOOD, b"not json\n", GOOD)
    log = HistoryLog(home)
    log_id, count = await log.metadata()
    assert count == 3
    assert await log.lookup(log_id, 1) is None
    batch = await log.batch(log_id, 2)
    assert [(entry.offset, entry.record is None) for entry in batch.entries] == [(2, False), (1, True), (0, False)]
    assert batch.cursor is None


async def test_a_torn_line(home: Path) -> None:
    """Sections 1.3 and 1.7. Lost: the prompt after a crash, glued to what the crash left."""
    path = file_of(home, GOOD, b'{"sess')
    log = HistoryLog(home)
    log_id, count = await log.metadata()
    assert count == 1 and await log.lookup(log_id, 1) is None
    assert len((await log.batch()).entries) == 1
    await log.append("t", "new")
    assert await log.metadata() == (log_id, 3)
    assert await log.lookup(log_id, 1) is None
    found = await log.lookup(log_id, 2)
    assert found is not None and found.text == "new"
    assert path.read_bytes().startswith(GOOD + b'{"sess\n')


async def test_bytes_that_are_not_utf8(home: Path) -> None:
    """Section 1.6. Lost: every later prompt, and the limit of the file, to one wrong byte."""
    file_of(home, GOOD, b"\xff\xfe\x80\n", b"\xff" * 4000 + b"\n", GOOD)
    log = HistoryLog(home, max_bytes=1000)
    assert (await log.metadata()).count == 4
    await log.append("t", "new")
    assert log.path.stat().st_size <= 1000
    assert [entry.record and entry.record.text for entry in (await log.batch()).entries] == ["new", "good"]


async def test_batches(home: Path) -> None:
    """Section 1.7: 128 at a time, each once."""
    log = log_with(home, 400)
    log_id, _ = await log.metadata()
    batch = await log.batch(log_id, 399)
    assert [entry.offset for entry in batch.entries] == [*range(399, 271, -1)]
    assert batch.cursor is not None and batch.cursor.offset == 271
    seen = [entry.offset for entry in batch.entries]
    while batch.cursor is not None:
        batch = await log.older(batch.cursor)
        seen += [entry.offset for entry in batch.entries]
        assert all(entry.record and entry.record.ts == entry.offset for entry in batch.entries)
    assert seen == [*range(399, -1, -1)]
    assert (await log.batch(log_id, 400)).entries == ()
    assert (await log.batch(log_id + 1, 399)).entries == ()
    assert (await log.batch()).entries[0].offset == 399


@given(
    st.lists(st.integers(0, 300), max_size=40),
    st.integers(1, 50),
    st.integers(1, 2000),
    st.sampled_from([32, 64, 65536]),
)
def test_any_batches(sizes: list[int], most: int, most_bytes: int, block: int) -> None:
    """Section 7. Following the cursors gives all records, newest first, each once, whatever the bounds."""

    async def followed(log: HistoryLog) -> list[int]:
        found: list[int] = []
        batch = await log.batch()
        while batch.entries:
            raw = sum(len(encode_record(each.record)) for each in batch.entries if each.record)
            assert len(batch.entries) <= most and (raw <= most_bytes or len(batch.entries) == 1)
            assert all(each.record and each.record.ts == each.offset for each in batch.entries)
            found += [each.offset for each in batch.entries]
            if batch.cursor is None:
                break
            batch = await log.older(batch.cursor)
        return found

    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "BLOCK", block)
        patch.setattr(reading, "MAX_BATCH_BYTES", most_bytes)
        patch.setattr(log_module, "lines_back", partial(reading.lines_back, most=most))
        file_of(Path(folder), *(encode_record(Record("t", n, "x" * size)) for n, size in enumerate(sizes)))
        assert asyncio.run(followed(HistoryLog(folder))) == [*reversed(range(len(sizes)))]


async def test_large_records_make_small_batches(home: Path) -> None:
    """Section 1.7: five of 20,000 characters are 3, then 2; one of 70,000 comes alone."""
    log = log_with(home, 5, 20_000)
    first = await log.batch()
    assert first.cursor is not None
    assert [len(first.entries), len((await log.older(first.cursor)).entries)] == [3, 2]
    await log.append("t", "y" * 70_000)
    alone = await log.batch()
    assert [entry.offset for entry in alone.entries] == [5] and alone.cursor is not None
    assert len((await log.older(alone.cursor)).entries) == 3


async def test_a_cursor_of_a_file_that_changed(home: Path) -> None:
    """Section 1.5. Lost: entries twice, or not at all, because another agent wrote meanwhile."""
    log = log_with(home, 200)
    batch = await log.batch()
    await HistoryLog(home).append("u", "meanwhile")
    assert batch.cursor is not None
    assert [entry.offset for entry in (await log.older(batch.cursor)).entries] == [*range(71, -1, -1)]
    await log.trim(5000)
    assert (await log.older(batch.cursor)).entries == ()


async def test_a_line_too_long_to_be_held(home: Path) -> None:
    """Section 1.5."""
    path = file_of(home, GOOD)
    with path.open("ab") as file:
        file.truncate(len(GOOD) + MAX_LINE_BYTES + 5)
    with path.open("ab") as file:
        file.write(b"\n" + GOOD)
    log = HistoryLog(home)
    log_id, count = await log.metadata()
    assert count == 3
    assert await log.lookup(log_id, 1) is None
    batch = await log.batch()
    assert [entry.offset for entry in batch.entries] == [2] and batch.cursor is not None
    batch = await log.older(batch.cursor)
    assert [entry.record for entry in batch.entries] == [None] and batch.cursor is not None
    assert [entry.offset for entry in (await log.older(batch.cursor)).entries] == [0]


async def test_search(home: Path) -> None:
    """Section 1.5: newest first, whatever the case, each text once."""
    file_of(
        home, *(encode_record(Record("t", n, text)) for n, text in enumerate(["Straße", "b", "STRASSE", "b", "bb"]))
    )
    log = HistoryLog(home)

    async def found(*arguments: Any, **more: Any) -> list[tuple[int, str]]:
        entries = await log.search(*arguments, **more)
        return [(entry.offset, entry.record.text) for entry in entries if entry.record is not None]

    assert await found("strasse") == [(2, "STRASSE"), (0, "Straße")]
    assert await found("B") == [(4, "bb"), (3, "b")]
    assert await found("B", before=4) == [(3, "b")]
    assert await found("", limit=2) == [(4, "bb"), (3, "b")]
    assert await found("b", before=0) == await found("b", limit=0) == await found("nothing") == []


async def test_search_while_another_program_trims(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Section 1.5. Lost: results with offsets of a log that is no more. It begins again."""
    log = log_with(home, 300)
    decoded: list[bytes] = []

    def decode(line: bytes) -> Record | None:
        decoded.append(line)
        if len(decoded) == 100:
            storage.Storage(log.path, 1).trim(8000)
        return decode_record(line)

    monkeypatch.setattr(log_module, "decode_record", decode)
    found = await log.search("00", limit=1000)
    assert len(decoded) == 128 + (await log.metadata()).count
    for entry in found:
        assert await log.lookup(None, entry.offset) == entry.record
    assert len(found) == (await log.metadata()).count


async def test_trim_changes_the_identity(home: Path) -> None:
    """Sections 1.4, 1.6. Lost: a record shown under the name of another."""
    log = HistoryLog(home, max_bytes=1000)
    for number in range(40):
        before = await log.metadata()
        await log.append("t", f"{number} " + "x" * 50)
        after = await log.metadata()
        dropped = before.count + 1 - after.count
        assert (after.log_id == before.log_id) == (dropped == 0) or number == 0
        assert log.path.stat().st_size <= 1000
        if dropped:
            assert await log.lookup(before.log_id, 0) is None
    await log.append("t", "y" * 5000)
    assert [entry.record and len(entry.record.text) for entry in (await log.batch()).entries] == [5000]


async def test_the_same_prompt_within_a_second(home: Path) -> None:
    """Lost: an offset that stays good after a trim, and names another record, where first lines are alike."""
    now = 0
    log = HistoryLog(home, max_bytes=120, clock=lambda: now)
    seen: dict[tuple[int, int], str] = {}
    for now, texts in enumerate(["aaaaaab", "aaab", "b"]):  # noqa: B007  the clock has it
        for text in texts:
            await log.append("t", text)
            log_id, count = await log.metadata()
            for offset in range(count):
                record = await log.lookup(log_id, offset)
                assert record is not None and seen.setdefault((log_id, offset), record.text) == record.text


async def test_what_is_no_file_is_a_history_switched_off(tmp_path: Path) -> None:
    """Section 1.3, rule 3, and bad input. Lost: the machine's /dev/null, to a chmod by root."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    before = os.stat("/dev/null")
    for target in ("/dev/null", "fifo", "folder", "/dev/zero"):
        home = tmp_path / f"home-{Path(target).name}"
        home.mkdir()
        (home / "history.jsonl").symlink_to(Path("..") / target)
        log = HistoryLog(home)
        await log.append("t", "x")
        assert await log.metadata() == (0, 0)
        assert await log.lookup(None, 0) is None
        assert await log.batch() == Batch(0)
        assert await log.trim(1) == 0
    after = os.stat("/dev/null")
    assert (after.st_mode, after.st_uid, after.st_ctime) == (before.st_mode, before.st_uid, before.st_ctime)


async def test_links(tmp_path: Path) -> None:
    """Bad input. A link to a file elsewhere is followed; one in a circle is an error that says so."""
    log = HistoryLog(tmp_path)
    log.path.symlink_to("elsewhere")
    await log.append("t", "x")
    assert (tmp_path / "elsewhere").is_file() and log.path.is_symlink()
    log.path.unlink()
    log.path.symlink_to("history.jsonl")
    for call in (log.append("t", "x"), log.metadata(), log.batch()):
        with pytest.raises(OSError, match="symbolic links"):
            await call
    with pytest.raises(FileExistsError, match="elsewhere"):
        await HistoryLog(tmp_path / "elsewhere" / "x").append("t", "x")
    assert await HistoryLog(tmp_path / "elsewhere").metadata() == (0, 0)


async def test_others_that_keep_the_lock(home: Path) -> None:
    """Section 1.3, rule 5: an error with the path, after the time that was given."""
    path = file_of(home, GOOD)
    log = HistoryLog(home, lock_timeout=0.1)
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        for call in (log.append("t", "x"), log.metadata(), log.lookup(None, 0), log.trim(1)):
            with pytest.raises(HistoryBusy, match=rf"{path}.*0\.1 s"):
                await call
        fcntl.flock(other, fcntl.LOCK_SH)
        assert (await log.metadata()).count == 1
    assert path.read_bytes() == GOOD


async def test_a_lock_is_waited_for(home: Path) -> None:
    """Lost: a prompt, because another agent was busy for two seconds."""
    path = file_of(home, GOOD)
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 3:
                fcntl.flock(other, fcntl.LOCK_UN)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(storage.time, "sleep", pause)
            await HistoryLog(home).append("t", "x")
    assert len(pauses) == 3 and all(0.01 <= each <= 0.05 for each in pauses)
    assert path.read_bytes().count(b"\n") == 2


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
async def test_a_file_system_without_locks(home: Path, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Section 1.3, rule 5: it is appended to, and never trimmed."""

    def flock(fd: int, operation: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(storage.fcntl, "flock", flock)
    log = HistoryLog(home, max_bytes=100)
    for text in ("one", "two", "three"):
        await log.append("t", text)
    assert (await log.metadata()).count == 3 and log.path.stat().st_size > 100
    with pytest.raises(HistoryBusy, match="without locks"):
        await log.trim()


async def test_a_lock_that_fails_otherwise(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(fd: int, operation: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    path = file_of(home, GOOD)
    monkeypatch.setattr(storage.fcntl, "flock", flock)
    with pytest.raises(OSError, match="Input/output"):
        await HistoryLog(home).append("t", "x")
    assert path.read_bytes() == GOOD


async def test_a_file_replaced_while_its_lock_was_waited_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost: a prompt, written to a file that an editor has just replaced."""
    path = file_of(home, GOOD)
    real = fcntl.flock
    replaced: list[Path] = []

    def flock(fd: int, operation: int) -> None:
        if not replaced:
            replaced.append(path.rename(home / "old"))
            path.write_bytes(b"")
        real(fd, operation)

    monkeypatch.setattr(storage.fcntl, "flock", flock)
    await HistoryLog(home).append("t", "x")
    assert (home / "old").read_bytes() == GOOD
    assert path.read_bytes().count(b"\n") == 1


async def test_an_unreadable_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Section 1.4: it can be looked at, but not opened."""
    path = file_of(home, GOOD)
    real = os.open

    def denied(name: Any, *arguments: Any, **more: Any) -> int:
        if name == path:
            raise PermissionError(errno.EACCES, "Permission denied", str(name))
        return real(name, *arguments, **more)

    monkeypatch.setattr(os, "open", denied)
    log_id, count = await HistoryLog(home).metadata()
    assert log_id >= 1 and count == 0
    with pytest.raises(PermissionError):
        await HistoryLog(home).lookup(None, 0)


async def test_an_explicit_trim_drops_a_torn_line_and_keeps_the_newest(home: Path) -> None:
    path = file_of(home, GOOD, GOOD.replace(b"good", b"last"), b'{"torn')
    assert await HistoryLog(home).trim(1) == len(GOOD) + 6
    assert path.read_bytes() == GOOD.replace(b"good", b"last")
    assert await HistoryLog(home).trim(0) == 0


async def test_the_count_of_a_large_file_is_remembered(home: Path) -> None:
    """The figures of a file that did not change are not counted again; those of one that did are."""
    log = log_with(home, 1000)
    assert (await log.metadata()).count == 1000
    await HistoryLog(home).append("t", "x")
    assert (await log.metadata()).count == 1001
    os.utime(log.path, ns=(time.time_ns(), time.time_ns()))
    assert isinstance(await log.metadata(), Metadata)
