"""Making plugins and checking them, by the library and by `exec-harness plugin` (harness-spec 5.6, 5.7)."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from harness import LocalReader, MarketplaceError, PluginError, load_manifest, load_marketplace
from harness.cli import run
from harness.plugins.marketplace import PLACE
from harness.plugins.scaffold import Parts, Policy, create, plan
from harness.plugins.validation import faults_of

MANIFEST = ".codex-plugin/plugin.json"


class Ran(NamedTuple):
    status: int
    out: str
    err: str


class Program:
    """`exec-harness` in a folder of its own."""

    def __init__(self, root: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self._capture = capture

    def __call__(self, *words: str) -> Ran:
        self._capture.readouterr()
        read, write = os.pipe()
        kept = os.dup(2)  # what the program says on stderr is written to the descriptor
        os.dup2(write, 2)
        os.close(write)
        try:
            status = run(words)
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        with open(read, encoding="utf-8") as file:
            err = file.read()
        return Ran(status, self._capture.readouterr().out, err)

    def files(self) -> dict[str, str]:
        """All files with their text, but for locks."""
        found = (path for path in self.root.rglob("*") if path.is_file() and path.suffix != ".lock")
        return {str(path.relative_to(self.root)): path.read_text() for path in found}

    def entries(self) -> list[str]:
        return [each.name for each in load_marketplace(self.root / PLACE).entries]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(root)
    return Program(root, capsys)


# -- 5.6 ------------------------------------------------------------------------------------------------------------


def test_a_plugin_with_an_entry(program: Program) -> None:
    """5.6: the first case, then the same again, and with force."""
    ran = program("plugin", "create", "My Plugin", "--with-mcp", "--with-marketplace")
    assert ran.status == 0 and "'my-plugin', made of 'My Plugin'" in ran.err
    files = program.files()
    assert sorted(files) == [str(PLACE), f"plugins/my-plugin/{MANIFEST}", "plugins/my-plugin/.mcp.json"]
    manifest = json.loads(files[f"plugins/my-plugin/{MANIFEST}"])
    assert (manifest["name"], manifest["mcpServers"]) == ("my-plugin", "./.mcp.json")
    assert json.loads(files["plugins/my-plugin/.mcp.json"]) == {"mcpServers": {}}
    assert program.entries() == ["my-plugin"]
    assert "skills" not in manifest and "apps" not in manifest

    again = program("plugin", "create", "My Plugin", "--with-mcp", "--with-marketplace")
    assert again.status == 1 and "is there already" in again.err and "Traceback" not in again.err
    assert program.files() == files
    (program.root / "plugins" / "my-plugin" / ".mcp.json").write_text("mine")
    assert program("plugin", "create", "my-plugin", "--with-mcp", "--with-marketplace", "--force").status == 0
    assert program.files() == files and program.entries() == ["my-plugin"]


def test_what_is_made_loads_and_validates(program: Program) -> None:
    """5.6: the seed's manifest was refused by its own reader."""
    every = [f"--with-{part}" for part in ("skills", "hooks", "scripts", "assets", "mcp", "apps", "marketplace")]
    for name, flags in (("bare", []), ("full", every)):
        ran = program("plugin", "create", name, *flags)
        assert (ran.status, ran.err) == (0, "")
        assert program("plugin", "validate", f"plugins/{name}") == Ran(0, "ok\n", "")
    folder = program.root / "plugins" / "full"
    assert sorted(os.listdir(folder)) == [
        ".app.json",
        ".codex-plugin",
        ".mcp.json",
        "assets",
        "hooks",
        "scripts",
        "skills",
    ]


@pytest.mark.anyio
async def test_what_is_made_loads_without_a_warning(tmp_path: Path) -> None:
    """5.6"""
    made = create("A", Parts(skills=True, mcp=True, apps=True), folder=tmp_path)
    loaded = await load_manifest(LocalReader(), str(made.folder))
    assert loaded.manifest is not None and loaded.warnings == ()
    assert (loaded.manifest.skills, loaded.manifest.mcp_servers) == (("skills",), ".mcp.json")


def test_an_entry_that_would_lead_nowhere(program: Program) -> None:
    """5.6: both folders are named, and nothing is made."""
    ran = program("plugin", "create", "x", "--path", "other", "--with-marketplace")
    assert ran.status == 1
    assert f"{program.root}/plugins/x" in ran.err and f"{program.root}/other/x" in ran.err
    assert program.files() == {} and os.listdir(program.root) == []


