"""Results of sweeps: the lowest of their seeds, and none if the code changed in between."""

import json
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from benchmarks import pipeline
from genlab.core.params import digest_values, load_params
from genlab.evaluation.reports import context


def make_runs(sweep: str, entry: str, column: str, values: list[object]) -> pd.DataFrame:
    """Runs of one experiment, one per value, as `read_results` returns them."""
    rows = [
        {
            "entry": entry, "sweep": [sweep], "seed": seed, column: value,
            "fingerprint.code": "1", "fingerprint.evaluation": "2",
        }
        for seed, value in enumerate(values)
    ]  # fmt: skip
    return pd.DataFrame(rows, index=[f"{entry}-seed{seed}" for seed in range(len(values))])


def test_capacity_is_that_of_the_least_accurate_seed() -> None:
    column = "metrics.exact_grid_accuracy"
    runs = [
        make_runs("capacity", "capacity-128", column, [0.97, 0.96, 0.99]),
        make_runs("capacity", "capacity-64", column, [0.2, 0.5, 0.4]),
    ]
    results = {result.key: result for result in pipeline.grid_sweeps(pd.concat(runs))}
    assert set(results) == {"grids.capacity.exact", "grids.capacity.exact_64"}
    result = results["grids.capacity.exact"]
    assert (result.value, result.seeds, result.n) == (0.96, [0, 1, 2], 3)
    assert result.details == {"values": [0.97, 0.96, 0.99]}
    assert result.command == "make experiments ARGS='--only capacity'"


@pytest.mark.parametrize(
    ("curves", "end", "lowest"),
    [
        ([[0.1, 0.992, 0.97, 0.999], [0.2, 0.5, 0.991, 1.0]], 0.999, 0.97),
        ([[0.1, 0.995, 0.08, 0.5], [0.2, 0.5, 0.991, 1.0]], 0.5, 0.08),
        ([[0.9, 0.4, 0.6], [0.2, 0.991, 1.0]], 0.6, 0.6),  # the first never converges
    ],
)
def test_the_long_run_counts_what_it_loses_once_it_has_converged(
    curves: list[object], end: float, lowest: float
) -> None:
    runs = make_runs("long_run", "long-run", "training.exact_grid_accuracy", curves)
    values = {result.key: result.value for result in pipeline.grid_sweeps(runs)}
    assert values == {"grids.long_run.exact": end, "grids.long_run.lowest": lowest}


def test_ablations_count_where_all_are_there_and_of_one_version(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = make_runs("ablation", "images-base", "metrics.ssim", [0.8, 0.9, 0.85])
    [partial] = pipeline.image_experiments(runs)
    assert (partial.key, partial.value, partial.n) == ("images.ablations.one_version", 0.0, 3)
    assert "images-no-head-seed2" in capsys.readouterr().out
    monkeypatch.setattr(pipeline, "load_experiments", lambda *_: described)
    described = [SimpleNamespace(name=name, sweep=["ablation"]) for name in runs.index]
    [complete] = pipeline.image_experiments(runs)
    assert (complete.value, complete.seeds) == (1.0, [0, 1, 2])
    runs.loc["images-base-seed1", "fingerprint.code"] = "3"
    [of_two_versions] = pipeline.image_experiments(runs)
    assert of_two_versions.value == 0.0
    assert "of 2 versions of code" in capsys.readouterr().out


def test_the_valid_rate_is_that_of_samples_at_temperature_1(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    monkeypatch.setattr(pipeline, "MINUTES", {})
    samplers = json.loads(Path("results/arc_grids/metrics.json").read_text())["samplers"]
    values = {result.key: result.value for result in pipeline.default_results()}
    assert values["grids.valid_rate"] == samplers["ancestral"]["valid_rate"]


@pytest.mark.parametrize("current", [True, False])
def test_one_model_is_judged_by_this_benchmark_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch, current: bool
) -> None:
    monkeypatch.chdir(root)
    monkeypatch.setitem(pipeline.REGISTRY, "baselines", ())
    params = load_params().resolve("fashion_mnist")["train"]
    compared = digest_values(params if current else {**params, "epochs": 1})
    monkeypatch.setattr(context, "read_json", lambda *_, **__: {"params": compared})
    [result] = pipeline.one_model({"images.ssim": 0.9})
    assert result.value == float(current)
    assert result.command == ""  # so that the command that ran is recorded
