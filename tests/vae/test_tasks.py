"""A task loads batches of its items, and computes their loss and accuracy."""

import math
from typing import Any

import numpy as np
import pytest
import tiny
import torch

from genlab.vae.training.tasks import GridTask, ImageTask

GRIDS = tiny.grids(40)
IMAGES = tiny.images(40, channels=3, side=32)
RGB: dict[str, Any] = {"datasets": ["cifar10"], "cifar10": {}, "latent_dim": 64}


def _rgb_task() -> Any:
    params = tiny.params(**{**tiny.IMAGE_TRAINING, **RGB})
    return tiny.make_task(params, IMAGES, 256)


def _grid_task(**training: Any) -> Any:
    return tiny.task(GRIDS, **training)


def test_the_items_shape_decides_the_task_and_the_architecture() -> None:
    grid = _grid_task()
    grey = tiny.image_task(tiny.images(4))
    rgb = _rgb_task()
    assert grid.architecture == tiny.architecture()
    assert grey.architecture == tiny.image_architecture()
    assert rgb.architecture == tiny.image_architecture(size=32, channels=3, latent_dim=64)
    assert _grid_task(causal_channels=8).architecture == grid.architecture
    assert [type(task) for task in (grid, grey, rgb)] == [GridTask, ImageTask, ImageTask]
    assert (grid.accuracy, grey.accuracy) == ("exact_grid_accuracy", "psnr")


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_with_a_causal_head_the_decoder_alone_has_the_weight_auxiliary_in_the_loss(
    weight: float,
) -> None:
    model = tiny.image_model(causal_channels=4)
    task = tiny.image_task(tiny.images(2), causal_channels=4, auxiliary=weight)
    x = task.load_batch(torch.arange(2))
    decoded = model.decode(torch.zeros(2, 49))
    alone = model.likelihood.log_prob(decoded[0], x)
    nll = -model.log_likelihood(decoded, x)
    expected = nll - weight * alone
    torch.testing.assert_close(task.compute_cost(model, decoded, x, nll), expected)


@pytest.mark.filterwarnings("error")  # torch warns of tensors over memory that is not writable
def test_a_batch_holds_its_rows_channels_first() -> None:
    IMAGES.flags.writeable = False  # as those mapped from disk
    rows = torch.tensor([7, 2, 2, 39])
    batch = _rgb_task().load_batch(rows)
    assert batch.shape == (4, 3, 32, 32)
    assert batch.dtype == torch.uint8
    assert np.array_equal(batch.numpy(), IMAGES[rows.numpy()].transpose(0, 3, 1, 2))
    assert np.array_equal(_grid_task().load_batch(rows).numpy(), GRIDS[rows.numpy()])


def test_focal_loss_and_class_weights_fade_as_beta_grows() -> None:
    assert [_grid_task(beta_max=b).fade for b in (0.0, 0.25, 1.0, 3.0)] == [1.0, 0.75, 0.0, 0.0]


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_grids_are_corrupted_at_any_beta_and_images_never(beta: float) -> None:
    x = torch.from_numpy(GRIDS)
    generator = torch.Generator().manual_seed(0)
    task = _grid_task(beta_max=beta, corruption=1.0)
    corrupted, clean = task.augment(x, generator, delayed=False, prior_alone=False)
    assert float((corrupted != x).flatten(1).any(1).float().mean()) > 0.95
    assert not clean.any()
    images = _rgb_task().load_batch(torch.arange(4))
    same, clean = _rgb_task().augment(images, generator, delayed=False, prior_alone=False)
    assert torch.equal(same, images)
    assert clean.all()


@pytest.mark.parametrize(
    ("delayed", "prior_alone", "transformed", "corrupted"),
    [(True, False, False, True), (False, False, True, True), (False, True, True, False)],
)
def test_grids_are_transformed_for_the_prior_and_corrupted_for_the_autoencoder(
    delayed: bool, prior_alone: bool, transformed: bool, corrupted: bool
) -> None:
    x = torch.from_numpy(GRIDS)
    generator = torch.Generator().manual_seed(0)
    task = _grid_task(symmetries="all", corruption=0.5)
    augmented, clean = task.augment(x, generator, delayed=delayed, prior_alone=prior_alone)
    unchanged = (augmented == x).flatten(1).all(1)
    assert bool(unchanged[clean > 0].all()) is not transformed
    assert bool(clean.all()) is not corrupted


def test_class_weights_are_those_of_the_training_grids() -> None:
    weights = _grid_task(class_balance_exponent=1.0, beta_max=0.0).weights
    counts = np.bincount(GRIDS.ravel(), minlength=10)
    assert int(weights.argmin()) == 0  # black is the commonest
    rare, common = (int(f(counts[1:])) + 1 for f in (np.argmin, np.argmax))
    assert float(weights[rare] / weights[common]) == pytest.approx(
        counts[common] / max(counts[rare], 1), rel=1e-4
    )


def test_psnr_is_the_mean_over_images_and_finite_for_an_exact_one() -> None:
    task = tiny.image_task(tiny.images(2))
    x = torch.full((2, 1, 28, 28), 100, dtype=torch.uint8)
    reconstructed = x.clone()
    reconstructed[1] += 51  # 0.2 on [0, 1]
    metrics = task.measure_accuracy(reconstructed, x)
    assert metrics["mse"] == pytest.approx(0.5 * 0.04)
    exact = 10 * math.log10(12 * 255**2)
    assert metrics["psnr"] == pytest.approx(0.5 * (exact + 10 * math.log10(1 / 0.04)), rel=1e-5)


def test_accuracies_of_grids_are_by_cell_by_grid_and_by_colour() -> None:
    task = _grid_task()
    x = torch.zeros(4, 8, 8, dtype=torch.uint8)
    x[0, 0, :2] = 3
    reconstructed = x.clone()
    reconstructed[0, 0, 0] = 1
    metrics = task.measure_accuracy(reconstructed, x)
    assert metrics["pixel_accuracy"] == pytest.approx(255 / 256)
    assert metrics["exact_grid_accuracy"] == 0.75
    assert metrics["per_class_accuracy/3"] == 0.5
    assert metrics["per_class_accuracy/0"] == 1.0
    assert "per_class_accuracy/5" not in metrics  # a colour that no grid holds
