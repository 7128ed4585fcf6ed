"""The same tasks give the same grids through every convention; doubt and faults name their key."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import own_data
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from genlab.core.params.sections import SourceParams
from genlab.datasets.readers.conventions.tasks import GridFault, parse_rows, parse_text
from genlab.datasets.readers.grids import OwnGrids, find_kind, read_grids
from genlab.grids.palette import PADDING

TASKS = own_data.draw_tasks(12)


def read(path: Path, **options: Any) -> OwnGrids:
    return read_grids(SourceParams.model_validate({"path": str(path), **options}))


def on_canvas(side: int) -> list[bytes]:
    """All grids of TASKS on a canvas, sorted."""
    canvas = []
    for rows in own_data.list_grids(TASKS):
        grid = np.full((side, side), PADDING, np.uint8)
        grid[: len(rows), : len(rows[0])] = rows
        canvas.append(grid.tobytes())
    return sorted(canvas)


@pytest.mark.parametrize("name", own_data.TASK_CONVENTIONS)
def test_every_convention_gives_the_same_grids(tmp_path: Path, name: str) -> None:
    path = own_data.TASK_CONVENTIONS[name](tmp_path / "data", TASKS)
    assert find_kind(SourceParams(path=str(path))) == "grids"
    own_grids = read(path)
    assert own_grids.side == 10
    assert sorted(grid.tobytes() for grid in own_grids.grids) == on_canvas(10)
    assert not own_grids.tasks.unreadable
    groups = len(np.unique(own_grids.groups))
    assert groups == (len(own_grids.grids) if name in own_data.WITHOUT_TASKS else 12)


def test_training_and_evaluation_are_official_splits(tmp_path: Path) -> None:
    names = list(TASKS)
    for split, chosen in (("training", names[:9]), ("evaluation", names[9:])):
        own_data.write_task_files(tmp_path / "data" / split, {name: TASKS[name] for name in chosen})
    own_grids = read(tmp_path)
    assert (own_grids.splits.count("train"), own_grids.splits.count("test")) == (54, 18)
    assert any("official splits: " in line for line in own_grids.describe())


def test_arrays_of_colours_are_doubt_until_a_kind_is_stated(tmp_path: Path) -> None:
    grids = np.random.default_rng(0).integers(0, 10, (20, 9, 7))
    np.save(tmp_path / "grids.npy", grids)
    source = SourceParams(path=str(tmp_path / "grids.npy"))
    with refused("grids or images", key="source.kind"):
        find_kind(source)
    own_grids = read(tmp_path / "grids.npy", kind="grids")
    assert (own_grids.grids[:, :9, :7] == grids).all()
    np.save(tmp_path / "masks.npy", grids > 4)
    assert find_kind(SourceParams(path=str(tmp_path / "masks.npy"))) == "images"
    np.save(tmp_path / "levels.npy", (grids * 20).astype(np.uint8))
    assert find_kind(SourceParams(path=str(tmp_path / "levels.npy"))) == "images"
    with refused("0 to 9", path=tmp_path / "levels.npy"):
        read(tmp_path / "levels.npy", kind="grids")


def test_pictures_with_side_files_are_images(tmp_path: Path) -> None:
    own_data.write_json_lines(tmp_path / "data", *own_data.draw(5))
    (tmp_path / "data/facts.json").write_text("{}")
    assert find_kind(SourceParams(path=str(tmp_path / "data"))) == "images"


def test_a_canvas_leaves_larger_grids_out_by_name(tmp_path: Path) -> None:
    path = own_data.write_one_file(tmp_path / "data", TASKS)
    own_grids = read(path, size=6)
    assert len(own_grids.grids) + len(own_grids.larger) == 72
    assert any("larger than the canvas" in line for line in own_grids.describe())
    assert len(read(path, duplicates="drop").retained_rows) <= 72


BAD: dict[str, Any] = {
    "colour 10": [[0, 10]],
    "ragged": [[0, 1], [0]],
    "text": [["a"]],
    "true": [[True]],
    "fraction": [[0.5]],
    "nested": [[[0]]],
    "too large": [[0] * 31],
    "empty": [],
}


@pytest.mark.parametrize("name", BAD)
def test_a_faulty_grid_is_named_and_more_than_one_percent_is_refused(
    tmp_path: Path, name: str
) -> None:
    tasks = json.loads(json.dumps(TASKS))
    tasks["00000003"]["train"][1]["output"] = BAD[name] or [[]]
    path = own_data.write_one_file(tmp_path / "data", tasks)
    with refused("00000003 train 1 output", key="source.unreadable"):
        read(path)
    assert len(read(path, unreadable="skip").grids) == 71


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '"x"', '{"a": 1}', '{"train": 3}', '[{"a": 1}]', "[[[1], 2]]", "nan"],
)
def test_a_file_that_holds_no_tasks_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "tasks.json").write_text(content)
    with refused("tasks.json", path=tmp_path / "tasks.json"):
        read(tmp_path / "tasks.json")


def test_tests_without_an_output_are_read(tmp_path: Path) -> None:
    task = {"train": [{"input": [[1]], "output": [[2]]}], "test": [{"input": [[3]]}]}
    for number, absent in enumerate((None, [], ...)):
        variant = json.loads(json.dumps(task))
        if absent is not ...:
            variant["test"][0]["output"] = absent
        (tmp_path / f"{number}.json").write_text(json.dumps(variant))
    assert len(read(tmp_path).grids) == 9


@given(st.lists(st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1)))
def test_text_that_was_written_is_read_again(grids: list[list[list[int]]]) -> None:
    text = "\n\n".join("\n".join("".join(map(str, row)) for row in grid) for grid in grids)
    assert list(parse_text(text)) == grids


@given(st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=20))
def test_any_rows_are_a_grid_or_a_fault(rows: Any) -> None:
    try:
        grid = parse_rows(rows)
    except GridFault:
        return
    assert grid.tolist() == rows
