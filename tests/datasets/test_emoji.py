"""Emoji: glyphs of a font with colour bitmaps, their labels, and which of them belong together."""

import io
from pathlib import Path

import numpy as np
import pytest
from fontTools.feaLib.builder import addOpenTypeFeaturesFromString
from fontTools.fontBuilder import FontBuilder
from fontTools.ttLib import TTFont, newTable
from fontTools.ttLib.tables.BitmapGlyphMetrics import SmallGlyphMetrics
from fontTools.ttLib.tables.C_B_D_T_ import cbdt_bitmap_format_17
from fontTools.ttLib.tables.E_B_L_C_ import SbitLineMetrics, Strike, eblc_index_sub_table_1
from PIL import Image
from tiny import params as tiny_params

from genlab.core.errors import GenlabError
from genlab.core.params import ImageParams
from genlab.datasets import emoji
from genlab.datasets.emoji import FLAG, TWO_TONES, base, group_variants, label, open_emoji
from genlab.datasets.sources import ImageSet

LIGHT, DARK, JOIN, MALE = 0x1F3FB, 0x1F3FF, 0x200D, 0x2642
WAVE, SMILE, MAN, WOMAN = 0x1F44B, 0x1F600, 0x1F468, 0x1F469
POINTS = {"smile": SMILE, "wave": WAVE, "light": LIGHT, "dark": DARK, "blank": 0xFE0F}
LIGATURES = {"wave_light": ("wave", "light"), "wave_dark": ("wave", "dark")}
COLOURS = {
    "smile": (255, 200, 0, 255),
    "wave": (250, 190, 0, 255),
    "light": (240, 220, 200, 255),
    "dark": (80, 50, 40, 255),
    "blank": (0, 0, 0, 0),
    "wave_light": (240, 220, 201, 255),
    "wave_dark": (80, 50, 41, 255),
}


def _png(colour: tuple[int, ...]) -> bytes:
    """A disc's worth of colour: opaque in the middle of 136 x 128, clear around it."""
    image = np.zeros((128, 136, 4), dtype=np.uint8)
    image[32:96, 34:102] = colour
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


def _bitmaps(font, pictures: dict[str, bytes]) -> None:
    """Add tables CBDT and CBLC with one strike of one index table."""
    names = list(pictures)
    data, places = newTable("CBDT"), newTable("CBLC")
    data.version = places.version = 3.0
    glyphs = {}
    for name, png in pictures.items():
        glyph = cbdt_bitmap_format_17(b"", font)
        glyph.metrics = SmallGlyphMetrics()
        for field in ("height", "width", "BearingX", "BearingY", "Advance"):
            setattr(glyph.metrics, field, 100)
        glyph.imageData = png
        glyphs[name] = glyph
    data.strikeData = [glyphs]
    strike = Strike()
    size = strike.bitmapSizeTable
    size.colorRef, size.flags, size.bitDepth, size.ppemX, size.ppemY = 0, 1, 32, 109, 109
    for line in ("hori", "vert"):
        metrics = SbitLineMetrics()
        for field in (
            "ascender", "descender", "widthMax", "caretSlopeNumerator", "caretSlopeDenominator",
            "caretOffset", "minOriginSB", "minAdvanceSB", "maxBeforeBL", "minAfterBL",
            "pad1", "pad2",
        ):  # fmt: skip
            setattr(metrics, field, 0)
        setattr(size, line, metrics)
    table = eblc_index_sub_table_1(b"", font)
    table.indexFormat, table.imageFormat, table.names = 1, 17, names
    table.firstGlyphIndex, table.lastGlyphIndex = font.getGlyphID(names[0]), len(names)
    size.startGlyphIndex, size.endGlyphIndex = table.firstGlyphIndex, table.lastGlyphIndex
    strike.indexSubTables = [table]
    places.strikes = [strike]
    font["CBDT"], font["CBLC"] = data, places


@pytest.fixture
def font(tmp_path: Path) -> Path:
    """A font of seven glyphs: one is blank, two are ligatures of a hand and a skin tone."""
    builder = FontBuilder(1024, isTTF=True)
    builder.setupGlyphOrder([".notdef", *COLOURS])
    builder.setupCharacterMap({point: name for name, point in POINTS.items()})
    builder.setupHorizontalMetrics(dict.fromkeys([".notdef", *COLOURS], (1024, 0)))
    builder.setupHorizontalHeader()
    builder.setupNameTable({"familyName": "Tiny"})
    builder.setupPost()
    rules = "".join(f"sub {' '.join(p)} by {name};" for name, p in LIGATURES.items())
    addOpenTypeFeaturesFromString(builder.font, f"feature ccmp {{ {rules} }} ccmp;")
    _bitmaps(builder.font, {name: _png(colour) for name, colour in COLOURS.items()})
    path = tmp_path / "Tiny.ttf"
    builder.save(path)
    return path


