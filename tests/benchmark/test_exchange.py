"""Files for exchange: exported ratings are imported equal; an error names the faulty place."""

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from refusals import refused
from small_benchmark import change_items
from swap_runs import HOSTILE, RUN, write_project

from genlab.benchmark.exchange.files import read_ratings, write_ratings
from genlab.benchmark.exchange.label_studio import CONTROL, export_tasks, import_tasks
from genlab.benchmark.exchange.results import export_results
from genlab.benchmark.exchange.stars import export_stars, import_stars
from genlab.benchmark.exchange.votes import export_votes, import_votes
from genlab.benchmark.store.repository import STORE, Store
from genlab.benchmark.store.schema import OUTCOMES, Contender, Preference, now

CASES = [{"case_id": "one"}, {"case_id": "two"}]
TOOLS = [Contender(tool_id="a", options={"model": "x"}), Contender(tool_id="b")]
NAMES = ['ann "the" first', "Zoë, bob", "李"]
MARK = "ab" * 32

Change = Callable[[Any], object]


def add_images(store: Store) -> None:
    """Give each item of the run a different image."""
    items = store.items(RUN)
    shas = (f"{number:064x}" for number in range(1, 9))
    change_items(
        store, [(i.item_id, {"image_sha256": s}) for i, s in zip(items, shas, strict=False)]
    )


def make_store(path: Path) -> Store:
    store = Store(path)
    store.create_run(RUN, now(), CASES, TOOLS)
    add_images(store)
    return store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make_store(tmp_path / "runs" / STORE)


@pytest.fixture
def other_store(tmp_path: Path) -> Store:
    """A store that has the same run after another one, so that its items have other numbers."""
    store = Store(tmp_path / "other.sqlite3")
    store.create_run("2025-12-31", now(), CASES, TOOLS)
    store.create_run(RUN, now(), CASES, TOOLS[::-1])
    swapped = dict(zip((5, 6, 7, 8), (2, 1, 4, 3), strict=True))
    change_items(store, [(n, {"image_sha256": f"{s:064x}"}) for n, s in swapped.items()])
    return store


# stars


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        (",4,", ",9,", "stars"),
        (",blind,", ",perhaps,", "context"),
        ("run_item,", "Run Item,", "subject_kind"),
        ("ann", "=ann", "rater"),
        ("20", "x20", "rated"),
        (r"2\d{3}-[^,]+", "9999-12-31T23:59:59-05:00", "rated"),
        ("stars", "points", None),
        (",4,blind", ",4", None),
    ],
)
def test_a_fault_in_a_csv_is_named_with_its_line_and_nothing_is_kept(
    store: Store, other_store: Store, tmp_path: Path, old: str, new: str, key: str | None
) -> None:
    store.rate("run_item", MARK, "ann", 4, "blind")
    path = tmp_path / "ratings.csv"
    export_stars(store, path)
    path.write_text(re.sub(old, new, path.read_text(), count=1))
    with refused("line ", key=key, path=path):
        import_stars(other_store, path)
    assert other_store.ratings() == []


def test_csv_keeps_every_rating_and_the_newer_one(
    store: Store, other_store: Store, tmp_path: Path
) -> None:
    for number, rater in enumerate(NAMES, 1):
        store.rate("run_item", f"{number:064x}", rater, number, "grid", session="s")
    first = tmp_path / "first.csv"
    second = tmp_path / "second.csv"
    assert export_stars(store, first) == 3
    assert import_stars(other_store, first) == 3
    assert import_stars(other_store, first) == 0
    export_stars(other_store, second)
    assert first.read_bytes() == second.read_bytes()
    store.rate("run_item", f"{3:064x}", "李", 5, "grid")
    assert import_stars(store, first) == 0
    assert [rating.stars for rating in store.ratings()] == [1, 2, 5]


# votes


