"""Save images from tools: first as received, then normalized and marked as synthetic.

The bytes that a service sends are written first (`.<case>.answer`). Then they are decoded, turned
upright, converted to RGB and to the template's size, marked, and written as PNG with its SHA-256
in a JSON file beside it; last, the answer is removed. After a kill in between, `recover_image`
continues from the answer or the PNG.

Not protected: the marks can be removed from an image.
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
# For photographs, zlib's level 6 takes four times as long as level 1 with Huffman coding only, and
# saves one eighth.
COMPRESSION: dict[str, Any] = {"compress_level": 1, "compress_type": 2}


@dataclass(frozen=True)
class Destination:
    """File of an item's image, with the size and the metadata that the image gets.

    path: the PNG; size: width and height of the template, upright; marks: text that is written
    into the PNG (run, tool, case, date).
    """

    path: Path
    size: tuple[int, int]
    marks: Mapping[str, str]

    @property
    def answer(self) -> Path:
        """File of the bytes as received, which exists until the PNG is written."""
        return self.path.with_name(f".{self.path.stem}.answer")


@dataclass(frozen=True)
class SavedImage:
    """An image on disk. cost: dollars, None where it is not known."""

    sha256: str
    note: str = ""
    cost: float | None = None


def save_image(picture: Picture, destination: Destination) -> SavedImage:
    """Save an image as received, normalize it, write it as PNG, and remove the received bytes.

    The received bytes stay if the disk fails, so that the image is not paid for again. Raises
    `ToolFailure`: `no_image` if they are no image or truncated, `wrong_size` if the image has too
    many pixels or another aspect ratio than the template.
    """
    if isinstance(picture.image, bytes):
        names = ("cost", "model", "note", "canvas", "fit")
        header = json.dumps({name: getattr(picture, name) for name in names})
        write_bytes(destination.answer, header.encode() + b"\n" + picture.image)
    try:
        image, note = fit_to(destination.size, read_photograph(picture.image, NAME), picture)
        model = picture.model or destination.marks["tool"]
        metadata = PngImagePlugin.PngInfo()
        for key, value in {"synthetic": "yes", **destination.marks, "model": model}.items():
            metadata.add_itxt(key, value)
        buffer = io.BytesIO()
        image.save(buffer, "PNG", pnginfo=metadata, **COMPRESSION)
        write_bytes(destination.path, buffer.getvalue())
        digest = sha256(destination.path)
        write_json(destination.path.with_suffix(".json"), {"image_sha256": digest})
    except (ImageFault, ToolFailure) as fault:  # after any other fault the answer is still needed
        destination.answer.unlink(missing_ok=True)
        if isinstance(fault, ToolFailure):
            raise
        raise ToolFailure("wrong_size" if fault.wrong_size else "no_image", str(fault)) from fault
    destination.answer.unlink(missing_ok=True)
    return SavedImage(digest, "; ".join(filter(None, (picture.note, note))), picture.cost)


def find_saved(path: Path, stored_sha256: str) -> SavedImage | None:
    """Return the PNG that an earlier process saved, or None if it is missing or damaged.

    stored_sha256: digest from the store; "" if the process was killed before it was stored: then
    the digest in the JSON file beside the image counts.
    """
    try:
        expected = stored_sha256 or str(
            json.loads(path.with_suffix(".json").read_bytes())["image_sha256"]
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError):  # not written, or damaged
        return None
    return SavedImage(expected) if path.is_file() and sha256(path) == expected else None


def recover_image(destination: Destination, stored_sha256: str) -> SavedImage | None:
    """Return an earlier process's PNG, as `find_saved`, or make it of the answer that it saved.

    Raises `ToolFailure` if the saved answer is no image.
    """
    saved = find_saved(destination.path, stored_sha256)
    if saved is not None or stored_sha256 or not destination.answer.is_file():
        return saved
    header, _, image = destination.answer.read_bytes().partition(b"\n")
    try:
        picture = Picture(image, **json.loads(header))
    except (ValueError, TypeError):
        return None
    return save_image(picture, destination)


def fit_to(size: tuple[int, int], image: Image.Image, picture: Picture) -> tuple[Image.Image, str]:
    """Return the image at a template's size (width, height), and a note if it had another size.

    picture: its `fit` says what is done about another aspect ratio; `refuse` raises `ToolFailure`.
    """
    canvas = picture.canvas or size
    received = f"{image.width} × {image.height} pixels"
    note = ""
    if not same_shape(image.size, canvas):
        if picture.fit == "refuse":
            raise ToolFailure(
                "wrong_size",
                f"the image has {received}, {canvas[0]} × {canvas[1]} have"
                " another aspect ratio; set fit: letterbox or crop for this tool",
            )
        resize = ImageOps.pad if picture.fit == "letterbox" else ImageOps.fit
        image = resize(image, canvas, Image.Resampling.LANCZOS)
        note = f"{picture.fit} from {received}"
    if picture.canvas:
        scale_x = image.width / canvas[0]
        scale_y = image.height / canvas[1]
        left, top, right, bottom = letterbox(size, canvas)
        left = round(left * scale_x)
        top = round(top * scale_y)
        right = max(round(right * scale_x), left + 1)
        bottom = max(round(bottom * scale_y), top + 1)
        image = image.crop((left, top, right, bottom))
    if image.size != size:
        image = image.resize(size, Image.Resampling.LANCZOS)
        note = note or f"resized from {received}"
    return image, note
