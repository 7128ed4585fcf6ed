"""The pages Benchmark and Rate: no foreign text runs as a script, and no rating is lost."""

import re
import shutil
import sqlite3
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import app_room
import numpy as np
import pytest
from pages import words
from PIL import Image
from refusals import refused
from small_benchmark import change_items, make_case
from streamlit.testing.v1 import AppTest

from genlab.benchmark.cases.files import write_case
from genlab.benchmark.judge import COST
from genlab.benchmark.run.runner import lock_of
from genlab.benchmark.service import rating_session
from genlab.benchmark.service.jobs import Jobs, jobs
from genlab.benchmark.service.rating_session import Session, list_run
from genlab.benchmark.store.schema import Contender, Preference
from genlab.core.io import write_npz
from genlab.web.components import escape, frame
from genlab.web.components.subjects import image_url, list_dataset, template_url
from genlab.web.items import EVIDENCE
from genlab.web.pages import rate

pytestmark = pytest.mark.slow

Open = Callable[..., AppTest]

RUN = "2026-01-01"
MARKUP = "<script>alert(1)</script>"


@pytest.fixture
def app_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    """A project with hostile cases, a package of tools, and a finished run of four cases."""
    app_jobs = jobs(app_room.make_project(tmp_path, cases=2, hostile=True))
    monkeypatch.syspath_prepend(str(app_jobs.root / "package"))
    app_room.make_run(app_jobs.store, app_jobs.root, run_id=RUN, cases=4)
    yield app_jobs
    app_jobs.store.close()


@pytest.mark.parametrize(
    "foreign", [MARKUP, "x" * 10_000, "\u202etxt.exe", "a\nb\x00c\ud800", "<img src=x onerror=1>"]
)
def test_a_foreign_text_is_harmless_and_bounded(foreign: str) -> None:
    html = escape.text(foreign)
    assert not any(text in html for text in ("<script", "<img", "\u202e", "\n"))
    html.encode("utf-8")
    assert len(escape.line(foreign)) <= escape.LONGEST
    assert "](" not in escape.label(foreign + "[a](http://b)")


def test_options_with_one_label_stay_distinct() -> None:
    labels = frame.make_unique({"a": "Two friends", "b": "Two friends", "c": "Three"})
    assert labels == {"a": "Two friends, a", "b": "Two friends, b", "c": "Three"}


# the page Benchmark


def test_a_finished_run_shows_pictures_badges_and_stars(app_jobs: Jobs, page: Open) -> None:
    app = page(app_jobs.root, "benchmark", run=RUN, rater="ada")
    html = words(app)
    assert html.count("b-badge") >= 4
    assert "x" * 200 not in html
    item = app_jobs.store.items(RUN)[0]
    app.get("feedback")[0].set_value(3).run()
    [rating] = app_jobs.store.ratings("run_item", rater="ada")
    assert (rating.stars, rating.subject_hash, rating.context) == (4, item.image_sha256, "grid")


def test_a_link_opens_the_same_view(app_jobs: Jobs, page: Open) -> None:
    app_jobs.store.rate("run_item", app_jobs.store.items(RUN)[0].image_sha256, "ada", 4, "blind")
    for view, sentence in (
        ("Compare", "two images"),
        ("Leaderboard", "too few"),
        ("nonsense", "b-cell"),
    ):
        assert sentence in words(page(app_jobs.root, "benchmark", run=RUN, view=view))


def test_a_run_of_another_process_cannot_be_cancelled_here(app_jobs: Jobs, page: Open) -> None:
    app_jobs.store.set_run(RUN, ending="")
    with lock_of(app_jobs.runs_folder, RUN):
        cancel = page(app_jobs.root, "benchmark", run=RUN).button(key="cancel")
    assert cancel.disabled
    assert "Another process" in cancel.help


def test_all_runs_are_listed_by_the_page(app_jobs: Jobs, page: Open) -> None:
    cases = app_jobs.store.run(RUN).cases[:1]
    contenders = [Contender(tool_id="sim_paint")]
    for number in range(2, 53):
        app_jobs.store.create_run(f"{RUN}-{number}", f"{RUN}T{number}", cases, contenders)
    listed = []
    for number in ("1", "2"):
        app = page(app_jobs.root, "benchmark", list="Runs", runs=number)
        listed += [button.key for button in app.button if button.key.startswith("open-")]
    assert len(listed) == len({*listed}) == 52


