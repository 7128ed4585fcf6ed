"""Generated grids, from the stages' commands to the split files, their loaders and data sheet."""

import json
from pathlib import Path

import numpy as np
import pytest
import tiny
from refusals import refused
from stage_runs import run_stage

from genlab.core.errors import GenlabError
from genlab.core.io import read_json, sha256, write_npz
from genlab.core.params import load_params
from genlab.datasets.arc_grids import (
    describe,
    find_data_file,
    generate_grids,
    load_objects,
    load_split,
    make_distribution,
    name_data_file,
    split_grids,
)
from genlab.datasets.manifests import write_manifest
from genlab.grids.distribution import GridDistribution
from genlab.grids.parser import find_components
from genlab.grids.shapes import KINDS

ZEROS = np.zeros((3, 16, 16), dtype=np.uint8)
GENERATE = "python stages/generate.py --dataset arc_grids"
SPLIT = "python stages/split.py --dataset arc_grids"


@pytest.fixture
def generated(tmp_path):
    generate_grids("arc_grids", tiny.params(seed=1), tmp_path / "generated", count=200)
    return tmp_path / "generated"


def test_the_default_params_are_the_default_distribution(root):
    assert make_distribution(load_params(root / "params.yaml").grids) == GridDistribution()


def test_the_default_dataset_has_100000_grids_of_16_cells_in_ten_classes(root):
    params = load_params(root / "params.yaml")
    assert (params.grids.count, params.grids.size) == (100_000, 16)
    assert params.dataset("arc_grids").classes == 10
    assert name_data_file(params.grids.count) == "simplified_dataset_100k.npz"


def test_the_commands_write_a_complete_dataset(root, tmp_path):
    generated = str(tmp_path / "made")
    out = tmp_path / "out"
    assert not run_stage(root, "generate", "--output", generated, "--count", "120").status
    assert not run_stage(root, "split", "--data-path", generated, "--output", str(out)).status
    files = {"simplified_dataset_120.npz", "objects.npz", "manifest.json", "data.json", "sheet.png"}
    assert {file.name for file in out.iterdir()} == files
    sizes = {name: len(load_split(out, name)) for name in ("train", "val", "test")}
    assert sizes == {"train": 96, "val": 12, "test": 12}
    facts = json.loads((out / "data.json").read_text())
    assert facts["splits"]["train"]["mean_objects"] == len(load_objects(out, "train")) / 96
    assert facts["duplicates_across_splits"] == 0
    assert 20 < facts["data_entropy_bound_nats"] < 50


def test_a_split_repeats_its_bytes_and_keeps_objects_with_their_grids(generated, tmp_path):
    order = ["grid", "row", "col", "height", "width", "colour", "shape"]
    out = tmp_path / "out"
    sums = []
    for folder in (out, tmp_path / "again"):
        split_grids("arc_grids", tiny.params().grids, generated, folder, seed=0)
        sums.append([sha256(path) for path in sorted(folder.iterdir())])
    assert sums[0] == sums[1]
    for name in ("train", "val", "test"):
        parsed = find_components(load_split(out, name)).legal
        objects = load_objects(out, name)
        assert np.array_equal(np.sort(objects, order=order), np.sort(parsed, order=order))


def _repeat_a_grid(file):
    grids = np.load(file)["grids"]
    grids[7] = grids[3]
    write_npz(file, {"grids": grids}, kind="grids")
    manifest = read_json(file.parent / "manifest.json", producer_command="")
    del manifest["sha256"]
    write_manifest(file.parent, "generated_grids", ["grids.npz", "objects.npz"], manifest)


@pytest.mark.parametrize(
    ("name", "damage", "says"),
    [
        ("grids.npz", lambda file: file.write_bytes(file.read_bytes()[:500]), "grids.npz"),
        ("objects.npz", Path.unlink, "objects.npz"),
        ("manifest.json", Path.unlink, "manifest.json"),
        ("grids.npz", _repeat_a_grid, "1 duplicate"),
    ],
)
def test_a_damaged_input_is_named_and_nothing_is_written(generated, tmp_path, name, damage, says):
    damage(generated / name)
    with pytest.raises(GenlabError, match=says) as error:
        split_grids("arc_grids", tiny.params().grids, generated, tmp_path / "out", seed=0)
    assert GENERATE in str(error.value)
    assert not (tmp_path / "out").exists()


def test_the_data_sheet_counts_what_is_there():
    grids = np.zeros((2, 16, 16), dtype=np.uint8)
    grids[0, 0, :3] = 4
    grids[1, 0:2, 0:2] = 5
    grids[1, 8, 0:4] = 4
    facts = describe(grids, find_components(grids).legal)
    assert (facts["count"], facts["mean_objects"]) == (2, 1.5)
    assert facts["black_share"] == 1 - 11 / 512
    assert facts["object_count"] == {"1": 0.5, "2": 0.5}
    kinds = {"line_horizontal": 2 / 3, "rectangle_filled": 1 / 3}
    assert facts["kinds"] == {kind: pytest.approx(kinds.get(kind, 0)) for kind in KINDS}
    assert facts["colours"]["4"] == pytest.approx(2 / 3)
    assert facts["colours"]["9"] == 0
    assert facts["object_cells"] == {"3": pytest.approx(1 / 3), "4": pytest.approx(2 / 3)}


@pytest.mark.parametrize(("count", "name"), [(100_000, "100k"), (2000, "2k"), (2500, "2500")])
def test_the_file_is_named_after_its_count(count, name):
    assert name_data_file(count) == f"simplified_dataset_{name}.npz"


def _cells(value):
    grids = ZEROS.copy()
    grids[2, 1, 2] = value
    return grids


@pytest.mark.parametrize(
    ("grids", "says"),
    [
        (ZEROS[:, :8, :8], r"\(3, 8, 8\)"),
        (ZEROS[0], r"\(16, 16\)"),
        (ZEROS[:0], r"\(0, 16, 16\)"),
        (ZEROS.astype(float), "float64"),
        (_cells(11), "colour 11 at row 1, column 2 of grid 2"),
    ],
)
def test_a_users_file_is_read_or_refused_with_the_fault(tmp_path, grids, says):
    file = tmp_path / "mine.npz"
    np.savez(file, test=_cells(9), train=grids)
    assert np.array_equal(load_split(file, "test"), _cells(9))
    with pytest.raises(GenlabError, match=says) as error:
        load_split(file, "train", 16)
    assert (error.value.path, error.value.fix) == (file, SPLIT)
    with refused("val", path=file, fix=SPLIT):
        load_split(file, "val")


def test_a_folder_must_hold_one_dataset_file(tmp_path):
    with refused(tmp_path):
        find_data_file(tmp_path)
    (tmp_path / name_data_file(10)).touch()
    assert find_data_file(tmp_path) == tmp_path / name_data_file(10)
    (tmp_path / name_data_file(20)).touch()
    with refused(name_data_file(10), name_data_file(20)):
        find_data_file(tmp_path)
