"""Every page, run as Streamlit runs it: with data, without, and with a broken file."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import own_data
import pytest
import tiny
from pages import words
from small_benchmark import make_case
from stage_runs import run_stage
from streamlit.testing.v1 import AppTest

from genlab.benchmark.cases import load_case
from genlab.benchmark.cases.files import write_case
from genlab.benchmark.service.jobs import jobs
from genlab.benchmark.store.schema import Opinion

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("overview", "data", "training", "evaluation", "failures")
Open = Callable[..., AppTest]


@pytest.fixture
def copied(project: Path, tmp_path: Path) -> Path:
    return shutil.copytree(project, tmp_path / "project")


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("dataset", ["arc_grids", "fashion_mnist"])
def test_a_page_shows_what_is_there(page: Open, project: Path, name: str, dataset: str) -> None:
    at = page(project, name, dataset=dataset)
    assert at.title[0].value == name.capitalize()
    assert not at.error, at.error[0].value


@pytest.mark.parametrize("name", PAGES)
def test_an_empty_project_names_a_command(page: Open, tmp_path: Path, name: str) -> None:
    tiny.write_params(tmp_path)
    at = page(tmp_path, name)
    assert at.info
    assert re.search("make repro|dvc repro", words(at))


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("failures", "plots/arc_grids/failures/sheet.png"),
        ("agent", "plots/agent/progress.png"),
    ],
)
def test_a_fresh_clone_shows_the_committed_figure(
    page: Open, tmp_path: Path, name: str, file: str
) -> None:
    tiny.write_params(tmp_path)
    assert not page(tmp_path, name).image
    (tmp_path / file).parent.mkdir(parents=True)
    shutil.copy(ROOT / file, tmp_path / file)
    at = page(tmp_path, name)
    assert at.image[0].captions == ["Of the last committed run"]
    assert at.info


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("overview", "results/arc_grids/verdict.json"),
        ("overview", "params.yaml"),
        ("data", "data/arc_grids/objects.npz"),
    ],
)
def test_a_page_names_the_broken_file(page: Open, copied: Path, name: str, file: str) -> None:
    (copied / file).write_bytes(b"[broken](http://example.org)\n[")
    errors = [error.value for error in page(copied, name).error]
    assert any(Path(file).name in error.replace("\\", "") for error in errors)
    assert not any("[broken]" in error.replace("\\[", "") for error in errors)


def test_an_address_reopens_the_same_view(page: Open, project: Path) -> None:
    at = page(project, "data", split="test", kind="plus", dataset="arc_grids")
    assert at.multiselect(key="kind").value == ["plus"]
    assert "of 40 items" in words(at)
    at = page(project, "data", view="One item", item="7")
    assert at.number_input(key="item").value == 7
    assert "Objects of grid 7" in words(at)


def test_a_path_is_read_and_the_command_that_adds_it_is_shown(
    page: Open, project: Path, tmp_path: Path
) -> None:
    folder = own_data.write_folders(tmp_path / "my <b>photos", *own_data.draw(120))
    at = page(project, "data", view="Your own data")
    at.text_input(key="own_path").set_value(str(folder)).run()
    at.button(key="own_read").click().run()
    assert not at.exception
    assert "120 pictures, a folder per class" in words(at)
    assert f"genlab data add my_photos '{folder}'" in at.code[0].value
    at.text_input(key="own_path").set_value(str(tmp_path / "nowhere")).run()
    at.button(key="own_read").click().run()
    assert "nowhere is not there" in words(at)


@pytest.fixture(scope="module")
def own_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which all stages ran over ARC tasks of one's own."""
    folder = tmp_path_factory.mktemp("pages") / "own"
    own_data.write_task_files(folder / "tasks", own_data.draw_tasks(60))
    my_tasks = {"source": {"path": "tasks"}}
    tiny.write_params(folder, datasets=["my_tasks"], my_tasks=my_tasks, workers=1)
    stages = ["params", "generate", "split", "judges", "train", "evaluate", "failure_gallery"]
    for stage in stages:
        assert not run_stage(folder, stage, "--dataset", "my_tasks").status
    (folder / "benchmarks").mkdir()
    shutil.copy(tiny.PARAMS_FILE.parent / "benchmarks/targets.yaml", folder / "benchmarks")
    (folder / "results/benchmarks.json").write_text("{}")
    return folder


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("data", {"view": "One item"}),
        ("data", {"view": "Items"}),
        ("training", {}),
        ("evaluation", {"show": "Verdict"}),
        ("evaluation", {"show": "Reconstructions"}),
        ("evaluation", {"show": "Samplers"}),
        ("evaluation", {"show": "Neighbours"}),
        ("failures", {"sort": "samples"}),
        ("failures", {}),
    ],
)
def test_pages_show_grids_of_ones_own(
    page: Open, own_project: Path, name: str, query: dict[str, str]
) -> None:
    at = page(own_project, name, dataset="my_tasks", **query)
    assert not at.error, at.error[0].value
    assert not at.exception
    assert not at.info


