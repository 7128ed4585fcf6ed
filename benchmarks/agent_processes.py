"""Run the agents that are compared: this tree's, an earlier commit's and aideml.

Each agent is a process and asks a scripted model (`agent_endpoint`) behind OpenAI's protocol. An
earlier commit runs in a clone below build/agent/, with the packages of this environment. aideml
runs in an environment below build/aideml/, which the first call makes (gigabytes). All propose the
designs of the earlier commit's scripted expert and train them for as many examples, on data that
need no download. aideml has no sandbox; the scripts that it runs come from `agent_endpoint`.
"""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from ruamel.yaml import YAML

from benchmarks.agent import PATIENCE_OFF, QUICK, WARM_UP
from benchmarks.agent_endpoint import TRAINED
from benchmarks.harness import ROOT
from genlab.agent.evaluator.datasets import load_data
from genlab.agent.record import read_run
from genlab.agent.workspace import Workspace
from genlab.core import git
from genlab.core.errors import GenlabError
from genlab.core.io import read_yaml
from genlab.core.runtime import CPU_FIELDS, read_status
from genlab.experiments.definitions import apply_changes

CLONES = ROOT / "build" / "agent"
PEER = ROOT / "build" / "aideml"
ENDPOINT = ROOT / "benchmarks" / "agent_endpoint.py"
DESIGNS = "import json, scripted_llm; print(json.dumps(scripted_llm.EXPERT))"
GOAL = "dummy stripes, validation loss below 0.000001"  # that no attempt reaches
UNLIMITED = {"patience": PATIENCE_OFF, "max_tokens": 0, "max_seconds": 0.0, "max_cost": 0.0}
CHARACTERS_PER_TOKEN = 4

# aideml's requirements as it pins them, those that it imports itself; the others are for scripts.
PACKAGES = (
    "black==24.3.0", "funcy==2.0", "humanize==4.8.0", "jsonschema==4.19.2", "numpy==1.26.2",
    "pandas==2.1.4", "rich==13.7.0", "loguru==0.7.2", "openai==3.57.0", "anthropic==2.14.0",
    "backoff==2.2.1", "coolname==5.0.0", "dataclasses-json==0.6.7", "genson==1.4.0",
    "igraph==1.0.0", "omegaconf==2.4.0", "shutup==0.3.0",
)  # fmt: skip
AIDEML = "aideml==0.2.2"
RUN_AIDEML = """
import json, sys, time
import aide
goal, steps = sys.argv[1:]
experiment = aide.Experiment("data", goal, "validation loss (cross-entropy), lower is better")
for stage in (experiment.cfg.agent.code, experiment.cfg.agent.feedback):
    stage.model = "scripted"
attempts = []
for number in range(int(steps)):
    print(f"attempt {number + 1} of {steps}", file=sys.stderr, flush=True)
    begun = time.monotonic()
    experiment.run(1)
    node = experiment.journal.nodes[-1]
    assert not node.is_buggy, node.term_out
    attempts.append([time.monotonic() - begun, node.term_out])
with open("attempts.json", "w") as file:
    json.dump(attempts, file)
"""


class Question(NamedTuple):
    """A request: characters of its messages, of its schemas and tools; seconds of the answer."""

    messages: int
    schemas: int
    seconds: float


