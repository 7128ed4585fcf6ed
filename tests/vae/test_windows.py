"""A causal window shows each token the tokens before it, and sends gradients back to them alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from genlab.vae.models.priors.windows import CausalWindow

SHAPES = [(1, 1), (2, 1), (3, 2), (4, 3), (2, 3)]


def _index(window: CausalWindow, x: Tensor) -> Tensor:
    """The windows by plain indexing into x with a row of zeros at its end."""
    extended = torch.cat([x, x.new_zeros(len(x), 1, x.shape[2])], dim=1)
    return extended[:, [window.places(t) for t in range(window.side**2)]].flatten(2)


@pytest.mark.parametrize("shape", SHAPES)
def test_windows_and_their_gradients_are_those_of_plain_indexing(shape: tuple[int, int]) -> None:
    window = CausalWindow(*shape)
    x = torch.randn(3, window.side**2, 2, dtype=torch.float64, requires_grad=True)
    found, expected = window.gather(x), _index(window, x)
    assert torch.equal(found, expected)
    weights = torch.randn_like(found)
    gradients = [torch.autograd.grad((y * weights).sum(), x)[0] for y in (found, expected)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_place_is_before_its_token_and_within_reach(shape: tuple[int, int]) -> None:
    side, reach = shape
    window = CausalWindow(*shape)
    for token in range(side**2):
        y, x = divmod(token, side)
        expected = {
            row * side + column
            for row in range(max(0, y - reach), y + 1)
            for column in range(max(0, x - reach), min(side, x + reach + 1))
            if row < y or column < x
        }
        inside = [place for place in window.places(token) if place != side**2]
        assert len(inside) == len(set(inside))
        assert set(inside) == expected
