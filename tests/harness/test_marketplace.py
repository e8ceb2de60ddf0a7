"""marketplace.json: reading, resolving, discovering, adding an entry (harness-spec 5.4, 5.5)."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import MarketplaceError, discover, load_marketplace
from harness.plugins.entries import NewEntry, add_entry, with_entry
from harness.plugins.marketplace import (
    MAX_MARKETPLACE_BYTES,
    PLACE,
    Authentication,
    Installation,
    parse_marketplace,
    resolve,
    root_of,
)

FILE = Path("/r") / PLACE


def entry(name: str, **members: Any) -> dict[str, Any]:
    return {"name": name, "source": {"source": "local", "path": f"./plugins/{name}"}, **members}


def document(*entries: Any, **members: Any) -> bytes:
    return json.dumps({"name": "team", "plugins": entries, **members}).encode()


def written(root: Path, data: bytes) -> Path:
    file = root / PLACE
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


# -- 5.4 reading ----------------------------------------------------------------------------------------------------


def test_a_marketplace_as_it_is_read() -> None:
    """5.4"""
    found = parse_marketplace(
        document(
            entry("linear", policy={"installation": "NOT_AVAILABLE", "authentication": "ON_USE", "products": ["x"]}),
            entry("plain", category="Games"),
            interface={"displayName": "Team"},
        ),
        FILE,
    )
    assert (found.name, found.display_name, found.warnings) == ("team", "Team", ())
    first, second = found.entries
    assert first.folder == Path("/r/plugins/linear")
    assert (first.installation, first.authentication) == (Installation.NOT_AVAILABLE, Authentication.ON_USE)
    assert first.products == ("x",)
    assert (second.installation, second.authentication) == (Installation.AVAILABLE, Authentication.ON_INSTALL)
    assert (second.products, second.category) == (None, "Games")


def test_a_bad_entry_costs_itself_only() -> None:
    """5.4: one typing error took all plugins from everybody."""
    found = parse_marketplace(
        document(
            5,
            {"source": {"source": "local", "path": "./x"}},
            {"name": "a", "source": {"source": "local", "path": "../x"}},
            {"name": "b", "source": {"source": "local", "path": "./"}},
            {"name": "c", "source": {"path": "./x"}},
            {"name": "d"},
            entry("e", policy={"installation": "SOMETIMES"}),
            entry("f", policy=[]),
            entry("g", policy={"products": [5]}),
            entry("h", category=5),
            {"name": "i", "source": {"source": "local", "path": "/etc"}},
            entry("good"),
        ),
        FILE,
    )
    assert [each.name for each in found.entries] == ["good"]
    assert len(found.warnings) == 11
    assert all(f"plugins[{index}]: " in each for index, each in enumerate(found.warnings))
    assert "SOMETIMES" in found.warnings[6] and "NOT_AVAILABLE" in found.warnings[6]


def test_sources_of_other_kinds_are_listed() -> None:
    """5.4"""
    found = parse_marketplace(
        document({"name": "a", "source": {"source": "git", "url": "x"}}, {"name": "b", "source": "./plugins/b"}), FILE
    )
    git, plain = found.entries
    assert (git.source, git.folder) == ("git", None) and plain.folder == Path("/r/plugins/b")
    with pytest.raises(MarketplaceError, match="git") as error:
        resolve(found, "a")
    assert error.value.kind == "unsupportedSource"


def test_the_old_members_of_a_policy() -> None:
    """5.4: such entries silently got the defaults."""
    old = entry("a", installPolicy="NOT_AVAILABLE", authPolicy="ON_USE")
    found = parse_marketplace(document(old, entry("b", installPolicy="NOT_AVAILABLE", policy={})), FILE)
    assert found.entries[0].installation is Installation.NOT_AVAILABLE
    assert found.entries[0].authentication is Authentication.ON_USE
    assert found.entries[1].installation is Installation.AVAILABLE
    assert len(found.warnings) == 1 and "`policy`" in found.warnings[0]


def test_names_are_resolved() -> None:
    """5.4: three mistakes, three errors."""
    found = parse_marketplace(
        document(
            entry("two", category="first"),
            entry("two", category="second"),
            entry("not", policy={"installation": "NOT_AVAILABLE"}),
            entry("bad name"),
        ),
        FILE,
    )
    assert resolve(found, "two").category == "first"
    assert len(found.warnings) == 1 and "plugins[1]" in found.warnings[0]
    for name, kind in (("none", "unknownPlugin"), ("not", "notAvailable"), ("bad name", "invalidId")):
        with pytest.raises(MarketplaceError) as error:
            resolve(found, name)
        assert error.value.kind == kind


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"[]", "object"),
        (b"no", "JSON"),
        (b'{"name":"x","plugins":{}}', "list"),
        (b'{"plugins":[]}', "name"),
        (b'{"name":"x","plugins":' + b"[" * 100_000, "nested"),
        (b'{"name":"\xff"}', "UTF-8"),
    ],
)
def test_what_is_no_marketplace(data: bytes, why: str) -> None:
    """5.4"""
    with pytest.raises(MarketplaceError, match=why):
        parse_marketplace(data, FILE)


def test_a_marketplace_elsewhere_is_refused() -> None:
    """5.4: its paths would be resolved from a folder that nobody meant."""
    assert root_of(FILE) == Path("/r")
    with pytest.raises(MarketplaceError, match=r"ROOT/\.agents/plugins/marketplace\.json"):
        root_of(Path("/r/marketplace.json"))


def test_discovery(tmp_path: Path) -> None:
    """5.4: home first, a root itself, else its repository's; each file once; what fails is skipped."""
    home, repository, other, broken = (tmp_path / name for name in ("home", "repository", "other", "broken"))
    for folder in (home, other, repository):
        data = {"name": folder.name, "plugins": [entry(folder.name)]}
        written(folder, json.dumps(data).encode())
    written(broken, b"[]")
    (repository / ".git").touch()
    (repository / "src" / "deep").mkdir(parents=True)
    (tmp_path / "nothing").mkdir()
    roots = [repository / "src" / "deep", repository, other, broken, tmp_path / "nothing", home]
    found = discover(home, roots)
    assert [each.entries[0].name for each in found.marketplaces] == ["home", "repository", "other"]
    assert len(found.warnings) == 1 and str(broken) in found.warnings[0]


