"""Make cases of photographs, a batch at a time.

Photographs are saved again, at most TEMPLATE_SIDE pixels per side and without metadata. An existing
case is kept unless it is to be replaced: somebody may have corrected it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from genlab.benchmark.cases import CASE_FILE, Source, Swap, load_case
from genlab.benchmark.cases.files import find_regions, free, slug, write_case
from genlab.benchmark.cases.photographs import TEMPLATE_SIDE, crop_avatar, read_photograph, shrink
from genlab.core.errors import GenlabError

MAX_PERSONS = 4  # replaced in one template, where no file of pairs says who
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
UNKNOWN = Source(licence="unknown: write here what allows its use")
PAIRS = ("template", "face", "avatar")
SHIPPED = Path(__file__).resolve().parents[4] / "cases"  # where this is a checkout


def generate(
    templates: Path,
    avatars: Path,
    root: Path,
    *,
    pairs: Path | None = None,
    consent: bool = False,
    force: bool = False,
) -> Iterator[str | GenlabError]:
    """Make a case in `root` of each photograph in `templates`; yields a line or fault on each.

    Without `pairs`, a CSV file of template, face and avatar, the persons of a template, from left
    to right and at most MAX_PERSONS, are replaced by the next avatars in turn. Raises a
    `GenlabError` where a folder holds no usable photograph.
    """
    heads: dict[str, Image.Image] = {}
    names: dict[str, str] = {}  # of avatars, by file name
    for path in _list_images(avatars):
        try:
            name = free(slug(path.stem), {*heads, "template"})
            heads[name] = crop_avatar(read_photograph(path), str(path))
            names[path.name] = name
            yield f"{path}: avatar {name}"
        except GenlabError as fault:
            yield fault
    if not heads:
        raise GenlabError(f"{avatars} holds no photograph with one face; put some there")
    given = _read_pairs(pairs) if pairs else None
    taken: set[str] = set()
    used = 0
    for path in _list_images(templates):
        try:
            template = shrink(read_photograph(path), TEMPLATE_SIDE)
            if given is None:
                swaps = _take_next(path, template, list(heads), used)
                used += len(swaps)
            else:
                swaps = _match_pairs(path, template, given.get(path.name, ()), names)
            case_id = free(slug(path.stem), taken)
            taken.add(case_id)
            chosen = {swap.avatar: heads[swap.avatar] for swap in swaps}
            sources = {"template": UNKNOWN.model_copy(update={"title": path.name})}
            content = {
                **{"title": path.stem, "consent": consent, "template": template, "swaps": swaps},
                **{"avatars": chosen, "sources": sources | dict.fromkeys(chosen, UNKNOWN)},
            }
            yield _write_missing(root / case_id, content, force)
        except GenlabError as fault:
            yield fault


def generate_demo(root: Path, *, force: bool = False) -> Iterator[str | GenlabError]:
    """Write the cases that ship with the repository to `root`; yields a line on each."""
    folders = sorted(path.parent for path in SHIPPED.glob(f"*/{CASE_FILE}"))
    if not folders:
        raise GenlabError(f"{SHIPPED} holds no case; run this in a clone of the repository")
    for folder in folders:
        yield _write_missing(root / folder.name, dict(load_case(folder)), force)


def _write_missing(folder: Path, content: Mapping[str, Any], force: bool) -> str:
    """Write a case unless it exists; returns a line that says which."""
    if (folder / CASE_FILE).exists() and not force:
        return f"{folder}: exists, kept as it is"
    case = write_case(folder, **content)
    persons = len(case.swaps)
    line = f"{folder}: {persons} person{'s' if persons > 1 else ''} to replace"
    return line if case.consent else f"{line}; set consent in {folder / CASE_FILE} before a run"


def _take_next(path: Path, template: Image.Image, names: Sequence[str], used: int) -> list[Swap]:
    """The largest faces, left to right, replaced by the next avatars in turn."""
    regions = find_regions(template)
    if not regions:
        raise GenlabError(f"{path}: no face is found, so no case is made")
    count = min(MAX_PERSONS, len(names))
    largest = sorted(regions, key=lambda region: -region.width)[:count]
    ordered = sorted(largest, key=lambda region: region.box)
    return [
        Swap(region=region, avatar=names[(used + number) % len(names)])
        for number, region in enumerate(ordered)
    ]


def _match_pairs(
    path: Path,
    template: Image.Image,
    pairs: Sequence[tuple[int, str]],
    names: Mapping[str, str],
) -> list[Swap]:
    """The faces that a file of pairs names, from 1 and left to right, with their avatars."""
    if not pairs:
        raise GenlabError(f"{path}: the file of pairs has no line for {path.name}")
    regions = find_regions(template)
    for number, avatar in pairs:
        if not 1 <= number <= len(regions):
            raise GenlabError(f"{path}: face {number} of {len(regions)} found; correct the pairs")
        if avatar not in names:
            raise GenlabError(f"{path}: no usable avatar is called {avatar!r}; correct the pairs")
    return [Swap(region=regions[number - 1], avatar=names[avatar]) for number, avatar in pairs]


def _read_pairs(path: Path) -> dict[str, list[tuple[int, str]]]:
    """By template's file name, the faces with the file names of their avatars."""
    try:
        reader = csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines(), strict=True)
        if tuple(reader.fieldnames or ()) != PAIRS:
            raise ValueError(f"line 1 must be {','.join(PAIRS)}")
        pairs: dict[str, list[tuple[int, str]]] = {}
        for row in reader:
            pairs.setdefault(row["template"], []).append((int(row["face"]), row["avatar"]))
    except (OSError, ValueError, TypeError, csv.Error) as error:
        raise GenlabError(f"{path}: no CSV file of pairs ({error}); correct it") from error
    return pairs


def _list_images(folder: Path) -> list[Path]:
    paths = [*folder.iterdir()] if folder.is_dir() else []
    images = sorted(path for path in paths if path.suffix.lower() in SUFFIXES)
    if not images:
        raise GenlabError(f"{folder} holds no photograph ({', '.join(SUFFIXES)}); put some there")
    return images