@dataclass(frozen=True)
class AgentProcess:
    """Measurements of an agent that ran in a separate process.

    seconds: wall seconds of the process. cpu_marks: its CPU seconds at the start of each attempt.
    attempts, trainings: wall seconds of each attempt, and of its training.
    """

    seconds: float
    cpu_marks: Sequence[float]
    questions: Sequence[Question]
    attempts: Sequence[float]
    trainings: Sequence[float]

    @property
    def tokens(self) -> float:
        """Prompt tokens, four characters each; schemas and tools count."""
        characters = sum(question.messages + question.schemas for question in self.questions)
        return characters / CHARACTERS_PER_TOKEN

    @property
    def answer_seconds(self) -> float:
        """Seconds that the model took per timed attempt."""
        warm_up = len(self.questions) * WARM_UP // len(self.attempts)  # its first answers import
        timed = sum(question.seconds for question in self.questions[warm_up:])
        return timed / (len(self.attempts) - WARM_UP)

    def overhead(self, trainings: Sequence[float] = ()) -> float:
        """Median seconds of an attempt, WARM_UP left out, beyond answers and training.

        trainings: seconds of each training, where they are measured elsewhere.
        """
        pairs = zip(self.attempts, trainings or self.trainings, strict=True)
        overheads = [attempt - training for attempt, training in pairs]
        return statistics.median(overheads[WARM_UP:]) - self.answer_seconds

    @property
    def counts(self) -> dict[str, float]:
        """Requests and prompt tokens per attempt."""
        count = len(self.attempts)
        return {"requests": len(self.questions) / count, "prompt_tokens": self.tokens / count}

    def describe(self, trainings: Sequence[float] = ()) -> dict[str, float]:
        """Compute figures per attempt.

        cpu_s includes the training; process_overhead_s includes the start of the process and its
        reports.
        """
        count = len(self.attempts)
        training_seconds = sum(trainings or self.trainings) / count
        answer_seconds = sum(question.seconds for question in self.questions)
        return {
            **self.counts,
            "overhead_s": self.overhead(trainings),
            "answers_s": self.answer_seconds,
            "process_overhead_s": (self.seconds - answer_seconds) / count - training_seconds,
            "cpu_s": (self.cpu_marks[-1] - self.cpu_marks[WARM_UP]) / (count - WARM_UP - 1),
        }


def find_clone(commit: str) -> Path:
    """Find the clone of this repository at a commit, or make it."""
    full = git.resolve_commit(ROOT, commit)
    clone = CLONES / full[:12]
    if not (clone / ".git" / "ready").exists():
        shutil.rmtree(clone, ignore_errors=True)
        git.clone_commit(ROOT, full, clone)
        (clone / ".git" / "ready").touch()
    return clone


def write_designs(tree: Path, folder: Path, count: int) -> Path:
    """Write a number of designs, which all agents propose: those of a tree's scripted expert.

    If these are too few, they are repeated with more channels in the first layer.
    """
    command = [sys.executable, "-c", DESIGNS]
    done = subprocess.run(command, env=select_code(tree), stdout=subprocess.PIPE, check=True)
    expert = json.loads(done.stdout)
    designs = []
    for number in range(count):
        change, (first, *layers), training = expert[number % len(expert)]
        repetition = number // len(expert)
        wider = first | {"out_channels": first["out_channels"] + 2 * repetition}
        designs.append([change, [wider, *layers], training])
    path = folder / "designs.json"
    path.write_text(json.dumps(designs), encoding="utf-8")
    return path


def select_code(tree: Path) -> dict[str, str]:
    """Make the environment of a process that imports a tree's packages, on one thread."""
    path = os.pathsep.join([str(tree / "src"), str(tree / "tests/support")])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


