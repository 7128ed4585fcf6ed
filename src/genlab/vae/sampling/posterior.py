"""Encode, reconstruct and score items with a trained VAE, as arrays.

Items are uint8 arrays, grids (n, size, size) or images (n, size, size, channels), which may be
mapped from disk. Nats are per item.
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
from genlab.distributions.gaussian import reparameterize
from genlab.vae.models.vae import VAE, Items, to_array, to_tensor

BATCH = 250

Floats = npt.NDArray[np.float64]
Job = TypeVar("Job")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Inference:
    """Codes, ELBO terms and reconstructions of n items.

    nats, kl: (n,), -log p(x|z) and KL at one z ~ q(z|x), whose sum is the negative ELBO. token_kl:
    (n, tokens), which sum to kl. mean, log_var: (n, latent_dim) of q(z|x). predicted:
    reconstructions from the posterior means. margins: (n,) for grids, see `_compute_margins`; (0,)
    for images.
    """

    nats: Floats
    kl: Floats
    token_kl: Floats
    mean: Floats
    log_var: Floats
    predicted: Items
    margins: Floats


def infer(model: VAE, items: Items, seed: int) -> Inference:
    """Encode and reconstruct items and compute their ELBO terms in one pass."""

    def infer_batch(job: tuple[slice, Tensor]) -> tuple[Items, dict[str, Tensor]]:
        rows, noise = job
        x = load_batch(model, items, rows)
        mean, log_var = model.encode(x)
        z = reparameterize(mean, log_var, noise.to(model.device))
        token_kl = model.prior.token_kl(mean, log_var, z)
        logits, _ = model.decode(mean)
        columns = {
            "nats": -model.log_likelihood(model.decode(z), x),
            "kl": token_kl.sum(1),
            "token_kl": token_kl,
            "mean": mean,
            "log_var": log_var,
            "margins": mean[:0, 0] if model.architecture.channels else _compute_margins(logits, x),
        }
        predicted = to_array(model.likelihood.point_estimate(logits))
        return predicted, {name: column.cpu() for name, column in columns.items()}

    batches = map_batches(infer_batch, draw_noise(model, items, seed), model)
    predicted = np.concatenate([batch_predicted for batch_predicted, _ in batches])
    columns = {}
    for name in batches[0][1]:
        column = torch.cat([batch_columns[name] for _, batch_columns in batches])
        columns[name] = column.double().numpy()
    return Inference(predicted=predicted, **columns)


def reconstruct(model: VAE, items: Items) -> Items:
    """Reconstruct items from their posterior means: the same shape."""

    def reconstruct_batch(rows: slice) -> Items:
        return to_array(model.reconstruct(load_batch(model, items, rows)))

    return np.concatenate(map_batches(reconstruct_batch, _slices(len(items)), model))


def decode(model: VAE, codes: Floats) -> Items:
    """Decode codes (n, latent_dim) to the point estimates of p(x|z): (n, ...)."""

    def decode_batch(z: Tensor) -> Items:
        return to_array(model.point_estimate(z))

    z = torch.from_numpy(codes).float().to(model.device)
    return np.concatenate(map_batches(decode_batch, torch.split(z, BATCH), model))


def encode(model: VAE, items: Items) -> tuple[Floats, Floats]:
    """Compute means and log variances of q(z|x): (n, latent_dim) each."""

    def encode_batch(rows: slice) -> Tensor:
        return torch.stack(model.encode(load_batch(model, items, rows)))

    codes = map_batches(encode_batch, _slices(len(items)), model)
    mean, log_var = torch.cat(codes, dim=1).cpu().double().numpy()
    return mean, log_var


def elbo_terms(model: VAE, items: Items, seed: int) -> tuple[Floats, Floats]:
    """Compute -log p(x|z) and KL at one z ~ q(z|x), each (n,); their sum is the -ELBO."""

    def compute_batch(job: tuple[slice, Tensor]) -> Tensor:
        rows, noise = job
        return torch.stack(model.elbo_terms(load_batch(model, items, rows), noise.to(model.device)))

    terms = map_batches(compute_batch, draw_noise(model, items, seed), model)
    reconstruction, kl = torch.cat(terms, dim=1).cpu().double().numpy()
    return reconstruction, kl


@torch.no_grad()
def noise_mismatch(model: VAE, items: Items, mean: Floats, seed: int) -> float:
    """Measure by which factor the likelihood's noise is typically too large or too small.

    1 is a perfect match. Noise: samples of each pixel from p(x|z) (with a causal head, given the
    image's true earlier pixels) minus the point estimates. Errors: the images minus the point
    estimates. The result is the geometric mean over pixels of the ratio of their root mean squares,
    inverted where it is below 1; both include the 1/12 squared levels of rounding.

    items: images. mean: (n, latent_dim), their posterior means, which are the z.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = to_tensor(items[:1]).shape[1:]
    noise_squares = torch.zeros(shape, dtype=torch.float64)
    error_squares = torch.zeros(shape, dtype=torch.float64)
    for x, out in _decode_given_earlier(model, items, mean):
        point = model.likelihood.point_estimate(out).double()
        samples = model.likelihood.sample(out, generator)
        noise_squares += (samples - point).square().sum(0).cpu()
        error_squares += (x - point).square().sum(0).cpu()
    noise = noise_squares / len(items) + 1 / 12
    error = error_squares / len(items) + 1 / 12
    return float((noise / error).log().abs().mean().div(2).exp())


@torch.no_grad()
def predict_pixels(model: VAE, items: Items, mean: Floats) -> Items:
    """Compute point estimates of the pixels of images under p(x|z), like `items`.

    With a causal head, each pixel is predicted given the image's true earlier pixels, so that the
    errors are those of the likelihood; `reconstruct` decodes z alone. mean: (n, latent_dim), the z.
    """
    decoded = _decode_given_earlier(model, items, mean)
    return np.concatenate([to_array(model.likelihood.point_estimate(out)) for _, out in decoded])


def _decode_given_earlier(
    model: VAE, items: Items, mean: Floats
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of images, and what p(x|z) makes of their z and their true earlier pixels."""
    batches = torch.split(torch.from_numpy(mean).float().to(model.device), BATCH)
    for rows, z in zip(_slices(len(items)), batches, strict=True):
        x = load_batch(model, items, rows)
        out, context = model.decode(z)
        yield x, model.head(out, context, x) if model.head else out


def map_batches(function: Callable[[Job], Result], jobs: Iterable[Job], model: VAE) -> list[Result]:
    """Compute the results of batches, in order, in as many threads as torch has.

    Each batch is computed by one thread: the results do not depend on the number of threads, and no
    thread waits for others after every operator.
    """
    threads = torch.get_num_threads() if model.device.type == "cpu" else 1
    with engine.torch_threads(1), ThreadPoolExecutor(threads) as pool:
        return list(pool.map(torch.no_grad()(function), jobs))


def draw_noise(
    model: VAE, items: Items, seed: int, samples: int = 1
) -> Iterator[tuple[slice, Tensor]]:
    """Yield the rows of each batch, with standard normal noise for `samples` codes per item."""
    generator = torch.Generator().manual_seed(seed)
    for rows in _slices(len(items), max(1, BATCH // samples)):
        count = samples * (rows.stop - rows.start)
        yield rows, torch.randn(count, model.architecture.latent_dim, generator=generator)


def load_batch(model: VAE, items: Items, rows: slice) -> Tensor:
    """Load rows of items onto the model's device, as `to_tensor` converts them: (batch, ...)."""
    return to_tensor(items[rows]).to(model.device)


def _compute_margins(logits: Tensor, grids: Tensor) -> Tensor:
    """Compute the margin by which each grid is reconstructed, in nats: (batch,).

    It is the smallest difference, over the cells, between the log probability of the right colour
    and that of the likeliest wrong one, and so negative where a cell is wrong. logits: (batch,
    colours, size, size).
    """
    right = grids.long()[:, None]
    wrong = logits.scatter(1, right, -torch.inf).amax(1)
    return (logits.gather(1, right)[:, 0] - wrong).flatten(1).amin(1)


def _slices(count: int, size: int = BATCH) -> list[slice]:
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]
