"""Make cases: those of the demo, or of a person's own photographs.

Regions are the faces that are found; whoever finds one wrong corrects its numbers in case.yaml.
A case that is there already is never written over unless that is asked for: somebody may have
corrected it. Photographs are saved anew, at most 1024 pixels a side, so that where and when they
were taken (EXIF) doesn't come along.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
from PIL import Image

from genlab.benchmark import faces
from genlab.benchmark.cases import CASE_FILE, Region, Source, Swap, load_case, open_upright
from genlab.core.artifacts import whole, write_text
from genlab.core.console import GenlabError

LONGEST = 1024  # pixels of a template's longer side
AVATAR = 512  # pixels of an avatar's side
HEAD = 2.3  # side of an avatar's cutting in widths of its face
QUALITY = 90  # of JPEG
MOST_PERSONS = 4  # replaced in one template, where nobody says who
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")

TEXT = """\
# A case of the person-swap benchmark: who takes whose place in a photograph.
# Regions are faces in pixels of the template, upright, counted from its top left corner. They were
# found by a program: where one is wrong, correct its numbers here.
version: 1
title: {title}

# Whether all persons shown agree to this use, or the photographs' licence and purpose allow it.
# Without that no run takes the case.
consent: {consent}

template: {template}
avatars:            # photographs of the persons that take places, by a name
{avatars}
swaps:              # who (avatar) takes the place of the person at a region
{swaps}
sources:            # where each photograph is from and what allows its use
{sources}
"""


@dataclass(frozen=True)
class Plan:
    """A case before it is written: the images at their final size."""

    case_id: str
    title: str
    consent: bool
    template: Image.Image
    avatars: Mapping[str, Image.Image]
    swaps: Sequence[Swap]
    sources: Mapping[str, Source]


def pair(templates: Path, avatars: Path, root: Path, *, force: bool = False) -> list[str]:
    """Make a case of each photograph in `templates`, with persons of `avatars` in turn.

    Its persons, from left to right, are replaced by as many avatars, at most 4; consent is false
    until somebody writes true. Returns a line a photograph: the case, or why there is none.
    """
    given = [path for path in _images(avatars) if _has_face(path)]
    if not given:
        raise GenlabError(f"{avatars} holds no photograph with a face; put some there")
    lines: list[str] = []
    first = 0
    for path in _images(templates):
        template = shrunk(open_upright(path), LONGEST)
        seen = faces.found(np.asarray(template))[: min(MOST_PERSONS, len(given))]
        if not seen:
            lines.append(f"{path}: no face was found, no case is made")
            continue
        chosen = [given[(first + offset) % len(given)] for offset in range(len(seen))]
        first += len(seen)
        lines.append(write_missing(_paired(path, template, seen, chosen), root, force))
    if not lines:
        raise GenlabError(
            f"{templates} holds no photograph ({', '.join(SUFFIXES)}); put some there"
        )
    return lines


def write_case(plan: Plan, folder: Path) -> None:
    """Write a case whole: its text comes last, so that a folder without it is no case."""
    files = {"template": (plan.template, "template.jpg")}
    files |= {name: (image, f"avatar_{name}.jpg") for name, image in plan.avatars.items()}
    for image, name in files.values():
        with whole(folder / name) as temporary:
            image.save(temporary, "JPEG", quality=QUALITY, optimize=True)
    swaps = [
        f"  - region: {{left: {r.left}, top: {r.top}, width: {r.width}, height: {r.height}}}\n"
        f"    avatar: {swap.avatar}"
        for swap in plan.swaps
        for r in (swap.region,)
    ]
    sources = [
        f"  {name}:\n" + "\n".join(f"    {key}: {quoted(value)}" for key, value in source)
        for name, source in plan.sources.items()
    ]
    text = TEXT.format(
        title=quoted(plan.title),
        consent=str(plan.consent).lower(),
        template=files["template"][1],
        avatars="\n".join(f"  {name}: {files[name][1]}" for name in plan.avatars),
        swaps="\n".join(swaps),
        sources="\n".join(sources),
    )
    write_text(folder / CASE_FILE, text)
    load_case(folder)


def region_of(face: faces.Face, size: tuple[int, int]) -> Region:
    """The box of a face, cut at the image's borders."""
    left, top, right, bottom = face.box
    left, top = max(0, left), max(0, top)
    width, height = min(right, size[0]) - left, min(bottom, size[1]) - top
    return Region(left=left, top=top, width=width, height=height)


def head_of(image: Image.Image, face: faces.Face) -> Image.Image:
    """Head and shoulders of a person, at most 512 pixels a side."""
    left, top, right, bottom = face.box
    half = HEAD * max(right - left, bottom - top) / 2
    x, y = (left + right) / 2, (top + bottom) / 2
    low, high = (max(0.0, x - half), max(0.0, y - half)), (x + half, y + half)
    cut = (*low, min(float(image.width), high[0]), min(float(image.height), high[1]))
    return shrunk(image.crop(cut), AVATAR)


def shrunk(image: Image.Image, longest: int) -> Image.Image:
    """The image with its longer side at most `longest`."""
    image = image.copy()
    image.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    return image


def quoted(text: str) -> str:
    """Text as YAML in one line, whatever is in it."""
    return json.dumps(text, ensure_ascii=False)


def write_missing(plan: Plan, root: Path, force: bool) -> str:
    """Write a plan unless its case is there; returns a line that says which."""
    folder = root / plan.case_id
    if (folder / CASE_FILE).exists():
        if not force:
            return f"{folder}: there already, left as it is"
        shutil.rmtree(folder)
    write_case(plan, folder)
    persons = len(plan.swaps)
    line = f"{folder}: {persons} person{'s' if persons > 1 else ''} to replace"
    if not plan.consent:
        line += f"; set consent in {folder / CASE_FILE} before a run"
    return line


def _paired(
    path: Path, template: Image.Image, seen: Sequence[faces.Face], chosen: Sequence[Path]
) -> Plan:
    """Persons from left to right, avatars in the order given."""
    names: dict[Path, str] = {}
    for avatar in chosen:
        names.setdefault(avatar, _free(_slug(avatar.stem), names.values()))
    ordered = sorted(seen, key=lambda face: face.box)
    swaps = [
        Swap(region=region_of(face, template.size), avatar=names[avatar])
        for face, avatar in zip(ordered, chosen, strict=True)
    ]
    licence = Source(licence="not said: write here what allows its use")
    return Plan(
        case_id=_slug(path.stem),
        title=path.stem,
        consent=False,
        template=template,
        avatars={name: _head(avatar) for avatar, name in names.items()},
        swaps=swaps,
        sources=dict.fromkeys(("template", *names.values()), licence),
    )


def _head(path: Path) -> Image.Image:
    image = open_upright(path)
    return head_of(image, faces.found(np.asarray(image))[0])


def _has_face(path: Path) -> bool:
    return bool(faces.found(np.asarray(open_upright(path))))


def _images(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise GenlabError(f"{folder} is no folder of photographs; name one")
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60] or "photograph"


def _free(name: str, taken: Collection[str]) -> str:
    if name not in taken and name != "template":
        return name
    return next(f"{name}-{n}" for n in count(2) if f"{name}-{n}" not in taken)
