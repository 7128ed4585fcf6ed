"""Discriminator rejection sampling: accept draws of a learned prior by how real they look.

A discriminator between real and drawn items estimates the ratio of their densities (Goodfellow et
al. 2014, section 4.1), and draws are accepted in proportion to it (Azadi et al. 2019). The
discriminator's input is a code and its image at half the side: every decoded image is a little
blurred, and at full size it would learn little else. It is trained on the train split, and on draws
that are used for nothing else.
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
from genlab.vae.sampling.latents import DrawLatents
from genlab.vae.training.schedules import lr_at

Decode = Callable[[Tensor], Tensor]
Pairs = tuple[Tensor, Tensor]  # images at half their side, (n, c, h, w) uint8; codes (n, latents)

WIDTH = 32  # of the discriminator's first layer
CODE_WIDTH = 512
HIDDEN = 128
DROPOUT = 0.2
PASSES = 2.5  # over the training items
BATCH = 64
LR = 1.5e-3
WEIGHT_DECAY = 0.05
HELD_OUT = 0.1  # share of items on which its accuracy is measured
CHUNK = 1000  # draws at a time
CAP = 0.98  # quantile of the ratio from which on every draw is accepted


class Discriminator(nn.Module):
    """Logit that a pair of image and code is real: (batch,).

    shift, scale: mean and standard deviation of the codes, (latent_dim,).
    """

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
    draw: DrawLatents, decode: Decode, real: Items, codes: Tensor, seed: int
) -> tuple[DrawLatents, dict[str, Any]]:
    """Fit the discriminator to `real`, (n, h, w, c), with its codes, and to as many draws.

    decode: latents (batch, latent_dim) -> images (batch, c, h, w) uint8. Returns the function that
    draws accepted latents, and facts: `acceptance`, the share of held-out
    draws that are accepted;
    `classifier_accuracy` on held-out pairs, 1/2 where draws look real. Raises a GenlabError where
    the discriminator diverges.
    """
    generator = torch.Generator().manual_seed(seed + 1)
    chunks = np.array_split(np.arange(len(real)), max(1, len(real) // CHUNK))
    real_images = torch.cat([_halve(to_tensor(real[rows])) for rows in chunks])
    bar = progress(chunks, desc="rejection: draws", unit="chunk", leave=False)
    pairs = [_pair(draw(len(rows), generator), decode) for rows in bar]
    drawn_images = torch.cat([images for images, _ in pairs])
    drawn_codes = torch.cat([z for _, z in pairs])
    held_out = max(1, int(HELD_OUT * len(codes)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        scale = codes.std(0).clamp_min(1e-6)
        model = Discriminator(real_images.shape[1:], codes.mean(0), scale)
        real_pairs = (real_images[held_out:], codes[held_out:])
        drawn_pairs = (drawn_images[held_out:], drawn_codes[held_out:])
        _train(model, real_pairs, drawn_pairs, generator)
    real_logits = _logits(model, (real_images[:held_out], codes[:held_out]))
    drawn_logits = _logits(model, (drawn_images[:held_out], drawn_codes[:held_out]))
    cap = float(torch.quantile(drawn_logits, CAP))
    if not math.isfinite(cap):
        raise GenlabError(
            "rejection: the discriminator is not finite; has the training diverged?"
            " train again with a lower lr"
        )
    accuracy = float((real_logits > 0).float().mean() + (drawn_logits < 0).float().mean()) / 2

    def draw_accepted(count: int, generator: torch.Generator) -> Tensor:
        accepted: list[Tensor] = []
        while sum(map(len, accepted)) < count:
            z = draw(CHUNK, generator)
            probability = _acceptance(_logits(model, _pair(z, decode)), cap)
            accepted.append(z[torch.rand(len(z), generator=generator) < probability])
        return torch.cat(accepted)[:count]

    acceptance = float(_acceptance(drawn_logits, cap).mean())
    return draw_accepted, {"acceptance": acceptance, "classifier_accuracy": accuracy}


def _acceptance(logits: Tensor, cap: float) -> Tensor:
    """Probability that a draw is accepted."""
    return (logits - cap).clamp_max(0).exp()


def _pair(z: Tensor, decode: Decode) -> Pairs:
    return _halve(decode(z)), z


def _halve(images: Tensor) -> Tensor:
    """Halve the side of images (batch, c, h, w), rounded to uint8; a fourth of the memory."""
    return F.avg_pool2d(images.float(), 2).round().to(torch.uint8)


def _train(model: Discriminator, real: Pairs, drawn: Pairs, generator: torch.Generator) -> None:
    """Train on real and drawn pairs, as many of each in every batch."""
    real_images, real_codes = real
    drawn_images, drawn_codes = drawn
    optimiser = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=WEIGHT_DECAY, fused=True)
    target = torch.cat([torch.ones(BATCH), torch.zeros(BATCH)])
    steps = max(100, round(PASSES * len(real_codes) / BATCH))
    model.train()
    with torch.enable_grad():
        for step in progress(range(steps), desc="rejection: fit", unit="batch", leave=False):
            for group in optimiser.param_groups:
                group["lr"] = lr_at(step / steps, "cosine", LR)
            real_rows = torch.randint(0, len(real_codes), (BATCH,), generator=generator)
            drawn_rows = torch.randint(0, len(drawn_codes), (BATCH,), generator=generator)
            images = torch.cat([real_images[real_rows], drawn_images[drawn_rows]])
            codes = torch.cat([real_codes[real_rows], drawn_codes[drawn_rows]])
            loss = F.binary_cross_entropy_with_logits(model(images, codes), target)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    model.eval()


@torch.no_grad()
def _logits(model: Discriminator, pairs: Pairs) -> Tensor:
    images, codes = pairs
    chunks = zip(torch.split(images, CHUNK), torch.split(codes, CHUNK), strict=True)
    return torch.cat([model(chunk_images, chunk_codes) for chunk_images, chunk_codes in chunks])
