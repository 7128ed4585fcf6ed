"""A normalising flow by a public library: Glow (Kingma & Dhariwal 2018) of normflows 1.7.3.

Two levels, since 28 can be divided by two twice; blocks and hidden channels of a level are tuned.
Pixels are dequantised by uniform noise, so that the likelihood of a draw is a lower bound of that
of the levels (Theis et al. 2016).
"""

import math
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.baseline_outcomes import TEMPERATURES, VALIDATED, Floats, Images, Outcome
from benchmarks.baseline_packages import install
from benchmarks.baseline_settings import Settings
from benchmarks.baseline_training import CHUNK, LibraryModel, fit
from genlab.datasets.images import LEVELS, load_images
from genlab.vae.models.vae import to_array, to_tensor

SCALES = 2  # levels of the multiscale flow
SIDE = 28


class Glow(LibraryModel):
    """normflows' `MultiscaleFlow` of `GlowBlock`s for grey images of 28 x 28."""

    def __init__(self, blocks: int, hidden: int) -> None:
        super().__init__()
        import normflows as nf

        # Its invertible convolutions call torch.lu, which torch has deprecated.
        warnings.filterwarnings("ignore", message="torch.lu is deprecated")
        bases: list[Any] = []
        flows: list[Any] = []
        merges: list[Any] = []
        for level in range(SCALES):
            channels = 2 ** (SCALES + 1 - level)
            side = SIDE // 2 ** (SCALES - level)
            level_flows = [nf.flows.GlowBlock(channels, hidden) for _ in range(blocks)]
            flows.append([*level_flows, nf.flows.Squeeze()])
            if level:
                merges.append(nf.flows.Merge())
            # Above the first level, half of the channels come from the level before.
            inputs = channels // 2 if level else channels
            bases.append(nf.distributions.GlowBase((inputs, side, side)))
        self.flow = nf.MultiscaleFlow(bases, flows, merges, class_cond=False)

    def loss(self, x: Tensor) -> Tensor:
        """Bound of -log p in nats per pixel."""
        return self.nats(x).mean() / x[0].numel()

    def nats(self, x: Tensor) -> Tensor:
        """Bound of -log p of images (batch, 1, 28, 28) uint8 at one draw of noise: (batch,)."""
        noisy = (x.float() + torch.rand(x.shape)) / LEVELS
        nats: Tensor = x[0].numel() * math.log(LEVELS) - self.flow.log_prob(noisy, None)
        return nats


def run_normflows(settings: Settings, data: Path) -> Outcome:
    """Train the flow for its CPU seconds; each temperature is a candidate sampler."""
    install(settings.contender)
    torch.manual_seed(settings.seed)
    train, val, test = (load_images(data, name) for name in ("train", "val", "test"))
    options = dict(settings.options)
    model = Glow(options["blocks"], options["hidden"])
    facts = {**fit(model, train, val, options, settings.seconds), "sampler_seconds": 0.0}

    def measure_test() -> tuple[None, Floats]:
        return None, compute_nats(model, test)

    draws = {f"temperature {t:g}": partial(draw, model, t) for t in TEMPERATURES}
    return Outcome(draws, compute_nats(model, val[:VALIDATED]), measure_test, facts)


@torch.no_grad()
def compute_nats(model: Glow, images: Images) -> Floats:
    """Bound of -log p of each image over 256 levels in nats, (n,)."""
    chunks = [model.nats(chunk) for chunk in to_tensor(images).split(CHUNK)]
    nats: Floats = torch.cat(chunks).double().numpy()
    return nats


@torch.no_grad()
def draw(model: Glow, temperature: float, count: int, seed: int) -> Images:
    """Draw images (count, 28, 28, 1); latents have `temperature` times their standard deviation."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = [min(CHUNK, count - start) for start in range(0, count, CHUNK)]
        drawn = [model.flow.sample(size, temperature=temperature)[0] for size in sizes]
    levels = (torch.cat(drawn) * LEVELS).nan_to_num(0.0).floor().clamp(0, LEVELS - 1)
    return to_array(levels.to(torch.uint8))
