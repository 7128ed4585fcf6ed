"""Write and delete the folders of cases."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from ruamel.yaml import YAML

from genlab.benchmark.cases.case import CASE_FILE, Case, Region, Source, Swap, load_case
from genlab.benchmark.cases.photographs import find_faces, read_photograph
from genlab.benchmark.scoring.faces import Face
from genlab.benchmark.store.schema import now
from genlab.core.errors import GenlabError
from genlab.core.io import atomic_write, write_text

QUALITY = 90  # of JPEG
BIN = ".bin"
HEAD = """\
# A case of the person-swap benchmark: an avatar replaces the person at a region of the template.
# Regions are faces in pixels of the upright template, from its top left corner. A program found
# them: where one is wrong, correct its numbers here.
# consent: whether all persons shown agree to this use, or the photographs' licence and purpose
# allow it. Runs skip a case without consent.
# sources: where each photograph is from and what allows its use.
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
    avatars = {name: f"avatar_{name}.jpg" for name in draft.avatars}
    images = {"template.jpg": draft.template, "ideal.jpg": draft.ideal}
    images |= {avatars[name]: image for name, image in draft.avatars.items()}
    for name, image in images.items():
        if image is None:
            continue
        with atomic_write(folder / name) as temporary:
            if isinstance(image, Path) and image.suffix == ".jpg":  # not encoded once more
                shutil.copyfile(image, temporary)
                continue
            decoded = read_photograph(image) if isinstance(image, Path) else image
            decoded.save(temporary, "JPEG", quality=QUALITY, optimize=True)
    content = {
        **{"version": 1, "title": draft.title, "consent": draft.consent},
        "template": "template.jpg",
        **({"ideal": "ideal.jpg"} if draft.ideal else {}),
        "avatars": avatars,
        "swaps": [swap.model_dump() for swap in draft.swaps],
        "sources": {name: source.model_dump() for name, source in draft.sources.items()},
    }
    text = io.StringIO(HEAD)
    text.seek(0, io.SEEK_END)
    YAML().dump(content, text)
    write_text(folder / CASE_FILE, text.getvalue())
