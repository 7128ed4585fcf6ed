"""Filters let through what they say; a pasted grid is read or refused in one line."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from genlab.web import items


@pytest.fixture
def grids(project: Path) -> items.Split:
    return items.load_items(project / "data/arc_grids", "train")


def test_a_filter_by_kind_and_colour_asks_for_one_object_with_both(grids: items.Split) -> None:
    wanted = {"kind": ["plus", "zigzag"], "colour": ["red", "blue"]}
    chosen = items.choose_items(grids, wanted)
    rows = [grids.of(index).to_dict("records") for index in range(len(grids))]
    expected = [
        index
        for index, objects in enumerate(rows)
        if any(
            row["kind"] in wanted["kind"] and row["colour"] in wanted["colour"] for row in objects
        )
    ]
    assert chosen.tolist() == expected
    assert 0 < len(chosen) < len(grids)


def test_a_table_of_objects_says_what_the_cells_show(grids: items.Split) -> None:
    for index in range(20):
        cells = np.count_nonzero(grids.items[index])
        assert grids.of(index)["cells"].sum() == cells
    assert grids.counts.sum() == len(grids.parts)


def test_a_filter_by_number_of_objects_or_by_class(project: Path, grids: items.Split) -> None:
    assert (grids.counts[items.choose_items(grids, {}, [1])] == 1).all()
    images = items.load_items(project / "data/fashion_mnist", "val")
    chosen = items.choose_items(images, {"class": ["lying"]})
    assert {images.describe(index) for index in chosen} == {"lying"}
    assert len(items.choose_items(images, {"class": []})) == len(images)


def rows_of(width: int) -> st.SearchStrategy[list[list[int]]]:
    """Rows of so many colours each."""
    row = st.lists(st.integers(0, 9), min_size=width, max_size=width)
    return st.lists(row, min_size=1, max_size=12)


@given(st.integers(1, 12).flatmap(rows_of))
def test_what_is_copied_can_be_pasted(rows: list[list[int]]) -> None:
    grid = np.array(rows, dtype=np.uint8)
    assert (items.parse_grid(items.format_grid(grid)) == grid).all()
    assert (items.parse_grid(json.dumps(rows)) == grid).all()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("012\n01", "row 2"),
        ("٠١", "row 1"),
        ("[[0, 10]]", "10"),
        ("[[0, true]]", "true"),
        ("[[0, 1]", "JSON"),
        ("[" * 30_000, "JSON"),
        ("[1, 2]", "rows"),
        ("0" * 65, "1 x 65"),
        ("0" * 50_000, "50000"),
        ("<script>alert(1)</script>", "'<'"),
    ],
)
def test_a_text_that_is_no_grid_is_reported_where(text: str, words: str) -> None:
    with refused(words):
        items.parse_grid(text)
