"""The leaderboard: who leads, how certainly, and what is shown beside a score."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genlab.benchmark.agreement import Finding
from genlab.benchmark.bootstrap import LEAST
from genlab.benchmark.chart import scores
from genlab.benchmark.leaderboard import People, Standing, as_csv, leaderboard, people
from genlab.benchmark.store.repository import Store
from genlab.benchmark.terminal import left_out

FIRST, SECOND = "2026-01-01", "2026-01-02"
Outcomes = dict[str, list[float | None]]


def make_store(folder: Path, outcomes: Outcomes, run_id: str = FIRST, **details: Any) -> Store:
    """A store with one run: by tool, the score of each case, None for a failure."""
    store = Store(folder / "genlab.sqlite3")
    count = len(next(iter(outcomes.values())))
    cases = [{"case_id": f"case_{i:03}"} for i in range(count)]
    store.create_run(run_id, run_id, {}, cases, [{"tool_id": tool} for tool in outcomes])
    changes: list[tuple[int, dict[str, Any]]] = []
    for item in store.items(run_id):
        score = outcomes[item.tool_id][int(item.case_id[-3:])]
        values: dict[str, Any] = {"status": "scored", "score": score, "seconds": 2.0, "cost": 0.5}
        if score is None:
            values = {"status": "failed", "failure_kind": "timeout", "cost": 0.5}
        else:
            values["image_sha256"] = f"{item.item_id:064x}"
            values["components"] = {"identity": score, "faces": None}
        changes.append((item.item_id, {**values, "details": details}))
    store.set_items(changes)
    return store


def standings(store: Store, **options: Any) -> dict[str, Standing]:
    return {standing.tool: standing for standing in leaderboard(store, **options)}


def test_tools_that_differ_on_the_same_cases_are_ranked_and_others_share_a_rank(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(1)
    difficulty = rng.uniform(-0.3, 0.3, 12)
    noise = rng.normal(0, 0.02, (3, 12))
    means = {"low": 0.4, "twin_a": 0.6, "twin_b": 0.6}
    outcomes: Outcomes = {
        tool: list(mean + difficulty + noise[n]) for n, (tool, mean) in enumerate(means.items())
    }
    with make_store(tmp_path, outcomes) as store:
        found = standings(store)
    assert {tool: found[tool].rank for tool in means} == {"low": 3, "twin_a": 1, "twin_b": 1}
    # Single intervals overlap, since cases differ in difficulty; paired, they differ.
    assert (found["low"].high or 0) > (found["twin_a"].low or 1)
    assert found["low"].score == pytest.approx(np.mean(outcomes["low"]))


def test_a_failure_is_no_score_and_no_zero(tmp_path: Path) -> None:
    outcomes: Outcomes = {
        "steady": [0.5] * 8,
        "flaky": [0.9] * 6 + [None, None],
        "broken": [None] * 8,
    }
    with make_store(tmp_path, outcomes) as store:
        found = standings(store)
    assert list(found) == ["flaky", "steady", "broken"]
    flaky, broken = found["flaky"], found["broken"]
    assert flaky.score == pytest.approx(0.9)
    assert (flaky.scored, flaky.cases, flaky.failures) == (6, 8, {"timeout": 2})
    assert flaky.cost == pytest.approx(4.0)
    assert (broken.score, broken.low, broken.rank, broken.seconds) == (None, None, None, None)
    assert flaky.components == {"identity": pytest.approx(0.9)}
    for name in ("first", "second"):
        scores(tmp_path / name, list(found.values()))
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_tools_are_compared_on_the_cases_they_share(tmp_path: Path) -> None:
    # `picky` is worse on every case that both did, but did the easy ones alone.
    easy, hard = [0.9] * 8, [0.2] * 8
    jitter = np.linspace(0, 0.04, 8)
    outcomes: Outcomes = {
        "picky": [*(np.array(easy) - 0.1 - jitter), *[None] * 8],
        "brave": [*easy, *hard],
    }
    with make_store(tmp_path, outcomes) as store:
        found = standings(store)
    assert (found["picky"].score or 0) > (found["brave"].score or 1)
    assert (found["brave"].rank, found["picky"].rank) == (1, 2)


def test_few_cases_have_no_rank_and_a_case_of_two_runs_counts_once(tmp_path: Path) -> None:
    few = LEAST - 1
    make_store(tmp_path, {"a": [0.2] * few, "b": [0.1] * few}).close()
    with make_store(tmp_path, {"a": [0.4] * few, "b": [0.1] * few}, SECOND) as store:
        both, first = standings(store), standings(store, run_id=FIRST)
    assert {line.rank for line in both.values()} == {None}
    assert (both["a"].scored, both["a"].cases, both["a"].score) == (few, few, pytest.approx(0.3))
    assert first["a"].score == pytest.approx(0.2)


def test_scores_of_older_constants_are_left_out_and_counted(tmp_path: Path) -> None:
    old, new = {"versions": {"constants": "9"}}, {"versions": {"constants": "10"}}
    make_store(tmp_path, {"a": [0.2] * 6, "gone": [0.9] * 6}, FIRST, **old).close()
    with make_store(tmp_path, {"a": [0.4] * 5}, SECOND, **new) as store:
        found, one = standings(store), standings(store, run_id=FIRST)
        a, gone = found["a"], found["gone"]
        assert (a.score, a.scored, a.cases, a.older) == (pytest.approx(0.4), 5, 6, 6)
        assert a.components == {"identity": pytest.approx(0.4)}
        assert (gone.score, gone.rank, gone.older, gone.components) == (None, None, 6, {})
        assert "12 scores" in left_out(found.values())[0]
        assert (one["a"].score, one["a"].older) == (pytest.approx(0.2), 0)
        assert left_out(one.values()) == []
        for image in {item.image_sha256 for item in store.items(FIRST)}:
            store.rate("run_item", image, "ada", 3, blind=True)
        # The images of the two runs' items are the same where their ids are.
        assert people(store).spearman.n == 0
        assert people(store, run_id=FIRST).spearman.n == 12


def test_stars_weigh_images_alike_and_the_last_one_counts(tmp_path: Path) -> None:
    with make_store(tmp_path, {"a": [0.2, 0.9], "b": [0.5, 0.5]}) as store:
        first, second = (item for item in store.items() if item.tool_id == "a")
        given = (("ada", first, 1), ("ada", first, 2), ("mary", first, 4), ("ada", second, 5))
        for rater, image, stars in given:
            # By its content alone: as after an import from another machine.
            store.rate("run_item", image.image_sha256, rater, stars, blind=True)
        found = standings(store)
    assert found["b"].stars is None
    assert found["a"].stars == pytest.approx((3 + 5) / 2)
    assert (found["a"].raters, found["a"].ratings) == (2, 3)


def test_csv_holds_every_column_and_no_formula() -> None:
    line = Standing(
        "=cmd()", 1, 0.5, 0.4, 0.6, 3, 4, 0.1, None, None, 0, 0, {"timeout": 1}, {"identity": 0.5}
    )
    [row] = csv.DictReader(io.StringIO(as_csv([line])))
    assert row["tool"] == "'=cmd()"
    assert (row["score"], row["stars"], row["failures"]) == ("0.5", "", "timeout:1")
    assert set(row) == set(Standing.__dataclass_fields__) - {"judge"}  # where nobody judged
    found = People(
        Finding(0.5, 0.25, 0.75, 9),
        Finding(None, None, None, 2, "too few"),
        {"=cmd()": Finding(1.5, 1.0, 2.0, 7)},
    )
    first, second = as_csv([line], found).split("\n\n")
    assert first + "\n" == as_csv([line])
    assert second.splitlines() == [
        "people,tool,value,low,high,n,why",
        "alpha,,0.5,0.25,0.75,9,",
        "spearman,,,,,2,too few",
        "strength,'=cmd(),1.5,1,2,7,",
    ]
