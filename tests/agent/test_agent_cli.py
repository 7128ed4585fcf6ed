"""`python -m genlab.agent`: what people type, and one clear line for what cannot work."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from llm_server import Server, good, status
from typer.testing import CliRunner

from genlab.agent.cli import app
from genlab.agent.workspace import lay_out
from genlab.core.errors import GenlabError

ROOT = Path(__file__).resolve().parents[2]
GOAL = "dummy stripes, at least 100 % accuracy"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with params of a tiny evaluation; the process stands in it."""
    text = (ROOT / "params.yaml").read_text(encoding="utf-8")
    head, section, rest = re.split(r"(?m)^(?=agent:|# The person-swap)", text, maxsplit=2)
    tiny = {"epochs": 1, "subset": 64, "validation": 20, "seeds": 1, "max_iterations": 2}
    for name, value in tiny.items():
        section = re.sub(rf"(?m)^  {name}: \S+", f"  {name}: {value}", section)
    (tmp_path / "params.yaml").write_text(head + section + rest, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return tmp_path


def said(*arguments: str) -> str:
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
    ("arguments", "words"),
    [
        ([], ["no goal was given", "say one"]),
        (["  "], ["no goal was given"]),
        (["a CNN for MNIST"], ["holds no number", "--at-least"]),
        (["a CNN, > 90 %"], ["names no dataset", "--dataset"]),
        (["a CNN, > 90 %", "--dataset", "imagenet"], ["--dataset must be one of", "imagenet"]),
        (["mnist > 90 %", "--metric", "beauty"], ["--metric must be one of", "beauty"]),
        (["mnist", "--at-least", "0.9", "--at-most", "0.1"], ["exclude each other"]),
        (["mnist > 90 %", "--backend", "oracle"], ["--backend", "oracle", "embedded"]),
        (
            ["mnist > 90 %", "--max-iterations", "0"],
            ["options: --max-iterations must be >= 1", "got 0"],
        ),
        ([GOAL, "--backend", "openai"], ["OPENAI_API_KEY is not set"]),
        ([GOAL, "--backend", "openai", "--base-url", "nonsense"], ["OPENAI_BASE_URL", "nonsense"]),
        (
            [GOAL, "--backend", "replay"],
            ["transcripts/stripes.jsonl is missing", "record it"],
        ),
        (["mnist > 90 %", "--backend", "search"], ["data/mnist"]),
        (["mnist > 90 %", "--max-seconds", "-1"], ["--max-seconds must be >= 0", "got -1"]),
        ([GOAL, "--seed", "-1"], ["seed must be >= 0", "got -1"]),
        ([GOAL, "--backend", "replay", "--transcript", "no.jsonl"], ["no.jsonl is missing"]),
        ([GOAL, "--backend", "embedded", "--gguf", "no.gguf"], ["no.gguf is no file"]),
        (["report"], ["holds no workspace"]),
        (["report", "nowhere"], ["nowhere is no workspace", "list"]),
        (["rebuild", "nowhere"], ["nowhere is no workspace"]),
    ],
)
def test_bad_input_is_one_line(place: Path, arguments: list[str], words: list[str]) -> None:
    line = refused(*arguments)
    assert all(word in line for word in words), line
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


