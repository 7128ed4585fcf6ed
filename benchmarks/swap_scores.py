"""Whether the score of an edited image orders obvious cases, and how long it takes.

`swap.ordered`: on persons on whom no constant was set (`swap_persons.HELD_OUT`). Each is the
template for the `--avatars` most similar others in turn; eight pictures of each pair are scored:
untouched, wrong person, pasted rectangle, local swap, the same blurred in three strengths, and
warped by triangles. Of the 28 pairs of the eight 14 are ordered beyond dispute (`ORDERS`); a tie is
wrong, a picture without a score is below every score, and two such pictures are no pair. The
interval resamples template persons; `by_person` holds the rate of each with Wilson's interval.

`swap.identity`: discriminator accuracy at the distance `SAME` over every two photographs of the
persons that ship. Each person is in one photograph only, so the same-person pairs are that
photograph against itself mirrored, halved, darkened and compressed.
`swap.identity_margin`: the least distance of two persons minus the greatest of one.

`swap.score_s`: seconds per picture of 1024 pixels, templates and avatars cached, as in a run.
`swap.score_scaling`: pictures per second of two scoring processes over one.
"""

from __future__ import annotations

import io
import itertools
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import numpy as np
import PIL.Image
import PIL.ImageOps
import typer

from benchmarks.harness import Result, benchmark, wall_seconds
from benchmarks.swap_persons import CALIBRATION, HELD_OUT, Person, persons
from benchmarks.triangles import warp_by_triangles
from genlab.benchmark import faces
from genlab.benchmark.blending import laid_over
from genlab.benchmark.faces import Image
from genlab.benchmark.geometry import side_turn
from genlab.benchmark.scorer import score
from genlab.benchmark.tools.controls import STRANGER, blurred, pasted
from genlab.core.errors import GenlabError
from genlab.core.stats import share_interval

SEED = 0
ROUNDS = 4  # of all pictures, in a timing of processes
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
    swap = laid_over(image, face, avatar.image, avatar.face)
    return {
        "untouched": image,
        "wrong_person": laid_over(image, face, stranger.image, stranger.face),
        "pasted": pasted(image, face, avatar.image, avatar.face),
        "local": swap,
        **{name: blurred(swap, face, strength) for strength, name in enumerate(BLURS, start=1)},
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
            totals[kind] = score(person.path, {"avatar": portrait}, swaps, result).total
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


def identity_distances(people: list[Person]) -> tuple[list[float], list[float]]:
    """Distances of a person's photograph from its variants, and of every two persons."""
    same = []
    for person in people:
        variants = [next(iter(faces.found(image)), None) for image in changed(person.portrait())]
        known = [person.face, *(face for face in variants if face is not None)]
        same += [faces.identity_distance(*two) for two in itertools.combinations(known, 2)]
    different = [
        faces.identity_distance(one.face, other.face)
        for one, other in itertools.combinations(people, 2)
    ]
    return same, different


def changed(image: Image) -> list[Image]:
    """The photograph mirrored, halved and enlarged, darkened, and strongly compressed."""
    picture = PIL.Image.fromarray(image)
    half = picture.resize((picture.width // 2, picture.height // 2)).resize(picture.size)
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=30)
    dark = picture.point(lambda value: value * 0.6)
    changes = (PIL.ImageOps.mirror(picture), half, dark, PIL.Image.open(buffer))
    return [np.asarray(change.convert("RGB")) for change in changes]


def calls(people: list[Person], folder: Path) -> list[Call]:
    """The arguments that score a local swap of each person."""
    ready: list[Call] = []
    for number, (person, avatar, _) in enumerate(pairs(people, 1)):
        if max(person.image.shape) != 1024:
            continue
        result, portrait = folder / f"result_{number}.png", folder / f"avatar_{number}.png"
        PIL.Image.fromarray(avatar.portrait()).save(portrait)
        swap = laid_over(person.image, person.face, avatar.image, avatar.face)
        PIL.Image.fromarray(swap).save(result)
        swaps: list[dict[str, object]] = [{"region": person.region, "avatar": "avatar"}]
        ready.append((person.path, {"avatar": portrait}, swaps, result))
    return ready


def score_call(call: Call) -> None:
    """Score one picture. Raises a GenlabError where it gets no score."""
    if score(*call).outcome != "scored":
        raise GenlabError(f"{call[3]} got no score; check that cases/ is unchanged")


def throughput(work: list[Call], processes: int, repeats: int) -> float:
    """Pictures per second, with warm processes."""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for _ in range(2):  # each worker reads the models and sees the templates
            list(pool.map(score_call, work * processes))
        seconds = wall_seconds(lambda: list(pool.map(score_call, work * repeats)))
        return len(work) * repeats / seconds


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


@benchmark("swap.identity", "swap.identity_margin")
def swap_identity(cases: Cases = Path("cases")) -> Iterator[Result]:
    """Measure how well the same person and different persons are distinguished."""
    same, different = identity_distances(persons(HELD_OUT | CALIBRATION, cases))
    right = [d <= faces.SAME for d in same] + [d > faces.SAME for d in different]
    yield Result.rate("swap.identity", sum(right), len(right), ())
    yield Result("swap.identity_margin", min(different) - max(same), n=len(right), seeds=())


@benchmark("swap.score_s", "swap.score_scaling")
def swap_score_time(
    cases: Cases = Path("cases"),
    repeats: Annotated[int, typer.Option(min=3, help="Repeats of a score's timing.")] = 15,
    ratios: Annotated[int, typer.Option(min=3, help="Repeats of two processes over one.")] = 9,
) -> Iterator[Result]:
    """Time the score, alone and in two processes."""
    with tempfile.TemporaryDirectory() as folder:
        work = calls(persons(HELD_OUT, cases), Path(folder))
        for call in work:
            score_call(call)
        seconds = [
            float(np.median([wall_seconds(partial(score_call, call)) for call in work]))
            for _ in range(repeats)
        ]
        yield Result.median("swap.score_s", seconds, SEED)
        scaling = [throughput(work, 2, ROUNDS) / throughput(work, 1, ROUNDS) for _ in range(ratios)]
        yield Result.median("swap.score_scaling", scaling, SEED)
