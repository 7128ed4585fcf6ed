"""Explain a score: per term its value, one sentence, and an overlay on the picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from genlab.benchmark.scoring.faces import Image
from genlab.benchmark.scoring.masks import Field
from genlab.benchmark.scoring.scorer import Measured, Person, measure

RED = np.array([230, 30, 30], dtype=np.float32)
STRENGTH = 0.7  # opacity where a term loses everything


@dataclass(frozen=True, eq=False)
class Explanation:
    """One term of a score.

    person: the avatar's name, "" for the whole picture; reference: whether it is a term of
    `score_reference`; overlay: (height, width, 3) uint8 RGB at the scoring scale, red where the
    term loses.
    """

    term: str
    person: str
    reference: bool
    value: float
    sentence: str
    overlay: Image


def explain(
    template: Path,
    avatars: Mapping[str, Path],
    swaps: Sequence[Mapping[str, Any]],
    image: Path,
    ideal: Path | None = None,
) -> list[Explanation]:
    """Explain the score of a picture; the arguments are those of `score`.

    Raises `genlab.benchmark.scoring.pictures.Unfit` where the picture has no score.
    """
    found = measure(template, avatars, swaps, image, ideal)
    persons = [item for person in found.persons for item in _of_person(found.picture, person)]
    return [*persons, *_of_background(found)]


def _of_person(picture: Image, person: Person) -> Iterator[Explanation]:
    if person.heads is None or person.terms is None:
        yield Explanation(
            "face", person.avatar, False, 0.0, f"{person.note[:1].upper()}{person.note[1:]}.",
            picture,
        )  # fmt: skip
        return
    shape = picture.shape[1::-1]
    for reference, terms in ((False, person.terms), (True, person.reference)):
        for name, term in terms.items():
            heat = cv2.warpAffine(
                term.heat().astype(np.float32),
                person.heads.matrix,
                shape,
                flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            )
            drawn = overlay(picture, np.asarray(heat))
            yield Explanation(name, person.avatar, reference, term.value, term.sentence, drawn)


def _of_background(found: Measured) -> Iterator[Explanation]:
    for reference, kept in ((False, found.background), (True, found.background_reference)):
        if kept is not None:
            heat = cv2.resize(kept.lost, found.picture.shape[1::-1])
            source = "ideal's" if reference else "template's"
            sentence = (
                f"{kept.everywhere:.0%} of the {source} background is kept, {kept.around:.0%} of it"
                " near the heads."
            )
            drawn = overlay(found.picture, np.asarray(heat, dtype=np.float32))
            yield Explanation("background", "", reference, kept.score, sentence, drawn)


def overlay(picture: Image, heat: Field) -> Image:
    """`picture` in grey, red where `heat` (height, width) in [0, 1] is high."""
    grey = cv2.cvtColor(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
    share = STRENGTH * np.clip(heat, 0, 1)[..., None]
    return np.asarray(np.rint(share * RED + (1 - share) * grey), dtype=np.uint8)
