"""Emoji as images: the colour bitmaps of a font (tables CBDT and CBLC) on a white background.

Noto Color Emoji has about 3,900 glyphs of 136 x 128 pixels. Source of the tables' format: OpenType
specification; they are read with fontTools.
"""

import hashlib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from genlab.core.errors import GenlabError
from genlab.core.params.catalogue import PUBLISHED
from genlab.core.params.sections import ImageParams
from genlab.core.paths import resolve_path
from genlab.datasets.images import Images, ImageSet, ImageSource, Labels

FONT = "NotoColorEmoji.ttf"
SYSTEM_FONTS = Path("/usr/share/fonts")

CodePoints = tuple[int, ...]
TONES = {0x1F3FB: 1, 0x1F3FC: 2, 0x1F3FD: 3, 0x1F3FE: 4, 0x1F3FF: 5}
LABELS = PUBLISHED["emoji"].labels
TWO_TONES = 6
FLAG = 7
_REGIONAL = range(0x1F1E6, 0x1F200)
_BLACK_FLAG = 0x1F3F4
# Joiner, variation selectors, the signs of gender and of direction: variants of one picture.
_IGNORED = {0x200D, 0xFE0E, 0xFE0F, 0x2640, 0x2642, 0x27A1, *TONES}
_PERSON = 0x1F9D1
_PEOPLE = {0x1F468: _PERSON, 0x1F469: _PERSON}  # man and woman


def open_emoji(name: str, params: ImageParams) -> ImageSource:
    """Open all glyphs of the font as images (size, size, 3), in the order of the font.

    Labels: the tone of the skin, or a flag (`LABELS`), from the code points. Groups: glyphs whose
    sequences differ only in skin tone, gender (a sign, or man and woman for person) or direction,
    and glyphs whose images are equal, are one group; so variants of one emoji share a split. Raises
    a GenlabError for a missing font and one without colour bitmaps.
    """
    font = _find_font(params)
    try:
        glyphs = _read_glyphs(font)
        images = np.stack([_render(png, params.emoji_size) for png, _ in glyphs])
    except Exception as error:  # fontTools and PIL each raise many kinds for a damaged file
        fix = f"name another font in images.emoji_font, such as the original {FONT}"
        reason = " ".join(str(error).split())[:80]
        message = f"{font}: not a font of colour bitmaps ({reason}); {fix}"
        raise GenlabError(message, path=font, fix=fix) from error
    sequences = [sequence for _, sequence in glyphs]
    labels = np.array([label_glyph(sequence) for sequence in sequences], dtype=np.int64)
    groups = group_variants(sequences, images)
    glyph_images = ImageSet(images.shape[1:], labels, groups, images.__getitem__)
    sha = hashlib.sha256(font.read_bytes()).hexdigest()
    return ImageSource({"all": glyph_images}, f"{font} (sha256 {sha})")


def label_glyph(sequence: Sequence[int]) -> int:
    """Return the index into `LABELS` of a sequence of code points."""
    if sequence[0] in _REGIONAL or (sequence[0] == _BLACK_FLAG and len(sequence) > 3):
        return FLAG
    tones = {TONES[point] for point in sequence if point in TONES}
    return TWO_TONES if len(tones) > 1 else max(tones, default=0)


def strip_variants(sequence: Sequence[int]) -> CodePoints:
    """Sort code points, without tone, gender and direction; a tone by itself is kept."""
    points = [point for point in sequence if point not in _IGNORED] or sequence
    return tuple(sorted(_PEOPLE.get(point, point) for point in points))


def group_variants(sequences: Sequence[Sequence[int]], images: Images) -> Labels:
    """Group glyphs that have the same base sequence or the same image: int64 (n,)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count = len(sequences)
    bases = [str(strip_variants(sequence)) for sequence in sequences]
    _, by_base = np.unique(bases, return_inverse=True)
    digests = [hashlib.sha256(image.tobytes()).hexdigest() for image in images]
    _, by_image = np.unique(digests, return_inverse=True)
    # A graph of glyphs, base sequences and images: each glyph is linked to its base and its image.
    ends = count + np.concatenate([by_base, by_base.max() + 1 + by_image])
    edges = (np.ones(2 * count), (np.tile(np.arange(count), 2), ends))
    nodes = int(ends.max()) + 1
    _, group = connected_components(coo_array(edges, shape=(nodes, nodes)), directed=False)
    return group[:count].astype(np.int64)


def _find_font(params: ImageParams) -> Path:
    expected = resolve_path(params.emoji_font or Path(params.raw) / FONT)
    system = [] if params.emoji_font else sorted(SYSTEM_FONTS.rglob(FONT))
    for font in (expected, *system):
        if font.is_file():
            return font
    fix = "name a font in images.emoji_font, or install the Debian package fonts-noto-color-emoji"
    raise GenlabError(f"no font at {expected}; {fix}", key="images.emoji_font", fix=fix)


def _read_glyphs(file: Path) -> list[tuple[bytes, CodePoints]]:
    """Read the PNG and the code points of each glyph of the font's first strike."""
    from fontTools.ttLib import TTFont  # type: ignore[import-untyped]

    with TTFont(file) as font:
        strike = font["CBDT"].strikeData[0]
        sequences = _read_sequences(font)
        return [
            (strike[glyph].imageData, sequences[glyph]) for glyph in strike if glyph in sequences
        ]


def _read_sequences(font: Any) -> dict[str, CodePoints]:
    """Code points of each glyph: from the character map, and from the ligatures built on it.

    A glyph that also has a private code point is named by its ligature.
    """
    single: dict[str, CodePoints] = {}
    for point, glyph in font.getBestCmap().items():
        single.setdefault(glyph, (point,))
    joined: dict[str, CodePoints] = {}
    for first, ligature in _list_ligatures(font):
        components = (first, *ligature.Component)
        if all(component in single for component in components):
            points = tuple(point for component in components for point in single[component])
            joined.setdefault(ligature.LigGlyph, points)
    return {**single, **joined}


def _list_ligatures(font: Any) -> Iterator[tuple[str, Any]]:
    """Yield every ligature of a font after the name of its first glyph."""
    if "GSUB" not in font:
        return
    for lookup in font["GSUB"].table.LookupList.Lookup:
        for table in lookup.SubTable:
            table = getattr(table, "ExtSubTable", table)
            for first, ligatures in getattr(table, "ligatures", {}).items():
                for ligature in ligatures:
                    yield first, ligature


def _render(png: bytes, size: int) -> Images:
    """Draw a glyph on white, in a square of its longer side, and resize it."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as image:
        glyph = image.convert("RGBA")
    side = max(glyph.size)
    square = Image.new("RGBA", (side, side), "white")
    square.alpha_composite(glyph, ((side - glyph.width) // 2, (side - glyph.height) // 2))
    return np.asarray(square.convert("RGB").resize((size, size), Image.Resampling.BOX))
