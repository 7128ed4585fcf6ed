"""How much score can be bought without a swap.

The space, written before it was searched: a picture starts as the untouched template or as
`control_pasted`, and one to four filters are laid over it in turn. Each is one of FILTERS with an
amount drawn evenly from its range, and covers the whole picture, the heads, the faces, the hair
(heads without faces), hard at the border or softened by up to a tenth of the face's width. Nothing
of an avatar is blended in or warped; blurring the border of a pasted rectangle is blending, and so
no filter has its place there alone.

Of the tries per case half begin with each start. The first third are random; each later one
changes, adds or removes one filter of the best so far.

`swap.adversarial`: the highest score of each case, averaged, over the mean of `baseline_local`.
`details`: per case both starts' scores, the highest score and its filters. `--pictures` keeps what
won.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import cv2
import numpy as np
import PIL.Image
import typer
from PIL import ImageEnhance

from benchmarks.harness import Result, benchmark
from benchmarks.swap_scores import CASES, save
from genlab.benchmark.cases import Case, load_cases
from genlab.benchmark.scoring.background import background_zones
from genlab.benchmark.scoring.faces import Array, Image
from genlab.benchmark.scoring.geometry import Mask, face_mask
from genlab.benchmark.scoring.scorer import score
from genlab.benchmark.tools.controls import compress, enhance, paste_avatars
from genlab.benchmark.tools.face_tool import blend_images, find_pairs, jaw_width, lab_to_rgb
from genlab.benchmark.tools.local import swap_locally

MOST_FILTERS = 4
SOFT = 0.1  # softest border of a filter, in widths of the face
PLACES = ("picture", "heads", "faces", "hair")


def soften(image: Image, amount: float, side: float) -> Image:
    """Gaussian blur; amount: sigma in widths of the face."""
    return cv2.GaussianBlur(image, (0, 0), amount * side)


def sharpen(image: Image, amount: float, side: float) -> Image:
    """Unsharp mask."""
    soft = cv2.GaussianBlur(image, (0, 0), 0.02 * side)
    return cv2.addWeighted(image, 1 + amount, soft, -amount, 0)


def strew(image: Image, amount: float, side: float) -> Image:
    """Gaussian noise of `amount` levels."""
    noise = np.random.default_rng(0).normal(0, amount, image.shape)
    return np.clip(np.rint(image + noise), 0, 255).astype(np.uint8)


def recolour(axis: int) -> Callable[[Image, float, float], Image]:
    """An offset of one CIELAB channel."""

    def change(image: Image, amount: float, side: float) -> Image:
        lab = cv2.cvtColor(image, cv2.COLOR_RGB2LAB).astype(np.float32)
        lab[..., axis] += amount
        return lab_to_rgb(lab)

    return change


def bend(image: Image, amount: float, side: float) -> Image:
    """Gamma."""
    table = np.rint(255 * (np.arange(256) / 255) ** amount).astype(np.uint8)
    return cv2.LUT(image, table)


Filter = Callable[[Image, float, float], Image]
# Each with its range; the last parameter is the width of the face in pixels.
FILTERS: dict[str, tuple[Filter, float, float]] = {
    "contrast": (lambda image, x, side: enhance(image, ImageEnhance.Contrast, x), 0.4, 1.7),
    "exposure": (lambda image, x, side: enhance(image, ImageEnhance.Brightness, x), 0.5, 1.6),
    "saturation": (lambda image, x, side: enhance(image, ImageEnhance.Color, x), 0.0, 2.0),
    "gamma": (bend, 0.5, 2.0),
    "light": (recolour(0), -50, 50),
    "green-red": (recolour(1), -30, 30),
    "blue-yellow": (recolour(2), -30, 30),
    "blur": (soften, 0.005, 0.15),
    "sharpen": (sharpen, 0.2, 3.0),
    "noise": (strew, 2, 30),
    "jpeg": (lambda image, x, side: compress(image, round(x)), 10, 90),
}


@dataclass(frozen=True)
class Step:
    """A filter in a place. amount: of FILTERS; soft: sigma of its border, in widths of the face."""

    name: str
    amount: float
    place: str
    soft: float

    @classmethod
    def draw(cls, random: np.random.Generator) -> "Step":
        """A step drawn evenly from the space."""
        name = str(random.choice([*FILTERS]))
        amount = float(random.uniform(*FILTERS[name][1:]))
        soft = float(random.choice([0.0, random.uniform(0, SOFT)]))
        return cls(name, amount, str(random.choice(PLACES)), soft)

    def apply(self, image: Image, places: dict[str, Mask], side: float) -> Image:
        """`image` with this filter."""
        changed = FILTERS[self.name][0](image, self.amount, side)
        share = places[self.place].astype(np.float32)
        if self.soft * side > 0.5:
            share = cv2.GaussianBlur(share, (0, 0), self.soft * side)
        return blend_images(changed, image, share[..., None])

    def __str__(self) -> str:
        return f"{self.name} {self.amount:.2g} on {self.place}"


def find_places(case: Case) -> tuple[dict[str, Mask], float]:
    """The masks of PLACES and the mean width of the swapped faces in pixels."""
    image: Array = np.asarray(case.open_template())
    people = [target for target, _ in find_pairs(case)]
    side = float(np.mean([jaw_width(face.landmarks) for face in people]))
    heads = ~background_zones(image.shape, people, 1.0)[0]
    inner = np.zeros(image.shape[:2], dtype=bool)
    for face in people:
        inner |= face_mask(face.landmarks, image.shape)
    everywhere = np.ones_like(inner)
    masks = (everywhere, heads, inner, heads & ~inner)
    return dict(zip(PLACES, masks, strict=True)), side


def propose(best: list[Step], random: np.random.Generator) -> list[Step]:
    """`best` with one filter changed, added or removed."""
    steps = list(best)
    kinds = ["change"]
    if len(steps) < MOST_FILTERS:
        kinds.append("add")
    if len(steps) > 1:
        kinds.append("remove")
    kind = random.choice(kinds)
    place = int(random.integers(len(steps)))
    if kind == "add":
        steps.insert(place, Step.draw(random))
    elif kind == "remove":
        del steps[place]
    else:
        steps[place] = Step.draw(random)
    return steps


def search(
    case: Case, start: Image, tries: int, random: np.random.Generator, path: Path
) -> tuple[float, float, list[Step], Image]:
    """The score of the start; the highest score, its filters and its picture."""
    places, side = find_places(case)
    plain = score(case, save(start, path)).score or 0.0
    best = plain
    winner: list[Step] = []
    picture = start
    for number in range(tries):
        count = int(random.integers(1, MOST_FILTERS + 1))
        steps = [Step.draw(random) for _ in range(count)]
        if winner and number >= tries // 3:
            steps = propose(winner, random)
        image = start
        for step in steps:
            image = step.apply(image, places, side)
        value = score(case, save(image, path)).score or 0.0
        if value > best:
            best = value
            winner = steps
            picture = image
    return plain, best, winner, picture


@benchmark("swap.adversarial")
def swap_adversarial(
    tries: Annotated[int, typer.Option(min=2, help="Tries per case.")] = 300,
    seed: int = 0,
    pictures: Annotated[Path | None, typer.Option(help="Folder for the pictures that win.")] = None,
) -> Iterator[Result]:
    """Search for pictures without a swap that score high."""
    highest = []
    local = []
    won = {}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "picture.png"
        for number, case in enumerate(load_cases(CASES)):
            local.append(score(case, save(swap_locally(case, {}), path)).score or 0.0)
            starts = {
                "untouched": np.asarray(case.open_template()),
                "pasted": paste_avatars(case, {}),
            }
            attacks = {}
            for place, (name, start) in enumerate(starts.items()):
                random = np.random.default_rng([seed, number, place])
                plain, best, steps, picture = search(case, start, tries // 2, random, path)
                attacks[name] = {"start": plain, "best": best, "filters": [*map(str, steps)]}
                if pictures is not None:
                    pictures.mkdir(parents=True, exist_ok=True)
                    PIL.Image.fromarray(picture).save(pictures / f"{case.case_id}_{name}.jpg")
            won[case.case_id] = {"local": local[-1], **attacks}
            highest.append(max(float(result["best"]) for result in attacks.values()))
            print(f"  {case.case_id}: {won[case.case_id]}", flush=True)
    details = {"tries": tries, "cases": won}
    ratio = float(np.mean(highest) / np.mean(local))
    yield Result("swap.adversarial", ratio, n=len(highest), seeds=(seed,), details=details)
