"""The frames in `golden/`, one file a release, and the same in MessagePack in `golden/msgpack/`.

`python -m tests.protocol.golden_frames` adds the MessagePack frames that the current release lacks.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from exec_server import __version__
from protocol.codec import JSON, MSGPACK
from protocol.envelope import ErrorResponse, Notification, Request, Response
from protocol.errors import ExecServerError
from protocol.json_schema import NOTIFICATIONS
from protocol.methods import METHODS

FOLDER = Path(__file__).parent / "golden"
CURRENT = __version__.rpartition(".")[0]
KINDS: dict[str, type[msgspec.Struct]] = {kind.METHOD: kind for kind in NOTIFICATIONS}  # type: ignore[attr-defined]
RELEASES = sorted(path.stem for path in FOLDER.glob("*.json"))


class Golden(NamedTuple):
    """One frame, and with a minimal request the params that it stands for."""

    release: str
    kind: str
    """`requests`, `results`, `notifications` or `errors`."""
    method: str
    """Of the request that a result answers; empty for an error."""
    variant: str
    """`full` or `minimal`."""
    frame: bytes
    means: str | None
    packed: bytes | None
    """The same message in MessagePack, if that is kept."""

    def __str__(self) -> str:
        return "-".join(filter(None, (self.release, self.kind, self.method, self.variant)))


def load(release: str) -> dict[str, Any]:
    """A file as it is."""
    frames: dict[str, Any] = json.loads((FOLDER / f"{release}.json").read_text())
    return frames


def load_packed(release: str) -> dict[str, Any]:
    """The MessagePack frames of a release, in base64; one of a release that had none is missing."""
    path = FOLDER / "msgpack" / f"{release}.json"
    packed: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return packed


def frames(release: str) -> Iterator[Golden]:
    """All frames of a release."""
    packed = load_packed(release)
    for kind, methods in load(release).items():
        for method, variants in {"": methods}.items() if kind == "errors" else methods.items():
            for variant in ("full", "minimal"):
                means = variants.get("minimalMeans") if variant == "minimal" else None
                text = packed.get(kind, {}).get(method, {}).get(variant)
                raw = None if text is None else base64.b64decode(text)
                yield Golden(release, kind, method, variant, variants[variant].encode(), means, raw)


def meaning(golden: Golden) -> Any:
    """What a frame stands for, from its JSON: params, a result, a notification (None for `initialized`) or an error."""
    match JSON.decode(golden.frame):
        case Request() as request:
            return JSON.decode_params(METHODS[golden.method], request.params)
        case Response() as answer:
            return msgspec.json.decode(answer.result, type=METHODS[golden.method].RESULT)
        case Notification() as told:
            kind = KINDS.get(golden.method)
            return None if kind is None else msgspec.json.decode(told.params or b"", type=kind)
        case ErrorResponse() as refused:
            data = refused.error.data
            error = ExecServerError(refused.error.message, msgspec.json.decode(data) if data else None)
            error.code = refused.error.code  # type: ignore[misc]
            return error


def packed(golden: Golden) -> bytes:
    """A frame in MessagePack, with the members that it has in JSON."""
    as_json = json.loads(golden.frame)
    meant = meaning(golden)
    match golden.kind:
        case "requests":
            members = msgspec.to_builtins(meant, builtin_types=(bytes,))
            if "params" in as_json:
                as_json["params"] = {name: members[name] for name in as_json["params"]}
            return msgspec.msgpack.encode(as_json)
        case "results":
            return MSGPACK.encode_result(as_json["id"], meant)
        case "errors":
            return MSGPACK.encode_error(as_json["id"], meant)
        case _:
            return msgspec.msgpack.encode(as_json) if meant is None else MSGPACK.encode_notification(meant)


def add_packed() -> int:
    """Add what the current release has in JSON alone; how many frames those are. What is there stays as it is."""
    known = load_packed(CURRENT)
    missing = [golden for golden in frames(CURRENT) if golden.packed is None]
    for golden in missing:
        variants = known.setdefault(golden.kind, {}).setdefault(golden.method, {})
        variants[golden.variant] = base64.b64encode(packed(golden)).decode()
    path = FOLDER / "msgpack" / f"{CURRENT}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(known, indent=2) + "\n")
    return len(missing)


ALL = [golden for release in RELEASES for golden in frames(release)]


if __name__ == "__main__":
    print(f"{add_packed()} frames added")
