"""The environment of a child, and where its program is looked for (docs/protocol.md, "process/start")."""

from __future__ import annotations

import errno
import functools
import os
import pwd
import re
import stat
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from protocol.errors import InvalidParams
from protocol.wire_types import PATH_BYTES

_CORE: Final = frozenset(
    [
        "HOME",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "LOGNAME",
        "PATH",
        "SHELL",
        "TEMP",
        "TMP",
        "TMPDIR",
        "TZ",
        "USER",
        "USERNAME",
    ]
)
"""What `inherit: "core"` takes: who and where one is, and how text is encoded."""
_DEFAULT_EXCLUDES: Final = ("*KEY*", "*SECRET*", "*TOKEN*")
_NEVER_INHERITED: Final = re.compile(r"EXEC_SERVER_|LISTEN_|WATCHDOG_|OTEL_|NOTIFY_SOCKET\Z")
"""Ours, and what systemd means for the server alone (sd_notify(3), sd_listen_fds(3)), and where it sends its traces,
which `OTEL_EXPORTER_OTLP_HEADERS` has the password for."""


_MOST_GLOB_CHARACTERS: Final = 8192
"""Of one list of globs. They are one regular expression, which takes about 10 ms to compile."""


class EnvironmentPolicy(Protocol):
    """The five members of `envPolicy`, by attribute."""

    @property
    def inherit(self) -> str: ...
    @property
    def ignore_default_excludes(self) -> bool: ...
    @property
    def exclude(self) -> list[str]: ...
    @property
    def set(self) -> dict[str, str]: ...
    @property
    def include_only(self) -> list[str]: ...


def child_environment(
    env: Mapping[str, str],
    policy: EnvironmentPolicy | None,
    tty: bool,
    server: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The exact environment of a child: `env`, over what `policy` takes from the server's (`server`: for
    tests).

    Without a policy nothing at all is inherited. With one: the server's variables by `inherit`, less the
    default excludes (unless told to ignore them), less `exclude`, plus `set`, of these only the
    `include_only` ones (where there are any), and `env` over all that, never filtered. A terminal gets
    `SHELL`, the login shell, if it lacks one.
    """
    if policy is not None:
        check_globs(policy)
    child = {} if policy is None else _inherited(policy, server_environment() if server is None else server)
    child.update(env)
    if tty:
        child.setdefault("SHELL", login_shell())
    return child


def is_private(name: str) -> bool:
    """Whether a variable of the server's environment is for the server alone."""
    return _NEVER_INHERITED.match(name) is not None


def check_globs(policy: EnvironmentPolicy) -> None:
    """Raise InvalidParams for globs that would take long to compile and to match, long before that."""
    for member, globs in (("exclude", policy.exclude), ("includeOnly", policy.include_only)):
        size = sum(map(len, globs))
        if size > _MOST_GLOB_CHARACTERS:
            text = f"invalid `envPolicy.{member}`: {size} characters in all, more than the {_MOST_GLOB_CHARACTERS}"
            raise InvalidParams(f"{text} that are allowed", {"kind": "tooMany"})


def _inherited(policy: EnvironmentPolicy, server: Mapping[str, str]) -> dict[str, str]:
    if policy.inherit == "none":
        child = {}
    else:
        child = {name: value for name, value in server.items() if not is_private(name)}
        if policy.inherit == "core":
            child = {name: value for name, value in child.items() if name in _CORE}
    if not policy.ignore_default_excludes:
        child = _without(child, _DEFAULT_EXCLUDES)
    child = _without(child, policy.exclude)
    child.update(policy.set)
    if policy.include_only:
        kept = _matcher(tuple(policy.include_only))
        child = {name: value for name, value in child.items() if kept.match(name)}
    return child


def _without(variables: dict[str, str], patterns: Iterable[str]) -> dict[str, str]:
    dropped = _matcher(tuple(patterns))
    return {name: value for name, value in variables.items() if not dropped.match(name)}


@functools.lru_cache(maxsize=16)
def _matcher(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Matches a name that any of the globs (`*` and `?`, nothing else, in any case) matches as a whole."""
    whole = "|".join(map(_glob, patterns)) if patterns else r"(?!)"
    return re.compile(rf"(?:{whole})\Z", re.IGNORECASE | re.DOTALL)


def _glob(pattern: str) -> str:
    first, *others = [
        "".join("." if char == "?" else re.escape(char) for char in piece) for piece in re.split(r"\*+", pattern)
    ]
    if not others:
        return first
    # The leftmost place of a middle piece is always good enough; saying so (atomic groups) keeps matching
    # linear.
    middle = "".join(f"(?>.*?{piece})" for piece in others[:-1])
    return f"{first}{middle}.*{others[-1]}"


def server_environment() -> dict[str, str]:
    """This process's environment as text: UTF-8 in any locale, other bytes as surrogate escapes."""
    return {
        name.decode("utf-8", "surrogateescape"): value.decode("utf-8", "surrogateescape")
        for name, value in os.environb.items()
    }


def login_shell() -> str:
    """The shell of the server's user: SHELL if it can be run, else the account's, else bash or sh."""
    return _login_shell(os.environ.get("SHELL", ""))


@functools.lru_cache(maxsize=1)
def _login_shell(wanted: str) -> str:
    candidates = [wanted]
    try:
        candidates.append(pwd.getpwuid(os.getuid()).pw_shell)
    except KeyError:
        pass  # a uid without an account, as in many containers
    for path in (*candidates, "/bin/bash"):
        if os.path.isabs(path) and os.access(path, os.X_OK):
            return path
    return "/bin/sh"


def find_program(name: bytes, cwd: bytes, path: bytes) -> bytes:
    """The path to execute for the program `name` as execvp(3) finds it in a child with this `cwd` and `PATH`;
    it may be relative to `cwd`.

    A name with a slash is not looked for in `path`. Raises OSError with the errno an exec would give: ENOENT
    not found, EACCES found but not an executable file, ENOTDIR, ELOOP and the like.
    """
    if b"/" in name:
        _check_executable(os.path.join(cwd, name))
        return name
    if len(path) >= MAX_STRING:  # no program could be given it: execve(2), E2BIG
        raise OSError(errno.E2BIG, "PATH")
    denied = False
    for directory in dict.fromkeys(path.split(b":")):
        if len(directory) + len(name) >= PATH_BYTES:
            continue  # ENAMETOOLONG, with which execvp(3) goes on, too
        candidate = os.path.join(directory, name)
        try:
            _check_executable(os.path.join(cwd, candidate))
            return candidate
        except PermissionError:
            denied = True
        except OSError as error:
            if error.errno not in _ELSEWHERE:
                raise
    raise OSError(errno.EACCES if denied else errno.ENOENT, "not in PATH")


MAX_STRING: Final = 131072
"""MAX_ARG_STRLEN of execve(2): one argument or variable, with the terminating NUL."""
_ELSEWHERE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.ESTALE, errno.ENODEV)
"""What makes execvp(3) try the next member of PATH."""
BY_EFFECTIVE_ID: Final = os.access in os.supports_effective_ids
"""Whether access(2) can be asked about who we act as, which is what counts for an exec or chdir."""


def _check_executable(path: bytes) -> None:
    if not stat.S_ISREG(os.stat(path).st_mode) or not os.access(path, os.X_OK, effective_ids=BY_EFFECTIVE_ID):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
