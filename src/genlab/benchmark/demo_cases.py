"""The cases of the demo, from photographs under free licences that packages bring along.

The astronaut comes with scikit-image, the officer with matplotlib; the groups are samples of the
npm package @vladmandic/face-api, whose author took them: `npm pack @vladmandic/face-api@1.7.15`,
folder package/demo. The cases made of them lie in the repository, so that nobody needs that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image

from genlab.benchmark import faces
from genlab.benchmark.cases import Source, Swap, open_upright
from genlab.benchmark.generate_cases import (
    LONGEST,
    Plan,
    head_of,
    region_of,
    shrunk,
    write_missing,
)

GROUPS = tuple(f"sample{number}.jpg" for number in range(1, 7))
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


def generate_demo(root: Path, photographs: Path | None = None, *, force: bool = False) -> list[str]:
    """Make the demo's cases under `root`; returns a line a case: made, there, or what lacks.

    photographs: folder of the groups' photographs (sample1.jpg to sample6.jpg); without it only
    the cases of the portraits can be made anew.
    """
    lines = []
    for recipe in RECIPES:
        names = {recipe.photograph, *(PERSONS[new].photograph for _, new in recipe.swaps)}
        lacking = sorted(name for name in names if _path(name, photographs) is None)
        if lacking and (force or not (root / recipe.case_id).exists()):
            lines.append(
                f"{root / recipe.case_id}: not made, {lacking[0]} is not there; get it with npm"
                " pack @vladmandic/face-api@1.7.15 and name the folder: --photographs package/demo"
            )
        elif lacking:
            lines.append(f"{root / recipe.case_id}: there already, left as it is")
        else:
            lines.append(write_missing(_plan(recipe, photographs), root, force))
    return lines


def _plan(recipe: Recipe, photographs: Path | None) -> Plan:
    photograph = _open(recipe.photograph, photographs)
    box = recipe.cutting or (0, 0, *photograph.size)
    template = shrunk(photograph.crop(box), LONGEST)
    scale = template.width / (box[2] - box[0])
    seen = faces.found(np.asarray(template))
    swaps = []
    for old, new in recipe.swaps:
        x, y = PERSONS[old].at
        face = _nearest(seen, ((x - box[0]) * scale, (y - box[1]) * scale))
        swaps.append(Swap(region=region_of(face, template.size), avatar=new))
    avatars = {new: _avatar(new, photographs) for _, new in recipe.swaps}
    sources = {"template": _source(recipe.photograph)}
    sources |= {new: _source(PERSONS[new].photograph) for _, new in recipe.swaps}
    return Plan(recipe.case_id, recipe.title, True, template, avatars, swaps, sources)


def _avatar(name: str, photographs: Path | None) -> Image.Image:
    person = PERSONS[name]
    photograph = _open(person.photograph, photographs)
    return head_of(photograph, _nearest(_seen(person.photograph, photographs), person.at))


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
    return open_upright(path)


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
