"""The explorer moves codes where it says, and decodes what the model would."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tiny

from genlab.core.errors import GenlabError
from genlab.vae.sampling.posterior import encode, reconstruct
from genlab.vae.training.checkpoint import save_checkpoint
from genlab.web import evidence
from genlab.web.explorer import Explorer, open_explorer


def explorer(project: Path, name: str) -> Explorer:
    folder = project / "data/checkpoints" / name
    items = tiny.grids(60) if name == "arc_grids" else tiny.images(60)
    return open_explorer(folder, items, folder)


@pytest.fixture
def grids(project: Path) -> Explorer:
    return explorer(project, "arc_grids")


@pytest.mark.parametrize("name", ["arc_grids", "fashion_mnist"])
def test_a_code_that_was_not_moved_decodes_to_the_reconstruction(project: Path, name: str) -> None:
    found = explorer(project, name)
    expected = reconstruct(found.model, found.items[3:4])[0]
    assert (found.decode(found.along(3, [0.0] * len(found.lengths))) == expected).all()
    assert (found.decode(found.at(3, 1, 1, [0.0] * found.place_dim)) == expected).all()


def test_a_step_is_a_standard_deviation_along_its_direction(grids: Explorer) -> None:
    moved = grids.along(0, [0.0, 2.0]) - grids.means[0]
    assert np.linalg.norm(moved) == pytest.approx(2 * grids.lengths[1])
    along = (encode(grids.model, grids.items)[0] @ grids.directions[1]).std(ddof=1)
    assert along == pytest.approx(grids.lengths[1], rel=1e-3)


def test_a_place_moves_its_own_latents_alone(grids: Explorer) -> None:
    moved = grids.at(0, 1, 2, [1.0] * grids.place_dim) - grids.means[0]
    start = (1 * grids.places + 2) * grids.place_dim
    here = np.arange(start, start + grids.place_dim)
    assert np.flatnonzero(moved).tolist() == here.tolist()
    assert moved[here] == pytest.approx(grids.spread[here])


def test_a_code_of_fewer_latents_than_patches_has_no_places(
    grids: Explorer, tmp_path: Path
) -> None:
    save_checkpoint(tmp_path / "model.safetensors", tiny.model(prior="standard", latent_dim=4), {})
    assert open_explorer(tmp_path, tiny.grids(40), tmp_path).places == 0
    assert grids.places == 4


def test_a_checkpoint_for_other_items_is_refused(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "model.safetensors", tiny.model(), {})
    with pytest.raises(GenlabError, match="28x28"):
        open_explorer(tmp_path, tiny.images(4), tmp_path)


def test_the_nearest_grid_is_the_one_with_fewest_other_cells() -> None:
    train = tiny.grids(50)
    asked = train[17].copy()
    asked[0, :2] = (asked[0, :2] + 1) % 10
    expected = min(range(50), key=lambda i: int((train[i] != asked).sum()))
    assert evidence.nearest_grid(asked, train) == (expected, int((train[expected] != asked).sum()))
    assert evidence.nearest_grid(train[17], train) == (17, 0)