def test_what_is_not_there_is_a_sentence(app_jobs: Jobs, page: Open) -> None:
    assert "no run is called" in words(page(app_jobs.root, "benchmark", run="../../etc/passwd"))
    shutil.rmtree(app_jobs.root / "cases")
    assert "git checkout -- cases" in words(page(app_jobs.root, "benchmark"))
    assert "case.yaml is missing" in words(page(app_jobs.root, "benchmark", run=RUN))


def test_a_case_that_has_changed_since_is_not_shown(app_jobs: Jobs, page: Open) -> None:
    fault = f"case case-001 has changed since run {RUN}"
    assert fault not in words(page(app_jobs.root, "benchmark", run=RUN))
    case = next(case for case in app_jobs.cases() if case.case_id == "case-001")
    shutil.copy(case.avatars["one"], case.template)
    assert fault in words(page(app_jobs.root, "benchmark", run=RUN))
    app = page(app_jobs.root, "rate", rater="ada", of=RUN)
    pages = [words(app)]
    for _ in range(3):
        pages.append(words(app.button(key="skip").click().run()))
    assert ["who is replaced" in html for html in pages] == [fault not in html for html in pages]
    assert sum(fault in html for html in pages) == 1


def test_the_judge_is_in_the_estimate_and_is_named(app_jobs: Jobs, page: Open) -> None:
    file = app_jobs.root / "params.yaml"
    file.write_text(file.read_text().replace('judge: ""', 'judge: "vision"'))
    app = page(app_jobs.root, "benchmark")
    words_of_button = app.button(key="run").label.replace("\\", "")
    match = re.fullmatch(r"Run (\d+) images, about \$([\d.]+)", words_of_button)
    assert match is not None
    assert float(match[2]) == pytest.approx(int(match[1]) * COST)
    assert "vision rates each image" in words(app)


def test_options_of_the_parameters_are_preset(app_jobs: Jobs, page: Open) -> None:
    file = app_jobs.root / "params.yaml"
    options = "options: {control_blurred: {strength: [1, 2]}}"
    file.write_text(re.sub("^  options: .*", f"  {options}", file.read_text(), flags=re.M))
    app = page(app_jobs.root, "benchmark")
    assert app.text_input(key="option-control_blurred-strength").value == "1, 2"


# the page Rate


