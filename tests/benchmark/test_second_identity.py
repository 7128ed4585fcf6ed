"""The second identity model: beside the score where there is one, one clear word where not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import pytest
from typer.testing import CliRunner

from genlab.benchmark import second_identity
from genlab.benchmark.__main__ import app
from genlab.benchmark.cases import Case, load_case
from genlab.benchmark.scorer import Score, score
from genlab.core.errors import GenlabError
from genlab.core.io import sha256

pytestmark = pytest.mark.slow

CASES = Path(__file__).parents[2] / "cases"


class Averaging:
    """In place of SFace, whose file no package carries: the means of a face's squares."""

    def alignCrop(self, image: Any, row: Any) -> Any:  # noqa: N802 (as OpenCV names it)
        left, top, width, height = row[0, :4].astype(int)
        return cv2.resize(image[top : top + height, left : left + width], (14, 14))

    def feature(self, cut: Any) -> Any:
        return cut.reshape(1, -1)


@pytest.fixture(scope="module")
def case() -> Case:
    return load_case(CASES / "astronaut-officer")


def scored(case: Case, image: Path) -> Score:
    return score(case.template, case.avatars, [swap.model_dump() for swap in case.swaps], image)


def test_what_it_says_stands_beside_the_score_and_changes_nothing_of_it(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "averaging.onnx"
    model.write_bytes(b"not read here")
    monkeypatch.setenv(second_identity.VARIABLE, str(model))
    monkeypatch.setattr(second_identity, "_model", lambda path: Averaging())
    got = scored(case, case.template)
    monkeypatch.delenv(second_identity.VARIABLE)
    plain = scored(case, case.template)
    assert (got.total, got.components) == (plain.total, plain.components)

    second = got.persons[0]["parts"].pop("second_distance_to_avatar")
    assert got.persons[0]["parts"] == plain.persons[0]["parts"]
    assert 0 < second < second_identity.SAME  # it takes any picture of a face for the same
    [note] = [note for note in got.notes if note not in plain.notes]
    assert "second identity model takes it for the same person" in note
    assert got.versions["second_identity"] == f"averaging.onnx {sha256(model)}"
    assert plain.versions["second_identity"] == "none"


def test_absence_is_one_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(second_identity.VARIABLE, raising=False)
    assert second_identity.version() == "none"
    assert "second identity model: none;" in CliRunner().invoke(app, ["tools"]).output


@pytest.mark.parametrize("fault", ["missing", "words", "a folder"])
def test_a_wrong_file_is_one_line_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    path = tmp_path / "model.onnx"
    if fault == "a folder":
        path.mkdir()
    elif fault != "missing":
        path.write_bytes(b"not a model")
    monkeypatch.setenv(second_identity.VARIABLE, str(path))
    with pytest.raises(GenlabError) as error:
        second_identity.version()
    assert str(error.value).startswith(f"{second_identity.VARIABLE}={path}: ")
    assert "\n" not in str(error.value)
    assert second_identity.state() == str(error.value)