def _params(font: Path | str, **changes: object) -> ImageParams:
    return tiny_params().images.model_copy(update={"emoji_font": str(font), **changes})


def _everything(params: ImageParams) -> tuple[ImageSet, np.ndarray]:
    part = open_emoji("emoji", params).parts["all"]
    return part, part.read(np.arange(len(part.labels)))


@pytest.mark.parametrize("size", [32, 64])
def test_glyphs_lie_on_white_and_a_blank_one_is_left_out(font: Path, size: int) -> None:
    part, images = _everything(_params(font, emoji_size=size))
    assert images.shape == (6, size, size, 3)
    assert part.shape == (size, size, 3)
    assert (images[:, 0, 0] == 255).all()
    shown = [colour[:3] for name, colour in COLOURS.items() if name != "blank"]
    assert images[:, size // 2, size // 2].tolist() == [list(colour) for colour in shown]


def test_tones_are_labels_and_variants_of_one_emoji_are_one_group(font: Path) -> None:
    part, _ = _everything(_params(font))
    names = [name for name in COLOURS if name != "blank"]
    said = dict(zip(names, (emoji.LABELS[i] for i in part.labels), strict=True))
    assert said["smile"] == said["wave"] == "no tone"
    assert (said["wave_light"], said["wave_dark"]) == ("light", "dark")
    group = dict(zip(names, part.groups, strict=True))
    assert group["wave"] == group["wave_light"] == group["wave_dark"]
    assert len({group[name] for name in ("smile", "wave", "light", "dark")}) == 4


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        ([SMILE], 0),
        ([WAVE, LIGHT], 1),
        ([WAVE, DARK], 5),
        ([MAN, LIGHT, JOIN, 0x1F91D, JOIN, MAN, DARK], TWO_TONES),
        ([0x1F1E9, 0x1F1EA], FLAG),
        ([0x1F3F4, 0xE0067, 0xE0062, 0xE0065, 0xE006E, 0xE0067, 0xE007F], FLAG),
        ([0x1F3F4], 0),
    ],
)
def test_a_label_is_read_off_the_code_points(sequence: list[int], expected: int) -> None:
    assert label(sequence) == expected


def test_tone_gender_and_joiners_do_not_tell_emoji_apart() -> None:
    runner = 0x1F3C3
    assert base([runner]) == base([runner, DARK, JOIN, MALE, 0xFE0F])
    assert base([MAN, JOIN, 0x1F680]) == base([WOMAN, LIGHT, JOIN, 0x1F680])
    assert base([MAN, JOIN, 0x1F680]) != base([MAN, JOIN, 0x1F692])
    assert base([LIGHT]) != base([DARK])


def test_equal_images_are_one_group() -> None:
    images = np.zeros((3, 2, 2, 3), dtype=np.uint8)
    images[1] = 9
    found = group_variants([[1], [2], [3]], images)
    assert found[0] == found[2] != found[1]


@pytest.mark.parametrize(
    "damage",
    [
        lambda font: font.write_bytes(b""),
        lambda font: font.write_bytes(b"no font at all"),
        lambda font: font.write_bytes(b"\0\1\0\0" + bytes(60)),
        lambda font: font.write_bytes(font.read_bytes()[:-2000]),
        lambda font: _remove_bitmaps(font),
    ],
)
def test_what_is_no_font_of_bitmaps_is_one_line(font: Path, damage) -> None:
    damage(font)
    with pytest.raises(GenlabError) as error:
        open_emoji("emoji", _params(font))
    assert error.value.path == font
    assert "\n" not in str(error.value)


def _remove_bitmaps(font: Path) -> None:
    with TTFont(font) as loaded:
        del loaded["CBDT"], loaded["CBLC"]
        loaded.save(font)


def test_a_font_under_raw_is_found_and_a_missing_one_says_where_to_put_it(
    font: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emoji, "SYSTEM_FONTS", ())
    params = _params("", raw=str(tmp_path / "raw"))
    with pytest.raises(GenlabError, match="fonts-noto"):
        open_emoji("emoji", params)
    (tmp_path / "raw").mkdir()
    font.rename(tmp_path / "raw" / "NotoColorEmoji.ttf")
    assert len(open_emoji("emoji", params).parts["all"].labels) == 6
    with pytest.raises(GenlabError, match=r"nowhere\.ttf"):
        open_emoji("emoji", _params("nowhere.ttf"))
