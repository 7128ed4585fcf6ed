"""A project's folder with something on every page: results, small data, an agent's workspace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tiny
from agent_runs import attempt, write_attempts

from genlab.agent.workspace import lay_out
from genlab.core.io import write_json, write_npz

ROOT = Path(__file__).resolve().parents[2]
RUN = "2026-01-01"
HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=alert(1)>"
    " ![x](http://x) ../../ \u202eelttil "
)
LONG = "x" * 10_000
TRAINING = {"epochs": 400, "samples_per_epoch": 128, "patience": 400}
"""Small enough for an epoch in a moment, and more of them than any test waits for."""


def furnish(folder: Path) -> Path:
    """Add params, results, grids and a workspace to `folder`; names and words are hostile."""
    tiny.write_params(folder, **TRAINING)
    tiny.write_dataset(folder / "data" / "arc_grids")
    for name in ("dvc.yaml", "dvc.lock", "experiments.yaml"):
        shutil.copy(ROOT / name, folder / name)
    for name in ("metrics", "plots", "results"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "benchmarks").mkdir()
    shutil.copy(ROOT / "benchmarks/targets.yaml", folder / "benchmarks")
    results = folder / "results" / "arc_grids"
    change(results / "failures.json", _hostile_failures)
    change(results / "diagnosis.json", _hostile_diagnosis)
    write_evidence(folder)
    workspace = lay_out(folder / "workspaces" / "project", HOSTILE + LONG)
    evil = {"model_name": HOSTILE, "remark": HOSTILE, "reason": HOSTILE, "faults": [HOSTILE, LONG]}
    write_attempts(workspace, attempt(1, 0.5), attempt(2, 0.95, 0.95, 0.95, **evil), code=HOSTILE)
    return folder


def write_evidence(folder: Path) -> None:
    """What the stage evaluate leaves of 40 test grids for the pages."""
    grids = tiny.grids(40)
    arrays = {"predicted": grids, "nats": np.zeros(40), "samples": grids}
    path = folder / "data" / "evaluated" / "arc_grids" / "evidence.npz"
    write_npz(path, arrays, kind="evaluation")


def training(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    """The stage train as dvc starts it, under way; what it says goes to `training.log`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    with (folder / "training.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, str(ROOT / "stages" / "train.py"), *options],
            cwd=folder, env=environment, stdout=log, stderr=log,
        )  # fmt: skip


def change(file: Path, how: Any) -> None:
    """Rewrite a file of JSON by a function that changes its content in place."""
    found = json.loads(file.read_text(encoding="utf-8"))
    how(found)
    write_json(file, found)


def _hostile_failures(found: dict[str, Any]) -> None:
    for item, words in zip(found["items"], (HOSTILE, LONG), strict=False):
        item |= {"class": words, "faults": [words]}
    for items in (found["items"], found["sample_items"]):
        for index, item in enumerate(items):
            item["index"] = index  # the test split here is shorter than theirs
    found["tests"][0]["sentence"] = HOSTILE


def _hostile_diagnosis(found: dict[str, Any]) -> None:
    found["diagnoses"][0] |= {"name": HOSTILE, "found": True}
