"""The report shows the numbers of a run, and hostile text in it has no effect."""

import re
from pathlib import Path
from typing import Any

import pytest
from agent_runs import EVIL, GOAL, attempt, write_attempts

from genlab.agent import report
from genlab.agent.record import compare_with_search, describe_comparison, read_run
from genlab.agent.workspace import SEARCH, Workspace, create_project
from genlab.core.errors import GenlabError
from genlab.core.io import read_json, write_json


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    evil: dict[str, Any] = {"change": EVIL, "decision": EVIL, "notes": [EVIL], "model_name": EVIL}
    test = {"accuracy": 0.92, "accuracy_interval": [0.9, 0.94], "n": 1000, "verdict": "met"}
    evil |= {"parent": attempt(1).run_id, "kind": "improve", "verdict": "met", "test": test}
    evil["training"] = {"lr": 0.002}
    best = attempt(2, 0.93, 0.91, **evil)
    best.seeds[1]["cut"] = True
    return write_attempts(
        create_project(tmp_path / "one", GOAL),
        attempt(1, 0.6, 0.5),
        best,
        attempt(3),
        code=f"# {EVIL.splitlines()[0]}",
    )


def test_the_report_holds_goal_numbers_and_reasons(workspace: Workspace) -> None:
    page = report.write(workspace).read_text()
    text = (workspace.experiments / report.MARKDOWN).read_text()
    for words in ("Goal met: attempt 2", "0.9300 / 0.9100", "0.92, 95 % interval 0.9 to 0.94: met",
                  "cut: seeds 1", "lr 0.002", "majority class", "it broke",
                  "No search was run"):  # fmt: skip
        assert words in text.replace("\\", "")
        assert words in page
    assert read_run(workspace).best.number == 2  # type: ignore[union-attr]


def test_search_is_compared_at_equally_many_attempts(workspace: Workspace) -> None:
    search = Workspace(workspace.root / SEARCH)
    write_attempts(search, attempt(1, 0.8, 0.7), attempt(2, 0.8, 0.9))
    report.write(workspace)
    text = (workspace.experiments / report.MARKDOWN).read_text()
    assert "Search made 2 attempts, this run 3: they are not compared." in text
    write_attempts(search, attempt(3, 0.8, 0.7))
    report.write(workspace)
    text = (workspace.experiments / report.MARKDOWN).read_text()
    run = read_run(workspace)
    assert run.comparison is not None
    assert run.comparison_sentence in text.replace("\\", "")
    assert run.comparison_sentence in run.statement
    assert "planner openai, m; " in run.statement
    assert report.summarise(run)["statement"] == run.statement


def test_words_of_a_model_have_no_effect(workspace: Workspace) -> None:
    page = report.write(workspace).read_text()
    assert re.search("<script|<[^>]*javascript:", page, re.IGNORECASE) is None
    assert "\n# head" not in (workspace.experiments / report.MARKDOWN).read_text()
    escaped = {"1. a": r"1\. a", "- b": r"\- b", "2 c": "2 c"}
    assert {line: report.escape_markdown(line) for line in escaped} == escaped


def test_a_report_is_the_same_bytes_again(workspace: Workspace) -> None:
    first = report.write(workspace).read_bytes()
    assert report.write(workspace).read_bytes() == first


def test_a_run_is_read_beside_newer_parameters_but_not_in_another_format(
    workspace: Workspace,
) -> None:
    path = workspace.experiments / "run.json"
    stored = read_json(path, producer_command="")
    for damaged in ({**stored, "version": 1}, {**stored, "settings": {}}, {"kind": stored["kind"]}):
        write_json(path, damaged)
        with pytest.raises(GenlabError, match="is damaged or of another version"):
            read_run(workspace)
    del stored["settings"]["params"]["candidates"]
    stored["settings"]["params"]["retired"] = 1
    del stored["settings"]["params"]["planning"]["reasoning_effort"]
    write_json(path, stored)
    assert read_run(workspace).settings.params.candidates >= 1


def test_the_best_so_far_passes_over_failures() -> None:
    attempts = [attempt(1), attempt(2, 0.5), attempt(3, 0.4), attempt(4, 0.7)]
    assert report.trace_best(attempts, GOAL) == [(2, 0.5), (3, 0.5), (4, 0.7)]


@pytest.mark.parametrize(
    ("run", "search", "words"),
    [
        ([0.90, 0.91, 0.90], [0.80, 0.81, 0.80], "better"),
        ([0.80, 0.81, 0.80], [0.90, 0.91, 0.90], "worse"),
        ([0.80, 0.90], [0.81, 0.89], "noise"),
        ([0.80], [0.81, 0.89], "too few"),
    ],
)
def test_the_comparison_says_what_its_interval_allows(
    run: list[float], search: list[float], words: str
) -> None:
    comparison = compare_with_search(run, search, higher=True)
    assert words in comparison["conclusion"]
    sentence = describe_comparison(comparison, "accuracy")
    low, high = comparison["low"], comparison["high"]
    assert ("within noise" in sentence) == (low is not None and low <= 0 <= high)
    assert ("interval" in sentence.partition("(")[0]) == (low is not None)
