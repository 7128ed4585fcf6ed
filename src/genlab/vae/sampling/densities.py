"""A mixture of normals fitted to the codes of a trained model, to draw new codes from."""

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from torch import Tensor

from genlab.core.errors import GenlabError
from genlab.core.progress import progress
from genlab.vae.sampling.latents import DrawLatents, principal_directions

Floats = npt.NDArray[np.float64]
Facts = dict[str, Any]

COMPONENTS = (1, 10, 40, 80)  # tried in this order while the held-out likelihood grows
HELD_OUT = 0.2  # share of the codes on which the number of components is chosen
PRINCIPAL = 32  # directions in which a mixture is fitted; the others get a normal each
RIDGE = 1e-6  # times the codes' mean variance, added to every covariance


def fit_gmm(codes: Floats, seed: int) -> tuple[DrawLatents, Facts]:
    """Fit a mixture of normals in the PRINCIPAL directions, and a normal in the others.

    codes: (n, d). The number of components is the first of COMPONENTS whose likelihood on the
    held-out codes the next one does not exceed. Returns the function that draws, and facts:
    `components`, and `held_out_nats` per code in those directions. Raises a GenlabError where no
    mixture can be fitted.
    """
    centre = codes.mean(0)
    rows, std = principal_directions(codes, codes.shape[1])
    principal_count = min(PRINCIPAL, len(std))
    reduced = (codes - centre) @ rows[:principal_count].T
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
    minor_std = torch.from_numpy(std[principal_count:]).float()
    basis = torch.from_numpy(rows).float()
    means = torch.from_numpy(fitted.means_).float()
    roots = torch.from_numpy(np.linalg.cholesky(fitted.covariances_)).float()
    weights = torch.from_numpy(fitted.weights_)
    origin = torch.from_numpy(centre).float()

    def draw(number: int, generator: torch.Generator) -> Tensor:
        component = torch.multinomial(weights, number, replacement=True, generator=generator)
        noise = torch.randn(number, principal_count, 1, generator=generator)
        principal = means[component] + (roots[component] @ noise)[..., 0]
        minor = torch.randn(number, len(minor_std), generator=generator) * minor_std
        return origin + torch.cat([principal, minor], dim=1) @ basis

    return draw, {"components": len(means), "held_out_nats": -score}
