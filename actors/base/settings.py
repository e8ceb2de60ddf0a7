"""What holds for a whole server and is told to its actors when they are made."""

from __future__ import annotations

import msgspec

from protocol.environment import EnvironmentInfo

MAX_WAIT_S = 24 * 3600.0
"""No wait of a client lasts longer, in seconds; it is answered then as if its own time were over."""


class ConfiguredSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What whoever runs a server can say of its actors: a part of the server's `Config`, and of `Settings`. Sizes in
    bytes, times in seconds; the defaults are those of the command line.
    """

    session_ttl: float = 80.0
    process_retention: float = 80.0
    max_session_ttl: float = 86_400.0
    retained_output: int = 1 << 20
    retain_head: int = 65536
    record: str = ""
    """The folder that recordings of terminals go to; without one nothing is recorded."""
    record_input: bool = False
    stdin_queue: int = 1 << 20
    outbound_high_water: int = 1 << 20
    max_http_body: int = 64 << 20
    """The largest body of a response that is answered as a whole."""
    max_sessions: int = 10_000
    max_processes: int = 10_000
    """That run at a time, in all sessions together."""
    max_processes_per_session: int = 4096
    start_rate: int = 5_000
    """Starts a second of all sessions; twice as many at once."""
    retained_output_total: int = 2 << 30
    """Output that is kept of all processes; the oldest finished ones go first."""
    max_file_handles: int = 10_000
    """Open file handles of all sessions; a connection has 128 at most."""
    http_bodies_total: int = 256 << 20
    """Bodies of responses of all sessions that are kept until they are whole and passed on."""
    initialize_timeout: float = 60.0
    allow_direct_exec: bool = True
    allow_prepared_exec: bool = True
    audit: str = ""
    """The file that tells who started what; without one nothing does."""
    audit_argv: bool = False
    max_pending_requests: int = 20_000
    max_pending_bytes: int = 64 << 20
    """Of unanswered requests of a connection, the small ones left out."""
    messages_total: int = 1 << 30
    """Of unanswered requests of all connections."""
    answers_total: int = 512 << 20
    """Of large answers to all connections that are not on their way yet."""


class Settings(ConfiguredSettings, frozen=True):
    """All that the actors are told."""

    environment: EnvironmentInfo
    server_name: str = "exec-server"
    server_version: str = "0"
    screen: bool = False
    """Whether screens can be rendered."""
    measure: bool = False
    """Whether bridges tell the router what they have answered, and how fast."""
    probe_timeout: float = 2.0
    end_of_input_grace: float = 5.0
