"""A TIFF that is itself the dataset: each page is a picture."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from genlab.core.deep_tiff import read_page
from genlab.core.errors import GenlabError
from genlab.core.picture import DecodedPicture, UnreadablePictureError
from genlab.datasets.readers.collection import Collection

SUFFIXES = (".tif", ".tiff")


@dataclass(frozen=True)
class PageLoader:
    """Reads pages of a TIFF; offset: number of its first page."""

    file: Path
    offset: int = 0

    def __call__(self, index: int, side: int) -> DecodedPicture:
        """Load a page."""
        number = self.offset + index
        name = f"{self.file.name}[{number}]"
        try:
            pixels, traits = read_page(_open(self.file).pages[number])
        except Exception as error:  # tifffile raises whatever its decoders do
            reason = " ".join(str(error).split())[:160] or type(error).__name__
            raise UnreadablePictureError(f"{name}: damaged ({reason})", path=self.file) from error
        return DecodedPicture(pixels, pixels.shape[1::-1], tuple(traits))

    def select(self, rows: range) -> PageLoader:
        """Return one for these pages."""
        return PageLoader(self.file, self.offset + rows.start)


@lru_cache(maxsize=1)
def _open(file: Path) -> Any:
    import tifffile

    return tifffile.TiffFile(file)


def read_tiff_stack(file: Path) -> Collection:
    """Read a stack of pages. Raises GenlabError for a damaged file."""
    _open.cache_clear()  # of another file that was here before
    try:
        count = len(_open(file).pages)
    except Exception as error:  # tifffile raises whatever its decoders do
        raise GenlabError(f"{file}: no whole TIFF ({error})", path=file) from error
    return Collection(
        path=file,
        convention="a TIFF stack, a page a picture",
        names=[f"{file.name}[{page}]" for page in range(count)],
        splits=[""] * count,
        classes=[None] * count,
        load=PageLoader(file),
    )
