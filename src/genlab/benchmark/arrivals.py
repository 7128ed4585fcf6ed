"""Images from tools: saved as received, then normalized and marked as synthetic.

The bytes that a service sends are written first (`.<case>.answer`), then decoded, turned upright,
converted to RGB and the template's size, marked and written as PNG; then the answer is removed. A
process that is killed in between finds one of the two again: `recovered`.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from PIL import Image, ImageOps, PngImagePlugin

from genlab.benchmark.cases.photographs import ImageFault, read_image
from genlab.benchmark.marks import SYNTHETIC
from genlab.benchmark.plugins.base import Fit, Kind, Part, Picture, ToolFailure, is_amount
from genlab.benchmark.store.schema import Item
from genlab.core.io import write_bytes, write_json

ASPECT = 0.02  # share by which width over height may differ from the template's
# Of a photograph, zlib's level 6 takes four times as long as level 1 with Huffman codes alone, for
# an eighth less.
COMPRESSION: dict[str, Any] = {"compress_level": 1, "compress_type": 2}


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
            " correct its swap()",
            cost=estimate,
        )
    words = (picture.model, picture.note)
    if not (
        (picture.cost is None or is_amount(picture.cost))
        and all(isinstance(text, str) for text in words)
        and (picture.part is None or _is_part(picture.part))
        and picture.fit in get_args(Fit)
    ):
        raise ToolFailure(
            "error",
            "cost, model, note, part or fit of the tool's Picture is not what"
            " genlab.benchmark.plugins.base.Picture says; correct its swap()",
            cost=estimate,
        )
    return picture


def put_down(picture: Picture, path: Path) -> None:
    """Keep what a service sent for the image at `path` as it came, before any work on it."""
    if isinstance(picture.image, bytes):
        known = {"cost": picture.cost, "model": picture.model, "note": picture.note}
        head = json.dumps({**known, "part": picture.part, "fit": picture.fit}).encode()
        write_bytes(answer_of(path), head + b"\n" + picture.image)


def keep(picture: Picture, place: Place) -> Arrival:
    """Make an image that arrived sound, and put it on the disk in its answer's place.

    Raises `ToolFailure`: `no_image` for what is no image or is cut short, `wrong_size` for one of
    another shape than the template or of too many pixels.
    """
    try:
        image, note = fitted(decoded(picture.image), place.size, picture.fit, picture.part)
        notes = "; ".join(text for text in (picture.note, note) if text)
        data = _png(image, {**place.marks, "model": picture.model or place.marks["tool"]})
        write_bytes(place.path, data)
    finally:
        place.answer.unlink(missing_ok=True)
    return Arrival(hashlib.sha256(data).hexdigest(), notes, picture.cost)


def recovered(place: Place, sha256: str) -> Arrival | None:
    """The image that an earlier process kept at `place`, if it is sound; else None.

    sha256: what the store knows of it, "" where the process was killed before the store knew it:
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
            fit = said.get("fit", "refuse")
            picture = Picture(image, said["cost"], said["model"], said["note"], part, fit)
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
    """An image as RGB, upright, completely read. Raises `ToolFailure` outside the limits."""
    try:
        return read_image(image)
    except ImageFault as fault:
        kind: Kind = "wrong_size" if fault.wrong_size else "no_image"
        raise ToolFailure(kind, f"the tool's image cannot be used: {fault}") from fault


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


def _named(value: object) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _is_part(part: object) -> bool:
    """Whether it is left, top, right, bottom as shares, with something between them."""
    if not (isinstance(part, tuple) and len(part) == 4 and all(map(is_amount, part))):
        return False
    left, top, right, bottom = part
    return bool(left < right <= 1 and top < bottom <= 1)


def _pixels(part: Part, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """A part given in shares as a box of whole pixels, at least one wide and high."""
    left, top = round(part[0] * size[0]), round(part[1] * size[1])
    right, bottom = round(part[2] * size[0]), round(part[3] * size[1])
    return left, top, max(right, left + 1), max(bottom, top + 1)


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
