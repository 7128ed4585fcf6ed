"""Small models of each kind of prior and data."""

import pytest
import tiny

from genlab.vae.models.vae import VAE, Items


@pytest.fixture(params=["standard", "autoregressive", "images"])
def case(request: pytest.FixtureRequest) -> tuple[VAE, Items]:
    """A model and 30 items of its data."""
    if request.param == "images":
        return tiny.image_model(), tiny.images(30, seed=1)
    return tiny.model(prior=request.param).eval(), tiny.grids(30)
