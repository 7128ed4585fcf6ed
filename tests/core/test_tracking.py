"""Logs of a run: the same bytes each time, also after a kill, and a mirror that is closed."""

import math
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from refusals import refused

from genlab.core.errors import GenlabError
from genlab.core.io import sha256
from genlab.core.tracking import Tracker, WandbMirror, run_name, run_tags

# dvclive asks the repository it stands in for its commit.
pytestmark = pytest.mark.usefixtures("outside_any_repository")


def _row(epoch: int) -> dict[str, float]:
    return {"train/loss": 1 / (epoch + 3), "val/per_class_accuracy/blue": 0.1 * epoch}


def _picture(epoch: int) -> np.ndarray:
    return np.full((4, 4, 3), epoch, dtype=np.uint8)


def _run(tracker: Tracker, epochs: range) -> None:
    for epoch in epochs:
        tracker.image(f"reconstructions/{epoch:04d}.png", _picture(epoch))
        tracker.log(epoch, _row(epoch), {"samples_per_second": 100.0 * epoch})


def _content(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): sha256(path) for path in files}


def test_a_resumed_run_ends_like_an_uninterrupted_one(tmp_path: Path) -> None:
    uninterrupted = Tracker(tmp_path / "uninterrupted")
    _run(uninterrupted, range(5))
    killed = Tracker(tmp_path / "killed")
    _run(killed, range(4))  # epoch 3 was logged, but its checkpoint was not written
    mirror = Mock()
    with Tracker(tmp_path / "killed", mirror, start_epoch=3) as resumed:
        _run(resumed, range(3, 5))
    assert [call.args[0] for call in mirror.log.call_args_list] == [0, 1, 2, 3, 4]
    mirror.run.finish.assert_called_once()
    restarted = Tracker(tmp_path / "killed")  # drops the rows of the killed run
    _run(restarted, range(5))
    for name, tracker in (("a", uninterrupted), ("b", resumed), ("c", restarted)):
        tracker.publish(tmp_path / name / "live", tmp_path / name / "timing")
    assert _content(tmp_path / "a") == _content(tmp_path / "b") == _content(tmp_path / "c")


def test_an_image_that_equals_the_last_one_is_left_out_where_asked(tmp_path: Path) -> None:
    tracker = Tracker(tmp_path)
    for name, level in (("0001", 1), ("0002", 1), ("0003", 2), ("0004", 1), ("best", 1)):
        tracker.image(f"{name}.png", _picture(level), if_changed=name != "best")
    names = sorted(path.stem for path in (tmp_path / "images").iterdir())
    assert names == ["0001", "0003", "0004", "best"]


def test_nan_survives_a_resume(tmp_path: Path) -> None:
    values = {"loss": math.nan, "kl_divergence": math.inf, "elbo": -0.1}
    tracker = Tracker(tmp_path / "making")
    tracker.log(0, values)
    tracker.image("a.png", _picture(0))
    Tracker(tmp_path / "making", start_epoch=1).publish(tmp_path / "a", tmp_path / "t")
    for name, value in values.items():
        lines = (tmp_path / "a/plots/metrics" / f"{name}.tsv").read_text().splitlines()
        assert lines[1] == f"0\t{value}"


def test_a_truncated_history_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "history.json").write_text('{"kind": "training')
    with refused(path=tmp_path / "history.json"):
        Tracker(tmp_path, start_epoch=1)


def test_a_repository_without_a_commit_is_one_line(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q"], check=True)
    with pytest.raises(GenlabError) as error:
        Tracker(tmp_path / "making").publish(tmp_path / "live", tmp_path / "timing")
    assert error.value.fix == "git commit"


def _config(beta_max: float) -> dict[str, Any]:
    return {"beta_max": beta_max, "prior": "autoregressive", "seed": 3}


@pytest.mark.parametrize(
    ("dataset", "beta_max", "name", "tags"),
    [
        (
            "arc_grids",
            0.0,
            "simplified-dataset-beta0-capacity-validation",
            ["simplified-dataset", "capacity-validation", "beta-disabled"],
        ),
        (
            "arc_grids",
            0.5,
            "arc_grids-autoregressive-beta0.5-seed3",
            ["arc_grids", "prior-autoregressive", "beta-0.5"],
        ),
        (
            "fashion_mnist",
            0.0,
            "fashion_mnist-autoregressive-beta0-seed3",
            ["fashion_mnist", "prior-autoregressive", "beta-0"],
        ),
    ],
)
def test_the_capacity_run_of_grids_alone_has_the_specified_name_and_tags(
    dataset: str, beta_max: float, name: str, tags: list[str]
) -> None:
    config = _config(beta_max)
    assert run_name(dataset, config) == name
    assert run_tags(dataset, config) == tags


def test_a_mirror_that_is_not_installed_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(GenlabError) as error:
        WandbMirror("arc_grids", _config(1.0), tmp_path)
    assert error.value.key == "wandb"


@pytest.mark.skipif(find_spec("wandb") is None, reason="the extra wandb is not installed")
def test_the_mirror_works_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)  # offline is the default of genlab itself
    mirror = WandbMirror("arc_grids", _config(0.0), tmp_path / "runs")
    assert mirror.run.settings.mode == "offline"
    assert mirror.run.name == "simplified-dataset-beta0-capacity-validation"
    assert set(mirror.run.tags) == set(run_tags("arc_grids", _config(0.0)))
    _run(Tracker(tmp_path / "making"), range(1))
    with Tracker(tmp_path / "making", mirror, start_epoch=1) as tracker:
        _run(tracker, range(1, 3))
        summary = dict(mirror.run.summary)
    assert summary["train/loss"] == _row(2)["train/loss"]
    assert summary["samples_per_second"] == 200.0
    assert "images/reconstructions/0002.png" in summary
    (record,) = (tmp_path / "runs").rglob("*.wandb")
    assert record.parent.name.startswith("offline-run-")
    assert record.stat().st_size > 0
