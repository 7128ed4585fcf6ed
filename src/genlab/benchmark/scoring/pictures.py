"""The pictures that a score is made from: read safely, upright, at the scoring scale.

A picture that can't be judged raises `UnscorableImage` with its outcome. Templates and avatars are
the same for every tool, so they and their faces are cached in the process.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from genlab.benchmark.cases.photographs import ImageFault, read_photograph, same_shape
from genlab.benchmark.scoring import faces
from genlab.benchmark.scoring.faces import Box, Face, Image

Outcome = Literal[
    "scored",
    "no_face",  # no swapped person's face is found
    "tiny_face",  # the faces are too small for an embedding
    "blank",  # one flat colour
    "wrong_size",  # another shape than the template's
    "too_large",  # outside the limits of `genlab.benchmark.cases.photographs`
    "unreadable",  # no picture, or a truncated one
    "no_template_face",  # the case's own fault: its template shows no face at a region
    "no_avatar_face",  # the case's own fault: an avatar shows no face
]
LONGEST = 1024  # side at which pictures are scored
FLAT = 2.0  # 8-bit units below which a picture is one colour, or grey


class FileVersion(NamedTuple):
    """An image file of a case; a changed file is another key of the caches."""

    path: Path
    changed: int

    @classmethod
    def read(cls, path: Path) -> FileVersion:
        """The file at a path as it is now."""
        return cls(path, path.stat().st_mtime_ns)


class View(NamedTuple):
    """A picture and a face in it."""

    picture: Image
    face: Face


class UnscorableImage(Exception):  # noqa: N818 - an outcome, no fault
    """A picture that has an outcome and no number; note: one line that says why."""

    def __init__(self, outcome: Outcome, note: str) -> None:
        self.outcome: Outcome = outcome
        self.note = note
        super().__init__(note)


@lru_cache(maxsize=32)
def load_template(file: FileVersion) -> tuple[Image, float]:
    """The upright template at the scoring scale, and that scale."""
    picture = _open(file.path)
    scale = min(1.0, LONGEST / max(picture.shape[:2]))
    return faces.rescale(picture, scale), scale


@lru_cache(maxsize=32)
def load_ideal(file: FileVersion, of: FileVersion) -> Image:
    """The ideal result at the scoring size of the template `of`."""
    return load_result(file.path, load_template(of)[0])[0]


@lru_cache(maxsize=32)
def find_people(file: FileVersion, of: FileVersion, regions: tuple[Box, ...]) -> list[Face]:
    """The face in each region of the template `of`, in it or in the ideal result `file`."""
    picture = load_template(of)[0] if file == of else load_ideal(file, of)
    found = [face for face in faces.detect_at(picture, regions) if face is not None]
    if len(found) < len(regions):
        raise UnscorableImage(
            "no_template_face",
            f"{file.path.name} shows no face in a region; correct it in case.yaml",
        )
    return found


@lru_cache(maxsize=32)
def find_all_faces(file: FileVersion) -> list[Face]:
    """All faces of a template."""
    return faces.detect(load_template(file)[0])


@lru_cache(maxsize=32)
def load_avatar(file: FileVersion) -> tuple[View, View]:
    """An avatar's picture at the scoring scale with its largest face, and the same mirrored.

    A person in the mirror is the same person, but the embedding is not the same.
    """
    picture, _ = load_template(file)
    found = faces.detect(picture)
    if not found:
        raise UnscorableImage(
            "no_avatar_face", f"{file.path.name} shows no face; choose another picture"
        )
    mirror = np.ascontiguousarray(picture[:, ::-1])
    left, top, right, bottom = found[0].box
    width = picture.shape[1]
    [other] = faces.detect_at(mirror, [(width - right, top, width - left, bottom)])
    known = View(picture, found[0])
    return known, known if other is None else View(mirror, other)


def load_result(path: Path, template: Image) -> tuple[Image, list[str]]:
    """The tool's picture at the template's scoring size, and what is to be noted of it."""
    image = _open(path)
    (height, width), (own_height, own_width) = template.shape[:2], image.shape[:2]
    if not same_shape((own_width, own_height), (width, height)):
        raise UnscorableImage(
            "wrong_size",
            f"the picture is {own_width}×{own_height}, of another shape than the template",
        )
    if image.std() < FLAT:
        raise UnscorableImage("blank", "the picture is one flat colour")
    image = faces.resize(image, (width, height))
    colours = [
        float(np.ptp(x[::4, ::4].astype(np.int16), axis=2).mean()) for x in (image, template)
    ]
    grey = colours[0] < FLAT <= colours[1]
    return image, ["the picture is grey, the template is not"] if grey else []


def _open(path: Path) -> Image:
    try:
        return np.asarray(read_photograph(path))
    except ImageFault as fault:
        raise UnscorableImage(
            "too_large" if fault.wrong_size else "unreadable", str(fault)
        ) from fault
