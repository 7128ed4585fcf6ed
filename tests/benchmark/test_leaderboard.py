"""The leaderboard: ranks, their uncertainty, and the columns beside the score."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_benchmark import change_items

from genlab.benchmark.leaderboard.intervals import LEAST
from genlab.benchmark.leaderboard.standings import (
    STARS_LEAD,
    Standing,
    rank_contenders,
    read_tables,
    summarize_raters,
)
from genlab.benchmark.leaderboard.table import list_notes, tabulate
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Contender

FIRST = "2026-01-01"
SECOND = "2026-01-02"
THIRD = "2026-01-03"
Outcome = float | str | None
"""A score, the kind of a failure, or None for a time-out."""


def make_store(
    folder: Path,
    outcomes: dict[str, Sequence[Outcome]],
    run_id: str = FIRST,
    digest: str = "",
    **values_of_all: Any,
) -> Store:
    """Make a store with one run; outcomes: of each case, by tool."""
    store = Store(folder / "genlab.sqlite3")
    names = [f"case_{i:03}" for i in range(len(next(iter(outcomes.values()))))]
    cases = [{"case_id": name, "digest": digest + name} for name in names]
    store.create_run(run_id, run_id, cases, [Contender(tool_id=tool) for tool in outcomes])
    changes: list[tuple[int, dict[str, Any]]] = []
    for item in store.items(run_id):
        outcome = outcomes[item.tool_id][names.index(item.case_id)]
        values: dict[str, Any] = {"status": "scored", "score": outcome, "seconds": 2.0}
        if not isinstance(outcome, float):
            values = {"status": "failed", "failure_kind": outcome or "timeout"}
        else:
            values["image_sha256"] = f"{item.item_id:064x}"
            values["components"] = {"identity": outcome, "faces": None}
        changes.append((item.item_id, {**values, "cost": 0.5, **values_of_all}))
    change_items(store, changes)
    return store


def standings(store: Store, run_id: str | None = None, **options: Any) -> dict[str, Standing]:
    rows = rank_contenders(read_tables(store, run_id), **options)
    return {standing.label: standing for standing in rows}


def test_tools_that_differ_are_ranked_and_others_share_a_rank(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    difficulty = rng.uniform(-0.3, 0.3, 12)
    noise = rng.normal(0, 0.02, (3, 12))
    means = {"low": 0.4, "twin_a": 0.6, "twin_b": 0.6}
    outcomes: dict[str, Sequence[Outcome]] = {
        tool: list(mean + difficulty + noise[n]) for n, (tool, mean) in enumerate(means.items())
    }
    with make_store(tmp_path, outcomes) as store:
        rows = standings(store)
    assert {tool: rows[tool].rank for tool in means} == {"low": 3, "twin_a": 1, "twin_b": 1}
    # Single intervals overlap, since cases differ in difficulty; paired, they differ.
    assert (rows["low"].high or 0) > (rows["twin_a"].low or 1)
    assert rows["low"].score == pytest.approx(np.mean(outcomes["low"]))


def test_a_failure_counts_as_0_unless_the_contender_could_not_help_it(tmp_path: Path) -> None:
    lost = ["no_face", "refused", "timeout", "wrong_size"]
    excused = ["over_budget", "unavailable", "no_avatar_face", "rate_limited"]
    outcomes: dict[str, Sequence[Outcome]] = {
        "flaky": [0.95, 0.95, 0.95, 0.95, *lost],
        "steady": [0.6] * 8,
        "unlucky": [0.7, 0.7, 0.7, 0.7, *excused],
        "broken": [None] * 8,
    }
    with make_store(tmp_path, outcomes) as store:
        rows = standings(store)
    assert list(rows) == ["steady", "flaky", "broken", "unlucky"]  # 4 known cases have no rank
    flaky = rows["flaky"]
    broken = rows["broken"]
    unlucky = rows["unlucky"]
    assert (flaky.score, flaky.scored_mean) == (pytest.approx(0.475), pytest.approx(0.95))
    assert (flaky.scored, flaky.cases, flaky.excused) == (4, 8, 0)
    assert flaky.failures == dict.fromkeys(lost, 1)
    assert flaky.cost == pytest.approx(4.0)
    assert (unlucky.score, unlucky.excused, unlucky.rank) == (pytest.approx(0.7), 4, None)
    assert (broken.score, broken.scored_mean, broken.seconds) == (0.0, None, None)
    assert flaky.components == {"identity": pytest.approx(0.95)}


def test_draws_are_averaged_with_their_spread_and_models_have_a_row_each(tmp_path: Path) -> None:
    models = [Contender(tool_id="a", model=model) for model in ("good", "bad")]
    scores = (0.7, 0.9, 0.2, 0.4)  # two draws of each, in every case
    with Store(tmp_path / "genlab.sqlite3") as store:
        store.create_run("r", "r", [{"case_id": f"c{i}"} for i in range(6)], models, repeats=2)
        draws = [{"status": "scored", "score": score} for score in scores * 6]
        change_items(store, list(enumerate(draws, 1)))
        good, bad = rank_contenders(read_tables(store))
    rows = [(row.label, row.rank, row.cases) for row in (good, bad)]
    assert rows == [("a (good)", 1, 6), ("a (bad)", 2, 6)]
    assert (good.score, bad.score) == (pytest.approx(0.8), pytest.approx(0.3))
    assert good.spread == pytest.approx(np.std([0.7, 0.9], ddof=1))


def test_tools_are_compared_on_the_cases_they_share(tmp_path: Path) -> None:
    # `picky` is worse on every case that both completed, but completed only the easy ones.
    easy = [0.9] * 8
    hard = [0.2] * 8
    jitter = np.linspace(0, 0.04, 8)
    outcomes: dict[str, Sequence[Outcome]] = {
        "picky": [*(np.array(easy) - 0.1 - jitter), *["unavailable"] * 8],
        "brave": [*easy, *hard],
    }
    with make_store(tmp_path, outcomes) as store:
        rows = standings(store)
    assert (rows["picky"].score or 0) > (rows["brave"].score or 1)
    assert (rows["brave"].rank, rows["picky"].rank) == (1, 2)


def test_few_cases_have_no_rank_and_a_case_of_two_runs_counts_once(tmp_path: Path) -> None:
    few = LEAST - 1
    make_store(tmp_path, {"a": [0.2] * few, "b": [0.1] * few}).close()
    with make_store(tmp_path, {"a": [0.4] * few, "b": [0.1] * few}, SECOND) as store:
        both = standings(store)
        first = standings(store, run_id=FIRST)
    assert {line.rank for line in both.values()} == {None}
    assert (both["a"].scored, both["a"].cases, both["a"].score) == (few, few, pytest.approx(0.3))
    assert first["a"].score == pytest.approx(0.2)
    with make_store(tmp_path, {"a": [0.4] * few}, THIRD, digest="another photograph") as store:
        assert standings(store)["a"].cases == 2 * few


def test_versions_of_a_tool_have_a_strength_each(tmp_path: Path) -> None:
    versions = [Contender(tool_id="a", version=version) for version in "12"]
    with Store(tmp_path / "genlab.sqlite3") as store:
        cases = [{"case_id": f"c{i}"} for i in range(12)]
        store.create_run("r", "r", cases, [*versions, Contender(tool_id="b")])
        for first in range(1, 37, 3):  # the second version is preferred to b, and b to the first
            store.prefer("ada", first + 1, first + 2)
            store.prefer("ada", first + 2, first)
        names = [*(f"a, {version.contender_id}" for version in versions), "b"]
        old, new, rival = (summarize_raters(read_tables(store)).strengths[name] for name in names)
    assert (old.value or 0) < (rival.value or 0) < (new.value or 0)
    assert (old.n, new.n, rival.n) == (12, 12, 24)


def test_scores_of_older_constants_are_left_out_and_counted(tmp_path: Path) -> None:
    old = {"score_version": "9"}
    new = {"score_version": "10"}
    make_store(tmp_path, {"a": [0.2] * 6, "gone": [0.9] * 6}, FIRST, **old).close()
    with make_store(tmp_path, {"a": [0.4] * 5}, SECOND, **new) as store:
        rows = standings(store)
        first_run = standings(store, run_id=FIRST)
        a = rows["a"]
        gone = rows["gone"]
        assert (a.score, a.scored, a.cases, a.older) == (pytest.approx(0.4), 5, 6, 6)
        assert a.components == {"identity": pytest.approx(0.4)}
        assert (gone.score, gone.rank, gone.older, gone.components) == (None, None, 6, {})
        assert any("12 scores" in note for note in list_notes(list(rows.values())))
        assert (first_run["a"].score, first_run["a"].older) == (pytest.approx(0.2), 0)
        assert not any("older" in note for note in list_notes(list(first_run.values())))
        for image in {item.image_sha256 for item in store.items(FIRST)}:
            store.rate("run_item", image, "ada", 3, "blind")
        # Items of the two runs with equal numbers have equal images.
        assert summarize_raters(read_tables(store)).spearman.n == 0
        assert summarize_raters(read_tables(store, FIRST)).spearman.n == 12


def test_stars_weigh_images_alike_and_contexts_are_never_pooled(tmp_path: Path) -> None:
    with make_store(tmp_path, {"a": [0.2, 0.9], "b": [0.5, 0.5]}) as store:
        first, second = (item for item in store.items() if item.tool_id == "a")
        ratings = (("ada", first, 1), ("ada", first, 2), ("mary", first, 4), ("ada", second, 5))
        for rater, image, stars in ratings:
            # By its digest alone, as after an import from another machine.
            store.rate("run_item", image.image_sha256, rater, stars, "blind")
        store.rate("run_item", first.image_sha256, "ada", 1, "grid")
        store.rate("run_item", first.image_sha256, "model, prompt 1", 3, "judge")
        rows = standings(store)
    assert rows["b"].stars == {}
    blind, grid, judge = rows["a"].stars.values()
    assert (blind.mean, blind.raters, blind.ratings) == (pytest.approx((3 + 5) / 2), 2, 3)
    assert (grid.mean, judge.mean) == (1, 3)


def test_blind_stars_lead_once_there_are_enough(tmp_path: Path) -> None:
    with make_store(tmp_path, {"a": [0.9] * 6, "b": [0.5] * 6}) as store:
        assert "blind stars" not in tabulate(rank_contenders(read_tables(store)))[0]
        for item in store.items():
            for rater in ("ada", "mary"):
                stars = 1 if item.tool_id == "a" else 5
                store.rate("run_item", item.image_sha256, rater, stars, "blind")
        rows = rank_contenders(read_tables(store))
        agreed = summarize_raters(read_tables(store)).alpha
    assert (agreed.n, agreed.value) == (12, pytest.approx(1))
    assert [(row.label, row.stars["blind"].ratings) for row in rows] == [("b", 12), ("a", 12)]
    assert STARS_LEAD <= 12
    assert list(tabulate(rows)[0])[2] == "blind stars"
