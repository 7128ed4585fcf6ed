"""The store: commits are durable, a damaged file is refused, a rating counts once."""

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from refusals import refused
from small_benchmark import change_items

from genlab.benchmark.store.items import Judging, Reused, ScoreDetails
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Contender, Opinion, Preference, image_name, now
from genlab.core.errors import GenlabError

EDITION = Path(__file__).resolve().parents[1] / "data/edition-96de87dd"
ANSWERS = """
    CREATE TEMP TABLE third AS SELECT * FROM run_items WHERE item_id = 1;
    UPDATE third SET item_id = 3, contender = 'third';
    INSERT INTO run_items SELECT * FROM third;
    INSERT INTO preferences VALUES (1, 'ann', 1, 2, 1, '', '2026-11-28T23:54:39.793007+00:00');
    INSERT INTO preferences VALUES (2, 'ann', 2, 3, 3, '', '2026-11-28T23:54:39.815951+00:00');
    INSERT INTO preferences VALUES (3, 'bob', 1, 3, 3, '', '2026-11-28T23:54:39.834568+00:00');
    INSERT INTO human_scores VALUES
        (1, 'run_item', '0001', 'ann', 4, 'blind', 's', '2026-11-28T23:54:39.845004+00:00');
    INSERT INTO opinions VALUES
        (1, 'arc_grids', 'vae_sample', 'abab', 'small', 'ann', 1,
         '2026-11-28T23:54:39.857850+00:00');
"""
CASES = [{"case_id": "one"}, {"case_id": "two"}]
TOOLS = [Contender(tool_id="a", options={"model": "x"}), Contender(tool_id="b")]
RUN = "2026-01-01"
SUBJECT = "ab" * 32


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "runs" / "genlab.sqlite3")
    store.create_run(RUN, now(), CASES, TOOLS)
    return store


def rate(store: Store, rater: str, stars: int | None, subject: str = SUBJECT) -> bool:
    return store.rate("run_item", subject, rater, stars, "blind")


def test_a_run_has_an_item_for_each_case_contender_and_repeat(store: Store) -> None:
    pairs = [(item.case_id, item.tool_id) for item in store.items(RUN)]
    assert pairs == [("one", "a"), ("one", "b"), ("two", "a"), ("two", "b")]
    assert {item.status for item in store.items()} == {"queued"}
    contenders = [Contender(tool_id="a", options={"model": model}) for model in ("x", "y")]
    run = store.create_run("r", now(), CASES[:1], contenders, repeats=2)
    first, second = (contender.contender_id for contender in contenders)
    assert [image_name(run.contenders, item) for item in store.items("r")] == [
        *(f"{first}/one.png", f"{first}/one.2.png"),
        *(f"{second}/one.png", f"{second}/one.2.png"),
    ]


def test_changes_are_kept_together_or_not_at_all_and_read_by_another(store: Store) -> None:
    scored = {"status": "scored", "score": 0.5, "components": {"identity": None}}
    change_items(store, [(3, scored), (2, {"cost": 0.5})])
    with Store(store.path) as reopened:
        item = reopened.item(3)
        assert (item.status, item.score, item.components) == ("scored", 0.5, {"identity": None})
        assert reopened.item(2).cost == 0.5
    valid = store.item(1)
    valid.start_request()
    missing = store.item(2)
    missing.item_id = 99
    with pytest.raises(GenlabError):
        store.save_items([valid, missing])
    assert store.item(1).status == "queued"


def test_an_item_changes_by_the_transitions_that_there_are(store: Store) -> None:
    item = store.item(1)
    with pytest.raises(ValueError, match="item 1 is queued: it cannot become scored"):
        item.record_score(0.5, None, {}, ScoreDetails())
    item.start_request()
    item.record_image("a.png", "ab" * 32, seconds=2.0, note="letterbox")
    item.start_scoring()
    details = ScoreDetails(notes=["shifted"], versions={"constants": "7"})
    item.record_score(0.5, 0.25, {"identity": 0.5, "faces": None}, details)
    item.judging = Judging(judge="eye", date="2026-01-01", reason="a seam")
    item.reused = Reused(run_id="2025-12-31", cost=0.5)
    store.save_items([item])
    with Store(store.path) as reopened:
        saved = reopened.item(1)
    assert dict(saved) == dict(item)
    assert (saved.scoring, saved.score_version, saved.total_cost) == (details, "7", 0.5)
    with pytest.raises(ValueError, match="is scored: it cannot become generating"):
        saved.start_request()
    saved.queue("lost")
    assert (saved.image, saved.score, saved.scoring, saved.judging) == ("", None, None, None)


