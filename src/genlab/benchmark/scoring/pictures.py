"""Load the pictures that a score compares: within limits, upright, at the scoring scale.

A picture that cannot be scored raises `UnscorableImage` with its outcome. Templates and avatars are
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
    "no_face",  # no face is found in any region
    "tiny_face",  # the faces are too small for an embedding
    "blank",  # one flat colour
    "wrong_size",  # another aspect ratio than the template's
    "too_large",  # outside the limits of `genlab.benchmark.cases.photographs`
    "unreadable",  # not an image, or a truncated one
    "no_template_face",  # a fault of the case: its template shows no face in a region
    "no_avatar_face",  # a fault of the case: an avatar shows no face
]
LONGEST = 1024  # longer side, in pixels, at which pictures are scored
FLAT = 2.0  # 8-bit units of contrast below which a picture is blank, and of chroma, grey


class FileVersion(NamedTuple):
    """An image file of a case and when it changed; the key of the caches below."""

    path: Path
    changed: int

    @classmethod
    def read(cls, path: Path) -> FileVersion:
        """Return the current version of the file at a path."""
        return cls(path, path.stat().st_mtime_ns)


class View(NamedTuple):
    """A picture and a face in it."""

    picture: Image
    face: Face


class UnscorableImage(Exception):  # noqa: N818 - an outcome, no fault
    """A picture that has an outcome but no score; note: one line that says why."""

    def __init__(self, outcome: Outcome, note: str) -> None:
        self.outcome: Outcome = outcome
        self.note = note
        super().__init__(note)


@lru_cache(maxsize=32)
def load_template(file: FileVersion) -> tuple[Image, float]:
    """Load a template, upright and at the scoring scale, and return that scale with it."""
    picture = _open(file.path)
    scale = min(1.0, LONGEST / max(picture.shape[:2]))
    return faces.rescale(picture, scale), scale


@lru_cache(maxsize=32)
def load_ideal(file: FileVersion, template: FileVersion) -> Image:
    """Load the ideal result at the scoring size of its template."""
    return load_result(file.path, load_template(template)[0])[0]


@lru_cache(maxsize=32)
def find_people(file: FileVersion, template: FileVersion, regions: tuple[Box, ...]) -> list[Face]:
    """Find the face in each region; file: the template itself, or its ideal result."""
    picture = load_template(template)[0] if file == template else load_ideal(file, template)
    people = [face for face in faces.detect_at(picture, regions) if face is not None]
    if len(people) < len(regions):
        raise UnscorableImage(
            "no_template_face",
            f"{file.path.name} shows no face in a region; correct it in case.yaml",
        )
    return people


@lru_cache(maxsize=32)
def find_all_faces(file: FileVersion) -> list[Face]:
    """Find all faces of a template."""
    return faces.detect(load_template(file)[0])


@lru_cache(maxsize=32)
def load_avatar(file: FileVersion) -> tuple[View, View]:
    """Load an avatar's picture at the scoring scale with its largest face, and both mirrored.

    A mirrored picture shows the same person, but has another embedding.
    """
    picture, _ = load_template(file)
    detected = faces.detect(picture)
    if not detected:
        raise UnscorableImage(
            "no_avatar_face", f"{file.path.name} shows no face; choose another picture"
        )
    largest = detected[0]
    view = View(picture, largest)
    mirror = np.ascontiguousarray(picture[:, ::-1])
    left, top, right, bottom = largest.box
    width = picture.shape[1]
    [mirrored_face] = faces.detect_at(mirror, [(width - right, top, width - left, bottom)])
    if mirrored_face is None:
        return view, view
    return view, View(mirror, mirrored_face)


def load_result(path: Path, template: Image) -> tuple[Image, list[str]]:
    """Load a tool's picture at the scoring size of its template, with notes about it."""
    image = _open(path)
    height, width = template.shape[:2]
    result_height, result_width = image.shape[:2]
    if not same_shape((result_width, result_height), (width, height)):
        raise UnscorableImage(
            "wrong_size",
            f"the picture is {result_width}×{result_height}, of another shape than the template",
        )
    if image.std() < FLAT:
        raise UnscorableImage("blank", "the picture is one flat colour")
    image = faces.resize(image, (width, height))
    if _mean_chroma(image) < FLAT <= _mean_chroma(template):
        return image, ["the picture is grey, the template is not"]
    return image, []


def _mean_chroma(picture: Image) -> float:
    """Mean difference between a pixel's largest and smallest channel, 8-bit units."""
    return float(np.ptp(picture[::4, ::4].astype(np.int16), axis=2).mean())


def _open(path: Path) -> Image:
    try:
        return np.asarray(read_photograph(path))
    except ImageFault as fault:
        outcome: Outcome = "too_large" if fault.wrong_size else "unreadable"
        raise UnscorableImage(outcome, str(fault)) from fault
