"""Who may connect to the program's listener, as its settings say (docs/wire-spec.md, "Authentication";
docs/security.md has the reasons).
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final

from exec_server.server.config import Config
from transport.admission.auth import LEAST_SECRET_BYTES, Authenticator, CapabilityToken, SignedBearerToken
from transport.admission.rules import Admission
from transport.admission.web import WebAccess
from transport.listen import ListenUrlError, StdioUrl, UnixUrl, WebSocketUrl

if TYPE_CHECKING:
    from ssl import SSLContext

MOST_SECRET_BYTES: Final = 64 * 1024
"""How much of a file with a token or a secret is read."""

SHORT_TOKEN_BYTES: Final = 16
"""A capability token with less is warned of: answers are held back, guesses are not."""

CAPABILITY: Final = "capability-token"
SIGNED: Final = "signed-bearer-token"
_FLAGS: Final = {
    "ws_token_file": CAPABILITY,
    "ws_token_sha256": CAPABILITY,
    "ws_shared_secret_file": SIGNED,
    "ws_issuer": SIGNED,
    "ws_audience": SIGNED,
}
"""Which flag belongs to which mode."""


log = logging.getLogger("exec_server")


class AccessError(Exception):
    """Settings with which nobody, or everybody, could connect; the text says how to do better, on one line."""


def admission_of(config: Config, url: StdioUrl | WebSocketUrl | UnixUrl) -> Admission:
    """The rules for this listener. Reads the files of tokens. Raises AccessError, and ListenUrlError where the URL
    would let everybody in who can reach it."""
    authenticator = authenticator_of(config)
    authenticated = authenticator is not None or bool(config.tls_client_ca)
    on_network = isinstance(url, WebSocketUrl) and not url.is_loopback
    if on_network and not authenticated and not config.allow_unauthenticated:
        raise ListenUrlError(
            f"refused --listen URL `{url}`: whoever reaches it could run commands; add --ws-auth {CAPABILITY}"
            " --ws-token-file FILE, or listen on a loopback address, or insist with --allow-unauthenticated"
        )
    told_apart = isinstance(url, UnixUrl) or not (authenticated or on_network)
    return Admission(
        authenticator=authenticator,
        origins=frozenset(config.allow_origin),
        hosts=None if authenticated or isinstance(url, UnixUrl) else frozenset(config.allow_host),
        own_user_only=told_apart and not config.allow_other_users,
        max_connections=config.max_connections,
    )


def web_access_of(config: Config, url: StdioUrl | WebSocketUrl | UnixUrl) -> WebAccess | None:
    """The rules of the page, None without `--web`. Raises AccessError where there can be no page."""
    if not config.web:
        if config.web_origin:
            raise AccessError("`--web-origin` needs `--web`")
        return None
    if not isinstance(url, WebSocketUrl):
        raise AccessError(f"`--web` needs a port that a browser can reach, `--listen ws://IP:PORT`, not {url}")
    if config.tls_client_ca:
        raise AccessError("`--web` and `--tls-client-ca` do not go together: a page comes in by its cookie")
    from exec_server.server.page import static_files

    try:
        files = static_files()
    except OSError as error:
        raise AccessError(f"`--web`: {error}") from None
    return WebAccess(files, encrypted=url.scheme == "wss", origins=config.web_origin)


def warn_of_open_doors(config: Config, url: StdioUrl | WebSocketUrl | UnixUrl) -> None:
    """Say in the log what was insisted on, and is dangerous all the same."""
    if not isinstance(url, WebSocketUrl) or url.is_loopback:
        return
    if not (config.ws_auth or config.tls_client_ca):
        log.warning("%s: whoever reaches this address can run commands as this user", url)
    elif url.scheme == "ws":
        log.warning("%s: tokens and commands go over the network unencrypted; wss:// or a tunnel hides them", url)


def authenticator_of(config: Config) -> Authenticator | None:
    """What judges tokens, None without `--ws-auth`. Raises AccessError."""
    for name, mode in _FLAGS.items():
        if getattr(config, name) and config.ws_auth != mode:
            flag = "--" + name.replace("_", "-")
            if not config.ws_auth:
                raise AccessError(f"websocket auth flags require `--ws-auth {CAPABILITY}` or `--ws-auth {SIGNED}`")
            raise AccessError(f"`{flag}` belongs to `--ws-auth {mode}`, not to `--ws-auth {config.ws_auth}`")
    match config.ws_auth:
        case "capability-token":
            return CapabilityToken(_capability_digest(config))
        case "signed-bearer-token":
            return _signed(config)
        case _:
            return None


def _capability_digest(config: Config) -> bytes:
    path, digest = config.ws_token_file, config.ws_token_sha256
    if path and digest:
        raise AccessError("`--ws-token-file` and `--ws-token-sha256` are mutually exclusive")
    if path:
        from hashlib import sha256

        token = read_secret(path)
        if len(token) < SHORT_TOKEN_BYTES:
            log.warning(
                "the token in %s has %d bytes and can be guessed; take 32 random ones: openssl rand -base64 32",
                path,
                len(token),
            )
        return sha256(token).digest()
    if not digest:
        raise AccessError(f"`--ws-token-file` or `--ws-token-sha256` is required when `--ws-auth {CAPABILITY}` is set")
    if re.fullmatch(r"[0-9A-Fa-f]{64}", digest.strip()) is None:
        raise AccessError("--ws-token-sha256 must be a 64-character hex SHA-256 digest")
    return bytes.fromhex(digest)


def _signed(config: Config) -> Authenticator:
    path = config.ws_shared_secret_file
    if not path:
        raise AccessError(f"`--ws-shared-secret-file` is required when `--ws-auth {SIGNED}` is set")
    secret = read_secret(path)
    if len(secret) < LEAST_SECRET_BYTES:
        raise AccessError(f"websocket auth secret {path} must be at least {LEAST_SECRET_BYTES} bytes")
    return SignedBearerToken(
        secret, config.ws_issuer or None, config.ws_audience or None, config.ws_max_clock_skew_seconds
    )


def read_secret(path: str) -> bytes:
    """What a file holds, less the white space around it. Raises AccessError, which never shows any of it."""
    try:
        with open(path, "rb") as file:
            secret = file.read(MOST_SECRET_BYTES + 1).strip()
    except OSError as error:
        raise AccessError(f"failed to read websocket auth secret {path}: {error.strerror}") from None
    except ValueError as error:  # a NUL in the path
        raise AccessError(f"failed to read websocket auth secret {path!r}: {error}") from None
    if not secret:
        raise AccessError(f"websocket auth secret {path} must not be empty")
    if len(secret) > MOST_SECRET_BYTES:
        raise AccessError(f"websocket auth secret {path} must not be longer than {MOST_SECRET_BYTES} bytes")
    return secret


def tls_of(config: Config, url: StdioUrl | WebSocketUrl | UnixUrl) -> SSLContext | None:
    """The TLS of a `wss` listener, None for another. Raises AccessError."""
    encrypted = isinstance(url, WebSocketUrl) and url.scheme == "wss"
    if not encrypted:
        if config.tls_cert or config.tls_key or config.tls_client_ca:
            raise AccessError("`--tls-cert`, `--tls-key` and `--tls-client-ca` need a `--listen wss://IP:PORT`")
        return None
    if not config.tls_cert:
        raise AccessError(f"`--tls-cert` is required for `--listen {url}`")
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_tls_files(context, config)
    return context


def load_tls_files(context: SSLContext, config: Config) -> None:
    """Read certificate, key and authorities, for connections from now on. Raises AccessError."""
    import ssl

    at = config.tls_cert
    try:
        # A passphrase is not asked for: a server has nobody to ask, and would wait for ever.
        context.load_cert_chain(config.tls_cert, config.tls_key or None, password=lambda: b"")
        at = config.tls_client_ca
        if at:
            context.load_verify_locations(cafile=at)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ValueError) as error:  # SSLError is an OSError
        files = " with ".join(name for name in (config.tls_cert, config.tls_key) if name)
        reason = getattr(error, "strerror", None) or error
        raise AccessError(f"cannot use TLS file {at if at == config.tls_client_ca else files}: {reason}") from None
