"""Fast forms of layers give what the plain ones give, forward and backward."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from genlab.vae.models.convolutional import Fold, FoldedInput, FoldedOutput, Unfold
from genlab.vae.models.layers import TokenLinear
from genlab.vae.models.priors import MixtureDensityPrior


def _assert_agree(
    fast: Callable[[Tensor], Tensor],
    plain: Callable[[Tensor], Tensor],
    x: Tensor,
    weights: list[nn.Parameter],
) -> None:
    """Compare results, and gradients of input and weights, in double precision."""
    x = x.double().requires_grad_()
    result = fast(x)
    expected = plain(x)
    torch.testing.assert_close(result, expected)
    of_result = torch.randn(expected.shape, dtype=torch.float64)
    gradients = torch.autograd.grad(result, [x, *weights], of_result)
    expected_gradients = torch.autograd.grad(expected, [x, *weights], of_result)
    torch.testing.assert_close(gradients, expected_gradients)


@pytest.mark.parametrize("shape", [(3, 5, 6), (16, 49, 6), (1, 1, 6), (7, 6)])
def test_a_layer_of_tokens_is_a_linear_layer(shape: tuple[int, ...]) -> None:
    layer = TokenLinear(6, 4).double()
    x = torch.randn(shape)
    weights = list(layer.parameters())
    _assert_agree(layer, lambda x: F.linear(x, layer.weight, layer.bias), x, weights)
    assert layer(x.double()).is_contiguous()


@pytest.mark.parametrize("kernel", [1, 3])
def test_folded_convolutions_are_those_of_shuffled_pixels(kernel: int) -> None:
    into = FoldedInput(12, 5, kernel).double()
    _assert_agree(
        lambda x: into(Fold()(x)),
        lambda x: F.conv2d(F.pixel_unshuffle(x, 2), into.weight, into.bias, padding=kernel // 2),
        torch.randn(2, 3, 8, 6),
        list(into.parameters()),
    )
    out = FoldedOutput(5, 12, kernel).double()
    _assert_agree(
        lambda x: Unfold()(out(x)),
        lambda x: F.pixel_shuffle(F.conv2d(x, out.weight, out.bias, padding=kernel // 2), 2),
        torch.randn(2, 5, 4, 3),
        list(out.parameters()),
    )


@pytest.mark.parametrize("side", [2, 7])
def test_a_convolution_over_windows_reads_the_tokens_that_sampling_reads(side: int) -> None:
    prior = MixtureDensityPrior(3 * side**2, side**2, 8, 2, 3, 0).double()

    def read_windows(x: Tensor) -> Tensor:
        outside = torch.zeros_like(x[:, :1])
        return prior.read(torch.cat([x, outside], dim=1)[:, prior._window_tokens()].flatten(2))

    x = torch.randn(4, side**2, 3)
    _assert_agree(
        lambda x: prior._over_windows(prior.read, x), read_windows, x, list(prior.read.parameters())
    )
    assert prior._window_tokens()[0].eq(-1).all()
    last = prior._window_tokens()[-1]
    assert int(last.max()) == side**2 - 2  # the token before it, not itself
