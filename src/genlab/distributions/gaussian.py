"""Diagonal Gaussians, given by mean and log variance; densities and KL terms are in nats."""

import math

from torch import Tensor

LOG_TWO_PI = math.log(2.0 * math.pi)


def normal_log_prob(z: Tensor, mean: Tensor, log_var: Tensor) -> Tensor:
    """Return log N(z; mean, exp(log_var)), elementwise."""
    return -0.5 * ((z - mean).square() * (-log_var).exp() + log_var + LOG_TWO_PI)


def kl_standard_normal(mean: Tensor, log_var: Tensor) -> Tensor:
    """Return KL(N(mean, exp(log_var)) || N(0, 1)), elementwise."""
    return 0.5 * (mean.square() + log_var.exp() - 1.0 - log_var)


def reparameterize(mean: Tensor, log_var: Tensor, noise: Tensor) -> Tensor:
    """Return mean + exp(log_var / 2) * noise, differentiable in both (Kingma & Welling 2014)."""
    return mean + (0.5 * log_var).exp() * noise
