"""Emoji: glyphs of a font with colour bitmaps, their labels, and which of them belong together."""

from pathlib import Path

import numpy as np
import pytest
from fontTools import subset
from fontTools.ttLib import TTFont
from refusals import refused
from tiny import params as tiny_params

from genlab.core.errors import GenlabError
from genlab.core.params import ImageParams
from genlab.datasets import emoji
from genlab.datasets.emoji import (
    FLAG,
    TWO_TONES,
    group_variants,
    label_glyph,
    open_emoji,
    strip_variants,
)

LIGHT = 0x1F3FB
DARK = 0x1F3FF
JOIN = 0x200D
MALE = 0x2642
WAVE = 0x1F44B
SMILE = 0x1F600
MAN = 0x1F468
WOMAN = 0x1F469


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Noto Color Emoji with six glyphs: two tones, a face, a hand, and the hand in both tones."""
    system_font = next(emoji.SYSTEM_FONTS.rglob(emoji.FONT), None)
    if system_font is None:
        pytest.skip("the Debian package fonts-noto-color-emoji is not installed")
    font = subset.load_font(str(system_font), subset.Options())
    glyphs = subset.Subsetter()
    glyphs.populate(unicodes=[LIGHT, DARK, WAVE, SMILE])
    glyphs.subset(font)
    path = tmp_path_factory.mktemp("font") / "small.ttf"
    font.save(path)
    return path.read_bytes()


@pytest.fixture
def font(small: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "small.ttf"
    path.write_bytes(small)
    return path


def _params(font: Path | str, **changes: object) -> ImageParams:
    return tiny_params().images.model_copy(update={"emoji_font": str(font), **changes})


def test_glyphs_are_images_on_white_with_labels_and_groups(font: Path) -> None:
    glyphs = open_emoji("emoji", _params(font, emoji_size=32)).parts["all"]
    images = glyphs.read(np.arange(6))
    assert images.shape == (6, *glyphs.shape) == (6, 32, 32, 3)
    assert (images[:, 0, 0] == 255).all()
    assert (images != 255).any(axis=(1, 2, 3)).all()
    tones = [emoji.LABELS[index] for index in glyphs.labels]
    assert tones == ["light", "dark", "no tone", "no tone", "light", "dark"]
    light, dark, hand, face, *hands = glyphs.groups.tolist()
    assert hands == [hand, hand]
    assert len({light, dark, hand, face}) == 4


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
    assert label_glyph(sequence) == expected


def test_tone_gender_and_joiners_do_not_tell_emoji_apart() -> None:
    runner = 0x1F3C3
    assert strip_variants([runner]) == strip_variants([runner, DARK, JOIN, MALE, 0xFE0F])
    assert strip_variants([MAN, JOIN, 0x1F680]) == strip_variants([WOMAN, LIGHT, JOIN, 0x1F680])
    assert strip_variants([MAN, JOIN, 0x1F680]) != strip_variants([MAN, JOIN, 0x1F692])
    assert strip_variants([LIGHT]) != strip_variants([DARK])


def test_equal_images_are_one_group() -> None:
    images = np.zeros((3, 2, 2, 3), dtype=np.uint8)
    images[1] = 9
    groups = group_variants([[1], [2], [3]], images)
    assert groups[0] == groups[2] != groups[1]


def _remove_bitmaps(font: Path) -> None:
    with TTFont(font) as loaded:
        del loaded["CBDT"], loaded["CBLC"]
        loaded.save(font)


@pytest.mark.parametrize(
    "damage",
    [
        lambda font: font.write_bytes(b"no font at all"),
        lambda font: font.write_bytes(font.read_bytes()[:-2000]),
        _remove_bitmaps,
    ],
)
def test_what_is_no_font_of_bitmaps_is_one_line(font: Path, damage) -> None:
    damage(font)
    with pytest.raises(GenlabError) as error:
        open_emoji("emoji", _params(font))
    assert error.value.path == font


def test_a_font_under_raw_is_found_and_a_missing_one_says_where_to_put_it(
    font: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emoji, "SYSTEM_FONTS", tmp_path / "fonts")
    font.rename(tmp_path / emoji.FONT)
    params = _params("", raw=str(tmp_path))
    assert len(open_emoji("emoji", params).parts["all"].labels) == 6
    (tmp_path / emoji.FONT).unlink()
    for missing in (params, _params("nowhere.ttf")):
        with refused("fonts-noto", key="images.emoji_font"):
            open_emoji("emoji", missing)
