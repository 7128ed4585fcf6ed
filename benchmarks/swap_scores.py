"""Whether the score of an edited image orders obvious cases, and how long it takes.

`swap.ordered`: on persons on whom no constant was set (`swap_persons.HELD_OUT`). Each is the
template for the three most similar others in turn; eight pictures of each pair are scored:
untouched, wrong person, pasted rectangle, local swap, the same blurred in three strengths, and
warped by triangles. Of the 28 pairs of the eight 14 are ordered beyond dispute (`ORDERS`); a tie is
wrong, a picture without a score is below every score, and two such pictures are no pair. The
interval is Student's over the seven persons; `by_person` holds the rate of each, `by_photograph`
that of each of the two photographs.

`swap.headroom.*`: ground-truth cases (`swap_photographs`), whose ideal result is a photograph.
Means over the cases of CALIBRATION: `ideal` is the minimum over the ideal and the degraded ideals
of `score_reference`, `warp` and `collage` are the means of these two controls, `warp_score` is the
mean `score` of the warp; `order` is the rate of cases in which all ideals > right face with wrong
hair > warp > blurred, wrong person, untouched. `held_out`: the rate of the same checks that hold on
HELD_OUT: the targets of the four means, and the order in each case. `details` holds every control's
mean and range.

`swap.score_s`: seconds per picture of 1024 pixels, templates and avatars cached, as in a run.
"""

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pandas as pd
import PIL.Image
from scipy.interpolate import LinearNDInterpolator

from benchmarks import swap_photographs
from benchmarks.harness import ROOT, Repeats, Result, benchmark, wall_seconds
from benchmarks.swap_persons import Person, find_persons, person_interval, photograph_rates
from benchmarks.swap_photographs import build_case
from genlab.benchmark.cases import Case, Swap
from genlab.benchmark.cases.files import face_region
from genlab.benchmark.scoring import faces
from genlab.benchmark.scoring.faces import Image, Points
from genlab.benchmark.scoring.geometry import face_mask, head_turn
from genlab.benchmark.scoring.scorer import Score, score
from genlab.benchmark.tools import controls
from genlab.benchmark.tools.controls import STRANGER, blur, paste
from genlab.benchmark.tools.local import blend_seam, lay_over, match_tone
from genlab.core.errors import GenlabError
from genlab.evaluation.reports.targets import read_targets

CASES = Path("cases")
AVATARS = 3  # tried on each person
SEED = 0
FOREHEAD = 0.3
HEADROOM = ("ideal", "warp", "warp_score", "collage", "order", "held_out")
BLURS = ("blurred_1", "blurred_2", "blurred_3")
WITHOUT_AVATAR = ("wrong_person", "untouched")
ORDERS = [
    *(("local", worse) for worse in (*BLURS, "warped", "pasted", *WITHOUT_AVATAR)),
    *itertools.pairwise(BLURS),
    ("blurred_1", "blurred_3"),
    *itertools.product(("pasted", "blurred_1"), WITHOUT_AVATAR),
]


def warp_by_triangles(person: Person, avatar: Person) -> Image:
    """The avatar's face warped by triangles onto the person's landmarks, a deliberately bad swap.

    Every landmark is moved all the way, so that a closed mouth is pulled open, lips smear and the
    avatar's face gets the template's shape. Tone and border are as good as the local swap's: the
    score has to see the warp itself.
    """
    image = person.image
    target = person.face.landmarks
    find = LinearNDInterpolator(_with_forehead(target), _with_forehead(avatar.face.landmarks))
    down, across = np.mgrid[: image.shape[0], : image.shape[1]].astype(np.float64)
    look = find(across, down).astype(np.float32)  # nan outside of the triangles
    inside = ~np.isnan(look[..., 0])
    edge = cv2.BORDER_REPLICATE
    x, y = np.moveaxis(np.nan_to_num(look), 2, 0)
    warped = cv2.remap(avatar.image, x.copy(), y.copy(), cv2.INTER_LINEAR, borderMode=edge)
    face = np.where(inside[..., None], match_tone(warped, target, image, target), image)
    mask = face_mask(target, image.shape, 0.25) & inside
    mask = cv2.erode(mask.astype(np.uint8), np.ones((5, 5), dtype=np.uint8)) > 0
    return blend_seam(np.ascontiguousarray(face), image, mask, float(np.ptp(target[:17, 0])))


