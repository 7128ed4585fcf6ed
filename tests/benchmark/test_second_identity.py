"""The second identity model: beside the score where there is one, one clear word where not.

SFace's own file comes with no package. What stands in for it here is a true ONNX file of the same
shape (an image of 112 × 112 in, numbers out) that averages pixels: it tells pictures apart, not
persons, and so disagrees with the first model where a test wants that.
"""

from __future__ import annotations

from pathlib import Path

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


def field(number: int, value: int | bytes | str) -> bytes:
    """A field of a protocol buffer."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    low, rest = value & 127, value >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])


def tensor(name: str, *shape: int) -> bytes:
    dims = b"".join(field(1, field(1, size)) for size in shape)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))


def averaging() -> bytes:
    """A model of two layers: means of squares of 8 pixels a side, as one row."""
    square = field(8, 8) + field(8, 8) + field(20, 7)
    pool = field(1, "data") + field(2, "means") + field(4, "AveragePool")
    pool += field(5, field(1, "kernel_shape") + square) + field(5, field(1, "strides") + square)
    flat = field(1, "means") + field(2, "fc1") + field(4, "Flatten")
    graph = field(1, pool) + field(1, flat) + field(2, "averaging")
    graph += field(11, tensor("data", 1, 3, 112, 112)) + field(12, tensor("fc1", 1, 588))
    return field(1, 8) + field(8, field(1, "") + field(2, 13)) + field(7, graph)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "averaging.onnx"
    path.write_bytes(averaging())
    monkeypatch.setenv(second_identity.VARIABLE, str(path))
    return path


@pytest.fixture(scope="module")
def case() -> Case:
    return load_case(CASES / "astronaut-officer")


def scored(case: Case, image: Path) -> Score:
    return score(case.template, case.avatars, [swap.model_dump() for swap in case.swaps], image)


def test_what_it_says_stands_beside_the_score_and_changes_nothing_of_it(
    case: Case, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.parametrize("fault", ["missing", "words", "cut short", "a folder"])
def test_a_wrong_file_is_one_line_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    path = tmp_path / "model.onnx"
    if fault == "a folder":
        path.mkdir()
    elif fault != "missing":
        path.write_bytes(b"not a model" if fault == "words" else averaging()[:-30])
    monkeypatch.setenv(second_identity.VARIABLE, str(path))
    with pytest.raises(GenlabError) as error:
        second_identity.version()
    assert str(error.value).startswith(f"{second_identity.VARIABLE}={path}: ")
    assert "\n" not in str(error.value)
    assert second_identity.state() == str(error.value)