def test_votes_come_back_equal_in_a_store_with_other_numbers(
    store: Store, other_store: Store, tmp_path: Path
) -> None:
    for rater, outcome in zip([*NAMES, "bob"], OUTCOMES, strict=True):
        store.prefer(rater, 1, 2, outcome, session="s")
        store.prefer(rater, 4, 3, outcome)
    first = tmp_path / "first.csv"
    second = tmp_path / "second.csv"
    assert export_votes(store, first) == 8
    words = set(pd.read_csv(first).winner)
    assert words == {"model_a", "model_b", "tie", "both_bad"}
    assert import_votes(other_store, first) == (8, 0)
    assert import_votes(other_store, first) == (0, 0)
    export_votes(other_store, second)
    assert first.read_bytes() == second.read_bytes()
    outcomes = {
        (vote.rater, vote.first_item): vote.outcome for vote in other_store.find(Preference)
    }
    assert outcomes[NAMES[0], 5] == "second"  # the tools are in the other order there
    store.prefer(NAMES[0], 1, 2, "tie")
    assert import_votes(store, first) == (0, 0)  # this store's answer is newer


@pytest.mark.parametrize(
    ("old", "new", "key", "named"),
    [
        (",tie,", ",draw,", "winner", "'draw'"),
        (",tie,", ",TIE,", "winner", "'TIE'"),
        (",tie,", ",,", "winner", "''"),
        (",tie,", ",1,", "winner", "'1'"),
        ("Zoë", "=Zoë", "rater", "=Zoë"),
        ("image_b", "picture", None, "image_b"),
    ],
)
def test_an_unknown_word_in_votes_is_refused_with_its_line(
    store: Store,
    other_store: Store,
    tmp_path: Path,
    old: str,
    new: str,
    key: str | None,
    named: str,
) -> None:
    path = tmp_path / "votes.csv"
    store.prefer("ann", 1, 2)
    store.prefer("Zoë", 3, 4, "tie")
    export_votes(store, path)
    path.write_text(path.read_text().replace(old, new, 1))
    with refused("line ", named, key=key, path=path):
        import_votes(other_store, path)
    assert other_store.find(Preference) == []


def test_votes_on_images_that_are_not_here_are_left_out_and_counted(
    store: Store, tmp_path: Path
) -> None:
    store.prefer("ann", 1, 2)
    path = tmp_path / "votes.csv"
    export_votes(store, path)
    with Store(tmp_path / "empty.sqlite3") as empty:
        assert import_votes(empty, path) == (0, 1)
        [_, line] = read_ratings(empty, path)
    assert "left out: 1" in line


# Label Studio


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_project(tmp_path_factory.mktemp("project"))


def list_ratings(store: Store) -> list[tuple[Any, ...]]:
    """List the fields of each rating but its number."""
    columns = ("subject_kind", "subject_hash", "rater", "stars", "context", "session", "rated")
    return sorted(tuple(getattr(rating, name) for name in columns) for rating in store.ratings())


@pytest.fixture
def tasks(project: Path, tmp_path: Path) -> tuple[Store, Path]:
    """A store with ratings of every kind, and its tasks."""
    store = Store(project / "runs" / STORE)
    store.rate("vae_sample", MARK, "Zoë, bob", 2, "grid", session="s")
    path = tmp_path / "tasks.json"
    export_tasks(store, path)
    return store, path


def change_task(path: Path, change: Change) -> None:
    """Change the first task that has stars."""
    entries = json.loads(path.read_text())
    change(next(entry for entry in entries if entry["annotations"]))
    path.write_text(json.dumps(entries))


def test_tasks_bring_every_rating_back_and_show_no_tool(
    tasks: tuple[Store, Path], other_store: Store
) -> None:
    store, path = tasks
    assert import_tasks(other_store, path) == (len(store.ratings()), [])
    assert list_ratings(other_store) == list_ratings(store)
    assert import_tasks(other_store, path) == (0, [])
    entries = json.loads(path.read_text())
    reserved = {
        "id",
        "annotator",
        "created_at",
        "updated_at",
        "lead_time",
        "annotation_id",
        CONTROL,
    }
    assert not any(reserved & set(entry["data"]) for entry in entries)
    rest = [{**entry["data"], "picture": ""} for entry in entries]
    assert "tool" not in json.dumps(rest)
    assert f'name="{CONTROL}"' in path.with_suffix(".xml").read_text()


def make_annotation(stars: object, **annotation: Any) -> Change:
    """Return a function that adds an annotation to a task as Label Studio does."""
    control = {"from_name": CONTROL, "to_name": "image", "type": "rating"}
    result = [{"id": "q1", **control, "value": {"rating": stars}}]
    annotated = {"completed_by": 7, "updated_at": "2026-01-31T12:00:00.5Z", "result": result}
    return lambda task: task["annotations"].append({**annotated, **annotation})


