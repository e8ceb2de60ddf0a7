"""`SKILL.md`: the front matter of a skill, for the server that lists skills and for the agent that offers them. Pure.

A skill is a folder with a file `SKILL.md`: a line `---`, YAML, a line `---`, and Markdown for the model. Needs PyYAML,
which is imported when the first one is parsed.
"""

from __future__ import annotations

import json
import re
import reprlib
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from protocol.environment import SkillDependencies, SkillPolicy, SkillTool

if TYPE_CHECKING:
    import yaml

SKILL_FILE = "SKILL.md"
SETTINGS_FILE = "agents/openai.yaml"
"""Beside it: what clients show of a skill, and when they may use it."""
MAX_FRONT_MATTER_BYTES = 64 << 10
"""The front matter has to end within so many bytes of the file: no more of it need be read."""
MAX_NAME_CHARACTERS = 64
"""Of a skill's own name, without the namespace of its plugin."""
MAX_DESCRIPTION_CHARACTERS = 1024

_DELIMITED = re.compile(r"---[ \t]*\r?\n(.*?)(?:^|\n)---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_PLAIN = re.compile(r"^(name|description):[ \t]+([^\s|>'\"!&*].*?)[ \t\r]*$", re.MULTILINE)


class SkillError(ValueError):
    """A SKILL.md that makes no skill; the text says why."""


class SkillFrontMatter(Struct, frozen=True):
    """What a SKILL.md says of its skill. All texts are one line. `warnings`: what is to be corrected in it."""

    name: str
    description: str
    short_description: str | None
    values: dict[str, Any]
    """All of it, members that nobody knows included."""
    warnings: tuple[str, ...] = ()


def parse_skill(data: bytes, folder: str) -> SkillFrontMatter:
    """The front matter of a SKILL.md of which `data` are the first MAX_FRONT_MATTER_BYTES bytes, or all; `folder` is
    the name of the folder that it is in, which names a skill without a name. Raises SkillError.
    """
    values, warnings = _values(_text(data[:MAX_FRONT_MATTER_BYTES]))
    name = _line(values, "name", MAX_NAME_CHARACTERS) or folder
    if len(name) > MAX_NAME_CHARACTERS:
        raise SkillError(f"the folder's name has {len(name)} characters, more than {MAX_NAME_CHARACTERS}")
    description = _line(values, "description", MAX_DESCRIPTION_CHARACTERS)
    if description is None:
        raise SkillError("`description` is missing: a model cannot tell what the skill is for")
    metadata = values.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise SkillError(f"`metadata` has to be a mapping, not {reprlib.repr(metadata)}")
    short = _line(metadata or {}, "short-description", MAX_DESCRIPTION_CHARACTERS, "metadata.")
    return SkillFrontMatter(name, description, short, values, warnings)


def yaml_mapping(text: str) -> dict[str, Any]:
    """The mapping of a YAML document of plain values: no tags but YAML's own, no aliases, no key twice. Raises
    ValueError with the reason.
    """
    import yaml

    try:
        values = yaml.load(text, _loader())
    except yaml.YAMLError as error:
        raise ValueError(f"bad YAML: {' '.join(_problem(error).split())}") from None
    except RecursionError:
        raise ValueError("bad YAML: its values are nested too deeply") from None
    except (ValueError, OverflowError) as error:  # a date or number that there is none of
        raise ValueError(f"bad YAML: {error}") from None
    if not isinstance(values, dict):
        raise ValueError("bad YAML: it has to be a mapping of names to values")
    return values


def _text(data: bytes) -> str:
    """The YAML between the delimiters."""
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    match = _DELIMITED.match(text)
    if match is None:
        first = text.partition("\n")[0].rstrip()
        raise SkillError(
            "it does not begin with a line `---`"
            if first != "---"
            else f"no line `---` ends its front matter within {MAX_FRONT_MATTER_BYTES} bytes"
        )
    front = match[1]
    if any("\udc80" <= each <= "\udcff" for each in front):
        raise SkillError("its front matter is not UTF-8")
    return front


def _values(front: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    try:
        return yaml_mapping(front), ()
    except ValueError as error:
        quoted = _PLAIN.sub(lambda match: f"{match[1]}: {json.dumps(match[2], ensure_ascii=False)}", front)
        if quoted == front:
            raise SkillError(str(error)) from None
        try:
            values = yaml_mapping(quoted)
        except ValueError:
            raise SkillError(str(error)) from None
        return values, (f"{error}; `name` and `description` were taken as they are: put them in quotes",)


def _line(values: dict[str, Any], name: str, limit: int, where: str = "") -> str | None:
    """A text as one line; None if it is absent or blank."""
    value = values.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise SkillError(f"`{where}{name}` has to be a text, not {reprlib.repr(value)}: put it in quotes")
    line = " ".join(value.split())
    if len(line) > limit:
        raise SkillError(f"`{where}{name}` has {len(line)} characters, more than {limit}")
    return line or None


def _problem(error: yaml.YAMLError) -> str:
    import yaml

    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{error.problem or error.context} (line {error.problem_mark.line + 1})"
    return str(error)


@cache
def _loader() -> type[yaml.SafeLoader]:
    import yaml

    class PlainLoader(yaml.SafeLoader):
        """SafeLoader without what a file of a few bytes can grow by, or hide values with."""

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            if self.check_event(yaml.AliasEvent):
                mark = self.get_event().start_mark  # type: ignore[no-untyped-call]
                raise yaml.composer.ComposerError(None, None, "aliases are not allowed", mark)
            return super().compose_node(parent, index)

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    raise yaml.constructor.ConstructorError(None, None, "a key has to be a text", key.start_mark)
                if key.value in seen:
                    problem = f"the key `{key.value}` is there twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                seen.add(key.value)
            return super().construct_mapping(node, deep)

    return PlainLoader


class SkillSettings(Struct, frozen=True):
    """What `agents/openai.yaml` beside a SKILL.md says that clients decide on."""

    dependencies: SkillDependencies | None = None
    policy: SkillPolicy | None = None


def parse_settings(data: bytes) -> SkillSettings:
    """The settings of a skill. Members that nobody knows are ignored. Raises ValueError."""
    try:
        values = yaml_mapping(data.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 (byte {error.start})") from None
    try:
        told = msgspec.convert(values, _WrittenSettings)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    dependencies, policy = told.dependencies, told.policy
    return SkillSettings(
        None
        if dependencies is None or not dependencies.tools
        else SkillDependencies([SkillTool(**msgspec.structs.asdict(tool)) for tool in dependencies.tools]),
        None if policy is None else SkillPolicy(policy.allow_implicit_invocation, policy.products),
    )


class _WrittenTool(Struct):
    type: str
    value: str
    description: str | None = None
    transport: str | None = None
    command: str | None = None
    url: str | None = None
    oauth_callback_port: int | None = None


class _WrittenDependencies(Struct):
    tools: list[_WrittenTool] = msgspec.field(default_factory=list)


class _WrittenPolicy(Struct):
    allow_implicit_invocation: bool | None = None
    products: list[str] = msgspec.field(default_factory=list)


class _WrittenSettings(Struct):
    """As the file has it, with its own names of members."""

    dependencies: _WrittenDependencies | None = None
    policy: _WrittenPolicy | None = None
