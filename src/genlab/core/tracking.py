"""Log training runs: dvclive series and images, optionally mirrored to Weights & Biases."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from dvclive import Live
from PIL import Image
from scmrepo.exceptions import SCMError

from genlab.core.errors import GenlabError
from genlab.core.io import atomic_write, read_json, write_json

HISTORY_KIND = "training history"
CAPACITY_DATASET = "arc_grids"


class Tracker:
    """Log one row of numbers per epoch, and images.

    They are stored in `folder`, beside the unfinished checkpoint, until `publish` writes them: DVC
    deletes a stage's outs before it starts. A resumed run keeps the rows of epochs below
    `start_epoch`; later rows, of unfinished epochs, are dropped.
    """

    def __init__(
        self, folder: str | Path, mirror: WandbMirror | None = None, *, start_epoch: int = 0
    ) -> None:
        self._folder = Path(folder)
        self._mirror = mirror
        self._history = self._folder / "history.json"
        self._rows: list[dict[str, Any]] = []
        if start_epoch > 0:
            producer = "a training run from the start"
            saved = read_json(self._history, producer_command=producer, kind=HISTORY_KIND)
            self._rows = [row for row in saved["rows"] if row["epoch"] < start_epoch]
        for row in self._rows:
            self._mirror_row(row)

    def log(
        self, epoch: int, values: Mapping[str, float], timing: Mapping[str, float] | None = None
    ) -> None:
        """Add the row of `epoch`; names may contain slashes (`train/loss`), values may be NaN.

        values: numbers that depend on the params only; timing: those that depend on the machine.
        """
        row = {"epoch": epoch, "values": _as_text(values), "timing": _as_text(timing or {})}
        self._rows.append(row)
        write_json(self._history, {"kind": HISTORY_KIND, "rows": self._rows})
        self._mirror_row(row)

    def image(self, name: str, picture: npt.NDArray[np.uint8], *, if_changed: bool = False) -> None:
        """Add an image of shape (height, width, 3).

        if_changed: leave it out where it equals the last image before it, in the order of names.
        """
        target = self._folder / "images" / name
        earlier = sorted(path for path in target.parent.glob("*.png") if path.name < name)
        if if_changed and earlier:
            with Image.open(earlier[-1]) as last:
                if np.array_equal(np.asarray(last), picture):
                    return
        with atomic_write(target) as temporary:
            Image.fromarray(picture).save(temporary)
        if self._mirror is not None:
            self._mirror.image(name, target)

    def publish(self, live_dir: str | Path, timing_dir: str | Path) -> None:
        """Write dvclive's series and the images (`plots/images`) of the complete run.

        live_dir: gets what depends on the params only, so that two runs of the same params write
        the same bytes to git. timing_dir: a cached folder, gets the timing.
        """
        for folder, column in ((Path(live_dir), "values"), (Path(timing_dir), "timing")):
            try:
                live = Live(str(folder), dvcyaml=None, save_dvc_exp=False)
            except SCMError as error:
                raise GenlabError(
                    "dvclive attaches a run to a commit, and this git repository has no commit"
                    " yet; run: git commit",
                    fix="git commit",
                ) from error
            for row in self._rows:
                live.step = row["epoch"]
                for name, value in row[column].items():
                    live.log_metric(name, float(value))
            live.make_summary()
        shutil.copytree(self._folder / "images", Path(live_dir) / "plots/images")

    def __enter__(self) -> Tracker:
        return self

    def __exit__(self, *_: object) -> None:
        if self._mirror is not None:
            self._mirror.run.finish()

    def _mirror_row(self, row: Mapping[str, Any]) -> None:
        if self._mirror is not None:
            values = {name: float(v) for name, v in {**row["values"], **row["timing"]}.items()}
            self._mirror.log(row["epoch"], values)


def _as_text(numbers: Mapping[str, float]) -> dict[str, str]:
    """Numbers as text, which keeps every bit, and NaN and infinity, which JSON lacks."""
    return {name: repr(float(number)) for name, number in numbers.items()}


class WandbMirror:
    """Log the same names to Weights & Biases (extra `wandb`).

    It works offline, in `folder`, unless `WANDB_MODE` is set: nothing leaves the machine until the
    user runs `wandb sync`. Raises a `GenlabError` if wandb is not installed.

    config: the run's params by name, `beta_max`, `prior` and `seed` among them.
    """

    def __init__(
        self, dataset: str, config: Mapping[str, Any], folder: str | Path = "runs"
    ) -> None:
        try:
            import wandb
        except ImportError as error:
            fix = "set wandb to false, or run: pip install -e '.[wandb]'"
            raise GenlabError(
                f"wandb is true but Weights & Biases is not installed; {fix}", key="wandb", fix=fix
            ) from error
        self._wandb = wandb
        Path(folder).mkdir(parents=True, exist_ok=True)
        self.run = wandb.init(
            project=f"genlab-{dataset}",
            name=run_name(dataset, config),
            tags=run_tags(dataset, config),
            config=dict(config),
            dir=str(folder),
            mode=None if "WANDB_MODE" in os.environ else "offline",
            settings=wandb.Settings(silent=True, console="off", disable_git=True),
        )

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        """Add the row of an epoch."""
        self.run.log(dict(values), step=epoch, commit=True)

    def image(self, name: str, path: Path) -> None:
        """Add an image."""
        # Without a step, wandb logs it with the next row.
        self.run.log({f"images/{name}": self._wandb.Image(str(path))}, commit=False)


def run_name(dataset: str, config: Mapping[str, Any]) -> str:
    """Return the name of a mirrored run; that of a capacity run is specified."""
    if is_capacity_run(dataset, config):
        return "simplified-dataset-beta0-capacity-validation"
    return f"{dataset}-{config['prior']}-beta{config['beta_max']:g}-seed{config['seed']}"


def run_tags(dataset: str, config: Mapping[str, Any]) -> list[str]:
    """Return the tags of a mirrored run; those of a capacity run are specified."""
    if is_capacity_run(dataset, config):
        return ["simplified-dataset", "capacity-validation", "beta-disabled"]
    return [dataset, f"prior-{config['prior']}", f"beta-{config['beta_max']:g}"]


def is_capacity_run(dataset: str, config: Mapping[str, Any]) -> bool:
    """Whether a run measures what the code of generated grids can hold: its KL is switched off."""
    return dataset == CAPACITY_DATASET and config["beta_max"] == 0
