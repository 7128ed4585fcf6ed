"""Gaussian terms agree with torch.distributions."""

import torch
from torch.distributions import Normal, kl_divergence

from genlab.distributions.gaussian import kl_standard_normal, normal_log_prob

Z, MEAN, LOG_VAR = torch.randn(3, 50, dtype=torch.float64)
NORMAL = Normal(MEAN, (0.5 * LOG_VAR).exp())


def test_log_densities_and_kl_are_those_of_torch_distributions() -> None:
    torch.testing.assert_close(normal_log_prob(Z, MEAN, LOG_VAR), NORMAL.log_prob(Z))
    expected = kl_divergence(NORMAL, Normal(0.0, 1.0))
    torch.testing.assert_close(kl_standard_normal(MEAN, LOG_VAR), expected)
