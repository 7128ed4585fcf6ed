"""A user's own pictures and grids go through all stages, and changes of their files are noticed."""

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import own_data
import pytest
import tiny
from PIL import Image
from refusals import refused
from stage_runs import run_stage
from typer.testing import CliRunner

from genlab.core.io import read_json
from genlab.core.params import load_params
from genlab.data_cli import app
from genlab.evaluation.metrics import two_sample
from genlab.models import load_model

STAGES = ("params", "generate", "split", "judges", "train", "evaluate", "failure_gallery")


@pytest.fixture(scope="module", params=["classes", "none"])
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which all stages ran over 150 pictures, with classes or without."""
    folder = tmp_path_factory.mktemp("own") / "project"
    pictures, labels = own_data.draw(150)
    own_data.write_folders(folder / "photos", pictures, labels)
    labels_key = {} if request.param == "classes" else {"labels": "none"}
    model = {**tiny.IMAGE_TRAINING, "samples_per_epoch": 32, "free_bits": 0.5}
    tiny.write_params(
        folder,
        datasets=["photos"],
        photos={"source": {"path": "photos", **labels_key}},
        images_model={**model, "latent_dim": 16},
        engine="local",
        workers=1,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(two_sample, "EXAMPLES", 400)
        for stage in STAGES:
            done = run_stage(folder, stage, "--dataset", "photos")
            assert not done.status, f"{stage}: {done.stderr}"
    return folder


def test_every_result_is_there_and_says_what_the_data_are(project: Path) -> None:
    facts = json.loads((project / "results/photos/data.json").read_text())
    assert sum(facts["counts"].values()) == 150
    assert facts["shape"] == [16, 16, 3]
    manifest = json.loads((project / "data/photos/manifest.json").read_text())
    understood = manifest["generated"]["understood"]
    assert understood["count"] == 150
    assert understood["convention"].startswith(("a folder per class", "pictures without classes"))
    assert bool(facts["class_counts"]["train"]) == bool(understood["classes"])
    for file in ("metrics", "verdict", "diagnosis", "failures", "training", "judges"):
        assert (project / f"results/photos/{file}.json").is_file()
    failures = json.loads((project / "results/photos/failures.json").read_text())
    named = {item["class"] for item in failures["items"]}
    assert named <= ({*own_data.NAMES} if understood["classes"] else {"no class"})
    with Image.open(project / "plots/photos/data/sheet.png") as sheet:
        assert sheet.width == 1200


def test_the_side_that_was_found_is_what_later_stages_read(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    assert load_params(complete=False).dataset("photos").side is None
    params = load_params()
    assert params.dataset("photos").side == 16
    written = read_json(Path("results/photos/params.json"), producer_command="dvc repro params")
    assert written["generate"]["source"]["size"] == 16


def test_content_is_compared_with_what_was_read(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = Path(shutil.copytree(project, tmp_path / "copy"))
    monkeypatch.chdir(copy)
    run = partial(CliRunner().invoke, app, ["check", "photos", "--verify"])
    for file in (copy / "photos").rglob("*.png"):
        file.touch()  # a new time, the same content
    assert run().exit_code == 0
    next((copy / "photos/1").iterdir()).unlink()
    changed = run()
    assert changed.exit_code == 1
    assert "1 items are gone" in changed.output
    with refused("elsewhere", "photos", key="path"):
        CliRunner().invoke(app, ["check", "elsewhere", "--verify"], catch_exceptions=False)


def test_changed_files_change_what_generate_depends_on(tmp_path: Path) -> None:
    pictures, labels = own_data.draw(10)
    own_data.write_folders(tmp_path / "photos", pictures, labels)
    source = {"path": "photos", "size": 16}
    tiny.write_params(tmp_path, datasets=["photos"], photos={"source": source})

    def resolve() -> tuple[Any, Any]:
        for stage in ("source", "params"):
            assert not run_stage(tmp_path, stage, "--dataset", "photos").status
        values = json.loads((tmp_path / "results/photos/params.json").read_text())
        watched = json.loads((tmp_path / "results/sources/photos.json").read_text())
        assert watched["files"] == values["generate"]["files"]
        return values.pop("generate"), values

    before = resolve()
    assert resolve() == before
    (tmp_path / "photos/0/new.png").write_bytes(own_data.encode(pictures[0]))
    after = resolve()
    assert after[0] != before[0]
    assert after[1] == before[1]


@pytest.fixture(scope="module")
def grid_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which all stages ran over 60 tasks of one's own."""
    folder = tmp_path_factory.mktemp("own") / "project"
    own_data.write_task_files(folder / "tasks", own_data.draw_tasks(60))
    source = {"path": "tasks"}
    tiny.write_params(folder, datasets=["my_tasks"], my_tasks={"source": source}, workers=1)
    for stage in STAGES:
        done = run_stage(folder, stage, "--dataset", "my_tasks")
        assert not done.status, f"{stage}: {done.stderr}"
    return folder


