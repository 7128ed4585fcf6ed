"""The order in which training sees its items, and how they are corrupted, decided by the seed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def epoch_generator(seed: int, epoch: int) -> torch.Generator:
    """The generator of everything random in one epoch."""
    entropy = np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(entropy >> np.uint64(1)))


def shuffled_rows(seed: int, count: int, start: int, length: int) -> npt.NDArray[np.int64]:
    """Rows start .. start + length of endless shuffled passes over `count` rows."""
    first, last = start // count, (start + length - 1) // count
    passes = [
        np.random.default_rng([seed, number, count]).permutation(count)
        for number in range(first, last + 1)
    ]
    begin = start - first * count
    return np.concatenate(passes)[begin : begin + length]


def corrupt(x: Tensor, share: float, classes: int, generator: torch.Generator) -> Tensor:
    """Replace a share of the grids by denser, noisier ones, so that codes are not only for shapes.

    A corrupted grid has its colours permuted (black too) and a random share of its cells, drawn
    again for each grid, recoloured at random. share 0 returns x itself.
    """
    if share <= 0:
        return x
    chosen = torch.rand(len(x), generator=generator) < share
    colours = torch.rand(len(x), classes, generator=generator).argsort(1)
    permuted = colours.gather(1, x.flatten(1).long()).view_as(x)
    noise = torch.randint(0, classes, x.shape, generator=generator)
    amount = torch.rand(len(x), 1, 1, generator=generator).square()
    noisy = torch.rand(x.shape, generator=generator) < amount
    return torch.where(chosen[:, None, None], torch.where(noisy, noise, permuted), x.long())
