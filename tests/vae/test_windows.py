"""A causal window shows each token the tokens before it, and sends gradients back to them alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from genlab.vae.models.priors.windows import CausalWindow

SHAPES = [(1, 1, 1), (2, 1, 1), (3, 2, 1), (4, 1, 2), (4, 3, 3), (2, 3, 3), (5, 0, 2), (3, 2, 0)]


def _x(window: CausalWindow, batch: int = 3, channels: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(
        batch, window.side**2, channels, generator=generator, dtype=torch.float64
    ).requires_grad_()


def _plainly(window: CausalWindow, x: Tensor) -> Tensor:
    """The windows, token by token, by indices into x with a row of zeros at its end."""
    ended = torch.cat([x, x.new_zeros(len(x), 1, x.shape[2])], dim=1)
    rows = [ended[:, window.places(t)].flatten(1) for t in range(window.side**2)]
    return torch.stack(rows, dim=1)


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_gathered_is_what_stands_at_the_places(shape: tuple[int, int, int]) -> None:
    window = CausalWindow(*shape)
    x = _x(window)
    found = window.gather(x)
    assert found.shape == (3, window.side**2, 2 * len(window.offsets))
    assert torch.equal(found, _plainly(window, x))


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_those_of_plain_indexing(shape: tuple[int, int, int]) -> None:
    window = CausalWindow(*shape)
    x = _x(window)
    weights = torch.randn_like(window.gather(x))
    (found,) = torch.autograd.grad((window.gather(x) * weights).sum(), x)
    (expected,) = torch.autograd.grad((_plainly(window, x) * weights).sum(), x)
    torch.testing.assert_close(found, expected)


def test_gradients_are_those_of_finite_differences() -> None:
    window = CausalWindow(3, 2, 1)
    assert torch.autograd.gradcheck(window.gather, (_x(window, batch=2),))


@pytest.mark.parametrize("shape", SHAPES)
def test_every_place_is_before_its_token_and_within_the_window(shape: tuple[int, int, int]) -> None:
    side, rows, wide = shape
    window = CausalWindow(*shape)
    for token in range(side**2):
        y, x = divmod(token, side)
        expected = {
            row * side + column
            for row in range(max(0, y - rows), y + 1)
            for column in range(max(0, x - wide), min(side, x + wide + 1))
            if row < y or column < x
        }
        inside = [place for place in window.places(token) if place != side**2]
        assert len(inside) == len(set(inside))
        assert set(inside) == expected


def test_every_token_before_counts_where_the_window_is_as_large_as_the_square() -> None:
    window = CausalWindow(3, 2, 2)
    assert sorted(p for p in window.places(8) if p != 9) == list(range(8))
    assert set(window.places(0)) == {9}


def test_half_precision_stays_what_it_is() -> None:
    window = CausalWindow(3, 1, 1)
    x = _x(window).detach().to(torch.bfloat16).requires_grad_()
    found = window.gather(x)
    assert found.dtype == torch.bfloat16
    assert torch.autograd.grad(found.sum(), x)[0].dtype == torch.bfloat16
