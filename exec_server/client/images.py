"""Pictures of an environment as a model can take them: of bounded size, in formats that models read.

Needs Pillow, the extra `image`, which is imported when the first picture is read.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import os
from collections import OrderedDict
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from exec_server.client.files import AnyPath, Files
from protocol.errors import ExecServerError, NotFound
from protocol.sandbox import Sandbox

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_WIDTH = 2048
MAX_HEIGHT = 768
MAX_FILE_BYTES = 64 << 20
MAX_PIXELS = 64_000_000
"""More are not decoded: a file of some kilobytes can claim to have billions."""
MAX_DATA_BYTES = 8 << 20
"""A picture of a larger file is encoded anew, whatever its width and height."""
CACHED_BYTES = 64 << 20
FORMATS = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp", "GIF": "image/gif"}


class ImageError(Exception):
    """A picture that cannot be had. The text has the path as it was given. `notFound`: nothing is there; `unreadable`:
    it may not or cannot be read, or is too large; `unprocessable`: what was read is no picture that models take.
    """

    def __init__(
        self, text: str, path: str, kind: Literal["notFound", "notAFile", "unreadable", "unprocessable"]
    ) -> None:
        super().__init__(text)
        self.path = path
        self.kind = kind

    def __reduce__(self) -> tuple[type[ImageError], tuple[object, ...]]:
        return type(self), (*self.args, self.path, self.kind)


class Picture(Struct, frozen=True):
    """An encoded picture; width and height in pixels."""

    data: bytes
    media_type: str
    width: int
    height: int

    @property
    def data_url(self) -> str:
        """It as a `data:` URL."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.data).decode()}"


class Images:
    """Reads pictures through `files`, and remembers those that it has just made, by the digest of their file."""

    def __init__(self, files: Files, cached_bytes: int = CACHED_BYTES) -> None:
        self._files = files
        self._room = cached_bytes
        self._cached: OrderedDict[tuple[bytes, bool], Picture] = OrderedDict()
        self._decoding = asyncio.Lock()

    async def read(self, path: AnyPath, *, sandbox: Sandbox | None = None, original: bool = False) -> Picture:
        """See `Environment.read_image`."""
        need_pillow()
        name = os.fspath(path)
        data = await self._bytes(name, sandbox)
        async with self._decoding:  # one at a time: each may take hundreds of megabytes
            key = (await asyncio.to_thread(_digest, data), original)
            picture = self._cached.get(key)
            if picture is None:
                try:
                    picture = await asyncio.to_thread(to_picture, data, original)
                except ValueError as error:
                    text = f"unable to process image at `{name}`: {error}"
                    raise ImageError(text, name, "unprocessable") from None
            self._remember(key, picture)
        return picture

    async def _bytes(self, name: str, sandbox: Sandbox | None) -> bytes:
        try:
            metadata = await self._files.metadata(name, sandbox=sandbox)
        except NotFound as error:
            raise ImageError(f"unable to locate image at `{name}`: {error.message}", name, "notFound") from None
        except ExecServerError as error:  # a sandbox says no, or there is none: the file may well be there
            raise _unreadable(name, error.message) from None
        if sandbox is not None and not metadata.is_file and not metadata.is_directory:
            raise _unreadable(name, "it is no file, or the sandbox denies it")  # what one denies is a device in it
        if not metadata.is_file:
            raise ImageError(f"image path `{name}` is not a file", name, "notAFile")
        size = metadata.size
        if size <= MAX_FILE_BYTES:
            try:
                data = await self._files.read(name, sandbox=sandbox)
            except ExecServerError as error:
                raise _unreadable(name, error.message) from None
            size = len(data)
        if size > MAX_FILE_BYTES:
            raise _unreadable(name, f"it has {size} bytes, more than {MAX_FILE_BYTES}")
        return data

    def _remember(self, key: tuple[bytes, bool], picture: Picture) -> None:
        self._cached[key] = picture
        self._cached.move_to_end(key)
        while sum(len(each.data) for each in self._cached.values()) > self._room:
            self._cached.popitem(last=False)


def need_pillow() -> None:
    """Raise ImportError, saying what to install, where Pillow is missing."""
    try:
        import PIL.Image  # noqa: F401
    except ImportError:
        raise ImportError("reading images needs Pillow: pip install 'exec-server[image]'", name="PIL") from None


def fitting(width: int, height: int) -> tuple[int, int]:
    """The largest size of the same shape within MAX_WIDTH by MAX_HEIGHT; nothing is enlarged."""
    scale = min(1.0, MAX_WIDTH / width, MAX_HEIGHT / height)
    return max(1, min(MAX_WIDTH, round(width * scale))), max(1, min(MAX_HEIGHT, round(height * scale)))


def to_picture(data: bytes, original: bool) -> Picture:
    """The picture in a file, made to fit unless it does or `original`. Blocks while it decodes.

    Raises ValueError for what is none, is broken, or has too many pixels.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data), formats=list(FORMATS)) as image:
            if image.width * image.height > MAX_PIXELS:
                raise ValueError(f"it has {image.width} by {image.height} pixels, more than {MAX_PIXELS} in all")
            kind = image.format or "PNG"
            image.load()
            if original or (kind != "GIF" and len(data) <= MAX_DATA_BYTES and fitting(*image.size) == image.size):
                return Picture(data, FORMATS[kind], *image.size)
            return _made_to_fit(image, "PNG" if kind == "GIF" else kind)
    except UnidentifiedImageError:
        raise ValueError("it is no PNG, JPEG, WebP or GIF") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ValueError(str(error)) from None
    except ValueError:
        raise
    except Exception as error:  # Pillow raises whatever its decoders stumble over in a file that is broken
        raise ValueError(f"it is broken: {error!r}") from None


def _made_to_fit(image: Image, kind: str) -> Picture:
    from PIL import Image, ImageOps

    upright = _plain(ImageOps.exif_transpose(image))
    small = upright.resize(fitting(*upright.size), Image.Resampling.LANCZOS)
    if kind == "JPEG" and small.mode not in ("L", "RGB"):
        small = small.convert("RGB")
    out = io.BytesIO()
    small.save(out, kind, **({"quality": 85} if kind != "PNG" else {}))
    return Picture(out.getvalue(), FORMATS[kind], *small.size)


def _plain(image: Image) -> Image:
    """The picture in a mode that can be scaled and encoded."""
    if image.mode in ("L", "LA", "RGB", "RGBA"):
        return image
    if image.mode.startswith("I"):  # 16 bits of grey
        return image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    if image.mode == "1":
        return image.convert("L")
    return image.convert("RGBA" if image.has_transparency_data else "RGB")


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _unreadable(name: str, why: object) -> ImageError:
    return ImageError(f"unable to read image at `{name}`: {why}", name, "unreadable")
