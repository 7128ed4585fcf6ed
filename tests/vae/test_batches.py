"""Batches contain every item once per pass, and the share that the params set is corrupted."""

import numpy as np
import pytest
import tiny
import torch

from genlab.vae.training.batches import corrupt, make_epoch_generator, shuffle_rows

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
