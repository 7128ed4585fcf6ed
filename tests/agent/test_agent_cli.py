"""`python -m genlab.agent`: what people type, and one clear line for what cannot work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from agent_runs import attempt, write_attempts, write_params
from llm_server import Server, good, status
from typer.testing import CliRunner

from genlab.agent.cli import app
from genlab.agent.registry import Registry
from genlab.agent.workspace import lay_out
from genlab.core.errors import GenlabError

pytestmark = pytest.mark.slow

GOAL = "dummy stripes, at least 100 % accuracy"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with params of a tiny evaluation; the process stands in it."""
    write_params(tmp_path, seeds=1, max_iterations=2, planning_model="", max_repairs=2)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return tmp_path


def run(*arguments: str) -> str:
    """What a command prints where it works."""
    done = CliRunner().invoke(app, list(arguments))
    assert done.exception is None, done.exception
    return done.stdout


def refused(*arguments: str) -> str:
    """The line with which a command refuses."""
    done = CliRunner().invoke(app, list(arguments))
    assert isinstance(done.exception, GenlabError), (done.exception, done.output)
    line = str(done.exception)
    assert "\n" not in line
    return line


@pytest.mark.parametrize(
    ("arguments", "place_or_fix"),
    [
        ([], "say one"),
        (["a CNN for MNIST"], "--at-least"),
        (["a CNN, > 90 %"], "--dataset"),
        (["mnist > 90 %", "--backend", "oracle"], "--backend"),
        (["mnist > 90 %", "--backend", "search"], "data/mnist"),
        (["mnist > 90 %", "--max-iterations", "0"], "--max-iterations"),
        (["mnist > 90 %", "--max-seconds", "-1"], "--max-seconds"),
        ([GOAL, "--seed", "-1"], "seed"),
        ([GOAL, "--backend", "openai"], "OPENAI_API_KEY"),
        ([GOAL, "--backend", "openai", "--base-url", "nonsense"], "OPENAI_BASE_URL"),
        ([GOAL, "--backend", "replay"], "transcripts/stripes.jsonl"),
        ([GOAL, "--backend", "replay", "--transcript", "no.jsonl"], "no.jsonl"),
        ([GOAL, "--backend", "embedded", "--gguf", "no.gguf"], "no.gguf"),
        (["report"], "no workspace"),
        (["report", "nowhere"], "list"),
        (["rebuild", "nowhere"], "nowhere"),
    ],
)
def test_bad_input_is_one_line(place: Path, arguments: list[str], place_or_fix: str) -> None:
    assert place_or_fix in refused(*arguments)
    assert not (place / "workspaces").exists()  # nothing is opened for what cannot run


def test_openai_itself_has_no_default_model(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test-key-of-nobody")
    assert "--planning-model" in refused(GOAL, "--backend", "openai")


def test_a_workspace_of_something_else_is_left_alone(place: Path) -> None:
    (place / "mine").mkdir()
    (place / "mine" / "thesis.txt").write_text("years of work")
    assert "isn't empty" in refused(GOAL, "--backend", "search", "--workspace", "mine")
    lay_out(place / "other", "another goal")
    line = refused(GOAL, "--backend", "search", "--workspace", "other")
    assert "another goal" in line
    assert [path.name for path in (place / "mine").iterdir()] == ["thesis.txt"]


ANSWERS = [
    good({"architecture": {"blocks": [{"kind": "plain", "channels": 4}]}}),
    *[good({"code": "import os"})] * 3,
    good({"analysis": "small"}),
    good({"assessment": "fine", "decision": "iterate"}),
]


def test_a_run_goes_on_after_its_endpoint_and_key_were_fixed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = "http://127.0.0.1:9/v1"
    options = ["--backend", "openai", "--planning-model", "scripted", "--no-compare"]
    assert "nothing answers at" in refused(GOAL, *options, "--base-url", nobody)
    (registry,) = place.glob("workspaces/*/experiments/registry.json")
    before = json.loads(registry.read_text())
    assert [record["plan_origin"] for record in before] == ["baseline"]  # nothing is lost
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-key-of-nobody-1")
    with Server([status(401, message="no such key")]) as server:
        line = refused(GOAL, *options, "--base-url", server.url)
    assert "OPENAI_API_KEY" in line
    assert "sk-wrong" not in line
    with Server(ANSWERS) as server:
        output = run(GOAL, *options[:-1], "--base-url", server.url)  # and search beside it
        asked = len(server.requests)
        again = run(GOAL, *options[:-1], "--base-url", server.url)  # finished: nothing is asked
        assert len(server.requests) == asked == len(ANSWERS)
    after = json.loads(registry.read_text())
    assert after[0]["run_id"] == before[0]["run_id"]
    assert after[1]["code_origin"] == "template"
    assert again.splitlines()[-1] == output.splitlines()[-1]
    transcript = str(registry.parents[1] / "transcript.jsonl")
    run(GOAL, "--backend", "replay", "--transcript", transcript, "--no-compare")
    assert len(list(place.glob("workspaces/*/project.json"))) == 2


def test_damaged_files_are_rebuilt_and_hide_no_other_workspace(place: Path) -> None:
    workspace = lay_out(place / "workspaces" / "one", "a goal")
    lay_out(place / "workspaces" / "other", "another goal")
    write_attempts(workspace, attempt(1, 0.5))
    records = Registry(workspace).records()
    for file in (workspace.root / "project.json", Registry(workspace).path):
        file.write_text("[{")
        assert "rebuild workspaces/one" in run("list")
        assert len(run("list").splitlines()) == 2
        run("rebuild", "one")
        assert "rebuild" not in run("list")
    assert Registry(workspace).records() == records
    run("report", "one")
    assert (workspace.experiments / "report.html").exists()


def test_a_promotion_that_the_clock_cut_short_says_so(place: Path) -> None:
    run(GOAL, "--backend", "search", "--no-compare", "--max-iterations", "1")
    (registry,) = place.glob("workspaces/*/experiments/registry.json")
    run_id = json.loads(registry.read_text())[0]["run_id"]
    assert "there is no attempt 'qe_0'" in refused("promote", "qe_0")
    printed = run("promote", run_id, "--epochs", "900", "--seeds", "1", "--time-limit", "0.2")
    assert printed.startswith(f"{run_id}: accuracy 0.")
    assert "the time limit of 0.2 s" in printed
    assert json.loads((registry.parent / run_id / "promoted.json").read_text())["cut"] == [0]
