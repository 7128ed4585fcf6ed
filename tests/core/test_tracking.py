"""The record of a run: the same bytes each time, whole after a kill, and a mirror that is shut."""

import json
import math
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from genlab.core import tracking
from genlab.core.errors import GenlabError
from genlab.core.io import sha256
from genlab.core.tracking import Tracker, WandbMirror, run_name, run_tags


@pytest.fixture(autouse=True)
def _outside_any_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """dvclive asks the repository it stands in for its commit."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))


class _Recorder:
    """A mirror that remembers."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []
        self.images: list[str] = []
        self.closed = False

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        self.rows.append((epoch, dict(values)))

    def image(self, name: str, path: Path) -> None:
        assert path.is_file()
        self.images.append(name)

    def close(self) -> None:
        self.closed = True


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


def test_series_lie_where_dvc_yaml_looks_for_them(tmp_path: Path) -> None:
    with Tracker(tmp_path / "live", tmp_path / "timing") as tracker:
        _run(tracker, range(2))
    series = tmp_path / "live" / "plots" / "metrics" / "train" / "loss.tsv"
    lines = series.read_text().splitlines()
    assert lines == ["step\tloss", f"0\t{1 / 3}", f"1\t{1 / 4}"]
    summary = json.loads((tmp_path / "live" / "metrics.json").read_text())
    assert summary["train"]["loss"] == 1 / 4
    assert summary["step"] == 1
    assert (tmp_path / "timing/plots/metrics/samples_per_second.tsv").is_file()
    assert (tmp_path / "live/plots/images/reconstructions/0001.png").is_file()


def test_two_runs_write_the_same_bytes_and_no_clock(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with Tracker(tmp_path / name / "live", tmp_path / name / "timing") as tracker:
            _run(tracker, range(3))
    content = _content(tmp_path / "a" / "live")
    assert content == _content(tmp_path / "b" / "live")
    assert not any("samples_per_second" in name for name in content)


def test_a_resumed_run_ends_like_an_uninterrupted_one(tmp_path: Path) -> None:
    with Tracker(tmp_path / "whole", tmp_path / "whole_timing") as tracker:
        _run(tracker, range(5))

    memory = tmp_path / "memory"
    killed = Tracker(tmp_path / "live", tmp_path / "timing", memory=memory)
    _run(killed, range(4))  # epoch 3 was logged, but its checkpoint was not written
    recorder = _Recorder()
    # A new folder, since DVC deletes the outs of a stage before it starts.
    with Tracker(
        tmp_path / "again", tmp_path / "again_timing", recorder, memory=memory, start_epoch=3
    ) as tracker:
        _run(tracker, range(3, 5))
    assert _content(tmp_path / "again") == _content(tmp_path / "whole")
    assert _content(tmp_path / "again_timing") == _content(tmp_path / "whole_timing")
    assert [epoch for epoch, _ in recorder.rows] == [0, 1, 2, 3, 4]


def test_a_fresh_start_forgets_an_older_memory(tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    _run(Tracker(tmp_path / "live", tmp_path / "timing", memory=memory), range(4))
    with Tracker(tmp_path / "live", tmp_path / "timing", memory=memory) as tracker:
        _run(tracker, range(1))
    assert len(json.loads((memory / "history.json").read_text())["rows"]) == 1
    series = tmp_path / "live" / "plots" / "metrics" / "train" / "loss.tsv"
    assert len(series.read_text().splitlines()) == 2


def test_nan_survives_a_resume(tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    values = {"loss": math.nan, "kl_divergence": math.inf, "elbo": -0.1}
    Tracker(tmp_path / "a", tmp_path / "ta", memory=memory).log(0, values)
    Tracker(tmp_path / "b", tmp_path / "tb", memory=memory, start_epoch=1)
    for name in values:
        path = Path("plots/metrics") / f"{name}.tsv"
        assert (tmp_path / "a" / path).read_text() == (tmp_path / "b" / path).read_text()


def test_a_damaged_memory_is_one_line(tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    memory.mkdir()
    (memory / "history.json").write_text('{"kind": "training')
    with pytest.raises(GenlabError, match=r"history\.json is truncated"):
        Tracker(tmp_path / "a", tmp_path / "b", memory=memory, start_epoch=1)


def test_a_picture_may_be_a_file(tmp_path: Path) -> None:
    recorder = _Recorder()
    with Tracker(tmp_path / "live", tmp_path / "timing", recorder) as tracker:
        tracker.image("a.png", _picture(1))
        tracker.image("b.png", tmp_path / "live" / "plots" / "images" / "a.png")
    images = tmp_path / "live" / "plots" / "images"
    assert (images / "a.png").read_bytes() == (images / "b.png").read_bytes()
    assert recorder.images == ["a.png", "b.png"]
    assert recorder.closed


def test_a_repository_without_a_commit_is_one_line(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q"], check=True)
    with pytest.raises(GenlabError, match="no commit yet; run: git commit"):
        Tracker(tmp_path / "live", tmp_path / "timing")


def test_the_mirror_is_named_after_beta() -> None:
    assert run_name(0.0) == "simplified-dataset-beta0-capacity-validation"
    assert run_name(1.0) == "simplified-dataset-beta1"
    assert run_tags(0.0) == ["simplified-dataset", "capacity-validation", "beta-disabled"]
    assert run_tags(0.5) == ["simplified-dataset", "capacity-validation"]


def test_a_mirror_that_is_not_installed_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(GenlabError, match="not installed; set wandb to false, or run: pip install"):
        WandbMirror("arc_grids", 1.0, {}, tmp_path)


@pytest.mark.skipif(find_spec("wandb") is None, reason="the extra wandb is not installed")
def test_the_mirror_works_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)  # offline is the default of genlab itself
    mirror = WandbMirror("arc_grids", 0.0, {"beta_max": 0.0}, tmp_path / "runs")
    assert mirror.run.settings.mode == "offline"
    assert mirror.run.name == "simplified-dataset-beta0-capacity-validation"
    assert set(mirror.run.tags) == set(run_tags(0.0))
    tracker = Tracker(tmp_path / "live", tmp_path / "timing", mirror)
    _run(tracker, range(3))
    summary = dict(mirror.run.summary)
    tracker.close()
    assert summary["train/loss"] == _row(2)["train/loss"]
    assert summary["samples_per_second"] == 200.0
    assert "images/reconstructions/0002.png" in summary
    (record,) = (tmp_path / "runs").rglob("*.wandb")
    assert record.parent.name.startswith("offline-run-")
    assert record.stat().st_size > 0


def test_importing_the_tracker_does_not_import_wandb() -> None:
    assert "wandb" not in vars(tracking)
