"""Write, name and delete the folders of cases."""

import hashlib
import re
import shutil
import tempfile
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, count
from pathlib import Path

import numpy as np
from PIL import Image

from genlab.benchmark.cases import CASE_FILE, Case, Region, Source, Swap, load_case
from genlab.benchmark.scoring import faces
from genlab.benchmark.scoring.faces import Face
from genlab.benchmark.scoring.persons import order_persons
from genlab.benchmark.store.schema import now
from genlab.core.config_yaml import format_config
from genlab.core.errors import GenlabError
from genlab.core.io import atomic_write, write_text

QUALITY = 90  # of JPEG
BIN = ".bin"
LONGEST = 50  # characters of a photograph's name; a digest and a number still fit behind them
HEAD = """\
# A case of the person-swap benchmark: an avatar replaces the person at a region of the template.
# Regions are faces in pixels of the upright template, from its top left corner. A program found
# them: where one is wrong, correct its numbers here.
# consent: whether all persons shown agree to this use; without that no run takes the case. For
# photographs whose persons were not asked, such as the public domain's, basis says what allows the
# use, in its place.
# sources: where each photograph is from, and what its licence and its persons' consent rest on.
"""


def write_case(
    folder: Path,
    *,
    title: str,
    consent: bool | None = None,
    basis: str = "",
    template: Image.Image | Path,
    avatars: Mapping[str, Image.Image | Path],
    swaps: Sequence[Swap],
    sources: Mapping[str, Source],
    ideal: Image.Image | Path | None = None,
    version: int = 1,
) -> Case:
    """Write a case to `folder` atomically; an existing case is replaced.

    The keyword arguments are the fields of a `Case`, so that `write_case(folder, **dict(case))`
    copies one. PIL images are saved as JPEG, files are copied as they are. Raises a `GenlabError`
    where the case would not be valid, or the folder holds something else.
    """
    if folder.exists() and not (folder / CASE_FILE).exists():
        fix = "move it away, or choose another name"
        raise GenlabError(f"{folder} exists and holds no {CASE_FILE}: it is no case; {fix}")
    images = {"template": template}
    if ideal:
        images["ideal"] = ideal
    images |= {f"avatar_{name}": image for name, image in avatars.items()}
    suffixes = {key: image.suffix for key, image in images.items() if isinstance(image, Path)}
    files = {key: key + suffixes.get(key, ".jpg") for key in images}
    content = {
        **{"version": version, "title": title},
        **({"basis": basis} if basis else {"consent": consent}),
        "template": files["template"],
        **({"ideal": files["ideal"]} if ideal else {}),
        "avatars": {name: files[f"avatar_{name}"] for name in avatars},
        "swaps": [swap.model_dump() for swap in swaps],
        "sources": {name: source.model_dump() for name, source in sources.items()},
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".genlab-", dir=folder.parent) as temporary:
        new = Path(temporary) / "new" / folder.name
        old = Path(temporary) / "old"
        for key, image in images.items():
            _write_image(new / files[key], image)
        write_text(new / CASE_FILE, HEAD + format_config(content))
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


def _write_image(path: Path, image: Image.Image | Path) -> None:
    with atomic_write(path) as temporary:
        if isinstance(image, Path):  # encoding it again would lose quality
            shutil.copyfile(image, temporary)
        else:
            image.save(temporary, "JPEG", quality=QUALITY, optimize=True)


def delete_case(case: Case) -> Path:
    """Move a private case to the bin beside it, and return its new folder."""
    if not case.is_private:
        raise GenlabError(f"{case.folder} is a shipped case; only private cases are deleted")
    target = case.folder.parent / BIN / f"{case.case_id}-{now()[:19].replace(':', '')}"
    target.parent.mkdir(exist_ok=True)
    case.folder.rename(target)
    return target


def face_region(face: Face, size: tuple[int, int]) -> Region:
    """Return the box of a face, clipped to the image's (width, height)."""
    left, top, right, bottom = face.box
    left = max(0, left)
    top = max(0, top)
    width = min(right, size[0]) - left
    height = min(bottom, size[1]) - top
    return Region(left=left, top=top, width=width, height=height)


def find_regions(image: Image.Image) -> list[Region]:
    """Find the regions of all faces, in the order in which persons are numbered."""
    persons = order_persons(faces.detect(np.asarray(image)))
    return [face_region(face, image.size) for face in persons]


def slugify(text: str) -> str:
    """Convert text to a name of a-z, 0-9 and -, without accents (Zoë: zoe).

    A short digest of the text is appended where letters of other alphabets or the end are lost.
    """
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    name = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    slug = name[:LONGEST].strip("-") or "photograph"
    loses_letters = any(letter.isalnum() and not letter.isascii() for letter in plain)
    if not loses_letters and 0 < len(name) <= LONGEST:
        return slug
    composed = unicodedata.normalize("NFC", text)  # one digest, however accents are encoded
    digest = hashlib.sha256(composed.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{slug}-{digest[:6]}"


def unique_name(name: str, taken: Collection[str]) -> str:
    """Return the first of `name`, `name-2`, `name-3` and so on that is not taken."""
    candidates = chain([name], (f"{name}-{number}" for number in count(2)))
    return next(candidate for candidate in candidates if candidate not in taken)
