"""Images that tools send: bounded, made sound, and put on the disk before anything else.

What a service sends is kept as it came first (`.<case>.answer`), then decoded, turned upright,
brought to RGB and to the template's size, marked as synthetic and written as PNG; then the answer
goes. A process that is killed in between finds one of the two again: `recovered`.
"""

from __future__ import annotations

import hashlib
import io
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps, PngImagePlugin

from genlab.benchmark.marks import SYNTHETIC
from genlab.benchmark.plugins import Picture, ToolFailure, is_amount
from genlab.benchmark.store.schema import Item
from genlab.core.io import write_bytes, write_json

MAX_BYTES = 64 << 20  # of an encoded image
MAX_PIXELS = 50_000_000
FORMATS = ("PNG", "JPEG", "WEBP")
ASPECT = 0.02  # share by which width over height may differ from the template's
# Of a photograph, zlib's level 6 takes four times as long as level 1 with Huffman codes alone, for
# an eighth less.
COMPRESSION: dict[str, Any] = {"compress_level": 1, "compress_type": 2}
ORIENTATION = 0x0112


@dataclass(frozen=True)
class Place:
    """Where an item's image lies, and what it has to be.

    path: the PNG; size: width and height of the template, upright; marks: text that is written
    into the PNG.
    """

    path: Path
    size: tuple[int, int]
    marks: Mapping[str, str]

    @property
    def answer(self) -> Path:
        """What the service sent, as it came; there only while it is being worked on."""
        return answer_of(self.path)


@dataclass(frozen=True)
class Arrival:
    """An image on the disk."""

    sha256: str
    note: str = ""
    cost: float | None = None


def answer_of(path: Path) -> Path:
    """Where the answer lies that the image at `path` is made from."""
    return path.with_name(f".{path.stem}.answer")


def picture_of(made: object, estimate: float) -> Picture:
    """What a tool gave, held against the contract; a plain image becomes a `Picture`.

    Raises `ToolFailure` where it is something else. It may have been paid for all the same: the
    estimate counts.
    """
    picture = made if isinstance(made, Picture) else Picture(made)  # type: ignore[arg-type]
    if not isinstance(picture.image, Image.Image | bytes):
        raise ToolFailure(
            "no_image",
            f"the tool gave a {_named(picture.image)}, no PIL image or bytes of an image file;"
            " mend its swap()",
            cost=estimate,
        )
    words = (picture.model, picture.note)
    if not (
        (picture.cost is None or is_amount(picture.cost))
        and all(isinstance(text, str) for text in words)
        and (picture.part is None or _is_part(picture.part))
    ):
        raise ToolFailure(
            "error",
            "cost, model, note or part of the tool's Picture is not what"
            " genlab.benchmark.plugins.Picture says; mend its swap()",
            cost=estimate,
        )
    return picture


def put_down(picture: Picture, path: Path) -> None:
    """Keep what a service sent for the image at `path` as it came, before any work on it."""
    if isinstance(picture.image, bytes):
        known = {"cost": picture.cost, "model": picture.model, "note": picture.note}
        head = json.dumps({**known, "part": picture.part}).encode()
        write_bytes(answer_of(path), head + b"\n" + picture.image)


def keep(picture: Picture, place: Place) -> Arrival:
    """Make an image that arrived sound, and put it on the disk in its answer's place.

    Raises `ToolFailure`: `no_image` for what is no image or is cut short, `wrong_size` for one of
    another shape than the template or of too many pixels.
    """
    try:
        image, note = fitted(_part(decoded(picture.image), picture.part), place.size)
        notes = "; ".join(text for text in (picture.note, note) if text)
        data = _png(image, {**place.marks, "model": picture.model or place.marks["tool"]})
        write_bytes(place.path, data)
    finally:
        place.answer.unlink(missing_ok=True)
    return Arrival(hashlib.sha256(data).hexdigest(), notes, picture.cost)


def recovered(place: Place, sha256: str) -> Arrival | None:
    """The image that an earlier process kept at `place`, if it is sound; else None.

    sha256: what the store knows of it, "" where the process was killed before it told the store:
    then the marks within the PNG must be those of this item. Raises `ToolFailure` where the answer
    that was kept is no image.
    """
    if place.path.is_file():
        data = place.path.read_bytes()
        found = hashlib.sha256(data).hexdigest()
        if found == sha256 or (not sha256 and _is_ours(data, place)):
            return Arrival(found)
    if not sha256 and place.answer.is_file():
        head, _, image = place.answer.read_bytes().partition(b"\n")
        try:
            said = json.loads(head)
            part = None if said["part"] is None else tuple(said["part"])
            picture = Picture(image, said["cost"], said["model"], said["note"], part)
        except (ValueError, KeyError, TypeError):
            return None
        return keep(picture, place)
    return None


