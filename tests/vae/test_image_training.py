"""Training on images learns, averages weights, holds free bits, and goes on after a kill."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from torch import Tensor

from genlab.core.errors import GenlabError
from genlab.distributions import likelihoods
from genlab.evaluation.metrics.likelihood import iwae
from genlab.vae.models.priors import StandardPrior
from genlab.vae.models.vae import VAE, to_array, to_tensor
from genlab.vae.sampling import posterior as inference
from genlab.vae.training.checkpoint import load_checkpoint, save_checkpoint
from genlab.vae.training.tasks import ImageTask
from genlab.vae.training.trainer import Trainer, half_precision

IMAGES = tiny.images(64)
VAL = tiny.images(16, seed=1)
RGB = {"datasets": ["cifar10"], "cifar10": {}, "latent_dim": 64}


def _trainer(folder: Path, kind: type[Trainer] = Trainer, **training: Any) -> Trainer:
    task = tiny.image_task(IMAGES, **training)
    return kind(tiny.image_params(**training), task, VAL, folder)


def _rgb_trainer(folder: Path, **training: Any) -> Trainer:
    params = tiny.params(**{**tiny.IMAGE_TRAINING, **RGB, **training})
    train, val = (tiny.images(n, seed, 32, 3) for seed, n in enumerate((64, 16)))
    return Trainer(params, tiny.make_task(params, "cifar10", train, 256), val, folder)


def _step(trainer: Trainer, beta: float = 1.0) -> tuple[dict[str, float], float]:
    x = trainer.task.batch(np.arange(trainer.params.batch_size))
    return trainer.update(x, beta, torch.Generator().manual_seed(0))


# -- it learns


def test_the_loss_falls(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, epochs=4)
    before = trainer.validate(1.0)
    trainer.run(tiny.nothing)
    losses = [row["train/loss"] for row in trainer.progress.history]
    assert losses[-1] < 0.9 * losses[0]
    after = trainer.progress.history[-1]
    assert -after["elbo"] < 0.8 * -before["elbo"]
    assert after["psnr"] > before["psnr"]
    assert after["mse"] < before["mse"]


def test_four_images_are_told_apart(tmp_path: Path) -> None:
    four = tiny.images(4)
    training = {"epochs": 10, "beta_max": 0.0, "prior": "standard", "likelihood": "gaussian"}
    params = tiny.image_params(width=8, batch_size=4, samples_per_epoch=32, **training)
    task = tiny.make_task(params, "fashion_mnist", four, 256)
    model = Trainer(params, task, four, tmp_path).run(tiny.nothing)
    back = inference.reconstruct(model, four).astype(float)
    own = np.square(back - four).mean((1, 2, 3))
    of_others = np.square(back - four[[1, 2, 3, 0]]).mean((1, 2, 3))
    assert (own < 0.2 * of_others).all()


@pytest.mark.parametrize("network", ["conv", "mixer"])
def test_any_network_learns_with_an_autoregressive_prior(tmp_path: Path, network: str) -> None:
    training = {"network": network, "prior": "autoregressive"}
    trainer = _trainer(tmp_path, **training)
    trainer.run(tiny.nothing)
    assert not isinstance(trainer.model.prior, StandardPrior)
    assert all(math.isfinite(row["train/loss"]) for row in trainer.progress.history)


def test_every_epoch_logs_the_promised_names(tmp_path: Path) -> None:
    rows: list[tuple[dict[str, float], dict[str, float]]] = []
    trainer = _trainer(tmp_path)
    trainer.run(lambda epoch, model, values, timing: rows.append((values, timing)))
    names = {"loss", "reconstruction_loss", "kl_divergence", "beta_kl", "elbo", "psnr", "mse"}
    names |= {"learning_rate", "gradient_norm", "skipped_updates", "beta"}
    names |= {f"train/{name}" for name in ("loss", "reconstruction_loss", "kl_divergence")}
    assert len(rows) == 2
    for values, timing in rows:
        assert names <= set(values)
        assert "pixel_accuracy" not in values
        assert timing["samples_per_second"] > 0
        assert all(math.isfinite(value) for value in values.values())
        assert values["elbo"] == pytest.approx(
            -values["reconstruction_loss"] - values["kl_divergence"], rel=1e-5
        )


@pytest.mark.parametrize("prior", ["standard", "autoregressive_mixture"])
@pytest.mark.parametrize("network", ["conv", "mixer"])
@pytest.mark.parametrize("likelihood", tiny.IMAGE_LIKELIHOODS)
def test_every_likelihood_trains_every_network_under_every_prior(
    tmp_path: Path, likelihood: str, network: str, prior: str
) -> None:
    trainer = _trainer(tmp_path, likelihood=likelihood, network=network, prior=prior)
    before = tiny.bits(trainer.model)
    loss, norm = _step(trainer)
    assert all(math.isfinite(value) for value in loss.values())
    assert norm > 0
    assert trainer.progress.skipped_updates == 0
    after = tiny.bits(trainer.model)
    changed = {name for name in after if after[name] != before[name]}
    # Where a layer starts at zero, the one before it has no gradient yet.
    assert {"encoder.head.weight", "encoder.head.bias"} <= changed
    assert any(name.startswith("decoder.") for name in changed)
    assert any(name.startswith("prior.") for name in changed) == (prior != "standard")


@pytest.mark.parametrize("network", ["conv", "mixer"])
def test_colours_are_trained_too(tmp_path: Path, network: str) -> None:
    trainer = _rgb_trainer(tmp_path, network=network)
    losses = [_step(trainer)[0]["loss"] for _ in range(25)]
    assert losses[-1] < 0.9 * losses[0]


# -- the reported bound


@pytest.mark.parametrize(
    "change", [{"free_bits": 5.0}, {"ema": 0.9}, {"beta_max": 0.25}, {"grad_clip": 0.1}]
)
def test_stability_measures_never_touch_the_reported_bound(
    tmp_path: Path, change: dict[str, float]
) -> None:
    plain, other = _trainer(tmp_path / "plain"), _trainer(tmp_path / "other", **change)
    assert tiny.bits(plain.model) == tiny.bits(other.model)
    before, after = (each.validate(each.params.beta_max) for each in (plain, other))
    for name in ("elbo", "reconstruction_loss", "kl_divergence", "psnr", "mse"):
        assert before[name] == after[name]
    if change.keys() <= {"free_bits", "beta_max"}:
        assert before["loss"] != after["loss"]


def test_without_free_bits_the_loss_at_beta_1_is_the_negative_elbo(tmp_path: Path) -> None:
    values = _trainer(tmp_path).validate(1.0)
    assert values["loss"] == pytest.approx(-values["elbo"], rel=1e-5)


def test_the_best_epoch_is_chosen_by_what_is_paid(tmp_path: Path) -> None:
    free, beta = 50.0, 0.5
    trainer = _trainer(tmp_path, free_bits=free, beta_max=beta)
    values = trainer.validate(beta)
    assert values["kl_divergence"] < free * 49
    expected = beta * free * 49 + values["reconstruction_loss"]
    assert values["val_objective"] == pytest.approx(expected, rel=1e-6)
    plain = _trainer(tmp_path, beta_max=beta).validate(beta)
    expected = beta * plain["kl_divergence"] + plain["reconstruction_loss"]
    assert plain["val_objective"] == pytest.approx(expected, rel=1e-6)


# -- free bits


def _gradients(trainer: Trainer, beta: float) -> dict[str, Tensor]:
    """Gradient of each part's weights in one batch, before any step."""
    x = trainer.task.batch(np.arange(8))
    noise = torch.randn(8, 49, generator=torch.Generator().manual_seed(0))
    trainer.gradient(lambda rows: trainer._surrogate(x[rows], noise[rows], beta), 8)
    return {
        name: torch.cat([p.grad.flatten().clone() for p in part.parameters()])
        for name, part in trainer.model.named_children()
        if any(True for _ in part.parameters())
    }


