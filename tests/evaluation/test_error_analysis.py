"""Hypotheses: planted causes are supported, planted opposites refuted, the rest left undecided."""

import base64
import io
import json
from typing import Any

import numpy as np
import pytest
from pages import Page
from PIL import Image

from genlab.evaluation.diagnostics import gallery
from genlab.evaluation.diagnostics.attributes import ALONE, attributes
from genlab.evaluation.diagnostics.error_analysis import (
    HYPOTHESES,
    compare,
    explanation,
    kind_words,
)
from genlab.grids.distribution import GridDistribution
from genlab.grids.generator import AtomicImageGenerator
from genlab.grids.parser import object_table, parse
from genlab.grids.shapes import KINDS


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    grids, objects = AtomicImageGenerator(GridDistribution()).generate(2500, 3)
    return {"grids": grids, "objects": objects, "attributes": attributes(grids, objects)}


def _by_name(tests: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {test["name"]: test for test in tests}


def _of(grid: np.ndarray) -> dict[str, Any]:
    batch = grid[None]
    return {k: v[0] for k, v in attributes(batch, object_table(parse(batch))).items()}


def test_attributes_of_a_grid_drawn_by_hand() -> None:
    grid = np.zeros((16, 16), dtype=np.uint8)
    grid[0, 2:7] = 3  # a line on the rim
    grid[4:6, 2:4] = 3  # a square three free cells below
    grid[9:12, 9:12] = 5
    grid[10, 10] = 0  # a frame, three free cells away from the square
    found = _of(grid)
    assert found["object_count"] == 3
    assert found["foreground_cells"] == 17
    assert (found["smallest_cells"], found["largest_cells"]) == (4, 8)
    assert (found["thinnest"], found["longest"]) == (1, 5)
    assert found["least_fill"] == pytest.approx(8 / 9)
    assert (found["nearest_gap"], found["nearest_same_colour"]) == (3, True)
    assert found["at_border"]
    assert found["repeated_colour"]
    assert found["distinct_colours"] == 2
    assert {k for k in KINDS if found[f"kind_{k}"]} == {
        "line_horizontal",
        "rectangle_filled",
        "rectangle_hollow",
    }


@pytest.mark.parametrize("offset", [(0, 4), (4, 0), (4, 4), (4, -4)])
def test_the_nearest_gap_is_seen_in_every_direction(offset: tuple[int, int]) -> None:
    grid = np.zeros((16, 16), dtype=np.uint8)
    grid[6:8, 6:8] = 1
    row, col = 6 + offset[0], 6 + offset[1]
    grid[row : row + 2, col : col + 2] = 2
    found = _of(grid)
    assert (found["nearest_gap"], found["nearest_same_colour"]) == (2, False)


def test_a_lone_object_has_no_neighbour_and_an_empty_grid_no_sizes() -> None:
    grid = np.zeros((16, 16), dtype=np.uint8)
    assert _of(grid)["smallest_cells"] == 0
    grid[3:5, 3:5] = 1
    assert _of(grid)["nearest_gap"] == ALONE


def test_attributes_agree_with_the_object_table(data: dict[str, Any]) -> None:
    objects, found = data["objects"], data["attributes"]
    counts = np.bincount(objects["grid"], minlength=2500)
    assert (found["object_count"] == counts).all()
    cells = np.bincount(objects["grid"], weights=objects["cells"], minlength=2500)
    assert (found["foreground_cells"] == cells).all()
    assert (found["nearest_gap"][counts >= 2] >= 1).all()


def test_a_planted_cause_is_supported(data: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    errors = rng.exponential(1, 2500) * (1 + 3 * data["attributes"]["kind_plus"])
    tests = _by_name(compare(errors, data["attributes"], error_name="nats"))
    assert tests["kind_plus"]["verdict"] == "supported"
    assert tests["kind_plus"]["low"] < 4 < tests["kind_plus"]["high"]
    assert tests["colour_red"]["verdict"] == "undecided"


def test_a_planted_opposite_is_refuted(data: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    errors = rng.exponential(1, 2500) * np.where(data["attributes"]["at_border"], 0.3, 1)
    test = _by_name(compare(errors, data["attributes"], error_name="nats"))["at_border"]
    assert test["verdict"] == "refuted"
    assert test["high"] < 1


def test_more_objects_alone_do_not_make_a_kind_hard(data: dict[str, Any]) -> None:
    # The error grows with the number of objects, and so does the chance to hold any one kind: the
    # raw ratio sees a cause everywhere, the ratio at equal counts sees none.
    rng = np.random.default_rng(1)
    errors = rng.exponential(1, 2500) * data["attributes"]["object_count"]
    tests = _by_name(compare(errors, data["attributes"], error_name="nats"))
    kinds = [tests[f"kind_{kind}"] for kind in KINDS]
    assert min(test["ratio"] for test in kinds) > 1.1
    assert {test["verdict"] for test in kinds} == {"undecided"}
    assert tests["many_objects"]["verdict"] == "supported"


def test_without_any_cause_nothing_is_found_in_many_looks(data: dict[str, Any]) -> None:
    for seed in range(3):
        errors = np.random.default_rng(seed).exponential(1, 2500)
        tests = compare(errors, data["attributes"], error_name="nats", seed=seed)
        assert {test["verdict"] for test in tests} == {"undecided"}


def test_no_error_at_all_is_untestable_and_writable_as_json(data: dict[str, Any]) -> None:
    tests = compare(np.zeros(2500), data["attributes"], error_name="wrong cells", bootstrap=50)
    assert {test["verdict"] for test in tests} == {"untestable"}
    assert len(tests) == len(HYPOTHESES)
    json.dumps(tests, allow_nan=False)


def test_an_error_that_occurs_only_with_the_attribute_is_supported_without_a_bound(
    data: dict[str, Any],
) -> None:
    errors = data["attributes"]["kind_zigzag"].astype(float)
    test = _by_name(compare(errors, data["attributes"], error_name="wrong cells"))["kind_zigzag"]
    assert test["verdict"] == "supported"
    assert test["ratio_same_count"] is None
    index = int(np.flatnonzero(errors)[0])
    best = explanation(index, data["attributes"], [test])
    assert best is not None
    assert best["name"] == "kind_zigzag"


def test_a_refuted_hypothesis_explains_nothing(data: dict[str, Any]) -> None:
    refuted = {"name": "many_objects", "verdict": "refuted", "low": 0.2, "ratio_same_count": 0.3}
    index = int(np.argmax(data["attributes"]["object_count"]))
    assert explanation(index, data["attributes"], [refuted]) is None


def test_errors_that_are_not_finite_or_negative_are_refused(data: dict[str, Any]) -> None:
    for bad in (np.nan, -1.0):
        with pytest.raises(ValueError, match="finite"):
            compare(np.full(2500, bad), data["attributes"], error_name="nats")


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ({(3, 3): 1}, "blue speck of 1 cell"),
        ({(3, c): 2 for c in range(12)}, "red component of 1 x 12, larger than any shape"),
        ({(3, c): 1 + (c > 5) for c in range(3, 8)}, "blue and red touch"),
        ({(3, 3): 3, (3, 4): 3, (3, 5): 3, (4, 3): 3, (4, 4): 3}, "1 cell away from"),
    ],
)
def test_faults_are_named(cells: dict[tuple[int, int], int], words: str) -> None:
    grid = np.zeros((16, 16), dtype=np.uint8)
    for place, colour in cells.items():
        grid[place] = colour
    assert len(gallery.faults(grid)) == 1
    assert words in gallery.faults(grid)[0]


def test_kinds_are_said_as_people_say_them() -> None:
    assert [kind_words(kind) for kind in ("line_antidiagonal", "l_shape", "plus")] == [
        "an antidiagonal line",
        "an L shape",
        "a plus",
    ]


@pytest.fixture(scope="module")
def summary(data: dict[str, Any]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    predicted, samples = data["grids"].copy(), data["grids"][:300].copy()
    predicted[5, 0, :4] = 9 - predicted[5, 0, :4]
    samples[::10, 8, 8] = 9 - samples[::10, 8, 8]
    nats = rng.exponential(1, 2500)
    return gallery.summary(
        data["grids"], predicted, nats, data["objects"], samples, count=12, bootstrap=100
    )


def test_the_gallery_shows_wrong_grids_first_and_says_which_are_exact(
    summary: dict[str, Any],
) -> None:
    items = summary["items"]
    assert len(items) == 12
    assert (items[0]["index"], items[0]["standing"]) == (5, "4 wrong cells")
    assert {item["standing"] for item in items[1:]} == {"exact, but least certain"}
    nats = [item["reconstruction_nats"] for item in items[1:]]
    assert nats == sorted(nats, reverse=True)
    assert summary["error"] == "nats"  # one wrong grid of 2500 is too few to learn from


def test_sample_items_all_have_stray_cells_and_a_fault(summary: dict[str, Any]) -> None:
    assert 0 < len(summary["sample_items"]) <= 12
    for item in summary["sample_items"]:
        assert item["stray_cells"] > 0
        assert item["faults"]


def test_the_page_needs_no_other_file_and_every_picture_has_words(summary: dict[str, Any]) -> None:
    page = Page()
    page.feed(gallery.page("Failures <of> arc_grids", summary))
    assert len(page.images) == 2 * 12 + len(summary["sample_items"])
    assert all(str(address).startswith("data:") for address in page.addresses)
    assert all(image["alt"] for image in page.images)


def test_the_page_escapes_what_it_is_given(summary: dict[str, Any]) -> None:
    text = gallery.page("<script>", summary)
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_the_summary_is_writable_as_json_and_the_same_each_time(summary: dict[str, Any]) -> None:
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_a_tile_outlines_the_wrong_cell_alone() -> None:
    truth = np.zeros((16, 16), dtype=int)
    wrong = truth.copy()
    wrong[2, 5] = 1
    data = base64.b64decode(gallery.tile(wrong.tolist(), truth.tolist()).split(",")[1])
    picture = np.asarray(Image.open(io.BytesIO(data)))
    white = np.argwhere((picture == 255).all(axis=-1)) // gallery.CELL
    assert {tuple(place) for place in white.tolist()} == {(2, 5)}