def set_aside(path: Path) -> None:
    """Move a file that is not the image it should be out of the way."""
    if path.exists():
        path.replace(path.with_suffix(".damaged"))


def write_record(path: Path, item: Item) -> None:
    """What the store says of an item, as JSON beside its image."""
    record = item.model_dump(exclude={"updated"})
    write_json(path, dict(sorted(record.items())))


def decoded(image: Image.Image | bytes) -> Image.Image:
    """An image as RGB, upright, wholly read; bounded in bytes and pixels.

    Raises `ToolFailure` for whatever else it is: an image that a tool opened lazily is read here
    for the first time.
    """
    if isinstance(image, bytes) and not image:
        raise ToolFailure("no_image", "the answer was empty")
    if isinstance(image, bytes) and len(image) > MAX_BYTES:
        raise ToolFailure("no_image", f"the image had {len(image)} bytes, over {MAX_BYTES}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # bounded below
            if isinstance(image, Image.Image):
                return _read(image)
            with Image.open(io.BytesIO(image), formats=FORMATS) as opened:
                return _read(opened)
    except ToolFailure:
        raise
    except Image.DecompressionBombError as error:
        raise ToolFailure("wrong_size", str(error)) from error
    except Exception as error:  # decoders raise whatever their formats' libraries do
        shown = image[:40].decode("ascii", "replace") if isinstance(image, bytes) else None
        begin = "" if shown is None else f"; it begins {shown!r}"
        raise ToolFailure(
            "no_image", f"cut short or no PNG, JPEG or WebP ({error}){begin}"
        ) from error


def fitted(image: Image.Image, size: tuple[int, int]) -> tuple[Image.Image, str]:
    """The image at the template's size, and a note where it had another of the same shape."""
    if image.size == size:
        return image, ""
    aspect = (image.width / image.height) / (size[0] / size[1])
    if not 1 / (1 + ASPECT) <= aspect <= 1 + ASPECT:
        raise ToolFailure(
            "wrong_size",
            f"the image has {image.width} × {image.height} pixels, the template"
            f" {size[0]} × {size[1]}: another shape",
        )
    note = f"resized from {image.width} × {image.height} pixels"
    return image.resize(size, Image.Resampling.LANCZOS), note


def _named(value: object) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _is_part(part: object) -> bool:
    """Whether it is left, top, right, bottom as shares, with something between them."""
    if not (isinstance(part, tuple) and len(part) == 4 and all(map(is_amount, part))):
        return False
    left, top, right, bottom = part
    return bool(left < right <= 1 and top < bottom <= 1)


def _part(image: Image.Image, part: tuple[float, float, float, float] | None) -> Image.Image:
    """The part of a canvas that is the template's, to the pixel."""
    if part is None:
        return image
    sides = (image.width, image.height, image.width, image.height)
    left, top, right, bottom = (
        round(share * side) for share, side in zip(part, sides, strict=True)
    )
    return image.crop((left, top, max(right, left + 1), max(bottom, top + 1)))


def _read(image: Image.Image) -> Image.Image:
    """The image wholly read, once its size is known to be bearable."""
    width, height = image.size
    if not 0 < width * height <= MAX_PIXELS:
        bound = f"over {MAX_PIXELS // 10**6} million" if width * height else "none at all"
        raise ToolFailure("wrong_size", f"the image has {width} × {height} pixels, {bound}")
    image.load()
    return _plain(image)


def _plain(image: Image.Image) -> Image.Image:
    """Upright RGB; what is transparent becomes white, as a page would show it."""
    upright = ImageOps.exif_transpose(image)
    if upright.has_transparency_data:
        layer = upright.convert("RGBA")
        white = Image.new("RGBA", layer.size, "white")
        return Image.alpha_composite(white, layer).convert("RGB")
    return upright.convert("RGB")


def _png(image: Image.Image, marks: Mapping[str, str]) -> bytes:
    info = PngImagePlugin.PngInfo()
    for key, value in {**SYNTHETIC, **marks}.items():
        info.add_itxt(key, value)
    buffer = io.BytesIO()
    # A plain copy: an image's own info, such as EXIF or a colour profile, would go along.
    plain = image.copy()
    plain.info = {}
    plain.save(buffer, "PNG", pnginfo=info, **COMPRESSION)
    return buffer.getvalue()


def _is_ours(data: bytes, place: Place) -> bool:
    """Whether `data` is a whole PNG that carries the marks of `place`."""
    try:
        with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
            image.load()
            marks = dict(getattr(image, "text", {}))
            keys = ("run", "tool", "case")
            return image.size == place.size and all(
                marks.get(key) == place.marks[key] for key in keys
            )
    except (OSError, SyntaxError, ValueError):
        return False
