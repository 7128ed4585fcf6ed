"""The pipeline at a small size, in a clone: every promised output, twice the same.

Images are measured by tests/evaluation and `make smoke`: Fashion-MNIST has no small size.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from clones import SIZE, TARGETS, copy_clone, dvc_in, find_files, run_in
from PIL import Image
from stage_runs import run_stage

from genlab.core.io import read_yaml, sha256
from scripts import smoke

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

METRICS = Path("results/arc_grids")
OUTPUTS = ("results/arc_grids", "plots/arc_grids", "data/checkpoints", "data/evaluated")


@pytest.fixture(scope="module")
def clone(reproduced: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone in which the pipeline has run once."""
    return copy_clone(reproduced, tmp_path_factory.mktemp("pipeline") / "genlab")


def _json(clone: Path, path: Path) -> Any:
    return json.loads((clone / path).read_text())


def test_everything_that_dvc_yaml_promises_is_there(clone: Path) -> None:
    ran = read_yaml(clone / "dvc.lock")["stages"]
    stages = set(read_yaml(clone / "dvc.yaml")["stages"])
    left_out = {"source"}  # of datasets of one's own
    left_out |= {name for name in stages if name.startswith("agent_")} if smoke.TARGETS else set()
    assert stages - {name.split("@")[0] for name in ran} == left_out
    for path in (clone / out["path"] for stage in ran.values() for out in stage["outs"]):
        assert path.is_file() or (path.is_dir() and any(path.rglob("*"))), path
    assert [path for path in clone.rglob(".*.part*") if ".dvc" not in path.parts] == []
    for path in (clone / "plots/arc_grids").rglob("*.png"):
        with Image.open(path) as picture:
            picture.verify()
    provenance = _json(clone, Path("data/checkpoints/arc_grids/provenance.json"))
    assert len(provenance["commit"]) == 40
    (file,) = (clone / "data/arc_grids").glob("simplified_dataset_*.npz")
    assert provenance["data"] == sha256(file)


def test_the_results_are_those_of_the_params(clone: Path) -> None:
    metrics = _json(clone, METRICS / "metrics.json")
    assert metrics["n"] == SIZE["grids.count"] // 10
    assert {row["n"] for row in metrics["samplers"].values()} == {SIZE["evaluate.samples"]}
    series = _json(clone, METRICS / "training.json")["series"]
    for name in ("loss", "reconstruction_loss", "kl_divergence"):
        assert len(series[name]) == SIZE["epochs"]
        plot = clone / f"plots/arc_grids/training/plots/metrics/{name}.tsv"
        assert len(plot.read_text().splitlines()) == SIZE["epochs"] + 1
    verdict = _json(clone, METRICS / "verdict.json")
    assert verdict["passed"] == all(criterion["passed"] for criterion in verdict["criteria"])
    assert _json(clone, METRICS / "diagnosis.json")["diagnoses"]
    assert _json(clone, METRICS / "failures.json")["tests"]


def test_a_second_repro_does_nothing(clone: Path) -> None:
    before = find_files(clone, *OUTPUTS)
    printed = dvc_in(clone, "repro", *TARGETS)
    assert "Running stage" not in printed
    ran = read_yaml(clone / "dvc.lock")["stages"]
    assert printed.count("didn't change, skipping") == len(ran)
    assert find_files(clone, *OUTPUTS) == before


def test_the_figures_are_shown_by_dvc(clone: Path) -> None:
    dvc_in(clone, "plots", "show", "-o", "dvc_plots")
    page = (clone / "dvc_plots/index.html").read_text(encoding="utf-8")
    assert "kl_divergence" in page
    assert "pixel_accuracy" in page


def test_the_same_seed_gives_the_same_bytes(clone: Path, tmp_path: Path) -> None:
    again = copy_clone(clone, tmp_path / "again")
    before = find_files(again, *OUTPUTS)
    assert any(name.endswith("model.safetensors") for name in before)
    ran = read_yaml(clone / "dvc.lock")["stages"]
    for stage in ("train", "evaluate", "failure_gallery"):
        for out in ran[f"{stage}@arc_grids"]["outs"]:  # as dvc does before a stage starts
            path = again / out["path"]
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        done = run_stage(again, stage, "--dataset", "arc_grids")
        assert done.status == 0, done.stderr
    assert find_files(again, *OUTPUTS) == before


def test_a_remote_hands_everything_to_a_clone(clone: Path, tmp_path: Path) -> None:
    owner = tmp_path / "owner"
    reader = tmp_path / "reader"
    copy_clone(clone, owner)
    dvc_in(owner, "remote", "add", "-d", "store", str(tmp_path / "store"))
    run_in(owner, "git", "add", "--all")
    run_in(owner, "git", "commit", "--quiet", "--message", "Keep what was made")
    dvc_in(owner, "push", "--with-deps", *TARGETS)
    run_in(tmp_path, "git", "clone", "--quiet", str(owner), str(reader))
    dvc_in(reader, "pull", "--with-deps", *TARGETS)
    assert "up to date" in dvc_in(reader, "status", "--with-deps", *TARGETS)
    assert "up to date" in dvc_in(reader, "repro", "--dry", *TARGETS)
    outputs = find_files(owner, "data", "metrics")
    assert len(outputs) > 10
    assert find_files(reader, "data", "metrics") == outputs


def test_an_experiment_runs_with_other_params(clone: Path) -> None:
    changes = ("-S", "beta_max=0.0", "-S", "epochs=1", "-S", "datasets=[arc_grids]")
    dvc_in(clone, "exp", "run", *changes, "--name", "free-kl", "evaluate")
    assert _json(clone, METRICS / "metrics.json")["beta_max"] == 0.0
    assert _json(clone, METRICS / "training.json")["epochs"] == 1
    assert "free-kl" in dvc_in(clone, "exp", "show", "--csv")
    assert "neg_elbo_over_entropy_bound" in dvc_in(clone, "metrics", "diff", "--json")
    # The agent uses another dataset; none of its dependencies has changed.
    assert smoke.TARGETS or "up to date" in dvc_in(clone, "status", "agent_iterate")


def test_params_that_were_run_before_train_nothing_again(clone: Path) -> None:
    params = clone / "params.yaml"
    before = params.read_text(encoding="utf-8")
    assert "Running stage 'train@arc_grids'" in dvc_in(
        clone, "exp", "run", "-S", "epochs=1", "-S", "lr=0.001", "train@arc_grids"
    )
    params.write_text(before, encoding="utf-8")
    printed = dvc_in(clone, "repro", "train@arc_grids")
    for stage in ("split", "train"):
        assert f"Running stage '{stage}@arc_grids'" not in printed
    assert "Stage 'train@arc_grids' is cached" in printed
