"""The file that names environments, and which one is meant. TOML:

default = "builder"

[environments.builder]
url = "ws://127.0.0.1:8765"
token_file = "~/.config/exec-server/builder.token"

[environments.box]
command = ["docker", "exec", "-i", "box", "exec-server"]
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct


class EnvironmentsFileError(Exception):
    """The file cannot be used, or has no environment of the wanted name; the text is for the person who wrote it."""


class ServerTarget(Struct, frozen=True, forbid_unknown_fields=True):
    """Where an environment is: at a URL, or at the other end of the stdin and stdout of a command. Neither: here."""

    url: str | None = None
    token_file: str | None = None
    """The file with the token for the URL."""
    command: list[str] | None = None

    def __post_init__(self) -> None:
        if self.url is not None and self.command is not None:
            raise ValueError("`url` and `command` exclude each other")
        if self.command == []:
            raise ValueError("`command` is empty")


class Environments(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    default: str | None = None
    environments: dict[str, ServerTarget] = {}


def chosen_target(name: str | None, environ: Mapping[str, str] = os.environ) -> ServerTarget:
    """The environment of this name; without one that of `EXEC_SERVER_URL` (and `EXEC_SERVER_TOKEN_FILE`), else the
    file's default, else this machine. Raises EnvironmentsFileError.
    """
    if name is None and environ.get("EXEC_SERVER_URL"):
        return ServerTarget(url=environ["EXEC_SERVER_URL"], token_file=environ.get("EXEC_SERVER_TOKEN_FILE"))
    path = environments_path(environ)
    found = load(path)
    name = found.default if name is None else name
    if name is None:
        return ServerTarget(url="local")
    if name not in found.environments:
        known = ", ".join(sorted(found.environments)) or "none"
        raise EnvironmentsFileError(f"{path}: there is no environment {name!r}; known: {known}")
    return found.environments[name]


def environments_path(environ: Mapping[str, str]) -> Path:
    """`EXEC_SERVER_ENVIRONMENTS`, else `exec-server/environments.toml` in the user's configuration folder."""
    if given := environ.get("EXEC_SERVER_ENVIRONMENTS"):
        return Path(given)
    base = environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(base) / "exec-server" / "environments.toml"


def load(path: Path) -> Environments:
    """What the file says; nothing, if there is none. Raises EnvironmentsFileError."""
    try:
        return msgspec.convert(tomllib.loads(path.read_text()), Environments)
    except FileNotFoundError:
        return Environments()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise EnvironmentsFileError(f"{path}: {error}") from None
