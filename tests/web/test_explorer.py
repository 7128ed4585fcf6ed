"""The explorer moves codes as it says, and decodes as the model does."""

from pathlib import Path

import numpy as np
import pytest
import tiny
from refusals import refused

from genlab.vae.sampling.posterior import encode, reconstruct
from genlab.vae.training.checkpoint import save_checkpoint
from genlab.web import items
from genlab.web.explorer import Explorer, open_explorer


def explorer(project: Path, name: str) -> Explorer:
    checkpoint = project / "data/checkpoints" / name / "model.safetensors"
    return open_explorer(checkpoint, project / "data" / name)


@pytest.fixture
def grids(project: Path) -> Explorer:
    return explorer(project, "arc_grids")


@pytest.mark.parametrize("name", ["arc_grids", "fashion_mnist"])
def test_a_code_that_was_not_moved_decodes_to_the_reconstruction(project: Path, name: str) -> None:
    opened = explorer(project, name)
    expected = reconstruct(opened.model, opened.items[3:4])[0]
    for directions in (opened.directions, opened.axes_at(1, 1)):
        code = opened.means[3] + np.zeros(len(directions)) @ directions
        assert (opened.decode(code) == expected).all()


def test_a_step_is_a_standard_deviation_along_its_direction(grids: Explorer) -> None:
    length = np.linalg.norm(grids.directions[1])
    along = (encode(grids.model, grids.items)[0] @ (grids.directions[1] / length)).std(ddof=1)
    assert along == pytest.approx(length, rel=1e-3)


def test_a_place_moves_its_own_latents_alone(grids: Explorer) -> None:
    assert grids.side == 4
    moved = np.ones(grids.place_dim) @ grids.axes_at(1, 2)
    start = (1 * grids.side + 2) * grids.place_dim
    latents = np.arange(start, start + grids.place_dim)
    assert np.flatnonzero(moved).tolist() == latents.tolist()
    assert moved[latents] == pytest.approx(grids.means.std(axis=0)[latents])


def test_fewer_latents_than_patches_have_no_places(project: Path, tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    save_checkpoint(file, tiny.model(prior="standard", latent_dim=4), {})
    assert open_explorer(file, project / "data/arc_grids").side == 0


def test_a_checkpoint_for_other_items_is_refused(project: Path, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "model.safetensors", tiny.model(), {})
    with refused("28x28"):
        open_explorer(tmp_path / "model.safetensors", project / "data/fashion_mnist")


def test_the_nearest_grid_is_the_one_with_fewest_other_cells() -> None:
    train = tiny.grids(50)
    changed = train[17].copy()
    changed[0, :2] = (changed[0, :2] + 1) % 10
    differences = [int((grid != changed).sum()) for grid in train]
    nearest = differences.index(min(differences))
    assert items.find_nearest_grid(changed, train) == (nearest, differences[nearest])
    assert items.find_nearest_grid(train[17], train) == (17, 0)
