"""Networks of images keep their shapes at every side, reach every weight, and start as they say."""

from __future__ import annotations

import math
from typing import Any

import pytest
import tiny
import torch
from torch import Tensor

from genlab.vae.models import mixer
from genlab.vae.models.convolutional import ConvDecoder, ConvEncoder, ResidualBlock, stage_widths
from genlab.vae.models.mixer import MixerImageDecoder, MixerImageEncoder, centre
from genlab.vae.models.vae import VAE

NETWORKS = ["conv", "mixer"]
SIDES = [(28, 4), (28, 2), (32, 4), (64, 8), (64, 16)]


def _shapes(network: str, side: int, patch: int, channels: int, **changes: Any) -> dict[str, Any]:
    tokens = (side // patch) ** 2
    shapes = {"network": network, "size": side, "patch": patch, "channels": channels}
    return {**shapes, "latent_dim": 2 * tokens, "prior": "standard", **changes}


def _x(side: int, channels: int, count: int = 3) -> Tensor:
    return torch.from_numpy(tiny.images(count, 0, side, channels).transpose(0, 3, 1, 2).copy())


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("side", "patch"), SIDES)
def test_images_go_in_and_images_come_out(
    network: str, side: int, patch: int, channels: int
) -> None:
    model = tiny.image_model(**_shapes(network, side, patch, channels))
    x = _x(side, channels)
    with torch.no_grad():
        mean, log_var = model.encode(x)
        out = model.decode(mean)
        back = model.reconstruct(x)
    assert mean.shape == log_var.shape == (3, model.architecture.latent_dim)
    assert out.shape == (3, model.likelihood.outputs, side, side)
    assert back.shape == x.shape
    assert back.dtype == torch.uint8


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("depth", [1, 3])
def test_gradients_reach_every_parameter(network: str, depth: int) -> None:
    model = tiny.image_model(**_shapes(network, 28, 4, 1, depth=depth)).train()
    noise = torch.randn(3, model.architecture.latent_dim, generator=torch.Generator())
    model.elbo_terms(_x(28, 1), noise).neg_elbo.sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool((parameter.grad != 0).any()), name


@torch.no_grad()
@pytest.mark.parametrize("network", NETWORKS)
def test_posteriors_start_with_a_standard_deviation_of_a_third(network: str) -> None:
    torch.manual_seed(0)
    architecture = tiny.image_architecture(**_shapes(network, 28, 4, 1, width=16, depth=2))
    _, log_var = VAE(architecture).encode(_x(28, 1, 20))
    std = (0.5 * log_var).exp()
    assert float(std.mean()) == pytest.approx(math.exp(-1), abs=0.08)
    # What the heads' own noise adds is small: none begins so wide or so narrow as to be lost.
    assert float(std.min()) > 0.1
    assert float(std.max()) < 1.0


@torch.no_grad()
@pytest.mark.parametrize("network", NETWORKS)
def test_the_posteriors_variance_is_bounded(network: str) -> None:
    model = tiny.image_model(**_shapes(network, 28, 4, 1))
    for raw in (-1e4, 1e4):
        model.encoder.head.bias.fill_(raw)
        _, log_var = model.encode(_x(28, 1))
        assert -8.0 <= float(log_var.min()) <= float(log_var.max()) <= 3.0


@torch.no_grad()
def test_the_decoder_starts_broad() -> None:
    torch.manual_seed(0)
    model = VAE(tiny.image_architecture(width=16, depth=2))
    out = model.decode(torch.randn(20, 49))
    assert float(out.abs().max()) < 1.5  # e^1.5 is a factor of 4 in scale, half the range in mean
    assert float(out.std()) > 1e-3  # but it does hear the codes


