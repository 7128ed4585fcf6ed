"""Filters let through what they say; the parser's answer to a drawn grid is the parser's."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genlab.core.errors import GenlabError
from genlab.grids.palette import COLOUR_NAMES
from genlab.grids.shapes import KINDS
from genlab.web import browse, sketch


@pytest.fixture
def grids(project: Path) -> browse.Grids:
    return browse.grids_of(project / "data/arc_grids", "train")


def test_a_filter_by_kind_and_colour_asks_for_one_object_with_both(grids: browse.Grids) -> None:
    chosen = browse.choose_grids(grids, ["plus", "zigzag"], ["red", "blue"])
    kinds = {KINDS.index(kind) for kind in ("plus", "zigzag")}
    colours = {COLOUR_NAMES.index(colour) for colour in ("red", "blue")}
    expected = [
        index
        for index in range(len(grids))
        if any(o["kind"] in kinds and o["colour"] in colours for o in grids.of(index))
    ]
    assert chosen.tolist() == expected
    assert 0 < len(chosen) < len(grids)


def test_pages_cover_everything_once_and_none_lies_beyond() -> None:
    chosen = np.arange(10)
    pages = [browse.page_of(chosen, page, 4).tolist() for page in (1, 2, 3)]
    assert [index for page in pages for index in page] == list(range(10))
    assert browse.page_of(chosen, 99, 4).tolist() == [8, 9]
    assert browse.page_of(np.arange(0), 1, 4).tolist() == []


def test_distributions_are_shares_of_what_was_chosen(project: Path, grids: browse.Grids) -> None:
    images = browse.images_of(project / "data/fashion_mnist", "val")
    for shares in browse.grid_shares(grids, np.arange(50)).values():
        assert sum(shares.values()) == pytest.approx(1)
    only = browse.grid_shares(grids, browse.choose_grids(grids, objects=(1, 1)))
    assert only["objects a grid"] == {"1": 1.0}
    classes = browse.image_shares(images, browse.choose_images(images, ["lying"]))
    assert classes["class"] == {"upright": 0.0, "lying": 1.0}
    assert sum(classes["mean brightness, 0 to 255"].values()) == pytest.approx(1)


def rows_of(width: int) -> st.SearchStrategy[list[list[int]]]:
    """Rows of so many colours each."""
    row = st.lists(st.integers(0, 9), min_size=width, max_size=width)
    return st.lists(row, min_size=1, max_size=12)


@given(st.integers(1, 12).flatmap(rows_of))
def test_what_is_copied_can_be_pasted(rows: list[list[int]]) -> None:
    grid = np.array(rows, dtype=np.uint8)
    assert (sketch.from_text(browse.to_text(grid)) == grid).all()
    assert (sketch.from_text(json.dumps(rows)) == grid).all()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("012\n01", "row 2"),
        ("012\n0x2", "'x'"),
        ("٠١", "row 1"),
        ("[[0, 10]]", "10"),
        ("[[0, true]]", "true"),
        ("[[0, 1]", "JSON"),
        ("[1, 2]", "rows"),
        ("[]", "rows"),
        ("0" * 65, "1 x 65"),
        ("0" * 50_000, "50000"),
        ("<script>alert(1)</script>", "'<'"),
    ],
)
def test_a_text_that_is_no_grid_is_reported_where(text: str, words: str) -> None:
    with pytest.raises(GenlabError) as error:
        sketch.from_text(text)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_the_parser_marks_what_is_not_valid() -> None:
    grid = np.zeros((8, 8), dtype=np.uint8)
    assert sketch.read(grid).sentence
    grid[2, 1:5] = 3
    valid = sketch.read(grid)
    assert (valid.legal, valid.faults) == (True, [])
    assert "stray" in valid.sentence
    grid[6, 6] = 5
    stray = sketch.read(grid)
    assert (stray.legal, len(stray.faults)) == (False, 1)
    assert "1 stray" in stray.sentence
    assert stray.marked != valid.marked
