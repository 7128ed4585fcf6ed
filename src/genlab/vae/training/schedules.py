"""Phases of a training run, and the schedules of beta and the learning rate within them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from genlab.core.params import Params

LR_WARMUP = 0.01  # fraction of a phase in which the learning rate rises from zero
SIGMOID_STEEPNESS = 12.0
CYCLES = 4


@dataclass(frozen=True)
class Phases:
    """What is trained in each epoch, counted from 0.

    - [0, delay): encoder and decoder, at beta 0 and under N(0, I). Fitting a prior to codes that
      still move a lot would be wasted work.
    - [delay, joint): everything.
    - [joint, epochs): the learned prior alone, on codes of the frozen encoder.
    """

    delay: int
    joint: int
    epochs: int

    @classmethod
    def from_params(cls, params: Params) -> Phases:
        """Compute the phases from the params; at least one epoch trains everything."""
        epochs = params.epochs
        delay = min(round(params.beta_delay * epochs), epochs - 1)
        alone = 0 if params.prior == "standard" else round(params.prior_share * epochs)
        return cls(delay, max(delay + 1, epochs - alone), epochs)

    def is_delayed(self, epoch: int) -> bool:
        """Whether the learned prior is not trained yet."""
        return epoch < self.delay

    def is_prior_alone(self, epoch: int) -> bool:
        """Whether encoder and decoder are frozen."""
        return epoch >= self.joint

    def autoencoder_progress(self, epoch: float) -> float:
        """Fraction of the current phase of encoder and decoder that is over; `epoch` may be 2.5."""
        if epoch < self.delay:
            return epoch / self.delay
        return min(1.0, (epoch - self.delay) / (self.joint - self.delay))

    def prior_progress(self, epoch: float) -> float:
        """Fraction of the learned prior's epochs that is over, 0 before them."""
        return max(0.0, (epoch - self.delay) / (self.epochs - self.delay))


def beta_at(progress: float, schedule: str, beta_max: float, warmup: float) -> float:
    """Weight of the KL term at the fraction `progress` of the joint phase.

    constant: beta_max. linear, sigmoid: a rise from 0 to beta_max over the fraction `warmup`.
    cyclical: CYCLES equal cycles, each a linear rise over the fraction `warmup` of it and then
    beta_max (Fu et al. 2019).
    """
    if schedule == "constant":
        return beta_max
    if schedule == "cyclical":
        progress = (progress * CYCLES) % 1.0 if progress < 1.0 else 1.0
    rise = 1.0 if progress >= warmup else progress / warmup
    if schedule == "sigmoid":
        low = _logistic(0.0)
        high = _logistic(1.0)
        return beta_max * (_logistic(rise) - low) / (high - low)
    return beta_max * rise


def lr_at(progress: float, schedule: str, lr: float) -> float:
    """Learning rate: a short linear rise, then constant or a half cosine to zero.

    Encoder and decoder go through it twice, before and after the end of the delay (a warm restart,
    Loshchilov & Hutter 2017), so that they have converged when the prior is trained beside them.
    """
    rise = min(1.0, (progress + 1e-4) / LR_WARMUP)
    if schedule == "constant":
        return lr * rise
    return lr * rise * 0.5 * (1.0 + math.cos(math.pi * min(progress, 1.0)))


def _logistic(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-SIGMOID_STEEPNESS * (x - 0.5)))