def test_a_run_is_made_once_and_an_unknown_item_is_none(store: Store) -> None:
    with refused():
        store.create_run(RUN, now(), CASES, TOOLS)
    for missing in (99, 1 << 63):
        with pytest.raises(GenlabError) as error:
            store.item(missing)
        assert error.value.key == "item_id"


def test_a_file_of_the_first_edition_opens_and_keeps_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "genlab.sqlite3"
    with sqlite3.connect(path) as old:
        old.executescript((Path(__file__).parent / "first_edition.sql").read_text())
    with Store(path) as store:
        item = store.item(1)
        assert (item.status, item.score, item.components) == ("scored", 0.5, {"identity": None})
        assert (item.cost, item.judging) == (0.75, Judging(judge="eye"))
        (rating,) = store.ratings()
        assert (rating.rater, rating.stars, rating.context) == ("ann", 4, "blind")
        run = store.run("2026-01-01")
        assert list(run.contenders) == [store.item(1).contender, store.item(2).contender]
        assert run.contenders[item.contender].options == {"model": "x"}
        assert not run.server
        assert store.find(Preference)[0].outcome == "first"
        assert store.find(Opinion, dataset="arc_grids")[0].agrees
        assert rate(store, "ann", 3)


def test_a_store_of_96de87dd_opens_with_its_items_and_the_outcomes_of_its_votes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "genlab.sqlite3"
    with sqlite3.connect(path) as old:
        old.executescript((EDITION / "runs/store.sql").read_text())
        old.executescript(ANSWERS)
        [details] = old.execute("SELECT details FROM run_items WHERE item_id = 1").fetchone()
    for _ in range(2):  # a migrated file is not migrated again
        with Store(path) as store:
            item = store.item(1)
            assert item.score == pytest.approx(0.635438134431053)
            assert item.score_version == json.loads(details)["versions"]["constants"]
            votes = [*store.find(Preference, rater="ann"), *store.find(Preference, rater="bob")]
            outcomes = [
                (vote.rater, vote.first_item, vote.second_item, vote.outcome) for vote in votes
            ]
            assert outcomes == [
                *(("ann", 1, 2, "first"), ("ann", 2, 3, "second"), ("bob", 1, 3, "second")),
            ]
            assert [rating.session for rating in store.ratings()] == ["s"]
            assert len(store.find(Opinion)) == 1
            store.prefer("eve", 1, 2, "tie")
            assert [vote.outcome for vote in store.find(Preference, rater="eve")] == ["tie"]


@pytest.mark.parametrize("fault", ["text", "truncated", "scribbled", "foreign", "newer", "folder"])
def test_what_is_no_sound_store_is_refused_and_left_as_it_is(tmp_path: Path, fault: str) -> None:
    path = tmp_path / "genlab.sqlite3"
    if fault == "folder":
        path.mkdir()
    elif fault == "foreign":
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE cookies (name TEXT)")
    else:
        with Store(path) as store:
            cases = [{"case_id": f"case-{number}"} for number in range(500)]
            store.create_run("r", now(), cases, TOOLS)
            if fault == "newer":
                with store.engine.begin() as connection:
                    connection.exec_driver_sql("INSERT INTO migrations VALUES ('9999', 'then')")
        data = path.read_bytes()
        scribbled = data[:8192] + b"\xa5" * 8192 + data[16384:]
        faulty = {"text": b"not a database, " * 999, "truncated": data[:8000], "newer": data}
        path.write_bytes(faulty.get(fault, scribbled))
    before = None if fault == "folder" else path.read_bytes()
    with pytest.raises(GenlabError, match="newer genlab" if fault == "newer" else None) as caught:
        Store(path)
    assert caught.value.path == path
    assert before is None or path.read_bytes() == before


