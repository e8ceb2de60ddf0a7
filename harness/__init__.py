"""harness: what a coding agent needs around the machine that it works on.

    tools = harness.ShellTools(unified_exec)
    result = await tools.call("exec_command", {"cmd": "make test"}, call_id)

Each part works without the others. What a program uses is listed in `__all__`, and loaded when it is first used.
docs/harness.md shows how.

context/    what a model is told: AGENTS.md, skills, fragments; mentions
history/    prompts of all threads and agents; Up and Down
tools/      exec_command, write_stdin and view_image for a model; the events of a turn
plugins/    manifests, namespaces, marketplaces; making and checking plugins
reader      the files of this machine or another, as the parts read them
errors      all that is raised
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # a type checker takes it for true; `typing` would cost a third of this import

if TYPE_CHECKING:
    from harness.context.fragments import Fragment, Markers, Recognizer, instructions_fragment, message, skill_fragment
    from harness.context.instructions import Instructions, load_instructions
    from harness.context.mentions import decode_mentions, encode_mentions, find_mentions, plugin_mentions
    from harness.context.skills import (
        Skill,
        SkillRoot,
        load_skills,
        project_skill_roots,
        read_skill,
        select_skills,
        skill_fragment_of,
    )
    from harness.errors import HarnessError, HistoryBusy, MarketplaceError, PluginError, ReadError
    from harness.history.log import HistoryLog
    from harness.history.recall import Fetch, Recall, RecallEntry, Show, Stay
    from harness.history.record import Record
    from harness.plugins.manifest import PluginManifest, load_manifest
    from harness.plugins.marketplace import Marketplace, discover, load_marketplace
    from harness.plugins.namespace import Namespaces
    from harness.reader import EnvironmentReader, LocalReader, Reader
    from harness.tools.events import TurnEvents
    from harness.tools.image import ViewImage
    from harness.tools.result import ToolCall, ToolResult
    from harness.tools.shell import ShellTools

_HOMES = {
    "harness.context.fragments": (
        "Fragment",
        "Markers",
        "Recognizer",
        "instructions_fragment",
        "message",
        "skill_fragment",
    ),
    "harness.context.instructions": ("Instructions", "load_instructions"),
    "harness.context.mentions": ("decode_mentions", "encode_mentions", "find_mentions", "plugin_mentions"),
    "harness.context.skills": (
        "Skill",
        "SkillRoot",
        "load_skills",
        "project_skill_roots",
        "read_skill",
        "select_skills",
        "skill_fragment_of",
    ),
    "harness.errors": ("HarnessError", "HistoryBusy", "MarketplaceError", "PluginError", "ReadError"),
    "harness.history.log": ("HistoryLog",),
    "harness.history.recall": ("Fetch", "Recall", "RecallEntry", "Show", "Stay"),
    "harness.history.record": ("Record",),
    "harness.plugins.manifest": ("PluginManifest", "load_manifest"),
    "harness.plugins.marketplace": ("Marketplace", "discover", "load_marketplace"),
    "harness.plugins.namespace": ("Namespaces",),
    "harness.reader": ("EnvironmentReader", "LocalReader", "Reader"),
    "harness.tools.events": ("TurnEvents",),
    "harness.tools.image": ("ViewImage",),
    "harness.tools.result": ("ToolCall", "ToolResult"),
    "harness.tools.shell": ("ShellTools",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "EnvironmentReader",
    "Fetch",
    "Fragment",
    "HarnessError",
    "HistoryBusy",
    "HistoryLog",
    "Instructions",
    "LocalReader",
    "Markers",
    "Marketplace",
    "MarketplaceError",
    "Namespaces",
    "PluginError",
    "PluginManifest",
    "ReadError",
    "Reader",
    "Recall",
    "RecallEntry",
    "Recognizer",
    "Record",
    "ShellTools",
    "Show",
    "Skill",
    "SkillRoot",
    "Stay",
    "ToolCall",
    "ToolResult",
    "TurnEvents",
    "ViewImage",
    "decode_mentions",
    "discover",
    "encode_mentions",
    "find_mentions",
    "instructions_fragment",
    "load_instructions",
    "load_manifest",
    "load_marketplace",
    "load_skills",
    "message",
    "plugin_mentions",
    "project_skill_roots",
    "read_skill",
    "select_skills",
    "skill_fragment",
    "skill_fragment_of",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(home), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
