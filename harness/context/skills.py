"""Skills: folders with a SKILL.md, found below roots on this machine or another, and chosen for a message.

Choosing is pure. What a SKILL.md says is read by the rules of protocol.skill_file.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Literal, Protocol, get_args

from msgspec import Struct

from harness.context.fragments import Fragment, skill_fragment
from harness.context.instructions import PROJECT_MARKERS, ancestors, project_folders
from harness.context.mentions import MentionKind, find_mentions, kind_of_path
from harness.errors import ReadError
from harness.reader import Reader
from harness.requests import for_each
from harness.walk import Walk
from protocol.plugin_files import MANIFESTS
from protocol.skill_file import MAX_FRONT_MATTER_BYTES, SKILL_FILE, SkillError, parse_skill

Scope = Literal["repo", "user", "system", "admin"]
"""Whose a skill is; also their order."""
PROJECT_SKILLS = ".agents/skills"
"""Where a folder of a project has its skills, and the user's home those of the user."""
MAX_DEPTH = 6
MAX_FOLDERS = 2000
"""Of one root; what is beyond is not found, and a warning says so."""
MAX_BODY_BYTES = 256 << 10
_MANIFEST_FOLDERS = {posixpath.dirname(each) for each in MANIFESTS}


class NamespaceResolver(Protocol):
    """Names of plugins, as `harness.Namespaces` finds them."""

    warnings: list[str]

    async def namespace(self, path: str, stop_at: str) -> str | None:
        """The plugin that a path is in, no higher than `stop_at`."""


class SkillRoot(Struct, frozen=True):
    """A folder with skills below it. Plugins that they are in are looked for up to `project`, or the root itself."""

    path: str
    scope: Scope
    reader: Reader
    project: str | None = None


class Skill(Struct, frozen=True):
    """A skill that a model can be offered. `name` has its plugin's name before it, `plugin:skill`; `path` is that of
    its SKILL.md, as it was found.
    """

    name: str
    description: str
    short_description: str | None
    path: str
    scope: Scope
    reader: Reader


class Skills(Struct, frozen=True):
    """What was found: repo, user, system, admin, each by name and path. `errors` are those of files that make no skill,
    `warnings` of what is to be corrected; both begin with a path.
    """

    skills: tuple[Skill, ...] = ()
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class SkillBody(Struct, frozen=True):
    """The text of a SKILL.md; `missing_bytes` of its end are left out."""

    text: str
    missing_bytes: int = 0


async def project_skill_roots(
    reader: Reader, folder: str, *, markers: Sequence[str] = PROJECT_MARKERS
) -> list[SkillRoot]:
    """The roots of the project that an absolute `folder` is in: `.agents/skills` of each folder from its root down."""
    chain = await project_folders(reader, folder, markers)
    return [SkillRoot(posixpath.join(each, PROJECT_SKILLS), "repo", reader, chain[0]) for each in chain]


async def load_skills(
    roots: Iterable[SkillRoot], namespaces: Callable[[Reader], NamespaceResolver] | None = None
) -> Skills:
    """The skills below these roots; of the same file under several names the first. A root that is not there has none.

    A root costs one request for all its folders, one for each that seems to have no SKILL.md (it may be a link), and
    four for each skill. `namespaces`, as `harness.Namespaces`, adds the names of plugins. Raises what readers raise
    when a machine cannot be reached.
    """
    resolvers: dict[Reader, NamespaceResolver] = {}
    loads: list[_RootLoad] = []
    for root in roots:
        resolver = None
        if namespaces is not None:
            resolver = resolvers.setdefault(root.reader, namespaces(root.reader))
        loads.append(_RootLoad(root, resolver))
    real_paths: set[tuple[Reader, str]] = set()
    for load in loads:
        await load.run(real_paths)
    skills = sorted((each for load in loads for each in load.skills), key=_order)
    errors = sorted(each for load in loads for each in load.errors)
    told = [load.warnings for load in loads] + [resolver.warnings for resolver in resolvers.values()]
    warnings = sorted(each for some in told for each in some)
    return Skills(tuple(skills), tuple(errors), tuple(warnings))


