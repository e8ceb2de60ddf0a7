"""Names of plugins: segments, ids, and what a name that a person typed becomes. Pure."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from harness.errors import PluginError
from protocol.plugin_files import is_segment

MAX_NAME_CHARACTERS = 64
"""Of a name that is made here; those of others may be longer."""
_OTHER = re.compile(r"[^a-z0-9]+")


class PluginId(NamedTuple):
    """A plugin of a marketplace: `<plugin>@<marketplace>`."""

    plugin: str
    marketplace: str

    def __str__(self) -> str:
        return f"{self.plugin}@{self.marketplace}"


def parse_plugin_id(text: str) -> PluginId:
    """The parts of an id, which is split at its last `@`. Raises PluginError unless both are segments."""
    plugin, _, marketplace = text.rpartition("@")
    if not is_segment(plugin) or not is_segment(marketplace):
        raise PluginError(
            f"{text!r} is no id of a plugin: it has to be PLUGIN@MARKETPLACE, each of letters, digits, `_` and `-`"
        )
    return PluginId(plugin, marketplace)


def normalised(name: str) -> str:
    """The name that a plugin gets that a person calls `name`: accents dropped, lower case, all but letters and digits
    made one `-`. Raises PluginError if nothing is left, or more than MAX_NAME_CHARACTERS.
    """
    decomposed = unicodedata.normalize("NFKD", name)
    plain = "".join(each for each in decomposed if not unicodedata.combining(each))
    result = _OTHER.sub("-", plain.lower()).strip("-")
    if not result:
        raise PluginError(f"{name!r} is no name for a plugin: it needs a letter or digit of a-z and 0-9")
    if len(result) > MAX_NAME_CHARACTERS:
        raise PluginError(
            f"the name {result!r} has {len(result)} characters; a plugin's has at most {MAX_NAME_CHARACTERS}"
        )
    return result


def shown_name(name: str) -> str:
    """A name for people: `my-plugin-2x` is `My Plugin 2x`."""
    return " ".join(part[:1].upper() + part[1:] for part in re.split(r"[-_]+", name) if part)
