"""Documented experiments, on a small pipeline of the same shape: declared, run, kept, skipped."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ci.smoke import IDENTITY
from ruamel.yaml import YAML

from genlab.core.errors import GenlabError
from genlab.core.experiments import choose, load_experiments
from genlab.core.params import load_params
from genlab.evaluation.reports.ablations import fix

ROOT = Path(__file__).resolve().parents[2]

STAGE = """
import json, pathlib, sys
params = json.loads(json.dumps(__import__("yaml").safe_load(open("params.yaml"))))
if params["latent_dim"] == 192:
    sys.exit("genlab: error: nothing is learnt with 192 latents")
folder = pathlib.Path("results/arc_grids")
folder.mkdir(parents=True, exist_ok=True)
for name in ("metrics", "verdict", "diagnosis", "training"):
    row = {"of": name, "beta_max": params["beta_max"], "seed": params["seed"]}
    (folder / f"{name}.json").write_text(json.dumps(row))
plots = pathlib.Path("plots/arc_grids/evaluation")
plots.mkdir(parents=True, exist_ok=True)
(plots / "reconstructions.png").write_bytes(b"png of %d" % params["seed"])
"""
DVC = """
stages:
  failure_gallery:
    cmd: python stages/evaluate.py
    deps: [stages/evaluate.py]
    params: [seed, beta_max, latent_dim]
    outs:
      - metrics/arc_grids: {cache: false}
      - plots/arc_grids/evaluation: {cache: false}
"""
TABLE = """
beta0:
  why: Capacity validation.
  params: {beta_max: 0.0}
  keep: [reconstructions.png]
broken:
  why: It fails.
  params: {latent_dim: 192}
seeds:
  why: The spread.
  params: {beta_max: 0.5}
  seeds: [1, 2]
"""


def _command(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **IDENTITY, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose one stage writes what it was given, as a git repository."""
    (tmp_path / "stages").mkdir()
    (tmp_path / "stages" / "evaluate.py").write_text(STAGE)
    (tmp_path / "dvc.yaml").write_text(DVC)
    (tmp_path / "experiments.yaml").write_text(TABLE)
    (tmp_path / ".gitignore").write_text("/runs/\n")
    shutil.copy(ROOT / "params.yaml", tmp_path)
    assert _command(tmp_path, "git", "init", "-q").returncode == 0
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def project(table: Path) -> Path:
    """The same, with dvc and a commit: it can be run."""
    dvc = (sys.executable, "-m", "dvc")
    for command in (
        (*dvc, "init", "-q"),
        (*dvc, "config", "core.analytics", "false"),
        ("git", "add", "-A"),
        ("git", "commit", "-q", "-m", "one"),
    ):
        done = _command(table, *command)
        assert done.returncode == 0, done.stderr
    return table


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return _command(folder, sys.executable, str(ROOT / "stages" / "experiments.py"), *arguments)


def _records(folder: Path) -> dict[str, Any]:
    records: dict[str, Any] = json.loads((folder / "results" / "experiments.json").read_text())
    return records


