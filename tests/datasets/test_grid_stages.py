"""Generated grids, from the stages' commands to the split files and the data sheet."""

import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import tiny

from genlab.core.errors import GenlabError
from genlab.core.io import read_json, sha256, write_json, write_npz
from genlab.datasets.arc_grids import load_objects, load_split
from genlab.datasets.grid_stages import (
    describe,
    entropy_facts,
    generate_grids,
    read_generated,
    split_grids,
)
from genlab.datasets.manifests import write_manifest
from genlab.grids.distribution import GridDistribution
from genlab.grids.parser import object_table, parse
from genlab.grids.shapes import KINDS


@pytest.fixture
def generated(tmp_path):
    generate_grids("arc_grids", tiny.params(seed=1), tmp_path / "generated", count=200)
    return tmp_path / "generated"


def run(root, name, *options):
    command = [sys.executable, root / "stages" / name, *map(str, options)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def test_the_commands_write_a_complete_dataset(root, tmp_path):
    made, out = tmp_path / "made", tmp_path / "out"
    done = run(root, "generate.py", "--output", made, "--count", 120, "--seed", 3)
    assert done.returncode == 0, done.stderr
    done = run(root, "split.py", "--data-path", made, "--output", out)
    assert done.returncode == 0, done.stderr
    files = {"simplified_dataset_120.npz", "objects.npz", "manifest.json", "data.json", "sheet.png"}
    assert {file.name for file in out.iterdir()} == files
    sizes = {name: len(load_split(out, name)) for name in ("train", "val", "test")}
    assert sizes == {"train": 96, "val": 12, "test": 12}
    facts = json.loads((out / "data.json").read_text())
    assert facts["splits"]["train"]["mean_objects"] == len(load_objects(out, "train")) / 96
    assert facts["duplicates_across_splits"] == 0
    assert 20 < facts["data_entropy_bound_nats"] < 50


def test_a_missing_input_stops_the_command_with_one_line(root, tmp_path):
    done = run(root, "split.py", "--data-path", tmp_path / "none", "--output", tmp_path)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith("genlab: error: ")
    assert "manifest.json is missing" in line
    assert "python stages/generate.py --dataset arc_grids" in line


def test_the_same_seed_writes_the_same_bytes(generated, tmp_path):
    for folder in ("a", "b"):
        split_grids("arc_grids", tiny.params(), generated, tmp_path / folder, seed=0)
    first, second = (
        {file.name: sha256(file) for file in (tmp_path / folder).iterdir()} for folder in ("a", "b")
    )
    assert first == second


def test_objects_stay_with_their_grids_through_the_split(generated, tmp_path):
    order = ["grid", "row", "col", "height", "width", "colour", "shape"]
    split_grids("arc_grids", tiny.params(), generated, tmp_path / "out", seed=0)
    for split in ("train", "val", "test"):
        parsed = object_table(parse(load_split(tmp_path / "out", split)))
        found = load_objects(tmp_path / "out", split)
        assert np.array_equal(np.sort(found, order=order), np.sort(parsed, order=order))


def _replace_by_text(file):
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("readme.txt", "no grids here")


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(file.read_bytes()[:500]),
        lambda file: file.unlink(),
        _replace_by_text,
    ],
)
@pytest.mark.parametrize("name", ["grids.npz", "objects.npz"])
def test_a_damaged_input_is_named_and_nothing_is_written(generated, tmp_path, damage, name):
    damage(generated / name)
    with pytest.raises(GenlabError) as error:
        split_grids("arc_grids", tiny.params(), generated, tmp_path / "out", seed=0)
    assert error.value.path == generated / name
    assert error.value.fix == "python stages/generate.py --dataset arc_grids"
    assert not (tmp_path / "out").exists()


def test_duplicate_grids_are_not_split(generated, tmp_path):
    grids, _, _, manifest = read_generated(generated)
    grids[7] = grids[3]
    write_npz(generated / "grids.npz", {"grids": grids}, kind="grids")
    facts = {key: value for key, value in manifest.items() if key != "sha256"}
    write_manifest(generated, "generated_grids", ["grids.npz", "objects.npz"], facts)
    with pytest.raises(GenlabError, match="1 duplicate"):
        split_grids("arc_grids", tiny.params(), generated, tmp_path / "out", seed=0)


def test_a_manifest_of_another_edition_is_refused(generated):
    file = generated / "manifest.json"
    write_json(file, {**read_json(file, producer_command=""), "version": 2})
    with pytest.raises(GenlabError, match=r"manifest\.json"):
        read_generated(generated)


def test_the_data_sheet_counts_what_is_there():
    grids = np.zeros((2, 16, 16), dtype=np.uint8)
    grids[0, 0, :3] = 4
    grids[1, 0:2, 0:2] = 5
    grids[1, 8, 0:4] = 4
    facts = describe(grids, object_table(parse(grids)))
    assert facts["count"] == 2
    assert facts["black_share"] == 1 - 11 / 512
    assert facts["object_count"] == {"1": 0.5, "2": 0.5}
    kinds = {"line_horizontal": 2 / 3, "rectangle_filled": 1 / 3}
    assert facts["kinds"] == {kind: pytest.approx(kinds.get(kind, 0)) for kind in KINDS}
    assert facts["colours"]["4"] == pytest.approx(2 / 3)
    assert facts["colours"]["9"] == 0
    assert facts["cell_colours"]["5"] == 4 / 512
    assert facts["object_cells"] == {"3": pytest.approx(1 / 3), "4": pytest.approx(2 / 3)}
    assert facts["object_sides"] == {"2": 1 / 3, "3": 1 / 3, "4": 1 / 3}
    assert facts["mean_objects"] == 1.5


def test_the_entropy_bound_lies_in_its_interval(generated):
    _, objects, distribution, _ = read_generated(generated)
    facts = entropy_facts(objects, distribution, 200, seed=0)
    interval = facts["data_entropy_bound_interval"]
    assert interval["low"] < facts["data_entropy_bound_nats"] < interval["high"]
    assert interval["n"] == 200
    assert isinstance(distribution, GridDistribution)
