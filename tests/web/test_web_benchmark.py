"""The pages Benchmark and Rate, and what they show: nothing foreign runs, nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import app_room
import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from genlab.core.errors import GenlabError
from genlab.core.io import write_npz
from genlab.web import sheet
from genlab.web.live import Live, live
from genlab.web.rating import Pairs, Session, of_dataset, of_run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]

RUN = "2026-01-01"
MARKUP = "<script>alert(1)</script>"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with cases of hostile titles, tools of somebody's, and no run."""
    folder = app_room.make_project(tmp_path, cases=2, hostile=True)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder / "package"))
    return folder


@pytest.fixture
def lived(project: Path) -> Iterator[Live]:
    """The same with a finished run of five cases."""
    here = live(project)
    app_room.make_run(here.store, project, run_id=RUN, cases=4)
    yield here
    here.close()


def page(name: str, **query: str) -> AppTest:
    shown = AppTest.from_file(str(ROOT / "ui" / f"{name}.py"), default_timeout=60)
    for key, value in query.items():
        shown.query_params[key] = value
    return shown.run()


def drawn(shown: AppTest) -> str:
    """All that a page hands to the browser as HTML or Markdown."""
    html: list[Any] = list(shown.get("html"))
    return "".join(one.proto.body for one in html) + "".join(one.value for one in shown.markdown)


# what comes from outside


@pytest.mark.parametrize(
    "foreign",
    [
        MARKUP,
        "../../etc",
        "x" * 10_000,
        "\u202etxt.exe",
        "a\nb\x00c\ud800",
        "<img src=x onerror=1>",
    ],
)
def test_a_foreign_text_is_harmless_and_bounded(foreign: str) -> None:
    html = sheet.text(foreign)
    assert "<script" not in html
    assert "<img" not in html
    assert "\u202e" not in html
    assert "\n" not in html
    html.encode("utf-8")
    assert len(sheet.line(foreign)) <= sheet.LONGEST
    assert "](" not in sheet.label(foreign + "[a](http://b)")


# the page Benchmark


def test_without_cases_the_page_says_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text(), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    shown = page("benchmark")
    assert not shown.exception
    assert "generate\\-cases" in shown.info[0].value


def test_a_run_begins_from_the_page_and_its_address_is_kept(project: Path) -> None:
    shown = page("benchmark")
    assert not shown.exception
    for tool in ("baseline_local", *(f"control_{name}" for name in ("untouched", "pasted"))):
        shown.checkbox(key=f"tool-{tool}").uncheck()
    for tool in ("control_wrong_person", "control_blurred"):
        shown.checkbox(key=f"tool-{tool}").uncheck()
    shown.run()
    assert shown.button(key="run").disabled
    shown.checkbox(key="tool-sim_fail").check().run()
    assert "4 pictures" in shown.button(key="run").label
    assert shown.checkbox(key="tool-sim_closed").disabled
    shown.button(key="run").click().run()
    assert not shown.exception
    here = live(project)
    (run,) = here.store.runs()
    run_id = run.run_id
    assert run_id in shown.query_params["run"]
    for _ in range(200):
        if here.status(here.store.run(run_id))[0] != "running":
            break
        time.sleep(0.05)
    again = page("benchmark", run=run_id)
    assert "was refused" in drawn(again)
    assert "<script>" not in drawn(again).replace(sheet.STYLE, "")
    here.close()


def test_a_finished_run_shows_pictures_badges_and_stars(lived: Live) -> None:
    shown = page("benchmark", run=RUN, rater="ada")
    assert not shown.exception
    html = drawn(shown)
    assert html.count("b-badge") >= 4
    assert "x" * 200 not in html
    item = lived.store.items(RUN)[0]
    shown.get("feedback")[0].set_value(3).run()
    (rating,) = lived.store.ratings("run_item", rater="ada")
    assert (rating.stars, rating.subject_hash, rating.blind) == (4, item.image_sha256, False)


@pytest.mark.parametrize("view", ["Compare", "Leaderboard", "People", "nonsense"])
def test_a_link_opens_the_same_view(lived: Live, view: str) -> None:
    shown = page("benchmark", run=RUN, view=view)
    assert not shown.exception
    words = {"Compare": "two pictures", "Leaderboard": "sim_paint", "People": "too few"}
    said = drawn(shown) + "".join(one.value for one in shown.info)
    assert words.get(view, "b-cell") in said.replace("\\", "")


