"""Where new grids come from: a distribution over latents, then the decoder.

`prior`: z ~ p(z), the model's own prior, and the likeliest colour of each cell. `ancestral`: the
same z, with each cell drawn from p(x|z): the model's exact distribution, at temperature 1.
`gaussian`: z from a normal fitted to the aggregate posterior of training grids (Ghosh et al. 2020),
which mends an N(0, I) prior that the codes don't fill.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from genlab.vae import inference
from genlab.vae.model import VAE

NAMES = ("prior", "ancestral", "gaussian")
FITTED_ON = 20_000  # training grids behind the aggregate posterior
BATCH = 500

Grids = npt.NDArray[np.uint8]
Draw = Callable[[int, torch.Generator], Tensor]


def sample(model: VAE, name: str, count: int, train: Grids, seed: int) -> Grids:
    """`count` grids, (count, size, size). Raises ValueError for an unknown sampler.

    train: the training grids, to which `gaussian` is fitted.
    """
    if name not in NAMES:
        raise ValueError(f"sampler must be one of {', '.join(NAMES)}: {name!r}")
    draw: Draw = _gaussian(model, train) if name == "gaussian" else model.prior.sample
    generator = torch.Generator().manual_seed(seed)
    device = next(model.parameters()).device
    grids = []
    with torch.no_grad():
        for start in range(0, count, BATCH):
            z = draw(min(BATCH, count - start), generator).to(device)
            logits = model.decode(z).cpu()
            grids.append(_colours(logits, generator if name == "ancestral" else None))
    return np.concatenate(grids)


def _colours(logits: Tensor, generator: torch.Generator | None) -> Grids:
    """The likeliest colours, or drawn ones: (batch, classes, h, w) -> uint8 (batch, h, w)."""
    if generator is None:
        return logits.argmax(1).to(torch.uint8).numpy()
    cells = logits.permute(0, 2, 3, 1)
    drawn = torch.multinomial(cells.softmax(-1).flatten(0, 2), 1, generator=generator)
    return drawn.view(cells.shape[:3]).to(torch.uint8).numpy()


def _gaussian(model: VAE, train: Grids) -> Draw:
    """A normal with the mean and covariance of the codes (posterior means) of training grids."""
    means = inference.posterior_means(model, train[:FITTED_ON])
    centre = torch.from_numpy(means.mean(0)).float()
    values, vectors = np.linalg.eigh(np.cov(means.T))
    root = torch.from_numpy(vectors * np.sqrt(np.maximum(values, 0.0))).float()

    def draw(count: int, generator: torch.Generator) -> Tensor:
        return centre + torch.randn(count, len(centre), generator=generator) @ root.T

    return draw
