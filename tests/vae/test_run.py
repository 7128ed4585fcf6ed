"""A training run writes the promised files, and is identified by its params and its data."""

import json
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import tiny

from genlab.core.errors import GenlabError
from genlab.core.io import sha256
from genlab.core.params import Params
from genlab.core.tracking import run_name
from genlab.datasets.arc_grids import name_data_file
from genlab.datasets.generating import generate
from genlab.datasets.manifests import MANIFEST_FILE
from genlab.datasets.splitting import split
from genlab.vae.training import run
from genlab.vae.training.checkpoint import CHECKPOINT, load_checkpoint
from genlab.vae.training.run import UNFINISHED, run_key, train_dataset
from genlab.vae.training.step import TrainingStep

FILES = Path("data/checkpoints/arc_grids")
PLOTS = Path("plots/arc_grids/training")
RESULTS = Path("results/arc_grids/training.json")

# dvclive asks the repository it stands in for its commit.
pytestmark = pytest.mark.usefixtures("outside_any_repository")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    tiny.write_dataset(folder)
    return folder


def _train(params: Params, data: Path) -> dict[str, Any]:
    return train_dataset(params, params.dataset("arc_grids"), data, FILES, PLOTS, RESULTS)


def test_a_run_leaves_checkpoint_history_provenance_and_record(data: Path, tmp_path: Path) -> None:
    summary = _train(tiny.params(), data)
    _, facts = load_checkpoint(FILES / CHECKPOINT, producer_command="train")
    assert (facts["dataset"], facts["training"]["beta_max"]) == ("arc_grids", 1.0)
    assert len(facts["history"]) == 3
    provenance = json.loads((FILES / "provenance.json").read_text())
    assert provenance["training_seconds"] > 0
    assert {"commit", "dirty", "params", "data", "versions", "machine", "run"} <= set(provenance)
    assert (FILES / "timing").is_dir()
    assert not UNFINISHED.exists() or not any(UNFINISHED.iterdir())  # no unfinished run is left
    assert "seconds" not in json.dumps(summary, allow_nan=False)
    assert [summary[name] for name in ("epochs", "updates", "items_seen")] == [3, 12, 192]
    assert summary["stopped_early"] is False
    assert {len(row) for row in summary["series"].values()} == {3}
    counts = summary["parameters"]
    assert counts.pop("all") == sum(counts.values())


def test_a_finished_run_is_not_trained_again_where_its_results_could_not_be_written(
    data: Path,
) -> None:
    RESULTS.mkdir(parents=True)  # in the way
    with pytest.raises(OSError, match=RESULTS.name):
        _train(tiny.params(), data)
    RESULTS.rmdir()
    [unfinished] = UNFINISHED.iterdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingStep, "__call__", None)  # no update is taken
        assert _train(tiny.params(), data)["epochs"] == 3
    assert not unfinished.exists()


def _picture(data: Path, **training: Any) -> list[str]:
    """Train for eleven epochs; returns the epochs of the pictures."""
    _train(tiny.params(epochs=11, **training), data)
    names = sorted(path.stem for path in (PLOTS / "plots/images").iterdir())
    return [name.removeprefix("reconstructions_") for name in names]


def test_early_epochs_and_every_tenth_are_pictured_while_reconstructions_change(
    data: Path,
) -> None:
    assert _picture(data) == ["0001", "0002", "0005", "0010", "best"]
    shutil.rmtree(PLOTS)
    # From the fourth epoch on, the prior is trained alone.
    assert _picture(data, prior_share=0.75) == ["0001", "0002", "0005", "best"]


def test_other_params_or_other_data_are_another_run(
    data: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (file,) = data.glob("simplified_dataset_*.npz")
    other_file = tiny.write_dataset(tmp_path_factory.mktemp("other"), seed=1)
    keys = {
        run_key(tiny.params(**changes), file) for changes in ({}, {"lr": 0.02}, {"beta_max": 0.0})
    }
    assert len(keys | {run_key(tiny.params(), other_file)}) == 4
    assert run_key(tiny.params(), file) in keys


def test_data_that_differs_in_its_shards_alone_is_another_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("arc_grids", "shards"):
        monkeypatch.setattr(f"genlab.datasets.{module}.SHARD", 60)
    params = tiny.params(workers=1)
    runs = {}
    for count in (60, 130, 200):
        generated = Path(f"generated{count}")
        data = Path(f"split{count}")
        generate("arc_grids", params, generated, count)
        split("arc_grids", params, generated, data, 0)
        _train(params, data)
        runs[count] = json.loads((FILES / "provenance.json").read_text())
    assert len({facts["run"] for facts in runs.values()}) == 3
    assert runs[60]["data"] == sha256(Path("split60") / name_data_file(60))
    assert runs[200]["data"] == sha256(Path("split200") / MANIFEST_FILE)


def test_data_of_another_size_is_refused(data: Path) -> None:
    content = tiny.values(latent_dim=64)
    content["grids"]["size"] = 16
    with pytest.raises(GenlabError, match=str(data)):
        _train(Params.model_validate(content), data)
    assert not FILES.exists()


def test_a_mirror_gets_every_epoch_and_is_closed_when_the_run_fails(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = Mock()
    mirror.return_value.log.side_effect = [None, tiny.Killed]
    monkeypatch.setattr(run, "WandbMirror", mirror)
    with pytest.raises(tiny.Killed):
        _train(tiny.params(wandb=True, beta_max=0.0, beta_schedule="constant"), data)
    dataset, config = mirror.call_args.args
    assert (dataset, config["beta_max"]) == ("arc_grids", 0.0)
    assert run_name(dataset, config) == "simplified-dataset-beta0-capacity-validation"
    for epoch, logged in enumerate(mirror.return_value.log.call_args_list, 1):
        assert logged.args[0] == epoch
        assert {"train/kl_divergence", "per_class_accuracy/0"} <= set(logged.args[1])
    mirror.return_value.run.finish.assert_called_once()
