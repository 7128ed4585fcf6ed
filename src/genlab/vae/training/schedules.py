"""Schedules of beta and the learning rate; progress is the share of the run in [0, 1]."""

from __future__ import annotations

import math

LR_WARMUP = 0.01  # share of the run in which the learning rate rises from zero
SIGMOID_STEEPNESS = 12.0
CYCLES = 4


def beta_at(
    progress: float, schedule: str, beta_max: float, warmup: float, delay: float = 0.0
) -> float:
    """Weight of the KL term at `progress`.

    0 for the first `delay` share of the run; the rest counts from there. constant: beta_max.
    linear, sigmoid: rise from 0 to beta_max in the first `warmup` share. cyclical: CYCLES equal
    cycles, each a linear rise over its first `warmup` share and then beta_max (Fu et al. 2019).
    """
    if progress < delay:
        return 0.0
    progress = (progress - delay) / (1.0 - delay)
    if schedule == "constant":
        return beta_max
    if schedule == "cyclical":
        progress = (progress * CYCLES) % 1.0 if progress < 1.0 else 1.0
    rise = 1.0 if progress >= warmup else progress / warmup
    if schedule == "sigmoid":
        low, high = _logistic(0.0), _logistic(1.0)
        return beta_max * (_logistic(rise) - low) / (high - low)
    return beta_max * rise


def lr_at(progress: float, schedule: str, lr: float, delay: float = 0.0) -> float:
    """Learning rate at `progress`: a short linear rise, then constant or a half cosine to zero.

    With a `delay` there are two such stretches, before and after it (a warm restart, Loshchilov &
    Hutter 2017): what was learned before it has settled by the time the rest comes in.
    """
    if progress < delay:
        progress = progress / delay
    elif delay > 0:
        progress = (progress - delay) / (1.0 - delay)
    rise = min(1.0, (progress + 1e-4) / LR_WARMUP)
    if schedule == "constant":
        return lr * rise
    return lr * rise * 0.5 * (1.0 + math.cos(math.pi * min(progress, 1.0)))


def _logistic(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-SIGMOID_STEEPNESS * (x - 0.5)))
