"""Seeded order, symmetries and corruption of the training items."""

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor


def make_epoch_generator(
    seed: int, epoch: int, device: torch.device | None = None
) -> torch.Generator:
    """Make the generator of all random numbers of one epoch, on the device that uses them."""
    entropy = np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0]
    return torch.Generator(device or "cpu").manual_seed(int(entropy >> np.uint64(1)))


def shuffle_rows(seed: int, count: int, start: int, length: int) -> npt.NDArray[np.int64]:
    """Return rows start .. start + length of endless shuffled passes over `count` rows."""
    first = start // count
    last = (start + length - 1) // count
    passes = [
        np.random.default_rng([seed, number, count]).permutation(count)
        for number in range(first, last + 1)
    ]
    begin = start - first * count
    return np.concatenate(passes)[begin : begin + length]


def transform(x: Tensor, symmetries: str, classes: int, generator: torch.Generator) -> Tensor:
    """Apply to each grid a random symmetry of the distribution of grids.

    symmetries: `flips` (the eight rotations and reflections of the square), `colours`
    (permutations of all colours but black, which is 0), `all` (both) or `none`, which returns x
    itself. x: (batch, size, size).
    """
    if symmetries in ("flips", "all"):
        x = _flip(x, generator)
    if symmetries in ("colours", "all"):
        x = _permute_colours(x, classes, generator)
    return x


def _flip(x: Tensor, generator: torch.Generator) -> Tensor:
    """Reflect each grid at random in the middle row, the middle column and the main diagonal."""
    choices = torch.rand(3, len(x), 1, 1, generator=generator, device=x.device) < 0.5
    upside_down, mirrored, transposed = choices
    x = torch.where(upside_down, x.flip(1), x)
    x = torch.where(mirrored, x.flip(2), x)
    return torch.where(transposed, x.transpose(1, 2), x)


def _permute_colours(x: Tensor, classes: int, generator: torch.Generator) -> Tensor:
    """Permute the colours of each grid at random; black stays black."""
    order = torch.rand(len(x), classes - 1, generator=generator, device=x.device).argsort(1)
    palette = F.pad(order + 1, (1, 0))
    return palette.gather(1, x.flatten(1).long()).view_as(x)


def corrupt(
    x: Tensor, share: float, classes: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Replace a share of the grids by denser, noisier ones, so that not only shapes have codes.

    A corrupted grid has its colours permuted (black too) and a random share of its cells, drawn
    for each grid, recoloured at random. Returns the grids, and 1 for each unchanged grid, else 0,
    (batch,). share 0 returns x itself.
    """
    device = x.device
    if share <= 0:
        return x, torch.ones(len(x), device=device)
    chosen = torch.rand(len(x), generator=generator, device=device) < share
    colours = torch.rand(len(x), classes, generator=generator, device=device).argsort(1)
    permuted = colours.gather(1, x.flatten(1).long()).view_as(x)
    noise = torch.randint(0, classes, x.shape, generator=generator, device=device)
    amount = torch.rand(len(x), 1, 1, generator=generator, device=device).square()
    noisy = torch.rand(x.shape, generator=generator, device=device) < amount
    corrupted = torch.where(noisy, noise, permuted)
    return torch.where(chosen[:, None, None], corrupted, x.long()), (~chosen).float()
