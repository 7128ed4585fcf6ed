"""Every page, run as Streamlit runs it: with data, without, and with a broken file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiny
from streamlit.testing.v1 import AppTest

from genlab.core.io import write_json, write_npz
from genlab.vae.training.checkpoint import save_checkpoint
from genlab.web.live import live

pytestmark = pytest.mark.slow

PAGES = ("overview", "data", "training", "evaluation", "failures")
SAMPLES = 30
Open = Callable[..., AppTest]


@pytest.fixture(scope="module")
def project(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the committed results and tiny data and models of both kinds."""
    folder = tmp_path_factory.mktemp("project")
    tiny.write_params(folder)
    for name in ("dvc.yaml", "dvc.lock", "experiments.yaml"):
        shutil.copy(root / name, folder / name)
    shutil.copytree(root / "metrics", folder / "metrics")
    (folder / "benchmarks").mkdir()
    shutil.copy(root / "benchmarks/targets.yaml", folder / "benchmarks")
    shutil.copytree(root / "results", folder / "results")
    (folder / "plots").symlink_to(root / "plots")
    data = folder / "data"
    (data / "arc_grids").mkdir(parents=True)
    tiny.write_dataset(data / "arc_grids")
    tiny.write_image_dataset(data / "fashion_mnist")
    for name, model in (("arc_grids", tiny.model()), ("fashion_mnist", tiny.image_model())):
        save_checkpoint(data / "checkpoints" / name / "model.safetensors", model, {})
    grids = tiny.grids(40)
    evaluated = data / "evaluated"
    arrays = {"predicted": grids, "nats": np.zeros(40), "samples": grids[:SAMPLES]}
    write_npz(evaluated / "arc_grids/evidence.npz", arrays, kind="evaluation")
    images = tiny.images(48)
    arrays = {
        "predicted": images,
        "nats": np.zeros(48),
        "samples": images[:SAMPLES],
        "sample_nearest": images[:SAMPLES],
        "sample_errors": np.zeros(SAMPLES),
    }
    write_npz(evaluated / "fashion_mnist/evidence.npz", arrays, kind="evaluation")
    for name in ("arc_grids", "fashion_mnist"):
        file = folder / "results" / name / "failures.json"
        failures = json.loads(file.read_text())
        for items in (failures["items"], failures["sample_items"]):
            for index, item in enumerate(items):
                item["index"] = index % SAMPLES  # the tiny test split is shorter than theirs
        write_json(file, failures)
    return folder


