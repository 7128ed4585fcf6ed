"""A workspace is confined, found again by its key, and of one goal."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from agent_runs import settings

from genlab.agent.config import Settings
from genlab.agent.goals.goal import Goal
from genlab.agent.workspace import (
    PROJECT,
    list_workspaces,
    open_workspace,
    read_key,
    read_project_goal,
    scaffold,
)
from genlab.core.errors import GenlabError
from genlab.core.io import write_text

GOAL = Goal("Get 90 % accuracy", "dummy", "accuracy", 0.9, max_parameters=50_000)


@pytest.mark.parametrize("name", ["", "..", "a/b", "/tmp/x", "-x", "a b", "x" * 65, "a\n"])
def test_a_name_that_is_no_name_is_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(GenlabError, match="project name must be"):
        scaffold(name, tmp_path)
    assert not (tmp_path / "workspaces").exists()


def test_the_newest_workspace_of_a_goal_is_resumed(tmp_path: Path) -> None:
    first = open_workspace(tmp_path, GOAL, "k")
    assert read_project_goal(first.root) == GOAL
    assert read_key(first.root) == "k"
    assert open_workspace(tmp_path, GOAL, "k") == first
    of_another_key = open_workspace(tmp_path, GOAL, "other key")
    fresh = open_workspace(tmp_path, GOAL, "k", fresh=True)
    assert of_another_key.root.name == "get-90-accuracy-2"
    assert fresh.root.name == "get-90-accuracy-3"
    assert open_workspace(tmp_path, GOAL, "k") == fresh
    (tmp_path / "get-90-accuracy-4").mkdir()  # somebody's folder
    assert open_workspace(tmp_path, GOAL, "new").root.name == "get-90-accuracy-5"
    assert len(list_workspaces(tmp_path)) == 4


def test_other_data_are_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = replace(settings(), data=tmp_path)
    key_without_files = drawn.key
    write_text(tmp_path / "dummy" / "part.npz", "x")
    assert drawn.key != key_without_files
    assert replace(drawn, data=tmp_path / "elsewhere").key == key_without_files
    assert Settings.from_json(drawn.to_json()) == drawn

    monkeypatch.setenv("HOME", str(tmp_path))
    of_file = replace(drawn, goal=replace(drawn.goal, dataset="path:~/own.npz"))
    key_without_file = of_file.key
    write_text(tmp_path / "own.npz", "x")
    assert of_file.key != key_without_file


def test_stored_goals_of_other_versions(tmp_path: Path) -> None:
    root = open_workspace(tmp_path, GOAL, "k").root
    stored = json.loads((root / PROJECT).read_text())
    stored["goal"]["added_later"] = 1
    stored["added_later"] = 1
    (root / PROJECT).write_text(json.dumps(stored))
    assert read_project_goal(root) == GOAL
    (root / PROJECT).write_text(json.dumps(stored | {"version": 1, "goal": "90 %"}))
    with pytest.raises(GenlabError, match=r"of another version of genlab; start a new workspace"):
        read_project_goal(root)