@torch.no_grad()
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("place", [(0, 0), (1, 5), (6, 2)])
def test_a_place_of_the_code_reads_its_place_of_the_image_and_writes_there(
    network: str, place: tuple[int, int]
) -> None:
    row, column = place
    x, z = _x(64, 1, 1), torch.zeros(1, 64, 2)
    changed, near = x.clone(), z.clone()
    inside = changed[:, :, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8]
    inside.copy_(255 - inside)
    near[:, 8 * row + column] += 2.0
    read, written = torch.zeros(64), torch.zeros(64)
    for seed in range(
        8
    ):  # one draw of weights may listen to a neighbour's edge more than to itself
        torch.manual_seed(seed)
        model = VAE(tiny.image_architecture(**_shapes(network, 64, 8, 1)))
        moved = (model.encode(changed)[0] - model.encode(x)[0]).abs().view(64, 2).sum(1)
        read += moved / moved.sum()
        change = (model.decode(near.flatten(1)) - model.decode(z.flatten(1))).abs().sum(1)
        written += torch.nn.functional.avg_pool2d(change, 8).flatten() / change.sum()
    assert int(read.argmax()) == int(written.argmax()) == 8 * row + column


@torch.no_grad()
def test_the_mixers_patches_come_back_to_their_places() -> None:
    # Cut and join are each other's inverse: a decoder whose blocks do nothing puts them back.
    x = _x(32, 3, 2)
    encoder = MixerImageEncoder(32, 4, 3, 8, 1, 64)
    decoder = MixerImageDecoder(32, 4, 3, 8, 1, 64)
    tokens = encoder.cut(x)
    assert tokens.shape == (2, 64, 48)
    torch.testing.assert_close(decoder.join(tokens), centre(x))
    assert torch.equal(tokens[:, 9], encoder.cut(x)[:, 9])
    patch = centre(x)[:, :, 4:8, 4:8].reshape(2, -1)  # row 1, column 1 of 8 x 8 patches
    torch.testing.assert_close(tokens[:, 9].sort().values, patch.sort().values)


def test_levels_are_centre() -> None:
    x = torch.tensor([0, 255], dtype=torch.uint8)
    assert centre(x).tolist() == [-1.0, 1.0]


def test_channels_double_at_each_halving() -> None:
    assert stage_widths(8, 2) == [8]
    assert stage_widths(8, 4) == [8, 16]
    assert stage_widths(8, 16) == [8, 16, 32, 64]


@torch.no_grad()
def test_a_residual_block_starts_as_the_identity_and_does_not_stay_it() -> None:
    torch.manual_seed(0)
    block, x = ResidualBlock(6), torch.randn(2, 6, 5, 5)
    assert torch.equal(block(x), x)
    tiny.stir(block)
    assert not torch.allclose(block(x), x)


@pytest.mark.parametrize("part", ["width", "depth", "latent_dim"])
def test_width_depth_and_latents_scale_the_network(part: str) -> None:
    def weights(**changes: int) -> int:
        counts = VAE(tiny.image_architecture(prior="standard", **changes)).parameter_counts()
        return counts["encoder"] + counts["decoder"]

    larger = {"width": 8, "depth": 3, "latent_dim": 98}
    assert weights(**{part: larger[part]}) > weights()


def test_the_seed_decides_the_weights() -> None:
    def encoder(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return torch.cat([p.flatten() for p in ConvEncoder(1, 4, 4, 1, 1).parameters()])

    assert torch.equal(encoder(0), encoder(0))
    assert not torch.equal(encoder(0), encoder(1))


def test_the_decoder_is_the_encoders_mirror_image() -> None:
    encoder, decoder = ConvEncoder(1, 8, 4, 2, 3), ConvDecoder(64, 8, 4, 2, 3, 5)
    blocks = [
        [layer.first.weight.shape[0] for layer in part.stack if isinstance(layer, ResidualBlock)]
        for part in (encoder, decoder)
    ]
    assert blocks[0] == [4, 4, 8, 8, 16, 16]
    assert blocks[1] == blocks[0][::-1]
    assert mixer.IMAGE_LOG_VAR_START == -2.0
