"""Make cases from folders of photographs.

Photographs are saved again, at most TEMPLATE_SIDE pixels per side and without metadata. An existing
case is not overwritten unless asked for: somebody may have corrected it.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from genlab.benchmark.cases import CASE_FILE, Region, Source, Swap, load_case
from genlab.benchmark.cases.files import find_regions, slugify, unique_name, write_case
from genlab.benchmark.cases.photographs import TEMPLATE_SIDE, crop_avatar, read_photograph, shrink
from genlab.benchmark.scoring.persons import drop_bystanders
from genlab.core import picture
from genlab.core.errors import GenlabError
from genlab.core.paths import normalise_name, resolve_path

MAX_PERSONS = 4  # replaced in one template, where no file of pairs says who
SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp")
MAGIC_BYTES = (b"\xff\xd8\xff", b"\x89PNG")  # of photographs with another suffix or none
UNKNOWN = Source(licence="unknown: write here what allows its use")
COLUMNS = ("template", "face", "avatar")
Pairs = list[tuple[int, str]]
"""Numbers of faces, from 1, with the readable file names of their avatars."""
SHIPPED = Path(__file__).resolve().parents[4] / "cases"  # where this is a checkout


def generate_cases(
    templates: Path,
    avatars: Path,
    root: Path,
    *,
    pairs: Path | None = None,
    consent: bool = False,
    force: bool = False,
) -> Iterator[str | GenlabError]:
    """Make a case in `root` of each photograph in `templates`; yields a line or fault on each.

    pairs: a CSV file of template, face and avatar. Without it, the next avatars in turn replace the
    persons of a template, at most MAX_PERSONS and no bystanders. Raises a `GenlabError` where a
    folder holds no usable photograph.
    """
    avatar_names: dict[str, str] = {}
    heads: dict[str, Image.Image] = {}
    yield from _crop_avatars(avatars, avatar_names, heads)
    photographs, lines = _list_photographs(templates)
    yield from lines
    chosen_pairs = _read_pairs(resolve_path(pairs)) if pairs else None
    for file, (line, _) in (chosen_pairs or {}).items():
        if file not in photographs:
            fault = f"{pairs}: line {line}: {templates} holds no photograph {file!r}; correct it"
            yield GenlabError(fault)
    taken: set[str] = set()
    used_avatars = 0
    for file, path in photographs.items():
        try:
            template = shrink(read_photograph(path), TEMPLATE_SIDE)
            if chosen_pairs is not None and file not in chosen_pairs:
                raise GenlabError(f"{path}: the file of pairs has no line for {file}")
            regions = find_regions(template)
            if not regions:
                raise GenlabError(f"{path}: no face is found, so no case is made")
            if chosen_pairs:
                template_pairs = chosen_pairs[file][1]
            else:
                template_pairs = _choose_next(regions, list(avatar_names), used_avatars)
            swaps = [
                _make_swap(path, regions, number, avatar_names, avatar)
                for number, avatar in template_pairs
            ]
            used_avatars += len(swaps)
            title = Path(file).stem
            case_id = unique_name(slugify(title), taken)
            taken.add(case_id)
            avatar_heads = {swap.avatar: heads[swap.avatar] for swap in swaps}
            template_source = UNKNOWN.model_copy(update={"title": file})
            content = {
                "title": title,
                "consent": consent,
                "template": template,
                "swaps": swaps,
                "avatars": avatar_heads,
                "sources": {"template": template_source} | dict.fromkeys(avatar_heads, UNKNOWN),
            }
            yield _write_missing(root / case_id, content, force)
        except GenlabError as fault:
            yield fault


def _crop_avatars(
    folder: Path, names: dict[str, str], heads: dict[str, Image.Image]
) -> Iterator[str | GenlabError]:
    """Crop the avatars of a folder; yields a line or fault on each photograph.

    names: filled with the avatars' names, by readable file name; heads: filled with their pictures,
    by name. Raises a `GenlabError` where no photograph shows one face.
    """
    photographs, lines = _list_photographs(folder)
    yield from lines
    for file, path in photographs.items():
        try:
            name = unique_name(slugify(Path(file).stem), {*heads, "template"})
            heads[name] = crop_avatar(read_photograph(path), str(path))
            names[file] = name
            yield f"{path}: avatar {name}"
        except GenlabError as fault:
            yield fault
    if not heads:
        raise GenlabError(f"{folder} holds no photograph with one face; put some there")


def _make_swap(
    path: Path, regions: Sequence[Region], number: int, names: Mapping[str, str], file: str
) -> Swap:
    """Make the swap of face `number` of a template; names: of avatars, by their files."""
    if not 1 <= number <= len(regions):
        raise GenlabError(f"{path}: face {number} of {len(regions)} found; correct the pairs")
    if file not in names:
        raise GenlabError(f"{path}: no usable avatar is called {file!r}; correct the pairs")
    return Swap(region=regions[number - 1], avatar=names[file])


def copy_shipped_cases(root: Path, *, force: bool = False) -> Iterator[str | GenlabError]:
    """Copy the cases that ship with the repository to `root`; yields a line on each."""
    folders = sorted(path.parent for path in SHIPPED.glob(f"*/{CASE_FILE}"))
    if not folders:
        raise GenlabError(f"{SHIPPED} holds no case; run this in a clone of the repository")
    for folder in folders:
        yield _write_missing(root / folder.name, dict(load_case(folder)), force)


def _write_missing(folder: Path, content: Mapping[str, Any], force: bool) -> str:
    """Write a case unless it exists; returns a line that says whether it was written."""
    if (folder / CASE_FILE).exists() and not force:
        return f"{folder}: exists, kept as it is"
    case = write_case(folder, **content)
    persons = len(case.swaps)
    line = f"{folder}: {persons} person{'s' if persons > 1 else ''} to replace"
    return line if case.may_run else f"{line}; set consent in {folder / CASE_FILE} before a run"


def _choose_next(regions: Sequence[Region], names: Sequence[str], used: int) -> Pairs:
    """Assign the next avatars in turn to the largest faces; bystanders stay."""
    by_width = sorted(drop_bystanders(regions), key=lambda region: -region.width)
    numbers = [regions.index(region) + 1 for region in by_width]
    largest = sorted(numbers[: min(MAX_PERSONS, len(names))])
    return [(number, names[(used + turn) % len(names)]) for turn, number in enumerate(largest)]


def _read_pairs(path: Path) -> dict[str, tuple[int, Pairs]]:
    """Read a CSV file: the first line and the pairs of each template, by readable file name."""
    try:
        reader = csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines(), strict=True)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise ValueError(f"line 1 must be {','.join(COLUMNS)}")
        pairs: dict[str, tuple[int, Pairs]] = {}
        for row in reader:
            template = normalise_name(row["template"])
            _, template_pairs = pairs.setdefault(template, (reader.line_num, []))
            template_pairs.append((int(row["face"]), normalise_name(row["avatar"])))
    except UnicodeDecodeError as error:
        raise GenlabError(f"{path} is not UTF-8 text; save it as CSV in UTF-8") from error
    except (OSError, ValueError, TypeError, csv.Error) as error:
        raise GenlabError(f"{path}: no CSV file of pairs ({error}); correct it") from error
    return pairs


def _list_photographs(folder: Path) -> tuple[dict[str, Path], list[str | GenlabError]]:
    """List the photographs of a folder by readable name, and a line for each other file.

    Hidden files are left out without a line. Raises a `GenlabError` where there is no photograph.
    """
    resolved = resolve_path(folder)
    if not resolved.is_dir():
        raise GenlabError(f"{folder} is no folder; name one that holds photographs")
    photographs: dict[str, Path] = {}
    lines: list[str | GenlabError] = []
    for path in sorted(path for path in resolved.iterdir() if not path.name.startswith(".")):
        start = _read_start(path)
        suffix = path.suffix.lower()
        name = normalise_name(path.name)
        is_webp = start[8:] == b"WEBP"
        is_photograph = suffix in SUFFIXES or start.startswith(MAGIC_BYTES) or is_webp
        if is_photograph and name in photographs:
            fault = f"{path} and another file have one name in two encodings; rename one of them"
            lines.append(GenlabError(fault))
        elif is_photograph:
            photographs[name] = path
        elif suffix in picture.SUFFIXES or picture.is_picture(start):
            fix = "save it as JPEG, PNG or WebP"
            lines.append(GenlabError(f"{path}: pictures of this type are not read; {fix}"))
        else:
            lines.append(f"{path}: left out, since it is no photograph")
    if not photographs:
        others = f"; {len(lines)} other files are there" if lines else ""
        raise GenlabError(f"{folder} holds no photograph ({', '.join(SUFFIXES)}){others}")
    return photographs, lines


def _read_start(path: Path) -> bytes:
    """Return the first 12 bytes of a file, and none of a file that cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(12)
    except OSError:
        return b""