def test_below_the_free_bits_the_encoder_feels_no_kl_and_the_prior_learns_on(
    tmp_path: Path,
) -> None:
    silent = _gradients(_trainer(tmp_path), beta=0.0)
    paying = _gradients(_trainer(tmp_path), beta=1.0)
    free = _gradients(_trainer(tmp_path, free_bits=50.0), beta=1.0)
    over = _gradients(_trainer(tmp_path, free_bits=1e-3), beta=1.0)
    torch.testing.assert_close(free["encoder"], silent["encoder"])
    torch.testing.assert_close(over["encoder"], paying["encoder"])
    assert not torch.allclose(free["encoder"], paying["encoder"], rtol=1e-2)
    for found in (silent, free, over):
        torch.testing.assert_close(found["prior"], paying["prior"])
        torch.testing.assert_close(found["decoder"], paying["decoder"])
    assert float(free["prior"].norm()) > 0


def test_free_bits_hold_the_kl_where_a_heavy_beta_would_crush_it(tmp_path: Path) -> None:
    training = {"prior": "standard", "epochs": 6, "lr": 0.003}
    training |= {"beta_max": 30.0, "beta_schedule": "constant"}
    held = _trainer(tmp_path / "held", free_bits=0.5, **training)
    crushed = _trainer(tmp_path / "crushed", **training)
    for trainer in (held, crushed):
        trainer.run(tiny.nothing)
    kl = [t.progress.history[-1]["train/kl_divergence"] for t in (held, crushed)]
    assert kl[0] > 0.8 * 0.5 * 49
    assert kl[1] < 0.5 * kl[0]


