"""Find images of runs by content or address, and no other file on disk."""

import re
from pathlib import Path

from genlab.benchmark.store.repository import Store

_IMAGE = re.compile(
    r"\d{4}-\d{2}-\d{2}(-\d{1,6})?/[a-z0-9][a-z0-9_-]{0,63}/[a-z0-9][a-z0-9_-]{0,63}(\.\d{1,3})?\.png"
)


def find_image(folder: Path, address: str) -> Path | None:
    """Return the file `<run>/<tool>/<case>.png` of the runs' folder; None for any other address."""
    path = folder / address
    if not _IMAGE.fullmatch(address) or not path.is_file():
        return None
    # A symbolic link could lead out of the folder, or to a file that is no image of a run.
    is_link = path.resolve() != folder.resolve() / address
    return None if is_link else path


def find_content(store: Store, sha256: str) -> Path | None:
    """Return an image file, of any run, whose content has this digest; None if there is none."""
    query = "SELECT image FROM run_items WHERE image_sha256 = :sha AND image <> ''"
    for image in store.table(query, sha=sha256).image:
        path = find_image(store.path.parent, str(image))
        if path is not None:
            return path
    return None