def _with_forehead(points: Points) -> Points:
    brows = points[17:27]
    return np.concatenate([points, brows + FOREHEAD * (brows.mean(0) - points[8])])


def swap(person: Person, avatar: Person) -> Image:
    """The local swap of a pair."""
    return lay_over(person.image, person.face, avatar.image, avatar.face)


def pictures(person: Person, avatar: Person, stranger: Person) -> dict[str, Image]:
    """The eight pictures of one pair."""
    local = swap(person, avatar)
    face = person.face
    return {
        "untouched": person.image,
        "wrong_person": swap(person, stranger),
        "pasted": paste(person.image, face, avatar.image, avatar.face),
        "local": local,
        **{name: blur(local, face, strength) for strength, name in enumerate(BLURS, start=1)},
        "warped": warp_by_triangles(person, avatar),
    }


def pairs(people: list[Person], avatars: int) -> Iterator[tuple[Person, Person, Person]]:
    """Each person with the avatars most similar in turn, and one who resembles neither."""
    turns = {person.name: abs(head_turn(person.face.landmarks)) for person in people}
    for person in people:
        by_turn = sorted(
            people, key=lambda candidate: abs(turns[candidate.name] - turns[person.name])
        )
        others = [candidate for candidate in by_turn if candidate is not person]
        for avatar in others[:avatars]:
            for stranger in others:
                away = (faces.identity_distance(stranger.face, p.face) for p in (avatar, person))
                if stranger is not avatar and min(away) >= STRANGER:
                    yield person, avatar, stranger
                    break


def save(image: Image, path: Path) -> Path:
    """Write a picture."""
    PIL.Image.fromarray(image).save(path, compress_level=1)
    return path


def score_swap(person: Person, portrait: Path, image: Path) -> Score:
    """Score the picture `image` of a person who was swapped for the one of `portrait`."""
    swaps = [Swap(region=face_region(person.face, person.image.shape[1::-1]), avatar="avatar")]
    avatars = {"avatar": portrait}
    case = Case.model_construct(template=person.path, avatars=avatars, swaps=swaps, ideal=None)
    return score(case, image)


def ordered(people: list[Person], folder: Path) -> dict[str, list[bool]]:
    """For every template person: whether each order held, over all avatars. Prints what did not."""
    held: dict[str, list[bool]] = {}
    for person, avatar, stranger in pairs(people, AVATARS):
        portrait = save(avatar.portrait(), folder / "avatar.png")
        totals = {
            kind: score_swap(person, portrait, save(image, folder / "result.png")).score
            for kind, image in pictures(person, avatar, stranger).items()
        }
        for better, worse in ORDERS:
            first = totals[better]
            second = totals[worse]
            if first is None and second is None:
                continue
            right = first is not None and (second is None or first > second)
            held.setdefault(person.name, []).append(right)
            if not right:
                names = f"{person.name} <- {avatar.name}"
                print(f"  {names}: {better} {first} not over {worse} {second}")
    return held


@benchmark("swap.ordered")
def swap_ordered() -> Iterator[Result]:
    """Measure how often the score orders a better and a worse picture."""
    with tempfile.TemporaryDirectory() as folder:
        held = ordered(find_persons(CASES), Path(folder))
    by_person = {
        person: {"n": len(values), "value": sum(values) / len(values)}
        for person, values in held.items()
    }
    n = sum(map(len, held.values()))
    rate = sum(map(sum, held.values())) / n
    details = {"by_person": by_person, "by_photograph": photograph_rates(held)}
    yield Result("swap.ordered", rate, person_interval(held), n, (SEED,), details=details)