# -- averaged weights


def test_averaged_weights_follow_at_the_pace_asked_for(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, ema=0.75)
    assert trainer.measured is not trainer.model
    expected: dict[str, Tensor] = {}
    # The first is taken as it is; then the memory grows, as (1 + n) / (10 + n), up to `ema`.
    for memory in (0.0, 2 / 11, 3 / 12, 4 / 13, *[None] * 24, 0.75):
        _step(trainer)
        if memory is None:
            expected = {n: p.detach().clone() for n, p in trainer.measured.named_parameters()}
            continue
        for name, now in trainer.model.named_parameters():
            before = expected.get(name, now).detach()
            expected[name] = memory * before + (1 - memory) * now.detach()
        if memory < 0.5:
            _same(trainer.measured, expected)
    _same(trainer.measured, expected)


def _same(model: VAE, expected: dict[str, Tensor]) -> None:
    for name, found in model.named_parameters():
        torch.testing.assert_close(found.detach(), expected[name])


def test_averaged_weights_are_what_is_validated_shown_kept_and_returned(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, ema=0.9)
    shown: list[dict[str, bytes]] = []
    model = trainer.run(lambda epoch, model, *_: shown.append(tiny.bits(model)))
    best = trainer.progress.best_epoch
    assert tiny.bits(model) == shown[best - 1]
    assert shown[-1] == tiny.bits(trainer.measured)
    last = torch.load(tmp_path / "state.pt", weights_only=True)["model"]
    assert tiny.bits(trainer.measured) != {k: v.numpy().tobytes() for k, v in last.items()}
    trainer.model.load_state_dict(last)
    assert not torch.allclose(
        trainer.model.encode(trainer.val)[0], trainer.measured.encode(trainer.val)[0]
    )
    row = trainer.progress.history[-1]
    assert trainer.validate(row["beta"])["elbo"] == row["elbo"]
    with torch.no_grad():  # and it is the averaged ones that validation hears
        for parameter in trainer.measured.parameters():
            parameter.mul_(1.5)
    assert trainer.validate(row["beta"])["elbo"] != row["elbo"]


