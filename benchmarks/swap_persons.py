"""Who is who in the photographs that ship, and what the score's constants were set on.

A person is a case's template and a place in it, counted from the left. The constants of
`genlab.benchmark.scoring.constants` were set on swaps among the persons of the cases
sofa-one-of-three, stairs-two-of-four, astronaut-officer and officer-astronaut, on four persons of
`sample1.jpg` and `sample2.jpg` of the same package, which are not shipped, and on the ground-truth
cases of `swap_photographs.CALIBRATION`, in which the astronaut and the officer occur. HELD_OUT was
scored with version 1 of the constants before and with version 2 once; nothing was set on it.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from genlab.benchmark.cases import load_case
from genlab.benchmark.scoring import faces
from genlab.benchmark.scoring.faces import Face, Image
from genlab.core.errors import GenlabError

HELD_OUT = {"party-turned-heads": 3, "window-four-avatars": 4}
"""The number of persons in the template of each case."""


@dataclass(frozen=True, eq=False)
class Person:
    """A person in a photograph: a name, the photograph (its file too) and the face in it."""

    name: str
    path: Path
    image: Image
    face: Face

    def portrait(self) -> Image:
        """The photograph cut to this person's head."""
        left, top, right, bottom = self.face.box
        more = (right - left) // 2
        rows = slice(max(top - more, 0), bottom + more)
        return np.ascontiguousarray(self.image[rows, max(left - more, 0) : right + more])


def find_persons(cases: Path) -> list[Person]:
    """The persons of HELD_OUT. Raises a `GenlabError` where a template has changed."""
    people = []
    for name, number in HELD_OUT.items():
        case = load_case(cases / name)
        image = np.asarray(case.open_template())
        persons = faces.from_left(faces.found(image))
        if len(persons) != number:
            raise GenlabError(
                f"{case.template} shows {len(persons)} faces, not {number}; restore it with:"
                f" git checkout {cases / name}"
            )
        people += [
            Person(f"{name}/{place}", case.template, image, face)
            for place, face in enumerate(persons, start=1)
        ]
    return people
