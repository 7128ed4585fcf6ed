"""The page of the agent: it starts a run, follows it, and shows all of it; real processes only."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_runs import GOAL as REACHABLE
from agent_runs import ROOT, attempt, settings, write_attempts, write_params
from sandboxes import needs_sandbox
from scripted_llm import Server, reply
from streamlit.testing.v1 import AppTest
from typer.testing import CliRunner

from genlab.agent import cli
from genlab.agent.goals.goal import parse_goal
from genlab.agent.record import UNFINISHED, read_run, write_run
from genlab.agent.workspace import Workspace, create_project
from genlab.core.errors import GenlabError
from genlab.web.pages import agent

pytestmark = pytest.mark.slow

GOAL = "Tell the dummy *stripes* apart, accuracy at least 100 %"
PATIENCE = 240.0  # seconds; a loaded machine imports torch slowly
PARAMS = {"seeds": 1, "backend": "openai"}
Followed = tuple[Path, AppTest, list[Any]]


def page() -> AppTest:
    script = "from genlab.web.pages.main import show\n\nshow('agent')"
    return AppTest.from_string(script, default_timeout=60)


def press(shown: AppTest, name: str) -> None:
    next(each for each in shown.button if each.label == name).click().run()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with parameters, in which the server stands."""
    write_params(tmp_path, **PARAMS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    """A folder in which the page started a run and saw it end; what it showed on the way."""
    needs_sandbox()
    folder = tmp_path_factory.mktemp("page")
    seen: list[Any] = []
    with pytest.MonkeyPatch.context() as patch, Server(reply) as server:
        patch.chdir(folder)
        patch.setenv("PYTHONPATH", str(ROOT / "src"))
        write_params(folder, base_url=server.url, **PARAMS)
        shown = page().run()
        assert not shown.exception
        shown.text_area(key="goal").set_value(GOAL)
        shown.number_input(key="max_iterations").set_value(2).run()
        press(shown, "Start or resume")
        end = time.monotonic() + PATIENCE
        while any(each.label == "Stop" for each in shown.button) and time.monotonic() < end:
            seen.append([line for code in shown.code for line in code.value.splitlines()])
            time.sleep(0.5)
            shown.run()
        yield folder, shown, seen


def test_a_run_that_was_started_is_followed_to_its_end(followed: Followed) -> None:
    _, shown, seen = followed
    assert not shown.exception
    assert any("attempt 1 of 2" in line for lines in seen for line in lines)
    rows = shown.dataframe[0].value
    assert list(rows["attempt"]) == [1, 2]
    assert list(rows["planned by"]) == ["llm", "llm"]
    assert list(rows["code by"]) == ["llm", "llm"]


def test_code_config_decision_numbers_and_transcript_are_shown(followed: Followed) -> None:
    folder, shown, _ = followed
    run = read_run(Workspace(next(folder.glob("workspaces/*/project.json")).parent))
    shown.selectbox(key="attempt").set_value(2).run()
    found = run.attempts[1]
    files = run.workspace.root / found.experiment_dir
    codes = {each.value.strip() for each in shown.code}
    for name in ("model_code.py", "model_config.yaml"):
        assert (files / name).read_text().strip() in codes
    assert found.decision in [each.value for each in shown.text]
    questions = shown.selectbox(key="question")
    assert len(questions.options) == run.spend["questions"]
    first = [each.value for each in shown.code]
    questions.set_value(questions.options[-1]).run()
    assert [each.value for each in shown.code] != first
    assert any(each.startswith("genlab agent run") for each in codes)
    layers = next(each.value for each in shown.table if "Kind" in each.value)
    assert len(layers) == len(json.loads((files / "summary.json").read_text())["layers"]) > 0


def test_a_run_that_is_stopped_can_be_resumed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_sandbox()
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    shown = page().run()
    shown.selectbox(key="backend").set_value("search")
    shown.text_area(key="goal").set_value(GOAL).run()
    press(shown, "Start or resume")
    process = agent.started()[-1]
    end = time.monotonic() + PATIENCE
    while not list(place.glob("workspaces/*/experiments/run.json")) and time.monotonic() < end:
        time.sleep(0.2)
    press(shown.run(), "Stop")
    process.wait(PATIENCE)
    shown.run()
    assert not shown.exception
    assert not shown.error
    assert any(each.label == "Resume" for each in shown.button)


def test_the_workspace_of_a_new_run_is_shown_once(place: Path) -> None:
    create_project(place / "workspaces" / "old", REACHABLE)
    shown = page().run()
    assert shown.selectbox(key="workspace").value == "old"
    create_project(place / "workspaces" / "new", REACHABLE)
    shown.run()
    assert shown.selectbox(key="workspace").value == "new"
    shown.selectbox(key="workspace").set_value("old").run()
    assert shown.run().selectbox(key="workspace").value == "old"


def test_a_workspace_that_was_never_run_or_is_damaged_is_a_sentence(place: Path) -> None:
    workspace = create_project(place / "workspaces" / "project", REACHABLE)
    shown = page().run()
    assert not shown.exception
    assert shown.info
    (workspace.experiments / "run.json").write_text('{"kind": "agent')
    shown = page().run()
    assert any("truncated" in each.value for each in shown.error)


def test_the_tree_has_an_arrow_from_a_model_to_its_change(tmp_path: Path) -> None:
    two = attempt(2, 0.93, 0.91, kind="improve", parent=attempt(1).run_id)
    workspace = create_project(tmp_path / "one", REACHABLE)
    dot = agent.draw_tree(read_run(write_attempts(workspace, attempt(1, 0.6), two, attempt(3))))
    assert "1 -> 2" in dot
    assert "3 draft\\nfailed" in dot


def test_a_run_of_the_command_line_is_resumed_with_its_goal_and_options(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goal = parse_goal("stripes", dataset="dummy", metric="macro_f1", at_least=0.9, max_seconds=5)
    begun = replace(settings(goal, subset=32, max_cost=1.5), seed=3)
    for name, key in (("old", "of other code"), ("one", begun.key)):
        write_run(
            create_project(place / "workspaces" / name, goal, key), begun, UNFINISHED, "x", {}
        )
    commands: list[list[str]] = []
    monkeypatch.setattr(agent, "begin", commands.append)
    shown = page().run()
    shown.selectbox(key="workspace").set_value("one").run()
    press(shown, "Resume")
    assert not shown.exception
    [[program, *arguments]] = commands
    assert program == "agent"
    found: list[Any] = []
    monkeypatch.setattr("genlab.agent.run.run", lambda *asked: found.append(asked))
    CliRunner().invoke(cli.app, arguments, catch_exceptions=False)
    assert found == [(begun, Workspace(Path("workspaces/one")))]
    with pytest.raises(GenlabError, match="begin a new run"):
        CliRunner().invoke(cli.app, ["resume", "old"], catch_exceptions=False)
