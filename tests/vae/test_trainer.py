"""Training learns, skips what would break it, stops in time, and resumes after a kill."""

import math
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import tiny
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from genlab.core.errors import GenlabError
from genlab.distributions.likelihoods import SIGMA_MEMORY, to_unit
from genlab.vae.sampling.posterior import reconstruct
from genlab.vae.training.trainer import Trainer

GRIDS = tiny.grids(150)
IMAGES = tiny.images(64)
VAL = tiny.images(16, seed=1)
KINDS = ["grids", "images"]
LOGGED = {"loss", "reconstruction_loss", "kl_divergence", "beta_kl", "kl_loss", "elbo", "beta"}
LOGGED |= {"learning_rate", "gradient_norm", "skipped_updates", "val_objective"}
LOGGED |= {f"train/{name}" for name in ("loss", "reconstruction_cost", "kl_divergence")}


def _trainer(
    folder: Path, on: str = "grids", kind: type[Trainer] = Trainer, **training: Any
) -> Trainer:
    if on == "images":
        task = tiny.image_task(IMAGES, **training)
        return kind(tiny.image_params(**training), task, VAL, folder)
    return kind(tiny.params(**training), tiny.task(GRIDS[:100], **training), GRIDS[-40:], folder)


def _step(trainer: Trainer, beta: float = 1.0) -> dict[str, float]:
    x = trainer.task.load_batch(torch.arange(trainer.params.batch_size))
    logged = trainer.step(x, beta, torch.Generator().manual_seed(0))
    return {name: float(value) for name, value in logged.items()}


# -- it learns