def test_the_process_ends_with_status_2_and_one_line(place: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "genlab.agent", "a CNN"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("genlab: error: the goal 'a CNN'")
    assert done.stderr.count("\n") == 1


def _started(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "genlab.agent", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_ctrl_c_and_a_full_disk_are_one_line_and_lose_nothing(place: Path) -> None:
    run = [GOAL, "--backend", "search", "--no-compare", "--max-iterations", "1"]
    interrupted = _started(*run)
    deadline = time.monotonic() + 300
    while not list(place.glob("workspaces/*/experiments/run.json")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    interrupted.send_signal(signal.SIGINT)
    _, errors = interrupted.communicate(timeout=300)
    assert interrupted.returncode == 130
    assert errors.splitlines()[-1].startswith("genlab: interrupted; finished files are kept")
    assert "Traceback" not in errors
    full = _started(
        *run, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
    )
    _, errors = full.communicate(timeout=300)
    assert full.returncode == 2, errors
    assert re.match(r"genlab: error: \S+genlab-room\S+: File too large; ", errors.splitlines()[-1])
    assert "Traceback" not in errors
    said(*run)  # goes on
    (registry,) = place.glob("workspaces/*/experiments/registry.json")
    assert [each["plan_origin"] for each in json.loads(registry.read_text())] == ["baseline"]


def test_a_run_goes_on_after_its_endpoint_and_key_were_mended(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    options = ["--backend", "openai", "--planning-model", "scripted", "--no-compare"]
    line = refused(GOAL, *options, "--base-url", nobody)
    assert "nothing answers at" in line
    (registry,) = place.glob("workspaces/*/experiments/registry.json")
    before = json.loads(registry.read_text())
    assert [record["plan_origin"] for record in before] == ["baseline"]  # nothing is lost
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-key-of-nobody-1")
    with Server([status(401, message="no such key")]) as server:
        line = refused(GOAL, *options, "--base-url", server.url)
    assert "OPENAI_API_KEY is refused" in line
    assert "sk-wrong" not in line
    answers = [
        good({"architecture": {"blocks": [{"kind": "plain", "channels": 4}]}}),
        good({"code": "import os"}),
        good({"code": "import os"}),
        good({"code": "import os"}),
        good({"analysis": "small"}),
        good({"assessment": "fine", "decision": "iterate"}),
    ]
    with Server(answers) as server:
        output = said(GOAL, *options, "--base-url", server.url)
        asked = len(server.requests)
        again = said(GOAL, *options, "--base-url", server.url)  # finished: nothing is asked
        assert len(server.requests) == asked == 6
    assert "Goal not reached" in output
    assert "goal: accuracy at least 1 on dummy" in output
    after = json.loads(registry.read_text())
    assert after[0]["run_id"] == before[0]["run_id"]
    assert after[1]["code_origin"] == "template"
    assert again.splitlines()[-1] == output.splitlines()[-1]
    workspace = registry.parent.parent
    assert (
        said("list")
        == f"workspaces/{workspace.name}: {output.splitlines()[-1].split(': ', 1)[1]}\n"
    )
    registry.write_text("[{")
    assert "rebuild" in refused("report")
    assert "2 attempts" in said("rebuild", workspace.name)
    assert json.loads(registry.read_text()) == after
    line = refused("promote", "qe_0")
    assert "there is no attempt 'qe_0'" in line
    assert f"name another (the last ones: {after[0]['run_id']}" in line
    # A damaged project hides no other, and loses nothing.
    project = workspace / "project.json"
    before_damage = project.read_text()
    lay_out(place / "workspaces" / "other", "another goal")
    project.write_text("{")
    listed = said("list").splitlines()
    assert len(listed) == 2
    assert f"rebuild workspaces/{workspace.name}" in next(x for x in listed if "project.json" in x)
    assert any("opened, nothing run yet" in line for line in listed)
    said("rebuild", workspace.name)
    assert project.read_text() == before_damage
    (place / "workspaces" / "other" / "project.json").unlink()
    run_file = workspace / "experiments" / "run.json"
    told = run_file.read_text()
    run_file.write_text("{")
    assert f'python -m genlab.agent "{GOAL}"' in refused("report", workspace.name)
    run_file.write_text(told)
    best = said("promote", after[0]["run_id"], "--epochs", "1", "--seeds", "2")
    assert best.startswith(f"{after[0]['run_id']}: accuracy 0.")
    assert "time limit" not in best
    limits = ["--epochs", "900", "--seeds", "1", "--time-limit", "0.2"]
    cut = said("promote", after[0]["run_id"], *limits)
    assert "the time limit of 0.2 s cut the training of seeds 0: not all of their 900 epochs" in cut
    kept = json.loads((registry.parent / after[0]["run_id"] / "promoted.json").read_text())
    assert kept["cut"] == [0]
    (workspace / "experiments" / "report.html").unlink()
    said("report", workspace.name)
    assert (workspace / "experiments" / "report.html").exists()
    # Without the server: the transcript gives the same run, in a workspace of its own.
    transcript = str(workspace / "transcript.jsonl")
    said(GOAL, "--backend", "replay", "--transcript", transcript, "--no-compare")
    assert len(list(place.glob("workspaces/*/project.json"))) == 2