def test_a_marketplace_in_a_home(program: Program, tmp_path: Path) -> None:
    """5.6: the plugin of a user's home, the paths written with a tilde that no shell has seen."""
    home = tmp_path / "home"
    file = "~/.agents/plugins/marketplace.json"
    ran = program("plugin", "create", "x", "--path=~/plugins", "--with-marketplace", f"--marketplace-path={file}")
    assert (ran.status, ran.err) == (0, "")
    [entry] = load_marketplace(home / PLACE).entries
    assert entry.folder == home / "plugins" / "x" and (entry.folder / MANIFEST).is_file()


@pytest.mark.parametrize("content", [b"[]", b'{"name":"x","plugins":{}}', b"{", b"\xff"])
def test_a_marketplace_of_no_use(program: Program, content: bytes) -> None:
    """5.6: no plugin is made for it."""
    file = program.root / PLACE
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    ran = program("plugin", "create", "x", "--with-marketplace")
    assert ran.status == 1 and str(file) in ran.err and ran.err.count("\n") == 1
    assert file.read_bytes() == content and not (program.root / "plugins").exists()


def test_places_where_no_reader_looks(program: Program) -> None:
    """5.6"""
    ran = program("plugin", "create", "x", "--with-marketplace", "--marketplace-path", "marketplace.json")
    assert ran.status == 1 and "ROOT/.agents/plugins/marketplace.json" in ran.err and program.files() == {}