class _Reads(TorchDispatchMode):
    """Count the numbers that are read from tensors, each of which makes Python wait for a GPU."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **kwargs or {})


def test_an_update_of_images_waits_for_no_number(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, "images")
    with _Reads() as reads:
        trainer.step(
            trainer.task.load_batch(torch.arange(4)), 1.0, torch.Generator().manual_seed(0)
        )
        assert reads.count == 0
        torch.ones(()).item()
        assert reads.count == 1  # it can count


@pytest.mark.parametrize("on", KINDS)
def test_the_loss_falls_and_every_epoch_logs_the_promised_names(tmp_path: Path, on: str) -> None:
    trainer = _trainer(tmp_path, on, epochs=4, beta_max=0.5, corruption=0.0)
    rows: list[tuple[int, dict[str, float], dict[str, float]]] = []
    trainer.run(lambda epoch, model, values, timing: rows.append((epoch, values, timing)))
    assert [epoch for epoch, _, _ in rows] == [1, 2, 3, 4]
    names = LOGGED | ({"pixel_accuracy", "exact_grid_accuracy"} if on == "grids" else {"psnr"})
    for _, values, timing in rows:
        assert names <= set(values)
        assert any(name.startswith("per_class_accuracy/") for name in values) == (on == "grids")
        assert timing["samples_per_second"] > 0
        assert values["beta_kl"] == pytest.approx(values["beta"] * values["kl_divergence"])
        elbo = -values["reconstruction_loss"] - values["kl_divergence"]
        assert values["elbo"] == pytest.approx(elbo, rel=1e-5)
    losses = [values["train/reconstruction_cost"] for _, values, _ in rows]
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize(
    ("on", "training", "costs"),
    [
        ("grids", {"beta_max": 1.0}, ["reconstruction_loss"]),
        ("grids", {"beta_max": 0.25, "free_bits": 2.0}, ["focal_loss"]),
        ("images", {"free_bits": 9.0}, ["reconstruction_loss"]),
        ("images", {"causal_channels": 4}, ["reconstruction_loss", "auxiliary_loss"]),
    ],
)
def test_the_logged_terms_add_up_to_the_logged_loss(
    tmp_path: Path, on: str, training: dict[str, float], costs: list[str]
) -> None:
    trainer = _trainer(tmp_path, on, epochs=3, beta_delay=0.34, prior_share=0.34, **training)
    trainer.run(tiny.nothing)
    free_nats = trainer.params.free_bits * trainer.params.latent_dim
    for row in trainer.progress.history:
        assert row["loss"] == pytest.approx(sum(row[name] for name in (*costs, "kl_loss")))
        assert {"auxiliary_loss", "focal_loss"} & row.keys() == {*costs} - {"reconstruction_loss"}
        assert row["kl_loss"] >= row["beta"] * free_nats * (1 - 1e-6)
        assert row["kl_loss"] >= row["beta_kl"] * (1 - 1e-6)
    assert trainer.progress.history[0]["kl_loss"] == 0  # of the delay


def test_four_grids_are_memorised(tmp_path: Path) -> None:
    off = {"corruption": 0.0, "focal_gamma": 0.0, "class_balance_exponent": 0.0}
    params = tiny.params(epochs=40, beta_max=0.0, prior="standard", width=16, **off)
    task = tiny.make_task(params, GRIDS[:4], tiny.CLASSES)
    model = Trainer(params, task, GRIDS[:4], tmp_path).run(tiny.nothing)
    assert np.array_equal(reconstruct(model, GRIDS[:4]), GRIDS[:4])


@pytest.mark.parametrize("prior", ["standard", "autoregressive", "autoregressive_mixture"])
@pytest.mark.parametrize("likelihood", tiny.IMAGE_LIKELIHOODS)
def test_every_likelihood_trains_under_every_prior(
    tmp_path: Path, likelihood: str, prior: str
) -> None:
    trainer = _trainer(tmp_path, "images", likelihood=likelihood, prior=prior)
    before = tiny.bits(trainer.model)
    logged = _step(trainer)
    assert all(math.isfinite(value) for value in logged.values())
    assert logged["gradient_norm"] > 0
    assert logged["skipped"] == 0
    after = tiny.bits(trainer.model)
    changed = {name for name in after if after[name] != before[name]}
    # Where a layer starts at zero, the one before it has no gradient yet.
    assert {"encoder.head.weight", "encoder.head.bias"} <= changed
    assert any(name.startswith("decoder.") for name in changed)
    assert any(name.startswith("prior.") for name in changed) == (prior != "standard")


def test_beta_waits_for_the_delay_and_rises_to_beta_max(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path / "rise", epochs=4, beta_max=0.6, beta_warmup=0.5)
    trainer.run(tiny.nothing)
    betas = [row["beta"] for row in trainer.progress.history]
    assert 0 < betas[0] < betas[1] < 0.6
    assert betas[2:] == [0.6, 0.6]
    trainer = _trainer(tmp_path / "delay", epochs=4, beta_delay=0.5, beta_schedule="constant")
    trainer.run(tiny.nothing)
    assert [row["beta"] for row in trainer.progress.history] == [0.0, 0.0, 1.0, 1.0]
    assert trainer.progress.best_epoch > 2  # the best epoch is none of the delay


# -- the reported bound


@pytest.mark.parametrize(
    ("on", "change"),
    [
        *(("grids", {name: 0.0}) for name in ("focal_gamma", "class_balance_exponent")),
        *((on, change) for on in KINDS for change in ({"free_bits": 50.0}, {"beta_max": 0.25})),
        *(("images", change) for change in ({"ema": 0.9}, {"grad_clip": 0.1})),
    ],
)
def test_stability_measures_never_touch_the_reported_bound(
    tmp_path: Path, on: str, change: dict[str, float]
) -> None:
    plain = _trainer(tmp_path / "plain", on, beta_max=0.5)
    changed = _trainer(tmp_path / "changed", on, **{"beta_max": 0.5, **change})
    assert tiny.bits(plain.model) == tiny.bits(changed.model)
    expected = plain.validate(plain.params.beta_max)
    values = changed.validate(changed.params.beta_max)
    for name in ("elbo", "reconstruction_loss", "kl_divergence", plain.task.accuracy):
        assert values[name] == expected[name]
    if not change.keys() & {"ema", "grad_clip"}:
        assert values["loss"] != expected["loss"]


@pytest.mark.parametrize("free", [0.0, 50.0])
def test_the_best_epoch_is_chosen_by_the_loss_with_free_bits(tmp_path: Path, free: float) -> None:
    values = _trainer(tmp_path, "images", free_bits=free, beta_max=0.5).validate(0.5)
    counted_kl = max(values["kl_divergence"], free * 49)
    expected = 0.5 * counted_kl + values["reconstruction_loss"]
    assert values["val_objective"] == pytest.approx(expected, rel=1e-6)


def test_micro_batches_take_the_same_step_as_the_batch(tmp_path: Path) -> None:
    steps = []
    sizes = list[int]()
    for count in (1, 4):
        trainer = _trainer(tmp_path / str(count), micro_batches=count, corruption=0.0)
        trainer.step.autoencode = Mock(wraps=trainer.step.autoencode)
        steps.append(_step(trainer))
        sizes += [len(call.args[0]) for call in trainer.step.autoencode.call_args_list]
    assert sizes == [16, 4, 4, 4, 4]
    assert steps[0] == pytest.approx(steps[1], rel=1e-4)


# -- bad updates


def test_a_nan_update_is_skipped_and_counted(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path)
    original = trainer.step.autoencode

    def autoencode(*arguments: Any) -> Any:
        *rest, cost = original(*arguments)
        return *rest, cost * math.nan if trainer.step.count in (1, 6) else cost

    trainer.step.autoencode = autoencode
    _step(trainer)
    before = tiny.bits(trainer.model)
    assert _step(trainer)["skipped"] == 1
    assert tiny.bits(trainer.model) == before
    trainer.step.count = 0
    model = trainer.run(tiny.nothing)
    assert trainer.progress.updates == 12
    assert [row["skipped_updates"] for row in trainer.progress.history] == [1, 2, 2]
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    assert all(math.isfinite(row["train/loss"]) for row in trainer.progress.history)


def test_the_gradient_of_each_group_is_clipped_to_the_greatest_norm(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, grad_clip=0.01)
    assert (
        _step(trainer, 0.5)["gradient_norm"] > 0.01
    )  # the logged norm is that of all gradients before clipping
    norms = [
        float(torch.cat([p.grad.flatten() for p in group["params"]]).norm())
        for group in trainer.step.optimizer.param_groups
    ]
    assert max(norms) == pytest.approx(0.01, rel=1e-4)


@pytest.mark.parametrize("on", KINDS)
def test_the_prior_is_trained_alone_for_the_encoder_that_is_kept(tmp_path: Path, on: str) -> None:
    trainer = _trainer(tmp_path, on, epochs=4, prior_share=0.5, ema=0.5)
    epochs: list[dict[str, bytes]] = []
    trainer.run(lambda epoch, model, *_: epochs.append(tiny.bits(model)))
    joint = epochs[1]
    alone = epochs[3]
    changed = {name.split(".")[0] for name in alone if alone[name] != joint[name]}
    assert changed == {"prior"}
    losses = [row["train/reconstruction_cost"] for row in trainer.progress.history]
    assert [math.isnan(loss) for loss in losses] == [False, False, True, True]


def test_low_precision_changes_the_matrix_products_alone(tmp_path: Path) -> None:
    plain = _trainer(tmp_path / "plain", "images")
    low = _trainer(tmp_path / "low", "images", precision="bfloat16")
    losses = [_step(trainer)["loss"] for trainer in (plain, low)]
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.02)


# -- stopping, and the best epoch


class _Scored(Trainer):
    """Validation scores as given, epoch by epoch."""

    scores = (5.0, 3.0, 4.0, 4.0, 2.0, 1.0)

    def validate(self, beta: float) -> dict[str, float]:
        return {**super().validate(beta), "val_objective": self.scores[self.progress.epoch]}


class _Broken(_Scored):
    scores = (5.0, math.nan, -math.inf, 4.0, 6.0, 6.0)


@pytest.mark.parametrize("changes", [{"free_bits": 50.0}, {"beta_max": 0.0}])
def test_the_prior_that_is_trained_alone_is_kept_where_the_objective_is_blind_to_it(
    tmp_path: Path, changes: dict[str, float]
) -> None:
    trainer = _trainer(tmp_path, "images", epochs=6, prior_share=0.5, **changes)
    trainer.run(tiny.nothing)
    alone = trainer.progress.history[3:]
    assert len({row["val_objective"] for row in alone}) == 1
    divergences = [row["kl_divergence"] for row in alone]
    assert trainer.progress.best_epoch == 4 + divergences.index(min(divergences)) > 4


@pytest.mark.parametrize(
    ("kind", "patience", "epochs", "best", "ema"),
    [(_Scored, 2, 4, 2, 0.0), (_Scored, 3, 6, 6, 0.9), (_Broken, 4, 6, 4, 0.0)],
)
def test_training_stops_early_and_returns_the_best_epochs_weights(
    tmp_path: Path, kind: type[Trainer], patience: int, epochs: int, best: int, ema: float
) -> None:
    trainer = _trainer(tmp_path, kind=kind, epochs=6, patience=patience, ema=ema)
    after: dict[int, dict[str, bytes]] = {}
    model = trainer.run(lambda epoch, model, *_: after.update({epoch: tiny.bits(model)}))
    assert (trainer.progress.epoch, trainer.progress.best_epoch) == (epochs, best)
    assert tiny.bits(model) == after[best]
    assert len({tuple(bits.items()) for bits in after.values()}) == epochs
    assert not model.training
    # With `ema`, the averaged weights are reported and saved, not those that are trained.
    trained = torch.load(tmp_path / "state.pt", weights_only=True)["model"]
    last = {name: value.numpy().tobytes() for name, value in trained.items()}
    assert (after[epochs] == last) == (ema == 0)


# -- averaged weights and sigma


def test_averaged_weights_follow_at_the_pace_asked_for(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, "images", ema=0.75)
    expected: dict[str, Tensor] = {}
    # The first is taken as it is; then the memory grows, as (1 + n) / (10 + n), up to `ema`.
    for memory in (0.0, 2 / 11, 3 / 12, *[None] * 25, 0.75):
        _step(trainer)
        if memory is None:
            expected = {n: p.detach().clone() for n, p in trainer.eval_model.named_parameters()}
            continue
        for name, now in trainer.model.named_parameters():
            before = expected.get(name, now).detach()
            expected[name] = memory * before + (1 - memory) * now.detach()
        for name, averaged in trainer.eval_model.named_parameters():
            torch.testing.assert_close(averaged.detach(), expected[name])


@pytest.mark.parametrize("threads", [1, 2])
def test_sigma_is_observed_from_the_whole_batch_and_averaged_weights_have_it(
    tmp_path: Path, threads: int
) -> None:
    training = {"likelihood": "gaussian_analytic", "threads": threads, "ema": 0.9}
    trainer = _trainer(tmp_path, "images", **training)
    x = trainer.task.load_batch(torch.arange(8))
    mean, log_var = trainer.model.encode(x)
    noise = torch.randn(8, 49, generator=torch.Generator().manual_seed(0))
    out, _ = trainer.model.decode(mean + (0.5 * log_var).exp() * noise)
    error = (to_unit(x) - out).square().mean((0, 2, 3)).detach()
    _step(trainer)
    expected = math.exp(-4.0) * SIGMA_MEMORY + error * (1 - SIGMA_MEMORY)
    torch.testing.assert_close(trainer.model.likelihood.mean_square, expected)
    torch.testing.assert_close(trainer.eval_model.likelihood.mean_square, expected)


# -- resuming after a kill

RESUMED: dict[str, dict[str, Any]] = {
    "grids": {"beta_max": 0.5, "beta_delay": 0.25, "prior_share": 0.5, "amsgrad": True},
    "images": {"ema": 0.9, "likelihood": "gaussian_analytic", "prior_share": 0.5},
}


@pytest.mark.slow
@pytest.mark.parametrize("on", KINDS)
@pytest.mark.parametrize(("threads", "killed_in"), [(1, 1), (2, 3), (1, 4)])
def test_a_killed_run_ends_bit_for_bit_where_an_uninterrupted_one_ends(
    tmp_path: Path, on: str, killed_in: int, threads: int
) -> None:
    training = {"epochs": 4, "threads": threads, **RESUMED[on]}
    straight = _trainer(tmp_path / "straight", on, **training)
    expected = straight.run(tiny.nothing)
    with pytest.raises(tiny.Killed):
        _trainer(tmp_path / "killed", on, **training).run(tiny.kill_at(killed_in))
    resumed = _trainer(tmp_path / "killed", on, **training)
    assert resumed.progress.epoch == killed_in - 1  # the last epoch that was whole on disk
    assert tiny.bits(resumed.run(tiny.nothing)) == tiny.bits(expected)
    assert tiny.bits(resumed.eval_model) == tiny.bits(straight.eval_model)
    # As text: the reconstruction loss is NaN while the prior alone is trained.
    assert repr(resumed.progress.history) == repr(straight.progress.history)
    assert resumed.progress.updates == straight.progress.updates
    finished = _trainer(tmp_path / "killed", on, **training)
    assert tiny.bits(finished.run(tiny.kill_at(4))) == tiny.bits(expected)  # no epoch once more


@pytest.mark.parametrize("fault", ["truncated", "version", "shapes", "ema"])
def test_a_spoilt_state_is_one_line_with_the_fix(tmp_path: Path, fault: str) -> None:
    _trainer(tmp_path, epochs=1).run(tiny.nothing)
    file = tmp_path / "state.pt"
    training: dict[str, object] = {}
    if fault == "truncated":
        file.write_bytes(file.read_bytes()[:-200])
    elif fault == "version":
        state = torch.load(file, weights_only=True)
        torch.save({**state, "version": 99}, file)
    else:
        training = {"shapes": {"width": 12}, "ema": {"ema": 0.9}}[fault]
    with pytest.raises(GenlabError) as caught:
        _trainer(tmp_path, **training)
    message = str(caught.value)
    assert str(file) in message
    assert message.endswith(f"rm -r {tmp_path}")
    assert "\n" not in message
