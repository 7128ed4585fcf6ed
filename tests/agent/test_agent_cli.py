"""`genlab agent`: commands as users type them; a mistake is answered in one clear line."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_runs import GOAL, attempt, write_attempts, write_params
from goal_answers import NOTHING
from loopback import Server, status
from replies import good
from sandboxes import needs_sandbox
from scripted_llm import reply
from typer.testing import CliRunner

from genlab.agent.cli import app
from genlab.agent.registry import Registry
from genlab.agent.workspace import Workspace, create_project
from genlab.core.errors import GenlabError

WORDS = "A transformer without BatchNorm for MNIST, error below 3.5005 %"  # whose data are missing
GERMAN = "Ziffern aus MNIST mit mindestens 90 % Genauigkeit und ohne BatchNorm erkennen"
READING: dict[str, Any] = {
    **NOTHING, "dataset": "mnist", "metric": "accuracy", "direction": "at least", "threshold": 0.9,
    "quotes": ["MNIST", "mindestens 90 % Genauigkeit"],
}  # fmt: skip
UNREACHED = "dummy stripes, at least 100 % accuracy"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the parameters of a tiny run, which is the current one."""
    write_params(tmp_path, seeds=1, max_iterations=2)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return tmp_path


def run(*arguments: str) -> str:
    """Run a command and return what it prints."""
    done = CliRunner().invoke(app, list(arguments))
    assert done.exception is None, done.exception
    return done.stdout


def refuse(*arguments: str) -> str:
    """Run a command that is refused and return its error."""
    done = CliRunner().invoke(app, list(arguments))
    assert isinstance(done.exception, GenlabError), (done.exception, done.output)
    return str(done.exception)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["a CNN for MNIST"], "--at-least"),
        (["mnist > 90 %", "--backend", "oracle"], "--backend"),
        (["mnist > 90 %", "--backend", "search"], "data/mnist"),
        (["mnist > 90 %", "--max-iterations", "0"], "--max-iterations"),
        ([UNREACHED, "--backend", "search", "--mode", "tools"], "agent.mode"),
        ([UNREACHED, "--seed", "-1"], "seed"),
        ([UNREACHED, "--backend", "openai"], "OPENAI_API_KEY"),
        ([UNREACHED, "--backend", "replay", "--transcript", "no.jsonl"], "no.jsonl"),
        (["report"], "no workspace"),
        (["report", "nowhere"], "list"),
    ],
)
def test_bad_input_is_one_line(place: Path, arguments: list[str], expected: str) -> None:
    assert expected in refuse(*arguments)
    assert not (place / "workspaces").exists()  # nothing is opened for what cannot run


