"""The record of a training run: dvclive series and pictures, with Weights & Biases as a mirror.

What depends on the params alone (losses, accuracies) goes to `live_dir`, which git holds; what
depends on the machine (samples a second) goes to `timing_dir`, a cached sidecar. So two runs of the
same params write the same bytes to git.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from dvclive import Live
from PIL import Image
from scmrepo.exceptions import SCMError

from genlab.core.errors import GenlabError
from genlab.core.io import atomic_write, read_json, write_json

Picture = str | Path | npt.NDArray[np.uint8]
HISTORY_KIND = "training history"


class Mirror(Protocol):
    """Another place that the record is shown at."""

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        """Add the row of an epoch."""

    def image(self, name: str, path: Path) -> None:
        """Add a picture."""

    def close(self) -> None:
        """Finish."""


class Tracker:
    """Log rows of numbers, one an epoch, and pictures.

    DVC deletes `live_dir` and `timing_dir` before a stage starts, so what a resumed run needs
    stands in `memory`, a folder beside the checkpoint in the making: rows of epochs below
    `start_epoch` and all pictures come back from there; later rows, of epochs that were not
    finished, are forgotten.
    """

    def __init__(
        self,
        live_dir: str | Path,
        timing_dir: str | Path,
        mirror: Mirror | None = None,
        *,
        memory: str | Path | None = None,
        start_epoch: int = 0,
    ) -> None:
        self._live = _open_live(live_dir)
        self._timing = _open_live(timing_dir)
        self._mirror = mirror
        self._memory = Path(memory) if memory is not None else None
        self._rows: list[dict[str, Any]] = []
        if self._memory is not None and start_epoch > 0:
            self._recall(self._memory, start_epoch)

    def log(
        self, epoch: int, values: Mapping[str, float], timing: Mapping[str, float] | None = None
    ) -> None:
        """Add the row of `epoch`; names may hold slashes (`train/loss`), values may be NaN."""
        self._show(epoch, values, timing or {})
        if self._memory is not None:
            self._rows.append(
                {"epoch": epoch, "values": _as_text(values), "timing": _as_text(timing or {})}
            )
            write_json(self._memory / "history.json", {"kind": HISTORY_KIND, "rows": self._rows})

    def image(self, name: str, picture: Picture) -> None:
        """Add a picture, a PNG file or `(height, width, 3)` array, as `plots/images/<name>`."""
        target = Path(self._live.plots_dir) / "images" / name
        with atomic_write(target) as temporary:
            _save(picture, temporary)
        if self._memory is not None:
            with atomic_write(self._memory / "images" / name) as temporary:
                shutil.copyfile(target, temporary)
        if self._mirror is not None:
            self._mirror.image(name, target)

    def close(self) -> None:
        """Write the summaries and finish the mirror."""
        self._live.end()  # the timing's Live needs none: its folder is dvc's, not git's
        if self._mirror is not None:
            self._mirror.close()

    def __enter__(self) -> Tracker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _show(self, epoch: int, values: Mapping[str, float], timing: Mapping[str, float]) -> None:
        for live, row in ((self._live, values), (self._timing, timing)):
            live.step = epoch
            for name, value in row.items():
                live.log_metric(name, float(value))
            live.make_summary()
        if self._mirror is not None:
            self._mirror.log(epoch, {**values, **timing})

    def _recall(self, memory: Path, start_epoch: int) -> None:
        saved = read_json(
            memory / "history.json",
            producer_command="a training run from the start",
            kind=HISTORY_KIND,
        )
        self._rows = [row for row in saved["rows"] if row["epoch"] < start_epoch]
        for row in self._rows:
            self._show(row["epoch"], _as_numbers(row["values"]), _as_numbers(row["timing"]))
        pictures = memory / "images"
        for path in sorted(pictures.rglob("*")):
            if path.is_file():
                name = path.relative_to(pictures)
                with atomic_write(Path(self._live.plots_dir) / "images" / name) as temporary:
                    shutil.copyfile(path, temporary)


class WandbMirror:
    """The same names at Weights & Biases (extra `wandb`).

    It runs offline, into `folder`, unless `WANDB_MODE` says otherwise: nothing leaves the machine
    that was not sent by hand (`wandb sync`). Raises a `GenlabError` where wandb is not installed.
    """

    def __init__(
        self, dataset: str, beta_max: float, config: Mapping[str, Any], folder: str | Path = "runs"
    ) -> None:
        try:
            import wandb
        except ImportError as error:
            raise GenlabError(
                "wandb is true but Weights & Biases is not installed;"
                ' set wandb to false, or run: pip install "genlab[wandb]"'
            ) from error
        self._wandb = wandb
        Path(folder).mkdir(parents=True, exist_ok=True)
        self.run = wandb.init(
            project=f"genlab-{dataset}",
            name=run_name(beta_max),
            tags=run_tags(beta_max),
            config=dict(config),
            dir=str(folder),
            mode=None if "WANDB_MODE" in os.environ else "offline",
            settings=wandb.Settings(silent=True, console="off", disable_git=True),
        )

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        """Add the row of an epoch."""
        self.run.log(dict(values), step=epoch, commit=True)

    def image(self, name: str, path: Path) -> None:
        """Add a picture."""
        # No step: wandb takes it with the row that comes next.
        self.run.log({f"images/{name}": self._wandb.Image(str(path))}, commit=False)

    def close(self) -> None:
        """Finish the run."""
        self.run.finish()


def run_name(beta_max: float) -> str:
    """The name of a mirrored run."""
    suffix = "-capacity-validation" if beta_max == 0 else ""
    return f"simplified-dataset-beta{beta_max:g}{suffix}"


def run_tags(beta_max: float) -> list[str]:
    """The tags of a mirrored run."""
    tags = ["simplified-dataset", "capacity-validation"]
    return [*tags, "beta-disabled"] if beta_max == 0 else tags


def _open_live(folder: str | Path) -> Any:
    try:
        return Live(str(folder), dvcyaml=None, save_dvc_exp=False)
    except SCMError as error:
        raise GenlabError(
            "dvclive needs a commit to hang the run on, and this git repository has no commit yet;"
            " run: git commit"
        ) from error


def _save(picture: Picture, path: Path) -> None:
    if isinstance(picture, np.ndarray):
        Image.fromarray(picture).save(path)
    else:
        shutil.copyfile(picture, path)


def _as_text(values: Mapping[str, float]) -> dict[str, str]:
    """Numbers as text that holds every bit, NaN and infinity too, which JSON lacks."""
    return {name: repr(float(value)) for name, value in values.items()}


def _as_numbers(values: Mapping[str, str]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items()}