def test_a_run_that_is_not_there_is_a_sentence(lived: Live) -> None:
    shown = page("benchmark", run="../../etc/passwd")
    assert not shown.exception
    assert "no run is called" in shown.error[0].value.replace("\\", "")


# the page Rate


def test_a_rating_session_from_the_page(lived: Live) -> None:
    shown = page("rate", rater="ada", of=RUN)
    assert not shown.exception
    html = drawn(shown)
    assert "sim_" not in html  # the tool is hidden
    shown.button(key="star-4").click().run()
    shown.button(key="star-2").click().run()
    assert sorted(r.stars for r in lived.store.ratings("run_item", rater="ada")) == [2, 4]
    assert all(rating.blind for rating in lived.store.ratings("run_item"))
    shown.button(key="undo").click().run()
    assert [r.stars for r in lived.store.ratings("run_item", rater="ada")] == [4]
    shown.button(key="skip").click().run()
    assert not shown.exception


def test_the_order_is_random_the_rater_s_own_and_stays(lived: Live) -> None:
    subjects = of_run(lived, RUN)
    orders = {
        name: [one.sha256 for one in Session(lived.store, name, subjects).queue]
        for name in ("ada", "bob", "eve", "joe")
    }
    assert len({tuple(order) for order in orders.values()}) > 1
    assert orders["ada"] == [one.sha256 for one in Session(lived.store, "ada", subjects).queue]
    way = Session(lived.store, "ada", subjects)
    way.rate(3)
    again = Session(lived.store, "ada", subjects)
    assert [one.sha256 for one in again.queue] == orders["ada"][1:]
    assert (again.done, len(again.subjects)) == (1, len(subjects))


def test_pairs_are_two_pictures_of_one_case_and_count_once(lived: Live) -> None:
    items = {item.tool_id: item for item in lived.store.items(RUN) if item.case_id == "case-001"}
    picture = lived.runs_folder / RUN / "sim_fail" / "case-001.png"
    picture.parent.mkdir()
    app_room.Image.new("RGB", (64, 64), "teal").save(picture)
    lived.store.set_item(
        items["sim_fail"].item_id,
        status="scored",
        image=f"{RUN}/sim_fail/case-001.png",
        image_sha256=app_room.sha256(picture),
    )
    way = Pairs(lived.store, "ada", of_run(lived, RUN))
    assert way.total == 1
    assert way.current is not None
    assert {one.case_id for one in way.current} == {"case-001"}
    left = way.current[0].item_id
    way.prefer("left")
    assert way.current is None
    way.undo()
    way.prefer("right")
    (reported,) = lived.store.preferences()
    assert reported.loser == left
    assert Pairs(lived.store, "ada", of_run(lived, RUN)).current is None


def test_samples_and_reconstructions_can_be_rated(lived: Live) -> None:
    evidence = lived.root / "data" / "evaluated" / "arc_grids" / "evidence.npz"
    grids = np.random.default_rng(0).integers(0, 10, (3, 16, 16), dtype=np.uint8)
    with pytest.raises(GenlabError, match="dvc repro evaluate"):
        of_dataset(lived, "arc_grids", "vae_sample")
    write_npz(evidence, {"samples": grids, "predicted": grids[:2]}, kind="evaluation")
    samples = of_dataset(lived, "arc_grids", "vae_sample")
    rebuilt = of_dataset(lived, "arc_grids", "reconstruction")
    assert (len(samples), len(rebuilt)) == (3, 2)
    assert all(one.url.startswith("data:image/png;base64,") for one in samples + rebuilt)
    Session(lived.store, "ada", samples).rate(4)
    assert [one.stars for one in lived.store.ratings("vae_sample")] == [4]
    assert lived.store.ratings("reconstruction") == []
    shown = page("rate", rater="ada", kind="vae_sample", of="arc_grids")
    assert not shown.exception
    assert "1 of 3 rated" in "".join(one.proto.text for one in shown.get("progress"))
