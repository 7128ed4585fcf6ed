"""Importance weights of codes: `evaluation.metrics.likelihood.iwae` turns them into its bound."""

import numpy as np
import numpy.typing as npt
from torch import Tensor

from genlab.distributions.gaussian import normal_log_prob, reparameterize
from genlab.vae.models.vae import VAE, Items
from genlab.vae.sampling.posterior import Floats, draw_noise, load_batch, map_batches


def log_importance_weights(model: VAE, items: Items, samples: int, seed: int) -> Floats:
    """Compute log p(x, z_k) - log q(z_k | x) for k = 1..samples of each item: (n, samples)."""

    def weigh_batch(job: tuple[slice, Tensor]) -> npt.NDArray[np.float32]:
        rows, noise = job
        x = load_batch(model, items, rows)
        repeated = x.repeat_interleave(samples, dim=0)
        mean, log_var = model.encode(x)
        mean = mean.repeat_interleave(samples, dim=0)
        log_var = log_var.repeat_interleave(samples, dim=0)
        z = reparameterize(mean, log_var, noise.to(model.device))
        log_likelihood = model.log_likelihood(model.decode(z), repeated)
        log_joint = log_likelihood + model.prior.token_log_prob(z).sum(1)
        log_ratio = log_joint - normal_log_prob(z, mean, log_var).sum(1)
        weights: npt.NDArray[np.float32] = log_ratio.view(len(x), samples).cpu().numpy()
        return weights

    batches = draw_noise(model, items, seed, samples)
    return np.concatenate(map_batches(weigh_batch, batches, model)).astype(np.float64)
