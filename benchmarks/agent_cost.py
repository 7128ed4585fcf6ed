"""What an iteration of the loop costs beside its questions and its training; and `make repro`.

Overhead is the wall time of a whole iteration (plan, code, check, summary, evaluation, review, all
files and the registry) less the seconds that its answers took and less those that the same training
takes in this process, without walls: so what the walls cost is counted. Trainings are tiny, since
the overhead does not grow with them. The first two iterations warm the worker up, and stand apart.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from pathlib import Path

import torch
from ruamel.yaml import YAML

from agent_server import Server, fluent
from agent_setting import Setting
from genlab.agent import guest
from genlab.agent.attempt import CODE, Attempt
from genlab.agent.candidate import Training
from genlab.agent.exam import exam
from genlab.agent.lab import Lab
from genlab.agent.llm import OpenAIBackend
from genlab.agent.loop import iterate
from genlab.agent.progress import Silent
from genlab.agent.settings import Settings
from genlab.agent.transcript import Recording
from genlab.agent.workspace import Workspace, lay_out
from genlab.core.errors import GenlabError
from genlab.core.io import read_json
from spread import median

GOAL = "Classify the dummy images, validation loss below 0.000001"
ITERATIONS, WARM_UP = 14, 2
METRICS, LOCK = Path("metrics/agent.json"), Path("dvc.lock")


class Clock(Silent):
    """The moment at which each iteration begins."""

    def __init__(self) -> None:
        self.begun: list[float] = []

    def begin(self, number: int, most: int) -> None:
        self.begun.append(time.monotonic())


def overhead(setting: Setting) -> None:
    """Write `agent.overhead_s`: the median iteration's seconds beyond LLM and training."""
    values, first = judged(setting, ITERATIONS)
    middle, interval = median(values)
    print(f"iterations of the warm-up: {', '.join(f'{each:.2f} s' for each in first)}")
    print(f"each: {', '.join(f'{each:.3f}' for each in values)}")
    setting.keep("overhead_s", middle, interval=interval, n=len(values), seeds=[0], only="overhead")


def judged(setting: Setting, iterations: int) -> tuple[list[float], list[float]]:
    """Overheads of the iterations behind the warm-up, and of the warm-up."""
    settings = setting.settings(
        GOAL, backend="openai", max_iterations=iterations, patience=iterations, epochs=1,
        subset=200, validation=100, seeds=1, max_parameters=20_000,
    )  # fmt: skip
    clock = Clock()
    with tempfile.TemporaryDirectory(prefix="genlab-cost-") as scratch, Server(fluent) as server:
        workspace = lay_out(Path(scratch) / "project", GOAL)
        backend = OpenAIBackend({"planning": "fluent", "tools": "fluent"}, base_url=server.url)
        with (
            Recording(backend, workspace.root / "transcript.jsonl") as recording,
            Lab(setting.data, settings.params.sandbox) as lab,
        ):
            outcome = iterate(settings, recording, workspace, clock, lab)
            ends = [*clock.begun[1:], time.monotonic()]
        found, asked = [], 0.0
        for attempt, begun, end in zip(outcome.attempts, clock.begun, ends, strict=True):
            answers = attempt.spend["seconds"] - asked
            asked = attempt.spend["seconds"]
            found.append(end - begun - answers - trained(settings, workspace, attempt))
    return found[WARM_UP:], found[:WARM_UP]


def trained(settings: Settings, workspace: Workspace, attempt: Attempt) -> float:
    """Seconds of the attempt's training alone, here and without walls: the fastest of three."""
    if attempt.failure:
        raise GenlabError(f"benchmarks/agent_cost.py: attempt failed: {attempt.failure}; mend it")
    params, goal = settings.params, settings.goal
    asked = exam(goal.dataset, settings.data, params.subset, params.validation, 0)
    x, y = torch.from_numpy(asked.train.items), torch.from_numpy(asked.train.labels)
    code = workspace.root / attempt.experiment_dir / CODE
    config = settings.evaluation(attempt.training or Training())
    job = {**config.model_dump(), "scale": asked.scale, "seconds": config.time_limit}
    seconds = []
    for _ in range(3):
        torch.manual_seed(0)
        model = guest.load(str(code), attempt.model_name)
        started = time.monotonic()
        guest.train(model, x, y, job)
        seconds.append(time.monotonic() - started)
    return min(seconds)


def repro_ok(setting: Setting) -> None:
    """Write `agent.repro_ok`: iterations of `make repro`'s run that ended as they should."""
    told = read_json(METRICS, producer_command="make repro")
    lock = YAML(typ="safe", pure=True).load(LOCK.read_text(encoding="utf-8"))
    outs = lock.get("stages", {}).get("agent_iterate", {}).get("outs", [])
    known = {out["path"]: out["md5"] for out in outs}
    if known.get(str(METRICS)) != hashlib.md5(METRICS.read_bytes()).hexdigest():
        raise GenlabError(f"{METRICS} is not what {LOCK} says; run: make repro")
    whole = told["verdict"] != "unfinished"
    print(f"{told['goal']}: {told['verdict']} after {told['attempts']} attempts")
    setting.keep("repro_ok", float(whole), n=told["attempts"], seeds=[0], only="repro_ok")