def test_stars_given_in_label_studio_are_blind_ones_of_its_user(
    tasks: tuple[Store, Path], other_store: Store
) -> None:
    store, path = tasks
    change_task(path, make_annotation(5))
    change_task(path, lambda task: task["annotations"][0]["result"][0]["value"].update(rating=2))
    change_task(path, lambda task: task["annotations"][0].update(updated_at="2099-01-01T00:00Z"))
    assert import_tasks(other_store, path) == (len(store.ratings()) + 1, [])
    [rating] = other_store.ratings(rater="label-studio-7")
    assert (rating.stars, rating.context) == (5, "blind")
    assert rating.rated == "2026-01-31T12:00:00.500000+00:00"
    [changed] = [rating for rating in other_store.ratings() if rating.rated.startswith("2099")]
    assert changed.stars == 2


@pytest.mark.parametrize("stars", [0, 6, 3.5, True, "4", None])
def test_stars_out_of_range_are_refused_with_their_task(
    tasks: tuple[Store, Path], other_store: Store, stars: object
) -> None:
    _, path = tasks
    change_task(path, make_annotation(stars))
    with refused("task ", key="stars", path=path):
        import_tasks(other_store, path)
    assert other_store.ratings() == []


def test_skipped_tasks_and_unknown_controls_are_left_out_by_name(
    tasks: tuple[Store, Path], other_store: Store
) -> None:
    store, path = tasks
    change_task(path, make_annotation(4, was_cancelled=True))
    note = {"from_name": "remark", "to_name": "image", "type": "textarea", "value": {"text": ["x"]}}
    change_task(path, lambda task: task["annotations"][0]["result"].append(note))
    changed, left_out = import_tasks(other_store, path)
    assert changed == len(store.ratings())
    assert ["remark" in line for line in left_out] == [True, False]
    assert "skipped" in left_out[1]


@pytest.mark.parametrize("text", ["{}", '[{"picture": "x", "stars": 4}]', "[3]"])
def test_another_json_is_refused_with_the_export_that_is_read(
    other_store: Store, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "export.json"
    path.write_text(text)
    with refused("format JSON", path=path):
        import_tasks(other_store, path)


# results


def test_results_have_a_row_per_item_and_no_formula(project: Path, tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    with Store(project / "runs" / STORE) as store:
        items = store.items(RUN)
        note = {item.item_id: start + "1+1" for item, start in zip(items, "=+-@\t", strict=False)}
        change_items(store, [(number, {"note": text}) for number, text in note.items()])
        assert export_results(store, path, RUN) == len(items)
    rows = list(csv.DictReader(path.open(encoding="utf-8", newline="")))
    assert not any(cell[:1] in "=+-@\t" for row in rows for cell in row.values() if cell)
    assert [row["note"] for row in rows[: len(note)]] == [f"'{text}" for text in note.values()]
    table = pd.read_csv(path, keep_default_na=False, na_values=[""])
    assert list(table.item_id) == [item.item_id for item in items]
    for name in ("score", "cost", "seconds", "repeat", "attempts"):
        wanted = [getattr(item, name) for item in items]
        assert np.array_equal(table[name].to_numpy(float), np.array(wanted, float), equal_nan=True)
    assert set(table.failure.dropna()) == {HOSTILE}
    assert table.blind_raters.max() == 2
    reference = (Path(__file__).parents[2] / "docs/reference/files.md").read_text()
    fixed = [name for name in table if not name.startswith("component_")]
    assert [name for name in fixed if f"`{name}`" not in reference] == []


def test_the_name_of_a_file_says_its_format_and_votes_go_beside(
    store: Store, other_store: Store, tmp_path: Path
) -> None:
    store.rate("run_item", f"{1:064x}", "ann", 4, "blind")
    store.prefer("ann", 1, 2, "tie")
    for name in ("ratings.csv", "ratings.json"):
        for line in write_ratings(store, tmp_path / name):
            assert line.startswith("wrote ")
        for file in (name, "ratings-votes.csv"):
            [_] = read_ratings(other_store, tmp_path / file)
    assert list_ratings(other_store) == list_ratings(store)
    assert [vote.outcome for vote in other_store.find(Preference)] == ["tie"]
