"""Batches contain every item once per pass, and the share that the params set is corrupted."""

from collections import Counter

import numpy as np
import pytest
import tiny
import torch

from genlab.datasets.arc_grids import make_distribution
from genlab.grids.entropy import grid_nats
from genlab.grids.parser import find_components
from genlab.vae.training.batches import corrupt, make_epoch_generator, shuffle_rows, transform

GRIDS = torch.from_numpy(tiny.grids(150))


def test_every_pass_is_another_permutation_decided_by_the_seed() -> None:
    rows = np.concatenate([shuffle_rows(0, 100, start, 64) for start in range(0, 320, 64)])
    for start in (0, 100, 200):
        assert sorted(rows[start : start + 100]) == list(range(100))
    assert not np.array_equal(rows[:100], rows[100:200])
    assert np.array_equal(rows, shuffle_rows(0, 100, 0, 320))
    assert not np.array_equal(rows, shuffle_rows(1, 100, 0, 320))


def test_every_epoch_has_its_own_random_numbers() -> None:
    seeds = {
        make_epoch_generator(seed, epoch).initial_seed() for seed in range(3) for epoch in range(3)
    }
    assert len(seeds) == 9
    assert make_epoch_generator(1, 2).initial_seed() in seeds


@pytest.mark.parametrize(("share", "untouched"), [(1.0, 0.0), (0.5, 0.5), (0.0, 1.0)])
def test_a_share_of_the_grids_is_corrupted(share: float, untouched: float) -> None:
    many = GRIDS.repeat(10, 1, 1)
    corrupted, clean = corrupt(many, share, tiny.CLASSES, torch.Generator().manual_seed(0))
    assert corrupted.shape == many.shape
    assert 0 <= int(corrupted.min()) <= int(corrupted.max()) < tiny.CLASSES
    same = (corrupted == many).flatten(1).all(1).float().mean()
    assert float(same) == pytest.approx(untouched, abs=0.05)
    assert torch.equal(corrupted[clean > 0], many[clean > 0])
    assert float(clean.mean()) == pytest.approx(untouched, abs=0.05)


def _images(grid: torch.Tensor) -> set[bytes]:
    """The eight images of a grid under rotations and reflections."""
    turned = [torch.rot90(grid, turns) for turns in range(4)]
    return {image.numpy().tobytes() for t in turned for image in (t, t.flip(1))}


def test_flips_are_all_eight_symmetries_of_the_square_and_equally_likely() -> None:
    grid = GRIDS[0]
    expected = _images(grid)
    assert len(expected) == 8
    many = grid.expand(8000, -1, -1)
    flipped = transform(many, "flips", tiny.CLASSES, torch.Generator().manual_seed(0))
    counts = Counter(row.numpy().tobytes() for row in flipped)
    assert counts.keys() == expected
    assert min(counts.values()) > 850


def test_colours_are_permuted_and_black_stays_black() -> None:
    x = torch.arange(tiny.CLASSES).view(1, 2, 5).expand(9000, -1, -1)
    permuted = transform(x, "colours", tiny.CLASSES, torch.Generator().manual_seed(0))
    rows = permuted.flatten(1)
    assert not rows[:, 0].any()
    assert torch.equal(rows.sort(1).values, x.flatten(1))
    assert torch.bincount(rows[:, 4], minlength=tiny.CLASSES)[1:].min() > 850


@pytest.mark.parametrize("symmetries", ["flips", "colours", "all"])
def test_a_transformed_grid_is_as_likely_as_before(symmetries: str) -> None:
    x = transform(GRIDS, symmetries, tiny.CLASSES, torch.Generator().manual_seed(0))
    assert not torch.equal(x, GRIDS)
    distribution = make_distribution(tiny.params().grids)
    before, after = (
        grid_nats(find_components(grids.numpy()).legal, distribution, len(grids))
        for grids in (GRIDS, x)
    )
    np.testing.assert_allclose(after, before)


def test_no_symmetry_leaves_the_grids_as_they_are() -> None:
    assert transform(GRIDS, "none", tiny.CLASSES, torch.Generator()) is GRIDS
