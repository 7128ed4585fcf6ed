"""The causal head: what each pixel sees, the sampler against the convolutions, the ELBO."""

import pytest
import tiny
import torch
from torch import Tensor

from genlab.distributions.discretized_logistic import DiscretizedLogisticMixture
from genlab.vae.models.causal_head import CausalHead

SIDE = 9
CONTEXT = 5


def _head(channels: int) -> tuple[CausalHead, DiscretizedLogisticMixture, Tensor, Tensor]:
    torch.manual_seed(channels)
    likelihood = DiscretizedLogisticMixture(channels, 2)
    head = tiny.stir(CausalHead(channels, likelihood.outputs, CONTEXT))
    out = torch.randn(3, likelihood.outputs, SIDE, SIDE)
    return head, likelihood, out, torch.randn(3, CONTEXT, SIDE, SIDE)


def test_a_new_head_corrects_nothing() -> None:
    head = CausalHead(1, 6, CONTEXT)
    out = torch.randn(2, 6, SIDE, SIDE)
    x = torch.zeros(2, 1, SIDE, SIDE, dtype=torch.uint8)
    torch.testing.assert_close(head(out, torch.randn(2, CONTEXT, SIDE, SIDE), x), out)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("pixel", [(0, 0), (4, 5), (8, 8)])
def test_a_pixel_changes_the_parameters_of_later_pixels_alone(
    channels: int, pixel: tuple[int, int]
) -> None:
    head, _, out, context = _head(channels)
    row, column = pixel
    x = torch.full((3, channels, SIDE, SIDE), 90, dtype=torch.uint8)
    changed = x.clone()
    changed[:, :, row, column] = 200
    with torch.no_grad():
        moved = (head(out, context, changed) - head(out, context, x)).abs().amax((0, 1)) > 0
    after = torch.arange(SIDE * SIDE).view(SIDE, SIDE) > row * SIDE + column
    assert not moved[~after].any()
    assert moved.any() == bool(after.any())


@pytest.mark.parametrize("channels", [1, 3])
def test_sampling_pixel_by_pixel_sees_what_the_convolutions_see(channels: int) -> None:
    head, _, out, context = _head(channels)
    sampled_parameters = []

    def sample_pixels(parameters: Tensor) -> Tensor:
        sampled_parameters.append(parameters[:, :, 0, 0])
        return torch.randint(0, 256, (3, channels, 1, 1), dtype=torch.uint8)

    x = head.sample(out, context, sample_pixels)
    with torch.no_grad():
        expected = head(out, context, x)
    parameters = torch.stack(sampled_parameters, -1).view(out.shape)
    torch.testing.assert_close(parameters, expected, atol=1e-5, rtol=1e-4)