@pytest.fixture
def page(root: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Open a page of the project in a folder, at an address."""

    def opened(folder: Path, name: str, **address: str) -> AppTest:
        monkeypatch.chdir(folder)
        at = AppTest.from_file(str(root / "ui" / "main.py"), default_timeout=60)
        at.switch_page(f"{name}.py")
        for key, value in address.items():
            at.query_params[key] = value
        at.run()
        assert not at.exception, at.exception[0].message
        return at

    return opened


def words(at: AppTest) -> str:
    """Everything that a page says."""
    kinds = ("html", "markdown", "info", "error", "warning", "success", "caption", "code")
    return " ".join(str(e.value or e.proto) for kind in kinds for e in at.get(kind))


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("dataset", ["arc_grids", "fashion_mnist"])
def test_a_page_shows_what_is_there(page: Open, project: Path, name: str, dataset: str) -> None:
    at = page(project, name, dataset=dataset)
    assert at.title[0].value == name.capitalize()
    assert not at.error, at.error[0].value


@pytest.mark.parametrize("name", PAGES)
def test_an_empty_project_says_which_command_fills_the_page(
    page: Open, tmp_path: Path, name: str
) -> None:
    tiny.write_params(tmp_path)
    at = page(tmp_path, name)
    assert at.info
    said = words(at)
    assert "make repro" in said or "dvc repro" in said


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("overview", "results/arc_grids/verdict.json"),
        ("data", "data/arc_grids/objects.npz"),
        ("evaluation", "results/arc_grids/metrics.json"),
        ("failures", "results/arc_grids/failures.json"),
    ],
)
def test_a_broken_file_is_a_sentence_that_names_it(
    page: Open, project: Path, tmp_path: Path, name: str, file: str
) -> None:
    broken = tmp_path / "project"
    shutil.copytree(project, broken, symlinks=True)
    (broken / file).write_bytes((broken / file).read_bytes()[:40])
    at = page(broken, name)
    assert any(Path(file).name in error.value for error in at.error)


@pytest.mark.parametrize(
    ("name", "file", "wrong"),
    [
        ("overview", "results/arc_grids/verdict.json", b'{"passed": true, "criteria": [1]}'),
        ("overview", "dvc.yaml", b"stages: {train: [cmd]}"),
        ("training", "plots/arc_grids/training/plots/metrics/loss.tsv", b"step\tloss\n1"),
        ("evaluation", "results/benchmarks.json", b'{"arc.elbo_nats": {"value": "x"}}'),
        ("evaluation", "results/arc_grids/metrics.json", b'{"pixel_accuracy": "high"}'),
        ("failures", "results/arc_grids/failures.json", b'{"items": [{"index": "a"}]}'),
    ],
)
def test_a_foreign_file_is_a_sentence_that_names_it(
    page: Open, project: Path, tmp_path: Path, name: str, file: str, wrong: bytes
) -> None:
    mine = tmp_path / "project"
    shutil.copytree(project, mine, symlinks=True)
    if file.startswith("plots"):
        (mine / "plots").unlink()
    (mine / file).parent.mkdir(parents=True, exist_ok=True)
    (mine / file).write_bytes(wrong)
    said = " ".join(error.value for error in page(mine, name).error)
    assert Path(file).name in said
    assert "with: " in said


def test_without_params_every_page_says_so(page: Open, tmp_path: Path) -> None:
    for name in ("overview", "data"):
        assert any("params.yaml" in error.value for error in page(tmp_path, name).error)


def test_an_address_reopens_the_same_view(page: Open, project: Path) -> None:
    at = page(project, "data", split="test", kind="plus", dataset="arc_grids")
    assert at.multiselect(key="kind").value == ["plus"]
    assert "of 40 items" in words(at)
    one = page(project, "data", view="One item", item="7")
    assert one.number_input(key="item").value == 7
    assert "Objects of grid 7" in words(one)


def test_an_address_from_elsewhere_does_no_harm(page: Open, project: Path) -> None:
    at = page(project, "data", split="<script>", dataset="../..", item="-3", view="x" * 10_000)
    assert "of 320 items" in words(at)


@pytest.mark.parametrize("view", ["Reconstructions", "Samplers", "Latents", "Neighbours"])
def test_every_view_of_the_evaluation(page: Open, project: Path, view: str) -> None:
    at = page(project, "evaluation", show=view)
    assert not at.error, at.error[0].value


def test_a_slider_of_the_explorer_changes_the_picture(page: Open, project: Path) -> None:
    at = page(project, "evaluation", show="Latents", dataset="fashion_mnist")
    before = words(at)
    assert "0.0 of 255 levels" in before
    next(slider for slider in at.slider if slider.label == "Direction 1").set_value(3.0).run()
    assert "0.0 of 255 levels" not in words(at)


def test_an_opinion_is_stored_under_the_raters_name(
    page: Open, project: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "project"
    shutil.copytree(project, mine, symlinks=True)
    at = page(mine, "failures")
    at.text_input(key="rater").set_value("Ada <b>").run()
    at.get("feedback")[0].set_value(1).run()
    (kept,) = live(mine).store.opinions("arc_grids")
    assert (kept.rater, kept.agrees) == ("Ada <b>", True)
    assert "1 agree, 0 don't" in words(at)
