"""Whether the score of an edited image orders obvious cases, and how long it takes.

`swap.ordered`: on persons on whom no constant was set (`swap_persons.HELD_OUT`). Each is the
template for the `--avatars` most similar others in turn; eight pictures of each pair are scored:
untouched, wrong person, pasted rectangle, local swap, the same blurred in three strengths, and
warped by triangles. Of the 28 pairs of the eight 14 are ordered beyond dispute (`ORDERS`); a tie is
wrong, a picture without a score is below every score, and two such pictures are no pair. The
interval resamples template persons; `by_person` holds the rate of each with Wilson's interval.

`swap.headroom.*`: ground-truth cases (`swap_photographs`), whose ideal result is a photograph.
Means over the cases of CALIBRATION: `ideal` is the minimum over the ideal and the degraded ideals
of `score_reference`, `warp` and `collage` are the means of these two controls, `warp_score` is the
mean `score` of the warp; `order` is the rate of cases in which all ideals > right face with wrong
hair > warp > blurred, wrong person, untouched. `held_out`: the rate of the same checks that hold on
HELD_OUT: the four means, and the order in each case. `details` holds every control's mean and
range.

`swap.score_s`: seconds per picture of 1024 pixels, templates and avatars cached, as in a run.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import PIL.Image
import typer

from benchmarks import swap_photographs
from benchmarks.harness import Result, benchmark, wall_seconds
from benchmarks.swap_persons import CALIBRATION, HELD_OUT, Person, persons
from benchmarks.triangles import warp_by_triangles
from genlab.benchmark.cases import Case
from genlab.benchmark.scoring import faces
from genlab.benchmark.scoring.faces import Image
from genlab.benchmark.scoring.geometry import side_turn
from genlab.benchmark.scoring.scorer import score
from genlab.benchmark.tools import controls
from genlab.benchmark.tools.controls import STRANGER, blur, paste
from genlab.benchmark.tools.local import lay_over
from genlab.core.errors import GenlabError
from genlab.core.stats import share_interval

SEED = 0
BLURS = ("blurred_1", "blurred_2", "blurred_3")
WITHOUT_AVATAR = ("wrong_person", "untouched")
ORDERS = [
    *(("local", worse) for worse in (*BLURS, "warped", "pasted", *WITHOUT_AVATAR)),
    *itertools.pairwise(BLURS),
    ("blurred_1", "blurred_3"),
    *itertools.product(("pasted", "blurred_1"), WITHOUT_AVATAR),
]

Call = tuple[Path, dict[str, Path], list[dict[str, object]], Path]


def pictures(person: Person, avatar: Person, stranger: Person) -> dict[str, Image]:
    """The eight pictures of one pair."""
    image, face = person.image, person.face
    swap = lay_over(image, face, avatar.image, avatar.face)
    return {
        "untouched": image,
        "wrong_person": lay_over(image, face, stranger.image, stranger.face),
        "pasted": paste(image, face, avatar.image, avatar.face),
        "local": swap,
        **{name: blur(swap, face, strength) for strength, name in enumerate(BLURS, start=1)},
        "warped": warp_by_triangles(image, face, avatar.image, avatar.face),
    }


def pairs(people: list[Person], avatars: int) -> Iterator[tuple[Person, Person, Person]]:
    """Each person with the avatars most similar in turn, and one who resembles neither."""
    turns = {person.name: abs(side_turn(person.face.landmarks)) for person in people}
    for person in people:
        others = sorted(
            (other for other in people if other is not person),
            key=lambda other: abs(turns[other.name] - turns[person.name]),
        )
        for avatar in others[:avatars]:
            strangers = (
                other
                for other in others
                if other is not avatar
                and min(
                    faces.identity_distance(other.face, known.face) for known in (avatar, person)
                )
                >= STRANGER
            )
            if (stranger := next(strangers, None)) is not None:
                yield person, avatar, stranger


def ordered(people: list[Person], avatars: int, folder: Path) -> dict[str, list[bool]]:
    """For every template person: whether each order held, over all avatars. Prints what did not."""
    held: dict[str, list[bool]] = {person.name: [] for person in people}
    for person, avatar, stranger in pairs(people, avatars):
        portrait, result = folder / "avatar.png", folder / "result.png"
        PIL.Image.fromarray(avatar.portrait()).save(portrait)
        swaps: list[dict[str, object]] = [{"region": person.region, "avatar": "avatar"}]
        totals: dict[str, float | None] = {}
        for kind, image in pictures(person, avatar, stranger).items():
            PIL.Image.fromarray(image).save(result, compress_level=1)
            totals[kind] = score(person.path, {"avatar": portrait}, swaps, result).score
        for better, worse in ORDERS:
            first, second = totals[better], totals[worse]
            if first is None and second is None:
                continue
            right = first is not None and (second is None or first > second)
            held[person.name].append(right)
            if not right:
                print(
                    f"  {person.name} <- {avatar.name}: {better} {first} not over {worse} {second}"
                )
    return held


def person_interval(held: dict[str, list[bool]], resamples: int = 2000) -> tuple[float, float]:
    """95 % bootstrap interval of the rate that held, over template persons.

    Where every order held, the lower end is Wilson's for as many successes as there are persons.
    """
    groups = [np.array(values, dtype=np.float64) for values in held.values() if values]
    if all(group.all() for group in groups):
        return float(share_interval(len(groups), len(groups))["low"]), 1.0
    drawn = np.random.default_rng(SEED).integers(len(groups), size=(resamples, len(groups)))
    sums, sizes = (np.array([f(g) for g in groups]) for f in (np.sum, len))
    low, high = np.quantile(sums[drawn].sum(1) / sizes[drawn].sum(1), (0.025, 0.975))
    return float(low), float(high)


def calls(people: list[Person], folder: Path) -> list[Call]:
    """The arguments that score a local swap of each person."""
    ready: list[Call] = []
    for number, (person, avatar, _) in enumerate(pairs(people, 1)):
        if max(person.image.shape) != 1024:
            continue
        result, portrait = folder / f"result_{number}.png", folder / f"avatar_{number}.png"
        PIL.Image.fromarray(avatar.portrait()).save(portrait)
        swap = lay_over(person.image, person.face, avatar.image, avatar.face)
        PIL.Image.fromarray(swap).save(result)
        swaps: list[dict[str, object]] = [{"region": person.region, "avatar": "avatar"}]
        ready.append((person.path, {"avatar": portrait}, swaps, result))
    return ready


def score_call(call: Call) -> None:
    """Score one picture. Raises a GenlabError where it gets no score."""
    if score(*call).outcome != "scored":
        raise GenlabError(f"{call[3]} got no score; check that cases/ is unchanged")


Cases = Annotated[Path, typer.Option(help="Folder of the cases.")]


@benchmark("swap.ordered")
def swap_ordered(
    cases: Cases = Path("cases"),
    avatars: Annotated[int, typer.Option(min=1, help="Avatars tried on each person.")] = 3,
    calibration: Annotated[
        bool, typer.Option("--calibration", help="Print the calibration persons; record nothing.")
    ] = False,
) -> Iterator[Result]:
    """Measure how often the score orders a better and a worse picture."""
    with tempfile.TemporaryDirectory() as folder:
        people = persons(CALIBRATION if calibration else HELD_OUT, cases)
        held = ordered(people, avatars, Path(folder))
    by_person: dict[str, dict[str, object]] = {}
    for person, values in held.items():
        if values:
            found = Result.rate(person, sum(values), len(values))
            print(found.describe(None))
            by_person[person] = {"n": found.n, "value": found.value, "interval": found.interval}
    if calibration:
        return
    n = sum(len(values) for values in held.values())
    rate = sum(map(sum, held.values())) / n
    details = {"by_person": by_person}
    yield Result("swap.ordered", rate, person_interval(held), n, (SEED,), details=details)


Table = dict[str, dict[str, tuple[float, float]]]
"""By case and control: `score` and `score_reference`, 0 where there is none."""


def score_controls(cases: list[Case]) -> Table:
    """Score every control of every ground-truth case."""
    table: Table = {}
    for case in cases:
        swaps = [swap.model_dump() for swap in case.swaps]
        path = case.folder / "control.png"
        row = table[case.case_id] = {}
        for name, image in controls.make_controls(case).items():
            PIL.Image.fromarray(image).save(path, compress_level=1)
            got = score(case.template, case.avatars, swaps, path, case.ideal)
            row[name] = (got.score or 0.0, got.score_reference or 0.0)
    return table


def headroom(table: Table) -> dict[str, float]:
    """The four means of the targets."""

    def mean(control: str, which: int = 1) -> float:
        return float(np.mean([row[control][which] for row in table.values()]))

    ideals = [name for name in next(iter(table.values())) if name.startswith("ideal")]
    return {
        "ideal": min(mean(name) for name in ideals),
        "warp": mean("warp"),
        "warp_score": mean("warp", 0),
        "collage": mean("collage"),
    }


def in_order(row: dict[str, tuple[float, float]]) -> bool:
    """Whether a case's `score_reference` orders its controls."""
    reference = {name: both[1] for name, both in row.items()}
    ideals = min(value for name, value in reference.items() if name.startswith("ideal"))
    low = max(reference[name] for name in ("blurred", *WITHOUT_AVATAR))
    return ideals > reference["wrong_hair"] > reference["warp"] > low


