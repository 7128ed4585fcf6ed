"""The cases of the demo, from the photographs that ship with the repository (`cases/`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from genlab.benchmark.cases.case import CASE_FILE, Case, Region, Swap, load_case
from genlab.benchmark.cases.files import draft_of, find_regions
from genlab.benchmark.cases.generate import Made, write_missing

SHIPPED = Path(__file__).resolve().parents[4] / "cases"
"""The cases of the repository, where this is a checkout of it."""
DEMO = (
    "astronaut-officer",
    "officer-astronaut",
    "party-turned-heads",
    "sofa-one-of-three",
    "stairs-two-of-four",
    "window-four-avatars",
    "window-two-avatars",
)


def generate_demo(root: Path, *, force: bool = False) -> Iterator[Made]:
    """Make the demo's cases under `root`; yields a line on each."""
    for name in DEMO:
        if (root / name / CASE_FILE).exists() and not force:
            yield Made(f"{root / name}: exists, kept as it is")
        elif (SHIPPED / name / CASE_FILE).exists():
            case = load_case(SHIPPED / name)
            draft = replace(draft_of(case), swaps=_find_swaps(case))
            yield Made(write_missing(draft, root, force))
        else:
            yield Made(
                f"{root / name}: not made, {SHIPPED / name} is missing; run this in a clone of the"
                f" repository, or restore it with: git checkout -- {SHIPPED / name}",
                faulty=True,
            )


def _find_swaps(case: Case) -> list[Swap]:
    """The swaps of a case, each at the face that is found nearest to its region."""
    regions = find_regions(case.open_template())
    return [
        swap.model_copy(
            update={"region": min(regions, key=lambda region: _apart(region, swap.region))}
        )
        for swap in case.swaps
    ]


def _apart(first: Region, second: Region) -> float:
    """Distance of the centres of two regions."""
    a, b = (np.reshape(region.box, (2, 2)).mean(0) for region in (first, second))
    return float(np.linalg.norm(a - b))
