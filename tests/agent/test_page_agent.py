"""The agent's page starts a run in a real process, follows it, and shows all of its records."""

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
from genlab.agent.goals.parser import parse_goal
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


def press(app: AppTest, name: str) -> None:
    (button,) = (button for button in app.button if button.label == name)
    button.click().run()


def has_button(app: AppTest, name: str) -> bool:
    return any(button.label == name for button in app.button)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with parameters, which is the server's current one."""
    write_params(tmp_path, **PARAMS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    """The folder of a run that the page started and saw end, the page, and what it showed.

    That is the lines of code, every half second.
    """
    needs_sandbox()
    folder = tmp_path_factory.mktemp("page")
    observed: list[Any] = []
    with pytest.MonkeyPatch.context() as patch, Server(reply) as server:
        patch.chdir(folder)
        patch.setenv("PYTHONPATH", str(ROOT / "src"))
        write_params(folder, base_url=server.url, **PARAMS)
        app = page().run()
        assert not app.exception
        app.text_area(key="goal").set_value(GOAL)
        app.number_input(key="max_iterations").set_value(2).run()
        press(app, "Start or resume")
        deadline = time.monotonic() + PATIENCE
        while has_button(app, "Stop") and time.monotonic() < deadline:
            observed.append([line for code in app.code for line in code.value.splitlines()])
            time.sleep(0.5)
            app.run()
        yield folder, app, observed


def test_a_run_that_was_started_is_followed_to_its_end(followed: Followed) -> None:
    _, app, observed = followed
    assert not app.exception
    assert any("attempt 1 of 2" in line for lines in observed for line in lines)
    rows = app.dataframe[0].value
    assert list(rows["attempt"]) == [1, 2]
    assert list(rows["planned by"]) == ["llm", "llm"]
    assert list(rows["code by"]) == ["llm", "llm"]


def test_code_config_decision_numbers_and_transcript_are_shown(followed: Followed) -> None:
    folder, app, _ = followed
    run = read_run(Workspace(next(folder.glob("workspaces/*/project.json")).parent))
    app.selectbox(key="attempt").set_value(2).run()
    second = run.attempts[1]
    files = run.workspace.root / second.experiment_dir
    codes = {code.value.strip() for code in app.code}
    for name in ("model_code.py", "model_config.yaml"):
        assert (files / name).read_text().strip() in codes
    assert second.decision in [text.value for text in app.text]
    questions = app.selectbox(key="question")
    assert len(questions.options) == run.spend["questions"]
    first_question = [code.value for code in app.code]
    questions.set_value(questions.options[-1]).run()
    assert [code.value for code in app.code] != first_question
    assert any(code.startswith("genlab agent run") for code in codes)
    layers = next(table.value for table in app.table if "Kind" in table.value)
    assert len(layers) == len(json.loads((files / "summary.json").read_text())["layers"]) > 0


def test_a_run_that_is_stopped_can_be_resumed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_sandbox()
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    app = page().run()
    app.selectbox(key="backend").set_value("search")
    app.text_area(key="goal").set_value(GOAL).run()
    press(app, "Start or resume")
    process = agent.processes()[-1]
    deadline = time.monotonic() + PATIENCE
    while not list(place.glob("workspaces/*/experiments/run.json")):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    press(app.run(), "Stop")
    process.wait(PATIENCE)
    app.run()
    assert not app.exception
    assert not app.error
    assert has_button(app, "Resume")


def test_the_workspace_of_a_new_run_is_shown_once(place: Path) -> None:
    create_project(place / "workspaces" / "old", REACHABLE)
    app = page().run()
    assert app.selectbox(key="workspace").value == "old"
    create_project(place / "workspaces" / "new", REACHABLE)
    app.run()
    assert app.selectbox(key="workspace").value == "new"
    app.selectbox(key="workspace").set_value("old").run()
    assert app.run().selectbox(key="workspace").value == "old"


def test_a_workspace_that_was_never_run_or_is_damaged_is_a_sentence(place: Path) -> None:
    workspace = create_project(place / "workspaces" / "project", REACHABLE)
    app = page().run()
    assert not app.exception
    assert app.info
    (workspace.experiments / "run.json").write_text('{"kind": "agent')
    app = page().run()
    assert any("truncated" in error.value for error in app.error)


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
    stored = replace(settings(goal, subset=32, max_cost=1.5), seed=3)
    for name, key in (("old", "of other code"), ("one", stored.key)):
        workspace = create_project(place / "workspaces" / name, goal, key)
        write_run(workspace, stored, UNFINISHED, "x", {})
    commands: list[list[str]] = []
    monkeypatch.setattr(agent, "start_once", commands.append)
    app = page().run()
    app.selectbox(key="workspace").set_value("one").run()
    press(app, "Resume")
    assert not app.exception
    [[program, *arguments]] = commands
    assert program == "agent"
    calls: list[Any] = []
    monkeypatch.setattr("genlab.agent.run.run", lambda *values: calls.append(values))
    CliRunner().invoke(cli.app, arguments, catch_exceptions=False)
    assert calls == [(stored, Workspace(Path("workspaces/one")))]
    with pytest.raises(GenlabError, match="begin a new run"):
        CliRunner().invoke(cli.app, ["resume", "old"], catch_exceptions=False)
