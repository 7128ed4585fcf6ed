"""Emoji as images: the colour bitmaps of a font (tables CBDT and CBLC) on a white ground.

Noto Color Emoji has about 3,900 glyphs of 136 x 128 pixels. Source of the tables' format: OpenType
specification; they are read with fontTools.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError
from genlab.core.params import ImageParams
from genlab.datasets.image_files import CHUNK, Images, Labels
from genlab.datasets.sources import ImageSet, Source

FONT = "NotoColorEmoji.ttf"
SYSTEM_FONTS = (
    Path("/usr/share/fonts/truetype/noto") / FONT,
    Path("/usr/share/fonts/google-noto-emoji") / FONT,
    Path("/usr/share/fonts/noto") / FONT,
)
GROUND = (255, 255, 255, 255)

Sequence_ = tuple[int, ...]
TONES = {0x1F3FB: 1, 0x1F3FC: 2, 0x1F3FD: 3, 0x1F3FE: 4, 0x1F3FF: 5}
LABELS = (
    "no tone", "light", "medium light", "medium", "medium dark", "dark", "two tones", "flag",
)  # fmt: skip
FLAG, TWO_TONES = 7, 6
_REGIONAL, _BLACK_FLAG = range(0x1F1E6, 0x1F200), 0x1F3F4
# Joiner, variation selectors, the signs of gender and of direction: variants of one picture.
_LEFT_OUT = {0x200D, 0xFE0E, 0xFE0F, 0x2640, 0x2642, 0x27A1, *TONES}
_PERSON = 0x1F9D1
_PEOPLE = {0x1F468: _PERSON, 0x1F469: _PERSON}  # man and woman


def open_emoji(name: str, params: ImageParams) -> Source:
    """All glyphs of the font that show something, (size, size, 3), in the order of the font.

    Labels: the tone of the skin, or a flag (`LABELS`), as the code points say. Groups: glyphs whose
    sequences differ only in skin tone, gender (a sign, or man and woman for person) or direction,
    and glyphs whose images are the same, are one group; so variants of one emoji are never torn
    apart by a split. Raises a GenlabError for a missing font and one without colour bitmaps.
    """
    font = _font_file(name, params)
    glyphs, sequences = _read(font)
    drawn = [(i, image) for i, data in enumerate(glyphs) if (image := _draw(data, font, params))]
    images = np.stack([np.frombuffer(image, np.uint8) for _, image in drawn])
    images = images.reshape(-1, params.emoji_size, params.emoji_size, 3)
    kept = [sequences[i] for i, _ in drawn]

    def chunks() -> Iterator[Images]:
        for start in range(0, len(images), CHUNK):
            yield images[start : start + CHUNK]

    labels = np.array([label(sequence) for sequence in kept], dtype=np.int64)
    everything = ImageSet(images.shape[1:], labels, chunks, groups(kept, images))
    sha = hashlib.sha256(font.read_bytes()).hexdigest()
    return Source({"all": everything}, f"{font} (sha256 {sha})")


def label(sequence: Sequence[int]) -> int:
    """Index into `LABELS` of a sequence of code points."""
    if sequence[0] in _REGIONAL or (sequence[0] == _BLACK_FLAG and len(sequence) > 3):
        return FLAG
    tones = {TONES[point] for point in sequence if point in TONES}
    return TWO_TONES if len(tones) > 1 else max(tones, default=0)


def base(sequence: Sequence[int]) -> Sequence_:
    """The code points without what makes variants of one emoji: tone, gender, direction.

    A tone by itself (the five swatches) stays what it is.
    """
    rest = [point for point in sequence if point not in _LEFT_OUT] or list(sequence)
    return (
        tuple(sorted(_PEOPLE.get(point, point) for point in rest))
        if len(rest) > 1
        else (_PEOPLE.get(rest[0], rest[0]),)
    )


def groups(sequences: Sequence[Sequence[int]], images: Images) -> Labels:
    """Group of each glyph, int64 (n,): linked by the same base or by the same image."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count = len(sequences)
    ends: dict[object, int] = {}
    edges = [
        (glyph, count + ends.setdefault(key, len(ends)))
        for glyph, (sequence, image) in enumerate(zip(sequences, images, strict=True))
        for key in (base(sequence), image.tobytes())
    ]
    start, end = np.array(edges).T
    nodes = count + len(ends)
    links = coo_array((np.ones(len(start), dtype=np.int8), (start, end)), shape=(nodes, nodes))
    _, found = connected_components(links, directed=False)
    return found[:count].astype(np.int64)


