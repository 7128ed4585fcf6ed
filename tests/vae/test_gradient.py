"""A batch split over threads has the gradient of the whole, the same bytes each time."""

import pytest
import tiny
import torch
from torch import Tensor

from genlab.vae.models.vae import VAE
from genlab.vae.training.gradient import BatchGradient

ROWS = 10


def _gradient(model: VAE, parts: int, threads: int = 1) -> tuple[list[Tensor], dict[str, float]]:
    x = torch.from_numpy(tiny.grids(ROWS))
    noise = torch.randn(ROWS, 32, generator=torch.Generator().manual_seed(0))

    def part(chosen: slice) -> tuple[Tensor, dict[str, Tensor]]:
        nll, kl = model.elbo_terms(x[chosen], noise[chosen])
        return (nll + kl).sum(), {"kl": kl.detach().sum(), "rows": torch.tensor(len(kl))}

    sums = BatchGradient(list(model.parameters()), parts, threads)(part, ROWS)
    numbers = {name: float(value) for name, value in sums.items()}
    return [parameter.grad.clone() for parameter in model.parameters()], numbers


@pytest.mark.parametrize(("shards", "threads"), [(2, 1), (2, 2), (3, 2), (2 * ROWS, 3)])
def test_parts_add_up_to_the_gradient_of_the_whole(shards: int, threads: int) -> None:
    model = tiny.model()
    whole, sums = _gradient(model, 1)
    parts, sums_of_parts = _gradient(model, shards, threads)
    assert any(gradient.any() for gradient in whole)
    # A weight's gradient is a sum in which much cancels: the whole gradient's size is the scale.
    scale = torch.cat([gradient.flatten() for gradient in whole]).norm()
    for a, b in zip(whole, parts, strict=True):
        assert float((a - b).norm() / scale) < 1e-5
    assert sums_of_parts["rows"] == sums["rows"] == ROWS
    assert sums_of_parts["kl"] == pytest.approx(sums["kl"], rel=1e-5)


def test_a_gradient_lies_in_memory_as_its_weights_do() -> None:
    # Fed channels last, a convolution gives its weights' gradient channels last too.
    layer = torch.nn.Conv2d(8, 8, 3)
    x = torch.randn(4, 8, 6, 6).to(memory_format=torch.channels_last)
    raw = torch.autograd.grad(layer(x).sum(), [layer.weight])[0]
    assert raw.stride() != layer.weight.stride()  # else there is nothing to fix

    gradient = BatchGradient(list(layer.parameters()), 1)
    gradient(lambda rows: (layer(x[rows]).sum(), {}), len(x))
    assert layer.weight.grad is not None
    assert layer.weight.grad.stride() == layer.weight.stride()
    torch.testing.assert_close(layer.weight.grad, raw)
