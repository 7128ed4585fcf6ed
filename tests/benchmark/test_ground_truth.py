"""Ground-truth cases: what the builder refuses, what it writes, and the order of the controls.

No two photographs of one person from different sessions ship with the project, so the avatar is the
ideal's photograph, mirrored and darker: sound for the builder and for pictures that are not made of
the avatar.
"""

from pathlib import Path

import numpy as np
import PIL.Image
import PIL.ImageOps
import pytest
from refusals import refused

from genlab.benchmark.cases import Case, ground_truth, load_case
from genlab.benchmark.scoring.scorer import score
from genlab.benchmark.tools import controls

pytestmark = pytest.mark.slow
CASES = Path(__file__).parents[2] / "cases"
OFFICER = CASES / "officer-astronaut" / "template.jpg"
ASTRONAUT = CASES / "astronaut-officer" / "template.jpg"


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A second photograph of the officer: mirrored and darker."""
    path = tmp_path_factory.mktemp("second") / "officer.png"
    image = PIL.ImageOps.mirror(PIL.Image.open(OFFICER))
    image.point(lambda value: value * 0.8).save(path)
    return path


@pytest.fixture(scope="module")
def case(second: Path, tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp("cases") / "officer"
    warnings = ground_truth.build_ground_truth(OFFICER, second, ASTRONAUT, folder, consent=True)
    assert any("one session" in warning for warning in warnings)
    return load_case(folder)


def test_the_ideal_is_the_photograph_and_no_avatar(case: Case) -> None:
    assert case.ideal is not None
    ideal = np.asarray(PIL.Image.open(case.ideal))
    template = np.asarray(case.open_template())
    assert np.abs(ideal.astype(int) - np.asarray(PIL.Image.open(OFFICER))).mean() < 3
    assert np.abs(ideal.astype(int) - template).mean() > 3
    assert case.ideal not in case.avatars.values()
    assert list(case.avatars) == ["person"]


def test_the_reference_orders_the_ideal_half_a_swap_and_no_swap(case: Case, tmp_path: Path) -> None:
    assert case.ideal is not None
    ideal = np.asarray(PIL.Image.open(case.ideal))
    images = {
        **controls.degrade(ideal),
        "wrong_hair": controls.keep_hair(case, ideal),
        "untouched": np.asarray(case.open_template()),
    }
    scores = {}
    for name, image in images.items():
        path = tmp_path / f"{name}.png"
        PIL.Image.fromarray(image).save(path)
        scores[name] = score(case, path).score_reference or 0.0
    assert min(value for name, value in scores.items() if name.startswith("ideal")) > 0.9
    assert scores["wrong_hair"] < 0.85
    assert scores["untouched"] == 0


def test_photographs_that_do_not_fit_are_named(second: Path, tmp_path: Path) -> None:
    with refused(ASTRONAUT):
        ground_truth.build_ground_truth(
            OFFICER, ASTRONAUT, ASTRONAUT, tmp_path / "a", consent=False
        )
    with refused(second):
        ground_truth.build_ground_truth(OFFICER, second, second, tmp_path / "b", consent=False)
    sofa = CASES / "sofa-one-of-three" / "template.jpg"
    with refused(sofa, 3):
        ground_truth.build_ground_truth(OFFICER, sofa, ASTRONAUT, tmp_path / "c", consent=False)
    assert not list(tmp_path.iterdir())
