"""Results of a model as arrays: shapes, determinism, and bounds in the right order."""

import numpy as np
import pytest
import tiny
import torch

from genlab.core.engine import torch_threads
from genlab.vae.models.vae import VAE, Items, to_array, to_tensor
from genlab.vae.sampling import posterior

Case = tuple[VAE, Items]


@pytest.mark.parametrize("items", [tiny.grids(3), tiny.images(3), tiny.images(3, 0, 32, 3)])
def test_arrays_and_tensors_convert_both_ways(items: Items) -> None:
    x = to_tensor(items)
    if items.ndim == 4:
        assert np.array_equal(x[2, -1].numpy(), items[2, :, :, -1])
    assert np.array_equal(to_array(x), items)
    assert to_array(x).flags.c_contiguous


def test_posterior_means_decode_to_reconstructions(case: Case) -> None:
    model, items = case
    mean, log_var = posterior.encode(model, items)
    assert mean.shape == log_var.shape == (30, model.architecture.latent_dim)
    back = posterior.reconstruct(model, items)
    assert (back.shape, back.dtype) == (items.shape, np.uint8)
    assert np.array_equal(posterior.decode(model, mean), back)


def test_the_elbo_terms_are_the_models_and_the_nats_of_tokens_sum_to_the_kl(case: Case) -> None:
    model, items = case
    dim = model.architecture.latent_dim
    noise = torch.randn(30, dim, generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        expected = torch.stack(model.elbo_terms(to_tensor(items), noise))
    np.testing.assert_allclose(posterior.elbo_terms(model, items, seed=4), expected, rtol=1e-4)
    inferred = posterior.infer(model, items, seed=4)
    np.testing.assert_allclose((inferred.nats, inferred.kl), expected, rtol=1e-4)
    assert inferred.token_kl.shape == (30, model.prior.tokens)
    np.testing.assert_allclose(inferred.token_kl.sum(1), inferred.kl, rtol=1e-3)


def test_one_pass_agrees_with_the_single_functions(case: Case) -> None:
    model, items = case
    inferred = posterior.infer(model, items, seed=4)
    np.testing.assert_array_equal((inferred.mean, inferred.log_var), posterior.encode(model, items))
    np.testing.assert_array_equal(inferred.predicted, posterior.reconstruct(model, items))
    assert len(inferred.margins) == (0 if items.ndim == 4 else len(items))


def test_results_do_not_depend_on_the_number_of_threads(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posterior, "BATCH", 8)
    model, items = case
    results = []
    for threads in (1, 3):
        with torch_threads(threads):
            results.append(vars(posterior.infer(model, items, seed=4)).values())
    for first, second in zip(*results, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("likelihood", ["gaussian", "discretized_logistic_mixture"])
@pytest.mark.parametrize("causal_channels", [0, 4])
def test_noise_that_fits_the_errors_is_no_mismatch(likelihood: str, causal_channels: int) -> None:
    model = tiny.image_model(likelihood=likelihood, causal_channels=causal_channels)
    z = torch.randn(600, 49, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        drawn = to_array(model.sample(z[:250], torch.Generator().manual_seed(1)))
    assert posterior.noise_mismatch(model, drawn, z[:250].numpy(), seed=2) == pytest.approx(
        1, abs=0.2
    )


def test_noise_of_thrice_the_errors_is_a_mismatch_of_three() -> None:
    model = tiny.image_model(likelihood="gaussian", prior="standard")
    with torch.no_grad():
        for parameter in model.decoder.parameters():
            parameter.zero_()
        model.decoder.head.bias.fill_(0.5)
        model.likelihood.log_sigma.fill_(np.log(0.12))
    errors = np.random.default_rng(0).normal(0, 0.04 * 255, (500, 28, 28, 1))
    items = (128 + errors).round().astype(np.uint8)
    assert posterior.noise_mismatch(model, items, np.zeros((500, 49)), seed=0) == pytest.approx(
        3, rel=0.05
    )


@pytest.mark.parametrize("causal_channels", [0, 4])
def test_only_a_causal_head_predicts_pixels_from_earlier_ones(causal_channels: int) -> None:
    model = tiny.image_model(causal_channels=causal_channels)
    images = tiny.images(2)
    images[1] = images[0]
    images[1, 14, 14] = 255 - images[1, 14, 14]
    mean = np.zeros((2, 49))
    first, second = posterior.predict_pixels(model, images, mean)
    assert first.shape == images[0].shape
    assert first.dtype == np.uint8
    differs = np.argwhere((first != second).any(-1))
    if causal_channels:
        assert len(differs)
        assert tuple(differs[0]) > (14, 14)
    else:
        np.testing.assert_array_equal(first, posterior.decode(model, mean[:1])[0])
        assert not len(differs)


def test_sigma_of_the_batch_is_for_training_alone() -> None:
    # A sigma from the image's own error would make the bound invalid.
    model = tiny.image_model(likelihood="gaussian_analytic", prior="standard")
    image = tiny.images(1)[0]
    x = to_tensor(np.stack([image, 255 - image]))
    noise = torch.randn(2, 49, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        both, _ = model.elbo_terms(x, noise)
        evaluated, _ = model.elbo_terms(x[:1], noise[:1])
        torch.testing.assert_close(evaluated, both[:1])
        trained, _ = model.train().elbo_terms(x[:1], noise[:1])
    assert not torch.allclose(trained, evaluated, rtol=1e-3)


def test_a_margin_is_negative_where_the_reconstruction_is_wrong() -> None:
    model = tiny.model().eval()
    grids = posterior.reconstruct(model, tiny.grids(300))
    margins = posterior.infer(model, grids, seed=0).margins
    exact = (posterior.reconstruct(model, grids) == grids).all(axis=(1, 2))
    assert margins.shape == (300,)
    assert np.array_equal(margins > 0, exact)
    with torch.no_grad():
        logits = model.decode(model.encode(to_tensor(grids[:1]))[0])[0][0]
        likeliest = logits.topk(2, dim=0)
    right = to_tensor(grids[0]).long()
    best = torch.where(likeliest.indices[0] == right, likeliest.values[1], likeliest.values[0])
    expected = (logits.gather(0, right[None])[0] - best).min()
    assert margins[0] == pytest.approx(float(expected), abs=1e-5)
