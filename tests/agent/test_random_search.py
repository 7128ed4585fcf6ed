"""Random search: the same attempts for every run and number of cores, drawn once, taken by runs."""

import json
import os
from dataclasses import replace
from pathlib import Path
from threading import Event, Lock
from typing import Any

import pytest
from agent_runs import UNREACHABLE, problem, settings
from sandboxes import needs_sandbox

from genlab.agent.config import Problem, Settings
from genlab.agent.evaluator.results import ModelSummary, SeedResult
from genlab.agent.library.toolbox import Toolbox
from genlab.agent.loop import Loop
from genlab.agent.planning.planner import Planner
from genlab.agent.random_search import (
    STAGE,
    find_finished_searches,
    run_search_baseline,
    search,
    write_stage_workspace,
)
from genlab.agent.registry import Attempt, Registry
from genlab.agent.workspace import SEARCH, Workspace, create_project

ATTEMPTS = 3
SHAPE = (1, 16, 16)


class ScoringJudge:
    """A judge that trains nothing: a number follows from code and seed."""

    outputs = 4

    def __init__(self) -> None:
        self.trained: list[tuple[str, int]] = []
        self.lock = Lock()

    def inspect(self, *_: object) -> ModelSummary:
        return ModelSummary(parameters=9, multiply_adds=9)

    def evaluate(self, source: str, name: str, training: Any, seed: int, examples: int) -> Any:
        self.trained.append((source, seed))
        score = len(source) % 97 / 100 + seed / 1000
        metrics = {"val_loss": score, "accuracy": score, "n": 40}
        return SeedResult(seed, metrics, 0.1, 2.5, [1.0], False), str(seed).encode()


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> ScoringJudge:
    """The judge of every toolbox."""
    scoring = ScoringJudge()

    class Borrowed:
        def __enter__(self) -> ScoringJudge:
            return scoring

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(Toolbox, "borrow_judge", lambda toolbox: Borrowed())
    return scoring


def at(data: Path, **changes: Any) -> Problem:
    """The problem of a run whose datasets' folders lie in `data`."""
    found = problem(UNREACHABLE, SHAPE, seeds=3, **changes)
    return replace(found, settings=replace(found.settings, data=data))


def draw(wanted: Problem, folder: Path, attempts: int = ATTEMPTS) -> list[Attempt]:
    workspace = create_project(folder, wanted.settings.goal, wanted.settings.search_key)
    return search(wanted, workspace, attempts, lambda line: None)


def draw_stage(wanted: Problem, folder: Path, attempts: int = ATTEMPTS) -> list[Attempt]:
    """What stage agent_search writes."""
    draw(wanted, folder, attempts)
    return write_stage_workspace(wanted.settings, Workspace(folder), wanted.settings.data / STAGE)


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def designs(attempts: list[Attempt]) -> list[Any]:
    return [(each.number, each.config, each.training, each.seeds) for each in attempts]


def test_the_first_attempts_are_the_same_in_a_longer_search(
    judge: ScoringJudge, tmp_path: Path
) -> None:
    short = draw(at(tmp_path), tmp_path / "short")
    long = draw(at(tmp_path), tmp_path / "long", attempts=6)
    assert designs(long[:ATTEMPTS]) == designs(short)


