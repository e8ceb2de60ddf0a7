"""`view_image`: a picture on the machine's disk as an item for a model, or the reason why there is none."""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta, Struct

from exec_server import Environment, ImageError, TransportDisconnected
from harness.tools.result import Arguments, Before, ToolCall, ToolResult, definition, failed, given, parsed
from protocol.sandbox import Sandbox

log = logging.getLogger("harness.tools")

VIEW_IMAGE = "view_image"
ORIGINAL = "original"

_Path = Annotated[str, Meta(description="The file: PNG, JPEG, WebP or GIF. Relative: from the folder of the turn.")]


class _Look(Struct, forbid_unknown_fields=True, frozen=True):
    """Arguments of `view_image` for a model that takes pictures made smaller."""

    path: _Path


class _LookClosely(_Look, forbid_unknown_fields=True, frozen=True):
    """Arguments for a model that takes them as they are, too."""

    detail: Annotated[
        Any,
        Meta(
            description="`original` for the file as it is; without, it is made smaller where it is large.",
            extra_json_schema={"enum": [ORIGINAL, None]},
        ),
    ] = None


class ViewImage:
    """The tool over an Environment. `cwd` is the folder of the turn, None for that of the machine. `images`: whether
    the model takes pictures at all; `original`: whether it takes those of any size. `on_event` is called with the event
    `view_image_tool_call`; it must not block. `before` is asked before each call.
    """

    def __init__(
        self,
        environment: Environment,
        cwd: str | None = None,
        *,
        images: bool = True,
        original: bool = False,
        sandbox: Sandbox | None = None,
        before: Before | None = None,
        on_event: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self._environment = environment
        self._cwd = cwd
        self._images = images
        self._original = original
        self._sandbox = sandbox
        self._before = before
        self._on_event = on_event

    def definition(self) -> dict[str, Any]:
        """Name, description and JSON Schema of the arguments; `detail` is there for models that have it."""
        options = _LookClosely if self._original else _Look
        return definition(VIEW_IMAGE, "Shows a picture from the disk of the machine.", options)

    async def call(self, arguments: Arguments, call_id: str) -> ToolResult:
        """Carry out a call of a model. Whatever goes wrong is text for the model; only cancelling raises."""
        try:
            return await self._view(parsed(arguments, _LookClosely), call_id)
        except ImageError as error:
            return failed(str(error))
        except (TransportDisconnected, ImportError, ValueError) as error:
            return failed(f"{VIEW_IMAGE} failed: {error}")
        except Exception as error:
            log.exception("the tool %s failed", VIEW_IMAGE)
            return failed(f"{VIEW_IMAGE} failed: {error!r}")

    async def _view(self, options: _LookClosely, call_id: str) -> ToolResult:
        if not self._images:
            return failed(f"{VIEW_IMAGE} is not allowed: this model takes no images")
        if options.detail not in (None, ORIGINAL):
            return failed(f"{VIEW_IMAGE} failed: `detail` can only be `{ORIGINAL}` or left out, not {options.detail!r}")
        if self._before is not None:
            refusal = await self._before(ToolCall(VIEW_IMAGE, given(options), call_id))
            if refusal is not None:
                return failed(refusal)
        path = options.path if self._cwd is None else posixpath.join(self._cwd, options.path)
        original = self._original and options.detail == ORIGINAL
        picture = await self._environment.read_image(path, sandbox=self._sandbox, original=original)
        if self._on_event is not None:
            self._on_event({"type": "view_image_tool_call", "call_id": call_id, "path": path})
        item = {"type": "input_image", "image_url": picture.data_url}
        return ToolResult("", True, ({**item, "detail": ORIGINAL} if original else item,))
