"""The Codex configuration of this machine, cut down to what a client asks for (docs/protocol.md,
"environmentConfig/read").

Blocking; for a thread.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

import tomli_w

from protocol.environment import ConfigLayer, ConfigLayers, EnvironmentConfigReadParams, EnvironmentConfigReadResult
from protocol.errors import InternalError, InvalidParams, os_error_text
from protocol.paths import native_path, path_uri

MAX_CONFIG_BYTES = 1 << 20
_AT = re.compile(r"(.*) \(at line (\d+), column (\d+)\)", re.DOTALL)

Paths = Iterable[Iterable[str]]


def read_config(params: EnvironmentConfigReadParams, environ: Mapping[str, str]) -> EnvironmentConfigReadResult:
    """The asked parts of `$CODEX_HOME/config.toml`; no layer where there is no such file, or nothing of them in it.

    Raises InvalidParams for a `cwd` that is no path, and if nothing is asked for; InternalError of kind
    `invalidConfig` for a file that cannot be read or is no TOML.
    """
    native_path(params.cwd)
    if not params.config_paths and not params.requirements_paths:
        raise InvalidParams("at least one config or requirements path is required")
    home = os.path.abspath(os.path.expanduser("~"))
    folder = os.path.abspath(environ.get("CODEX_HOME") or os.path.join(home, ".codex"))
    path = os.path.join(folder, "config.toml")
    asked = cut(_load(path), params.config_paths) if params.config_paths else {}
    layers = []
    if asked:
        layers.append(ConfigLayer(source=f"user ({path})", base_dir=path_uri(folder), toml=tomli_w.dumps(asked)))
    return EnvironmentConfigReadResult(
        user_home_dir=path_uri(home),
        codex_home_dir=path_uri(folder),
        hostname=os.uname().nodename,
        config=ConfigLayers(layers),
        requirements=ConfigLayers([]),
    )


def cut(config: Mapping[str, Any], paths: Paths) -> dict[str, Any]:
    """Only what is at these paths (keys from the top), with the tables that it is in."""
    kept: dict[str, Any] = {}
    for path in paths:
        _copy(config, kept, list(path))
    return kept


def _copy(source: Mapping[str, Any], target: dict[str, Any], path: list[str]) -> None:
    if not path:
        target.update(source)
        return
    key, *rest = path
    if key not in source:
        return
    value = source[key]
    if not rest:
        target[key] = value
    elif isinstance(value, dict) and target.get(key) is not value:  # it may be there as a whole
        below: dict[str, Any] = dict(target.get(key, {}))
        _copy(value, below, rest)
        if below:
            target[key] = below


def _load(path: str) -> dict[str, Any]:
    try:
        text = _read(path).decode()
        return tomllib.loads(text)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _failure(path, os_error_text(error.errno or 0)) from None
    except UnicodeDecodeError as error:
        raise _failure(path, f"invalid UTF-8 at byte {error.start}") from None
    except tomllib.TOMLDecodeError as error:
        found = _AT.fullmatch(str(error))
        place = "" if found is None else f":{found[2]}:{found[3]}"
        raise _failure(path, str(error) if found is None else found[1], place) from None
    except RecursionError:
        raise _failure(path, "nested too deep") from None


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO would never open otherwise
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _failure(path, "not a regular file")
        data = file.read(MAX_CONFIG_BYTES + 1)
    if len(data) > MAX_CONFIG_BYTES:
        raise _failure(path, f"more than {MAX_CONFIG_BYTES} bytes")
    return data


def _failure(path: str, reason: str, place: str = "") -> InternalError:
    text = f"failed to load executor-local config: {path}{place}: {reason}"
    return InternalError(text, {"kind": "invalidConfig", "path": path})
