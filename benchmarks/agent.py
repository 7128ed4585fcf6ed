"""Benchmarks of the research agent: what it reaches, and what an iteration costs.

The goal of `agent_goal_rate` is chosen by search alone, on seeds that the agent never runs with:
the highest whole percent of accuracy that at least 8 of 10 runs of search reach in five attempts on
every training seed. It has to lie 3 points above what the baseline reaches. All runs complete their
five attempts, so that one run gives both the rate and the best accuracy. Runs are kept in their
workspaces: a killed benchmark resumes, and the ablations are compared with the runs of the rate.
These take an hour or two on a slow core.

The overhead of an iteration is its wall time (plan, code, check, summary, evaluation, review, all
files and the registry) minus the seconds of its answers and those of the same training without a
sandbox. Trainings are tiny, since the overhead does not grow with them.
"""

from __future__ import annotations

import hashlib
import math
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from ruamel.yaml import YAML
from scripted_llm import Server, fluent

from benchmarks.harness import RESULTS_FILE, ROOT, Result, benchmark
from genlab.agent import guest
from genlab.agent.attempt import CODE, Attempt
from genlab.agent.candidate import Training
from genlab.agent.comparison import first_reached
from genlab.agent.exam import exam
from genlab.agent.goal import goal
from genlab.agent.lab import Lab
from genlab.agent.llm import OpenAIBackend
from genlab.agent.loop import iterate
from genlab.agent.progress import Silent
from genlab.agent.run import run
from genlab.agent.settings import Settings
from genlab.agent.story import Story, story
from genlab.agent.transcript import Recording
from genlab.agent.workspace import Workspace, lay_out, open_in
from genlab.core.errors import GenlabError
from genlab.core.io import read_json
from genlab.core.params import AgentParams, load_params

# Quick on one slow core and independent of the clock: a training ends with its epochs. Two seeds,
# so that a single lucky one reaches nothing.
QUICK: dict[str, Any] = {
    "max_iterations": 5,
    "patience": 5,
    "epochs": 3,
    "subset": 3000,
    "validation": 2000,
    "time_limit": 900.0,
    "seeds": 2,
    "max_parameters": 20_000,
    "max_tokens": 0,
    "max_seconds": 0.0,
}
TINY: dict[str, Any] = {"epochs": 1, "subset": 200, "validation": 100, "seeds": 1}
MARGIN = 0.03  # above the baseline
SEARCH_SEEDS = range(100, 110)  # never the agent's
ENOUGH = 0.8  # of the runs of search
LOW_GOAL = "Design a small CNN for Fashion-MNIST, at least 30 % accuracy"
GOAL = "Design a small CNN for Fashion-MNIST, at least {percent:g} % accuracy"
UNREACHABLE = "Classify the dummy images, validation loss below 0.000001"
BOUND = "agent.goal_bound"
ABLATIONS = {
    "no_registry": {"registry_in_prompt": False},
    "no_repair": {"repair": False},
    "no_branching": {"branching": False},
}
METRICS, LOCK = Path("results/agent.json"), Path("dvc.lock")
DATA = Path("data")

Seeds = Annotated[int, typer.Option(min=1, max=10, help="Number of runs, one per seed.")]
Workspaces = Annotated[Path, typer.Option(help="Where runs are kept and resumed.")]
WORKSPACES = Path("workspaces/benchmarks")


def agent_settings(text: str, seed: int = 0, **changes: Any) -> Settings:
    """Settings of a run towards the goal `text`, with `changes` of the agent's params."""
    defaults = load_params(ROOT / "params.yaml").agent.model_dump()
    params = AgentParams(**{**defaults, **QUICK, **changes, "goal": text})
    return Settings(goal(text), params, seed, DATA)


class Progress(Silent):
    """Prints a line per attempt."""

    def __init__(self, name: str) -> None:
        self.name = name

    def attempt(self, attempt: Attempt) -> None:
        if attempt.decision:
            values = "/".join(f"{value:.4f}" for value in attempt.values("accuracy"))
            print(f"{self.name}: {attempt.iteration}, {values or attempt.failure}", flush=True)


def complete(settings: Settings, workspaces: Path, name: str) -> Story:
    """Run `settings` to the end, resuming what is in its workspace."""
    workspace = open_in(workspaces / f"{name}-{settings.seed}", settings.goal.text, settings.key)
    run(settings, workspace, Progress(f"{name} {settings.seed}"))
    return story(workspace)


