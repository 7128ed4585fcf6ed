"""The registry loses no attempt: not to another process, a kill, or a damaged file."""

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest
from agent_runs import attempt

from genlab.agent.registry import Attempt, Registry, format_record
from genlab.agent.workspace import Workspace, scaffold
from genlab.core.errors import GenlabError

FIELDS = (
    "run_id", "timestamp", "model_name", "dataset", "metrics_summary", "experiment_dir", "decision"
)  # fmt: skip


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return scaffold("trial", tmp_path)


def new_attempt(workspace: Workspace, *accuracies: float, **fields: Any) -> Attempt:
    folder = workspace.create_run_folder()
    names = {"run_id": folder.name, "experiment_dir": workspace.relative(folder)}
    return attempt(1, *accuracies, **names, **fields)


def test_an_attempt_is_kept_with_the_fields_that_others_read(workspace: Workspace) -> None:
    registry = Registry(workspace)
    entered = new_attempt(workspace, 0.5, added_later="kept")
    registry.put(entered)
    registry.write()
    stored = json.loads(registry.path.read_text())
    assert set(FIELDS) <= set(stored[0])
    assert stored[0]["added_later"] == "kept"
    assert registry.read_attempts() == [entered]
    decided = entered.model_copy(update={"decision": "Go on.", "verdict": "missed"})
    registry.put(decided)
    assert registry.read_attempts() == [decided]
    results = json.loads((workspace.root / entered.experiment_dir / "results.json").read_text())
    assert results["decision"] == "Go on."


def test_values_are_of_seeds_and_a_failure_has_none(workspace: Workspace) -> None:
    Registry(workspace).put(new_attempt(workspace, 0.5, float("nan"), 0.7))
    (stored,) = Registry(workspace).read_attempts()
    assert stored.values("accuracy") == [0.5, 0.7]
    assert stored.mean("accuracy") == pytest.approx(0.6)
    assert stored.mean("macro_f1") is None
    failed = stored.model_copy(update={"failure": "broken", "metrics_summary": {}})
    assert failed.values("accuracy") == []
    assert failed.parameters is None


@pytest.mark.parametrize(
    "damage", ["", "null", '{"run_id": 3}', '{"verdict": []}', "[" * 100_000], ids=len
)
def test_a_damaged_record_is_not_a_missing_one(workspace: Workspace, damage: str) -> None:
    registry = Registry(workspace)
    attempts = [new_attempt(workspace, value) for value in (0.1, 0.3)]
    for stored in attempts:
        registry.put(stored)
    path = workspace.root / attempts[0].experiment_dir / "results.json"
    path.write_text(damage)
    for method in (registry.read_attempts, registry.recover, registry.write):
        with pytest.raises(GenlabError, match=f"rm -r {path.parent}"):
            method()
    assert path.read_text() == damage


def test_attempts_of_another_version_are_one_line(workspace: Workspace) -> None:
    (workspace.create_run_folder() / "results.json").write_text('{"run_id": "qe_1", "version": 1}')
    with pytest.raises(GenlabError, match=r"version.* 2, got 1; start a new workspace"):
        Registry(workspace).read_attempts()


def test_a_killed_process_is_cleaned_up_by_the_run_that_holds_the_lock(
    workspace: Workspace,
) -> None:
    registry = Registry(workspace)
    finished = new_attempt(workspace, 0.5)
    unfinished_folder = workspace.create_run_folder()
    registry.put(finished)
    registry.path.write_text("[]")  # killed between the two files of an attempt
    with workspace.lock():
        registry.recover()
    assert json.loads(registry.path.read_text()) == [format_record(finished)]
    assert not unfinished_folder.exists()


def test_attempts_that_a_later_start_did_not_come_to_have_no_number(workspace: Workspace) -> None:
    registry = Registry(workspace)
    earlier = new_attempt(workspace, 0.1)
    current = new_attempt(workspace, 0.3)
    registry.put(earlier)
    registry.put(current)
    registry.unnumber_others([current])
    numbers = {stored.run_id: stored.number for stored in registry.read_attempts()}
    assert numbers == {earlier.run_id: 0, current.run_id: 1}


def _write(workspace: Workspace) -> None:
    for _ in range(10):
        Registry(workspace).put(new_attempt(workspace, 0.5))


def test_processes_that_write_at_once_lose_nothing(workspace: Workspace) -> None:
    with multiprocessing.get_context("fork").Pool(3) as pool:  # nothing is imported again
        pool.map_async(_write, [workspace] * 3, chunksize=1).get(timeout=120)
    run_ids = [stored.run_id for stored in Registry(workspace).read_attempts()]
    assert len(run_ids) == len(set(run_ids)) == 30
