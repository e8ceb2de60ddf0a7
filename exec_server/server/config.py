"""The settings of a server, in one table: each option is a flag, an environment variable and a key of the file that
`--config` names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from actors.base.settings import ConfiguredSettings


class ConfigError(Exception):
    """Settings that cannot be used; the text is for the person who wrote them, on one line."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class Config(ConfiguredSettings, frozen=True, kw_only=True):
    """The settings of a server, those of its actors among them; sizes in bytes, times in seconds."""

    config: str = ""
    listen: str = "stdio://"
    encoding: str = "json"
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
    max_message: int = 64 << 20
    open_files: int = 0
    metrics_listen: str = ""
    otel: bool = False
    grace: float = 2.0
    ping_interval: float = 10.0
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


def yes_or_no(text: str) -> bool:
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
    Option("record_input", yes_or_no, "YES|NO", "also record what is typed, which may be secret", live=True),
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
    Option("web", yes_or_no, "YES|NO", "serve a page with terminals on the same port, and print its URL"),
    Option("web_origin", _origin, "ORIGIN", "an origin under which a proxy shows the page", many=True),
    Option("allow_other_users", yes_or_no, "YES|NO", "let all users of this machine connect"),
    Option("allow_unauthenticated", yes_or_no, "YES|NO", "serve the network without asking for tokens"),
    Option("max_connections", _count, "N", "how many WebSocket connections there may be", live=True),
    Option("max_sessions", _count, "N", "how many sessions there may be", live=True),
    Option("max_processes", _count, "N", "how many processes of all sessions may run at a time", live=True),
    Option("max_processes_per_session", _count, "N", "how many processes of a session may run at a time", live=True),
    Option("start_rate", _count, "N", "how many processes may be started a second; twice as many at once", live=True),
    Option("max_pending_requests", _count, "N", "unanswered requests of a client that is read further", live=True),
    Option("max_pending_bytes", _size(4096), "BYTES", "bytes of unanswered requests of a client", live=True),
    Option("messages_total", _size(1 << 20), "BYTES", "bytes of unanswered messages of all clients", live=True),
    Option("answers_total", _size(1 << 20), "BYTES", "bytes of large answers to all clients that wait", live=True),
    Option("max_message", _size(4096), "BYTES", "the longest message that a client may send"),
    Option("initialize_timeout", _positive_seconds, "S", "how long a WebSocket may be there uninitialized", live=True),
    Option("retained_output_total", _size(1), "BYTES", "output that is kept of all processes", live=True),
    Option("max_file_handles", _count, "N", "how many file handles of all sessions may be open", live=True),
    Option("http_bodies_total", _size(1), "BYTES", "HTTP bodies of all sessions that wait for their ends", live=True),
    Option("metrics_listen", str, "IP:PORT", "answer /metrics, /livez and /readyz there; needs exec-server[metrics]"),
    Option("otel", yes_or_no, "YES|NO", "send traces as the OTEL_* variables say; needs exec-server[otel]"),
    Option("open_files", _open_files, "N", "soft limit of open files of the server; 0: the hard one"),
    Option("grace", _seconds, "S", "how long running processes have when the server is told to end", live=True),
    Option(
        "allow_direct_exec", yes_or_no, "YES|NO", "take starts of mode direct, which have no policy applied", live=True
    ),
    Option(
        "allow_prepared_exec", yes_or_no, "YES|NO", "take starts of mode prepared, whose caller applied one", live=True
    ),
    Option("audit", str, "FILE", "append who started what to this file, and how it ended; JSON lines"),
    Option("audit_argv", yes_or_no, "YES|NO", "with all arguments, which may be secret, not their SHA-256", live=True),
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


def flag_of(name: str) -> str:
    """The flag of an option or alias."""
    return "--" + name.replace("_", "-")


def variable_of(name: str) -> str:
    """The environment variable of an option or alias."""
    return "EXEC_SERVER_" + name.upper()


def nearest(name: str, known: Iterable[str]) -> str:
    """` (did you mean X?)` where there is something like it, else nothing."""
    from difflib import get_close_matches

    found = get_close_matches(name, list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""
