"""Encode, reconstruct and score items with a trained VAE, as arrays.

Items go in as uint8, grids (n, size, size) or images (n, size, size, channels), which may be mapped
from disk; nats are per item.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from genlab.core import engine
from genlab.distributions.gaussian import normal_log_prob, reparameterize
from genlab.vae.models.vae import VAE, Items, to_array, to_tensor

BATCH = 250

Floats = npt.NDArray[np.float64]
Job = TypeVar("Job")
Result = TypeVar("Result")


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


def infer(model: VAE, items: Items, seed: int) -> Inference:
    """Encode, bound and reconstruct items in one pass."""

    def infer_batch(job: tuple[slice, Tensor]) -> tuple[Items, dict[str, Tensor]]:
        x, noise = _load(model, items, job[0]), job[1].to(model.device)
        mean, log_var = model.encode(x)
        z = reparameterize(mean, log_var, noise)
        token_kl = model.prior.token_kl(mean, log_var, z)
        logits, _ = model.decode(mean)
        part = {
            "nats": -model.log_likelihood(model.decode(z), x),
            "kl": token_kl.sum(1),
            "token_kl": token_kl,
            "mean": mean,
            "log_var": log_var,
            "margins": mean[:0, 0] if model.architecture.channels else _margins(logits, x),
        }
        predicted = to_array(model.likelihood.point_estimate(logits))
        return predicted, {name: column.cpu() for name, column in part.items()}

    predicted, parts = zip(*_map(infer_batch, _noisy(model, items, seed), model), strict=True)
    columns = {n: torch.cat([part[n] for part in parts]).double().numpy() for n in parts[0]}
    return Inference(predicted=np.concatenate(predicted), **columns)


def reconstruct(model: VAE, items: Items) -> Items:
    """Reconstruct items from their posterior means: the same shape."""

    def reconstruct_batch(rows: slice) -> Items:
        return to_array(model.reconstruct(_load(model, items, rows)))

    return np.concatenate(_map(reconstruct_batch, _slices(len(items)), model))


def decode(model: VAE, codes: Floats) -> Items:
    """The items that codes (n, latent_dim) stand for: (n, ...)."""

    def decode_batch(z: Tensor) -> Items:
        return to_array(model.point_estimate(z))

    z = torch.from_numpy(codes).float().to(model.device)
    return np.concatenate(_map(decode_batch, torch.split(z, BATCH), model))


def encode(model: VAE, items: Items) -> tuple[Floats, Floats]:
    """Means and log variances of q(z|x): (n, latent_dim) each."""

    def encode_batch(rows: slice) -> Tensor:
        return torch.stack(model.encode(_load(model, items, rows)))

    codes = _map(encode_batch, _slices(len(items)), model)
    mean, log_var = torch.cat(codes, dim=1).cpu().double().numpy()
    return mean, log_var


def elbo_terms(model: VAE, items: Items, seed: int) -> tuple[Floats, Floats]:
    """(-log p(x|z), KL) of each item at one z ~ q(z|x), each (n,); their sum is the -ELBO."""

    def bound_batch(job: tuple[slice, Tensor]) -> Tensor:
        return torch.stack(model.elbo_terms(_load(model, items, job[0]), job[1].to(model.device)))

    parts = _map(bound_batch, _noisy(model, items, seed), model)
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
    for rows, part in zip(_slices(len(items)), z, strict=True):
        x = _load(model, items, rows)
        out, context = model.decode(part)
        out = model.head(out, context, x) if model.head else out
        point = model.likelihood.point_estimate(out).double()
        for square, shown in zip(
            squares, (model.likelihood.sample(out, generator), x), strict=True
        ):
            square += (shown - point).square().sum(0).cpu()
    noise, error = squares / len(items) + 1 / 12
    return float((noise / error).log().abs().mean().div(2).exp())


def log_importance_weights(model: VAE, items: Items, samples: int, seed: int) -> Floats:
    """log p(x, z_k) - log q(z_k | x) for k = 1..samples of each item: (n, samples)."""

    def weigh_batch(job: tuple[slice, Tensor]) -> npt.NDArray[np.float32]:
        x, noise = _load(model, items, job[0]), job[1].to(model.device)
        repeated = x.repeat_interleave(samples, dim=0)
        mean, log_var = (part.repeat_interleave(samples, dim=0) for part in model.encode(x))
        z = reparameterize(mean, log_var, noise)
        log_likelihood = model.log_likelihood(model.decode(z), repeated)
        log_joint = log_likelihood + model.prior.token_log_prob(z).sum(1)
        log_ratio = log_joint - normal_log_prob(z, mean, log_var).sum(1)
        weights: npt.NDArray[np.float32] = log_ratio.view(len(x), samples).cpu().numpy()
        return weights

    batches = _noisy(model, items, seed, samples)
    return np.concatenate(_map(weigh_batch, batches, model)).astype(np.float64)


def _margins(logits: Tensor, grids: Tensor) -> Tensor:
    """How surely each grid is reconstructed, in nats: (batch,), negative where it is not.

    The smallest difference, over the cells, between the log probability of the right colour and
    that of the likeliest other one. logits: (batch, colours, size, size).
    """
    right = grids.long()[:, None]
    others = logits.scatter(1, right, -torch.inf).amax(1)
    return (logits.gather(1, right)[:, 0] - others).flatten(1).amin(1)


def _map(function: Callable[[Job], Result], jobs: Iterable[Job], model: VAE) -> list[Result]:
    """Results of batches in their order, computed in as many threads as torch has.

    Each batch is one thread's: the results do not depend on the number of threads, and none waits
    for another after every operator.
    """
    threads = torch.get_num_threads() if model.device.type == "cpu" else 1
    with engine.torch_threads(1), ThreadPoolExecutor(threads) as pool:
        return list(pool.map(torch.no_grad()(function), jobs))


def _slices(count: int, size: int = BATCH) -> list[slice]:
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def _noisy(model: VAE, items: Items, seed: int, samples: int = 1) -> Iterator[tuple[slice, Tensor]]:
    """Batches, and standard normal noise of so many samples of each of their items."""
    generator = torch.Generator().manual_seed(seed)
    for rows in _slices(len(items), max(1, BATCH // samples)):
        count = samples * (rows.stop - rows.start)
        yield rows, torch.randn(count, model.architecture.latent_dim, generator=generator)


def _load(model: VAE, items: Items, rows: slice) -> Tensor:
    return to_tensor(items[rows]).to(model.device)