def test_own_grids_go_through_all_stages_without_what_needs_a_generator(grid_project: Path) -> None:
    results = grid_project / "results/my_tasks"
    facts = json.loads((results / "data.json").read_text())
    assert facts["count"] == 360
    assert facts["side"] == 10
    assert sum(facts["tasks"].values()) == 60
    metrics = json.loads((results / "metrics.json").read_text())
    for absent in ("valid_rate", "neg_elbo_over_entropy_bound", "arc_agi"):
        assert absent not in json.dumps(metrics)
    for name in ("neg_elbo_per_cell", "context_nats_per_cell", "exact_grid_accuracy"):
        interval = metrics["intervals"][name]
        assert interval["low"] <= metrics[name] <= interval["high"]
    best = metrics["samplers"][metrics["best_sampler"]]
    assert 0 <= best["novelty"] <= 1
    verdict = json.loads((results / "verdict.json").read_text())
    assert {"neg_elbo_per_cell", "novelty"} <= {row["name"] for row in verdict["criteria"]}
    failures = json.loads((results / "failures.json").read_text())
    assert failures["n"] == facts["splits"]["test"]["count"]
    assert len(failures["tests"]) > 10
    for file in ("reconstructions", "samples_prior"):
        assert (grid_project / f"plots/my_tasks/evaluation/{file}.png").is_file()


def test_a_model_of_own_grids_can_be_used_and_its_files_compared(
    grid_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(grid_project)
    model = load_model("my_tasks")
    batch = model.read("tasks")
    assert batch.items.shape == (360, 10, 10)
    assert model.reconstruct(batch.items[:5]).shape == (5, 10, 10)
    assert CliRunner().invoke(app, ["check", "tasks", "--verify"]).exit_code == 0


def test_datasets_of_ones_own_are_listed_for_dvc(tmp_path: Path) -> None:
    photos = {"source": {"path": "photos", "size": 16}}
    tiny.write_params(tmp_path, datasets=["arc_grids"], photos=photos)
    assert not run_stage(tmp_path, "params").status
    assert json.loads((tmp_path / "results/own.json").read_text()) == {"own": []}
    tiny.write_params(tmp_path, datasets=["photos"], photos=photos)
    assert not run_stage(tmp_path, "params").status
    assert json.loads((tmp_path / "results/own.json").read_text()) == {"own": ["photos"]}


@pytest.mark.parametrize("stage", ["agent_reference", "agent_search", "agent_iterate"])
def test_the_agent_rests_where_its_dataset_is_not_run(tmp_path: Path, stage: str) -> None:
    source = {"path": "photos", "size": 16}
    tiny.write_params(tmp_path, datasets=["photos"], photos={"source": source})
    assert not run_stage(tmp_path, "params").status
    done = run_stage(tmp_path, stage)
    assert not done.status, done.stderr
    assert "nothing to do" in done.stdout


def test_results_of_the_agent_stay_while_its_dataset_is_left_out(tmp_path: Path) -> None:
    tiny.write_params(tmp_path, datasets=["arc_grids"])
    (tmp_path / "data/agent").mkdir(parents=True)
    assert not run_stage(tmp_path, "params").status
    values = json.loads((tmp_path / "results/params.json").read_text())
    assert "idle" not in values["agent_iterate"]


def test_too_few_pictures_are_refused_after_they_were_described(tmp_path: Path) -> None:
    own_data.write_folders(tmp_path / "photos", *own_data.draw(30))
    tiny.write_params(tmp_path, datasets=["photos"], photos={"source": {"path": "photos"}})
    assert not run_stage(tmp_path, "params", "--dataset", "photos").status
    done = run_stage(tmp_path, "generate", "--dataset", "photos")
    assert done.status == 2
    assert "30 pictures, a folder per class" in done.stderr
    assert "at least 100" in done.stderr
