"""A project with the committed results and tiny data and models of both kinds."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiny
from small_benchmark import make_case
from streamlit.testing.v1 import AppTest

from genlab.core.io import write_json, write_npz
from genlab.vae.training.checkpoint import save_checkpoint

SAMPLES = 30


@pytest.fixture(scope="session")
def project(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    tiny.write_params(folder)
    make_case(folder / "cases", 1, title="Two friends")
    for name in ("dvc.yaml", "dvc.lock", "experiments.yaml"):
        shutil.copy(root / name, folder / name)
    for name in ("metrics", "results", "plots/arc_grids/training"):
        shutil.copytree(root / name, folder / name)
    (folder / "benchmarks").mkdir()
    shutil.copy(root / "benchmarks/targets.yaml", folder / "benchmarks")
    data = folder / "data"
    (data / "arc_grids").mkdir(parents=True)
    tiny.write_dataset(data / "arc_grids")
    tiny.write_image_dataset(data / "fashion_mnist")
    for name, model in (("arc_grids", tiny.model()), ("fashion_mnist", tiny.image_model())):
        save_checkpoint(data / "checkpoints" / name / "model.safetensors", model, {})
    for name, items in (("arc_grids", tiny.grids(40)), ("fashion_mnist", tiny.images(48))):
        arrays = dict.fromkeys(("predicted", "arc", "arc_predicted"), items)
        arrays |= {"samples": items[:SAMPLES], "sample_nearest": items[:SAMPLES]}
        arrays |= {"nats": np.zeros(len(items)), "sample_errors": np.zeros(SAMPLES)}
        write_npz(data / "evaluated" / name / "evidence.npz", arrays, kind="evaluation")
        file = folder / "results" / name / "failures.json"
        failures = json.loads(file.read_text())
        for kind in ("items", "sample_items"):
            for index, item in enumerate(failures[kind]):
                item["index"] = index % SAMPLES  # the tiny test split is shorter than theirs
        write_json(file, failures)
    return folder


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Callable[..., AppTest]:
    """Opens a page of the project in a folder, at an address, as Streamlit runs it."""

    def opened(folder: Path, name: str, **query: str) -> AppTest:
        monkeypatch.chdir(folder)
        script = f"from genlab.web.pages.main import show\n\nshow({name!r})"
        at = AppTest.from_string(script, default_timeout=60)
        for key, value in query.items():
            at.query_params[key] = value
        at.run()
        assert not at.exception, at.exception[0].message
        return at

    return opened


@pytest.fixture
def git(tmp_path: Path) -> Callable[..., str]:
    """Runs git in a new repository at `tmp_path`; returns what it prints."""

    def run(*arguments: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
        command = ["git", *who, *arguments]
        done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    run("init", "-q")
    return run
