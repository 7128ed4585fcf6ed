"""Discriminator rejection sampling: keep a learned prior's draws by how real they look.

The density ratio of real over drawn items is read off a classifier that tells them apart
(Goodfellow et al. 2014, section 4.1), and draws are kept in proportion to it (Azadi et al. 2019).
The classifier sees a code and its image at half its side: every decoded image is a little blurred,
and at full size it would learn little else. It is trained on the train split, and on draws that are
never shown.
"""

import math
from collections.abc import Callable
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
Decode = Callable[[Tensor], Tensor]
Pairs = tuple[Tensor, Tensor]  # images at half their side, (n, c, h, w) uint8; codes (n, latents)

WIDTH, CODE_WIDTH, HIDDEN, DROPOUT = 32, 512, 128, 0.2
PASSES, BATCH, LR, WEIGHT_DECAY = 2.5, 64, 1.5e-3, 0.05
HELD_OUT = 0.1  # share of items that its accuracy is measured on
CHUNK = 1000  # draws at a time
CAP = 0.98  # quantile of the ratio that is kept for certain: the few above it are kept too seldom


class Discriminator(nn.Module):
    """Logit of a real pair: (batch,). shift, scale: of the codes, (latent_dim,)."""

    shift: Tensor
    scale: Tensor

    def __init__(self, shape: torch.Size, shift: Tensor, scale: Tensor) -> None:
        super().__init__()
        channels, side = shape[:2]
        coarse_side = -(-(side // 2) // 2)
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
            nn.Linear(4 * WIDTH * coarse_side**2, HIDDEN),
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


def fit_rejection(
    draw: Draw, decode: Decode, real: Items, codes: Tensor, seed: int
) -> tuple[Draw, dict[str, Any]]:
    """Fit the discriminator to `real`, (n, h, w, c), with its codes, and to as many draws.

    decode: latents (batch, latent_dim) -> images (batch, c, h, w) uint8. Returns the thinned draw
    and its facts: `acceptance`, the share of draws that are kept; `classifier_accuracy` on
    held-out pairs, 1/2 where nothing is to be fixed. Raises GenlabError where it diverges.
    """
    generator = torch.Generator().manual_seed(seed + 1)
    parts = np.array_split(np.arange(len(real)), max(1, len(real) // CHUNK))
    true = torch.cat([_halve(to_tensor(real[rows])) for rows in parts]), codes
    bar = progress(parts, desc="rejection: draws", unit="part", leave=False)
    pairs = [_pair(draw(len(rows), generator), decode) for rows in bar]
    drawn = torch.cat([images for images, _ in pairs]), torch.cat([z for _, z in pairs])
    held = max(1, int(HELD_OUT * len(codes)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        scale = codes.std(0).clamp_min(1e-6)
        model = Discriminator(true[0].shape[1:], codes.mean(0), scale)
        _train(model, [(images[held:], z[held:]) for images, z in (true, drawn)], generator)
    of_true, of_drawn = (_logits(model, (images[:held], z[:held])) for images, z in (true, drawn))
    cap = float(torch.quantile(of_drawn, CAP))
    if not math.isfinite(cap):
        raise GenlabError(
            "rejection: the discriminator is not finite; has the training diverged?"
            " train again with a lower lr"
        )
    accuracy = float((of_true > 0).float().mean() + (of_drawn < 0).float().mean()) / 2

    def thinned(count: int, generator: torch.Generator) -> Tensor:
        kept: list[Tensor] = []
        while sum(map(len, kept)) < count:
            z = draw(CHUNK, generator)
            acceptance = _acceptance(_logits(model, _pair(z, decode)), cap)
            kept.append(z[torch.rand(len(z), generator=generator) < acceptance])
        return torch.cat(kept)[:count]

    acceptance = float(_acceptance(of_drawn, cap).mean())
    return thinned, {"acceptance": acceptance, "classifier_accuracy": accuracy}


def _acceptance(logits: Tensor, cap: float) -> Tensor:
    """Probability that a draw is kept."""
    return (logits - cap).clamp_max(0).exp()


def _pair(z: Tensor, decode: Decode) -> Pairs:
    return _halve(decode(z)), z


def _halve(images: Tensor) -> Tensor:
    """(batch, c, h, w) uint8 at half their side, rounded: a fourth of the memory."""
    return F.avg_pool2d(images.float(), 2).round().to(torch.uint8)


def _train(model: Discriminator, sides: list[Pairs], generator: torch.Generator) -> None:
    """Train on real and drawn pairs, as many of each in every batch."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=WEIGHT_DECAY, fused=True)
    target = torch.cat([torch.ones(BATCH), torch.zeros(BATCH)])
    steps = max(100, round(PASSES * len(sides[0][1]) / BATCH))
    model.train()
    with torch.enable_grad():
        for step in progress(range(steps), desc="rejection: fit", unit="batch", leave=False):
            for group in optimiser.param_groups:
                group["lr"] = lr_at(step / steps, "cosine", LR)
            rows = [torch.randint(0, len(z), (BATCH,), generator=generator) for _, z in sides]
            images, codes = (
                torch.cat([side[part][chosen] for side, chosen in zip(sides, rows, strict=True)])
                for part in (0, 1)
            )
            loss = F.binary_cross_entropy_with_logits(model(images, codes), target)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    model.eval()


@torch.no_grad()
def _logits(model: Discriminator, pairs: Pairs) -> Tensor:
    parts = zip(*(torch.split(part, CHUNK) for part in pairs), strict=True)
    return torch.cat([model(images, codes) for images, codes in parts])
