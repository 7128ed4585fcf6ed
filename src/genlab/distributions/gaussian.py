"""Diagonal normals given by mean and log variance, elementwise; every result is in nats."""

import math

from torch import Tensor

LOG_TWO_PI = math.log(2.0 * math.pi)


def normal_log_prob(z: Tensor, mean: Tensor, log_var: Tensor) -> Tensor:
    """log N(z; mean, exp(log_var)), elementwise."""
    return -0.5 * ((z - mean).square() * (-log_var).exp() + log_var + LOG_TWO_PI)


def kl_standard_normal(mean: Tensor, log_var: Tensor) -> Tensor:
    """KL(N(mean, exp(log_var)) || N(0, 1)), elementwise."""
    return 0.5 * (mean.square() + log_var.exp() - 1.0 - log_var)


def reparameterize(mean: Tensor, log_var: Tensor, noise: Tensor) -> Tensor:
    """z = mean + exp(log_var / 2) * noise (Kingma & Welling 2014), differentiable in both."""
    return mean + (0.5 * log_var).exp() * noise
