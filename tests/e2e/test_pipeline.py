"""The whole pipeline at a small size, in a clone: every promised output, twice the same."""

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from ruamel.yaml import YAML
from scripts.smoke import IDENTITY, SMALL, smoke

from genlab.core.io import sha256

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

METRICS = Path("results/arc_grids")
PLOTS = Path("plots/arc_grids")
DATA = Path("data/arc_grids")
TIMEOUT = 900
CLOCKS = {"provenance.json", "timing.json", "timing"}


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone in which the pipeline has run once."""
    return smoke(tmp_path_factory.mktemp("smoke"))


def _try(clone: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """How a command in the clone ended."""
    environment = {
        **os.environ,
        **IDENTITY,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(clone / "src"),
        "DVC_NO_ANALYTICS": "1",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        command, cwd=clone, env=environment, capture_output=True, text=True, timeout=TIMEOUT
    )


def _run(clone: Path, *command: str) -> str:
    """The standard output of a command in the clone, which must succeed."""
    done = _try(clone, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _dvc(clone: Path, *arguments: str) -> str:
    return _run(clone, sys.executable, "-m", "dvc", *arguments)


def _json(clone: Path, path: Path) -> Any:
    return json.loads((clone / path).read_text())


def _yaml(clone: Path, name: str) -> Any:
    return YAML(typ="safe").load((clone / name).read_text())


def _hashes(clone: Path, *places: Path) -> dict[str, str]:
    """Content of files, but for clocks: provenance and timing, which say so."""
    files = [path for place in places for path in sorted((clone / place).rglob("*"))]
    return {
        str(path.relative_to(clone)): sha256(path)
        for path in files
        if path.is_file() and not CLOCKS.intersection(path.parts)
    }


def test_everything_that_dvc_yaml_promises_is_there(clone: Path) -> None:
    stages = _yaml(clone, "dvc.yaml")["stages"]
    outs = [out for stage in stages.values() for out in stage["outs"]]
    assert len(outs) > 10
    for out in outs:
        name = out if isinstance(out, str) else next(iter(out))
        path = clone / name.replace("${item.dataset}", "arc_grids")
        assert path.is_file() or (path.is_dir() and any(path.rglob("*"))), out
    assert [path for path in clone.rglob(".*.part*") if ".dvc" not in path.parts] == []
    for path in (clone / PLOTS).rglob("*.png"):
        with Image.open(path) as picture:
            picture.verify()
    provenance = _json(clone, Path("data/checkpoints/arc_grids/provenance.json"))
    assert len(provenance["commit"]) == 40
    (file,) = (clone / DATA).glob("simplified_dataset_*.npz")
    assert provenance["data"] == sha256(file)


def test_the_split_is_exactly_80_10_10_and_shares_no_grid(clone: Path) -> None:
    (file,) = (clone / DATA).glob("simplified_dataset_*.npz")
    count = SMALL["grids.count"]
    with np.load(file) as archive:
        splits = [archive[name] for name in ("train", "val", "test")]
    assert [len(grids) for grids in splits] == [count * 8 // 10, count // 10, count // 10]
    everything = np.concatenate(splits)
    assert everything.dtype == np.uint8
    assert len(np.unique(everything.reshape(count, 16 * 16), axis=0)) == count


def test_the_metrics_that_were_promised_are_there_and_in_range(clone: Path) -> None:
    metrics = _json(clone, METRICS / "metrics.json")
    for name in ("pixel_accuracy", "nonblack_accuracy", "exact_grid_accuracy"):
        interval = metrics["intervals"][name]
        assert 0 <= interval["low"] <= metrics[name] <= interval["high"] <= 1
    assert set(metrics["per_class_accuracy"]) == {str(colour) for colour in range(10)}
    assert metrics["neg_elbo_nats"] > metrics["data_entropy_bound_nats"] > 0
    assert metrics["samplers"]
    for sampler in metrics["samplers"].values():
        assert 0 <= sampler["valid_rate"] <= 1
        assert sampler["n"] == SMALL["evaluate.samples"]
    assert metrics["n"] == SMALL["grids.count"] // 10
    series = _json(clone, METRICS / "training.json")["series"]
    for name in ("loss", "reconstruction_loss", "kl_divergence"):
        assert len(series[name]) == SMALL["epochs"]
        lines = (clone / PLOTS / f"training/plots/metrics/train/{name}.tsv").read_text()
        assert len(lines.splitlines()) == SMALL["epochs"] + 1
    verdict = _json(clone, METRICS / "verdict.json")
    assert verdict["passed"] == all(criterion["passed"] for criterion in verdict["criteria"])
    assert _json(clone, METRICS / "diagnosis.json")["diagnoses"]


def test_the_failure_page_shows_between_10_and_20_and_opens_without_a_network(clone: Path) -> None:
    failures = _json(clone, METRICS / "failures.json")
    shown = [item for sort in ("sample_", "", "margin_") for item in failures[f"{sort}items"]]
    assert 10 <= len(shown) <= 20
    assert failures["tests"]
    page = (clone / PLOTS / "failures/index.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_a_second_repro_does_nothing(clone: Path) -> None:
    before = _hashes(clone, METRICS, PLOTS)
    said = _dvc(clone, "repro")
    assert "Running stage" not in said
    datasets = len(_yaml(clone, "params.yaml")["datasets"])
    stages = _yaml(clone, "dvc.yaml")["stages"].values()
    runs = sum(datasets if "matrix" in stage else 1 for stage in stages)
    assert said.count("didn't change, skipping") == runs
    assert _hashes(clone, METRICS, PLOTS) == before
    assert "up to date" in _dvc(clone, "status")


def test_the_figures_are_shown_by_dvc(clone: Path) -> None:
    shown = _dvc(clone, "metrics", "show", "--json")
    assert "exact_match" in shown
    _dvc(clone, "plots", "show", "-o", "dvc_plots")
    page = (clone / "dvc_plots/index.html").read_text()
    assert "kl_divergence" in page
    assert "pixel_accuracy" in page


def test_the_same_seed_gives_the_same_bytes(clone: Path) -> None:
    places = [METRICS, PLOTS, Path("data/checkpoints"), Path("data/evaluated")]
    before = _hashes(clone, *places)
    assert any(name.endswith("model.safetensors") for name in before)
    for stage in ("train@arc_grids", "evaluate@arc_grids"):
        assert "Running stage" in _dvc(clone, "repro", "--force", "--single-item", stage)
    assert _hashes(clone, *places) == before


def test_two_repros_at_once_end_as_one(clone: Path) -> None:
    before = _hashes(clone, METRICS, PLOTS)
    repro = (sys.executable, "-m", "dvc", "repro", "--force", "--single-item")
    stage = "failure_gallery@arc_grids"
    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(lambda _: _try(clone, *repro, stage), range(2)))
    refused = [done.stderr for done in ended if done.returncode]
    assert len(refused) < 2
    assert all("lock" in said for said in refused)
    assert _hashes(clone, METRICS, PLOTS) == before
    assert "up to date" in _dvc(clone, "status")


def test_a_remote_hands_everything_to_a_clone(clone: Path, tmp_path: Path) -> None:
    owner, reader = tmp_path / "owner", tmp_path / "reader"
    shutil.copytree(clone, owner, symlinks=True)
    _dvc(owner, "remote", "add", "-d", "store", str(tmp_path / "store"))
    _run(owner, "git", "add", "--all")
    _run(owner, "git", "commit", "--quiet", "--message", "Keep what was made")
    _dvc(owner, "push")
    _run(tmp_path, "git", "clone", "--quiet", str(owner), str(reader))
    _dvc(reader, "pull")
    assert "up to date" in _dvc(reader, "status")
    assert "up to date" in _dvc(reader, "repro", "--dry")
    made = _hashes(owner, Path("data"), Path("metrics"))
    assert len(made) > 10
    assert _hashes(reader, Path("data"), Path("metrics")) == made


def test_an_experiment_runs_with_other_params(clone: Path) -> None:
    # Of grids alone: the agent's data are others, and nothing of what it needs has changed.
    changes = ("-S", "beta_max=0.0", "-S", "epochs=1", "-S", "datasets=[arc_grids]")
    said = _dvc(clone, "exp", "run", *changes, "--name", "free-kl")
    assert "Stage 'agent_iterate' didn't change, skipping" in said
    assert _json(clone, METRICS / "metrics.json")["beta_max"] == 0.0
    assert _json(clone, METRICS / "training.json")["epochs"] == 1
    names = {criterion["name"] for criterion in _json(clone, METRICS / "verdict.json")["criteria"]}
    assert names
    assert "free-kl" in _dvc(clone, "exp", "show", "--csv")
    assert "neg_elbo_over_entropy_bound" in _dvc(clone, "metrics", "diff", "--json")