def test_without_memory_there_is_no_second_model(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, ema=0.0)
    assert trainer.average is None
    assert trainer.measured is trainer.model


def test_the_average_has_the_sigma_that_was_observed(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, ema=0.9, likelihood="gaussian_analytic")
    before = trainer.model.likelihood.mean_square.clone()
    _step(trainer)
    _step(trainer)
    assert not torch.equal(trainer.model.likelihood.mean_square, before)
    assert torch.equal(
        trainer.measured.likelihood.mean_square, trainer.model.likelihood.mean_square
    )


# -- sigma


def test_sigma_is_observed_from_the_whole_batch_whatever_the_threads(tmp_path: Path) -> None:
    found = []
    for threads in (1, 2):
        trainer = _trainer(tmp_path, likelihood="gaussian_analytic", threads=threads)
        x = trainer.task.batch(np.arange(8))
        mean, log_var = trainer.model.encode(x)
        noise = torch.randn(8, 49, generator=torch.Generator().manual_seed(0))
        out = trainer.model.decode(mean + (0.5 * log_var).exp() * noise)
        error = (likelihoods.to_unit(x) - out).square().mean((0, 2, 3)).detach()
        _step(trainer)
        expected = math.exp(-4.0) * likelihoods.SIGMA_MEMORY + error * (
            1 - likelihoods.SIGMA_MEMORY
        )
        torch.testing.assert_close(trainer.model.likelihood.mean_square, expected)
        found.append(trainer.model.likelihood.mean_square.numpy().copy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_threads_give_the_same_bytes(tmp_path: Path, threads: int) -> None:
    training = {"likelihood": "gaussian_analytic", "threads": threads, "ema": 0.9}
    first, again = (
        _trainer(tmp_path / name, **training).run(tiny.nothing) for name in ("first", "again")
    )
    assert tiny.bits(first) == tiny.bits(again)


# -- going on after a kill


@pytest.mark.parametrize("ema", [0.0, 0.9])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_killed_run_ends_bit_for_bit_where_an_uninterrupted_one_ends(
    tmp_path: Path, ema: float, threads: int
) -> None:
    training = {"epochs": 3, "ema": ema, "threads": threads, "likelihood": "gaussian_analytic"}
    straight = _trainer(tmp_path / "straight", **training)
    expected = straight.run(tiny.nothing)
    with pytest.raises(tiny.Killed):
        _trainer(tmp_path / "killed", **training).run(tiny.kill_at(3))
    again = _trainer(tmp_path / "killed", **training)
    assert again.progress.epoch == 2
    assert tiny.bits(again.run(tiny.nothing)) == tiny.bits(expected)
    assert tiny.bits(again.measured) == tiny.bits(straight.measured)
    assert again.progress.history == straight.progress.history


@pytest.mark.parametrize(("was", "now"), [(0.0, 0.9), (0.9, 0.5)])
def test_a_state_of_another_memory_goes_on_or_is_refused_in_one_line(
    tmp_path: Path, was: float, now: float
) -> None:
    _trainer(tmp_path, epochs=1, ema=was).run(tiny.nothing)
    if was:
        assert _trainer(tmp_path, epochs=1, ema=now).progress.epoch == 1
        return
    with pytest.raises(GenlabError, match="not a state this run can go on from") as caught:
        _trainer(tmp_path, epochs=1, ema=now)
    assert "\n" not in str(caught.value)


# -- precision and compilation


def test_bfloat16_runs_on_a_cpu_and_learns(tmp_path: Path) -> None:
    trainer, plain = _trainer(tmp_path, precision="bfloat16"), _trainer(tmp_path)
    seen: list[torch.dtype] = []
    trainer.model.decoder.register_forward_hook(lambda *args: seen.append(args[2].dtype))
    losses = [_step(trainer)[0]["loss"] for _ in range(25)]
    assert set(seen) == {torch.bfloat16}
    assert losses[-1] < 0.9 * losses[0]
    assert all(p.dtype == torch.float32 for p in trainer.model.parameters())
    expected = _step(plain)[0]["loss"]
    assert losses[0] == pytest.approx(expected, rel=0.02)
    assert losses[0] != expected


def test_bfloat16_is_for_networks_alone_never_for_likelihoods(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, precision="bfloat16")
    seen: list[torch.dtype] = []

    class Watching(ImageTask):
        def nll(self, model: VAE, out: Tensor, x: Tensor) -> Tensor:
            seen.append(out.dtype)
            return super().nll(model, out, x)

    trainer.task = Watching(trainer.params, trainer.task.items, trainer.task.architecture)
    _step(trainer)
    assert seen == [torch.float32]


@pytest.mark.parametrize(
    ("precision", "half"), [("auto", False), ("float32", False), ("bfloat16", True)]
)
def test_a_cpu_computes_in_half_precision_only_where_asked(precision: str, half: bool) -> None:
    assert half_precision(precision, torch.device("cpu")) is half


def test_auto_is_half_precision_where_the_gpu_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for has in (True, False):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda has=has: has)
        assert half_precision("auto", torch.device("cuda")) is has
    assert half_precision("auto", torch.device("mps")) is False