async def read_skill(skill: Skill) -> SkillBody:
    """The text of a skill for a model, at most MAX_BODY_BYTES, cut at a line. Raises ReadError."""
    found = await skill.reader.metadata(skill.path)
    data = await skill.reader.read_at_most(skill.path, MAX_BODY_BYTES + 1)
    if len(data) <= MAX_BODY_BYTES:
        return SkillBody(data.decode(errors="replace"))
    size = max(len(data), found.size if found is not None else 0)
    kept = data[: data.rfind(b"\n", 0, MAX_BODY_BYTES) + 1]
    missing = size - len(kept)
    note = f"[{missing} of the {size} bytes of {skill.path} are left out: they are over the limit]"
    return SkillBody(kept.decode(errors="replace") + note, missing)


async def skill_fragment_of(skill: Skill) -> Fragment:
    """What a model is told of a skill that was chosen. Raises ReadError."""
    return skill_fragment(skill.name, skill.path, (await read_skill(skill)).text)


def select_skills(
    skills: Sequence[Skill],
    text: str,
    structured: Iterable[tuple[str, str]] = (),
    apps: Collection[str] = (),
) -> tuple[Skill, ...]:
    """The skills, of those that are enabled, that a message asks for. Pure.

    First those of `structured`, names and paths that came beside the text; then those whose path is linked; then those
    with a name that only one skill has and no app, and that none in `structured` has.
    """
    by_path = {_skill_path(skill.path): skill for skill in skills}
    chosen: dict[str, Skill] = {}
    taken: set[str] = set()
    for name, path in structured:
        taken.add(name)
        if (skill := by_path.get(_skill_path(path))) is not None:
            chosen.setdefault(skill.path, skill)
    mentions = [each for each in find_mentions(text) if each.sigil == "$"]
    paths = {_skill_path(each.path) for each in mentions if each.path is not None}
    named = {each.name for each in mentions if _names_a_skill(each.path)} - taken - set(apps)
    counts: dict[str, int] = {}
    for skill in skills:
        counts[skill.name] = counts.get(skill.name, 0) + 1
    linked = [skill for skill in skills if _skill_path(skill.path) in paths]
    plain = [skill for skill in skills if skill.name in named and counts[skill.name] == 1]
    for skill in (*linked, *plain):
        chosen.setdefault(skill.path, skill)
    return tuple(chosen.values())


def _names_a_skill(path: str | None) -> bool:
    """Whether the name of a mention counts: that of a link to something else does not."""
    return path is None or kind_of_path(path) in (MentionKind.SKILL, MentionKind.OTHER)


def _skill_path(path: str) -> str:
    return path.removeprefix("skill://")


def _order(skill: Skill) -> tuple[int, str, str]:
    return get_args(Scope).index(skill.scope), skill.name, skill.path


