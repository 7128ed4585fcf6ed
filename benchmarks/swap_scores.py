"""Whether the score of a swap puts the obvious in order, and how long it takes.

`swap.ordered`: persons on whom no constant was set (`swap_persons.HELD_OUT`). Each is the template
for the `--avatars` others nearest in turn; eight pictures of each pair are scored: untouched, wrong
person, pasted rectangle, local swap, the same blurred in three strengths, and torn by triangles.
Of the 28 pairs of the eight 14 are ordered beyond dispute (`ORDERS`); a tie is wrong, a picture
without a number is below every number, and two such pictures are no pair. The interval resamples
template persons; `by_person` has how many orders held for each, with the interval of Wilson (1927).

`swap.identity`: every two pictures of the persons that ship, told apart at the distance `SAME`.
The same person is there in one photograph only, so the same-person pairs are that photograph
against itself mirrored, halved, darkened and compressed; with `--photographs FOLDER` pairs of real
photographs there, whose files are called `person1.jpg`, `person2.jpg` and so on, are told apart
beside it: printed, not written (tests/test_images of the sdist of face_recognition 1.3.0 has some).
`swap.identity_margin`: the least distance of two persons minus the greatest of one.

`swap.score_s`: seconds a picture of 1024 pixels, templates and avatars known, as in a run.
`swap.score_scaling`: pictures a second of two scoring processes over one, the median of
`--ratios`. Both have the bootstrap interval of a median over repeats.
"""

from __future__ import annotations

import io
import itertools
import re
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import numpy as np
import PIL.Image
import PIL.ImageOps
import typer

from genlab.benchmark import faces
from genlab.benchmark.blending import laid_over
from genlab.benchmark.faces import Image
from genlab.benchmark.geometry import side_turn
from genlab.benchmark.scorer import Score, score
from genlab.benchmark.tools.controls import STRANGER, blurred, pasted
from genlab.core.errors import GenlabError, run_cli
from record import record
from spread import median, share, shown
from swap_persons import CALIBRATION, HELD_OUT, Person, persons
from torn import torn_swap

COMMAND = "python benchmarks/swap_scores.py"
SEED = 0
ROUNDS = 4  # of all pictures, in a timing of processes
BLURS = ("blurred_1", "blurred_2", "blurred_3")
WITHOUT_AVATAR = ("wrong_person", "untouched")
ORDERS = [
    *(("local", worse) for worse in (*BLURS, "torn", "pasted", *WITHOUT_AVATAR)),
    *itertools.pairwise(BLURS),
    ("blurred_1", "blurred_3"),
    *itertools.product(("pasted", "blurred_1"), WITHOUT_AVATAR),
]
# Counted apart: a face torn so far that nobody would know it is no better than somebody else's.
DISPUTED = list(itertools.product(("torn",), WITHOUT_AVATAR))

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
        "torn": torn_swap(image, face, avatar.image, avatar.face),
    }


