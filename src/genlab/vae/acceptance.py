"""A learned prior's draws, thinned by what a discriminator of codes still sees wrong in them.

The density ratio of real codes over drawn ones is read off a classifier that tells them apart
(Goodfellow et al. 2014, section 4.1); draws are kept in proportion to it, so that what is kept
follows the real codes as far as the classifier sees (Azadi et al. 2019, discriminator rejection
sampling). It is trained on draws that are never shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

from genlab.core.console import GenlabError
from genlab.vae.schedules import lr_at

Floats = npt.NDArray[np.float64]
Draw = Callable[[int, torch.Generator], Tensor]

WIDTH, HIDDEN, DROPOUT = 48, 128, 0.3
PASSES, BATCH, LR, WEIGHT_DECAY = 1.6, 64, 2e-3, 0.05
HELD_OUT = 0.1  # share of codes and draws that its accuracy is measured on
CHUNK = 2000  # draws at a time
CAP = 0.98  # quantile of the ratio that is kept for certain: the few above it are kept too seldom


class Discriminator(nn.Module):
    """Logit of 'a real code' for codes on a square of tokens: (batch, latent_dim) -> (batch,)."""

    def __init__(self, tokens: int, token_dim: int, scale: Tensor) -> None:
        super().__init__()
        self.side, self.token_dim = round(tokens**0.5), token_dim
        self.scale: Tensor
        self.register_buffer("scale", scale)
        coarse = -(-self.side // 2)
        self.stack = nn.Sequential(
            nn.Conv2d(token_dim, WIDTH, 3, padding=1),
            nn.SiLU(),
            nn.Conv2d(WIDTH, WIDTH, 3, padding=1),
            nn.SiLU(),
            nn.Conv2d(WIDTH, 2 * WIDTH, 3, stride=2, padding=1),
            nn.SiLU(),
            nn.Flatten(),
            nn.Dropout(DROPOUT),
            nn.Linear(2 * WIDTH * coarse**2, HIDDEN),
            nn.SiLU(),
            nn.Dropout(DROPOUT),
            nn.Linear(HIDDEN, 1),
        )

    def forward(self, z: Tensor) -> Tensor:
        places = (z / self.scale).view(len(z), self.side**2, self.token_dim).transpose(1, 2)
        logit: Tensor = self.stack(places.reshape(len(z), self.token_dim, self.side, self.side))
        return logit[:, 0]


def accepted(
    draw: Draw, mean: Floats, log_var: Floats, tokens: int, seed: int
) -> tuple[Draw, dict[str, Any]]:
    """`draw` with its draws thinned towards codes N(mean, exp(log_var)), each (n, latent_dim).

    Facts: `acceptance`, the share of draws that are kept; `told_apart`, the discriminator's
    accuracy on held-out codes and draws, 1/2 where the prior leaves nothing to mend.
    """
    generator = torch.Generator().manual_seed(seed + 1)
    centres, spread = (
        torch.from_numpy(mean).float(),
        torch.from_numpy(np.exp(0.5 * log_var)).float(),
    )
    codes = centres + spread * torch.randn(centres.shape, generator=generator)
    drawn = torch.cat([draw(CHUNK, generator) for _ in range(max(1, len(codes) // CHUNK))])
    held = [max(1, int(HELD_OUT * len(rows))) for rows in (codes, drawn)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        scale = codes.std(0).clamp_min(1e-6)
        model = Discriminator(tokens, codes.shape[1] // tokens, scale)
        _fit(model, codes[held[0] :], drawn[held[1] :], generator)
    with torch.no_grad():
        right = [(_logits(model, codes[: held[0]]) > 0), (_logits(model, drawn[: held[1]]) < 0)]
        told_apart = float(sum(flags.float().mean() for flags in right) / 2)
        cap = float(torch.quantile(_logits(model, drawn[: held[1]]), CAP))
        if not math.isfinite(cap):
            raise GenlabError(
                "accepted: the discriminator of codes is not finite; has the training diverged?"
                " train again with a lower lr"
            )
        shares = (_logits(model, drawn[: held[1]]) - cap).clamp_max(0).exp()

    def thinned(count: int, generator: torch.Generator) -> Tensor:
        kept: list[Tensor] = []
        while sum(map(len, kept)) < count:
            z = draw(CHUNK, generator)
            ratio = (_logits(model, z) - cap).clamp_max(0).exp()
            kept.append(z[torch.rand(len(z), generator=generator) < ratio])
        return torch.cat(kept)[:count]

    return thinned, {"acceptance": float(shares.mean()), "told_apart": told_apart}


def _fit(model: Discriminator, codes: Tensor, drawn: Tensor, generator: torch.Generator) -> None:
    optimiser = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=WEIGHT_DECAY)
    target = torch.cat([torch.ones(BATCH), torch.zeros(BATCH)])
    model.train()
    with torch.enable_grad():
        steps = max(100, round(PASSES * len(codes) / BATCH))
        for step in tqdm(range(steps), desc="acceptance", unit="batch", leave=False):
            for group in optimiser.param_groups:
                group["lr"] = lr_at(step / steps, "cosine", LR)
            rows = [torch.randint(0, len(x), (BATCH,), generator=generator) for x in (codes, drawn)]
            both = torch.cat([codes[rows[0]], drawn[rows[1]]])
            loss = F.binary_cross_entropy_with_logits(model(both), target)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    model.eval()


@torch.no_grad()
def _logits(model: Discriminator, z: Tensor) -> Tensor:
    return torch.cat([model(part) for part in torch.split(z, CHUNK)])
