"""Benchmarks of the research agent: its judge on sets of modules, and what its runs reach.

The sets (modules, goals, cheats) are in tests/agent/sets. `agent_goal_rate` runs the default goal
of params.yaml with a scripted expert, with random search and with the embedded language model, each
at the same number of attempts. It checks the harness; it is no evidence about language models. Runs
are kept in their workspaces, so that a killed benchmark resumes.
"""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import vae_module
from judged import read_set
from llm_server import Reply, Request, completion
from loopback import payload
from scripted_llm import Server, reply

from benchmarks.harness import ROOT, Result, benchmark
from genlab.agent.architecture.training import Training
from genlab.agent.config import Settings
from genlab.agent.evaluator.datasets import load_data
from genlab.agent.evaluator.judge import Budget, EvaluationError, Judge
from genlab.agent.goals import parse_goal
from genlab.agent.record import RunRecord, read_run
from genlab.agent.run import run
from genlab.agent.workspace import open_workspace
from genlab.core.errors import GenlabError
from genlab.core.params import AgentParams, load_params
from genlab.vae.sampling import posterior

DATA = Path("data")
WORKSPACES = Path("workspaces/benchmarks")
BUDGET = Budget(examples=3000, max_parameters=100_000, seconds=60.0)
QUICK: dict[str, Any] = {"examples": 200, "subset": 200, "validation": 100, "seeds": 1}
REASONING_TOKENS = 3000  # of every answer of the endpoint that starves
PATIENCE_OFF = 1000

Seeds = Annotated[int, typer.Option(min=1, max=10, help="Number of runs, one per seed.")]
Workspaces = Annotated[Path, typer.Option(help="Where runs are kept and resumed.")]


def class_of(module: dict[str, Any]) -> str:
    """The name of a module's class."""
    return str(module.get("class_name", "Model"))


@contextmanager
def open_judge(task: str, budget: Budget = BUDGET) -> Iterator[Judge]:
    """A judge on Fashion-MNIST."""
    data = load_data("fashion_mnist", DATA, subset=3000, validation=500)
    with Judge(data, task, budget, frechet=False) as judge:
        yield judge


@benchmark("agent.expert.open_code", "agent.broken_code")
def agent_modules() -> Iterator[Result]:
    """Accept and train free-form modules; name what is wrong with broken ones."""
    with open_judge("classify") as judge:
        accepted, modules = 0, read_set("open_modules")
        for each in modules:
            summary = judge.inspect(each["code"], class_of(each))
            reason = summary.failure
            if not reason:
                try:
                    judge.evaluate(each["code"], class_of(each), Training(), seed=0)
                except EvaluationError as error:
                    reason = str(error)
            accepted += not reason
            print(f"{each['name']}: {reason or 'evaluated'}", flush=True)
        yield Result.rate("agent.expert.open_code", accepted, len(modules))
        named, broken = 0, read_set("broken_modules")
        for each in broken:
            failure = judge.inspect(each["code"], class_of(each)).failure
            hit = bool(failure and re.search(each["expect"], failure, re.IGNORECASE))
            named += hit
            print(f"{each['name']}: {'' if hit else 'NOT NAMED: '}{failure}", flush=True)
        yield Result.rate("agent.broken_code", named, len(broken))


@benchmark("agent.generative.cheats")
def agent_cheats() -> Iterator[Result]:
    """Judge generative modules that cheat: each fails, or gets no better number than it earns."""
    caught, cheats = 0, read_set("cheats")
    with open_judge("generate") as judge:
        for each in cheats:
            failure, bits = judge.inspect(each["code"], class_of(each)).failure, np.nan
            if not failure:
                try:
                    result, _ = judge.evaluate(each["code"], class_of(each), Training(), seed=0)
                    bits = result.metrics["bits_per_dim"]
                except EvaluationError as error:
                    failure = str(error)
            expected = each.get("failure", "")
            hit = bool(failure and expected and re.search(expected, failure, re.IGNORECASE))
            hit |= bits >= each.get("bits_at_least", np.inf)
            caught += hit
            shown = failure or f"{bits:.3f} bits per dimension"
            print(f"{each['name']}: {'' if hit else 'NOT CAUGHT: '}{shown}", flush=True)
    yield Result.rate("agent.generative.cheats", caught, len(cheats))


@benchmark("agent.generative.bits_per_dim_error")
def agent_bits(
    draws: Annotated[int, typer.Option(min=1, help="Draws of z per image, by each side.")] = 8,
) -> Iterator[Result]:
    """Compare the judge's bits per dimension with the pipeline's on the same weights.

    Each side draws its own z, so the difference holds the noise of both means.
    """
    with open_judge("generate", replace(BUDGET, max_parameters=500_000)) as judge:
        _, weights = judge.evaluate(vae_module.SOURCE, "Model", Training(), seed=0)
        part = judge.data.validation
        judged = [
            judge.test(vae_module.SOURCE, "Model", weights, part, seed)["bits_per_dim"]
            for seed in range(draws)
        ]
    model = vae_module.as_pipeline_model(weights)
    images = np.ascontiguousarray(part.items.transpose(0, 2, 3, 1))
    terms = [posterior.elbo_terms(model, images, seed) for seed in range(draws)]
    bits = np.mean([nll + kl for nll, kl in terms]) / (images[0].size * np.log(2))
    print(f"judge {np.mean(judged):.4f}, pipeline {bits:.4f}")
    error = abs(float(np.mean(judged) - bits))
    yield Result("agent.generative.bits_per_dim_error", error, n=len(part))


