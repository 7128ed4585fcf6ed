"""Persons of a photograph: how they are numbered everywhere, and who of them stands in front."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from genlab.benchmark.scoring.faces import Face

COLUMN = 0.6  # distances of the eyes by which faces above one another may stand aside
BYSTANDER = 1 / 3  # width, as a share of the largest face's, up to which a face is background


class Wide(Protocol):
    """A face, or its region in a case."""

    @property
    def width(self) -> int: ...


Person = TypeVar("Person", bound=Wide)


def order_persons(faces: Sequence[Face]) -> list[Face]:
    """The faces of a photograph in the order in which persons are numbered.

    From left to right by the middles of the landmarks; faces above one another, at most COLUMN of
    the leftmost one's eyes aside, from top to bottom. Boxes would not do: their sizes are steps of
    the detector, and differ with the size and format of the file.
    """
    rest = sorted(faces, key=lambda face: face.middle)
    ordered: list[Face] = []
    while rest:
        furthest = rest[0].middle[0] + COLUMN * rest[0].eyes
        column = [face for face in rest if face.middle[0] <= furthest]
        ordered += sorted(column, key=lambda face: face.middle[::-1])
        rest = rest[len(column) :]
    return ordered


def drop_bystanders(persons: Sequence[Person]) -> list[Person]:
    """The persons without bystanders, who are at most BYSTANDER of the largest one's width."""
    largest = max((person.width for person in persons), default=0)
    return [person for person in persons if person.width > BYSTANDER * largest]