def test_two_marketplaces_of_one_name(tmp_path: Path) -> None:
    """An id names the plugin of one of them: the user is told which."""
    for name in ("a", "b"):
        written(tmp_path / name, document(entry("x")))
    found = discover(tmp_path / "a", [tmp_path / "b"])
    assert [each.file for each in found.marketplaces] == [tmp_path / "a" / PLACE, tmp_path / "b" / PLACE]
    assert len(found.warnings) == 1 and f"{tmp_path / 'a' / PLACE}: ids mean the first one" in found.warnings[0]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Lost: a listing that hangs at a FIFO, or fills the memory."""
    for name in ("fifo", "folder", "large", "loop", "device", "none"):
        (tmp_path / name / PLACE).parent.mkdir(parents=True)
    os.mkfifo(tmp_path / "fifo" / PLACE)
    (tmp_path / "folder" / PLACE).mkdir()
    with open(tmp_path / "large" / PLACE, "wb") as file:
        file.truncate(MAX_MARKETPLACE_BYTES + 1)
    (tmp_path / "loop" / PLACE).symlink_to("marketplace.json")
    (tmp_path / "device" / PLACE).symlink_to("/dev/zero")
    for name in os.listdir(tmp_path):
        with pytest.raises(MarketplaceError) as error:
            load_marketplace(tmp_path / name / PLACE)
        assert error.value.kind == "unreadable" and name in str(error.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
sources = st.fixed_dictionaries(
    {"source": st.just("local") | json_values, "path": st.just("./plugins/a") | json_values}
)
entries = st.dictionaries(
    st.sampled_from(["name", "source", "policy", "category", "installPolicy"]), json_values | sources, max_size=5
)
documents = st.fixed_dictionaries({"name": st.just("m") | json_values, "plugins": st.lists(entries) | json_values})


@given(documents | json_values)
def test_any_json_is_a_marketplace_or_a_reason(value: object) -> None:
    """5.4, 5.5: never another exception, no folder outside of the root, and what can be read can be added to."""
    data = json.dumps(value).encode()
    try:
        found = parse_marketplace(data, FILE)
    except MarketplaceError:
        return
    assert all(each.folder is None or each.folder.is_relative_to("/r/") for each in found.entries)
    assert all(".." not in each.folder.parts for each in found.entries if each.folder is not None)
    try:
        changed = with_entry(data, NewEntry(name="new"))
    except ValueError:
        return
    assert [each.name for each in parse_marketplace(changed, FILE).entries][-1] == "new"


# -- 5.5 writing ----------------------------------------------------------------------------------------------------

OTHERS = """{
  "name": "tëam",
  "comment": {"nobody": ["knows", 1.10, 123456789012345678901234567890]},
  "interface": {"displayName": "Old", "more": true},
  "plugins": [{"name": "a", "installPolicy": "X", "note": "é \\u00e9"}, "not an object", {"name": "b"}]
}"""


def test_nothing_else_changes() -> None:
    """5.5: members that nobody knows, order, and how others have written their text and numbers."""
    data = with_entry(OTHERS.encode(), NewEntry(name="new"))
    text = data.decode()
    before, after = json.loads(OTHERS), json.loads(text)
    assert after["plugins"][:3] == before["plugins"]
    assert {**after, "plugins": 0} == {**before, "plugins": 0} and list(after) == list(before)
    assert "1.10" in text and "123456789012345678901234567890" in text and "é \\u00e9" in text and "tëam" in text
    assert text.endswith("}\n") and '\n  "comment"' in text
    assert after["plugins"][3] == {
        "name": "new",
        "source": {"source": "local", "path": "./plugins/new"},
        "policy": {"installation": "AVAILABLE", "authentication": "ON_INSTALL"},
        "category": "Productivity",
    }


def test_an_entry_is_replaced_with_force_only() -> None:
    """5.5"""
    data = document(entry("x"), entry("new", old=1), entry("y"), entry("new", old=2))
    with pytest.raises(ValueError, match="--force"):
        with_entry(data, NewEntry(name="new"))
    forced = json.loads(with_entry(data, NewEntry(name="new", products=("p",)), force=True))
    assert [each["name"] for each in forced["plugins"]] == ["x", "new", "y", "new"]
    assert "old" not in forced["plugins"][1] and forced["plugins"][3]["old"] == 2
    assert forced["plugins"][1]["policy"]["products"] == ["p"]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"[]", "object"),
        (b'{"name":"x","interface":[]}', "`interface`"),
        (b'{"name":"x","plugins":{}}', "`plugins`"),
        (b'{"plugins":[]}', "`name`"),
        (b'{"name":"x","name":"y"}', "twice"),
        (b"{", "JSON"),
        (b'{"name":"x","plugins":[' + b"[" * 100_000, "nested"),
        (b'{"name":"x","a":' + b"[" * 400 + b"]" * 400 + b"}", None),
    ],
)
def test_what_no_entry_is_added_to(data: bytes, why: str | None) -> None:
    """5.5"""
    if why is None:
        assert json.loads(with_entry(data, NewEntry(name="new")))["plugins"][0]["name"] == "new"
        return
    with pytest.raises(ValueError, match=why):
        with_entry(data, NewEntry(name="new"))


def test_a_new_file_and_its_mode(tmp_path: Path) -> None:
    """5.5"""
    file = tmp_path / PLACE
    add_entry(file, NewEntry(name="a"))
    assert load_marketplace(file).display_name == "Personal"
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~umask
    file.chmod(0o640)
    add_entry(file, NewEntry(name="b"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [each.name for each in load_marketplace(file).entries] == ["a", "b"]


def test_a_link_stays(tmp_path: Path) -> None:
    """Lost: the link of those who keep their settings in a repository of their own."""
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles" / "m.json").write_bytes(document(entry("a")))
    file = tmp_path / PLACE
    file.parent.mkdir(parents=True)
    file.symlink_to("../../dotfiles/m.json")
    add_entry(file, NewEntry(name="b"))
    assert file.is_symlink() and [each.name for each in load_marketplace(file).entries] == ["a", "b"]
    file.unlink()
    file.symlink_to("nowhere")
    with pytest.raises(MarketplaceError, match="link that leads nowhere"):
        add_entry(file, NewEntry(name="b"))


def test_a_refusal_leaves_the_file(tmp_path: Path) -> None:
    """5.5"""
    for data in (b"[]", b"{", document(entry("a")), b'{"name":"x","plugins":{}}'):
        file = written(tmp_path, data)
        with pytest.raises(MarketplaceError):
            add_entry(file, NewEntry(name="a"))
        assert file.read_bytes() == data
        assert sorted(os.listdir(file.parent)) == [".marketplace.json.lock", "marketplace.json"]


def test_a_full_disk_leaves_the_file(tmp_path: Path) -> None:
    """5.5: a crash in the middle truncated everybody's entries. The process may write no more than the file has."""
    file = written(tmp_path, document(*(entry(f"p{number}") for number in range(200))))
    before = file.read_bytes()
    code = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from harness.plugins.entries import NewEntry, add_entry\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try:\n"
        "    add_entry(Path(sys.argv[1]), NewEntry(name='new'))\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    said = subprocess.check_output([sys.executable, "-c", code, str(file)], text=True)
    assert said == f"MarketplaceError {file}: File too large\n"
    assert file.read_bytes() == before
    assert sorted(os.listdir(file.parent)) == [".marketplace.json.lock", "marketplace.json"]


def test_many_at_once_lose_nothing(tmp_path: Path) -> None:
    """5.5, 5.6: of two that read before either has written, one entry was lost."""
    file = tmp_path / PLACE
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from harness.plugins.entries import NewEntry, add_entry\n"
        "for number in range(10):\n"
        "    add_entry(Path(sys.argv[1]), NewEntry(name=f'{sys.argv[2]}-{number}'))\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(file), f"w{n}"]) for n in range(4)]
    assert [each.wait() for each in writers] == [0] * 4
    names = [each.name for each in load_marketplace(file).entries]
    assert sorted(names) == sorted(f"w{writer}-{number}" for writer in range(4) for number in range(10))
