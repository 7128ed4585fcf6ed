"""Interface of the priors p(z), and the standard normal one."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from genlab.distributions.gaussian import kl_standard_normal, normal_log_prob


class Prior(nn.Module, ABC):
    """p(z) over `latent_dim` latents, factored into `tokens`.

    Some parameters of a learned prior are fitted without gradients: it is initialized from the
    codes of `INIT_ITEMS` items (`init_from_codes`) after the fraction `INIT_AFTER` of the joint
    epochs, and follows the codes of each update (`statistics`, `observe`). While it is trained, the
    learning rate of encoder and decoder is multiplied by `AUTOENCODER_LR`.
    """

    INIT_ITEMS: ClassVar[int] = 0
    INIT_AFTER: ClassVar[float] = 0.0
    AUTOENCODER_LR: ClassVar[float] = 1.0

    tokens: int

    @abstractmethod
    def token_log_prob(self, z: Tensor) -> Tensor:
        """Compute log p(z_t | z_<t) of each token in nats: (batch, latent_dim) -> (batch, tokens).

        The sum over tokens is log p(z).
        """

    def bound_token_log_prob(self, z: Tensor) -> Tensor:
        """Compute a lower bound of log p(z) that is cheap to train on: (batch, tokens), nats.

        The sum over tokens is the bound.
        """
        return self.token_log_prob(z)

    @abstractmethod
    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw z ~ p(z): (count, latent_dim)."""

    def token_kl(self, mean: Tensor, log_var: Tensor, z: Tensor) -> Tensor:
        """Estimate KL(q(z|x) || p(z)) of each token in nats at z ~ q(z|x): (batch, tokens).

        The sum over tokens is unbiased.
        """
        return self._token_log_q(mean, log_var, z) - self.token_log_prob(z)

    def bound_token_kl(self, mean: Tensor, log_var: Tensor, z: Tensor) -> Tensor:
        """The same with `bound_token_log_prob`; its sum is at least the KL on average."""
        return self._token_log_q(mean, log_var, z) - self.bound_token_log_prob(z)

    def _token_log_q(self, mean: Tensor, log_var: Tensor, z: Tensor) -> Tensor:
        return normal_log_prob(z, mean, log_var).view(len(z), self.tokens, -1).sum(2)

    def init_from_codes(self, mean: Tensor, log_var: Tensor, seed: int) -> None:
        """Initialize from the codes N(mean, exp(log_var)) of items, each (n, latent_dim)."""

    def statistics(self, mean: Tensor, log_var: Tensor, weights: Tensor) -> Tensor | None:
        """Sum over a batch of weighted codes what `observe` follows; None if that is nothing."""
        return None

    def observe(self, statistics: Tensor, taken: Tensor) -> None:
        """Follow the `statistics` of one update. taken: (), 0 where the update is skipped."""


class StandardPrior(Prior):
    """N(0, I); each latent counts as a token, and the KL is closed form."""

    def __init__(self, latent_dim: int, *_: int) -> None:
        super().__init__()
        self.tokens = latent_dim

    def token_log_prob(self, z: Tensor) -> Tensor:
        return normal_log_prob(z, z.new_zeros(()), z.new_zeros(()))

    def token_kl(self, mean: Tensor, log_var: Tensor, z: Tensor) -> Tensor:
        return kl_standard_normal(mean, log_var)

    def bound_token_kl(self, mean: Tensor, log_var: Tensor, z: Tensor) -> Tensor:
        return self.token_kl(mean, log_var, z)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        return torch.randn(count, self.tokens, generator=generator)
