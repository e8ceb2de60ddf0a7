"""What a server can be told, in one table: each option is a flag, an environment variable and a key of the file that
`--config` names.

A flag wins over `EXEC_SERVER_<NAME>`, which wins over the file, which wins over the default.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from exec_server.version import __version__


class ConfigError(Exception):
    """Settings that cannot be used; the text is for the person who wrote them, on one line."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a server; sizes in bytes, times in seconds."""

    config: str = ""
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
    web: bool = False
    web_origin: tuple[str, ...] = ()
    allow_other_users: bool = False
    allow_unauthenticated: bool = False
    max_connections: int = 10_000
    max_sessions: int = 10_000
    max_processes: int = 10_000
    max_processes_per_session: int = 4096
    start_rate: int = 5_000
    max_pending_requests: int = 20_000
    max_message: int = 64 << 20
    initialize_timeout: float = 60.0
    retained_output_total: int = 2 << 30
    max_file_handles: int = 10_000
    http_bodies_total: int = 256 << 20
    open_files: int = 0
    metrics_listen: str = ""
    otel: bool = False
    grace: float = 2.0
    allow_direct_exec: bool = True
    allow_prepared_exec: bool = True
    audit: str = ""
    audit_argv: bool = False
    ping_interval: float = 10.0
    outbound_high_water: int = 1 << 20
    stdin_queue: int = 1 << 20
    max_http_body: int = 64 << 20
    concurrent_requests: int = 1
    log_level: str = "warning"
    log_format: str = "auto"


class Option(msgspec.Struct, frozen=True):
    """How one setting is written, checked and explained."""

    name: str
    parse: Callable[[str], Any]
    metavar: str
    help: str
    many: bool = False
    """Whether it is a list: the flag may be repeated, and commas separate values. `parse` gets one of them."""
    live: bool = False
    """Whether it can be changed while the server runs: see `exec_server.server.reload`."""


class Alias(msgspec.Struct, frozen=True):
    """Another name of an option, from first drafts of this protocol, perhaps in another unit."""

    name: str
    option: str
    convert: Callable[[str], str] = str


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


def _open_files(text: str) -> int:
    value = int(text)
    if value and value < 32:
        raise ValueError(f"{text} is less than 32, with which no server runs")
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


def _ms(text: str) -> str:
    try:
        return str(float(text) / 1000)
    except ValueError:
        raise ValueError(f"{text!r} is no number of milliseconds") from None


def _name(text: str) -> str:
    if not text.strip():
        raise ValueError("an empty name")
    return text.strip().lower()


def _origin(text: str) -> str:
    from urllib.parse import urlsplit

    url = urlsplit(text.strip().lower())
    if url.scheme not in ("http", "https") or not url.netloc or f"{url.scheme}://{url.netloc}" != text.strip().lower():
        raise ValueError(f"invalid origin {text!r}; expected https://HOST or https://HOST:PORT")
    return f"{url.scheme}://{url.netloc}"