@contextmanager
def serve(tree: Path, script: str, designs: Path) -> Iterator[tuple[str, list[Question]]]:
    """Start a scripted model; yields its URL, and a list that is filled when the block ends."""
    questions: list[Question] = []
    with subprocess.Popen(
        [sys.executable, ENDPOINT, script, designs],
        env=select_code(tree),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        try:
            yield url, questions
        finally:
            output, _ = process.communicate()
    questions += [Question(*row) for row in json.loads(output)]


def run_agent(tree: Path, designs: Path, attempts: int, seeds: int = 1) -> AgentProcess:
    """Run a tree's agent in mode loop.

    Raises a GenlabError if an attempt is not the scripted expert's.
    """
    agent: dict[str, Any] = UNLIMITED | QUICK | {"seeds": seeds, "max_iterations": attempts}
    agent |= {"mode": "loop", "backend": "openai", "compare_with_search": False}
    agent["planning.model"] = "scripted"
    params = apply_changes(
        read_yaml(tree / "params.yaml"),
        {f"agent.{key}": value for key, value in agent.items()},
        "agent_measures",
    )
    command = [sys.executable, "-m", "genlab.cli", "agent", "run", GOAL, "--fresh", "-y"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "params.yaml").open("w", encoding="utf-8") as file:
            YAML().dump(params, file)
        with serve(tree, "expert", designs) as (url, questions):
            seconds, cpu_marks = measure(command, folder, select_code(tree), url)
        record = read_run(Workspace(next(folder.glob("workspaces/*"))))
    for attempt in record.attempts:
        if attempt.failure or attempt.origin != "llm":
            fault = attempt.failure or attempt.origin
            raise GenlabError(f"{tree}: an attempt is not the scripted expert's: {fault}")
    count = len(record.attempts)
    if count != attempts:
        raise GenlabError(f"{tree}: {count} of {attempts} attempts: {record.verdict}")
    trainings = [sum(seed["seconds"] for seed in attempt.seeds) for attempt in record.attempts]
    wall_seconds = [attempt.wall_seconds for attempt in record.attempts]
    return AgentProcess(seconds, cpu_marks, questions, wall_seconds, trainings)


def run_aideml(designs: Path, attempts: int) -> AgentProcess:
    """Run aideml with its default settings on the data and the budget of `run_agent`."""
    python = make_environment()
    sizes = {"subset": QUICK["subset"], "validation": QUICK["validation"]}
    data = load_data("dummy", Path(), **sizes)
    sides = " x ".join(map(str, data.shape))
    goal = f"Classify images of {sides}, {data.classes} classes; train on {QUICK['examples']}"
    command = [python, "-c", RUN_AIDEML, f"{goal} examples.", attempts]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        np.savez(
            folder / "data" / "data.npz",
            items=data.train.items,
            labels=data.train.labels,
            validation_items=data.validation.items,
            validation_labels=data.validation.labels,
        )
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        environment.pop("PYTHONPATH", None)
        with serve(ROOT, "engineer", designs) as (url, questions):
            seconds, cpu_marks = measure(command, folder, environment, url)
        results = json.loads((folder / "attempts.json").read_text(encoding="utf-8"))
    wall_seconds = [seconds_of_attempt for seconds_of_attempt, _ in results]
    trainings = [float(output.partition(TRAINED)[2].split()[0]) for _, output in results]
    return AgentProcess(seconds, cpu_marks, questions, wall_seconds, trainings)


def measure(
    command: Sequence[object], folder: Path, environment: Mapping[str, str], url: str
) -> tuple[float, list[float]]:
    """Run an agent in a folder; returns wall seconds, and CPU seconds at the start of each attempt.

    Each attempt starts with the line `attempt N of M` on standard error.
    """
    environment = {**environment, "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none"}
    arguments = [str(argument) for argument in command]
    cpu_marks = []
    started_at = time.perf_counter()
    with subprocess.Popen(
        arguments, cwd=folder, env=environment, stdout=sys.stderr, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if re.match(r"attempt \d+ of \d+$", line):
                cpu_marks.append(measure_cpu(process.pid))
            print(line, end="", file=sys.stderr, flush=True)
    if process.returncode:
        raise GenlabError(f"the agent ended with {process.returncode} in {folder}: see above")
    return time.perf_counter() - started_at, cpu_marks


def measure_cpu(process: int) -> float:
    """Measure the CPU seconds of a process and its descendants, ended children included."""
    seconds = sum(read_status(process)[CPU_FIELDS]) / os.sysconf("SC_CLK_TCK")
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):  # it has just ended
            for child in children.read_text(encoding="ascii").split():
                seconds += measure_cpu(int(child))
    return seconds


def make_environment() -> Path:
    """Return the Python of aideml's environment; makes it if missing, with this one's torch."""
    python = PEER / ".venv" / "bin" / "python"
    done = PEER / "installed"
    if not done.exists():
        shutil.rmtree(PEER, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", PEER / ".venv"], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, *PACKAGES, f"torch=={version('torch')}"], check=True)
        # Without its requirements: most are for scripts, and some have no release for this Python.
        subprocess.run([*install, "--no-deps", AIDEML], check=True)
        done.touch()
    return python
