"""Training curves are read from every place where a run writes them."""

import math
import os
from pathlib import Path

from clones import run_in
from refusals import refused

from genlab.core.io import write_json
from genlab.core.tracking import HISTORY_KIND
from genlab.web.pages import training

SERIES = {"reconstruction_loss": [3.0, 2.0], "kl_divergence": [1.0, None]}


def log(root: Path, name: str, epochs: int) -> Path:
    """Write the history of an unfinished run as the tracker does."""
    file = root / "data/.making" / name / "history.json"
    values = [{"loss": repr(1.0 / epoch)} for epoch in range(1, epochs + 1)]
    rows = [{"epoch": n, "values": row, "timing": {}} for n, row in enumerate(values, 1)]
    write_json(file, {"kind": HISTORY_KIND, "rows": rows})
    return file


def test_experiments_of_dvc_are_found_in_gits_refs(tmp_path: Path) -> None:
    run_in(tmp_path, "git", "init", "-q")
    file = tmp_path / "results/arc_grids/training.json"
    write_json(file, {"series": {"loss": [1.0]}})
    run_in(tmp_path, "git", "add", ".")
    run_in(tmp_path, "git", "commit", "-q", "-m", "one")
    write_json(file, {"series": SERIES})
    run_in(tmp_path, "git", "commit", "-q", "-a", "-m", "experiment")
    commit = run_in(tmp_path, "git", "rev-parse", "HEAD").strip()
    run_in(tmp_path, "git", "update-ref", f"refs/exps/ab/{commit[2:]}/quick-beta", commit)
    [(name, run), (committed, _)] = training.read_runs(tmp_path, "arc_grids").items()
    assert (name, len(run["elbo"])) == ("quick-beta", 2)
    assert committed.startswith(f"commit {commit[:7]}")
    assert run["elbo"][0] == (1.0, -4.0)
    assert math.isnan(run["elbo"][1][1])
    with refused("make repro"):
        training.read_runs(tmp_path, "fashion_mnist")


def test_earlier_runs_come_from_the_commits_of_their_results(tmp_path: Path) -> None:
    run_in(tmp_path, "git", "init", "-q")
    file = tmp_path / "results/arc_grids/training.json"
    for losses in ([3.0, 2.0], [2.5, 1.5], [2.0, 1.0]):
        series = {"reconstruction_loss": losses, "kl_divergence": [1.0, 1.0]}
        write_json(file, {"series": series})
        run_in(tmp_path, "git", "add", ".")
        run_in(tmp_path, "git", "commit", "-q", "-m", "run")
    folder = tmp_path / "plots/arc_grids/training/plots/metrics"
    folder.mkdir(parents=True)
    rows = "".join(f"{epoch}\t{loss}\n" for epoch, loss in enumerate([2.0, 1.0], 1))
    (folder / "reconstruction_loss.tsv").write_text(f"step\treconstruction_loss\n{rows}")
    runs = training.read_runs(tmp_path, "arc_grids")
    losses = [[loss for _, loss in run["reconstruction_loss"]] for run in runs.values()]
    assert losses == [[2.0, 1.0], [2.5, 1.5], [3.0, 2.0]]
    assert [name.split()[0] for name in runs] == ["current", "commit", "commit"]


def test_a_run_under_way_grows(tmp_path: Path) -> None:
    assert training.find_unfinished(tmp_path, "arc_grids") is None
    old = log(tmp_path, "arc_grids-old", 9)
    os.utime(old, (0, 0))
    newest = log(tmp_path, "arc_grids-new", 2)
    log(tmp_path, "fashion_mnist-x", 5)
    assert training.find_unfinished(tmp_path, "arc_grids") == newest
    assert training.read_history(newest) == {"loss": [(1.0, 1.0), (2.0, 0.5)]}
    log(tmp_path, "arc_grids-new", 3)
    assert len(training.read_history(newest)["loss"]) == 3
    newest.write_text('{"rows": [{"epoch": 1, "values": {"loss": "x"}}]}')
    with refused(newest):
        training.read_history(newest)
