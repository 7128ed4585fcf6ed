"""Two runs are compared metric by metric, each difference against its interval."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from genlab.cli import app
from genlab.core.errors import GenlabError
from genlab.core.io import write_bytes, write_json
from genlab.evaluation.reports.compare import compare_runs, read_metrics


def write_run(folder: Path, metrics: dict[str, Any]) -> Path:
    write_json(folder / "results/arc_grids/metrics.json", metrics)
    return folder


def outcomes(tmp_path: Path, first: dict[str, Any], second: dict[str, Any]) -> dict[str, str]:
    table = compare_runs(write_run(tmp_path / "a", first), write_run(tmp_path / "b", second))
    prefix = "results/arc_grids/metrics."
    return dict(zip(table["metric"].str.removeprefix(prefix), table["outcome"], strict=True))


def test_a_difference_is_judged_by_the_ends_between_the_values(tmp_path: Path) -> None:
    def run(value: float, low: float, high: float) -> dict[str, Any]:
        return {"prior": {"x": value, "intervals": {"x": {"low": low, "high": high, "n": 9}}}}

    first = run(0.5, 0, 0.6)  # 0.1 of either side: 0.1414 of the difference
    assert outcomes(tmp_path, first, run(0.64, 0.54, 9)) == {"prior.x": "within"}
    assert outcomes(tmp_path, first, run(0.65, 0.55, 9)) == {"prior.x": "exceeds"}
    assert outcomes(tmp_path, run(0.65, 0.55, 9), first) == {"prior.x": "exceeds"}


def test_every_form_of_interval_and_every_number_is_read(tmp_path: Path) -> None:
    bounds = {"low": 0.0, "high": 2.0, "n": 9}
    content = {"curve": [1, 2], "per": {"0": 1.0}, "name": "words", "none": None}
    rate = {"v": 1.0, "bits": 8, "interval": bounds}
    write_run(tmp_path, {**content, "intervals": {"per.0": bounds}, "rate": rate})
    best = {"test": {"accuracy": 0.5, "accuracy_interval": [0.4, 0.6]}, "reached": True}
    write_json(tmp_path / "results/agent.json", best)
    tool = {"score": 0.5, "low": 0.4, "high": 0.6, "cost": 0}
    write_json(tmp_path / "results/benchmark.json", {"contenders": {"tool": tool}})
    write_json(tmp_path / "metrics/agent.json", {"passed": False, "test": 0.5})
    write_json(tmp_path / "metrics/emoji.json", {"bits_per_dim": 3.0})
    metrics = {key: (m.value, m.interval) for key, m in read_metrics(tmp_path).items()}
    grids = "results/arc_grids/metrics"
    assert metrics == {
        "results/agent.test.accuracy": (0.5, (0.4, 0.6)),
        "results/agent.reached": (1, None),
        f"{grids}.curve.0": (1, None),
        f"{grids}.curve.1": (2, None),
        f"{grids}.per.0": (1, (0, 2)),
        f"{grids}.rate.v": (1, (0, 2)),
        f"{grids}.rate.bits": (8, None),
        "results/benchmark.contenders.tool.score": (0.5, (0.4, 0.6)),
        "results/benchmark.contenders.tool.cost": (0, None),
        "metrics/agent.passed": (0, None),  # the rest is in results/agent.json
        "metrics/emoji.bits_per_dim": (3, None),
    }


def test_what_one_run_lacks_and_what_has_no_interval_is_listed(tmp_path: Path) -> None:
    by_metric = outcomes(tmp_path, {"a": 1, "b": 1}, {"b": 2, "c": 1})
    assert by_metric == {"a": "one run only", "b": "no interval", "c": "one run only"}


def test_the_command_prints_every_metric_and_a_summary(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    result = CliRunner().invoke(app, ["report", "compare", str(root), str(root)])
    assert result.exit_code == 0, result.output
    keys = compare_runs(root, root)["metric"]
    assert len(keys) > 400
    assert all(key in result.output for key in keys)
    assert result.output.endswith(f"{len(keys)} metrics; equal: {len(keys)}\n")


@pytest.mark.parametrize("content", [b"{", b'{"x": 1, "intervals": {"x": {"low": 0}}}'])
def test_a_folder_without_metrics_and_a_damaged_file_are_named(
    tmp_path: Path, content: bytes
) -> None:
    with pytest.raises(GenlabError, match="name a full run's folder"):
        read_metrics(tmp_path)
    write_bytes(tmp_path / "results/emoji/metrics.json", content)
    with pytest.raises(GenlabError, match=r"results.*make repro"):
        read_metrics(tmp_path)