def test_every_avatar_is_within_the_sheet(tmp_path: Path) -> None:
    case = make_case(tmp_path, 1, side=640)
    avatars = dict.fromkeys((f"number-{n}" for n in range(6)), Image.new("RGB", (64, 64), "blue"))
    changes = {
        "avatars": avatars,
        "swaps": [case.swaps[0].model_copy(update={"avatar": name}) for name in avatars],
        "sources": dict.fromkeys(("template", *avatars), case.sources["one"]),
    }
    many = write_case(tmp_path / "many", **{**dict(case), **changes})
    url = rate.draw_case(many, many.digest)
    sheet = np.asarray(Image.open(BytesIO(b64decode(url.partition(",")[2]))).convert("RGB"))
    row = sheet[-sheet.shape[0] // 10]
    blue = (row[:, 2] > 150) & (row[:, 0] < 100)
    assert np.diff(blue, prepend=False).sum() == 12  # six beginnings and six ends


def test_the_order_is_random_per_rater_and_stays(app_jobs: Jobs) -> None:
    subjects = list_run(app_jobs.store, RUN)

    def order(rater: str) -> list[str]:
        return [subject.sha256 for [subject] in Session(app_jobs.store, rater, subjects).queue]

    first = order("ada")
    assert {tuple(order(name)) for name in ("bob", "eve", "joe")} != {tuple(first)}
    assert order("ada") == first
    session = Session(app_jobs.store, "ada", subjects)
    session.undo()  # there is nothing yet
    session.answer(3)
    assert order("ada") == first[1:]
    assert Session(app_jobs.store, "ada", subjects).done == 1
    while session.current:
        session.skip()
    session.answer(5)  # a second press at the end
    assert [rating.stars for rating in app_jobs.store.ratings("run_item")] == [3]


def test_a_held_key_rates_nothing_unseen(app_jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([9.0, 9.1, 9.3, 9.5, 10.0, 10.1])
    clock = SimpleNamespace(monotonic=lambda: next(moments))
    monkeypatch.setattr(rating_session, "time", clock)
    session = Session(app_jobs.store, "ada", list_run(app_jobs.store, RUN))
    for _ in range(5):
        session.answer(3)
    assert session.done == 2
    session.undo()
    session.answer(4)  # that image has been seen
    assert sorted(rating.stars for rating in app_jobs.store.ratings("run_item")) == [3, 4]


def test_a_name_that_no_rating_can_have_is_a_sentence(app_jobs: Jobs, page: Open) -> None:
    app = page(app_jobs.root, "rate", rater="=1+1", of=RUN)
    assert "starts with none of" in app.error[0].value
    app.text_input(key="rater").set_value("ann").run()
    app.button(key="answer-3").click().run()
    assert not app.error
    assert [rating.rater for rating in app_jobs.store.ratings()] == ["ann"]


@pytest.mark.parametrize("press", ["answer-3", "undo"])
def test_a_rating_that_cannot_be_saved_is_a_sentence(
    app_jobs: Jobs, page: Open, press: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rating_session, "PAUSE", 0.0)
    app = page(app_jobs.root, "rate", rater="ada", of=RUN)
    app.button(key="answer-4").click().run()
    with closing(sqlite3.connect(app_jobs.store.path)) as store:
        store.execute("DROP TABLE human_scores")
    app.button(key=press).click().run()
    assert "human_scores" in app.error[0].value.replace("\\", "")
    assert not app.exception


def test_the_template_replaces_one_image_while_it_is_there(app_jobs: Jobs, page: Open) -> None:
    app = page(app_jobs.root, "rate", rater="ada", of=RUN)
    before = words(app)
    assert "who is replaced" in before
    app.button(key="flip").click().run()
    assert "the template</bdi>" in words(app)
    app.button(key="flip").click().run()
    assert words(app) == before
    app.button(key="flip").click().run()
    app.button(key="answer-3").click().run()
    assert "the template</bdi>" not in words(app)
    shutil.rmtree(app_jobs.root / "cases")
    app.button(key="flip").click().run()
    assert not app.exception
    html = words(app)
    assert "/api/pictures/" in html
    assert not any(text in html for text in ("who is replaced", "the template</bdi>"))


def test_images_that_arrive_later_can_be_rated(app_jobs: Jobs, page: Open) -> None:
    empty = "2026-01-05"
    done, *_ = app_jobs.store.items(RUN)
    cases = app_jobs.store.run(RUN).cases
    contenders = [Contender(tool_id="sim_paint")]
    app_jobs.store.create_run(empty, f"{empty}T00:00", cases[:1], contenders)
    app = page(app_jobs.root, "rate", rater="ada", of=empty)
    assert "Nothing to rate" in app.info[0].value
    [item] = app_jobs.store.items(empty)
    values = {"status": "scored", "image": done.image, "image_sha256": done.image_sha256}
    change_items(app_jobs.store, [(item.item_id, values)])
    app.run()
    assert "0 of 1 rated" in "".join(bar.proto.text for bar in app.get("progress"))


def test_pairs_are_two_pictures_of_one_case_and_count_once(app_jobs: Jobs) -> None:
    paint, fail = (item for item in app_jobs.store.items(RUN) if item.case_id == "case-001")
    change_items(app_jobs.store, [(fail.item_id, {"status": "scored", "image_sha256": "ab" * 32})])
    session = Session(app_jobs.store, "ada", list_run(app_jobs.store, RUN), paired=True)
    assert (session.total, session.done, session.ahead) == (1, 0, [])
    assert len(session.current) == 2
    assert {subject.case_id for subject in session.current} == {"case-001"}
    left = session.current[0].item_id
    session.answer(1)
    assert session.current == []
    session.answer(1)  # a second press at the end
    session.undo()
    for answer, outcome in ((3, "tie"), (4, "both_bad")):
        session.answer(answer)
        assert [vote.outcome for vote in app_jobs.store.find(Preference)] == [outcome]
        session.undo()
    session.answer(2)
    [reported] = app_jobs.store.find(Preference)
    assert {reported.first_item, reported.second_item} == {paint.item_id, fail.item_id}
    assert {"first": reported.first_item, "second": reported.second_item}[reported.outcome] != left
    assert Session(app_jobs.store, "ada", list_run(app_jobs.store, RUN), paired=True).current == []
    session.undo()
    session.skip()
    assert session.done == 1
    alike = [replace(subject, contender="one") for subject in list_run(app_jobs.store, RUN)]
    assert Session(app_jobs.store, "bob", alike, paired=True).total == 0


def test_votes_have_keys_that_do_not_clash(app_jobs: Jobs, page: Open) -> None:
    _, fail = (item for item in app_jobs.store.items(RUN) if item.case_id == "case-001")
    change_items(app_jobs.store, [(fail.item_id, {"status": "scored", "image_sha256": "ab" * 32})])
    app = page(app_jobs.root, "rate", rater="ada", of=RUN, pairs="true")
    keys = [button.proto.shortcut for button in app.button if button.proto.shortcut]
    assert len(set(keys)) == len(keys) == 6
    for label in ("Tie", "Both bad"):
        [button] = [button for button in app.button if button.label == label]
        assert button.proto.shortcut in rate.PAIR_KEYS
    app.button(key="answer-4").click().run()
    assert [vote.outcome for vote in app_jobs.store.find(Preference)] == ["both_bad"]


def test_a_browser_is_one_guest_however_often_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streamlit masks the same secret with other bytes at each visit."""

    def visit(secret: bytes, mask: bytes) -> str:
        masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(secret)).hex()
        cookies = {frame.XSRF_COOKIE: f"2|{mask.hex()}|{masked}|1700000000"}
        monkeypatch.setattr(frame.st, "context", SimpleNamespace(cookies=cookies))
        return rating_session.name_guest(frame._find_browser())

    first, again = (visit(b"a secret of 16 b", mask) for mask in (b"\1\2\3\4", b"\xff\0\7\x80"))
    assert first == again != visit(b"another of 16 by", b"\1\2\3\4")
    for cookie in ("", "2|zz|zz|1", "1|a"):
        monkeypatch.setattr(
            frame.st, "context", SimpleNamespace(cookies={frame.XSRF_COOKIE: cookie})
        )
        assert frame._find_browser() == ""


@pytest.mark.parametrize("dataset", ["arc_grids", "fashion_mnist"])
def test_samples_and_reconstructions_can_be_rated(app_jobs: Jobs, dataset: str, page: Open) -> None:
    grids = np.random.default_rng(0).integers(0, 10, (3, 16, 16), dtype=np.uint8)
    if dataset == "fashion_mnist":
        grids = grids[..., None]
        (app_jobs.root / "data" / dataset).mkdir(parents=True)
        np.save(app_jobs.root / "data" / dataset / "test.npy", grids)
    with refused("dvc repro evaluate"):
        list_dataset(app_jobs, dataset, "vae_sample")
    evidence = app_jobs.root / "data" / "evaluated" / dataset / "evidence.npz"
    arrays = dict.fromkeys(EVIDENCE["grids"] + EVIDENCE["images"], grids)
    write_npz(evidence, arrays | {"predicted": grids[:2]}, kind="evaluation")
    samples = list_dataset(app_jobs, dataset, "vae_sample")
    rebuilt = list_dataset(app_jobs, dataset, "reconstruction")
    assert (len(samples), len(rebuilt)) == (3, 2)
    # The evidence is of another split than the data: no item can stand beside it.
    assert not any(template_url(subject, "") for subject in rebuilt)
    assert all(
        image_url(subject).startswith("data:image/png;base64,") for subject in samples + rebuilt
    )
    Session(app_jobs.store, "ada", samples).answer(4)
    assert [rating.stars for rating in app_jobs.store.ratings("vae_sample")] == [4]
    assert app_jobs.store.ratings("reconstruction") == []
    app = page(app_jobs.root, "rate", rater="ada", kind="vae_sample", of=dataset)
    assert "1 of 3 rated" in "".join(bar.proto.text for bar in app.get("progress"))
