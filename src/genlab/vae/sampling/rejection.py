"""A learned prior's draws, thinned by what a discriminator still sees wrong in them.

The density ratio of real items over drawn ones is read off a classifier that tells them apart
(Goodfellow et al. 2014, section 4.1); draws are kept in proportion to it (Azadi et al. 2019,
discriminator rejection sampling), so that they follow the real ones as far as the classifier sees.
It sees an image and its code. The image is at half its side: every decoded image is a little
blurred, and a discriminator that is shown so learns little else. It is trained on the train split,
and on draws that are never shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from genlab.core.errors import GenlabError
from genlab.core.progress import progress
from genlab.vae.models.vae import Items, to_tensor
from genlab.vae.training.schedules import lr_at

Draw = Callable[[int, torch.Generator], Tensor]
Show = Callable[[Tensor], Tensor]

WIDTH, CODE_WIDTH, HIDDEN, DROPOUT = 32, 512, 128, 0.2
PASSES, BATCH, LR, WEIGHT_DECAY = 2.5, 64, 1.5e-3, 0.05
HELD_OUT = 0.1  # share of items that its accuracy is measured on
CHUNK = 1000  # draws at a time
CAP = 0.98  # quantile of the ratio that is kept for certain: the few above it are kept too seldom


@dataclass(frozen=True)
class Pairs:
    """Images at half their side, (n, c, h, w) uint8, and their codes, (n, latent_dim)."""

    images: Tensor
    codes: Tensor

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Tensor | slice) -> Pairs:
        return Pairs(self.images[rows], self.codes[rows])


class Discriminator(nn.Module):
    """Logit of a real pair: (batch,). shift, scale: of the codes, (latent_dim,)."""

    def __init__(self, shape: torch.Size, shift: Tensor, scale: Tensor) -> None:
        super().__init__()
        channels, side = shape[:2]
        narrow = -(-(side // 2) // 2)
        self.shift: Tensor
        self.scale: Tensor
        self.register_buffer("shift", shift)
        self.register_buffer("scale", scale)
        self.of_image = nn.Sequential(
            nn.Conv2d(channels, WIDTH, 3, padding=1),
            nn.SiLU(),
            nn.Conv2d(WIDTH, 2 * WIDTH, 4, stride=2, padding=1),
            nn.SiLU(),
            nn.Conv2d(2 * WIDTH, 4 * WIDTH, 3, stride=2, padding=1),
            nn.SiLU(),
            nn.Flatten(),
            nn.Dropout(DROPOUT),
            nn.Linear(4 * WIDTH * narrow**2, HIDDEN),
        )
        self.of_code = nn.Sequential(
            nn.Linear(len(shift), CODE_WIDTH),
            nn.SiLU(),
            nn.Dropout(DROPOUT),
            nn.Linear(CODE_WIDTH, HIDDEN),
        )
        self.head = nn.Sequential(nn.SiLU(), nn.Dropout(DROPOUT), nn.Linear(HIDDEN, 1))

    def forward(self, images: Tensor, codes: Tensor) -> Tensor:
        of_image = self.of_image(images.float() / 127.5 - 1)
        logit: Tensor = self.head(of_image + self.of_code((codes - self.shift) / self.scale))
        return logit[:, 0]


def accepted(
    draw: Draw, show: Show, real: Items, codes: Tensor, seed: int
) -> tuple[Draw, dict[str, Any]]:
    """`draw` with its draws thinned towards `real`, (n, h, w, c), and its codes, (n, latent_dim).

    As many are drawn to learn from. show: latents (batch, latent_dim) -> the images that stand for
    them, (batch, c, h, w) uint8. Facts: `acceptance`, the share of draws that are kept;
    `discriminator_accuracy`, the discriminator's accuracy on held-out pairs, 1/2 where nothing is to be fixed.
    """
    generator = torch.Generator().manual_seed(seed + 1)
    parts = np.array_split(np.arange(len(real)), max(1, len(real) // CHUNK))
    true = Pairs(torch.cat([_halved(to_tensor(real[rows])) for rows in parts]), codes)
    bar = progress(parts, desc="accepted: draws", unit="part", leave=False)
    drawn = _joined([_pairs(draw(len(rows), generator), show) for rows in bar])
    held = max(1, int(HELD_OUT * len(true)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        scale = codes.std(0).clamp_min(1e-6)
        model = Discriminator(true.images.shape[1:], codes.mean(0), scale)
        _fit(model, true[held:], drawn[held:], generator)
    of_true, of_drawn = _logits(model, true[:held]), _logits(model, drawn[:held])
    cap = float(torch.quantile(of_drawn, CAP))
    if not math.isfinite(cap):
        raise GenlabError(
            "accepted: the discriminator is not finite; has the training diverged?"
            " train again with a lower lr"
        )
    discriminator_accuracy = float((of_true > 0).float().mean() + (of_drawn < 0).float().mean()) / 2

    def thinned(count: int, generator: torch.Generator) -> Tensor:
        kept: list[Tensor] = []
        while sum(map(len, kept)) < count:
            z = draw(CHUNK, generator)
            share = _share(_logits(model, _pairs(z, show)), cap)
            kept.append(z[torch.rand(len(z), generator=generator) < share])
        return torch.cat(kept)[:count]

    acceptance = float(_share(of_drawn, cap).mean())
    return thinned, {"acceptance": acceptance, "discriminator_accuracy": discriminator_accuracy}


def _share(logits: Tensor, cap: float) -> Tensor:
    """Of draws of these logits, the share that is kept."""
    return (logits - cap).clamp_max(0).exp()


def _pairs(z: Tensor, show: Show) -> Pairs:
    return Pairs(_halved(show(z)), z)


def _joined(parts: list[Pairs]) -> Pairs:
    return Pairs(torch.cat([p.images for p in parts]), torch.cat([p.codes for p in parts]))


def _halved(images: Tensor) -> Tensor:
    """(batch, c, h, w) uint8 at half their side, rounded: a fourth of the memory."""
    return F.avg_pool2d(images.float(), 2).round().to(torch.uint8)


def _fit(model: Discriminator, true: Pairs, drawn: Pairs, generator: torch.Generator) -> None:
    optimiser = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=WEIGHT_DECAY, fused=True)
    target = torch.cat([torch.ones(BATCH), torch.zeros(BATCH)])
    model.train()
    with torch.enable_grad():
        steps = max(100, round(PASSES * len(true) / BATCH))
        for step in progress(range(steps), desc="accepted: fit", unit="batch", leave=False):
            for group in optimiser.param_groups:
                group["lr"] = lr_at(step / steps, "cosine", LR)
            both = _joined(
                [x[torch.randint(0, len(x), (BATCH,), generator=generator)] for x in (true, drawn)]
            )
            logits = model(both.images, both.codes)
            loss = F.binary_cross_entropy_with_logits(logits, target)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    model.eval()


@torch.no_grad()
def _logits(model: Discriminator, pairs: Pairs) -> Tensor:
    rows = range(0, len(pairs), CHUNK)
    parts = [pairs[slice(start, start + CHUNK)] for start in rows]
    return torch.cat([model(part.images, part.codes) for part in parts])