@pytest.mark.parametrize("view", ["Reconstructions", "Samplers", "Neighbours"])
def test_every_view_of_the_evaluation(page: Open, project: Path, view: str) -> None:
    at = page(project, "evaluation", show=view)
    assert not at.error, at.error[0].value


@pytest.mark.parametrize(
    ("dataset", "label"), [("arc_grids", "Latent 1"), ("fashion_mnist", "Direction 1")]
)
def test_a_slider_moves_the_picture(page: Open, project: Path, dataset: str, label: str) -> None:
    at = page(project, "evaluation", show="Latents", dataset=dataset)
    before = words(at)
    next(slider for slider in at.slider if slider.label == label).set_value(3.0).run()
    assert not at.error
    assert words(at) != before


def test_an_opinion_is_stored_under_the_raters_name(page: Open, copied: Path) -> None:
    path = copied / "results/arc_grids/failures.json"
    failures = json.loads(path.read_text())
    for item in failures["sample_items"]:  # whether a test explains one depends on the tiny run
        item["hypothesis"] = failures["sample_tests"][0]["name"]
    path.write_text(json.dumps(failures))
    at = page(copied, "failures")
    at.session_state["sort"] = "samples"
    at.text_input(key="rater").set_value("Ada <b>").run()
    at.get("feedback")[0].set_value(1).run()
    [opinion] = jobs(copied).store.find(Opinion, dataset="arc_grids")
    assert (opinion.rater, opinion.agrees) == ("Ada <b>", True)
    assert "1 agree, 0 don't" in words(at)
    for count in (2, 3):  # guests without a name, who do not overwrite each other
        guest = page(copied, "failures", sort="samples")
        guest.get("feedback")[0].set_value(0).run()
        assert f"1 agree, {count - 1} don't" in words(guest)


def test_saving_a_case_keeps_a_long_title(page: Open, copied: Path) -> None:
    case = make_case(copied / "cases" / "private", 2, title="t" * 200)
    at = page(copied, "cases")
    at.selectbox(key="chosen").set_value(case.case_id).run()
    at.button(key=f"save-{case.case_id}").click().run()
    assert not at.exception
    assert "is saved" in at.success[0].value
    assert load_case(case.folder).title == case.title


def test_a_case_keeps_its_basis_until_its_persons_agree(page: Open, copied: Path) -> None:
    case = make_case(copied / "cases" / "private", 2)
    write_case(case.folder, **{**dict(case), "consent": None, "basis": "public domain"})
    for agreed, expected in ((False, (None, "public domain")), (True, (True, ""))):
        at = page(copied, "cases")
        at.selectbox(key="chosen").set_value(case.case_id).run()
        assert "basis of use: public domain" in words(at)
        at.checkbox(key=f"consent-{case.case_id}").set_value(agreed).run()
        at.button(key=f"save-{case.case_id}").click().run()
        saved = load_case(case.folder)
        assert (saved.consent, saved.basis) == expected


def test_the_cases_head_the_first_page(page: Open, project: Path) -> None:
    first = page(project, "overview").get("html")[0]
    assert "Two friends" in first.proto.body
    assert "/api/test-cases/case-001/template" in first.proto.body
