"""Make cases of photographs, a batch at a time.

Photographs are saved again, at most TEMPLATE_SIDE pixels per side and without metadata. An existing
case is kept unless it is to be replaced: somebody may have corrected it.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from genlab.benchmark.cases import CASE_FILE, Region, Source, Swap, load_case
from genlab.benchmark.cases.files import find_regions, free, slug, write_case
from genlab.benchmark.cases.photographs import TEMPLATE_SIDE, crop_avatar, read_photograph, shrink
from genlab.benchmark.scoring.persons import in_front
from genlab.core.errors import GenlabError

MAX_PERSONS = 4  # replaced in one template, where no file of pairs says who
SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
UNKNOWN = Source(licence="unknown: write here what allows its use")
COLUMNS = ("template", "face", "avatar")
Pairs = list[tuple[int, str]]
"""Numbers of faces, from 1, with the file names of their avatars."""
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

    Without `pairs`, a CSV file of template, face and avatar, the persons of a template, without
    bystanders and at most MAX_PERSONS, are replaced by the next avatars in turn. Raises a
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
            if given is not None and path.name not in given:
                raise GenlabError(f"{path}: the file of pairs has no line for {path.name}")
            regions = find_regions(template)
            if not regions:
                raise GenlabError(f"{path}: no face is found, so no case is made")
            wanted = given[path.name] if given else _choose_next(regions, list(names), used)
            for number, file in wanted:
                if not 1 <= number <= len(regions):
                    line = f"{path}: face {number} of {len(regions)} found"
                    raise GenlabError(f"{line}; correct the pairs")
                if file not in names:
                    line = f"{path}: no usable avatar is called {file!r}"
                    raise GenlabError(f"{line}; correct the pairs")
            swaps = [Swap(region=regions[n - 1], avatar=names[file]) for n, file in wanted]
            used += len(swaps)
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
    return line if case.may_run else f"{line}; set consent in {folder / CASE_FILE} before a run"


def _choose_next(regions: Sequence[Region], names: Sequence[str], used: int) -> Pairs:
    """The largest faces, by number, with the next avatars in turn; bystanders stay."""
    by_width = sorted(in_front(regions), key=lambda region: -region.width)
    numbers = [regions.index(region) + 1 for region in by_width]
    largest = sorted(numbers[: min(MAX_PERSONS, len(names))])
    return [(n, names[(used + turn) % len(names)]) for turn, n in enumerate(largest)]


def _read_pairs(path: Path) -> dict[str, Pairs]:
    """The pairs by the template's file name."""
    try:
        reader = csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines(), strict=True)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise ValueError(f"line 1 must be {','.join(COLUMNS)}")
        pairs: dict[str, Pairs] = {}
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
