import numpy as np
import pytest

from genlab.core.errors import GenlabError
from genlab.datasets.datasheet import describe
from genlab.datasets.splits import shared_grids, split_indices
from genlab.grids.distribution import GridDistribution
from genlab.grids.generator import AtomicImageGenerator
from genlab.grids.parser import object_table, parse


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(100_000, (80_000, 10_000, 10_000)), (2000, (1600, 200, 200)), (10, (8, 1, 1))],
)
def test_shares_are_exact_and_every_item_goes_to_one_split(count, sizes):
    indices = split_indices(count, 0.1, 0.1, seed=0)
    assert tuple(len(part) for part in indices.values()) == sizes
    assert list(indices) == ["train", "val", "test"]
    assert np.array_equal(np.sort(np.concatenate(list(indices.values()))), np.arange(count))


def test_the_seed_decides_who_goes_where():
    first, again, other = (split_indices(500, 0.1, 0.2, seed)["test"] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("shares", [(0.0, 0.1), (0.001, 0.1), (0.5, 0.5)])
def test_an_empty_split_is_refused(shares):
    with pytest.raises(GenlabError, match=r"split \w+ would hold 0 of 100"):
        split_indices(100, *shares, seed=0)


def test_a_grid_in_two_splits_is_counted():
    grids, _ = AtomicImageGenerator(GridDistribution()).generate(20, seed=0)
    assert shared_grids({"train": grids[:10], "test": grids[10:]}) == 0
    assert shared_grids({"train": grids[:11], "test": grids[10:]}) == 1
    assert shared_grids({"train": grids, "test": grids[:5]}) == 5


def test_the_data_sheet_counts_what_is_there():
    grids = np.zeros((2, 16, 16), dtype=np.uint8)
    grids[0, 0, :3] = 4
    grids[1, 0:2, 0:2] = 5
    grids[1, 8, 0:4] = 4
    facts = describe(grids, object_table(parse(grids)))
    assert facts["count"] == 2
    assert facts["black_share"] == 1 - 11 / 512
    assert facts["object_count"] == {"1": 0.5, "2": 0.5}
    assert facts["kinds"]["line_horizontal"] == pytest.approx(2 / 3)
    assert facts["kinds"]["rectangle_filled"] == pytest.approx(1 / 3)
    assert facts["colours"]["4"] == pytest.approx(2 / 3)
    assert facts["colours"]["9"] == 0
    assert facts["cell_colours"]["5"] == 4 / 512
    assert facts["object_cells"] == {"3": pytest.approx(1 / 3), "4": pytest.approx(2 / 3)}
    assert facts["object_sides"] == {"2": 1 / 3, "3": 1 / 3, "4": 1 / 3}
    assert facts["mean_objects"] == 1.5