@pytest.mark.parametrize("cores", [1, 2, 8])
def test_the_stage_writes_the_same_bytes_for_any_number_of_cores(
    cores: int, judge: ScoringJudge, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As a search that looks at no attempt ahead."""
    first, second = tmp_path / "one", tmp_path / "two"
    wanted = at(first)
    workspace = create_project(tmp_path / "plain", wanted.settings.goal)
    limits = wanted.settings.params.model_copy(update={"max_iterations": 5, "patience": 5})
    alone = replace(wanted.settings, params=limits, stop_at_goal=False)
    with Toolbox(workspace, alone) as toolbox:
        plain = replace(wanted, settings=alone)
        Loop(plain, toolbox, lambda line: None, None, planner=Planner(plain)).run()
    write_stage_workspace(wanted.settings, workspace, first / STAGE)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    draw_stage(at(second), tmp_path / "work", attempts=5)
    assert contents(first) == contents(second)
    text = b"".join(contents(first).values())
    assert b"2.5" not in text  # seconds of a training
    assert b"qe_20" not in text  # dates


def test_a_second_core_trains_the_next_seed_and_the_next_attempt(
    judge: ScoringJudge, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A training that has no other beside it would wait in vain."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    begun: dict[int, Event] = {number: Event() for number in range(20)}
    evaluate = judge.evaluate

    def wait(source: str, name: str, training: Any, seed: int, examples: int) -> Any:
        with judge.lock:
            place = len(judge.trained)
            result = evaluate(source, name, training, seed, examples)
        begun[place].set()
        # The first seed of attempt 1 and its last one, and the first one of attempt 2, which that
        # attempt finds under way.
        if place in (0, 2, 3):
            assert begun[place + 1].wait(20)
        return result

    judge.evaluate = wait  # type: ignore[method-assign]
    draw(at(tmp_path), tmp_path / "work", attempts=2)
    first, second = judge.trained[0][0], judge.trained[3][0]
    assert [seed for _, seed in judge.trained[:5]] == [0, 1, 2, 0, 1]
    assert first == judge.trained[1][0] == judge.trained[2][0] != second
    assert len(judge.trained) == len(set(judge.trained))  # nothing twice


@pytest.mark.parametrize(("drawn", "trained"), [(5, False), (2, True)])
def test_a_run_takes_what_the_stage_has_drawn_and_draws_the_rest(
    drawn: int, trained: bool, judge: ScoringJudge, tmp_path: Path
) -> None:
    wanted = at(tmp_path / "data")
    stage = draw_stage(wanted, tmp_path / "stage", attempts=drawn)
    whole = draw(wanted, tmp_path / "whole")
    judge.trained.clear()
    run = create_project(tmp_path / "run", wanted.settings.goal)
    run_search_baseline(wanted, run, ATTEMPTS, lambda line: None)
    beside = [
        each for each in Registry(Workspace(run.root / SEARCH)).read_attempts() if each.number
    ]
    assert [each.number for each in beside] == [1, 2, 3]
    assert [each.config for each in beside] == [each.config for each in whole]
    assert bool(judge.trained) == trained
    known = {each.digest for each in stage}
    assert [each.digest in known for each in beside] == [number < drawn for number in range(3)]


def test_what_was_drawn_for_another_budget_or_by_other_code_is_not_taken(
    judge: ScoringJudge, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wanted = at(tmp_path)
    draw_stage(wanted, tmp_path / "stage")
    run = wanted.settings
    assert [each.root for each in find_finished_searches(run)] == [tmp_path / STAGE]
    for changes in ({"max_iterations": 9, "patience": 2}, {"backend": "replay", "max_cost": 1.0}):
        params = run.params.model_copy(update=changes)
        assert find_finished_searches(replace(run, params=params))
    assert not find_finished_searches(
        replace(run, params=run.params.model_copy(update={"examples": 65}))
    )
    assert not find_finished_searches(replace(run, seed=1))
    monkeypatch.setattr("genlab.agent.config.digest_code", lambda row: f"another {row}")
    assert not find_finished_searches(run)


def test_a_training_of_the_stage_is_not_repeated_by_a_run(
    judge: ScoringJudge, tmp_path: Path
) -> None:
    wanted = at(tmp_path)
    stage = draw_stage(wanted, tmp_path / "stage")
    judge.trained.clear()
    sources = find_finished_searches(wanted.settings)
    with Toolbox(create_project(tmp_path / "run"), wanted.settings, sources=sources) as toolbox:
        digest = stage[0].digest
        result, weights = toolbox.find_finished(digest, 0) or pytest.fail("it is not there")
        assert (result.seed, result.seconds, weights) == (0, 0.0, b"0")
        assert toolbox.find_finished(digest, 7) is None
        assert toolbox.find_finished("another", 0) is None
    assert judge.trained == []


def test_search_trains_in_the_sandbox_what_it_foresees(tmp_path: Path) -> None:
    """A whole search of real trainings, as the stage has it."""
    needs_sandbox()
    wanted: Settings = settings(UNREACHABLE, max_iterations=2)
    workspace = create_project(tmp_path / "work", wanted.goal, wanted.search_key)
    with Toolbox(workspace, wanted) as toolbox:
        asked = toolbox.describe_problem({})
    attempts = search(asked, workspace, 2, lambda line: None)
    assert [len(each.seeds) for each in attempts] == [2, 2]
    stored = json.loads((workspace.experiments / "registry.json").read_text())
    assert [each["number"] for each in stored] == [1, 2]
