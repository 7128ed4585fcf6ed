"""The registry loses no attempt: not to another process, a kill, or a damaged file."""

from __future__ import annotations

import json
import multiprocessing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from agent_runs import new_record

from genlab.agent.registry import Registry, best
from genlab.agent.workspace import Workspace, goal_of, open_for, scaffold, slug
from genlab.core.errors import GenlabError

FIELDS = (
    "run_id", "timestamp", "model_name", "dataset", "metrics_summary", "experiment_dir", "decision"
)  # fmt: skip


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return scaffold("trial", tmp_path, "a goal")


def test_a_scaffold_has_every_part_and_is_never_written_over(tmp_path: Path) -> None:
    made = scaffold("trial", tmp_path)
    for part in (
        "src/models/current_model.py", "configs/models/current_model_config.yaml",
        "experiments/registry.json", "requirements.txt",
    ):  # fmt: skip
        assert (made.root / part).is_file()
    assert Registry(made).records() == []
    (made.root / "src/models/current_model.py").write_text("mine")
    with pytest.raises(GenlabError, match=r"workspaces/trial isn't empty; choose another name"):
        scaffold("trial", tmp_path)
    assert (made.root / "src/models/current_model.py").read_text() == "mine"


@pytest.mark.parametrize("name", ["", "..", "a/b", "/tmp/x", "-x", "a b", "x" * 65, "a\n"])
def test_a_name_that_is_no_name_is_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(GenlabError, match="project name must be") as caught:
        scaffold(name, tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "workspaces").exists()


def test_the_same_goal_resumes_and_another_one_opens_its_own(tmp_path: Path) -> None:
    first = open_for("Get 90 % accuracy", tmp_path)
    assert open_for("Get 90 % accuracy", tmp_path) == first
    other = open_for("Get 90 accuracy!", tmp_path)  # the same name, another goal
    assert other.root.name == first.root.name + "-2"
    assert goal_of(other.root) == "Get 90 accuracy!"
    (tmp_path / "workspaces" / slug("A")).mkdir()
    (tmp_path / "workspaces" / slug("A") / "thesis.txt").write_text("years of work")
    assert open_for("A", tmp_path).root.name == "a-2"


def test_runs_within_a_second_have_their_own_names(workspace: Workspace) -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    names = [workspace.new_run(lambda: now).name for _ in range(3)]
    assert names == ["qe_20260102_030405", "qe_20260102_030405_2", "qe_20260102_030405_3"]


def test_a_record_is_kept_with_the_fields_that_others_read(workspace: Workspace) -> None:
    found = Registry(workspace)
    record = new_record(workspace, note="kept")
    found.put(record)
    stored = json.loads(found.path.read_text())
    assert isinstance(stored, list)
    assert set(FIELDS) <= set(stored[0])
    assert (stored[0]["version"], stored[0]["note"]) == (1, "kept")
    assert found.records() == [record]


@pytest.mark.parametrize(
    "damage", ["", "[{", "{}", "null", '[{"run_id": 3}]', '[{"run_id": ""}]', "\x00\x01"]
)
def test_a_damaged_registry_is_not_an_empty_one_and_is_rebuilt(
    workspace: Workspace, damage: str
) -> None:
    found = Registry(workspace)
    records = [new_record(workspace, accuracy) for accuracy in (0.1, None, 0.3)]
    for record in records:
        found.put(record)
    found.path.write_text(damage)
    for broken in (found.records, lambda: found.put(records[0])):
        with pytest.raises(GenlabError, match=r"python -m genlab\.agent rebuild") as caught:
            broken()
        assert "\n" not in str(caught.value)
    assert found.path.read_text() == damage
    assert found.rebuild() == 3
    assert found.records() == records


def _write(workspace: Workspace) -> None:
    for _ in range(15):
        Registry(workspace).put(new_record(workspace))


def test_processes_that_write_at_once_lose_nothing(workspace: Workspace) -> None:
    context = multiprocessing.get_context("fork")  # nothing is imported again
    writers = [context.Process(target=_write, args=(workspace,)) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(timeout=120)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    names = [record.run_id for record in Registry(workspace).records()]
    assert len(names) == len(set(names)) == 45


def test_the_best_is_chosen_among_those_with_a_number(workspace: Workspace) -> None:
    records = [new_record(workspace, value) for value in (None, 0.4, 0.9, 0.9, None)]
    assert best(records, "accuracy") is records[2]
    assert best(records, "accuracy", higher=False) is records[1]
    assert best(records[:1], "accuracy") is None