OPTIONS: tuple[Option, ...] = (
    Option("config", str, "FILE", "settings in TOML, one key for each flag, with underscores"),
    Option("listen", str, "URL", "stdio://, ws://IP:PORT, wss://IP:PORT (port 0: any free), unix:///PATH, systemd:"),
    Option("encoding", _one_of("json", "msgpack"), "NAME", "encoding on stdio: json or msgpack"),
    Option("session_ttl", _seconds, "S", "how long a session lives without a connection", live=True),
    Option(
        "max_session_ttl", _seconds, "S", "the longest life without a connection that a client may ask for", live=True
    ),
    Option("process_retention", _seconds, "S", "how long a finished process stays readable", live=True),
    Option("retained_output", _size(1), "BYTES", "output that is kept of each process", live=True),
    Option(
        "retain_head",
        _size(0),
        "BYTES",
        "first bytes of each stream kept for a snapshot; 0: only the last ones",
        live=True,
    ),
    Option("record", str, "DIR", "record every terminal as an asciicast file in this folder"),
    Option("record_input", _yes_or_no, "YES|NO", "also record what is typed, which may be secret", live=True),
    Option(
        "ws_auth",
        _one_of("capability-token", "signed-bearer-token"),
        "MODE",
        "what WebSocket clients must show: capability-token or signed-bearer-token",
    ),
    Option("ws_token_file", str, "FILE", "holds the capability token", live=True),
    Option("ws_token_sha256", str, "HEX", "SHA-256 of the capability token", live=True),
    Option(
        "ws_shared_secret_file", str, "FILE", "holds the secret that signs bearer tokens, at least 32 bytes", live=True
    ),
    Option("ws_issuer", str, "NAME", "the issuer that signed tokens must name", live=True),
    Option("ws_audience", str, "NAME", "the audience that signed tokens must name", live=True),
    Option("ws_max_clock_skew_seconds", _seconds, "S", "by how much the clocks of issuers may be wrong", live=True),
    Option("tls_cert", str, "FILE", "certificate chain for wss://, PEM", live=True),
    Option("tls_key", str, "FILE", "its private key, PEM, if it is not in the same file", live=True),
    Option("tls_client_ca", str, "FILE", "clients must have a certificate of these authorities, PEM", live=True),
    Option("allow_origin", _name, "ORIGIN", "an origin whose web pages may connect", many=True, live=True),
    Option("allow_host", _name, "NAME", "one more name that a Host header may have", many=True, live=True),
    Option("web", _yes_or_no, "YES|NO", "serve a page with terminals on the same port, and print its URL"),
    Option("web_origin", _origin, "ORIGIN", "an origin under which a proxy shows the page", many=True),
    Option("allow_other_users", _yes_or_no, "YES|NO", "let all users of this machine connect"),
    Option("allow_unauthenticated", _yes_or_no, "YES|NO", "serve the network without asking for tokens"),
    Option("max_connections", _count, "N", "how many WebSocket connections there may be", live=True),
    Option("max_sessions", _count, "N", "how many sessions there may be", live=True),
    Option("max_processes", _count, "N", "how many processes of all sessions may run at a time", live=True),
    Option("max_processes_per_session", _count, "N", "how many processes of a session may run at a time", live=True),
    Option("start_rate", _count, "N", "how many processes may be started a second; twice as many at once", live=True),
    Option("max_pending_requests", _count, "N", "unanswered requests of a client that is read further", live=True),
    Option("max_message", _size(4096), "BYTES", "the longest message that a client may send"),
    Option("initialize_timeout", _positive_seconds, "S", "how long a WebSocket may be there uninitialized", live=True),
    Option("retained_output_total", _size(1), "BYTES", "output that is kept of all processes", live=True),
    Option("max_file_handles", _count, "N", "how many file handles of all sessions may be open", live=True),
    Option("http_bodies_total", _size(1), "BYTES", "HTTP bodies of all sessions that wait for their ends", live=True),
    Option("metrics_listen", str, "IP:PORT", "answer /metrics, /livez and /readyz there; needs exec-server[metrics]"),
    Option("otel", _yes_or_no, "YES|NO", "send traces as the OTEL_* variables say; needs exec-server[otel]"),
    Option("open_files", _open_files, "N", "soft limit of open files of the server; 0: the hard one"),
    Option("grace", _seconds, "S", "how long running processes have when the server is told to end", live=True),
    Option(
        "allow_direct_exec", _yes_or_no, "YES|NO", "take starts of mode direct, which have no policy applied", live=True
    ),
    Option(
        "allow_prepared_exec", _yes_or_no, "YES|NO", "take starts of mode prepared, whose caller applied one", live=True
    ),
    Option("audit", str, "FILE", "append who started what to this file, and how it ended; JSON lines"),
    Option("audit_argv", _yes_or_no, "YES|NO", "with all arguments, which may be secret, not their SHA-256", live=True),
    Option("ping_interval", _positive_seconds, "S", "how long a silent WebSocket peer is left before a ping"),
    Option("outbound_high_water", _size(4096), "BYTES", "queued for a client when its children are held", live=True),
    Option("stdin_queue", _size(1), "BYTES", "input that is taken for each process ahead of its reading", live=True),
    Option(
        "max_http_body", _size(1), "BYTES", "the largest HTTP body that is answered as a whole, not streamed", live=True
    ),
    Option("concurrent_requests", _count, "N", "accepted and ignored: nothing here waits in line", live=True),
    Option(
        "log_level",
        _one_of("debug", "info", "warning", "error"),
        "LEVEL",
        "what is logged on stderr: debug, info, warning or error",
        live=True,
    ),
    Option("log_format", _one_of("auto", "text", "json"), "NAME", "text, json, or auto: text on a terminal, else json"),
)


ALIASES: tuple[Alias, ...] = (
    Alias("shutdown_grace_period_ms", "grace", _ms),
    Alias("retained_output_bytes_per_process", "retained_output"),
    Alias("max_processes_per_connection", "max_processes_per_session"),
)
KNOWN: dict[str, str] = {**{each.name: each.name for each in OPTIONS}, **{each.name: each.option for each in ALIASES}}
"""Every name that an option has, and the option."""

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
        from exec_server.server.config_file import read_config_file

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


def flag_of(name: str) -> str:
    """The flag of an option or alias."""
    return "--" + name.replace("_", "-")


def variable_of(name: str) -> str:
    """The environment variable of an option or alias."""
    return "EXEC_SERVER_" + name.upper()


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


def nearest(name: str, known: Iterable[str]) -> str:
    """` (did you mean X?)` where there is something like it, else nothing."""
    from difflib import get_close_matches

    found = get_close_matches(name, list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""


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