def test_a_run_resumes_after_its_endpoint_and_key_were_corrected(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_sandbox()
    options = ["--backend", "openai", "--planning-model", "scripted", "--no-compare"]
    assert "127.0.0.1:9" in refuse(UNREACHED, *options, "--base-url", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-key-of-nobody-1")
    with Server([status(401, message="no such key")]) as server:
        line = refuse(UNREACHED, *options, "--base-url", server.url)
    assert "OPENAI_API_KEY" in line
    assert "sk-wrong" not in line
    with Server(reply) as server:
        output = run(UNREACHED, *options, "--base-url", server.url)
        requests = len(server.requests)
        repeated = run(UNREACHED, *options, "--base-url", server.url)
        assert len(server.requests) == requests  # a finished run asks nothing
    assert repeated.splitlines()[-1] == output.splitlines()[-1]
    assert len(list(place.glob("workspaces/*/project.json"))) == 1
    fresh = run(UNREACHED, "--backend", "search", "--no-compare", "--fresh")
    assert "Goal not met" in fresh
    assert len(list(place.glob("workspaces/*/project.json"))) == 2


def test_a_tool_is_called_on_its_own(place: Path) -> None:
    assert "begin one with" in run("list")
    assert "holds no workspace" in refuse("tool", "list_directory", '{"path": "src"}')
    project = {"project_name": "one", "base_dir": "workspaces"}
    run("tool", "create_pytorch_project_scaffold", json.dumps(project))
    workspace = Workspace(place / "workspaces" / "one")
    run("tool", "write_file", json.dumps({"file_path": "src/notes.txt", "content": "wide"}))
    assert (workspace.root / "src/notes.txt").read_text() == "wide"
    assert "src/notes.txt" in run("tool", "list_directory", '{"path": "src"}')
    protected = '{"file_path": "project.json", "content": "x"}'
    assert "project.json" in refuse("tool", "write_file", protected)
    assert "JSON" in refuse("tool", "read_file", "src/notes.txt")
    assert "read_file" in refuse("tool", "eval")
    assert "pytorch_quick_evaluator:" in run("tool")
    folder = place / "elsewhere" / "projects"  # params.yaml is in the current folder
    create_project(folder / "other", GOAL)
    listing = run("tool", "list_directory", '{"path": "src"}', "--workspaces", str(folder))
    assert "src/models/" in listing


def test_a_damaged_record_hides_no_other_workspace(place: Path) -> None:
    workspace = create_project(place / "workspaces" / "one", GOAL)
    create_project(place / "workspaces" / "other", GOAL)
    write_attempts(workspace, attempt(1, 0.5, 0.6))
    registry = Registry(workspace).path
    before = registry.read_text()
    registry.write_text("[{")
    run("report", "one")
    assert registry.read_text() == before
    assert (workspace.experiments / "report.html").exists()
    (workspace.root / attempt(1).experiment_dir / "results.json").write_text("{")
    damaged, unused = sorted(run("list").splitlines())
    assert "rm -r workspaces/one/experiments/qe_20260101_000001" in damaged
    assert "nothing has run yet" in unused


def show(*arguments: str) -> list[str]:
    """Run a command that is refused and return the lines that it printed before."""
    done = CliRunner().invoke(app, list(arguments))
    assert isinstance(done.exception, GenlabError), (done.exception, done.output)
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("backend", "unenforced"),
    [
        ("openai", "passed on to the planner, not enforced"),
        ("search", "not enforced, and with backend search no planner reads it"),
    ],
)
def test_what_is_enforced_is_said_before_anything_starts(
    place: Path, backend: str, unenforced: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    options = ["--backend", backend, "--base-url", "http://127.0.0.1:9/v1"]
    assert show(WORDS, *options, "--planning-model", "m") == [
        "goal: accuracy >= 0.964995 on mnist",
        "an error rate is judged as accuracy: at most 0.035005 is at least 0.964995",
        'enforced: "MNIST", "error below 3.5005 %"',
        f'{unenforced}: "transformer without BatchNorm"',
    ]
    assert not (place / "workspaces").exists()


def test_a_goal_that_the_planner_reads_is_confirmed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with Server([good(READING)]) as server:
        options = ["--backend", "openai", "--planning-model", "m", "--base-url", server.url]
        line = refuse(GERMAN, *options)
        assert "accuracy >= 0.9 on mnist" in line
        assert "--yes" in line
        asking, answering = pty.openpty()
        os.write(asking, b"n\n")
        command = [sys.executable, "-m", "genlab.cli", "agent", GERMAN, *options]
        done = subprocess.run(command, stdin=answering, capture_output=True, text=True, timeout=120)
        assert "Is this the goal?" in done.stdout
        assert done.returncode == 1
        lines = show(GERMAN, *options, "--yes")
        assert len(server.requests) == 1  # it was read before
    assert lines == [
        "goal, as the planner reads it: accuracy >= 0.9 on mnist",
        'enforced: "MNIST", "mindestens 90 % Genauigkeit"',
        'passed on to the planner, not enforced: "Ziffern aus", "mit", "und ohne BatchNorm'
        ' erkennen"',
    ]
    assert not list(place.glob("workspaces/*/project.json"))