class _RootLoad:
    """Finds and reads the skills below one root."""

    def __init__(self, root: SkillRoot, namespaces: NamespaceResolver | None) -> None:
        self._root = root
        self._path = posixpath.normpath(root.path)
        self._reader = root.reader
        self._namespaces = namespaces
        self.skills: list[Skill] = []
        self.errors: list[str] = []
        self.warnings: list[str] = []

    async def run(self, real_paths: set[tuple[Reader, str]]) -> None:
        """Of files that are in `real_paths` already nothing is read; those of this root are added."""
        walk = await self._walk()
        if walk is None:
            return
        new: list[str] = []
        for path, real in await self._real_files(walk):
            if (self._reader, real) not in real_paths:
                real_paths.add((self._reader, real))
                new.append(path)
        names = await self._plugins(walk, new)
        for skill in await for_each(lambda path: self._skill(path, names), new):
            self.skills += [skill] if skill is not None else []

    async def _walk(self) -> Walk | None:
        try:
            walk = await self._reader.walk(self._path, MAX_DEPTH, MAX_FOLDERS)
        except ReadError as error:
            if error.kind != "notFound":
                self._tell(self.warnings, str(error))
            return None
        for unreadable in walk.unreadable:
            self._tell(self.warnings, unreadable)
        if walk.truncated:
            bounds = f"more than {MAX_FOLDERS} folders, or too many files"
            self._tell(self.warnings, f"{self._path}: it has {bounds}; what is deepest was not looked at")
        return walk

    async def _real_files(self, walk: Walk) -> list[tuple[str, str]]:
        """All SKILL.md, breadth first, and each path without links. What is a link itself has to stay in the root."""
        folders = [self._path, *(each.path for each in walk.found if each.kind == "folder" and self._counts(each.path))]
        files = {each.path for each in walk.found if each.kind == "file"}
        paths = [posixpath.join(folder, SKILL_FILE) for folder in folders[:MAX_FOLDERS]]
        others = [path for path in paths if path not in files]
        linked = {path for path, is_file in zip(others, await for_each(self._is_file, others), strict=True) if is_file}
        there = [path for path in paths if path in files or path in linked]
        real_root = await self._real_path(self._path) if linked else None
        reals = await for_each(self._real_path, there)
        found = []
        for path, real in zip(there, reals, strict=True):
            if real is not None and path in linked and not _is_below(real, real_root):
                self._tell(self.errors, f"{path}: it is a link that leads out of {self._path}")
            elif real is not None:
                found.append((path, real))
        return found

    def _counts(self, folder: str) -> bool:
        """Whether a folder that the walk has found is one that it went into."""
        depth = folder.count("/") - self._path.rstrip("/").count("/")
        return depth <= MAX_DEPTH and not posixpath.basename(folder).startswith(".")

    async def _is_file(self, path: str) -> bool:
        try:
            found = await self._reader.metadata(path)
        except ReadError as error:
            self._tell(self.errors, str(error))
            return False
        if found is not None and found.kind != "file":
            self._tell(self.errors, f"{path}: it is not a regular file")
        return found is not None and found.kind == "file"

    async def _real_path(self, path: str) -> str | None:
        try:
            return await self._reader.resolve(path)
        except ReadError as error:
            self._tell(self.errors, str(error))
            return None

    async def _plugins(self, walk: Walk, paths: Sequence[str]) -> dict[str, str]:
        """The names of the plugins that these files are in, by folder; that of the root may come from above it. Below
        the root only folders are looked at that the walk has seen a manifest in.
        """
        if self._namespaces is None or not paths:
            return {}
        seen = {
            posixpath.dirname(each.path) for each in walk.found if posixpath.basename(each.path) in _MANIFEST_FOLDERS
        }
        wanted = sorted({folder for path in paths for folder in ancestors(path) if folder in seen} - {self._path})
        resolver = self._namespaces
        names = dict(zip(wanted, await for_each(lambda each: resolver.namespace(each, each), wanted), strict=True))
        names[self._path] = await resolver.namespace(self._path, self._root.project or self._path)
        return {folder: name for folder, name in names.items() if name is not None}

    async def _skill(self, path: str, plugins: dict[str, str]) -> Skill | None:
        folder = posixpath.dirname(path)
        try:
            data = await self._reader.read_at_most(path, MAX_FRONT_MATTER_BYTES)
            matter = parse_skill(data, posixpath.basename(folder))
        except ReadError as error:
            self._tell(self.errors, str(error))
            return None
        except SkillError as error:
            self._tell(self.errors, f"{path}: {error}")
            return None
        for warning in matter.warnings:
            self._tell(self.warnings, f"{path}: {warning}")
        plugin = next((plugins[each] for each in ancestors(folder) if each in plugins), None)
        name = matter.name if plugin is None else f"{plugin}:{matter.name}"
        return Skill(name, matter.description, matter.short_description, path, self._root.scope, self._reader)

    def _tell(self, where: list[str], text: str) -> None:
        """Note what is wrong with a file, unless the program itself has brought it."""
        if self._root.scope != "system":
            where.append(text)


def _is_below(path: str, folder: str | None) -> bool:
    return folder is not None and (path + "/").startswith(folder.rstrip("/") + "/")
