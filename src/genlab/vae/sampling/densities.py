"""Densities fitted to the codes of a trained model, to draw new codes from.

codes: (n, d) float64. A draw is a function (count, generator) -> (count, d) float32.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from torch import Tensor

from genlab.core.errors import GenlabError
from genlab.core.progress import progress
from genlab.vae.sampling.latents import principal_directions

Floats = npt.NDArray[np.float64]
Draw = Callable[[int, torch.Generator], Tensor]
Facts = dict[str, Any]

COMPONENTS = (1, 10, 40, 80)  # tried, in this order, until held-out codes like it no better
HELD_OUT = 0.2  # share of the codes that choose among them
PRINCIPAL = 32  # directions in which a mixture is fitted; the others get a normal each
RIDGE = 1e-6  # of the codes' mean variance, added to every covariance


def fit_gmm(codes: Floats, seed: int) -> tuple[Draw, Facts]:
    """Fit a mixture of normals in the PRINCIPAL directions, and a normal in the others.

    The number of components is the first of COMPONENTS that HELD_OUT of the codes like better than
    the next one. Facts: `components`, `held_out_nats` (per code, in those directions). Raises
    GenlabError where no mixture can be fitted.
    """
    centre = codes.mean(0)
    rows, std = principal_directions(codes, codes.shape[1])
    kept = min(PRINCIPAL, len(std))
    reduced = (codes - centre) @ rows[:kept].T
    split = len(codes) - max(1, int(HELD_OUT * len(codes)))
    ridge = RIDGE * float(reduced[:split].var(0).mean())
    best: tuple[float, GaussianMixture] | None = None
    for count in progress(COMPONENTS, desc="gmm", unit="fit", leave=False):
        if best is not None and count > split:
            break
        model = GaussianMixture(
            count, reg_covar=ridge, max_iter=30, init_params="k-means++", random_state=seed
        )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(reduced[:split])
        except ValueError as error:
            raise GenlabError(
                f"gmm: {count} components cannot be fitted to {split} codes; are they all alike?"
            ) from error
        score = float(model.score(reduced[split:]))
        if best is not None and score <= best[0]:
            break
        best = (score, model)
    assert best is not None
    score, fitted = best
    rest = torch.from_numpy(std[kept:]).float()
    basis = torch.from_numpy(rows).float()
    means = torch.from_numpy(fitted.means_).float()
    roots = torch.from_numpy(np.linalg.cholesky(fitted.covariances_)).float()
    weights = torch.from_numpy(fitted.weights_)
    origin = torch.from_numpy(centre).float()

    def draw(number: int, generator: torch.Generator) -> Tensor:
        chosen = torch.multinomial(weights, number, replacement=True, generator=generator)
        noise = torch.randn(number, kept, 1, generator=generator)
        principal = means[chosen] + (roots[chosen] @ noise)[..., 0]
        others = torch.randn(number, len(rest), generator=generator) * rest
        return origin + torch.cat([principal, others], dim=1) @ basis

    return draw, {"components": len(means), "held_out_nats": -score}