@benchmark(BOUND)
def agent_bound(seeds: Seeds = 10, workspaces: Workspaces = WORKSPACES) -> Iterator[Result]:
    """Choose the accuracy that is the agent's goal, by search alone."""
    found, baseline = [], 0.0
    for seed in SEARCH_SEEDS[:seeds]:
        settings = agent_settings(LOW_GOAL, seed, backend="search")
        settings = replace(settings, stop_at_goal=False)
        first, *attempts = complete(settings, workspaces, "bound").attempts
        found.append(max((min(a.values("accuracy"), default=0.0) for a in attempts), default=0.0))
        baseline = max(baseline, *first.values("accuracy"))
    found.sort()
    bound = math.floor(100 * found[len(found) - math.ceil(ENOUGH * len(found))]) / 100
    print("search reaches:", ", ".join(f"{each:.4f}" for each in found))
    if bound < baseline + MARGIN:
        raise GenlabError(
            f"benchmarks/agent.py: {bound:g} is not {MARGIN:g} above the baseline's {baseline:g};"
            " make the evaluation longer (QUICK)"
        )
    yield Result(BOUND, bound, n=len(found), seeds=SEARCH_SEEDS[:seeds])


def chosen_goal(path: Path = RESULTS_FILE) -> str:
    """The goal with the recorded bound. Raises GenlabError where there is none."""
    command = "python benchmarks/run.py agent_bound"
    known = read_json(path, producer_command=command) if path.exists() else {}
    if BOUND not in known:
        raise GenlabError(f"{path} holds no {BOUND}; choose it first: {command}")
    return GOAL.format(percent=round(100 * known[BOUND]["value"], 4))


def trial(text: str, seed: int, workspaces: Path, name: str = "agent", **without: bool) -> Story:
    """Run the agent with the embedded planner; with search beside it unless parts are missing."""
    settings = agent_settings(text, seed, backend="embedded", compare_with_search=not without)
    settings = replace(settings, stop_at_goal=False, **without)
    return complete(settings, workspaces, name)


def reached(attempts: list[Attempt], settings: Settings) -> Attempt | None:
    """The first attempt that reached the goal; None where the baseline did already."""
    number = first_reached(attempts, settings)
    return attempts[number - 1] if number not in (None, 1) else None


def best_accuracy(run: Story) -> float:
    """Mean accuracy of the run's best model over training seeds."""
    return float(np.mean(run.best.values("accuracy"))) if run.best else math.nan


@benchmark(
    "agent.goal_rate",
    "agent.goal_rate.planned_by_llm",
    "agent.goal_rate.search",
    "agent.llm_minus_search",
)
def agent_goal_rate(seeds: Seeds = 10, workspaces: Workspaces = WORKSPACES) -> Iterator[Result]:
    """Measure how often the agent reaches the goal, and its gain over search."""
    text, used = chosen_goal(), range(seeds)
    runs = [trial(text, seed, workspaces) for seed in used]
    hits = [hit for each in runs if (hit := reached(each.attempts, each.settings))]
    yield Result.rate("agent.goal_rate", len(hits), seeds, used)
    by_llm = sum(hit.plan_origin.startswith("llm") for hit in hits)
    yield Result.rate("agent.goal_rate.planned_by_llm", by_llm, seeds, used)
    by_search = sum(reached(each.search, each.settings) is not None for each in runs)
    yield Result.rate("agent.goal_rate.search", by_search, seeds, used)
    gains = [each.comparison.difference for each in runs if each.comparison is not None]
    if not gains:
        raise GenlabError(
            f"benchmarks/agent.py: no run could be compared with search; remove {workspaces} and"
            " run it again"
        )
    yield Result.mean("agent.llm_minus_search", gains, used)
    origins = Counter(a.plan_origin.partition("(")[0] for each in runs for a in each.attempts)
    print("planned by:", ", ".join(f"{name} {count}" for name, count in origins.items()))


