"""Training learns, skips what would break it, stops in time, and goes on after a kill."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from torch import Tensor

from genlab.core.errors import GenlabError
from genlab.datasets.arc_grids import Grids
from genlab.vae.training.batches import corrupt, epoch_generator, shuffled_rows
from genlab.vae.training.tasks import make_task
from genlab.vae.training.trainer import Trainer

ARRAY = tiny.grids(150)
GRIDS = torch.from_numpy(ARRAY)


def _trainer(
    folder: Path, kind: type[Trainer] = Trainer, train: Grids = ARRAY, **training: object
) -> Trainer:
    """A trainer on the first grids, or on `train`, validated on the last 40."""
    task = tiny.task(train[:100], **training)
    return kind(tiny.params(**training), task, ARRAY[-40:], folder)


# -- it learns


def test_the_loss_falls(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, epochs=8, beta_max=0.0, corruption=0.0, prior="standard")
    trainer.run(tiny.nothing)
    losses = [row["train/reconstruction_loss"] for row in trainer.progress.history]
    assert losses[-1] < 0.5 * losses[0]


def test_four_grids_are_memorised(tmp_path: Path) -> None:
    four = GRIDS[:4]
    off = {"corruption": 0.0, "focal_gamma": 0.0, "class_balance_exponent": 0.0}
    params = tiny.params(epochs=40, beta_max=0.0, prior="standard", width=16, **off)
    task = make_task(params, "arc_grids", ARRAY[:4], tiny.CLASSES)
    model = Trainer(params, task, ARRAY[:4], tmp_path).run(tiny.nothing)
    assert torch.equal(model.reconstruct(four), four)


def test_every_epoch_logs_the_promised_names(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, epochs=2)
    rows: list[tuple[int, dict[str, float], dict[str, float]]] = []
    trainer.run(lambda epoch, model, values, timing: rows.append((epoch, values, timing)))
    assert [epoch for epoch, _, _ in rows] == [1, 2]
    names = {"loss", "reconstruction_loss", "kl_divergence", "beta_kl", "elbo", "pixel_accuracy"}
    names |= {"learning_rate", "gradient_norm", "skipped_updates", "beta", "exact_grid_accuracy"}
    names |= {f"train/{name}" for name in ("loss", "reconstruction_loss", "kl_divergence")}
    for _, values, timing in rows:
        assert names <= set(values)
        assert any(name.startswith("per_class_accuracy/") for name in values)
        assert timing["samples_per_second"] > 0
        assert values["beta_kl"] == pytest.approx(values["beta"] * values["kl_divergence"])
        assert values["elbo"] == pytest.approx(
            -values["reconstruction_loss"] - values["kl_divergence"], rel=1e-5
        )


def test_beta_rises_over_the_warm_up_to_beta_max(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, epochs=4, beta_max=0.6, beta_warmup=0.5)
    trainer.run(tiny.nothing)
    betas = [row["beta"] for row in trainer.progress.history]
    assert 0 < betas[0] < betas[1] < 0.6
    assert betas[2:] == [0.6, 0.6]


def test_during_the_delay_beta_is_0(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, epochs=4, beta_delay=0.5, beta_schedule="constant")
    trainer.run(tiny.nothing)
    assert [row["beta"] for row in trainer.progress.history] == [0.0, 0.0, 1.0, 1.0]
    assert trainer.progress.best_epoch > 2  # nothing of the delay is taken for the best


# -- the reported bound


@pytest.mark.parametrize(
    "change",
    [
        {"focal_gamma": 0.0},
        {"class_balance_exponent": 0.0},
        {"free_bits": 50.0},
        {"beta_max": 0.25},
        {"corruption": 0.0},
    ],
)
def test_beta_focal_weights_and_free_bits_never_touch_the_reported_bound(
    tmp_path: Path, change: dict[str, float]
) -> None:
    plain = _trainer(tmp_path / "plain", beta_max=0.5)
    other = _trainer(tmp_path / "other", **{"beta_max": 0.5, **change})
    assert tiny.bits(plain.model) == tiny.bits(other.model)
    before = plain.validate(plain.params.beta_max)
    after = other.validate(other.params.beta_max)
    for name in ("elbo", "reconstruction_loss", "kl_divergence", "pixel_accuracy"):
        assert before[name] == after[name]
    if change.keys() != {"corruption"}:  # which changes the grids that are shown, not the loss
        assert before["loss"] != after["loss"]


def test_the_loss_at_beta_1_is_the_negative_elbo_whatever_gamma(tmp_path: Path) -> None:
    for gamma in (0.0, 2.0):
        values = _trainer(tmp_path, beta_max=1.0, focal_gamma=gamma).validate(1.0)
        assert values["loss"] == pytest.approx(-values["elbo"], rel=1e-5)


# -- bad updates


class _Spoilt(Trainer):
    """Spoils the losses of chosen updates by a factor."""

    spoilt: frozenset[int] = frozenset()
    factor = math.nan

    def _surrogate(self, x: Tensor, noise: Tensor, beta: float) -> tuple[Tensor, dict[str, Tensor]]:
        loss, parts = super()._surrogate(x, noise, beta)
        return (loss * self.factor if self.progress.updates in self.spoilt else loss), parts


class _Nan(_Spoilt):
    spoilt = frozenset({1, 6})


class _Always(_Spoilt):
    spoilt = frozenset(range(1000))


class _Exploding(_Spoilt):
    spoilt = frozenset({70})
    factor = 1e4


def test_a_nan_update_is_skipped_and_counted(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, _Nan)
    model = trainer.run(tiny.nothing)
    assert trainer.progress.skipped_updates == 2
    assert trainer.progress.updates == 12
    assert [row["skipped_updates"] for row in trainer.progress.history] == [1, 2, 2]
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    assert all(math.isfinite(row["train/loss"]) for row in trainer.progress.history)


def test_a_skipped_update_changes_no_weight(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, _Always)
    before = tiny.bits(trainer.model)
    trainer.update(GRIDS[:16], 0.5, torch.Generator().manual_seed(0))
    assert tiny.bits(trainer.model) == before
    assert trainer.progress.skipped_updates == 1


def test_a_sound_update_changes_weights(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path)
    before = tiny.bits(trainer.model)
    trainer.update(GRIDS[:16], 0.5, torch.Generator().manual_seed(0))
    assert tiny.bits(trainer.model) != before
    assert trainer.progress.skipped_updates == 0


def test_an_exploding_gradient_is_skipped_and_counted(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, _Exploding, epochs=20, beta_max=0.0)
    trainer.run(tiny.nothing)
    assert trainer.progress.skipped_updates == 1
    skips = [row["skipped_updates"] for row in trainer.progress.history]
    assert skips[70 // 4 - 1 : 70 // 4 + 1] == [0, 1]


def test_the_gradient_of_each_group_is_clipped_to_the_greatest_norm(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, grad_clip=0.01)
    _, norm = trainer.update(GRIDS[:16], 0.5, torch.Generator().manual_seed(0))
    assert norm > 0.01  # what is logged is the norm before, of all
    norms = [
        float(torch.cat([p.grad.flatten() for p in group["params"]]).norm())
        for group in trainer.optimiser.param_groups
    ]
    assert max(norms) == pytest.approx(0.01, rel=1e-4)
    assert min(norms) <= 0.01 * (1 + 1e-4)


# -- stopping, and the best epoch


class _Scored(Trainer):
    """Validation scores as given, epoch by epoch."""

    scores = (5.0, 3.0, 4.0, 4.0, 2.0, 1.0)

    def validate(self, beta: float) -> dict[str, float]:
        values = super().validate(beta)
        return {**values, "val_objective": self.scores[self.progress.epoch]}


def test_early_stopping_stops(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, _Scored, epochs=6, patience=2)
    trainer.run(tiny.nothing)
    assert trainer.progress.epoch == 4
    assert trainer.progress.best_epoch == 2


def test_patience_that_suffices_goes_on(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, _Scored, epochs=6, patience=3)
    trainer.run(tiny.nothing)
    assert trainer.progress.epoch == trainer.progress.best_epoch == 6


def test_the_best_epochs_weights_are_returned(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, _Scored, epochs=6, patience=2)
    after: dict[int, dict[str, bytes]] = {}
    model = trainer.run(lambda epoch, model, *_: after.update({epoch: tiny.bits(model)}))
    assert tiny.bits(model) == after[2]
    assert tiny.bits(model) != after[4]
    assert not model.training


def test_a_score_that_is_not_finite_is_never_the_best(tmp_path: Path) -> None:
    class Broken(_Scored):
        scores = (5.0, math.nan, -math.inf, 4.0)

    trainer = _trainer(tmp_path, Broken, epochs=4)
    trainer.run(tiny.nothing)
    assert trainer.progress.best_epoch == 4


# -- the data


def test_no_grid_comes_twice_before_every_grid_came_once(tmp_path: Path) -> None:
    labels = torch.arange(100, dtype=torch.uint8).view(100, 1, 1).expand(100, 8, 8)
    trainer = _trainer(tmp_path)
    trainer.task.items = labels  # 64 an epoch of 100: three passes take 300 grids
    shown = [
        int(label) for epoch in range(5) for x in trainer.batches(epoch) for label in x[:, 0, 0]
    ]
    assert len(shown) == 320
    for start in range(0, 300, 100):
        assert sorted(shown[start : start + 100]) == list(range(100))
    assert shown[:100] != shown[100:200]  # each pass in its own order


def test_batches_have_the_size_asked_for(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, batch_size=24)
    assert [len(x) for x in trainer.batches(0)] == [24, 24]
    assert trainer.updates_per_epoch == 2


def test_a_pass_is_a_permutation_that_its_seed_decides() -> None:
    assert sorted(shuffled_rows(0, 50, 0, 50)) == list(range(50))
    assert np.array_equal(shuffled_rows(0, 50, 50, 50), shuffled_rows(0, 50, 50, 50))
    assert not np.array_equal(shuffled_rows(0, 50, 0, 50), shuffled_rows(0, 50, 50, 50))
    assert not np.array_equal(shuffled_rows(0, 50, 0, 50), shuffled_rows(1, 50, 0, 50))


def test_every_epoch_has_random_numbers_of_its_own() -> None:
    draws = {
        float(torch.rand(1, generator=epoch_generator(seed, epoch)))
        for seed in range(3)
        for epoch in range(3)
    }
    assert len(draws) == 9
    assert epoch_generator(1, 2).initial_seed() == epoch_generator(1, 2).initial_seed()


def test_no_corruption_is_the_identity() -> None:
    assert corrupt(GRIDS, 0.0, tiny.CLASSES, torch.Generator()) is GRIDS


def test_full_corruption_keeps_grids_grids_and_leaves_few_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    spoilt = corrupt(GRIDS, 1.0, tiny.CLASSES, generator)
    assert spoilt.shape == GRIDS.shape
    assert 0 <= int(spoilt.min()) <= int(spoilt.max()) < tiny.CLASSES
    assert float((spoilt == GRIDS).flatten(1).all(1).float().mean()) < 0.05


def test_half_corruption_leaves_half_of_the_grids_alone() -> None:
    many = GRIDS.repeat(10, 1, 1)
    spoilt = corrupt(many, 0.5, tiny.CLASSES, torch.Generator().manual_seed(0))
    untouched = (spoilt == many).flatten(1).all(1).float().mean()
    assert float(untouched) == pytest.approx(0.5, abs=0.05)


# -- going on after a kill


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("killed_in", [1, 3, 4])
def test_a_killed_run_ends_bit_for_bit_where_an_uninterrupted_one_ends(
    tmp_path: Path, killed_in: int, threads: int
) -> None:
    training = {"epochs": 4, "beta_max": 0.5, "threads": threads, "beta_delay": 0.5}
    straight = _trainer(tmp_path / "straight", **training)
    expected = straight.run(tiny.nothing)
    with pytest.raises(tiny.Killed):
        _trainer(tmp_path / "killed", **training).run(tiny.kill_at(killed_in))
    again = _trainer(tmp_path / "killed", **training)
    assert again.progress.epoch == killed_in - 1  # the last epoch that was whole on disk
    assert tiny.bits(again.run(tiny.nothing)) == tiny.bits(expected)
    assert again.progress.history == straight.progress.history
    assert again.progress.updates == straight.progress.updates


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    first = _trainer(tmp_path)
    expected = tiny.bits(first.run(tiny.nothing))
    epochs: list[int] = []
    again = _trainer(tmp_path)
    assert tiny.bits(again.run(lambda epoch, *_: epochs.append(epoch))) == expected
    assert epochs == []


def test_forgetting_removes_the_state(tmp_path: Path) -> None:
    folder = tmp_path / "making"
    trainer = _trainer(folder)
    trainer.run(tiny.nothing)
    assert (folder / "state.pt").is_file()
    trainer.remove_state()
    assert not folder.exists()


@pytest.mark.parametrize("fault", ["truncated", "foreign", "version", "shapes"])
def test_a_spoilt_state_is_one_line_with_the_cure(tmp_path: Path, fault: str) -> None:
    _trainer(tmp_path, epochs=1).run(tiny.nothing)
    file = tmp_path / "state.pt"
    training: dict[str, object] = {}
    if fault == "truncated":
        file.write_bytes(file.read_bytes()[:-200])
    elif fault == "foreign":
        file.write_text("no state at all")
    elif fault == "version":
        state = torch.load(file, weights_only=True)
        torch.save({**state, "version": 99}, file)
    else:
        training["width"] = 12
    with pytest.raises(GenlabError, match="not a state this run can go on from") as caught:
        _trainer(tmp_path, **training)
    message = str(caught.value)
    assert str(file) in message
    assert message.endswith(f"start afresh with: rm -r {tmp_path}")
    assert "\n" not in message