def test_the_name_of_a_folder_may_hold_any_character(tmp_path: Path) -> None:
    folder = tmp_path / "what now? #1"
    Store(folder / "genlab.sqlite3").close()
    assert "genlab.sqlite3" in {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("query", ["VACUUM", "PRAGMA journal_mode = WAL", ""])
def test_a_file_without_tables_is_new(tmp_path: Path, query: str) -> None:
    """Such a file remains of a process that is about to fill it, or was killed before."""
    path = tmp_path / "genlab.sqlite3"
    path.touch()
    with sqlite3.connect(path) as connection:
        connection.execute(query)
    with ThreadPoolExecutor(8) as pool:
        assert [store.runs() for store in pool.map(Store, [path] * 8)] == [[]] * 8


def test_many_writers_wait_for_each_other(store: Store) -> None:
    def write(name: str) -> None:
        with Store(store.path) as connection:
            for number in range(10):
                rate(connection, name, 1 + number % 5, f"{number:064x}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, [f"rater {number}" for number in range(4)]))
    assert len(store.ratings()) == 40


# ratings


def test_the_last_rating_counts_and_the_same_again_changes_nothing(store: Store) -> None:
    assert rate(store, "ann", 3)
    assert not rate(store, "ann", 3)
    assert rate(store, "ann", 5)
    assert rate(store, "bob", 1)
    assert [(rating.rater, rating.stars) for rating in store.ratings()] == [("ann", 5), ("bob", 1)]
    assert not rate(store, "eve", None)
    assert rate(store, "bob", None)
    assert store.rate("vae_sample", SUBJECT, "ann", 2, "grid")
    assert [rating.stars for rating in store.ratings(rater="ann")] == [5, 2]
    assert [rating.stars for rating in store.ratings(subject_kind="vae_sample")] == [2]
    assert store.rate("run_item", SUBJECT, "ann", 1, "grid")
    assert [rating.stars for rating in store.ratings(context="blind")] == [5]


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("stars", [0, 6, -1, 2.5, True, "3"]),
        ("rater", ["", " ", "x" * 81, "a\nb", "=1+1", "@ann", "-1"]),
        ("subject_hash", ["", "../x", "AB" * 32]),
        ("subject_kind", ["", "Run Item"]),
        ("context", ["", "aloud"]),
    ],
)
def test_a_rating_out_of_range_is_refused(store: Store, key: str, values: list[Any]) -> None:
    rating = {"subject_kind": "run_item", "subject_hash": SUBJECT, "rater": "ann", "stars": 3}
    for value in values:
        with pytest.raises(GenlabError) as caught:
            store.rate(**{**rating, "context": "blind", key: value})
        assert caught.value.key == key


def test_preferences_are_of_two_items_of_a_case_and_the_last_counts(store: Store) -> None:
    assert store.prefer("ann", 1, 2)
    assert not store.prefer("ann", 1, 2)
    for outcome, saved_as in (("first", "second"), ("tie", "tie"), ("both_bad", "both_bad")):
        assert store.prefer("ann", 2, 1, outcome)
        (saved,) = store.find(Preference)
        assert (saved.first_item, saved.second_item, saved.outcome) == (1, 2, saved_as)
    with refused("first", "both_bad", key="outcome"):
        store.prefer("ann", 1, 2, "neither")
    with refused():
        store.prefer("ann", 1, 3)


def test_the_last_opinion_of_a_rater_on_a_hypothesis_counts(store: Store) -> None:
    for hypothesis, rater, agrees in (
        ("small", "ann", True),
        ("small", "ann", False),
        ("small", "bob", True),
        ("many", "ann", True),
    ):
        assert store.opine("arc_grids", "vae_sample", SUBJECT, hypothesis, rater, agrees)
    opinions = store.find(Opinion, dataset="arc_grids")
    answers = [(opinion.hypothesis, opinion.rater, opinion.agrees) for opinion in opinions]
    assert answers == [("small", "ann", False), ("small", "bob", True), ("many", "ann", True)]
    assert store.find(Opinion, dataset="fashion_mnist") == []
