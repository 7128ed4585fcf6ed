"""The page of the agent: it starts a run, follows it, and shows all of it; real processes only."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_runs import ROOT, write_params
from scripted_llm import Server, fluent
from streamlit.testing.v1 import AppTest

from genlab.agent import transcript
from genlab.agent.attempt import CODE, CONFIG_FILE, summary_of
from genlab.agent.backends import TRANSCRIPT
from genlab.agent.story import story
from genlab.agent.workspace import Workspace, lay_out
from genlab.core.errors import GenlabError
from genlab.web.pages import agent

pytestmark = pytest.mark.slow

GOAL = "Tell the dummy *stripes* apart, accuracy at least 100 %"
PATIENCE = 180.0  # seconds; a loaded machine imports torch slowly


def page() -> AppTest:
    return AppTest.from_file(str(ROOT / "src/genlab/web/pages" / "agent.py"), default_timeout=60)


PARAMS = {"subset": 100, "validation": 60, "seeds": 1, "max_parameters": 20_000,
          "compare_with_search": False}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, AppTest, list[Any]]]:
    """A folder in which the page started a run and saw it end; what it showed on the way."""
    folder = tmp_path_factory.mktemp("page")
    seen: list[Any] = []
    with pytest.MonkeyPatch.context() as patch, Server(fluent) as server:
        patch.chdir(folder)
        patch.setenv("OPENAI_API_KEY", "none")
        patch.setenv("PYTHONPATH", str(ROOT / "src"))
        write_params(folder, base_url=server.url, **PARAMS)
        shown = page().run()
        assert not shown.exception
        shown.text_area(key="goal").set_value(GOAL)
        shown.number_input(key="attempts").set_value(3)
        press(shown, "Start or resume")
        end = time.monotonic() + PATIENCE
        while any(each.label == "Stop" for each in shown.button) and time.monotonic() < end:
            seen.append([line for code in shown.code for line in code.value.splitlines()])
            time.sleep(0.5)
            shown.run()
        yield folder, shown, seen


def press(shown: AppTest, label: str) -> None:
    next(each for each in shown.button if each.label == label).click().run()


def test_a_run_that_was_started_is_followed_to_its_end(
    place: tuple[Path, AppTest, list[Any]],
) -> None:
    _, shown, seen = place
    assert not shown.exception
    assert any("attempt 1 of 3" in line for lines in seen for line in lines)
    rows = shown.dataframe[0].value
    assert list(rows["attempt"]) == [1, 2, 3]
    assert list(rows["planned by"])[1:] == ["llm", "llm"]
    assert list(rows["written by"]) == ["template", "llm", "llm"]


def test_code_config_decision_and_transcript_are_shown(
    place: tuple[Path, AppTest, list[Any]],
) -> None:
    folder, shown, _ = place
    run = story(Workspace(next(folder.glob("workspaces/*/project.json")).parent))
    shown.selectbox(key="attempt").set_value(2).run()
    attempt = run.attempts[1]
    place = run.workspace.root / attempt.experiment_dir
    files = {"python": CODE, "yaml": CONFIG_FILE}
    expected = {language: (place / name).read_text() for language, name in files.items()}
    expected["text"] = summary_of(run.workspace, attempt)["table"]
    codes = {(each.language, each.value.strip()) for each in shown.code}
    for language, words in expected.items():
        assert (language, words.strip()) in codes
    assert attempt.remark in [each.value for each in shown.text]
    asked = transcript.read(run.workspace.root / TRANSCRIPT)
    assert len(asked) == run.spend["questions"]
    assert len([each for each in shown.expander if "tokens" in each.label]) == len(asked)
    assert {each.label: each.value for each in shown.metric}["questions"] == str(len(asked))


def test_without_a_workspace_the_page_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_params(tmp_path, **PARAMS)
    shown = page().run()
    assert not shown.exception
    assert any("No workspace yet" in each.value for each in shown.info)


def test_a_goal_without_a_number_is_a_sentence_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_params(tmp_path, **PARAMS)
    shown = page().run()
    shown.text_area(key="goal").set_value("Make dummy better")
    press(shown, "Start or resume")
    assert any("no number" in each.value for each in shown.error)
    assert not (tmp_path / "workspaces").exists()
    with pytest.raises(GenlabError, match="no number"):
        agent.start("Make dummy better", "search", 2, tmp_path)


def test_a_workspace_that_was_never_run_or_is_damaged_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_params(tmp_path, **PARAMS)
    workspace = lay_out(tmp_path / "workspaces" / "project", GOAL)
    shown = page().run()
    assert any("run" in each.value and "make it with" in each.value for each in shown.info)
    (workspace.experiments / "run.json").write_text('{"kind": "agent')
    shown = page().run()
    assert any("truncated" in each.value for each in shown.error)
    assert agent.workspaces(tmp_path / "workspaces") == ["project"]


def test_a_run_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    write_params(tmp_path, **PARAMS)
    run = agent.start(GOAL, "search", 3, tmp_path / "workspaces")
    assert run.is_running
    run.process.terminate()
    run.process.wait(PATIENCE)
    assert not run.is_running
