"""The pictures that a score is made from: read safely, upright, at the scoring scale.

A picture that can't be judged raises `Unfit` with its outcome. Templates and avatars are the same
for every tool, so they and their faces are remembered in the process.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import PIL.Image
import PIL.ImageOps

from genlab.benchmark.scoring import faces
from genlab.benchmark.scoring.faces import Box, Face, Image

Outcome = Literal[
    "scored",
    "no_face",  # no swapped person's face is found
    "tiny_face",  # the faces are too small for an embedding
    "blank",  # one flat colour
    "wrong_size",  # another shape than the template's
    "too_large",  # more than `MOST_PIXELS`
    "unreadable",  # no picture, or a truncated one
    "no_template_face",  # the case's own fault: its template shows no face at a region
    "no_avatar_face",  # the case's own fault: an avatar shows no face
]
Views = tuple[tuple[Image, Face], tuple[Image, Face]]
MOST_PIXELS = 50_000_000
LONGEST = 1024  # side at which pictures are scored
ASPECT = 0.02  # share by which a picture's shape may differ from the template's
FLAT = 2.0  # 8-bit units below which a picture is one colour, or grey


class Unfit(Exception):  # noqa: N818 - an outcome, no fault
    """A picture that has an outcome and no number; note: one line that says why."""

    def __init__(self, outcome: Outcome, note: str) -> None:
        self.outcome: Outcome = outcome
        self.note = note
        super().__init__(note)


def template(path: Path) -> tuple[Image, float]:
    """The upright template at the scoring scale, and that scale."""
    return _template(str(path), path.stat().st_mtime_ns)


def people(path: Path, regions: tuple[Box, ...]) -> list[Face]:
    """The face in each region of the template (pixels at the scoring scale)."""
    return _people(str(path), path.stat().st_mtime_ns, regions)


def avatar(path: Path) -> Views:
    """An avatar's picture at the scoring scale with its largest face, and the same mirrored.

    A person in the mirror is the same person, but the embedding is not the same.
    """
    return _avatar(str(path), path.stat().st_mtime_ns)


def ideal(path: Path, of: Path) -> Image:
    """The ideal result at the scoring size of the template `of`."""
    return _ideal(str(path), path.stat().st_mtime_ns, str(of), of.stat().st_mtime_ns)


def ideal_people(path: Path, of: Path, regions: tuple[Box, ...]) -> list[Face]:
    """The face of the ideal result in each region of the template."""
    found = _ideal_people(str(path), path.stat().st_mtime_ns, str(of), regions)
    people = [face for face in found if face is not None]
    if len(people) < len(regions):
        raise Unfit("no_template_face", f"{path.name} shows no face in a region; rebuild the case")
    return people


@lru_cache(maxsize=16)
def _ideal(path: str, changed: int, of: str, of_changed: int) -> Image:
    return result(Path(path), _template(of, of_changed)[0])[0]


@lru_cache(maxsize=16)
def _ideal_people(path: str, changed: int, of: str, regions: tuple[Box, ...]) -> list[Face | None]:
    return faces.near(ideal(Path(path), Path(of)), regions)


@lru_cache(maxsize=16)
def _template(path: str, changed: int) -> tuple[Image, float]:
    picture = _opened(Path(path))
    scale = min(1.0, LONGEST / max(picture.size))
    return faces.scaled(np.asarray(picture), scale), scale


@lru_cache(maxsize=16)
def _people(path: str, changed: int, regions: tuple[Box, ...]) -> list[Face]:
    found = faces.near(_template(path, changed)[0], regions)
    people = [face for face in found if face is not None]
    if len(people) < len(regions):
        raise Unfit(
            "no_template_face", "a region of the template shows no face; correct it in case.yaml"
        )
    return people


@lru_cache(maxsize=32)
def _avatar(path: str, changed: int) -> Views:
    picture = np.asarray(_opened(Path(path)))
    picture = faces.scaled(picture, min(1.0, LONGEST / max(picture.shape[:2])))
    found = faces.found(picture)
    if not found:
        raise Unfit("no_avatar_face", f"{Path(path).name} shows no face; choose another picture")
    mirror = np.ascontiguousarray(picture[:, ::-1])
    left, top, right, bottom = found[0].box
    width = picture.shape[1]
    [other] = faces.near(mirror, [(width - right, top, width - left, bottom)])
    known = (picture, found[0])
    return known, known if other is None else (mirror, other)


def result(path: Path, template: Image) -> tuple[Image, list[str]]:
    """The tool's picture at the template's scoring size, and what is to be noted of it."""
    picture = _opened(path)
    height, width = template.shape[:2]
    shape = picture.width / picture.height
    if abs(shape / (width / height) - 1) > ASPECT:
        raise Unfit(
            "wrong_size",
            f"the picture is {picture.width}×{picture.height}, of another shape than the template",
        )
    image = np.asarray(picture)
    if image.std() < FLAT:
        raise Unfit("blank", "the picture is one flat colour")
    notes = []
    if image.shape != template.shape:
        image = faces.resized(image, (width, height))
    colours = [
        float(np.ptp(x[::4, ::4].astype(np.int16), axis=2).mean()) for x in (image, template)
    ]
    if colours[0] < FLAT <= colours[1]:
        notes.append("the picture is grey, the template is not")
    return image, notes


def _opened(path: Path) -> PIL.Image.Image:
    """The picture upright in RGB; its size is looked at before a pixel is read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PIL.Image.DecompressionBombWarning)
            with PIL.Image.open(path) as picture:
                if picture.width * picture.height > MOST_PIXELS:
                    raise Unfit(
                        "too_large",
                        f"{picture.width}×{picture.height} pixels; at most"
                        f" {MOST_PIXELS // 1_000_000} million are read",
                    )
                return PIL.ImageOps.exif_transpose(picture).convert("RGB")
    except PIL.Image.DecompressionBombError as error:
        raise Unfit("too_large", f"more than {MOST_PIXELS // 1_000_000} million pixels") from error
    except (OSError, SyntaxError, ValueError) as error:
        raise Unfit("unreadable", f"{path.name} is no whole picture") from error
