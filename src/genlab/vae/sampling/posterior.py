"""Encode, reconstruct and score items with a trained VAE, as arrays.

Items go in as uint8, grids (n, size, size) or images (n, size, size, channels), which may be mapped
from disk; nats are per item.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from genlab.distributions.gaussian import normal_log_prob, reparameterize
from genlab.vae.models.vae import VAE, Items, to_array, to_tensor

BATCH = 250

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Inference:
    """What a model says of n items.

    nats, kl: (n,), -log p(x|z) and KL at one z ~ q(z|x), whose sum is the negative ELBO. token_kl:
    (n, tokens), which sum to kl. mean, log_var: (n, latent_dim) of q(z|x). predicted: items of the
    posterior means. margins: (n,) of grids, see `_margins`; of images (0,).
    """

    nats: Floats
    kl: Floats
    token_kl: Floats
    mean: Floats
    log_var: Floats
    predicted: Items
    margins: Floats


@torch.no_grad()
def infer(model: VAE, items: Items, seed: int) -> Inference:
    """Encode, bound and reconstruct items in one pass."""
    parts: list[dict[str, Tensor]] = []
    predicted = []
    for x, noise in _noisy_batches(model, items, seed):
        mean, log_var = model.encode(x)
        z = reparameterize(mean, log_var, noise)
        token_kl = model.prior.token_kl(mean, log_var, z)
        logits, _ = model.decode(mean)
        predicted.append(to_array(model.likelihood.point_estimate(logits)))
        part = {
            "nats": -model.log_likelihood(model.decode(z), x),
            "kl": token_kl.sum(1),
            "token_kl": token_kl,
            "mean": mean,
            "log_var": log_var,
            "margins": mean[:0, 0] if model.architecture.channels else _margins(logits, x),
        }
        parts.append({name: column.cpu() for name, column in part.items()})
    columns = {n: torch.cat([part[n] for part in parts]).double().numpy() for n in parts[0]}
    return Inference(predicted=np.concatenate(predicted), **columns)


@torch.no_grad()
def reconstruct(model: VAE, items: Items) -> Items:
    """Reconstruct items from their posterior means: the same shape."""
    return np.concatenate([to_array(model.reconstruct(x)) for x in _batches(model, items)])


@torch.no_grad()
def decode(model: VAE, codes: Floats) -> Items:
    """The items that codes (n, latent_dim) stand for: (n, ...)."""
    z = torch.from_numpy(codes).float().to(model.device)
    parts = torch.split(z, BATCH)
    return np.concatenate([to_array(model.point_estimate(part)) for part in parts])


@torch.no_grad()
def encode(model: VAE, items: Items) -> tuple[Floats, Floats]:
    """Means and log variances of q(z|x): (n, latent_dim) each."""
    codes = [torch.stack(model.encode(x)) for x in _batches(model, items)]
    mean, log_var = torch.cat(codes, dim=1).cpu().double().numpy()
    return mean, log_var


@torch.no_grad()
def elbo_terms(model: VAE, items: Items, seed: int) -> tuple[Floats, Floats]:
    """(-log p(x|z), KL) of each item at one z ~ q(z|x), each (n,); their sum is the -ELBO."""
    parts = [
        torch.stack(model.elbo_terms(x, noise)) for x, noise in _noisy_batches(model, items, seed)
    ]
    reconstruction, kl = torch.cat(parts, dim=1).cpu().double().numpy()
    return reconstruction, kl


@torch.no_grad()
def noise_mismatch(model: VAE, items: Items, mean: Floats, seed: int) -> float:
    """The factor by which the likelihood's noise is too large or too small, typically; 1 is right.

    Noise: draws of each pixel from p(x|z), with the image's own pixels before it under a causal
    head, less the point estimates; errors: the images less these. The geometric mean over places of
    the ratio of their root mean squares, or its inverse where that is above 1; both include the
    1/12 squared levels of rounding. items: images; mean: (n, latent_dim), their posterior means,
    which are the z.
    """
    generator = torch.Generator().manual_seed(seed)
    squares = torch.zeros(2, *to_tensor(items[:1]).shape[1:], dtype=torch.float64)
    z = torch.split(torch.from_numpy(mean).float().to(model.device), BATCH)
    for x, part in zip(_batches(model, items), z, strict=True):
        out, context = model.decode(part)
        out = model.head(out, context, x) if model.head else out
        point = model.likelihood.point_estimate(out).double()
        for square, shown in zip(
            squares, (model.likelihood.sample(out, generator), x), strict=True
        ):
            square += (shown - point).square().sum(0).cpu()
    noise, error = squares / len(items) + 1 / 12
    return float((noise / error).log().abs().mean().div(2).exp())


@torch.no_grad()
def log_importance_weights(model: VAE, items: Items, samples: int, seed: int) -> Floats:
    """log p(x, z_k) - log q(z_k | x) for k = 1..samples of each item: (n, samples)."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for x in _batches(model, items, size=max(1, BATCH // samples)):
        repeated = x.repeat_interleave(samples, dim=0)
        mean, log_var = (part.repeat_interleave(samples, dim=0) for part in model.encode(x))
        noise = torch.randn(mean.shape, generator=generator).to(x.device)
        z = reparameterize(mean, log_var, noise)
        log_likelihood = model.log_likelihood(model.decode(z), repeated)
        log_joint = log_likelihood + model.prior.token_log_prob(z).sum(1)
        log_ratio = log_joint - normal_log_prob(z, mean, log_var).sum(1)
        rows.append(log_ratio.view(len(x), samples).cpu().numpy())
    return np.concatenate(rows).astype(np.float64)


def _margins(logits: Tensor, grids: Tensor) -> Tensor:
    """How surely each grid is reconstructed, in nats: (batch,), negative where it is not.

    The smallest difference, over the cells, between the log probability of the right colour and
    that of the likeliest other one. logits: (batch, colours, size, size).
    """
    right = grids.long()[:, None]
    others = logits.scatter(1, right, -torch.inf).amax(1)
    return (logits.gather(1, right)[:, 0] - others).flatten(1).amin(1)


def _noisy_batches(model: VAE, items: Items, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    for x in _batches(model, items):
        noise = torch.randn(len(x), model.architecture.latent_dim, generator=generator)
        yield x, noise.to(x.device)


def _batches(model: VAE, items: Items, size: int = BATCH) -> Iterator[Tensor]:
    for start in range(0, len(items), size):
        yield to_tensor(items[start : start + size]).to(model.device)
