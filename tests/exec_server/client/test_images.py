"""Pictures for a model, on this machine and through a server."""

from __future__ import annotations

import base64
import io
import os
import pickle
import random
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from exec_server import Environment
from exec_server.client.images import (
    MAX_FILE_BYTES,
    MAX_HEIGHT,
    MAX_PIXELS,
    MAX_WIDTH,
    ImageError,
    Images,
    fitting,
    to_picture,
)
from protocol.sandbox import Sandbox
from tests.support.managed import entry, managed
from tests.support.program import ROOT


def encoded(kind: str, size: tuple[int, int], mode: str = "RGB", **options: object) -> bytes:
    out = io.BytesIO()
    image = Image.linear_gradient("L").resize(size)
    if mode == "I;16":
        image = image.convert("I").point(lambda value: value * 257)
    image.convert(mode).save(out, kind, **options)
    return out.getvalue()


def opened(data: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


@given(st.integers(1, 100_000), st.integers(1, 100_000))
def test_every_size_is_made_to_fit(width: int, height: int) -> None:
    """A picture that a model's API refuses costs the whole turn."""
    new_width, new_height = fitting(width, height)
    assert 1 <= new_width <= min(width, MAX_WIDTH) and 1 <= new_height <= min(height, MAX_HEIGHT)
    if width <= MAX_WIDTH and height <= MAX_HEIGHT:
        assert (new_width, new_height) == (width, height)
    else:
        assert new_width == MAX_WIDTH or new_height == MAX_HEIGHT or 1 in (new_width, new_height)
        assert abs(new_width * height - new_height * width) <= max(width, height)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_what_fits_stays_as_it_is(kind: str) -> None:
    data = encoded(kind, (300, 200))
    picture = to_picture(data, original=False)
    assert picture.data == data
    assert (picture.media_type, picture.width, picture.height) == (f"image/{kind.lower()}", 300, 200)
    assert base64.b64decode(picture.data_url.removeprefix(f"data:{picture.media_type};base64,")) == data


@pytest.mark.parametrize(
    ("kind", "mode", "options"),
    [
        ("PNG", "RGB", {}),
        ("PNG", "RGBA", {}),
        ("PNG", "P", {}),
        ("PNG", "P", {"transparency": 0}),
        ("PNG", "L", {}),
        ("PNG", "LA", {}),
        ("PNG", "1", {}),
        ("PNG", "I;16", {}),
        ("JPEG", "RGB", {}),
        ("JPEG", "L", {}),
        ("JPEG", "CMYK", {}),
        ("WEBP", "RGBA", {}),
    ],
)
def test_what_is_too_large_is_made_smaller_in_its_own_format(kind: str, mode: str, options: dict[str, object]) -> None:
    data = encoded(kind, (3000, 1000), mode, **options)
    picture = to_picture(data, original=False)
    assert (picture.media_type, picture.width, picture.height) == (f"image/{kind.lower()}", 2048, 683)
    image = opened(picture.data)
    assert (image.format, image.size) == (kind, (2048, 683))
    dark, light = (image.convert("L").getpixel((1000, y)) for y in (5, 677))
    assert dark < 20 and light > 235  # still the same picture
    kept = to_picture(data, original=True)
    assert (kept.data, kept.width, kept.height) == (data, 3000, 1000)


def test_a_gif_becomes_its_first_frame() -> None:
    data = encoded("GIF", (10, 10), "P", save_all=True, append_images=[Image.new("P", (10, 10))])
    picture = to_picture(data, original=False)
    assert (picture.media_type, opened(picture.data).format) == ("image/png", "PNG")
    assert to_picture(data, original=True).media_type == "image/gif"


def test_a_picture_that_was_taken_sideways_is_turned() -> None:
    """When it is encoded anew, the note that says so is lost."""
    exif = Image.Exif()
    exif[0x0112] = 6
    picture = to_picture(encoded("JPEG", (1000, 3000), exif=exif), original=False)
    assert (picture.width, picture.height) == (2048, 683)


def png_that_claims(width: int, height: int) -> bytes:
    """A PNG of some bytes that says it is that large."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("side", [8001, 9600, 60_000])
def test_a_small_file_of_a_huge_picture_is_not_decoded(side: int) -> None:
    """Lost: the memory of whoever looks at a picture that somebody else chose."""
    assert side * side > MAX_PIXELS
    with pytest.raises(ValueError, match="pixels"):
        to_picture(png_that_claims(side, side), original=True)


@given(st.data())
def test_broken_files_raise_nothing_else(data: st.DataObject) -> None:
    """A traceback in place of an answer, for any download that was cut off."""
    kind = data.draw(st.sampled_from(["PNG", "JPEG", "WEBP", "GIF"]))
    content = bytearray(encoded(kind, (40, 30)))
    for _ in range(data.draw(st.integers(0, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        to_picture(bytes(content[: data.draw(st.integers(0, len(content)))]), original=False)
    except ValueError:
        pass


@pytest.mark.anyio
async def test_a_picture_is_read(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encoded("PNG", (2500, 100)))
    picture = await environment.read_image(tmp_path / "a.png")
    assert (picture.width, picture.height) == (2048, 82)
    assert (await environment.read_image(str(tmp_path / "a.png"), original=True)).width == 2500
    (tmp_path / "b.png").write_bytes((tmp_path / "a.png").read_bytes())
    assert await environment.read_image(tmp_path / "b.png") is picture  # the same content is not decoded again
    (tmp_path / "a.png").write_bytes(encoded("PNG", (20, 10)))
    assert (await environment.read_image(tmp_path / "a.png")).width == 20


@pytest.mark.anyio
async def test_the_cache_is_bounded(environment: Environment, tmp_path: Path) -> None:
    noise = random.Random(1)
    images = Images(environment.files, cached_bytes=100_000)
    for n in range(6):
        image = Image.frombytes("L", (200, 150), noise.randbytes(30_000))
        image.save(tmp_path / f"{n}.png")
    first = [await images.read(tmp_path / f"{n}.png") for n in range(6)]
    assert await images.read(tmp_path / "5.png") is first[5]
    assert await images.read(tmp_path / "0.png") is not first[0]
    assert sum(len(each.data) for each in images._cached.values()) <= 100_000


@pytest.mark.anyio
async def test_errors_have_the_path(environment: Environment, tmp_path: Path) -> None:
    """These texts are what a model reads."""
    none, folder, text, secret = (tmp_path / name for name in ("none.png", "folder", "text.png", "huge.png"))
    folder.mkdir()
    text.write_text("no picture")
    with secret.open("wb") as file:
        os.truncate(file.fileno(), MAX_FILE_BYTES + 1)
    expected = [
        (none, "notFound", f"unable to locate image at `{none}`: No such file or directory"),
        (folder, "notAFile", f"image path `{folder}` is not a file"),
        (text, "unprocessable", f"unable to process image at `{text}`: it is no PNG, JPEG, WebP or GIF"),
        (secret, "unreadable", f"unable to read image at `{secret}`: it has 67108865 bytes"),
    ]
    for path, kind, words in expected:
        with pytest.raises(ImageError) as error:
            await environment.read_image(path)
        assert (error.value.kind, error.value.path) == (kind, str(path))
        assert str(error.value).startswith(words)
        copy = pickle.loads(pickle.dumps(error.value))
        assert (str(copy), copy.path, copy.kind) == (str(error.value), str(path), kind)


@pytest.mark.anyio
async def test_a_sandbox_is_minded(environment: Environment, tmp_path: Path) -> None:
    """Lost: pictures that a sandboxed model may not see."""
    (tmp_path / "in").mkdir()
    for path in (tmp_path / "out.png", tmp_path / "in" / "a.png"):
        path.write_bytes(encoded("PNG", (20, 10)))
    sandbox = msgspec.convert(managed(tmp_path / "in", entry(tmp_path / "out.png", "deny")), Sandbox)
    assert (await environment.read_image(tmp_path / "in" / "a.png", sandbox=sandbox)).width == 20
    with pytest.raises(ImageError) as error:
        await environment.read_image(tmp_path / "out.png", sandbox=sandbox)
    assert error.value.kind == "unreadable"  # that it is not there would be a lie
    assert str(error.value).startswith(f"unable to read image at `{tmp_path / 'out.png'}`: ")


def test_without_the_extra_it_is_said_what_is_missing() -> None:
    code = (
        "import asyncio, sys\n"
        "sys.modules['PIL'] = None\n"
        "from exec_server import Environment\n"
        "async def main():\n"
        "    async with Environment.create('local') as environment:\n"
        "        try:\n"
        "            await environment.read_image('/none')\n"
        "        except ImportError as error:\n"
        "            print(error)\n"
        "asyncio.run(main())\n"
    )
    said = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True)
    assert said == "reading images needs Pillow: pip install 'exec-server[image]'\n"