def pairs(people: list[Person], avatars: int) -> Iterator[tuple[Person, Person, Person]]:
    """Each person with the avatars nearest in turn, and the next who is a stranger to both."""
    for person in people:
        others = sorted(
            (other for other in people if other is not person),
            key=lambda other: abs(abs(_turn(other)) - abs(_turn(person))),
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


def _turn(person: Person) -> float:
    return side_turn(person.face.landmarks)


def ordered(people: list[Person], avatars: int, folder: Path) -> dict[str, list[bool]]:
    """For every template person: whether each order held, over all avatars. Prints what did not."""
    held: dict[str, list[bool]] = {person.name: [] for person in people}
    totals: dict[str, list[float]] = {}
    disputed: list[bool] = []
    for person, avatar, stranger in pairs(people, avatars):
        portrait = folder / "avatar.png"
        PIL.Image.fromarray(avatar.portrait()).save(portrait)
        swaps: list[dict[str, object]] = [{"region": person.region, "avatar": "avatar"}]
        got: dict[str, Score] = {}
        for kind, image in pictures(person, avatar, stranger).items():
            PIL.Image.fromarray(image).save(folder / "result.png", compress_level=1)
            got[kind] = score(person.path, {"avatar": portrait}, swaps, folder / "result.png")
            total = got[kind].total
            if total is not None:
                totals.setdefault(kind, []).append(total)
        for better, worse in ORDERS:
            first, second = (got[kind].total for kind in (better, worse))
            if first is None and second is None:
                continue
            right = _over(first, second)
            held[person.name].append(right)
            if not right:
                print(
                    f"  {person.name} <- {avatar.name}: {better} {first} not over {worse} {second}"
                )
        disputed += [_over(got[better].total, got[worse].total) for better, worse in DISPUTED]
    print(f"not counted: torn over no avatar at all, {sum(disputed)} of {len(disputed)}")
    print(f"{'picture':<14}{'n':>5}{'mean':>8}{'least':>8}{'most':>8}")
    for kind, values in sorted(totals.items(), key=lambda item: float(np.mean(item[1]))):
        print(
            f"{kind:<14}{len(values):>5}{np.mean(values):>8.3f}"
            f"{min(values):>8.3f}{max(values):>8.3f}"
        )
    return held


def _over(first: float | None, second: float | None) -> bool:
    """Whether a number, or None for none, is the better one: none is below every number."""
    return first is not None and (second is None or first > second)


def interval(held: dict[str, list[bool]], resamples: int = 2000) -> tuple[float, float]:
    """95 % interval of the share that held, by template person.

    Where every order held for every person, resampling says nothing: the lower end is then that of
    as many right answers as there are persons (Wilson 1927).
    """
    groups = [np.array(values, dtype=np.float64) for values in held.values() if values]
    if all(group.all() for group in groups):
        return len(groups) / (len(groups) + 1.96**2), 1.0
    drawn = np.random.default_rng(SEED).integers(len(groups), size=(resamples, len(groups)))
    sums, sizes = (np.array([f(g) for g in groups]) for f in (np.sum, len))
    low, high = np.quantile(sums[drawn].sum(1) / sizes[drawn].sum(1), (0.025, 0.975))
    return float(low), float(high)


def identity_distances(
    people: list[Person],
) -> tuple[list[float], list[float]]:
    """Distances of one photograph of a person from its own changed ones, and of two persons."""
    shown: dict[str, list[faces.Face]] = {}
    for person in people:
        variants = [next(iter(faces.found(image)), None) for image in changed(person.portrait())]
        shown[person.name] = [person.face, *(face for face in variants if face is not None)]
    return distances(shown)


def real_distances(photographs: Path) -> tuple[list[float], list[float]]:
    """Distances of photographs of one person, taken apart, and of two persons."""
    shown: dict[str, list[faces.Face]] = {}
    for path in sorted(photographs.iterdir()):
        name = re.sub(r"[-_\d]*$", "", path.stem)
        with PIL.Image.open(path) as opened:
            image = np.asarray(PIL.ImageOps.exif_transpose(opened).convert("RGB"))
        shown.setdefault(name, []).extend(faces.found(image)[:1])
    return distances(shown)


def distances(shown: dict[str, list[faces.Face]]) -> tuple[list[float], list[float]]:
    """All distances within a person's faces, and between the first faces of every two persons."""
    same = [
        faces.identity_distance(*two)
        for known in shown.values()
        for two in itertools.combinations(known, 2)
    ]
    different = [
        faces.identity_distance(first, second)
        for one, other in itertools.combinations(shown.values(), 2)
        for first, second in itertools.product(one[:1], other[:1])
    ]
    return same, different


def changed(image: Image) -> list[Image]:
    """The photograph mirrored, halved and grown again, darkened, and compressed hard."""
    picture = PIL.Image.fromarray(image)
    half = picture.resize((picture.width // 2, picture.height // 2)).resize(picture.size)
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=30)
    dark = picture.point(lambda value: value * 0.6)
    changes = (PIL.ImageOps.mirror(picture), half, dark, PIL.Image.open(buffer))
    return [np.asarray(change.convert("RGB")) for change in changes]


def calls(people: list[Person], folder: Path) -> list[Call]:
    """A local swap of each person, ready to be scored."""
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


def scored(call: Call) -> float:
    """Seconds that one score took."""
    start = time.perf_counter()
    if score(*call).outcome != "scored":
        raise GenlabError(f"{call[3]} got no number; look at it with: {COMMAND}")
    return time.perf_counter() - start


def rate(work: list[Call], processes: int, repeats: int) -> float:
    """Pictures a second, the processes warm."""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for _ in range(2):  # each worker reads the models and sees the templates
            list(pool.map(scored, work * processes))
        start = time.perf_counter()
        list(pool.map(scored, work * repeats))
        return len(work) * repeats / (time.perf_counter() - start)


def bench(
    cases: Annotated[Path, typer.Option(help="Folder of the cases.")] = Path("cases"),
    avatars: Annotated[int, typer.Option(min=1, help="Avatars tried on each person.")] = 3,
    photographs: Annotated[
        Path | None, typer.Option(help="More photographs, for the identity check alone.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=5, help="Repeats of a score's timing.")] = 15,
    ratios: Annotated[int, typer.Option(min=5, help="Repeats of two processes over one.")] = 9,
    timing: Annotated[bool, typer.Option(help="Whether to time the score too.")] = True,
    calibration: Annotated[
        bool, typer.Option(help="Print the orders among the persons of calibration; write nothing.")
    ] = False,
    output: Annotated[Path, typer.Option(help="File the results go to.")] = Path(
        "results/benchmarks.json"
    ),
) -> None:
    """Measure the score; write `swap.ordered`, `swap.identity` and how long it takes."""
    people = persons(CALIBRATION if calibration else HELD_OUT, cases)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        held = ordered(people, avatars, folder)
        number = sum(len(values) for values in held.values())
        right = sum(map(sum, held.values())) / number
        low, high = interval(held)
        by_person: dict[str, dict[str, object]] = {}
        for person, values in held.items():
            if values:
                value, bounds = share(sum(values), len(values))
                by_person[person] = {"n": len(values), "value": value, "interval": bounds}
                told = f"{value:.3f} ({shown(bounds, '.3f')})"
                print(f"{person:<24}{told:>26}, n = {len(values)}")
        print(f"ordered {right:.4f}, 95 % interval {low:.3f} to {high:.3f}, {number} pairs")
        if calibration:
            return
        record(
            "swap.ordered", right, interval=(low, high), n=number, seeds=[SEED], command=COMMAND,
            path=output, by_person=by_person,
        )  # fmt: skip
        discriminator_accuracy(people + persons(CALIBRATION, cases), output)
        if photographs is not None:
            print_apart("real photographs", *real_distances(photographs))
        if timing:
            time_scores(calls(people, folder), repeats, ratios, output)


def print_apart(what: str, same: list[float], different: list[float]) -> list[bool]:
    """Print how well persons are told apart at `SAME`; returns whether, for each pair."""
    right = [d <= faces.SAME for d in same] + [d > faces.SAME for d in different]
    bounds = share(sum(right), len(right))[1]
    print(
        f"{what}: same person {len(same)} pairs, at most {max(same, default=np.nan):.3f};"
        f" two persons {len(different)} pairs, at least {min(different, default=np.nan):.3f};"
        f" told apart at {faces.SAME}: {sum(right)} of {len(right)} ({shown(bounds, '.3f')})"
    )
    return right


def discriminator_accuracy(people: list[Person], output: Path) -> None:
    """Write `swap.identity` and its margin."""
    same, different = identity_distances(people)
    right = print_apart("photographs that ship", same, different)
    apart, margin = share(sum(right), len(right)), (min(different) - max(same), None)
    for key, (value, bounds) in (("swap.identity", apart), ("swap.identity_margin", margin)):
        record(key, value, interval=bounds, n=len(right), seeds=[], command=COMMAND, path=output)


def time_scores(work: list[Call], repeats: int, ratios: int, output: Path) -> None:
    """Write `swap.score_s` and `swap.score_scaling`."""
    for call in work:
        scored(call)
    seconds = [float(np.median([scored(call) for call in work])) for _ in range(repeats)]
    parts = [rate(work, 2, ROUNDS) / rate(work, 1, ROUNDS) for _ in range(ratios)]
    for key, values in (("swap.score_s", seconds), ("swap.score_scaling", parts)):
        value, bounds = median(values, SEED)
        print(f"{key}: {value:.3f} ({shown(bounds, '.3f')}), {len(values)} repeats")
        record(
            key, value, interval=bounds, n=len(values), seeds=[SEED], command=COMMAND, path=output
        )


if __name__ == "__main__":
    run_cli(lambda: typer.run(bench))
