"""Encoders and decoders: shapes, bounds, and a gradient for every weight."""

from __future__ import annotations

import pytest
import tiny
import torch

from genlab.vae.models.mixer import (
    LOG_VAR_RANGE,
    LOG_VAR_START,
    MLP,
    MixerBlock,
    MixerDecoder,
    MixerEncoder,
    bound_log_var,
)

# 16 patches: fewer, as many and more latents than patches; one latent alone; conv with any number.
CASES = [
    {"latent_dim": 1, "prior": "standard"},
    {"latent_dim": 4, "prior": "standard"},
    {"latent_dim": 16},
    {"latent_dim": 48},
    {"latent_dim": 64, "patch": 1},
    {"latent_dim": 5, "network": "conv", "prior": "standard", "depth": 2},
    {"latent_dim": 5, "network": "conv", "prior": "standard", "depth": 1},
]


def _x(count: int = 6) -> torch.Tensor:
    return torch.from_numpy(tiny.grids(count))


@pytest.mark.parametrize("case", CASES)
def test_codes_and_logits_have_the_promised_shapes(case: dict[str, object]) -> None:
    model = tiny.model(**case)
    mean, log_var = model.encode(_x())
    assert mean.shape == log_var.shape == (6, case["latent_dim"])
    assert model.decode(mean).shape == (6, tiny.CLASSES, tiny.SIZE, tiny.SIZE)


@pytest.mark.parametrize("case", CASES)
def test_a_gradient_reaches_every_weight(case: dict[str, object]) -> None:
    model = tiny.model(**case)
    noise = torch.randn(6, model.architecture.latent_dim)
    model.elbo_terms(_x(), noise).neg_elbo.sum().backward()
    unreached = [
        name
        for name, weight in model.named_parameters()
        if weight.grad is None or not weight.grad.any() or not weight.grad.isfinite().all()
    ]
    assert unreached == []


@pytest.mark.parametrize("case", CASES)
def test_grids_of_a_batch_do_not_see_each_other(case: dict[str, object]) -> None:
    model, x = tiny.model(**case), _x()
    together = model.decode(model.encode(x)[0])
    alone = model.decode(model.encode(x[2:3])[0])
    torch.testing.assert_close(together[2:3], alone, rtol=1e-4, atol=1e-5)


def test_the_log_variance_is_bounded_whatever_the_network_says() -> None:
    low, high = LOG_VAR_RANGE
    raw = torch.tensor([-1e30, -1e4, -3.0, 0.0, 3.0, 1e4, 1e30])
    log_var = bound_log_var(raw, LOG_VAR_START)
    assert (log_var >= low).all()
    assert (log_var <= high).all()
    assert (log_var.diff() >= 0).all()
    assert log_var[2] < log_var[3] < log_var[4]


def test_the_log_variance_starts_where_it_is_said_to() -> None:
    assert float(bound_log_var(torch.zeros(()), LOG_VAR_START)) == pytest.approx(
        LOG_VAR_START, abs=1e-5
    )


@pytest.mark.parametrize("patch", [1, 2, 4, 8])
def test_unpatching_undoes_patching(patch: int) -> None:
    x = _x()
    tokens = MixerEncoder(tiny.SIZE, patch, tiny.CLASSES, 8, 1, 64).cut(x)
    assert tokens.shape == (6, (tiny.SIZE // patch) ** 2, patch * patch * tiny.CLASSES)
    assert torch.equal(
        MixerDecoder(tiny.SIZE, patch, tiny.CLASSES, 8, 1, 64).join(tokens).argmax(1), x.long()
    )


def test_a_patch_is_a_square_of_neighbours() -> None:
    x = torch.zeros(1, 4, 4, dtype=torch.uint8)
    x[0, :2, 2:] = 7  # the square at the top right, the second in reading order
    full = MixerEncoder(4, 2, 10, 8, 1, 4).cut(x).view(4, 4, 10).argmax(2)
    assert full.tolist() == [[0] * 4, [7] * 4, [0] * 4, [0] * 4]


@pytest.mark.parametrize("block", [MLP(8, 16), MixerBlock(4, 8)])
def test_residual_blocks_start_as_the_identity(block: torch.nn.Module) -> None:
    x = torch.randn(3, 4, 8)
    assert torch.equal(block(x), x)
