"""Gaussian terms agree with torch.distributions."""

import torch
from torch.distributions import Normal, kl_divergence

from genlab.distributions.gaussian import (
    kl_standard_normal,
    normal_log_prob,
    reparameterize,
)

Z, MEAN, LOG_VAR = torch.randn(3, 50, dtype=torch.float64)
NORMAL = Normal(MEAN, (0.5 * LOG_VAR).exp())


def test_log_densities_and_kl_are_those_of_torch_distributions() -> None:
    torch.testing.assert_close(normal_log_prob(Z, MEAN, LOG_VAR), NORMAL.log_prob(Z))
    expected = kl_divergence(NORMAL, Normal(0.0, 1.0))
    torch.testing.assert_close(kl_standard_normal(MEAN, LOG_VAR), expected)


def test_gradients_through_the_reparameterization_are_those_of_finite_differences() -> None:
    mean, log_var = (x[:4].clone().requires_grad_() for x in (MEAN, LOG_VAR))
    assert torch.autograd.gradcheck(
        lambda m, v: reparameterize(m, v, Z[:4]).tanh(), (mean, log_var)
    )
