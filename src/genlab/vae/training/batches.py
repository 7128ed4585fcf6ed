"""Which grids training sees, in which order and how corrupted; all of it decided by the seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

Rows = np.ndarray[Any, np.dtype[np.int64]]


def epoch_generator(seed: int, epoch: int) -> torch.Generator:
    """The generator of everything random in one epoch."""
    entropy = np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(entropy >> np.uint64(1)))


def walk(seed: int, count: int, start: int, length: int) -> Rows:
    """Rows start .. start + length of an endless walk through shuffled passes over `count` rows."""
    steps = np.arange(start, start + length)
    passes = {int(p): pass_order(seed, int(p), count) for p in np.unique(steps // count)}
    return np.array([passes[int(i) // count][int(i) % count] for i in steps])


def pass_order(seed: int, number: int, count: int) -> Rows:
    """The order in which pass `number` walks through `count` grids."""
    return np.random.default_rng([seed, number, count]).permutation(count)


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