COMPILED: dict[str, Any] = {
    "network": "mixer", "prior": "standard", "likelihood": "gaussian", "patch": 14, "latent_dim": 4
}  # fmt: skip


def _same_numbers(tmp_path: Path, threads: int) -> None:
    plain, compiled = (
        _trainer(tmp_path, compile=compile, threads=threads, **COMPILED)
        for compile in (False, True)
    )
    for _ in range(2):
        expected, found = _step(plain)[0], _step(compiled)[0]
        for name, value in expected.items():
            assert found[name] == pytest.approx(value, rel=1e-3)
    assert plain.model.state_dict().keys() == compiled.model.state_dict().keys()


def test_what_is_compiled_is_what_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All of compilation but the machine code, which takes a compiler and a minute.
    real, calls = torch.compile, []

    def quick(function: Callable[..., Any]) -> Callable[..., Any]:
        calls.append(function)
        return real(function, backend="aot_eager")  # type: ignore[no-any-return]

    monkeypatch.setattr(torch, "compile", quick)
    _same_numbers(tmp_path, threads=1)
    assert len(calls) == 2


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="compiling takes a C++ compiler")
def test_a_compiled_network_trains_to_the_same_numbers(tmp_path: Path) -> None:
    _same_numbers(tmp_path, threads=2)


# -- checkpoints and inference


@pytest.mark.parametrize("likelihood", tiny.IMAGE_LIKELIHOODS)
@pytest.mark.parametrize("shapes", [{}, {"network": "mixer", "prior": "standard"}])
def test_a_checkpoint_of_images_comes_back_bit_for_bit(
    tmp_path: Path, likelihood: str, shapes: dict[str, str]
) -> None:
    model, path = tiny.image_model(likelihood=likelihood, **shapes), tmp_path / "model.safetensors"
    save_checkpoint(path, model, {"dataset": "fashion_mnist"})
    loaded, facts = load_checkpoint(path, producer_command="dvc repro train")
    assert facts == {"dataset": "fashion_mnist"}
    assert loaded.architecture == model.architecture
    assert tiny.bits(loaded) == tiny.bits(model)
    assert np.array_equal(inference.reconstruct(loaded, VAL), inference.reconstruct(model, VAL))


