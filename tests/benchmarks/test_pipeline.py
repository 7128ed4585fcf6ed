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
            "fingerprint.code": "1", "fingerprint.evaluation": "2", "machine": "A, 1 thread",
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


def test_hours_and_complete_sweeps_are_counted_over_the_described_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ["images-base-seed0", "images-base-seed1"]
    described = [
        SimpleNamespace(name=name, sweep=["rate"], manual=False, minutes=None, threads=1)
        for name in names
    ]
    unmeasured = SimpleNamespace(name="a", sweep=["seeds"], manual=False, minutes=60, threads=2)
    monkeypatch.setattr(pipeline, "load_experiments", lambda *_: [*described, unmeasured])
    runs = make_runs("rate", "images-base", "seconds", [1800.0, 3600.0])
    hours, sweeps = pipeline.cost_and_consistency(runs)
    assert hours.value == pytest.approx((0.5 + 1 + 2 * 1) / 2)
    assert hours.details == {"measured": 2, "estimated": 1}
    assert (sweeps.value, sweeps.details) == (0.5, {"incomplete_or_mixed": ["seeds"]})
    runs.loc[names[1], "machine"] = "B, 1 thread"
    _, sweeps = pipeline.cost_and_consistency(runs)
    assert sweeps.details == {"incomplete_or_mixed": ["rate", "seeds"]}


def test_the_valid_rate_is_that_of_samples_at_temperature_1(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    monkeypatch.setattr(pipeline, "MINUTES", {})
    samplers = json.loads(Path("results/arc_grids/metrics.json").read_text())["samplers"]
    one = {result.key: result for result in pipeline.default_results(pd.DataFrame())}
    assert one["grids.valid_rate"].value == samplers["ancestral"]["valid_rate"]
    assert one["grids.valid_rate"].details == {"trainings": 1}


def test_a_headline_is_the_mean_over_five_trainings_of_one_version(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    monkeypatch.setattr(pipeline, "MINUTES", {})
    rates = [0.7, 0.72, 0.74, 0.76, 0.78]
    column = "metrics.samplers.ancestral.valid_rate"
    runs = make_runs("grid-seeds", "grids-default", column, [*rates])
    metrics = json.loads(Path("results/arc_grids/metrics.json").read_text())
    for name in ("neg_elbo_over_entropy_bound", "neg_elbo_nats"):
        runs[f"metrics.{name}"] = metrics[name]
    runs["metrics.arc_agi.exact_grid_accuracy"] = 1.0
    runs["metrics.samplers.prior.count_tv"] = 0.1
    runs["metrics.best_sampler"] = "prior"
    result = {result.key: result for result in pipeline.default_results(runs)}["grids.valid_rate"]
    assert (result.value, result.n) == (pytest.approx(0.74), 5)
    assert result.details == {"trainings": 5, "values": rates}
    assert result.interval == pytest.approx((0.7007, 0.7793), abs=1e-4)
    # Not of the committed model, or too few, or of two machines: of one training.
    for other in (
        runs.assign(**{"metrics.neg_elbo_nats": 1.0}),
        runs.iloc[:4],
        runs.assign(machine=["A", "A", "A", "A", "B"]),
    ):
        results = {result.key: result for result in pipeline.default_results(other)}
        assert results["grids.valid_rate"].details == {"trainings": 1}


@pytest.mark.parametrize("current", [True, False])
def test_one_model_is_judged_by_this_benchmark_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch, current: bool
) -> None:
    monkeypatch.chdir(root)
    monkeypatch.setitem(pipeline.REGISTRY, "baselines", ())
    params = load_params().resolve("fashion_mnist")["train"]
    compared = digest_values(params if current else {**params, "epochs": 1})
    monkeypatch.setattr(context, "read_json", lambda *_, **__: {"params": compared, "rows": []})
    [result] = pipeline.one_model({"images.ssim": 0.9})
    assert result.value == float(current)
    assert result.command == ""  # so that the command that ran is recorded
