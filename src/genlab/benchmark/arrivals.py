"""Images from tools: saved as received, then normalized and marked as synthetic.

The bytes that a service sends are written first (`.<case>.answer`), then decoded, turned upright,
converted to RGB and the template's size, marked and written as PNG with its SHA-256 in the JSON
beside it; then the answer is removed. A process that is killed in between finds the answer or the
PNG: `recovered`.

Not protected: whoever wants can remove the marks.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps, PngImagePlugin

from genlab.benchmark.cases.photographs import ImageFault, read_photograph
from genlab.benchmark.plugins.base import Fit, Kind, Part, Picture, ToolFailure
from genlab.core.io import write_bytes, write_json

NAME = "the tool's image"  # in messages
ASPECT = 0.02  # share by which width over height may differ from the template's
# Of a photograph, zlib's level 6 takes four times as long as level 1 with Huffman codes alone, for
# an eighth less.
COMPRESSION: dict[str, Any] = {"compress_level": 1, "compress_type": 2}


@dataclass(frozen=True)
class Place:
    """Where an item's image lies, and what it has to be.

    path: the PNG; size: width and height of the template, upright; marks: text that is written
    into the PNG: run, tool, case, date.
    """

    path: Path
    size: tuple[int, int]
    marks: Mapping[str, str]

    @property
    def answer(self) -> Path:
        """What the service sent, as received; exists only until the PNG is written."""
        return self.path.with_name(f".{self.path.stem}.answer")


@dataclass(frozen=True)
class Arrival:
    """An image on the disk."""

    sha256: str
    note: str = ""
    cost: float | None = None


def picture_of(made: object, estimate: float) -> Picture:
    """What a tool returned; a plain image becomes a `Picture`.

    Raises `ToolFailure` where it is something else. It may have been paid for all the same: the
    estimate counts.
    """
    if isinstance(made, Picture):
        return made
    if isinstance(made, Image.Image):
        return Picture(made)
    found = type(made).__name__
    reason = f"the tool returns {found}, no PIL image or Picture; correct its swap()"
    raise ToolFailure("no_image", reason, cost=estimate)


def put_down(picture: Picture, place: Place) -> None:
    """Save what a service sent as it is, before any work on it."""
    if isinstance(picture.image, bytes):
        names = ("cost", "model", "note", "part", "fit")
        head = json.dumps({name: getattr(picture, name) for name in names})
        write_bytes(place.answer, head.encode() + b"\n" + picture.image)


def keep(picture: Picture, place: Place) -> Arrival:
    """Normalize an image, write it to its place, and remove the answer that it is made from.

    Raises `ToolFailure`: `no_image` for what is no image or is truncated, `wrong_size` for one of
    another shape than the template or of too many pixels.
    """
    try:
        image, note = fitted(
            read_photograph(picture.image, NAME), place.size, picture.fit, picture.part
        )
        data = _png(image, {**place.marks, "model": picture.model or place.marks["tool"]})
        sha256 = hashlib.sha256(data).hexdigest()
        write_bytes(place.path, data)
        write_json(place.path.with_suffix(".json"), {"image_sha256": sha256})
    except ImageFault as fault:
        kind: Kind = "wrong_size" if fault.wrong_size else "no_image"
        raise ToolFailure(kind, str(fault)) from fault
    finally:
        place.answer.unlink(missing_ok=True)
    return Arrival(sha256, "; ".join(text for text in (picture.note, note) if text), picture.cost)


def recovered(place: Place, sha256: str) -> Arrival | None:
    """The image that an earlier process saved at `place`, if it is sound; else None.

    sha256: from the store; "" where the process was killed before it was stored: then that of the
    JSON beside the image counts. Raises `ToolFailure` where the saved answer is no image.
    """
    known = sha256 or _recorded(place.path)
    if known and place.path.is_file():
        found = hashlib.sha256(place.path.read_bytes()).hexdigest()
        if found == known:
            return Arrival(found)
    if sha256 or not place.answer.is_file():
        return None
    head, _, image = place.answer.read_bytes().partition(b"\n")
    try:
        picture = Picture(image, **json.loads(head))
    except (ValueError, TypeError):
        return None
    return keep(picture, place)


def _recorded(path: Path) -> str:
    """SHA-256 of the image at `path` as the JSON beside it says."""
    record = path.with_suffix(".json")
    return str(json.loads(record.read_bytes())["image_sha256"]) if record.is_file() else ""


def fitted(
    image: Image.Image, size: tuple[int, int], fit: Fit = "refuse", part: Part | None = None
) -> tuple[Image.Image, str]:
    """The image at the template's size, and a note where it had another.

    size: width and height of the template. part: the share of the image that is the template. fit:
    what happens to another aspect ratio; `refuse` raises `ToolFailure`.
    """
    left, top, right, bottom = part or (0.0, 0.0, 1.0, 1.0)
    whole = (round(size[0] / (right - left)), round(size[1] / (bottom - top)))
    found, note = image.size, ""
    aspect = (image.width / image.height) / (whole[0] / whole[1])
    if not 1 / (1 + ASPECT) <= aspect <= 1 + ASPECT:
        if fit == "refuse":
            raise ToolFailure(
                "wrong_size",
                f"the image has {found[0]} × {found[1]} pixels, {whole[0]} × {whole[1]} have"
                " another aspect ratio; set fit: letterbox or crop for this tool",
            )
        resize = ImageOps.pad if fit == "letterbox" else ImageOps.fit
        image = resize(image, whole, Image.Resampling.LANCZOS)
        note = f"{fit} from {found[0]} × {found[1]} pixels"
    if part is not None:
        image = image.crop(_pixels(part, image.size))
    if image.size != size:
        image = image.resize(size, Image.Resampling.LANCZOS)
        note = note or f"resized from {found[0]} × {found[1]} pixels"
    return image, note


def _pixels(part: Part, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """A part given in shares as a box of whole pixels, at least one wide and high."""
    left, top = round(part[0] * size[0]), round(part[1] * size[1])
    right, bottom = round(part[2] * size[0]), round(part[3] * size[1])
    return left, top, max(right, left + 1), max(bottom, top + 1)


def _png(image: Image.Image, marks: Mapping[str, str]) -> bytes:
    info = PngImagePlugin.PngInfo()
    for key, value in {"synthetic": "yes", **marks}.items():
        info.add_itxt(key, value)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", pnginfo=info, **COMPRESSION)
    return buffer.getvalue()
