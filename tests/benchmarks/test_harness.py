"""The harness computes intervals, records results and composes the command that repeats them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from benchmarks.harness import Result
from clones import run_in
from refusals import refused
from typer.testing import CliRunner

from benchmarks import ci, harness
from genlab.core.errors import GenlabError
from genlab.core.io import write_text
from genlab.evaluation.reports.targets import Target, judge_target, read_targets


def test_a_rate_has_wilsons_interval_and_a_mean_students_where_values_differ() -> None:
    rate = Result.rate("k", 8, 10)
    assert (rate.value, rate.n) == (0.8, 10)
    assert rate.interval == pytest.approx((0.4902, 0.9433), abs=1e-3)
    mean = Result.mean("k", [1.0, 2.0, 3.0])
    assert mean.value == 2.0
    assert mean.interval == pytest.approx((2 - 2.484, 2 + 2.484), abs=1e-3)
    assert Result.mean("k", [1.0]).interval is None
    assert Result.mean("k", [1.0, 1.0]).interval is None


def test_a_share_of_a_list_that_we_wrote_has_no_interval() -> None:
    share = Result.share("k", 12, 12)
    assert (share.value, share.n, share.interval) == (1.0, 12, None)
    assert share.describe(None) == "k = 1, n = 12"


def test_a_difference_of_rates_has_newcombes_interval_also_where_all_runs_agree() -> None:
    difference = Result.rate_difference("k", (56, 70), (48, 80))  # his paper's first example
    assert difference.value == pytest.approx(0.2)
    assert difference.interval == pytest.approx((0.0524, 0.3339), abs=1e-4)
    difference = Result.rate_difference("k", (10, 10), (0, 10))
    assert difference.interval == pytest.approx((0.6076, 1.0), abs=1e-3)


def test_the_interval_of_a_median_covers_as_often_as_it_claims() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        median = Result.median("k", rng.normal(0, 1, 21).tolist(), seed=1)
        assert median.interval is not None
        low, high = median.interval
        covered += low <= 0 <= high
    assert 0.88 < covered / 200 < 0.99
    assert Result.median("k", [1.0, 2.0]).interval is None


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register a benchmark `sample` for one test."""
    monkeypatch.setattr(harness, "REGISTRY", {})
    monkeypatch.setattr(harness.app, "registered_commands", [])

    @harness.benchmark("grids.seed_sd")
    def sample(scale: float = 1.0, repeats: int = 3) -> Iterator[Result]:
        """Yield one result."""
        yield Result("grids.seed_sd", scale, (0.0, scale), repeats)


@pytest.mark.usefixtures("registered")
def test_a_result_is_recorded_with_the_command_that_repeats_it(tmp_path: Path) -> None:
    path = tmp_path / "benchmarks.json"
    command = ["--output", str(path), "sample", "--scale", "2.5"]
    assert CliRunner().invoke(harness.app, ["--no-keep", *command]).exit_code == 0
    assert not path.exists()
    harness.record(Result("other", 1.0), "c", path)
    done = CliRunner().invoke(harness.app, command)
    assert done.exit_code == 0, done.output
    assert "grids.seed_sd = 2.5, (0 to 2.5), n = 3" in done.output
    recorded = json.loads(path.read_text())
    assert list(recorded) == ["grids.seed_sd", "other"]
    assert recorded["grids.seed_sd"] == {
        "value": 2.5,
        "interval": [0.0, 2.5],
        "n": 3,
        "seeds": [0],
        "command": "python benchmarks/run.py sample --scale 2.5",
    }


def test_a_results_file_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "benchmarks.json"
    path.write_text("[1]")
    with pytest.raises(GenlabError):
        harness.record(Result("k", 1.0), "c", path)
    assert path.read_text() == "[1]"


@pytest.mark.parametrize(
    ("direction", "value", "outcome"),
    [
        ("maximize", 0.96, "stretch target met"), ("maximize", 0.9, "met"),
        ("maximize", 0.8, "missed"), ("minimize", 0.8, "met"), ("maximize", None, "not measured"),
    ],
)  # fmt: skip
def test_a_target_is_met_in_its_direction(
    direction: Literal["maximize", "minimize"], value: float | None, outcome: str
) -> None:
    stretch = 0.95 if direction == "maximize" else 0.75
    target = Target(description="d", direction=direction, target=0.85, stretch_target=stretch)
    assert target.outcome(value) == outcome
    assert target.met(value) is (None if value is None else outcome != "missed")


@pytest.mark.parametrize(
    ("interval", "outcome"),
    [
        (None, "stretch target met"),
        ([0.955, 0.965], "stretch target met"),
        ([0.94, 0.98], "met"),
        ([0.8, 1.0], "undecided"),
    ],
)
def test_an_interval_that_contains_a_target_leaves_it_open(
    interval: list[float] | None, outcome: str
) -> None:
    target = Target(description="d", direction="maximize", target=0.85, stretch_target=0.95)
    assert target.outcome(0.96, interval) == outcome
    over_items = {"value": 0.96, "interval": [0.8, 1.0], "trainings": 1}
    assert judge_target(target, over_items) == "stretch target met"
    over_persons = target.model_copy(update={"interval_decides": True})
    assert judge_target(over_persons, over_items) == "undecided"


@pytest.mark.parametrize("status", [0, 1])
def test_ci_is_timed_in_a_clone_and_only_where_it_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    origin = tmp_path / "origin"
    script = origin / ".ci" / "run"
    write_text(script, f"#!/bin/sh\ntest -f $PWD/.ci/run && test -z $PYTHONPATH && exit {status}\n")
    script.chmod(0o755)
    for line in (["init", "-q"], ["add", "."], ["commit", "-qm", "First"]):
        run_in(origin, "git", *line)
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    monkeypatch.setattr(ci, "ROOT", origin)
    if status:
        with refused("1"):
            list(ci.ci())
    else:
        [result] = ci.ci()
        assert 0 < result.value < 1


def test_every_benchmark_has_described_keys_and_every_target_a_benchmark(root: Path) -> None:
    harness.load_benchmarks()
    assert {key for keys in harness.REGISTRY.values() for key in keys} == set(read_targets(root))


def test_a_target_of_one_image_dataset_is_of_no_other(root: Path) -> None:
    assert "images.emoji_bpd" in read_targets(root, "emoji")
    assert "images.emoji_bpd" not in read_targets(root, "fashion_mnist")
