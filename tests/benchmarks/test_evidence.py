"""An audit's point is closed only by a test that passes and by results of enough trainings."""

from pathlib import Path

import pytest
from benchmarks.evidence import POINTS, Point, find_gap

KEY = "images.latent_gain"


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    (tmp_path / "test_a.py").write_text("def test_good(): pass\ndef test_bad(): assert False\n")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "gap"),
    [("test_good", ""), ("test_bad", "FAILED"), ("test_gone", "not found")],
)
def test_a_point_is_open_where_its_test_fails_or_is_gone(name: str, gap: str, tests: Path) -> None:
    reason = find_gap(Point("a claim", (f"test_a.py::{name}",)), {}, tests)
    assert gap in reason
    assert bool(reason) == (name != "test_good")


@pytest.mark.parametrize(
    ("recorded", "gap"),
    [
        ({}, "no result images.latent_gain"),
        ({KEY: {"value": 1.0, "trainings": 1}}, "of 1 trainings, not of 3"),
        ({KEY: {"value": 1.0, "trainings": 3}}, ""),
    ],
)
def test_a_point_is_open_without_its_results(
    recorded: dict[str, dict[str, float]], gap: str, tests: Path
) -> None:
    reason = find_gap(Point("a claim", ("test_a.py::test_good",), {KEY: 3}), recorded, tests)
    assert gap in reason
    assert bool(reason) == bool(gap)


@pytest.mark.parametrize(("share", "gap"), [(0.43, "misses its target"), (1.0, "")])
def test_a_point_is_open_while_a_target_that_it_names_is_missed(
    share: float, gap: str, tests: Path
) -> None:
    key = "experiments.sweeps"
    point = Point("a claim", ("test_a.py::test_good",), met=(key,))
    assert gap in find_gap(point, {key: {"value": share}}, tests)


def test_every_point_names_tests_that_exist(root: Path) -> None:
    assert [*POINTS] == [*range(1, 15)]
    for point in POINTS.values():
        assert point.tests
        for test in point.tests:
            file, _, name = test.partition("::")
            text = (root / file).read_text(encoding="utf-8")
            assert f"def {name}(" in text if name else "def test_" in text, test
