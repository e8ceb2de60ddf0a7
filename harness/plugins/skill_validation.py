"""What is wrong with the skills of a plugin. Blocks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from harness.disk import why
from harness.plugins.faults import Faults
from protocol.plugin_files import DEFAULT_SKILLS, kind_of, relative_path
from protocol.skill_file import MAX_FRONT_MATTER_BYTES, SETTINGS_FILE, SKILL_FILE, SkillError, parse_skill, yaml_mapping

MAX_SKILL_BYTES = 1 << 20
_COLOR = re.compile(r"#[0-9A-Fa-f]{6}")


def check_skills(faults: Faults, values: dict[str, Any]) -> None:
    """Every folder in the places of skills, the default one and those of the manifest `values`, has to be a skill."""
    declared = values.get("skills")
    named = declared if isinstance(declared, list) else [declared]
    places = [DEFAULT_SKILLS]
    for each in named:
        try:
            places += [relative_path(each)] if isinstance(each, str) else []
        except ValueError:
            continue  # a fault that is told with the member
    for place in dict.fromkeys(places):
        for name in _folders(faults, place):
            _skill(faults, f"{place}/{name}")


def _folders(faults: Faults, place: str) -> list[str]:
    folder = faults.root / place
    if not folder.is_dir() or not faults.is_inside(place):
        return []
    try:
        return sorted(each.name for each in os.scandir(folder) if each.is_dir() and not each.name.startswith("."))
    except OSError as error:
        faults.add(place, why(error))
        return []


def _skill(faults: Faults, place: str) -> None:
    file = f"{place}/{SKILL_FILE}"
    data = faults.content(file, MAX_SKILL_BYTES)
    if data is not None:
        try:
            found = parse_skill(data[:MAX_FRONT_MATTER_BYTES], os.path.basename(place))
            for warning in found.warnings:
                faults.add(file, warning)
            faults.left_to_do(found.values, f"{file}: $")
        except SkillError as error:
            faults.add(file, str(error))
    settings = f"{place}/{SETTINGS_FILE}"
    if os.path.lexists(faults.root / settings):
        _skill_settings(faults, place, settings)


def _skill_settings(faults: Faults, place: str, file: str) -> None:
    data = faults.content(file, MAX_FRONT_MATTER_BYTES)
    if data is None:
        return
    try:
        values = yaml_mapping(data.decode())
    except ValueError as error:
        faults.add(file, "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error))
        return
    for member, fault in _setting_faults(values):
        faults.add(f"{file}: $.{member}", fault)
    interface = values.get("interface")
    for name in ("icon_small", "icon_large"):
        value = interface.get(name) if isinstance(interface, dict) else None
        if isinstance(value, str):
            faults.path(value, f"{file}: $.interface.{name}", os.path.isfile, "file", below=place)


def _setting_faults(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with the settings of a skill: each member, and why."""
    known: dict[str, dict[str, type]] = {
        "interface": dict.fromkeys(
            ("display_name", "short_description", "icon_small", "icon_large", "brand_color", "default_prompt"), str
        ),
        "policy": {"allow_implicit_invocation": bool},
        "dependencies": {"tools": list},
    }
    for name, value in values.items():
        if name not in known:
            yield str(name), "no member of this name is known"
        elif not isinstance(value, dict):
            yield name, f"it has to be a mapping, not {kind_of(value)}"
        else:
            for inner, each in value.items():
                wanted = known[name].get(str(inner))
                if wanted is None:
                    yield f"{name}.{inner}", "no member of this name is known"
                elif type(each) is not wanted:
                    yield f"{name}.{inner}", f"it has to be {kind_of(wanted())}, not {kind_of(each)}"
    interface = values.get("interface")
    color = interface.get("brand_color") if isinstance(interface, dict) else None
    if isinstance(color, str) and not _COLOR.fullmatch(color):
        yield "interface.brand_color", f"it has to be a color as #1A2B3C, not {color!r}"
