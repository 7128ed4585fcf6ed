"""The bound that is reported and the loss that is trained: two functions, never one.

The ELBO (Kingma & Welling 2014, eq. 2), for one item x (a grid or an image), in nats:

    log p(x) >= ELBO(x) = E_q(z|x)[ sum_cells log p(x_cell | z) ] - KL( q(z|x) || p(z) )

The sum runs over cells (pixels) and latents, the mean over items; nothing else is averaged.
q(z|x) = N(mean, diag(var)) and z = mean + std * noise, so that gradients reach the encoder. The KL
is closed form for p = N(0, I); for a learned prior it is the unbiased one-sample estimate
log q(z|x) - log p(z). `neg_elbo = -reconstruction_log_prob + kl`: lower is better, and it stays
above the entropy of the data. Bits a cell, or a dimension = nats / (H W C ln 2).

The training loss is

    nll + beta * max(KL, free nats)

nll = -log p(x|z) for images, and for grids

    focal_nll(gamma * fade, weights^fade),   fade = max(0, 1 - beta_max)

Focal exponent and class weights fade as beta_max grows, so that at beta_max = 1 the loss is the
negative ELBO itself (plus warm-up and free bits, if asked): they tilt the trade between distortion
and rate, and at beta = 0, where there is no rate to trade, they only say which cells matter.

A learned prior is always fitted at full strength, to codes it cannot move unless beta says so: the
gradient of -log p(z) reaches p's parameters times 1 and the encoder times beta (0 while free bits
last). So a run at beta = 0 has an honest prior for its KL and its samples, and at beta = 1 without
free bits this is the ELBO's own gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from genlab.vae.models.priors import Prior, StandardPrior, normal_log_prob


@dataclass(frozen=True)
class Bound:
    """ELBO terms per item in nats, each of shape (batch,)."""

    log_likelihood: Tensor
    kl: Tensor

    @property
    def neg_elbo(self) -> Tensor:
        return self.kl - self.log_likelihood


@dataclass(frozen=True)
class TrainingLoss:
    """What training descends, and its parts; each a mean over the batch, nats an item.

    `surrogate` is what is differentiated; `loss` = reconstruction + beta * paid KL is its value as
    people read it (beta stands in the surrogate's gradient alone, see `training_loss`).
    """

    surrogate: Tensor
    loss: Tensor
    reconstruction: Tensor
    kl: Tensor


class _ScaleGradient(torch.autograd.Function):
    """The identity, whose gradient is multiplied by a number."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float | Tensor) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0] * ctx.factor, None


def scale_gradient(x: Tensor, factor: float | Tensor) -> Tensor:
    """x itself; gradients that flow back through it are multiplied by `factor`.

    A tensor may be filled in after the forward pass: it is read on the way back.
    """
    scaled: Tensor = _ScaleGradient.apply(x, factor)
    return scaled


def reparameterise(mean: Tensor, log_var: Tensor, noise: Tensor) -> Tensor:
    """z = mean + exp(log_var / 2) * noise, all (batch, latent_dim)."""
    return mean + (0.5 * log_var).exp() * noise


def kl_standard_normal(mean: Tensor, log_var: Tensor) -> Tensor:
    """KL(N(mean, exp(log_var)) || N(0, 1)) of each latent, nats: (batch, latent_dim)."""
    return 0.5 * (mean.square() + log_var.exp() - 1.0 - log_var)


def token_kl(
    prior: Prior,
    mean: Tensor,
    log_var: Tensor,
    z: Tensor,
    encoder_gradient: float | Tensor = 1.0,
) -> Tensor:
    """KL of q(z|x) from p(z), token by token, nats: (batch, tokens).

    Closed form under N(0, I); else the one-sample estimate at `z`. Gradients reach mean and
    log_var (through z too) times `encoder_gradient`, a learned prior's parameters times 1.
    """
    mean, log_var = (scale_gradient(t, encoder_gradient) for t in (mean, log_var))
    if isinstance(prior, StandardPrior):
        return kl_standard_normal(mean, log_var)
    z = scale_gradient(z, encoder_gradient)
    log_q = normal_log_prob(z, mean, log_var).view(len(z), prior.tokens, -1).sum(2)
    return log_q - prior.token_log_prob(z)


def bound(prior: Prior, log_likelihood: Tensor, mean: Tensor, log_var: Tensor, z: Tensor) -> Bound:
    """ELBO terms at one sample z ~ q(z|x); untouched by beta, focal, weights, free bits.

    log_likelihood: log p(x|z), (batch,).
    """
    return Bound(log_likelihood, token_kl(prior, mean, log_var, z).sum(1))


def training_loss(
    nll: Tensor, kl: Tensor, *, beta: float, free_nats: float, gate: Tensor | None = None
) -> TrainingLoss:
    """The training loss of the module's docstring.

    nll: (batch,) what reconstruction costs, focal and weighted where that is asked for. kl:
    (batch, tokens) from `token_kl(..., encoder_gradient=gate)`: beta stands in the gradient, so
    that it is *not* multiplied by beta again in the surrogate. gate: (), set here to beta, or to 0
    while the code spends fewer than `free_nats` (Kingma et al. 2016, eq. 15, the whole code as one
    group: an empty corner of an image needs no nats, and shouldn't be made to spend any).
    """
    reconstruction, mean_kl = nll.mean(), kl.mean(0).sum()
    free = bool(mean_kl < free_nats)
    if gate is not None:
        gate.fill_(0.0 if free else beta)
    paid = mean_kl.clamp_min(free_nats)
    return TrainingLoss(
        surrogate=reconstruction + mean_kl,
        loss=(reconstruction + beta * paid).detach(),
        reconstruction=reconstruction.detach(),
        kl=mean_kl.detach(),
    )
