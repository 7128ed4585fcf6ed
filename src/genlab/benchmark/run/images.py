"""Images from tools: saved as received, then normalized and marked as synthetic.

The bytes that a service sends are written first (`.<case>.answer`), then decoded, turned upright,
converted to RGB and the template's size, marked and written as PNG with its SHA-256 in the JSON
beside it; then the answer is removed. A process that is killed in between finds the answer or the
PNG: `recover_image`.

Not protected: whoever wants can remove the marks.
"""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps, PngImagePlugin

from genlab.benchmark.cases.photographs import ImageFault, read_photograph, same_shape
from genlab.benchmark.plugins.base import Picture, ToolFailure
from genlab.benchmark.plugins.inputs import letterbox
from genlab.core.io import sha256, write_bytes, write_json

NAME = "the tool's image"  # in messages
# Of a photograph, zlib's level 6 takes four times as long as level 1 with Huffman codes alone, for
# an eighth less.
COMPRESSION: dict[str, Any] = {"compress_level": 1, "compress_type": 2}


@dataclass(frozen=True)
class Destination:
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
class SavedImage:
    """An image on the disk."""

    sha256: str
    note: str = ""
    cost: float | None = None


def save_image(picture: Picture, place: Destination) -> SavedImage:
    """Save what a service sent, normalize it, write it to its place, and remove the answer.

    The answer stays where the disk fails, so that it is not paid for again. Raises `ToolFailure`:
    `no_image` for what is no image or is truncated, `wrong_size` for one of another shape than the
    template or of too many pixels.
    """
    if isinstance(picture.image, bytes):
        names = ("cost", "model", "note", "canvas", "fit")
        head = json.dumps({name: getattr(picture, name) for name in names})
        write_bytes(place.answer, head.encode() + b"\n" + picture.image)
    try:
        image, note = fit_to(place.size, read_photograph(picture.image, NAME), picture)
        info, buffer = PngImagePlugin.PngInfo(), io.BytesIO()
        model = picture.model or place.marks["tool"]
        for key, value in {"synthetic": "yes", **place.marks, "model": model}.items():
            info.add_itxt(key, value)
        image.save(buffer, "PNG", pnginfo=info, **COMPRESSION)
        write_bytes(place.path, buffer.getvalue())
        found = sha256(place.path)
        write_json(place.path.with_suffix(".json"), {"image_sha256": found})
    except (ImageFault, ToolFailure) as fault:  # after any other fault the answer is still needed
        place.answer.unlink(missing_ok=True)
        if isinstance(fault, ToolFailure):
            raise
        raise ToolFailure("wrong_size" if fault.wrong_size else "no_image", str(fault)) from fault
    place.answer.unlink(missing_ok=True)
    return SavedImage(found, "; ".join(filter(None, (picture.note, note))), picture.cost)


def find_saved(path: Path, known: str) -> SavedImage | None:
    """The PNG that an earlier process saved, if it is sound; else None.

    known: SHA-256 from the store; "" where the process was killed before it was stored: then that
    of the JSON beside the image counts.
    """
    try:
        wanted = known or str(json.loads(path.with_suffix(".json").read_bytes())["image_sha256"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):  # not written, or damaged
        return None
    return SavedImage(wanted) if path.is_file() and sha256(path) == wanted else None


def recover_image(place: Destination, known: str) -> SavedImage | None:
    """The image of an earlier process: as `find_saved`, else made of the answer that it saved.

    Raises `ToolFailure` where the saved answer is no image.
    """
    found = find_saved(place.path, known)
    if found is not None or known or not place.answer.is_file():
        return found
    head, _, image = place.answer.read_bytes().partition(b"\n")
    try:
        picture = Picture(image, **json.loads(head))
    except (ValueError, TypeError):
        return None
    return save_image(picture, place)


def fit_to(size: tuple[int, int], image: Image.Image, picture: Picture) -> tuple[Image.Image, str]:
    """The image at a template's size (width, height), and a note where it had another.

    picture: says what is done about another aspect ratio; `refuse` raises `ToolFailure`.
    """
    wanted, found, note = picture.canvas or size, image.size, ""
    if not same_shape(found, wanted):
        if picture.fit == "refuse":
            raise ToolFailure(
                "wrong_size",
                f"the image has {found[0]} × {found[1]} pixels, {wanted[0]} × {wanted[1]} have"
                " another aspect ratio; set fit: letterbox or crop for this tool",
            )
        resize = ImageOps.pad if picture.fit == "letterbox" else ImageOps.fit
        image = resize(image, wanted, Image.Resampling.LANCZOS)
        note = f"{picture.fit} from {found[0]} × {found[1]} pixels"
    if picture.canvas:
        x, y = image.width / wanted[0], image.height / wanted[1]
        box = letterbox(size, wanted)
        left, top, right, bottom = (
            round(edge * n) for edge, n in zip(box, (x, y) * 2, strict=True)
        )
        image = image.crop((left, top, max(right, left + 1), max(bottom, top + 1)))
    if image.size != size:
        image = image.resize(size, Image.Resampling.LANCZOS)
        note = note or f"resized from {found[0]} × {found[1]} pixels"
    return image, note
