"""The file that `--config` names: TOML, one key for each option, in its own type."""

from __future__ import annotations

from typing import Any, NamedTuple

from exec_server.server.config import ALIASES, KNOWN, OPTIONS, Config, ConfigError, nearest

MOST_BYTES = 1 << 20
"""The largest file that is read."""

_TYPES: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
    tuple: "an array of strings",
}


class FileSettings(NamedTuple):
    """What a file says, as on a command line, and what is wrong with the rest."""

    given: dict[str, list[str]]
    problems: list[str]


def read_config_file(path: str) -> FileSettings:
    """Read a file. Raises ConfigError where it cannot be read or is no TOML."""
    import tomllib  # takes as long as reading all other settings, and most servers have no file

    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ConfigError(f"{path}: more than {MOST_BYTES} bytes are no configuration")
        table = tomllib.loads(data.decode())
    except OSError as error:
        raise ConfigError(f"cannot read --config {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # no UTF-8, no TOML, a NUL in the path
        raise ConfigError(f"{path}: {str(error) or 'nested too deep'}") from None
    return settings_of_table(table, path)


def settings_of_table(table: dict[str, Any], path: str) -> FileSettings:
    """The settings in what was read from `path`, which is for the problems alone."""
    found = FileSettings({}, [])
    names = [name for name in KNOWN if name != "config"]
    for key, value in table.items():
        if key not in names:
            found.problems.append(f"{path}: unknown key {key}{nearest(key, names)}")
            continue
        texts = _texts(KNOWN[key], value)
        if texts is None:
            found.problems.append(f"{path}: {key} must be {_TYPES[_type_of(KNOWN[key])]}, not {value!r}"[:200])
        else:
            found.given[key] = texts
    return found


def _type_of(name: str) -> type:
    return type(getattr(_DEFAULTS, name))


def _texts(name: str, value: Any) -> list[str] | None:
    """A value as the command line has it, None if it is of a wrong type."""
    kind = _type_of(name)
    if kind is tuple:
        right = isinstance(value, list) and all(isinstance(each, str) for each in value)
        return value if right else None
    if kind is bool:
        return [str(value).lower()] if isinstance(value, bool) else None
    if kind is str:
        return [value] if isinstance(value, str) else None
    is_number = isinstance(value, (int, float) if kind is float else int) and not isinstance(value, bool)
    return [str(value)] if is_number else None


_DEFAULTS = Config()
assert {alias.option for alias in ALIASES} <= {option.name for option in OPTIONS}