@benchmark(*(f"agent.ablations.{name}" for name in ABLATIONS))
def agent_ablations(seeds: Seeds = 10, workspaces: Workspaces = WORKSPACES) -> Iterator[Result]:
    """Measure the best accuracy without a part of the agent, minus that of the full agent."""
    text, used = chosen_goal(), range(seeds)
    full = [best_accuracy(trial(text, seed, workspaces)) for seed in used]
    for name, without in ABLATIONS.items():
        runs = [trial(text, seed, workspaces, name, **without) for seed in used]
        gains = [best_accuracy(cut) - best for cut, best in zip(runs, full, strict=True)]
        yield Result.mean(f"agent.ablations.{name}", gains, used)
        hits = sum(reached(cut.attempts, cut.settings) is not None for cut in runs)
        yield Result.rate(f"agent.ablations.{name}.goal_rate", hits, seeds, used)


class Clock(Silent):
    """Records the moment at which each iteration begins."""

    def __init__(self) -> None:
        self.begun: list[float] = []

    def begin(self, number: int, most: int) -> None:
        self.begun.append(time.monotonic())


@benchmark("agent.overhead_s")
def agent_overhead(
    iterations: Annotated[int, typer.Option(min=1, help="Timed iterations.")] = 12,
    warm_up: Annotated[int, typer.Option(min=0, help="Iterations before them.")] = 2,
) -> Iterator[Result]:
    """Measure the seconds of an iteration beyond its answers and its training."""
    count = warm_up + iterations
    settings = agent_settings(
        UNREACHABLE, backend="openai", max_iterations=count, patience=count, **TINY
    )
    clock = Clock()
    with tempfile.TemporaryDirectory(prefix="genlab-cost-") as scratch, Server(fluent) as server:
        workspace = lay_out(Path(scratch) / "project", UNREACHABLE)
        backend = OpenAIBackend({"planning": "fluent", "tools": "fluent"}, base_url=server.url)
        transcript = workspace.root / "transcript.jsonl"
        with Recording(backend, transcript) as recording, Lab(DATA, settings.params.sandbox) as lab:
            outcome = iterate(settings, recording, workspace, clock, lab)
            ends = [*clock.begun[1:], time.monotonic()]
        overheads, asked = [], 0.0
        for attempt, begin, end in zip(outcome.attempts, clock.begun, ends, strict=True):
            answers = attempt.spend["seconds"] - asked
            asked = attempt.spend["seconds"]
            overheads.append(end - begin - answers - training_seconds(settings, workspace, attempt))
    print("warm-up:", ", ".join(f"{each:.2f} s" for each in overheads[:warm_up]))
    yield Result.median("agent.overhead_s", overheads[warm_up:])


def training_seconds(settings: Settings, workspace: Workspace, attempt: Attempt) -> float:
    """Seconds of the attempt's training in this process: the fastest of three."""
    if attempt.failure:
        raise GenlabError(f"benchmarks/agent.py: attempt failed: {attempt.failure}; fix it")
    params, dataset = settings.params, settings.goal.dataset
    asked = exam(dataset, settings.data, params.subset, params.validation, 0)
    x, y = torch.from_numpy(asked.train.items), torch.from_numpy(asked.train.labels)
    code = workspace.root / attempt.experiment_dir / CODE
    config = settings.evaluation(attempt.training or Training())
    job = {**config.model_dump(), "scale": asked.scale, "seconds": config.time_limit}
    seconds = []
    for _ in range(3):
        torch.manual_seed(0)
        model = guest.load(str(code), attempt.model_name)
        start = time.monotonic()
        guest.train(model, x, y, job)
        seconds.append(time.monotonic() - start)
    return min(seconds)


@benchmark("agent.repro_ok")
def agent_repro() -> Iterator[Result]:
    """Check that every attempt of `make repro`'s run ended without a crash."""
    metrics = read_json(METRICS, producer_command="make repro")
    lock = YAML(typ="safe", pure=True).load(LOCK.read_text(encoding="utf-8"))
    outs = lock.get("stages", {}).get("agent_iterate", {}).get("outs", [])
    known = {out["path"]: out["md5"] for out in outs}
    if known.get(str(METRICS)) != hashlib.md5(METRICS.read_bytes()).hexdigest():
        raise GenlabError(f"{METRICS} is not what {LOCK} says; run: make repro")
    finished = metrics["verdict"] != "unfinished"
    yield Result("agent.repro_ok", float(finished), n=metrics["attempts"])
