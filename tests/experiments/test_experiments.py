"""Documented experiments, on a small pipeline: definitions, runs, results, what is skipped."""

import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from scripts.smoke import IDENTITY

from genlab.core.errors import GenlabError
from genlab.core.io import write_text
from genlab.core.params import digest_values, load_params
from genlab.experiments import run
from genlab.experiments.definitions import (
    Experiment,
    load_experiments,
    select_experiments,
)
from genlab.experiments.results import (
    KEPT,
    RESULTS_FILE,
    flatten_results,
    read_results,
    select_sweep,
    summarise_sweep,
    write_rows,
)
from genlab.experiments.run import (
    describe_pending,
    list_pending,
    run_experiment,
    run_pending,
)

ROOT = Path(__file__).resolve().parents[2]

STAGE = """
import json, pathlib, sys, yaml
params = yaml.safe_load(open("params.yaml"))
if params["latent_dim"] == 192:
    sys.exit("genlab: error: nothing is learnt with 192 latents")
folder = pathlib.Path("results/arc_grids")
folder.mkdir(parents=True, exist_ok=True)
for name in ("metrics", "verdict", "diagnosis", "training"):
    row = {"of": name, "beta_max": params["beta_max"], "seed": params["seed"], "list": [1]}
    row |= {"passed": True, "criteria": [], "diagnoses": [], "series": {}}
    (folder / f"{name}.json").write_text(json.dumps(row))
"""
DVC = """
stages:
  failure_gallery:
    matrix: {dataset: [arc_grids]}
    cmd: python stage.py
    deps: [stage.py]
    params: [seed, beta_max, latent_dim]
    outs:
      - results/arc_grids: {cache: false}
"""
TABLE = """
rules: {}
beta0:
  why: Capacity validation.
  sweep: [beta]
  params: {beta_max: 0.0}
broken:
  why: It fails.
  params: {latent_dim: 192}
seeds:
  why: The spread.
  sweep: [beta, spread]
  params: {beta_max: 0.5}
  seeds: [1, 2]
"""
SOURCES = {
    "code": "src/genlab/vae/training/trainer.py",
    "evaluation": "src/genlab/evaluation/metrics/frechet.py",
}
EXPERIMENTS = (sys.executable, "-m", "genlab.cli", "experiments")


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **IDENTITY, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git repository whose only stage writes its params as results."""
    files = {"stage.py": STAGE, "dvc.yaml": DVC, "experiments.yaml": TABLE}
    files[".gitignore"] = "/runs/\n__pycache__/\n"
    for name, content in files.items():
        write_text(tmp_path / name, content)
    for folder in ("src/genlab", "stages"):
        skip = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=skip)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert _run("git", "init", "-q").returncode == 0
    return tmp_path


def names_of(experiments: list[Experiment]) -> list[str]:
    return [experiment.name for experiment in experiments]


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


@pytest.mark.slow
def test_experiments_run_are_kept_and_are_not_run_twice(table: Path) -> None:
    init = (sys.executable, "-m", "dvc", "init", "-q")
    for command in (init, ("git", "add", "-A"), ("git", "commit", "-q", "-m", "one")):
        done = _run(*command)
        assert done.returncode == 0, done.stderr
    first = _run(*EXPERIMENTS, "--jobs", "2")
    assert first.returncode == 2
    assert "broken failed: nothing is learnt with 192 latents" in first.stderr
    assert "3 run, 1 failed" in first.stdout
    assert "4 runs left, about 0.0 hours, 2 at a time" in first.stdout
    assert "  seeds: 2 of its runs, time unknown" in first.stdout
    rows = read_results()
    assert list(rows.index) == ["beta0", "seeds-seed1", "seeds-seed2"]
    beta0 = rows.loc["beta0"]
    assert (beta0["metrics.of"], beta0["metrics.beta_max"], beta0["seed"]) == ("metrics", 0.0, 0)
    assert beta0["machine"].endswith(", 2 threads")
    assert rows.loc["seeds-seed2", "params"] == {"beta_max": 0.5, "seed": 2}
    assert rows.loc["seeds-seed2", "metrics.seed"] == 2
    # The workspace itself was not touched.
    assert not (table / "results" / "arc_grids").exists()

    second = _run(*EXPERIMENTS, "--only", "beta0", "--only", "seeds")
    assert second.returncode == 0, second.stderr
    assert "0 run, 0 failed" in second.stdout

    stage = table / "stage.py"
    stage.write_text(STAGE.replace('"of": name', '"of": name.upper()'))
    append(table / SOURCES["code"], "rate = 2\n")
    third = _run(*EXPERIMENTS, "--only", "beta0")
    assert "1 run, 0 failed" in third.stdout, third.stderr
    assert list(read_results()["metrics.of"]) == ["METRICS", "metrics", "metrics"]


@pytest.mark.usefixtures("table")
def test_the_results_file_is_written_when_no_run_is_in_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    described = load_experiments("experiments.yaml")
    beta0, _, *seeds = described
    write_rows(RESULTS_FILE, {"of-earlier": {}, "beta0": beta0.columns})
    stored = RESULTS_FILE.read_bytes()

    def run_after_reset(experiment: Experiment) -> dict[str, Any]:
        RESULTS_FILE.write_bytes(stored)  # as dvc does when an experiment starts
        if experiment is seeds[1]:
            raise KeyboardInterrupt
        return experiment.columns

    monkeypatch.setattr(run, "run_experiment", run_after_reset)
    with pytest.raises(KeyboardInterrupt):
        run_pending(described, seeds, jobs=1, force=False)
    assert [*read_results().index] == ["beta0", "seeds-seed1"]
    assert list_pending(described, force=False) == [described[1], seeds[1]]


@pytest.mark.usefixtures("table")
def test_a_second_call_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    described = load_experiments("experiments.yaml")

    def run_with_another_call(experiment: Experiment) -> dict[str, Any]:
        with pytest.raises(GenlabError, match="another 'make experiments' is at work here"):
            run_pending(described, described[2:], jobs=1, force=False)
        return experiment.columns

    monkeypatch.setattr(run, "run_experiment", run_with_another_call)
    assert run_pending(described, described[:1], jobs=1, force=False) == (1, [])
    assert [*read_results().index] == ["beta0"]


def test_an_experiment_of_an_earlier_call_is_no_result_of_this_one(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in (("add", "-A"), ("commit", "-q", "-m", "one")):
        assert _run("git", *command).returncode == 0
    assert _run("git", "update-ref", "refs/exps/ab/cd/beta0", "HEAD").returncode == 0
    monkeypatch.setattr(run, "_run_dvc", lambda *_: None)
    with pytest.raises(GenlabError, match="beta0 failed: no output"):
        run_experiment(load_experiments("experiments.yaml")[0])


def test_results_keep_scalars_and_parse_lists(tmp_path: Path) -> None:
    interval = {"low": 0.1, "high": 0.2, "n": 5}
    metrics = {
        "psnr": 20.5,
        "colour_histogram": {"true": {"1": 1.0}},
        "arc_agi_training": {"colour_histogram": {"true": {"1": 1.0}}},
        "samplers": {"prior": {"recall": 0.5, "kid": 1, "intervals": {"recall": interval}}},
        "intervals": {"bits_per_dim": interval, "psnr": interval},
    }
    rule = {"name": "nan", "found": True, "fix": {"lr": 0.1}, "evidence": {"share": 0.5}}
    row = flatten_results(
        metrics,
        {"best_epoch": 3, "series": {"exact_grid_accuracy": [0.5, None], "loss": [1.0, 2.0]}},
        {"criteria": [{"name": "ssim", "passed": False, "value": 0.5, "threshold": 0.75}]},
        {"diagnoses": [rule, {**rule, "name": "other", "found": False}]},
    )
    path = tmp_path / "experiments.csv"
    write_rows(path, {"one": {"params": "prior=standard;epochs=5", **row}, "two": {}})
    table = read_results(path)
    first = table.loc["one"]
    assert first["params"] == {"prior": "standard", "epochs": 5}
    assert first["diagnosis.found"] == ["nan"]
    assert first["diagnosis.fix"] == {"lr": 0.1}
    assert (first["criteria.ssim.value"], first["criteria.ssim.threshold"]) == (0.5, 0.75)
    assert first["metrics.samplers.prior.recall"] == 0.5
    assert first["training.exact_grid_accuracy"][0] == 0.5
    assert first["metrics.intervals.bits_per_dim.high"] == 0.2
    assert first["diagnosis.nan.share"] == 0.5
    dropped = ("histogram", "kid", "intervals.psnr", "intervals.recall")
    assert not [column for column in table if any(name in column for name in dropped)]
    assert math.isnan(table.loc["two", "metrics.psnr"])


@pytest.mark.parametrize(
    "content", ["", "name,x\na,1\nb", "name,x\na,1,2\n", "x\n1\n", "{", "name,params\na,x=\0\n"]
)
def test_a_truncated_or_foreign_table_names_its_command(tmp_path: Path, content: str) -> None:
    path = tmp_path / "experiments.csv"
    path.write_text(content)
    with pytest.raises(GenlabError) as error:
        read_results(path)
    assert (error.value.path, error.value.fix) == (path, "make experiments")


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("content", "key"),
    [
        ("x: {why: a, params: {beta_mx: 1}}", "beta_mx"),
        ("x: {why: a, params: {beta_max: -1}}", "beta_max"),
        ("x: {why: a, params: {grids.sze: 8}}", "grids.sze"),
        ("x: {why: a, params: {}, base: y}", "y"),
        ("x: {params: {}}", "why"),
        ("x: {why: a, parms: {}}", "parms"),
        ("- 1", None),
        ("x: [", None),
    ],
)
def test_a_fault_in_the_table_stops_before_anything_runs(
    tmp_path: Path, content: str, key: str | None
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(content)
    with pytest.raises(GenlabError, match=r"bad\.yaml") as error:
        load_experiments(path)
    assert error.value.key == key


@pytest.mark.usefixtures("table")
def test_an_experiment_inherits_from_all_its_bases(tmp_path: Path) -> None:
    path = tmp_path / "chain.yaml"
    path.write_text(
        "a: {why: a, dataset: fashion_mnist, params: {threads: 1, grad_clip: 0.0}}\n"
        "b: {why: b, base: a, params: {beta_max: 2.0}}\n"
        "c: {why: c, base: b, params: {grad_clip: 0.5}}\n"
    )
    last = load_experiments(path)[-1]
    assert last.dataset == "fashion_mnist"
    assert last.params == {"threads": 1, "grad_clip": 0.5, "beta_max": 2.0}


@pytest.mark.usefixtures("table")
def test_an_experiment_that_does_not_fit_the_params_hinders_no_other(tmp_path: Path) -> None:
    path = tmp_path / "more.yaml"
    path.write_text("a: {why: a, params: {prior_heads: 7}}\nb: {why: b, params: {beta_max: 2.0}}\n")
    with pytest.raises(GenlabError, match="prior_heads"):
        load_experiments(path)
    with pytest.raises(GenlabError, match="prior_heads"):
        load_experiments(path, only=["a"])
    described = load_experiments(path, only=["b"])
    assert names_of(described) == ["a", "b"]  # its row of results stays
    assert not described[0].is_current({"fingerprint.params": "x"})


@pytest.mark.usefixtures("table")
def test_a_name_without_its_seed_selects_all_seeds() -> None:
    described = load_experiments("experiments.yaml")
    seeds = select_experiments(described, ["seeds"])
    assert names_of(seeds) == ["seeds-seed1", "seeds-seed2"]
    assert names_of(select_experiments(described, ["seeds-seed2"])) == ["seeds-seed2"]
    of_sweep = select_experiments(described, ["beta"])
    assert of_sweep == select_experiments(described, ["beta0", "seeds"])
    assert select_experiments(described, []) == described
    with pytest.raises(GenlabError, match="did you mean beta0"):
        select_experiments(described, ["beta00"])


@pytest.mark.usefixtures("table")
def test_a_manual_experiment_runs_only_where_it_is_named_and_has_its_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "manual.yaml"
    path.write_text("a: {why: a, params: {}}\nb: {why: b, manual: true, params: {device: cuda}}\n")
    described = load_experiments(path)
    assert names_of(select_experiments(described, [])) == ["a"]
    [named] = select_experiments(described, ["b"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(GenlabError, match="b: device must be one of auto"):
        run_experiment(named)


@pytest.mark.parametrize("fingerprint", SOURCES)
def test_a_run_is_current_as_long_as_params_and_model_code_stay(
    fingerprint: str, table: Path
) -> None:
    rows = [experiment.columns for experiment in load_experiments("experiments.yaml")]
    assert len({row["fingerprint.params"] for row in rows}) == len(rows)
    append(table / SOURCES[fingerprint], "rate = 2\n")
    append(table / "stages" / "evaluate.py", "# a remark\n")
    append(table / "src/genlab/core/errors.py", "rate = 2\n")
    after = load_experiments("experiments.yaml")
    for experiment, row in zip(after, rows, strict=True):
        columns = experiment.columns
        changed = {key for key in columns if columns[key] != row[key]}
        assert changed == {f"fingerprint.{fingerprint}"}
        assert experiment.is_current(row) == (fingerprint == "evaluation")


@pytest.mark.usefixtures("table")
def test_code_that_changes_between_runs_stops_the_rest(table: Path) -> None:
    [experiment] = select_experiments(load_experiments("experiments.yaml"), ["beta0"])
    append(table / SOURCES["code"], "rate = 2\n")
    with pytest.raises(GenlabError, match="beta0: the files of code changed"):
        run_experiment(experiment)


def test_every_column_that_is_read_is_kept() -> None:
    reports = ROOT / "src" / "genlab" / "evaluation" / "reports"
    files = [
        *reports.glob("templates/*.j2"),
        *reports.glob("*.py"),
        ROOT / "benchmarks/pipeline.py",
    ]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    pattern = r'"((?:metrics|training|diagnosis)\.[a-z][\w.]+)"'
    columns = set(re.findall(pattern, text)) - {"diagnosis.found", "diagnosis.fix"}
    assert len(columns) > 20
    assert [column for column in columns if not KEPT.fullmatch(column)] == []


def test_the_committed_table_is_below_300_kilobytes() -> None:
    assert (ROOT / "results" / "experiments.csv").stat().st_size < 300_000


def sweep(**changes: list[str]) -> pd.DataFrame:
    """Three runs of one sweep, of two entries."""
    columns = {
        "entry": ["a", "a", "b"],
        "sweep": [["s"], ["s", "t"], ["s"]],
        "fingerprint.code": ["1", "1", "1"],
        "fingerprint.evaluation": ["2", "2", "2"],
        "machine": ["A, 1 thread"] * 3,
        "metrics.ssim": [0.5, 0.7, 0.9],
    }
    return pd.DataFrame({**columns, **changes}, index=["a-seed0", "a-seed1", "b-seed0"])


def test_a_sweep_is_summarised_over_seeds() -> None:
    rows = select_sweep(sweep(), "s")
    summary = summarise_sweep(rows, ["metrics.ssim"])
    assert list(summary) == ["a", "b"]
    assert summary["a"]["metrics.ssim"] == pytest.approx(0.6)
    half = 12.706 * math.sqrt(0.02) / math.sqrt(2)  # t(0.975; 1), the sample's deviation, n = 2
    assert summary["a"]["intervals"]["metrics.ssim"]["high"] == pytest.approx(0.6 + half, abs=1e-4)
    assert (summary["b"]["n"], summary["b"]["intervals"]) == (1, {})
    equal = summarise_sweep(rows.assign(**{"metrics.ssim": 1.0}), ["metrics.ssim"])
    assert (equal["a"]["metrics.ssim"], equal["a"]["intervals"]) == (1.0, {})


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ("fingerprint.code", "2 versions of code"),
        ("fingerprint.evaluation", "2 versions of evaluation"),
        ("machine", "2 kinds of machine"),
    ],
)
def test_a_mixed_sweep_is_refused_with_the_command(column: str, reason: str) -> None:
    mixed = sweep(**{column: ["1", "1", "3"]})
    with pytest.raises(GenlabError, match=f"of {reason}") as error:
        select_sweep(mixed, "s")
    assert error.value.fix == "make experiments ARGS='--only s --force'"
    assert len(select_sweep(mixed, "t")) == 1


def test_a_sweep_without_runs_is_an_error() -> None:
    for table in (sweep(), sweep().drop(columns="sweep")):
        with pytest.raises(GenlabError, match="no run of sweep 'ablation'"):
            select_sweep(table, "ablation")


def test_the_committed_table_is_valid_against_the_committed_params(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    described = load_experiments("experiments.yaml")
    names = names_of(described)
    assert len(set(names)) == len(names)
    # No run is made twice: one that serves several sweeps names them all.
    runs = {(run.dataset, run.fingerprint["params"]): run.name for run in described}
    assert [name for name in names if name not in runs.values()] == []
    for sweep in {sweep for experiment in described for sweep in experiment.sweep}:
        seeds: dict[str, list[int]] = {}
        for experiment in select_experiments(described, [sweep]):
            seeds.setdefault(experiment.entry, []).append(experiment.seed)
        five = sweep in {"image-seeds", "grid-seeds", "long_run"}
        assert set(map(tuple, seeds.values())) == {(0, 1, 2, 3, 4) if five else (0, 1, 2)}


def test_the_default_models_over_seeds_are_those_of_the_pipeline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    described = load_experiments("experiments.yaml")
    for name in ("grids-default-seed0", "images-default-seed0"):
        [experiment] = select_experiments(described, [name])
        digest = digest_values(load_params().resolve(experiment.dataset))
        assert digest.startswith(experiment.fingerprint["params"])


@pytest.mark.usefixtures("table")
def test_a_dataset_of_ones_own_is_added_to_the_params(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    source = "shapes.source.path: /tmp/own, shapes.source.kind: images, shapes.source.size: 32"
    path.write_text(f"a: {{why: a, dataset: shapes, params: {{{source}}}}}\n")
    [own] = load_experiments(path)
    assert "+shapes.source.path=/tmp/own" in own.arguments
    assert 'datasets=["arc_grids", "fashion_mnist", "shapes"]' in own.arguments


@pytest.mark.usefixtures("table")
def test_what_is_left_is_estimated_from_runs_on_such_a_machine(tmp_path: Path) -> None:
    path = tmp_path / "minutes.yaml"
    path.write_text("a: {why: a, params: {threads: 1}, minutes: 30, seeds: [0, 1, 2]}\n")
    first, *left = load_experiments(path)
    assert describe_pending([first, *left], jobs=2).endswith(
        "3 runs left, about 0.8 hours, 2 at a time"
    )
    row = {**first.columns, "seconds": 3600}
    write_rows("results/experiments.csv", {first.name: row})
    assert list_pending([first, *left], force=False) == left
    assert "  a: 2 of its runs, 120 minutes" in describe_pending(left, jobs=1)
    write_rows("results/experiments.csv", {first.name: {**row, "machine": "another"}})
    assert "  a: 2 of its runs, 60 minutes" in describe_pending(left, jobs=1)


@pytest.mark.parametrize("commit", ["52688757", "1234e567", "00012345"])
def test_a_commit_of_digits_alone_is_no_number(commit: str, tmp_path: Path) -> None:
    table = tmp_path / "experiments.csv"
    table.write_text(f"name,dataset,commit\ngrids,arc_grids,{commit}\n", encoding="utf-8")
    assert read_results(table).loc["grids", "commit"] == commit
