"""Every encoder and decoder: shapes, a gradient for every weight, and the initial values."""

from typing import Any

import pytest
import tiny
import torch
from torch import Tensor

from genlab.vae.models.convolutional import ResidualBlock
from genlab.vae.models.layers import CausalAttention
from genlab.vae.models.mixer import MLP, MixerBlock, MixerDecoder, MixerEncoder
from genlab.vae.models.priors.codebook import LOG_VAR_RANGE
from genlab.vae.models.vae import VAE, bound_log_var

# 16 patches: fewer, as many and more latents than patches; one latent alone.
GRIDS: list[dict[str, Any]] = [
    {"latent_dim": 2, "prior": "standard"},
    {"latent_dim": 4, "prior": "standard"},
    {"latent_dim": 16},
    {"latent_dim": 48},
    {"latent_dim": 64, "patch": 1},
]
IMAGES: list[dict[str, Any]] = [
    {"size": 28, "patch": 4, "channels": 1, "depth": 3, "causal_channels": 0},
    {"size": 28, "patch": 2, "channels": 3, "depth": 1, "causal_channels": 4},
    {"size": 32, "patch": 4, "channels": 3, "depth": 1, "causal_channels": 0},
    {"size": 64, "patch": 16, "channels": 1, "depth": 1, "causal_channels": 3},
]


def _case(case: dict[str, Any], count: int = 4) -> tuple[VAE, Tensor]:
    if "size" not in case:
        return tiny.model(**case), torch.from_numpy(tiny.grids(count))
    latent_dim = 2 * (case["size"] // case["patch"]) ** 2
    model = tiny.image_model(**case, latent_dim=latent_dim, prior="standard")
    images = tiny.images(count, 0, case["size"], case["channels"])
    return model, torch.from_numpy(images.transpose(0, 3, 1, 2).copy())


@pytest.mark.parametrize("case", [*GRIDS, *IMAGES], ids=str)
def test_networks_have_the_promised_shapes_and_a_gradient_for_every_weight(
    case: dict[str, Any],
) -> None:
    model, x = _case(case)
    mean, log_var = model.encode(x)
    assert mean.shape == log_var.shape == (4, model.architecture.latent_dim)
    size = model.architecture.size
    assert model.decode(mean)[0].shape == (4, model.likelihood.outputs, size, size)
    back = model.reconstruct(x)
    assert (back.shape, back.dtype) == (x.shape, torch.uint8)
    model.train()
    noise = torch.randn(mean.shape, generator=torch.Generator())
    sum(model.elbo_terms(x, noise)).sum().backward()
    unreached = [n for n, w in model.named_parameters() if w.grad is None or not w.grad.any()]
    assert unreached == []
    assert sum(model.parameter_counts().values()) == sum(p.numel() for p in model.parameters())
    nll, kl = model.eval().elbo_terms(x, noise)
    assert nll.shape == kl.shape == (4,)
    # The terms of an item do not depend on the items beside it.
    alone = model.elbo_terms(x[2:3], noise[2:3])
    torch.testing.assert_close(
        torch.stack(alone), torch.stack((nll, kl))[:, 2:3], rtol=1e-4, atol=1e-3
    )


@torch.no_grad()
def test_without_latent_context_z_changes_nothing_and_costs_nothing() -> None:
    model = tiny.image_model(latent_context=False, prior="standard", causal_channels=4)
    x = torch.from_numpy(tiny.images(3).transpose(0, 3, 1, 2).copy())
    first, second = torch.randn(2, 3, model.architecture.latent_dim)
    for plain, other in zip(model.decode(first), model.decode(second), strict=True):
        assert torch.equal(plain, other)
    nll, kl = model.elbo_terms(x, first)
    assert not kl.any()
    assert len(nll.unique()) == 3


def test_the_log_variance_is_bounded_and_starts_at_the_given_value() -> None:
    low, high = LOG_VAR_RANGE
    log_var = bound_log_var(torch.tensor([-1e30, -1e4, -3.0, 0.0, 3.0, 1e4, 1e30]), -5.6)
    assert low <= float(log_var.min()) <= float(log_var.max()) <= high
    assert (log_var.diff() >= 0).all()
    assert float(log_var[3]) == pytest.approx(-5.6, abs=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("position", [(0, 0), (6, 2)])
def test_a_position_of_the_code_reads_and_writes_its_position_of_the_image(
    position: tuple[int, int],
) -> None:
    row, column = position
    shapes = {"size": 64, "patch": 8, "latent_dim": 128, "prior": "standard"}
    x = torch.from_numpy(tiny.images(1, 0, 64)[..., 0][:, None])
    z = torch.zeros(1, 64, 2)
    changed = x.clone()
    changed_z = z.clone()
    inside = changed[:, :, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8]
    inside.copy_(255 - inside)
    changed_z[:, 8 * row + column] += 2.0
    read = torch.zeros(64)
    written = torch.zeros(64)
    for seed in range(8):  # with one draw of weights a neighbour's edge may count more
        torch.manual_seed(seed)
        model = VAE(tiny.image_architecture(**shapes))
        moved = (model.encode(changed)[0] - model.encode(x)[0]).abs().view(64, 2).sum(1)
        read += moved / moved.sum()
        change = (
            (model.decode(changed_z.flatten(1))[0] - model.decode(z.flatten(1))[0]).abs().sum(1)
        )
        written += torch.nn.functional.avg_pool2d(change, 8).flatten() / change.sum()
    assert int(read.argmax()) == int(written.argmax()) == 8 * row + column


@pytest.mark.parametrize("patch", [1, 2, 4, 8])
def test_joining_undoes_cutting(patch: int) -> None:
    maps = torch.randn(2, 3, 32, 32)
    tokens = MixerEncoder(32, patch, 3, 8, 1, 64).cut(maps)
    assert tokens.shape == (2, (32 // patch) ** 2, patch * patch * 3)
    assert torch.equal(MixerDecoder(32, patch, 3, 8, 1, 64).join(tokens), maps)


@torch.no_grad()
@pytest.mark.parametrize(
    ("block", "shape"),
    [
        (MLP(8, 16), (3, 4, 8)),
        (MixerBlock(4, 8), (3, 4, 8)),
        (CausalAttention(8, 2), (3, 4, 8)),
        (ResidualBlock(6), (2, 6, 5, 5)),
    ],
)
def test_residual_blocks_start_as_the_identity_and_do_not_stay_it(
    block: torch.nn.Module, shape: tuple[int, ...]
) -> None:
    x = torch.randn(shape)
    assert torch.equal(block(x), x)
    assert not torch.allclose(tiny.stir(block)(x), x)