def test_experiments_run_are_kept_and_are_not_run_twice(project: Path) -> None:
    first = _run(project, "--jobs", "2")
    assert first.returncode == 2
    assert "broken failed: nothing is learnt with 192 latents" in first.stderr
    assert "3 run, 1 failed" in first.stdout
    records = _records(project)
    assert list(records) == ["beta0", "seeds-seed1", "seeds-seed2"]
    assert records["beta0"]["metrics"] == {"of": "metrics", "beta_max": 0.0, "seed": 0}
    assert records["beta0"]["verdict"]["of"] == "verdict"
    assert records["beta0"]["command"] == (
        "dvc exp run --temp --name beta0 -S 'datasets=[\"arc_grids\"]' -S beta_max=0.0"
        " failure_gallery"
    )
    assert records["seeds-seed2"]["params"] == {"beta_max": 0.5, "seed": 2}
    assert records["seeds-seed2"]["metrics"]["seed"] == 2
    figure = project / "plots" / "arc_grids" / "experiments" / "beta0" / "reconstructions.png"
    assert figure.read_bytes() == b"png of 0"
    # The workspace itself was not touched.
    assert not (project / "metrics" / "arc_grids").exists()

    second = _run(project, "--only", "beta0", "--only", "seeds")
    assert second.returncode == 0, second.stderr
    assert "0 run, 0 failed" in second.stdout

    stage = project / "stages" / "evaluate.py"
    stage.write_text(STAGE.replace('"of": name', '"of": name.upper()'))
    third = _run(project, "--only", "beta0")
    assert "1 run, 0 failed" in third.stdout, third.stderr
    assert _records(project)["beta0"]["metrics"]["of"] == "METRICS"
    assert _records(project)["seeds-seed2"]["metrics"]["of"] == "metrics"


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("x: {why: a, params: {beta_mx: 1}}", "x: beta_mx is not a known key; did you mean beta_m"),
        ("x: {why: a, params: {beta_max: -1}}", "x: beta_max must be >= 0, got -1"),
        ("x: {why: a, params: {grids.sze: 8}}", "x: grids.sze is not a known key; did you mean si"),
        ("x: {params: {}}", "x: why is missing"),
        ("x: {why: a, parms: {}}", "x: parms is not a known key; did you mean params?"),
        ("- 1", "must hold keys and values"),
        ("x: [", "not valid YAML"),
    ],
)
def test_a_fault_in_the_table_stops_before_anything_runs(
    tmp_path: Path, content: str, says: str
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(content)
    with pytest.raises(GenlabError) as error:
        load_experiments(path)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("table")
def test_a_name_without_its_seed_takes_all_seeds() -> None:
    described = load_experiments("experiments.yaml")
    assert [e.name for e in choose(described, ["seeds"])] == ["seeds-seed1", "seeds-seed2"]
    assert [e.name for e in choose(described, ["seeds-seed2"])] == ["seeds-seed2"]
    assert choose(described, []) == described
    with pytest.raises(GenlabError, match="did you mean beta0"):
        choose(described, ["beta00"])


def test_a_fingerprint_follows_params_and_code(table: Path) -> None:
    before = {e.name: e.fingerprint for e in load_experiments("experiments.yaml")}
    assert len(set(before.values())) == len(before)
    (table / "stages" / "evaluate.py").write_text(STAGE + "\n# another line\n")
    after = {e.name: e.fingerprint for e in load_experiments("experiments.yaml")}
    assert all(before[name] != after[name] for name in before)


def test_the_committed_table_is_valid_against_the_committed_params(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    described = load_experiments("experiments.yaml")
    names = [experiment.name for experiment in described]
    assert len(set(names)) == len(names)
    raw = YAML(typ="safe").load((ROOT / "experiments.yaml").read_text())
    assert any(entry["params"].get("beta_max") == 0.0 for entry in raw.values())


def test_a_fault_on_images_is_mended_by_the_cure_that_its_diagnosis_names() -> None:
    """Otherwise the report would show a fix that no program found."""
    known = json.loads((ROOT / "results/experiments.json").read_text(encoding="utf-8"))
    table = YAML(typ="safe").load(ROOT / "experiments.yaml")
    base = load_params(ROOT / "params.yaml").for_dataset("fashion_mnist").model_dump()

    def built(name: str) -> dict[str, Any]:
        changes = {
            key.removeprefix("fashion_mnist."): v for key, v in table[name]["params"].items()
        }
        return {**base, **changes}

    pairs = [(broken, name) for name in table for broken in table[name].get("fixes", ())]
    assert len(pairs) >= 3
    for broken, fixed in pairs:
        assert fix(known[broken]), f"nothing was found wrong with {broken}"
        assert built(fixed) == {**built(broken), **fix(known[broken])}
