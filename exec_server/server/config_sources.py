"""Sources of the settings of a server: a flag wins over `EXEC_SERVER_<NAME>`, which wins over the file of `--config`,
which wins over the default.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from exec_server.server.config import (
    ALIASES,
    KNOWN,
    OPTIONS,
    Config,
    ConfigError,
    Option,
    flag_of,
    nearest,
    variable_of,
    yes_or_no,
)
from exec_server.server.config_file import read_config_file
from exec_server.version import __version__

Given = Mapping[str, Sequence[str]]
"""What one source says: name of an option or alias -> values as they are written on a command line, the last counts."""


class Loaded(NamedTuple):
    """The settings, and for each that is no default where it comes from."""

    config: Config
    sources: dict[str, str]


def load(argv: Sequence[str], environ: Mapping[str, str] | None = None) -> Config:
    """The settings of a command line and an environment. Raises ConfigError; `--help` and `--version` exit."""
    return load_with_sources(argv, environ).config


def load_with_sources(argv: Sequence[str], environ: Mapping[str, str] | None = None) -> Loaded:
    """As `load`. Every source is read to its end, so that ConfigError names all that is wrong."""
    environ = os.environ if environ is None else environ
    flags = {name: texts for name, texts in vars(_parsed_arguments(argv)).items() if texts is not None}
    variables = {name: [environ[variable_of(name)]] for name in KNOWN if variable_of(name) in environ}
    problems: list[str] = []
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}

    def add(given: Given, shown: Callable[[str], str]) -> None:
        for name, value in _values(given, shown, problems).items():
            values[name] = value
            sources[name] = shown(next(each for each in given if KNOWN[each] == name))

    path = (flags.get("config") or variables.get("config") or [""])[-1]
    if path:
        found = read_config_file(path)
        problems += found.problems
        add(found.given, lambda name: f"{path}: {name}")
    add(variables, variable_of)
    add(flags, flag_of)
    config = Config(**values)
    if not (config.allow_direct_exec or config.allow_prepared_exec):
        problems.append("allow_direct_exec and allow_prepared_exec are both off: nothing could be started")
    if problems:
        raise ConfigError(*problems)
    return Loaded(config, sources)


def _values(given: Given, shown: Callable[[str], str], problems: list[str]) -> dict[str, Any]:
    """The values of one source by option. What is wrong is added to `problems`."""
    texts: dict[str, Sequence[str]] = {name: given[name] for name in given if KNOWN[name] == name}
    labels = {name: shown(name) for name in texts}
    try:
        for alias in ALIASES:
            if alias.name in given:
                if alias.option in texts:
                    raise ConfigError(f"{shown(alias.name)} and {shown(alias.option)} are the same setting")
                labels[alias.option] = shown(alias.name)
                texts[alias.option] = [alias.convert(text) for text in given[alias.name]]
    except (ConfigError, ValueError) as error:
        problems.append(str(error))
    values = {}
    for option in OPTIONS:
        if option.name in texts:
            try:
                values[option.name] = _parsed(option, texts[option.name], labels[option.name])
            except ConfigError as error:
                problems += error.problems
    return values


def _parsed(option: Option, texts: Sequence[str], source: str) -> Any:
    """The value of an option that was given once or more often; of one that is no list the last counts."""
    try:
        if option.many:
            return tuple(option.parse(part) for text in texts for part in text.split(","))
        if texts[-1] == "" == getattr(Config(), option.name):
            return ""
        return option.parse(texts[-1])
    except ValueError as error:
        raise ConfigError(f"{source}: {error}") from None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise ConfigError(message)


def _parsed_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parsed, unknown = _parser().parse_known_args(argv)
    if unknown:
        flag = unknown[0].partition("=")[0]
        raise ConfigError(f"unknown argument {flag}{nearest(flag, map(flag_of, KNOWN))}")
    return parsed


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="exec-server serve",
        description="Run commands for clients on WebSocket or stdio.",
        epilog="Every flag can also be set as an environment variable, --session-ttl as EXEC_SERVER_SESSION_TTL, and in"
        " the file of --config, as session_ttl.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"exec-server {__version__}")
    defaults = Config()
    for alias in ALIASES:
        parser.add_argument(flag_of(alias.name), dest=alias.name, action="append", help=argparse.SUPPRESS)
    for option in OPTIONS:
        parser.add_argument(
            flag_of(option.name),
            dest=option.name,
            action="append",
            nargs="?" if option.parse is yes_or_no else None,
            const="yes" if option.parse is yes_or_no else None,
            metavar=option.metavar,
            help=f"{option.help} (default: {_shown(getattr(defaults, option.name))})",
        )
    return parser


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value in ("", ()) else str(value)