def summarize(table: Table) -> dict[str, object]:
    """Mean and range of both scores per control, over the cases."""
    found: dict[str, object] = {}
    for control in next(iter(table.values())):
        values = np.array([row[control] for row in table.values()])
        found[control] = {
            name: {
                "mean": float(values[:, n].mean()),
                "range": [float(values[:, n].min()), float(values[:, n].max())],
            }
            for n, name in enumerate(("score", "score_reference"))
        }
    return found


LIMITS = {
    "ideal": (0.9, 1.0),
    "warp": (0.0, 0.45),
    "warp_score": (0.0, 0.6),
    "collage": (0.0, 0.65),
}


@benchmark(
    *(f"swap.headroom.{name}" for name in (*LIMITS, "order", "held_out")),
)
def swap_headroom(cases: Cases = Path("cases")) -> Iterator[Result]:
    """Validate both scores against ground truth."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "cases"
        shutil.copytree(cases, root)  # somebody else for the wrong person
        photographs = swap_photographs.fetch(Path(folder))
        known, held_out = (
            score_controls(swap_photographs.build_cases(triples, photographs, root))
            for triples in (swap_photographs.CALIBRATION, swap_photographs.HELD_OUT)
        )
    for name, value in headroom(known).items():
        yield Result(f"swap.headroom.{name}", value, n=len(known), seeds=())
    right = sum(map(in_order, known.values()))
    details: dict[str, object] = {"controls": summarize(known)}
    n = len(known)
    yield Result("swap.headroom.order", right / n, n=n, seeds=(), details=details)
    means = headroom(held_out)
    checks = {name: low <= means[name] <= high for name, (low, high) in LIMITS.items()}
    checks |= {name: in_order(row) for name, row in held_out.items()}
    details = {"means": means, "checks": checks, "controls": summarize(held_out)}
    value = sum(checks.values()) / len(checks)
    yield Result("swap.headroom.held_out", value, n=len(checks), seeds=(), details=details)


@benchmark("swap.score_s")
def swap_score_time(
    cases: Cases = Path("cases"),
    repeats: Annotated[int, typer.Option(min=3, help="Repeats of a score's timing.")] = 15,
) -> Iterator[Result]:
    """Time the score."""
    with tempfile.TemporaryDirectory() as folder:
        work = calls(persons(HELD_OUT, cases), Path(folder))
        for call in work:
            score_call(call)
        seconds = [
            float(np.median([wall_seconds(partial(score_call, call)) for call in work]))
            for _ in range(repeats)
        ]
        yield Result.median("swap.score_s", seconds, SEED)
