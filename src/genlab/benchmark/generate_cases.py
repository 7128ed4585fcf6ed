"""Make cases: those of the demo, or of a person's own photographs.

Regions are the faces that are found; whoever finds one wrong corrects its numbers in case.yaml.
A case that is there already is never written over unless that is asked for: somebody may have
corrected it; the new one is then written beside it and takes its place once it is whole.
Photographs are saved again, at most 1024 pixels a side, so that where and when they were taken
(EXIF) doesn't come along.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from genlab.benchmark import faces
from genlab.benchmark.case_names import free, numbered, slug
from genlab.benchmark.cases import CASE_FILE, Region, Source, Swap, load_case, open_upright
from genlab.core.errors import GenlabError
from genlab.core.io import atomic_write, write_text

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
    """A case before it is written: images at their final size, or JPEG files to be copied."""

    case_id: str
    title: str
    consent: bool
    template: Image.Image | Path
    avatars: Mapping[str, Image.Image | Path]
    swaps: Sequence[Swap]
    sources: Mapping[str, Source]


@dataclass(frozen=True)
class Told:
    """What became of one photograph or case, in a line; faulty: nothing could be made of it."""

    line: str
    faulty: bool = False


def pair(templates: Path, avatars: Path, root: Path, *, force: bool = False) -> Iterator[Told]:
    """Make a case of each photograph in `templates`, with persons of `avatars` in turn.

    Its persons, from left to right, are replaced by as many avatars, at most 4; consent is false
    until somebody writes true. Tells of each photograph as it is done; one that is faulty is passed
    over. Raises a `GenlabError` where a folder holds none that is of use.
    """
    heads: dict[str, Image.Image] = {}
    for path in _images(avatars):
        try:
            name = free(slug(path.stem), {*heads, "template"})
            heads[name] = _head(path)
            yield Told(f"{path}: avatar {name}")
        except GenlabError as fault:
            yield Told(str(fault), faulty=True)
    if not heads:
        raise GenlabError(f"{avatars} holds no photograph with a face; put some there")
    photographs = _images(templates)
    if not photographs:
        raise GenlabError(
            f"{templates} holds no photograph ({', '.join(SUFFIXES)}); put some there"
        )
    made: set[str] = set()
    names = list(heads)
    first = 0
    for path in photographs:
        try:
            template = shrunk(open_upright(path), LONGEST)
            seen = faces.found(np.asarray(template))[: min(MOST_PERSONS, len(names))]
            if not seen:
                raise GenlabError(f"{path}: no face was found, no case is made")
            chosen = [names[(first + offset) % len(names)] for offset in range(len(seen))]
            first += len(seen)
            case_id = _home(root, path, made)
            made.add(case_id)
            shown = {name: heads[name] for name in chosen}
            yield Told(write_missing(_paired(case_id, path, template, seen, shown), root, force))
        except GenlabError as fault:
            yield Told(str(fault), faulty=True)


def write_case(plan: Plan, folder: Path) -> None:
    """Write a case whole or not at all: beside `folder`, whose place it then takes."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".genlab-", dir=folder.parent) as beside:
        new, old = Path(beside) / "new" / folder.name, Path(beside) / "old"
        _write(plan, new)
        if folder.exists():
            folder.rename(old)
        try:
            new.rename(folder)
        except OSError:
            if old.exists():
                old.rename(folder)
            raise


def _write(plan: Plan, folder: Path) -> None:
    files = {"template": (plan.template, "template.jpg")}
    files |= {name: (image, f"avatar_{name}.jpg") for name, image in plan.avatars.items()}
    for image, name in files.values():
        with atomic_write(folder / name) as temporary:
            if isinstance(image, Path):
                shutil.copyfile(image, temporary)
            else:
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
    if (folder / CASE_FILE).exists() and not force:
        return f"{folder}: there already, left as it is"
    write_case(plan, folder)
    persons = len(plan.swaps)
    line = f"{folder}: {persons} person{'s' if persons > 1 else ''} to replace"
    if not plan.consent:
        line += f"; set consent in {folder / CASE_FILE} before a run"
    return line


def _paired(
    case_id: str,
    path: Path,
    template: Image.Image,
    seen: Sequence[faces.Face],
    heads: Mapping[str, Image.Image],
) -> Plan:
    """Persons from left to right, avatars in the order given."""
    ordered = sorted(seen, key=lambda face: face.box)
    swaps = [
        Swap(region=region_of(face, template.size), avatar=name)
        for face, name in zip(ordered, heads, strict=True)
    ]
    licence = "not said: write here what allows its use"
    sources = {"template": Source(title=path.name, licence=licence)}
    sources |= dict.fromkeys(heads, Source(licence=licence))
    return Plan(case_id, path.stem, False, template, heads, swaps, sources)


def _home(root: Path, path: Path, made: Collection[str]) -> str:
    """The id of a photograph's case: its own from an earlier call, else one that is free.

    made: ids of this call. Whose case it is tells the photograph's name within: `IMG 1.png` and
    `img-1.jpg` would both be `img-1`.
    """
    for name in numbered(slug(path.stem)):
        if name in made:
            continue
        known = root / name / CASE_FILE
        if not known.exists():
            return name
        if f"title: {quoted(path.name)}" in known.read_text(encoding="utf-8", errors="replace"):
            return name
    raise AssertionError("the numbers don't end")


def _head(path: Path) -> Image.Image:
    image = open_upright(path)
    seen = faces.found(np.asarray(image))
    if not seen:
        raise GenlabError(f"{path}: no face was found, so it is no avatar")
    return head_of(image, seen[0])


def _images(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise GenlabError(f"{folder} is no folder of photographs; name one")
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