def test_an_entry_without_its_plugin(program: Program) -> None:
    """5.6: the entry is there, the folder is not: nothing is made without force."""
    program("plugin", "create", "x", "--with-marketplace")
    for path in sorted((program.root / "plugins" / "x").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (program.root / "plugins" / "x").rmdir()
    before = program.files()
    assert program("plugin", "create", "x", "--with-marketplace").status == 1
    assert program.files() == before
    assert program("plugin", "create", "x", "--with-marketplace", "--force").status == 0
    assert program.entries() == ["x"]


def test_what_is_in_the_way(program: Program, tmp_path: Path) -> None:
    plugins = program.root / "plugins"
    (plugins / "empty").mkdir(parents=True)
    (plugins / "file").write_text("x")
    (plugins / "link").symlink_to("nowhere")
    (plugins / "out" / "deep").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (plugins / "out" / ".codex-plugin").symlink_to(tmp_path / "elsewhere")
    assert program("plugin", "create", "empty").status == 0
    assert program("plugin", "create", "file", "--force").status == 1
    assert program("plugin", "create", "link", "--force").status == 1
    ran = program("plugin", "create", "out", "--force")
    assert ran.status == 1 and "link" in ran.err and os.listdir(tmp_path / "elsewhere") == []


def test_a_full_disk_leaves_nothing_half_done(program: Program) -> None:
    """5.6: a half-done creation stayed, and the next try failed at it."""
    code = (
        "import resource, sys\n"
        "from harness.cli import run\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "sys.exit(run(['plugin', 'create', 'x', '--with-marketplace']))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=program.root, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (1, "") and "File too large" in ran.stderr
    assert program.files() == {} and os.listdir(program.root / "plugins") == []


def test_an_entry_that_cannot_be_written_takes_the_plugin_with_it(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """5.6"""

    def full(*_: Any, **__: Any) -> None:
        raise MarketplaceError("disk full", "unreadable")

    monkeypatch.setattr("harness.plugins.scaffold.add_entry", full)
    with pytest.raises(MarketplaceError):
        create("x", marketplace=Policy())
    assert os.listdir(program.root / "plugins") == []


def test_two_creators_at_once(program: Program) -> None:
    """5.6: two entries."""
    code = "import sys; from harness.cli import run; sys.exit(run(sys.argv[1:]))"
    words = ("plugin", "create", "--with-marketplace")
    makers = [subprocess.Popen([sys.executable, "-c", code, *words, name], cwd=program.root) for name in "abcd"]
    assert [each.wait() for each in makers] == [0] * 4
    assert sorted(program.entries()) == ["a", "b", "c", "d"]


def test_two_creators_of_one_plugin(program: Program) -> None:
    """5.6: one is first, the other is told so, and the plugin is whole."""
    code = "import sys; from harness.cli import run; sys.exit(run(sys.argv[1:]))"
    words = ("plugin", "create", "--with-marketplace", "--with-mcp", "one")
    makers = [
        subprocess.Popen([sys.executable, "-c", code, *words], cwd=program.root, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    for each in makers:
        each.communicate()
    assert sorted(each.returncode for each in makers) == [0, 1, 1, 1]
    assert program.entries() == ["one"] and faults_of(program.root / "plugins" / "one") == []


def test_wrong_words_are_told_from_failures(program: Program) -> None:
    """5.6: status 2 for the one, 1 for the other; one line, no traceback."""
    for words, status, says in (
        (("plugin", "create"), 2, "exec-harness plugin create --help"),
        (("plugin", "create", "x", "--nonsense"), 2, "--nonsense"),
        (("plugin", "create", "x", "--install-policy", "FOO"), 2, "AVAILABLE"),
        (("nonsense",), 2, "nonsense"),
        (("plugin", "create", "!!!"), 1, "letter or digit"),
        (("plugin", "validate", "none"), 1, "none"),
        (("marketplace", "add", "none"), 1, "no plugin"),
        (("marketplace", "add", "/"), 1, "no plugin"),
        (("plugin", "create", "x", "--path", "/dev/null"), 1, "/dev/null/x"),
        (("plugin", "validate", "/dev/null"), 1, "no folder"),
    ):
        ran = program(*words)
        assert (ran.status, ran.out, ran.err.count("\n")) == (status, "", 1), words
        assert ran.err.startswith("exec-harness: ") and says in ran.err
    assert program.files() == {}


def test_placeholders(program: Program) -> None:
    """5.6: every member, with paths only for what was made; 5.7 finds what is to be filled in."""
    assert program("plugin", "create", "x", "--placeholders", "--with-mcp", "--with-marketplace").status == 0
    manifest = json.loads(program.files()[f"plugins/x/{MANIFEST}"])
    assert (manifest["name"], manifest["mcpServers"]) == ("x", "./.mcp.json")
    assert manifest["skills"].startswith("[TODO:") and len(manifest["interface"]["screenshots"]) == 3
    faults = faults_of(program.root / "plugins" / "x")
    assert {"$.interface.logo", "$.keywords[1]", "$.skills"} <= {each.member for each in faults}
    assert all("never filled in" in each.text for each in faults)
    assert load_marketplace(program.root / PLACE).name.startswith("[TODO:")


def test_options_of_the_entry_and_json(program: Program) -> None:
    """5.6: `--json` prints the paths."""
    words = ("--install-policy", "NOT_AVAILABLE", "--auth-policy", "ON_USE", "--category", "Games", "--json")
    ran = program("plugin", "create", "x", "--with-marketplace", *words)
    folder = program.root / "plugins" / "x"
    assert json.loads(ran.out) == {
        "name": "x",
        "plugin": str(folder),
        "manifest": str(folder / MANIFEST),
        "marketplace": str(program.root / PLACE),
    }
    listed = program("plugin", "list", "--json")
    assert json.loads(listed.out) == [
        {
            "name": "x",
            "marketplace": "personal",
            "marketplacePath": str(program.root / PLACE),
            "source": "local",
            "folder": str(folder),
            "installation": "NOT_AVAILABLE",
            "authentication": "ON_USE",
            "products": None,
            "category": "Games",
        }
    ]
    assert "x@personal  NOT_AVAILABLE" in program("plugin", "list").out


def test_an_entry_for_a_plugin_that_is_there(program: Program) -> None:
    """`marketplace add`, with the rules of 5.5 and 5.6."""
    program("plugin", "create", "x")
    assert program("marketplace", "add", "plugins/x", "--product", "cli").status == 0
    assert program.entries() == ["x"]
    assert program("marketplace", "add", "plugins/x").status == 1
    assert program("marketplace", "add", "plugins/x", "--force", "--json").status == 0
    assert program.entries() == ["x"]


def test_a_plan_is_pure(tmp_path: Path) -> None:
    """5.6"""
    planned = plan("My Plugin", Parts(assets=True, apps=True))
    assert (planned.name, planned.folders) == ("my-plugin", ("assets",))
    assert sorted(planned.files) == [".app.json", MANIFEST]
    with pytest.raises(PluginError):
        plan("!")


# -- 5.7 ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def valid(tmp_path: Path) -> Path:
    return create("valid", Parts(skills=True, assets=True, mcp=True, apps=True), folder=tmp_path / "plugins").folder


def changed(folder: Path, where: str, value: Any) -> list[str]:
    """The members at fault after one member of the manifest was changed; None takes it away."""
    file = folder / MANIFEST
    original = file.read_text()
    values = json.loads(original)
    *parents, name = where.split(".")
    target = values
    for each in parents:
        target = target[each]
    if value is None:
        target.pop(name, None)
    else:
        target[name] = value
    file.write_text(json.dumps(values))
    try:
        return [each.member for each in faults_of(folder)]
    finally:
        file.write_text(original)


REQUIRED = (
    *("name", "version", "description", "author", "author.name", "interface"),
    *(f"interface.{name}" for name in ("displayName", "shortDescription", "longDescription", "developerName")),
    *("interface.category", "interface.defaultPrompt", "interface.capabilities"),
)


@pytest.mark.parametrize("member", REQUIRED)
def test_what_has_to_be_there(valid: Path, member: str) -> None:
    """5.7"""
    assert changed(valid, member, None) == [f"$.{member}"]
    assert f"$.{member}" in changed(valid, member, "  ")


@pytest.mark.parametrize(
    ("member", "value", "at"),
    [
        ("name", "other", "$.name"),
        ("name", "a b", "$.name"),
        ("version", "1.0", "$.version"),
        ("version", "v1.0.0", "$.version"),
        ("version", 1, "$.version"),
        ("unknown", 1, "$.unknown"),
        ("author.phone", "1", "$.author.phone"),
        ("interface.icon", "x", "$.interface.icon"),
        ("interface.capabilities", ["", 5], "$.interface.capabilities[0]"),
        ("keywords", ["a", " "], "$.keywords[1]"),
        ("homepage", "http://x.org", "$.homepage"),
        ("repository", "github.com/x", "$.repository"),
        ("interface.websiteURL", "https://", "$.interface.websiteURL"),
        ("author.url", "https://[", "$.author.url"),
        ("interface.brandColor", "red", "$.interface.brandColor"),
        ("interface.brandColor", "#12345G", "$.interface.brandColor"),
        ("interface.defaultPrompt", ["a", "b", "c", "d"], "$.interface.defaultPrompt"),
        ("interface.defaultPrompt", ["x" * 129], "$.interface.defaultPrompt[0]"),
        ("interface.defaultPrompt", [], "$.interface.defaultPrompt"),
        ("interface.logo", "./assets/none.png", "$.interface.logo"),
        ("interface.logo", "../logo.png", "$.interface.logo"),
        ("interface.composerIcon", 5, "$.interface.composerIcon"),
        ("interface.screenshots", ["./assets/none.png"], "$.interface.screenshots[0]"),
        ("interface.screenshots", "./assets/a.png", "$.interface.screenshots"),
        ("description", "[TODO: say it]", "$.description"),
        ("skills", "skills", "$.skills"),
        ("skills", ["./skills/", "./none/"], "$.skills[1]"),
        ("apps", "./other.json", "$.apps"),
        ("mcpServers", "./other.json", "$.mcpServers"),
        ("mcpServers", {"s": 5}, "$.mcpServers.s"),
        ("mcpServers", [], "$.mcpServers"),
    ],
)
def test_each_fault_is_told_with_its_member(valid: Path, member: str, value: Any, at: str) -> None:
    """5.7"""
    assert at in changed(valid, member, value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just("./skills/") | st.just("./.mcp.json"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(
    st.sampled_from(["name", "author", "version", "skills", "hooks", "apps", "mcpServers", "interface", "keywords"])
    | st.sampled_from(["defaultPrompt", "screenshots", "logo", "capabilities", "brandColor", "websiteURL"]),
    json_values,
    max_size=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(values=objects | json_values, interface=objects, apps=json_values)
def test_any_manifest_has_faults_and_no_exception(valid: Path, values: Any, interface: Any, apps: Any) -> None:
    """5.7: a traceback in place of what is wrong."""
    whole = {**values, "interface": interface} if isinstance(values, dict) else values
    (valid / MANIFEST).write_text(json.dumps(whole))
    (valid / ".app.json").write_text(json.dumps({"apps": apps}))
    assert all(each.member and each.text for each in faults_of(valid))


def test_what_may_be_there(valid: Path) -> None:
    """5.7: `hooks` among that, which upstream's documents describe and its validator refuses."""
    (valid / "hooks.json").write_text("{}")
    picture = io.BytesIO()
    Image.new("L", (1, 1)).save(picture, "PNG")
    (valid / "assets" / "a.png").write_bytes(picture.getvalue())
    assert changed(valid, "hooks", "./hooks.json") == []
    assert changed(valid, "mcpServers", {"s": {"command": "x"}}) == []
    assert changed(valid, "interface.screenshots", ["./assets/a.png"]) == []
    assert changed(valid, "interface.logo", "./assets/a.png") == []
    assert changed(valid, "interface.brandColor", "#1a2B3c") == []
    assert changed(valid, "interface.websiteURL", "https://example.org/x?y") == []
    assert changed(valid, "version", "1.2.3-beta+7") == []
    (valid / "assets" / "a.png").write_bytes(b"GIF89a")
    assert changed(valid, "interface.screenshots", ["./assets/a.png"]) == ["$.interface.screenshots[0]"]


@pytest.mark.parametrize(
    ("file", "text", "at"),
    [
        (".app.json", '{"apps":{"a":{"category":5}}}', [".app.json: $.apps.a.id", ".app.json: $.apps.a.category"]),
        (".app.json", '{"apps":{"a":{"id":"x","more":1}}}', [".app.json: $.apps.a.more"]),
        (".app.json", "[]", [".app.json"]),
        (".mcp.json", '{"mcpServers":{"s":1}}', [".mcp.json: $.mcpServers.s"]),
        (".mcp.json", '{"servers":{}}', [".mcp.json: $.servers", ".mcp.json: $.mcpServers"]),
        (".mcp.json", None, [".mcp.json"]),
        (MANIFEST, "[" * 100_000, [MANIFEST]),
        (MANIFEST, None, [MANIFEST]),
        ("skills/a/x", "", ["skills/a/SKILL.md"]),
        ("skills/a/SKILL.md", "no front matter", ["skills/a/SKILL.md"]),
        ("skills/a/SKILL.md", "---\ndescription: use: now\n---\n", ["skills/a/SKILL.md"]),
        ("skills/a/SKILL.md", "---\ndescription: '[TODO: x]'\n---\n", ["skills/a/SKILL.md: $.description"]),
        ("skills/a/SKILL.md", "---\ndescription: fine\n---\n", []),
        (".hidden/SKILL.md", "", []),
    ],
)
def test_files_of_a_plugin(valid: Path, file: str, text: str | None, at: list[str]) -> None:
    """5.7"""
    (valid / file).parent.mkdir(parents=True, exist_ok=True)
    (valid / file).write_text(text) if text is not None else (valid / file).unlink()
    assert [each.member for each in faults_of(valid)] == at


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("interface:\n  display_name: A\npolicy:\n  allow_implicit_invocation: true\n", []),
        ("interface:\n  brand_color: red\n", ["$.interface.brand_color"]),
        ("interface:\n  icon_small: ./none.png\n", ["$.interface.icon_small"]),
        ("policy:\n  allow_implicit_invocation: 'yes'\n", ["$.policy.allow_implicit_invocation"]),
        ("dependencies:\n  tools: x\n", ["$.dependencies.tools"]),
        ("more: 1\n", ["$.more"]),
    ],
)
def test_settings_of_a_skill(valid: Path, text: str, at: list[str]) -> None:
    """5.7"""
    skill = valid / "skills" / "a"
    (skill / "agents").mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\ndescription: fine\n---\n")
    (skill / "agents" / "openai.yaml").write_text(text)
    assert [each.member.removeprefix("skills/a/agents/openai.yaml: ") for each in faults_of(valid)] == at
    (skill / "agents" / "openai.yaml").write_text("- no mapping")
    assert [each.member for each in faults_of(valid)] == ["skills/a/agents/openai.yaml"]


def test_links_out_of_a_plugin(valid: Path, tmp_path: Path) -> None:
    """5.7, 5.2"""
    (tmp_path / "outside.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (valid / "assets" / "logo.png").symlink_to(tmp_path / "outside.png")
    assert changed(valid, "interface.logo", "./assets/logo.png") == ["$.interface.logo"]
    (valid / "assets" / "loop.png").symlink_to("loop.png")
    assert changed(valid, "interface.logo", "./assets/loop.png") == ["$.interface.logo"]


def test_files_that_are_none(valid: Path) -> None:
    """Lost: a check that hangs at a FIFO."""
    for name in (".mcp.json", ".app.json", MANIFEST):
        (valid / name).unlink()
        os.mkfifo(valid / name)
        [fault] = [each for each in faults_of(valid) if each.member == name]
        assert "it has to be a file" in fault.text
        if name != MANIFEST:
            (valid / name).unlink()
            (valid / name).write_text('{"mcpServers":{}}' if name == ".mcp.json" else '{"apps":{}}')


def test_an_entry_that_leads_elsewhere(program: Program) -> None:
    """5.7"""
    program("plugin", "create", "x", "--with-marketplace")
    folder = program.root / "plugins" / "x"
    assert faults_of(folder) == []
    file = program.root / PLACE
    file.write_text(file.read_text().replace("./plugins/x", "./plugins/y"))
    assert [each.member for each in faults_of(folder)] == ["marketplace"]
    ran = program("plugin", "validate", "plugins/x", "--json")
    assert ran.status == 1 and json.loads(ran.out)[0]["member"] == "marketplace"