def score_controls(cases: list[Case]) -> pd.DataFrame:
    """`score` and `score_reference`, 0 where there is none, by case and control."""
    rows = []
    for case in cases:
        for name, image in controls.make_controls(case).items():
            path = save(image, case.folder / "control.png")
            got = score(case, path)
            rows.append((case.case_id, name, got.score or 0.0, got.score_reference or 0.0))
    columns = ["case", "control", "score", "score_reference"]
    return pd.DataFrame(rows, columns=columns).set_index(["case", "control"])


def headroom(table: pd.DataFrame) -> dict[str, float]:
    """The four means of the targets."""
    means = table.groupby("control").mean()
    reference = means.score_reference
    return {
        "ideal": float(reference.filter(like="ideal").min()),
        "warp": float(reference["warp"]),
        "warp_score": float(means.score["warp"]),
        "collage": float(reference["collage"]),
    }


def in_order(table: pd.DataFrame) -> dict[str, bool]:
    """Whether `score_reference` orders the controls of each case."""
    by = table.score_reference.unstack()
    low = by[["blurred", *WITHOUT_AVATAR]].max(axis=1)
    ideals = by.filter(like="ideal").min(axis=1)
    held = (ideals > by["wrong_hair"]) & (by["wrong_hair"] > by["warp"]) & (by["warp"] > low)
    return {str(case): bool(holds) for case, holds in held.items()}


def summarize(table: pd.DataFrame) -> dict[str, Any]:
    """Mean and range of both scores per control, over the cases."""
    return {
        str(control): {
            str(name): {
                "mean": float(scores.mean()),
                "range": [float(scores.min()), float(scores.max())],
            }
            for name, scores in rows.items()
        }
        for control, rows in table.groupby("control", sort=False)
    }


@benchmark(*(f"swap.headroom.{name}" for name in HEADROOM))
def swap_headroom() -> Iterator[Result]:
    """Validate both scores against ground truth."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "cases"
        shutil.copytree(CASES, root)  # somebody else for the wrong person
        photographs = swap_photographs.fetch(Path(folder))
        person_cases, held_out = (
            score_controls([build_case(triple, photographs, root) for triple in triples])
            for triples in (swap_photographs.CALIBRATION, swap_photographs.HELD_OUT)
        )
    order = in_order(person_cases)
    n = len(order)
    for name, value in headroom(person_cases).items():
        yield Result(f"swap.headroom.{name}", value, n=n, seeds=())
    details = {"controls": summarize(person_cases)}
    yield Result("swap.headroom.order", sum(order.values()) / n, n=n, seeds=(), details=details)
    targets = read_targets(ROOT)
    means = headroom(held_out)
    checks = {name: targets[f"swap.headroom.{name}"].met(value) for name, value in means.items()}
    checks |= in_order(held_out)
    details = {"means": means, "checks": checks, "controls": summarize(held_out)}
    value = sum(map(bool, checks.values())) / len(checks)
    yield Result("swap.headroom.held_out", value, n=len(checks), seeds=(), details=details)


@benchmark("swap.score_s")
def swap_score_time(repeats: Repeats = 15) -> Iterator[Result]:
    """Time the score."""
    with tempfile.TemporaryDirectory() as name:
        work = []
        for number, (person, avatar, _) in enumerate(pairs(find_persons(CASES), avatars=1)):
            if max(person.image.shape) == 1024:
                portrait = save(avatar.portrait(), Path(name) / f"avatar_{number}.png")
                image = save(swap(person, avatar), Path(name) / f"result_{number}.png")
                work.append(partial(score_swap, person, portrait, image))
        if any(call().outcome != "scored" for call in work):
            raise GenlabError("a local swap got no score; check that cases/ is unchanged")
        seconds = [float(np.median([*map(wall_seconds, work)])) for _ in range(repeats)]
    yield Result.median("swap.score_s", seconds, SEED)
