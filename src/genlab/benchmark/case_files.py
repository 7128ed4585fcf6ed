"""Write, duplicate and delete the folders of cases."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jinja2
from PIL import Image

from genlab.benchmark.cases import CASE_FILE, Case, Region, Source, Swap, load_case
from genlab.benchmark.photographs import find_faces, read_photograph
from genlab.benchmark.scoring.faces import Face
from genlab.benchmark.store.schema import now
from genlab.core.errors import GenlabError
from genlab.core.io import atomic_write, write_text

QUALITY = 90  # of JPEG
BIN = ".bin"

TEXT = """\
# A case of the person-swap benchmark: who is replaced by whom in a photograph.
# Regions are faces in pixels of the upright template, from its top left corner. A program found
# them: where one is wrong, correct its numbers here.
version: 1
title: {{ draft.title|json }}

# Whether all persons shown agree to this use, or the photographs' licence and purpose allow it.
# Runs skip a case without consent.
consent: {{ draft.consent|json }}

template: template.jpg
{% if draft.ideal %}
ideal: ideal.jpg    # the ideal result; tools do not see it
{% endif %}
avatars:            # photographs of the persons who replace others, by a name
{% for name in draft.avatars %}
  {{ name }}: avatar_{{ name }}.jpg
{% endfor %}
swaps:              # who (avatar) replaces the person at a region
{% for swap in draft.swaps %}
  - region: {{ swap.region.model_dump()|flow }}
    avatar: {{ swap.avatar }}
{% endfor %}
sources:            # where each photograph is from and what allows its use
{% for name, source in draft.sources.items() %}
  {{ name }}:
{% for key, value in source %}
    {{ key }}: {{ value|json }}
{% endfor %}
{% endfor %}
"""


@dataclass(frozen=True)
class Draft:
    """A case before it is written; images are PIL images or image files."""

    case_id: str
    title: str
    consent: bool
    template: Image.Image | Path
    avatars: Mapping[str, Image.Image | Path]
    swaps: Sequence[Swap]
    sources: Mapping[str, Source]
    ideal: Image.Image | Path | None = None


def draft_of(case: Case) -> Draft:
    """The draft that writes `case` as it is."""
    return Draft(
        case.case_id, case.title, case.consent, case.template, case.avatars, case.swaps,
        case.sources, case.ideal,
    )  # fmt: skip


def write_case(draft: Draft, root: Path) -> Case:
    """Write a case to `root`, whole or not at all; an existing one is replaced.

    Raises a `GenlabError` where the draft is no valid case.
    """
    folder = root / draft.case_id
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".genlab-", dir=root) as beside:
        new, old = Path(beside) / "new" / folder.name, Path(beside) / "old"
        _write_files(draft, new)
        load_case(new)
        if folder.exists():
            folder.rename(old)
        try:
            new.rename(folder)
        except OSError:
            if old.exists():
                old.rename(folder)
            raise
    return load_case(folder)


def duplicate_case(case: Case, case_id: str) -> Case:
    """Write a copy of a case beside it under another name."""
    if (case.folder.parent / case_id).exists():
        raise GenlabError(f"{case.folder.parent / case_id} exists; choose another name")
    return write_case(replace(draft_of(case), case_id=case_id), case.folder.parent)


def delete_case(case: Case) -> Path:
    """Move a private case to the bin beside it; returns where it is now."""
    if not case.is_private:
        raise GenlabError(f"{case.folder} is a shipped case; only private cases are deleted")
    target = case.folder.parent / BIN / f"{case.case_id}-{now()[:19].replace(':', '')}"
    target.parent.mkdir(exist_ok=True)
    case.folder.rename(target)
    return target


def region_of(face: Face, size: tuple[int, int]) -> Region:
    """The box of a face, clipped to the image's (width, height)."""
    left, top, right, bottom = face.box
    left, top = max(0, left), max(0, top)
    width, height = min(right, size[0]) - left, min(bottom, size[1]) - top
    return Region(left=left, top=top, width=width, height=height)


def find_regions(image: Image.Image) -> list[Region]:
    """Regions of the faces of an image, from left to right."""
    return [region_of(face, image.size) for face in find_faces(image)]


def _write_files(draft: Draft, folder: Path) -> None:
    images: dict[str, Image.Image | Path] = {"template.jpg": draft.template}
    images |= {f"avatar_{name}.jpg": image for name, image in draft.avatars.items()}
    if draft.ideal is not None:
        images["ideal.jpg"] = draft.ideal
    for name, image in images.items():
        with atomic_write(folder / name) as temporary:
            if isinstance(image, Path) and image.suffix == ".jpg":  # not encoded once more
                shutil.copyfile(image, temporary)
                continue
            decoded = read_photograph(image) if isinstance(image, Path) else image
            decoded.save(temporary, "JPEG", quality=QUALITY, optimize=True)
    environment = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True)
    environment.filters["json"] = lambda value: json.dumps(value, ensure_ascii=False)
    environment.filters["flow"] = lambda values: json.dumps(values).replace('"', "")
    write_text(folder / CASE_FILE, environment.from_string(TEXT).render(draft=draft))
