"""What a server can be told, in one table: each option is a flag and an environment variable of the same name.

A flag wins over `EXEC_SERVER_<NAME>`, which wins over the default.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from exec_server import __version__


class ConfigError(Exception):
    """A setting that cannot be used; the text is for the person who wrote it, on one line."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a server; sizes in bytes, times in seconds."""

    listen: str = "stdio://"
    encoding: str = "json"
    session_ttl: float = 80.0
    max_session_ttl: float = 86_400.0
    process_retention: float = 80.0
    retained_output: int = 1 << 20
    retain_head: int = 65536
    record: str = ""
    record_input: bool = False
    ws_auth: str = ""
    ws_token_file: str = ""
    ws_token_sha256: str = ""
    ws_shared_secret_file: str = ""
    ws_issuer: str = ""
    ws_audience: str = ""
    ws_max_clock_skew_seconds: float = 30.0
    tls_cert: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""
    allow_origin: tuple[str, ...] = ()
    allow_host: tuple[str, ...] = ()
    allow_other_users: bool = False
    allow_unauthenticated: bool = False
    ping_interval: float = 10.0
    outbound_high_water: int = 1 << 20
    stdin_queue: int = 1 << 20
    max_http_body: int = 64 << 20
    concurrent_requests: int = 1
    log_level: str = "warning"


class Option(msgspec.Struct, frozen=True):
    """How one setting is written, checked and explained."""

    name: str
    parse: Callable[[str], Any]
    metavar: str
    help: str
    many: bool = False
    """Whether it is a list: the flag may be repeated, and commas separate values. `parse` gets one of them."""

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return "EXEC_SERVER_" + self.name.upper()


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 10 * 365 * 86_400:
        raise ValueError(f"{text} is not between 0 and ten years, in seconds")
    return value


def _positive_seconds(text: str) -> float:
    value = _seconds(text)
    if value < 0.1:
        raise ValueError(f"{text} is less than 0.1 seconds")
    return value


def _size(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if not least <= value <= 1 << 40:
            raise ValueError(f"{text} is not between {least} and {1 << 40} bytes")
        return value

    return parse


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(f"{text} is less than 1")
    return value


def _yes_or_no(text: str) -> bool:
    if text.lower() not in ("yes", "no", "true", "false", "1", "0"):
        raise ValueError(f"{text!r} is neither yes nor no")
    return text.lower() in ("yes", "true", "1")


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{text!r} is not one of {', '.join(choices)}")
        return text

    return parse


def _name(text: str) -> str:
    if not text.strip():
        raise ValueError("an empty name")
    return text.strip().lower()


OPTIONS: tuple[Option, ...] = (
    Option("listen", str, "URL", "stdio://, ws://IP:PORT, wss://IP:PORT (port 0: any free one) or unix:///PATH"),
    Option("encoding", _one_of("json", "msgpack"), "NAME", "encoding on stdio: json or msgpack"),
    Option("session_ttl", _seconds, "S", "how long a session lives without a connection"),
    Option("max_session_ttl", _seconds, "S", "the longest life without a connection that a client may ask for"),
    Option("process_retention", _seconds, "S", "how long a finished process stays readable"),
    Option("retained_output", _size(1), "BYTES", "output that is kept of each process"),
    Option("retain_head", _size(0), "BYTES", "first bytes of each stream kept for a snapshot; 0: only the last ones"),
    Option("record", str, "DIR", "record every terminal as an asciicast file in this folder"),
    Option("record_input", _yes_or_no, "YES|NO", "also record what is typed, which may be secret"),
    Option(
        "ws_auth",
        _one_of("capability-token", "signed-bearer-token"),
        "MODE",
        "what WebSocket clients must show: capability-token or signed-bearer-token",
    ),
    Option("ws_token_file", str, "FILE", "holds the capability token"),
    Option("ws_token_sha256", str, "HEX", "SHA-256 of the capability token"),
    Option("ws_shared_secret_file", str, "FILE", "holds the secret that signs bearer tokens, at least 32 bytes"),
    Option("ws_issuer", str, "NAME", "the issuer that signed tokens must name"),
    Option("ws_audience", str, "NAME", "the audience that signed tokens must name"),
    Option("ws_max_clock_skew_seconds", _seconds, "S", "by how much the clocks of issuers may be wrong"),
    Option("tls_cert", str, "FILE", "certificate chain for wss://, PEM"),
    Option("tls_key", str, "FILE", "its private key, PEM, if it is not in the same file"),
    Option("tls_client_ca", str, "FILE", "clients must have a certificate of these authorities, PEM"),
    Option("allow_origin", _name, "ORIGIN", "an origin whose web pages may connect", many=True),
    Option("allow_host", _name, "NAME", "one more name that a Host header may have", many=True),
    Option("allow_other_users", _yes_or_no, "YES|NO", "let all users of this machine connect"),
    Option("allow_unauthenticated", _yes_or_no, "YES|NO", "serve the network without asking for tokens"),
    Option("ping_interval", _positive_seconds, "S", "how long a silent WebSocket peer is left before a ping"),
    Option("outbound_high_water", _size(4096), "BYTES", "queued for a client when its children are held"),
    Option("stdin_queue", _size(1), "BYTES", "input that is taken for each process ahead of its reading"),
    Option("max_http_body", _size(1), "BYTES", "the largest HTTP body that is answered as a whole, not streamed"),
    Option("concurrent_requests", _count, "N", "accepted and ignored: nothing here waits in line"),
    Option(
        "log_level",
        _one_of("debug", "info", "warning", "error"),
        "LEVEL",
        "what is logged on stderr: debug, info, warning or error",
    ),
)


def load(argv: Sequence[str], environ: Mapping[str, str] | None = None) -> Config:
    """The settings of a command line and an environment. Raises ConfigError; `--help` and `--version` exit."""
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    for option in OPTIONS:
        if option.variable in environ:
            values[option.name] = _parsed(option, [environ[option.variable]], option.variable)
    given = vars(_parser().parse_args(argv))
    for option in OPTIONS:
        if given[option.name] is not None:
            values[option.name] = _parsed(option, given[option.name], option.flag)
    return Config(**values)


def _parsed(option: Option, texts: Sequence[str], source: str) -> Any:
    """The value of an option that was given once or more often; of one that is no list the last counts."""
    try:
        if option.many:
            return tuple(option.parse(part) for text in texts for part in text.split(","))
        return option.parse(texts[-1])
    except ValueError as error:
        raise ConfigError(f"{source}: {error}") from None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise ConfigError(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="exec-server serve",
        description="Run commands for clients on WebSocket or stdio.",
        epilog="Every flag can also be set as an environment variable, --session-ttl as EXEC_SERVER_SESSION_TTL.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"exec-server {__version__}")
    defaults = Config()
    for option in OPTIONS:
        parser.add_argument(
            option.flag,
            dest=option.name,
            action="append",
            nargs="?" if option.parse is _yes_or_no else None,
            const="yes" if option.parse is _yes_or_no else None,
            metavar=option.metavar,
            help=f"{option.help} (default: {_shown(getattr(defaults, option.name))})",
        )
    return parser


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value in ("", ()) else str(value)
