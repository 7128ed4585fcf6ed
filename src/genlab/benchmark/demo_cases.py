"""The cases of the demo, from photographs under free licences that packages contain.

The astronaut is in scikit-image, the officer in matplotlib; the groups are samples of the npm
package @vladmandic/face-api, whose author took them (`npm pack @vladmandic/face-api@1.7.15`, folder
package/demo). Without the samples, the photographs of the shipped cases are used as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image

from genlab.benchmark.case_files import Draft, draft_of, region_of
from genlab.benchmark.cases import CASE_FILE, Source, Swap, load_case
from genlab.benchmark.generate_cases import Made, write_missing
from genlab.benchmark.photographs import TEMPLATE_SIDE, crop_head, read_photograph, shrink
from genlab.benchmark.scoring import faces

SHIPPED = Path(__file__).resolve().parents[3] / "cases"
"""The cases of the repository, where this is a checkout of it."""
ASTRONAUT, OFFICER = "astronaut.png", "grace_hopper.jpg"
SOURCES = {
    ASTRONAUT: Source(
        title="Eileen Collins, official portrait",
        author="NASA",
        licence="public domain (work of the United States government)",
        url="https://scikit-image.org/docs/stable/api/skimage.data.html#skimage.data.astronaut",
    ),
    OFFICER: Source(
        title="Grace Hopper, official portrait",
        author="James S. Davis, United States Navy",
        licence="public domain (work of the United States government)",
        url="https://commons.wikimedia.org/wiki/"
        "File:Grace_Hopper,_smiling_portrait_photo_in_uniform.jpg",
    ),
}


@dataclass(frozen=True)
class Person:
    """Somebody in a photograph; at: a point of the face in its pixels."""

    photograph: str
    at: tuple[int, int]


@dataclass(frozen=True)
class Recipe:
    """A case: a cutting (left, top, right, bottom) of a photograph, and who replaces whom in it."""

    case_id: str
    title: str
    photograph: str
    cutting: tuple[int, int, int, int] | None
    swaps: tuple[tuple[str, str], ...]  # who is replaced, by whom


PERSONS = {
    "astronaut": Person(ASTRONAUT, (224, 115)),
    "officer": Person(OFFICER, (258, 200)),
    "bun": Person("sample3.jpg", (1160, 380)),
    "curls": Person("sample3.jpg", (680, 472)),
    "purple": Person("sample3.jpg", (1603, 458)),
    "choker": Person("sample4.jpg", (718, 200)),
    "ponytail": Person("sample4.jpg", (1041, 308)),
    "blonde": Person("sample4.jpg", (1323, 285)),
    "red-top": Person("sample5.jpg", (869, 220)),
    "necklace": Person("sample5.jpg", (1193, 329)),
    "orange-top": Person("sample5.jpg", (1484, 550)),
    "olive-dress": Person("sample6.jpg", (369, 654)),
    "wine-dress": Person("sample6.jpg", (758, 499)),
    "green-top": Person("sample6.jpg", (1587, 447)),
    "stripes": Person("sample6.jpg", (1280, 480)),
}
RECIPES = (
    Recipe(
        "astronaut-officer",
        "One person, portrait to portrait, another age",
        ASTRONAUT,
        None,
        (("astronaut", "officer"),),
    ),
    Recipe(
        "officer-astronaut",
        "One person, glasses to none",
        OFFICER,
        None,
        (("officer", "astronaut"),),
    ),
    Recipe(
        "sofa-one-of-three",
        "One of three replaced, the others stay",
        "sample3.jpg",
        (330, 60, 1920, 1200),
        (("bun", "green-top"),),
    ),
    Recipe(
        "window-two-avatars",
        "Two persons side by side, an avatar each",
        "sample6.jpg",
        (60, 180, 1060, 1180),
        (("olive-dress", "purple"), ("wine-dress", "bun")),
    ),
    Recipe(
        "stairs-two-of-four",
        "Two of four replaced in warm light",
        "sample5.jpg",
        (520, 0, 1860, 900),
        (("red-top", "olive-dress"), ("necklace", "wine-dress")),
    ),
    Recipe(
        "party-turned-heads",
        "Heads tilted and turned, one avatar each",
        "sample4.jpg",
        (540, 0, 1730, 900),
        (("choker", "green-top"), ("blonde", "curls")),
    ),
    Recipe(
        "window-four-avatars",
        "Four persons, four avatars",
        "sample6.jpg",
        (90, 90, 1830, 1140),
        (
            ("olive-dress", "red-top"),
            ("wine-dress", "purple"),
            ("stripes", "curls"),
            ("green-top", "bun"),
        ),
    ),
)


def generate_demo(
    root: Path, photographs: Path | None = None, *, force: bool = False, shipped: Path = SHIPPED
) -> Iterator[Made]:
    """Make the demo's cases under `root`; yields a line on each.

    photographs: folder of the groups' photographs (sample1.jpg to sample6.jpg); shipped: cases made
    of them, whose photographs serve where those are missing.
    """
    for recipe in RECIPES:
        folder = root / recipe.case_id
        names = {recipe.photograph, *(PERSONS[new].photograph for _, new in recipe.swaps)}
        lacking = sorted(name for name in names if _path(name, photographs) is None)
        if (folder / CASE_FILE).exists() and not force:
            yield Made(f"{folder}: exists, kept as it is")
        elif not lacking:
            yield Made(write_missing(_plan(recipe, photographs), root, force))
        elif (shipped / recipe.case_id / CASE_FILE).exists():
            yield Made(write_missing(_again(shipped / recipe.case_id), root, force))
        else:
            yield Made(
                f"{folder}: not made, {lacking[0]} is missing; run this in a clone of the"
                " repository, or get it with npm pack @vladmandic/face-api@1.7.15 and name the"
                " folder: --photographs package/demo",
                faulty=True,
            )


def _plan(recipe: Recipe, photographs: Path | None) -> Draft:
    photograph = _open(recipe.photograph, photographs)
    box = recipe.cutting or (0, 0, *photograph.size)
    template = shrink(photograph.crop(box), TEMPLATE_SIDE)
    scale = template.width / (box[2] - box[0])
    places = [PERSONS[old].at for old, _ in recipe.swaps]
    at = [((x - box[0]) * scale, (y - box[1]) * scale) for x, y in places]
    avatars = {new: _avatar(new, photographs) for _, new in recipe.swaps}
    sources = {"template": _source(recipe.photograph)}
    sources |= {new: _source(PERSONS[new].photograph) for _, new in recipe.swaps}
    swaps = _swaps(template, at, list(avatars))
    return Draft(recipe.case_id, recipe.title, True, template, avatars, swaps, sources)


def _again(folder: Path) -> Draft:
    """A shipped case from its photographs: the same persons, their regions found again."""
    case = load_case(folder)
    regions = [swap.region for swap in case.swaps]
    at = [(r.left + r.width / 2, r.top + r.height / 2) for r in regions]
    swaps = _swaps(case.open_template(), at, [swap.avatar for swap in case.swaps])
    return replace(draft_of(case), swaps=swaps)


def _swaps(template: Image.Image, at: list[tuple[float, float]], new: list[str]) -> list[Swap]:
    """For each point, the face of the template nearest to it and who replaces it."""
    seen = faces.found(np.asarray(template))
    return [
        Swap(region=region_of(_nearest(seen, point), template.size), avatar=name)
        for point, name in zip(at, new, strict=True)
    ]


def _avatar(name: str, photographs: Path | None) -> Image.Image:
    person = PERSONS[name]
    photograph = _open(person.photograph, photographs)
    return crop_head(photograph, _nearest(_seen(person.photograph, photographs), person.at))


@cache
def _seen(name: str, photographs: Path | None) -> list[faces.Face]:
    return faces.found(np.asarray(_open(name, photographs)))


def _nearest(seen: list[faces.Face], at: tuple[float, float]) -> faces.Face:
    def apart(face: faces.Face) -> float:
        left, top, right, bottom = face.box
        return ((left + right) / 2 - at[0]) ** 2 + ((top + bottom) / 2 - at[1]) ** 2

    return min(seen, key=apart)


@cache
def _open(name: str, photographs: Path | None) -> Image.Image:
    path = _path(name, photographs)
    assert path is not None
    return read_photograph(path)


def _path(name: str, photographs: Path | None) -> Path | None:
    if name == ASTRONAUT:
        import skimage

        path = Path(skimage.__file__).parent / "data" / name
    elif name == OFFICER:
        import matplotlib

        path = Path(matplotlib.get_data_path()) / "sample_data" / name
    elif photographs is not None:
        path = photographs / name
    else:
        return None
    return path if path.is_file() else None


def _source(name: str) -> Source:
    return SOURCES.get(name) or Source(
        title=f"{name} of the demo of @vladmandic/face-api 1.7.15",
        author="Vladimir Mandic, who took it",
        licence="MIT",
        url="https://github.com/vladmandic/face-api/tree/master/demo",
    )
