"""Who is who in the photographs that ship, and what the score's constants were set on.

A person is a case's template and a place in it, counted from the left. The constants of
`genlab.benchmark.scoring.constants` were set on swaps among the persons of the cases
sofa-one-of-three, stairs-two-of-four, astronaut-officer and officer-astronaut, on four persons of
`sample1.jpg` and `sample2.jpg` of the same package, which are not shipped, and on the ground-truth
cases of `swap_photographs.CALIBRATION`, in which the astronaut and the officer occur. HELD_OUT was
scored with version 1 of the constants before and with version 2 once; while version 3 was made, its
values were seen (see `constants`), so that they are no independent test of that version.

HELD_OUT is seven people in two photographs, who are each other's avatars. Their rates are a sample
of few people and say nothing of a third photograph: an interval over persons is Student's, with six
degrees of freedom, and the rate of each photograph stands beside it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.harness import clip_to_shares
from genlab.benchmark.cases import load_case
from genlab.benchmark.scoring import faces
from genlab.benchmark.scoring.faces import Face, Image
from genlab.benchmark.scoring.persons import order_persons
from genlab.core.errors import GenlabError
from genlab.core.stats import student_interval, wilson_interval

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
        persons = order_persons(faces.detect(image))
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


def person_interval(held: Mapping[str, Sequence[bool]]) -> tuple[float, float]:
    """95 % interval of the rate that held, by Student's t over the rates of persons.

    Where every order held, the lower end is Wilson's for as many successes as there are persons.
    """
    rates = [float(np.mean(values)) for values in held.values()]
    if min(rates) == 1.0:
        return float(wilson_interval(len(rates), len(rates))["low"]), 1.0
    interval = student_interval(rates)
    return clip_to_shares(interval["low"], interval["high"])


def photograph_rates(held: Mapping[str, Sequence[bool]]) -> dict[str, float]:
    """The rate that held in each photograph; persons are named `<case>/<place>`."""
    values: dict[str, list[bool]] = {}
    for name, case_values in held.items():
        values.setdefault(name.partition("/")[0], []).extend(case_values)
    return {name: float(np.mean(case_values)) for name, case_values in values.items()}