def _font_file(name: str, params: ImageParams) -> Path:
    if params.emoji_font:
        chosen = Path(params.emoji_font)
        if not chosen.is_file():
            raise GenlabError(f"params.yaml: images.emoji_font: {chosen} is no file; name a font")
        return chosen
    places = [Path(params.raw) / FONT, *SYSTEM_FONTS]
    for place in places:
        if place.is_file():
            return place
    raise GenlabError(
        f"no font for {name}: put {FONT} into {params.raw}, name one in images.emoji_font, or"
        " install the Debian package fonts-noto-color-emoji"
    )


def _read(file: Path) -> tuple[list[bytes], list[Sequence_]]:
    """The PNG of each glyph of the font's first strike, and the code points that call it."""
    from fontTools.ttLib import TTFont, TTLibError  # type: ignore[import-untyped]

    try:
        with TTFont(file) as font:
            if "CBDT" not in font or "CBLC" not in font:
                raise GenlabError(
                    f"{file}: no colour bitmaps (tables CBDT and CBLC) in this font;"
                    f" name one that has them in images.emoji_font, such as {FONT}"
                )
            strike = font["CBDT"].strikeData[0]
            sequences = _sequences(font)
            called = [glyph for glyph in strike if glyph in sequences]
            return [strike[g].imageData for g in called], [sequences[g] for g in called]
    except (TTLibError, AttributeError, AssertionError, IndexError, KeyError, ValueError) as error:
        raise GenlabError(
            f"{file}: damaged or no font ({' '.join(str(error).split())[:80]});"
            " put the original in its place"
        ) from error


def _sequences(font: Any) -> dict[str, Sequence_]:
    """Code points of each glyph: of the character map, and of the ligatures built from it.

    A glyph that stands at a private code point as well is called by its ligature.
    """
    single: dict[str, Sequence_] = {}
    for point, glyph in font.getBestCmap().items():
        single.setdefault(glyph, (point,))
    joined: dict[str, Sequence_] = {}
    lookups = font["GSUB"].table.LookupList.Lookup if "GSUB" in font else []
    for table in (table for lookup in lookups for table in lookup.SubTable):
        for first, ligatures in getattr(
            getattr(table, "ExtSubTable", table), "ligatures", {}
        ).items():
            for ligature in ligatures:
                parts = (first, *ligature.Component)
                if all(part in single for part in parts):
                    points = tuple(point for part in parts for point in single[part])
                    joined.setdefault(ligature.LigGlyph, points)
    return {**single, **joined}


def _draw(data: bytes, file: Path, params: ImageParams) -> bytes | None:
    """A glyph on white, in a square of its longer side, made smaller; None where it is blank."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as image:
            glyph = image.convert("RGBA")
    except (OSError, SyntaxError, ValueError) as error:
        raise GenlabError(f"{file}: a glyph is no whole PNG ({error}); put the original") from error
    if not np.asarray(glyph)[..., 3].any():
        return None
    side = max(glyph.size)
    square = Image.new("RGBA", (side, side), GROUND)
    square.alpha_composite(glyph, ((side - glyph.width) // 2, (side - glyph.height) // 2))
    size = (params.emoji_size, params.emoji_size)
    small = square.convert("RGB").resize(size, Image.Resampling.BOX)
    pixels: npt.NDArray[np.uint8] = np.asarray(small)
    return pixels.tobytes()