@pytest.mark.parametrize(
    "change",
    [{"likelihood_components": 9}, {"likelihood": "poisson"}, {"channels": 3}, {"prior": "vamp"}],
)
def test_a_checkpoint_that_says_another_architecture_is_one_line(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    path = tmp_path / "model.safetensors"
    model = tiny.image_model()
    model.architecture = tiny.image_architecture(**change)
    save_checkpoint(path, model, {})
    with pytest.raises(GenlabError, match="another architecture") as caught:
        load_checkpoint(path, producer_command="dvc repro train")
    message = str(caught.value)
    assert str(path) in message
    assert message.endswith("make it again with: dvc repro train")
    assert "\n" not in message


@pytest.mark.parametrize("channels", [1, 3])
def test_arrays_and_tensors_are_each_others_way_back(channels: int) -> None:
    images = tiny.images(5, 0, 32, channels)
    x = to_tensor(images)
    assert x.shape == (5, channels, 32, 32)
    assert np.array_equal(x[2, channels - 1].numpy(), images[2, :, :, channels - 1])
    assert np.array_equal(to_array(x), images)
    assert to_array(x).flags.c_contiguous
    grids = tiny.grids(3)
    assert np.array_equal(to_array(to_tensor(grids)), grids)


@pytest.fixture(params=["standard", "autoregressive_mixture"])
def model(request: pytest.FixtureRequest) -> VAE:
    return tiny.image_model(prior=request.param)


def test_what_is_said_of_images_has_their_shape_and_is_decided_by_the_seed(model: VAE) -> None:
    assert inference.reconstruct(model, VAL).shape == VAL.shape
    assert inference.reconstruct(model, VAL).dtype == np.uint8
    mean, log_var = inference.encode(model, VAL)
    assert mean.shape == log_var.shape == (16, 49)
    first, again, other = (np.stack(inference.elbo_terms(model, VAL, seed)) for seed in (1, 1, 2))
    assert first.shape == (2, 16)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_halves_of_the_bound_are_reconstruction_and_kl(model: VAE) -> None:
    noise = torch.randn(16, 49, generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        elbo_terms = model.elbo_terms(to_tensor(VAL), noise)
    reconstruction, kl = inference.elbo_terms(model, VAL, seed=4)
    np.testing.assert_allclose(reconstruction, -elbo_terms.log_likelihood.numpy(), rtol=1e-5)
    np.testing.assert_allclose(kl, elbo_terms.kl.numpy(), rtol=1e-4)
    np.testing.assert_allclose(reconstruction + kl, elbo_terms.neg_elbo.numpy(), rtol=1e-5)
    if model.architecture.prior == "standard":  # closed form, from the posteriors alone
        mean, log_var = inference.encode(model, VAL)
        closed = 0.5 * (mean**2 + np.exp(log_var) - 1 - log_var).sum(1)
        np.testing.assert_allclose(kl, closed, rtol=1e-4)


def test_the_importance_weighted_bound_is_above_the_elbo_and_grows(model: VAE) -> None:
    weights = inference.log_importance_weights(model, VAL, 64, seed=0)
    assert weights.shape == (16, 64)
    means = [iwae(weights[:, :k]).mean() for k in (1, 8, 64)]
    assert means[0] < means[1] < means[2]
    elbo = -np.mean([np.sum(inference.elbo_terms(model, VAL, seed), axis=0) for seed in range(5)])
    assert means[2] > elbo


def test_sigma_of_the_batch_is_for_training_alone() -> None:
    # A bound that looked at the image's own error for its sigma would be no bound at all.
    model = tiny.image_model(likelihood="gaussian_analytic", prior="standard")
    x = to_tensor(np.stack([VAL[0], 255 - VAL[0]]))
    noise = torch.randn(2, 49, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        both, one = model.elbo_terms(x, noise), model.elbo_terms(x[:1], noise[:1])
        torch.testing.assert_close(one.log_likelihood, both.log_likelihood[:1])
        model.train()
        alone = model.elbo_terms(x[:1], noise[:1])
    assert not torch.allclose(alone.log_likelihood, one.log_likelihood, rtol=1e-3)
