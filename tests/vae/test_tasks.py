"""A task makes batches of its items, says what they cost, and how near reconstructions come."""

import math
from typing import Any

import numpy as np
import pytest
import tiny
import torch

from genlab.vae.training.tasks import GridTask, ImageTask

GRIDS, IMAGES = tiny.grids(40), tiny.images(40, channels=3, side=32)
RGB: dict[str, Any] = {"datasets": ["cifar10"], "cifar10": {}, "latent_dim": 64}


def _rgb_task() -> Any:
    params = tiny.params(**{**tiny.IMAGE_TRAINING, **RGB})
    return tiny.make_task(params, IMAGES, 256)


def _grid_task(**training: Any) -> Any:
    return tiny.task(GRIDS, **training)


def test_the_items_shape_decides_the_task_and_the_architecture() -> None:
    grid, grey, rgb = _grid_task(), tiny.image_task(tiny.images(4)), _rgb_task()
    assert grid.architecture == tiny.architecture()
    assert grey.architecture == tiny.image_architecture()
    assert rgb.architecture == tiny.image_architecture(size=32, channels=3, latent_dim=64)
    assert _grid_task(causal_channels=8).architecture == grid.architecture
    assert [type(task) for task in (grid, grey, rgb)] == [GridTask, ImageTask, ImageTask]
    assert (grid.accuracy, grey.accuracy) == ("exact_grid_accuracy", "psnr")


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_beside_a_causal_head_the_decoder_alone_is_paid_with_the_weight_asked_for(
    weight: float,
) -> None:
    model = tiny.image_model(causal_channels=4)
    task = tiny.image_task(tiny.images(2), causal_channels=4, auxiliary=weight)
    x, decoded = task.load_batch(torch.arange(2)), model.decode(torch.zeros(2, 49))
    alone = model.likelihood.log_prob(decoded[0], x)
    nll = -model.log_likelihood(decoded, x)
    expected = nll - weight * alone
    torch.testing.assert_close(task.compute_cost(model, decoded, x, nll), expected)


@pytest.mark.filterwarnings("error")  # torch warns of tensors over memory that is not writable
def test_a_batch_holds_the_rows_asked_for_channels_first() -> None:
    IMAGES.flags.writeable = False  # as those mapped from disk
    rows = torch.tensor([7, 2, 2, 39])
    found = _rgb_task().load_batch(rows)
    assert found.shape == (4, 3, 32, 32)
    assert found.dtype == torch.uint8
    assert np.array_equal(found.numpy(), IMAGES[rows.numpy()].transpose(0, 3, 1, 2))
    assert np.array_equal(_grid_task().load_batch(rows).numpy(), GRIDS[rows.numpy()])


def test_focal_loss_and_class_weights_fade_as_beta_grows() -> None:
    assert [_grid_task(beta_max=b).fade for b in (0.0, 0.25, 1.0, 3.0)] == [1.0, 0.75, 0.0, 0.0]


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_grids_are_corrupted_at_any_beta_and_images_never(beta: float) -> None:
    x, generator = torch.from_numpy(GRIDS), torch.Generator().manual_seed(0)
    spoilt, clean = _grid_task(beta_max=beta, corruption=1.0).augment(x, generator)
    assert float((spoilt != x).flatten(1).any(1).float().mean()) > 0.95
    assert not clean.any()
    images = _rgb_task().load_batch(torch.arange(4))
    same, clean = _rgb_task().augment(images, generator)
    assert torch.equal(same, images)
    assert clean.all()


def test_class_weights_are_those_of_the_training_grids() -> None:
    weights = _grid_task(class_balance_exponent=1.0, beta_max=0.0).weights
    counts = np.bincount(GRIDS.ravel(), minlength=10)
    assert int(weights.argmin()) == 0  # black is the commonest
    rare, common = (int(f(counts[1:])) + 1 for f in (np.argmin, np.argmax))
    assert float(weights[rare] / weights[common]) == pytest.approx(
        counts[common] / max(counts[rare], 1), rel=1e-4
    )


def test_psnr_is_the_mean_of_each_images_own_and_an_exact_one_is_finite() -> None:
    task = tiny.image_task(tiny.images(2))
    x = torch.full((2, 1, 28, 28), 100, dtype=torch.uint8)
    shown = x.clone()
    shown[1] += 51  # 0.2 on [0, 1]
    found = task.measure_accuracy(shown, x)
    assert found["mse"] == pytest.approx(0.5 * 0.04)
    exact = 10 * math.log10(12 * 255**2)
    assert found["psnr"] == pytest.approx(0.5 * (exact + 10 * math.log10(1 / 0.04)), rel=1e-5)


def test_grids_are_counted_by_cell_and_whole_and_by_colour() -> None:
    task = _grid_task()
    x = torch.zeros(4, 8, 8, dtype=torch.uint8)
    x[0, 0, :2] = 3
    shown = x.clone()
    shown[0, 0, 0] = 1
    found = task.measure_accuracy(shown, x)
    assert found["pixel_accuracy"] == pytest.approx(255 / 256)
    assert found["exact_grid_accuracy"] == 0.75
    assert found["per_class_accuracy/3"] == 0.5
    assert found["per_class_accuracy/0"] == 1.0
    assert "per_class_accuracy/5" not in found  # which no grid holds
