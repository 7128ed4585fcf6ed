"""Emoji as images: the colour bitmaps of a font (tables CBDT and CBLC) on a white background.

Noto Color Emoji has about 3,900 glyphs of 136 x 128 pixels. Source of the tables' format: OpenType
specification; they are read with fontTools.
"""

import hashlib
import io
from collections.abc import Sequence
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
TWO_TONES, FLAG = 6, 7
_REGIONAL, _BLACK_FLAG = range(0x1F1E6, 0x1F200), 0x1F3F4
# Joiner, variation selectors, the signs of gender and of direction: variants of one picture.
_IGNORED = {0x200D, 0xFE0E, 0xFE0F, 0x2640, 0x2642, 0x27A1, *TONES}
_PERSON = 0x1F9D1
_PEOPLE = {0x1F468: _PERSON, 0x1F469: _PERSON}  # man and woman


def open_emoji(name: str, params: ImageParams) -> ImageSource:
    """All glyphs of the font, (size, size, 3), in the order of the font.

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
    labels = np.array([label(sequence) for sequence in sequences], dtype=np.int64)
    groups = group_variants(sequences, images)
    everything = ImageSet(images.shape[1:], labels, groups, images.__getitem__)
    sha = hashlib.sha256(font.read_bytes()).hexdigest()
    return ImageSource({"all": everything}, f"{font} (sha256 {sha})")


def label(sequence: Sequence[int]) -> int:
    """Index into `LABELS` of a sequence of code points."""
    if sequence[0] in _REGIONAL or (sequence[0] == _BLACK_FLAG and len(sequence) > 3):
        return FLAG
    tones = {TONES[point] for point in sequence if point in TONES}
    return TWO_TONES if len(tones) > 1 else max(tones, default=0)


def base(sequence: Sequence[int]) -> CodePoints:
    """The code points, sorted, without tone, gender and direction; a tone by itself is kept."""
    rest = [point for point in sequence if point not in _IGNORED] or sequence
    return tuple(sorted(_PEOPLE.get(point, point) for point in rest))


def group_variants(sequences: Sequence[Sequence[int]], images: Images) -> Labels:
    """Group of each glyph, int64 (n,): linked by the same base or by the same image."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count = len(sequences)
    _, by_base = np.unique([str(base(each)) for each in sequences], return_inverse=True)
    digests = [hashlib.sha256(image.tobytes()).hexdigest() for image in images]
    _, by_image = np.unique(digests, return_inverse=True)
    ends = count + np.concatenate([by_base, by_base.max() + 1 + by_image])
    edges = (np.ones(2 * count), (np.tile(np.arange(count), 2), ends))
    nodes = int(ends.max()) + 1
    _, group = connected_components(coo_array(edges, shape=(nodes, nodes)), directed=False)
    return group[:count].astype(np.int64)


def _find_font(params: ImageParams) -> Path:
    wanted = resolve_path(params.emoji_font or Path(params.raw) / FONT)
    system = [] if params.emoji_font else sorted(SYSTEM_FONTS.rglob(FONT))
    if found := next(filter(Path.is_file, [wanted, *system]), None):
        return found
    fix = "name a font in images.emoji_font, or install the Debian package fonts-noto-color-emoji"
    raise GenlabError(f"no font at {wanted}; {fix}", key="images.emoji_font", fix=fix)


def _read_glyphs(file: Path) -> list[tuple[bytes, CodePoints]]:
    """The PNG and the code points of each glyph of the font's first strike."""
    from fontTools.ttLib import TTFont  # type: ignore[import-untyped]

    with TTFont(file) as font:
        strike, sequences = font["CBDT"].strikeData[0], _read_sequences(font)
        return [
            (strike[glyph].imageData, sequences[glyph]) for glyph in strike if glyph in sequences
        ]


def _read_sequences(font: Any) -> dict[str, CodePoints]:
    """Code points of each glyph: from the character map, and from the ligatures built on it.

    A glyph that is at a private code point as well is called by its ligature.
    """
    single: dict[str, CodePoints] = {}
    for point, glyph in font.getBestCmap().items():
        single.setdefault(glyph, (point,))
    joined: dict[str, CodePoints] = {}
    lookups = font["GSUB"].table.LookupList.Lookup if "GSUB" in font else []
    for table in (table for lookup in lookups for table in lookup.SubTable):
        ligatures = getattr(getattr(table, "ExtSubTable", table), "ligatures", {})
        for first, each in ((first, each) for first, found in ligatures.items() for each in found):
            parts = (first, *each.Component)
            if all(part in single for part in parts):
                points = tuple(point for part in parts for point in single[part])
                joined.setdefault(each.LigGlyph, points)
    return {**single, **joined}


def _render(png: bytes, size: int) -> Images:
    """A glyph on white, in a square of its longer side, resized."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as image:
        glyph = image.convert("RGBA")
    square = Image.new("RGBA", (max(glyph.size),) * 2, "white")
    square.alpha_composite(
        glyph, ((square.width - glyph.width) // 2, (square.height - glyph.height) // 2)
    )
    return np.asarray(square.convert("RGB").resize((size, size), Image.Resampling.BOX))