@benchmark("agent.goals_parsed")
def agent_goals() -> Iterator[Result]:
    """Parse goal sentences; those that cannot be measured are refused."""
    right, goals = 0, read_set("goals")
    for each in goals:
        try:
            goal = parse_goal(each["goal"])
        except GenlabError as error:
            reason = each.get("refused", "(?!)")
            hit = bool(re.search(reason, str(error), re.IGNORECASE))
            shown = str(error)
        else:
            expected = {"max_parameters": None, "max_seconds": None, **each.get("expect", {})}
            hit = "expect" in each and all(
                getattr(goal, name) == value for name, value in expected.items()
            )
            shown = goal.description
        right += hit
        if not hit:
            print(f"{each['goal']!r}: {shown}")
    yield Result.rate("agent.goals_parsed", right, len(goals))


def agent_settings(seed: int = 0, text: str = "", **changes: Any) -> Settings:
    """Settings of a run towards a goal, the default one of params.yaml, without early stopping."""
    params = load_params(ROOT / "params.yaml")
    limits = {"patience": PATIENCE_OFF, "max_tokens": 0, "max_seconds": 0.0, "max_cost": 0.0}
    changed = AgentParams.model_validate(params.agent.model_dump() | limits | changes)
    goal = parse_goal(text or params.agent.goal)
    return Settings(goal, changed, seed, data=DATA, stop_at_goal=False)


def scripted_roles(url: str) -> dict[str, Any]:
    """Parameters of both roles for an endpoint on loopback."""
    roles = load_params(ROOT / "params.yaml").agent
    return {
        name: getattr(roles, name).model_dump() | {"base_url": url, "model": "scripted"}
        for name in ("planning", "tools")
    }


def complete(settings: Settings, workspaces: Path, name: str) -> RunRecord:
    """Run to the end, resuming what is in its workspace."""
    # The endpoint's port differs from process to process; the run is the same.
    folder = workspaces / f"{name}-{settings.seed}"
    workspace = open_workspace(folder, settings.goal, name)
    run(settings, workspace, lambda line: print(f"{name} {settings.seed}: {line}", flush=True))
    return read_run(workspace)


@benchmark(
    "agent.goal_rate",
    "agent.goal_rate.search",
    "agent.goal_rate.embedded",
    "agent.goal_rate.expert_minus_search",
)
def agent_goal_rate(
    seeds: Seeds = 10, workspaces: Workspaces = WORKSPACES, embedded: bool = True
) -> Iterator[Result]:
    """Measure how often the default goal is reached by expert, search and embedded model."""
    used = range(seeds)
    with Server(reply) as server:
        os.environ.setdefault("OPENAI_API_KEY", "none")
        roles = scripted_roles(server.url)
        expert = [
            complete(agent_settings(seed, backend="openai", **roles), workspaces, "expert")
            for seed in used
        ]
    reached = [each.first_reached(each.attempts) is not None for each in expert]
    yield Result.rate("agent.goal_rate", sum(reached), seeds, used)
    by_search = [each.first_reached(each.search) is not None for each in expert]
    yield Result.rate("agent.goal_rate.search", sum(by_search), seeds, used)
    gains = [float(one) - float(other) for one, other in zip(reached, by_search, strict=True)]
    yield Result.mean("agent.goal_rate.expert_minus_search", gains, used)
    if embedded:
        options = {"backend": "embedded", "compare_with_search": False}
        small = [complete(agent_settings(seed, **options), workspaces, "embedded") for seed in used]
        hits = sum(each.first_reached(each.attempts) is not None for each in small)
        yield Result.rate("agent.goal_rate.embedded", hits, seeds, used)


def starve(request: Request) -> Reply:
    """The expert's answer behind REASONING_TOKENS: cut off where the limit is below them."""
    body = request.body
    limit = int(body.get("max_completion_tokens") or body.get("max_tokens") or 0)
    if limit and limit < REASONING_TOKENS + 500:
        return payload(completion("", finish="length", usage=(500, limit)))
    return reply(request)


@benchmark("agent.starved")
def agent_starved() -> Iterator[Result]:
    """Share of attempts that the language model plans when it spends tokens on reasoning first."""
    with tempfile.TemporaryDirectory(prefix="genlab-starved-") as scratch, Server(starve) as server:
        os.environ.setdefault("OPENAI_API_KEY", "none")
        options = {**QUICK, "backend": "openai", "compare_with_search": False}
        settings = agent_settings(**options, **scripted_roles(server.url))
        found = complete(settings, Path(scratch), "starved")
    planned = sum(each.origin == "llm" for each in found.attempts)
    yield Result.rate("agent.starved", planned, len(found.attempts))


@benchmark("agent.overhead_s")
def agent_overhead(
    attempts: Annotated[int, typer.Option(min=3, help="Timed attempts.")] = 12,
    warm_up: Annotated[int, typer.Option(min=0, help="Attempts before them.")] = 2,
) -> Iterator[Result]:
    """Measure the seconds of an attempt beyond its answers and its training.

    Trainings are short, since the overhead does not grow with them. Answers of the scripted
    endpoint take milliseconds and count as overhead.
    """
    count = attempts + warm_up
    with tempfile.TemporaryDirectory(prefix="genlab-cost-") as scratch, Server(reply) as server:
        os.environ.setdefault("OPENAI_API_KEY", "none")
        options = {**QUICK, "backend": "openai", "compare_with_search": False}
        settings = agent_settings(
            text="dummy stripes, validation loss below 0.000001",
            max_iterations=count,
            **options,
            **scripted_roles(server.url),
        )
        found = complete(settings, Path(scratch), "overhead").attempts
    trained = [sum(float(seed["seconds"]) for seed in each.seeds) for each in found]
    spent = [each.wall_seconds - seconds for each, seconds in zip(found, trained, strict=True)]
    print("warm-up:", ", ".join(f"{each:.2f} s" for each in spent[:warm_up]))
    yield Result.median("agent.overhead_s", spent[warm_up:])
