"""Random search: the same attempts for every run and number of cores, made once, taken by runs."""

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


class ScoringEvaluator:
    """An evaluator that trains nothing: its numbers follow from code and seed."""

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
def evaluator(monkeypatch: pytest.MonkeyPatch) -> ScoringEvaluator:
    """The evaluator of every toolbox."""
    scoring = ScoringEvaluator()

    class Borrowed:
        def __enter__(self) -> ScoringEvaluator:
            return scoring

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(Toolbox, "borrow_evaluator", lambda toolbox: Borrowed())
    return scoring


def make_problem(data: Path) -> Problem:
    """Make the problem of a run whose datasets' folders lie in `data`."""
    template = problem(UNREACHABLE, SHAPE, seeds=3)
    return replace(template, settings=replace(template.settings, data=data))


def run_search(task: Problem, folder: Path, attempts: int = ATTEMPTS) -> list[Attempt]:
    """Search in a new workspace."""
    workspace = create_project(folder, task.settings.goal, task.settings.search_key)
    return search(task, workspace, attempts, lambda line: None)


def run_stage(task: Problem, folder: Path, attempts: int = ATTEMPTS) -> list[Attempt]:
    """Search in a new workspace, and write what stage agent_search writes."""
    run_search(task, folder, attempts)
    return write_stage_workspace(task.settings, Workspace(folder), task.settings.data / STAGE)


def read_files(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def list_designs(attempts: list[Attempt]) -> list[dict[str, Any]]:
    fields = {"number", "config", "training", "seeds"}
    return [attempt.model_dump(include=fields) for attempt in attempts]


def test_the_first_attempts_are_the_same_in_a_longer_search(
    evaluator: ScoringEvaluator, tmp_path: Path
) -> None:
    short = run_search(make_problem(tmp_path), tmp_path / "short")
    long = run_search(make_problem(tmp_path), tmp_path / "long", attempts=6)
    assert list_designs(long[:ATTEMPTS]) == list_designs(short)


@pytest.mark.parametrize("cores", [1, 2, 8])
def test_the_stage_writes_the_same_bytes_for_any_number_of_cores(
    cores: int, evaluator: ScoringEvaluator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They are those of a plain loop, which trains nothing ahead."""
    plain_data = tmp_path / "one"
    task = make_problem(plain_data)
    workspace = create_project(tmp_path / "plain", task.settings.goal)
    limits = task.settings.params.model_copy(update={"max_iterations": 5, "patience": 5})
    plain_settings = replace(task.settings, params=limits, stop_at_goal=False)
    with Toolbox(workspace, plain_settings) as toolbox:
        plain = replace(task, settings=plain_settings)
        Loop(plain, toolbox, lambda line: None, None, planner=Planner(plain)).run()
    write_stage_workspace(task.settings, workspace, plain_data / STAGE)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    stage_data = tmp_path / "two"
    run_stage(make_problem(stage_data), tmp_path / "work", attempts=5)
    assert read_files(plain_data) == read_files(stage_data)
    text = b"".join(read_files(plain_data).values())
    assert b"2.5" not in text  # seconds of a training
    assert b"qe_20" not in text  # dates


def test_a_second_core_trains_the_next_seed_and_the_next_attempt(
    evaluator: ScoringEvaluator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Otherwise a training would wait in vain for the one beside it."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    begun: dict[int, Event] = {number: Event() for number in range(20)}
    evaluate = evaluator.evaluate

    def wait(source: str, name: str, training: Any, seed: int, examples: int) -> Any:
        with evaluator.lock:
            position = len(evaluator.trained)
            result = evaluate(source, name, training, seed, examples)
        begun[position].set()
        # The first seed of attempt 1 and its last one, and the first one of attempt 2, which was
        # started before that attempt.
        if position in (0, 2, 3):
            assert begun[position + 1].wait(20)
        return result

    evaluator.evaluate = wait  # type: ignore[method-assign]
    run_search(make_problem(tmp_path), tmp_path / "work", attempts=2)
    sources = [source for source, _ in evaluator.trained]
    assert [seed for _, seed in evaluator.trained[:5]] == [0, 1, 2, 0, 1]
    assert sources[0] == sources[1] == sources[2] != sources[3]
    assert len(evaluator.trained) == len(set(evaluator.trained))  # nothing twice


@pytest.mark.parametrize(("stage_attempts", "trains"), [(5, False), (2, True)])
def test_a_run_takes_the_attempts_of_the_stage_and_makes_the_rest(
    stage_attempts: int, trains: bool, evaluator: ScoringEvaluator, tmp_path: Path
) -> None:
    task = make_problem(tmp_path / "data")
    stage = run_stage(task, tmp_path / "stage", attempts=stage_attempts)
    expected = run_search(task, tmp_path / "whole")
    evaluator.trained.clear()
    workspace = create_project(tmp_path / "run", task.settings.goal)
    run_search_baseline(task, workspace, ATTEMPTS, lambda line: None)
    baseline = Registry(Workspace(workspace.root / SEARCH)).read_numbered()
    assert [attempt.number for attempt in baseline] == [1, 2, 3]
    assert [attempt.config for attempt in baseline] == [attempt.config for attempt in expected]
    assert bool(evaluator.trained) == trains
    digests = {attempt.digest for attempt in stage}
    assert [attempt.digest in digests for attempt in baseline] == [
        number <= stage_attempts for number in (1, 2, 3)
    ]


def test_a_search_with_another_budget_or_by_other_code_is_not_taken(
    evaluator: ScoringEvaluator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    task = make_problem(tmp_path)
    run_stage(task, tmp_path / "stage")
    run = task.settings

    def change(**changes: Any) -> Settings:
        return replace(run, params=run.params.model_copy(update=changes))

    (stage,) = find_finished_searches(run)
    assert stage.root == tmp_path / STAGE
    assert find_finished_searches(change(max_iterations=9, patience=2))
    assert find_finished_searches(change(backend="replay", max_cost=1.0))
    assert not find_finished_searches(change(examples=65))
    assert not find_finished_searches(replace(run, seed=1))
    monkeypatch.setattr("genlab.agent.config.digest_code", lambda row: f"another {row}")
    assert not find_finished_searches(run)


def test_a_training_of_the_stage_is_not_repeated_by_a_run(
    evaluator: ScoringEvaluator, tmp_path: Path
) -> None:
    task = make_problem(tmp_path)
    stage = run_stage(task, tmp_path / "stage")
    evaluator.trained.clear()
    sources = find_finished_searches(task.settings)
    with Toolbox(create_project(tmp_path / "run"), task.settings, sources=sources) as toolbox:
        digest = stage[0].digest
        result, weights = toolbox.find_finished(digest, 0) or pytest.fail("it is not there")
        assert result.seed == 0
        assert result.seconds == 0.0
        assert weights == b"0"
        assert toolbox.find_finished(digest, 7) is None
        assert toolbox.find_finished("another", 0) is None
    assert evaluator.trained == []


def test_a_search_of_real_trainings_trains_ahead(tmp_path: Path) -> None:
    needs_sandbox()
    chosen = settings(UNREACHABLE, max_iterations=2)
    workspace = create_project(tmp_path / "work", chosen.goal, chosen.search_key)
    with Toolbox(workspace, chosen) as toolbox:
        task = toolbox.describe_problem({})
    attempts = search(task, workspace, 2, lambda line: None)
    assert [len(attempt.seeds) for attempt in attempts] == [2, 2]
    stored = json.loads((workspace.experiments / "registry.json").read_text())
    assert [record["number"] for record in stored] == [1, 2]
