"""Images of runs by their content or their address; no other file of the disk."""

import re
from pathlib import Path

from genlab.benchmark.store.repository import Store

_IMAGE = re.compile(
    r"\d{4}-\d{2}-\d{2}(-\d{1,6})?/[a-z0-9][a-z0-9_-]{0,63}/[a-z0-9][a-z0-9_-]{0,63}(\.\d{1,3})?\.png"
)


def find_image(folder: Path, address: str) -> Path | None:
    """The file `<run>/<tool>/<case>.png` of the runs' folder; None for any other."""
    path = folder / address
    # A link could lead out of the folder, or to something that is no image of a run.
    is_image = _IMAGE.fullmatch(address) and path.is_file()
    return path if is_image and path.resolve() == folder.resolve() / address else None


def find_content(store: Store, sha256: str) -> Path | None:
    """The image file of any run whose content has this digest; None where there is none."""
    query = "SELECT image FROM run_items WHERE image_sha256 = :sha AND image <> ''"
    folder = store.path.parent
    paths = (find_image(folder, str(image)) for image in store.table(query, sha=sha256).image)
    return next((path for path in paths if path is not None), None)
