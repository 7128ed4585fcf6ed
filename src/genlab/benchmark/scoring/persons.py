"""Persons of a photograph: the order in which they are numbered, and who is a bystander."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from genlab.benchmark.scoring.faces import Face

COLUMN = 0.6  # horizontal offset, in distances between the eyes, within one column of faces
BYSTANDER = 1 / 3  # width, as a fraction of the largest face's, up to which a face is a bystander's


class HasWidth(Protocol):
    """Anything with a width in pixels: a face, or its region in a case."""

    @property
    def width(self) -> int: ...


Person = TypeVar("Person", bound=HasWidth)


def order_persons(faces: Sequence[Face]) -> list[Face]:
    """Sort the faces of a photograph into the order in which persons are numbered.

    Persons are numbered from left to right, and from top to bottom within a column of faces. The
    centres of the landmarks decide: the detector's boxes come in steps, which differ with the size
    and format of the file.
    """
    remaining = sorted(faces, key=lambda face: face.middle)
    ordered: list[Face] = []
    while remaining:
        leftmost = remaining[0]
        furthest = leftmost.middle[0] + COLUMN * leftmost.eyes
        column = [face for face in remaining if face.middle[0] <= furthest]
        ordered += sorted(column, key=lambda face: face.middle[::-1])
        remaining = remaining[len(column) :]
    return ordered


def drop_bystanders(persons: Sequence[Person]) -> list[Person]:
    """Drop the bystanders: persons at most BYSTANDER times as wide as the largest one."""
    largest = max((person.width for person in persons), default=0)
    return [person for person in persons if person.width > BYSTANDER * largest]
