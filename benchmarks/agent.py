"""Benchmarks of the research agent: its evaluator on sets of modules, and what its runs reach.

The sets (modules, goals, cheats) are in tests/agent/sets. `agent_goal_rate` runs the default goal
of params.yaml with a scripted expert, with random search and with the embedded language model, each
at the same number of attempts. It checks the harness; it is no evidence about language models. Runs
are kept in their workspaces, so that a killed benchmark resumes.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any
from xml.etree import ElementTree

import numpy as np
import typer
import vae_module
from goal_answers import SETS, open_reader
from judged import matches, read_set
from loopback import Reply, Request, Server
from replies import good
from scripted_llm import reply
from scripts.servers import SERVERS

from benchmarks.harness import ROOT, Result, benchmark
from genlab.agent.architecture.training import Training
from genlab.agent.config import Settings
from genlab.agent.evaluator.datasets import load_data
from genlab.agent.evaluator.model_evaluator import EvaluationError, ModelEvaluator, TrainingBudget
from genlab.agent.goals.model_reading import read_goal
from genlab.agent.goals.parser import parse_goal
from genlab.agent.record import RunRecord, read_run
from genlab.agent.registry import Attempt
from genlab.agent.run import run
from genlab.agent.workspace import open_workspace
from genlab.core.errors import GenlabError
from genlab.core.io import read_json
from genlab.core.params import AgentParams, load_params
from genlab.vae.sampling import posterior

DATA = Path("data")
INPUTS = "tests/llm/test_dialects.py"
WORKSPACES = Path("workspaces/benchmarks")
BUDGET = TrainingBudget(examples=3000, max_parameters=100_000, seconds=60.0)
QUICK: dict[str, Any] = {"examples": 200, "subset": 200, "validation": 100, "seeds": 1}
REASONING_TOKENS = 3000  # of every answer of the endpoint that starves
PATIENCE_OFF = 1000
WARM_UP = 2  # attempts
DRAWS = 8  # of z per image, by each side


def count_passes(key: str, check: Callable[[Any], tuple[bool, str]], *names: str) -> Result:
    """Count the entries of test sets that pass `check`; prints the outcome of each."""
    passed = 0
    entries = [entry for name in names for entry in read_set(name)]
    for entry in entries:
        success, outcome = check(entry)
        passed += success
        label = entry.get("name") or entry["goal"]
        print(f"{label}: {'passed' if success else 'NOT PASSED'}: {outcome}", flush=True)
    return Result.share(key, passed, len(entries))


@contextmanager
def open_evaluator(task: str, budget: TrainingBudget = BUDGET) -> Iterator[ModelEvaluator]:
    """Open an evaluator on Fashion-MNIST."""
    data = load_data("fashion_mnist", DATA, subset=3000, validation=500)
    with ModelEvaluator(data, task, budget, frechet=False) as evaluator:
        yield evaluator


def evaluate(evaluator: ModelEvaluator, module: dict[str, Any]) -> tuple[dict[str, float], str]:
    """Evaluate a module; returns its metrics, or why it has none."""
    code = module["code"]
    name = module.get("class_name", "Model")
    failure = evaluator.inspect(code, name).failure
    if not failure:
        try:
            return evaluator.evaluate(code, name, Training(), seed=0)[0].metrics, ""
        except EvaluationError as error:
            failure = str(error)
    return {}, failure


@benchmark("agent.expert.open_code", "agent.broken_code")
def agent_modules() -> Iterator[Result]:
    """Accept and train free-form modules; name what is wrong with broken ones."""
    with open_evaluator("classify") as evaluator:

        def accept(module: dict[str, Any]) -> tuple[bool, str]:
            _, failure = evaluate(evaluator, module)
            return not failure, failure

        def name_fault(module: dict[str, Any]) -> tuple[bool, str]:
            failure = evaluator.inspect(module["code"], module.get("class_name", "Model")).failure
            return matches(module["expect"], failure), failure

        yield count_passes("agent.expert.open_code", accept, "open_modules")
        yield count_passes("agent.broken_code", name_fault, "broken_modules")


@benchmark("agent.generative.cheats")
def agent_cheats() -> Iterator[Result]:
    """Count the modules that gain something by cheating, of a list that we wrote.

    Each has to fail, or to get no better number than it earns.
    """
    with open_evaluator("generate") as evaluator:

        def catch(module: dict[str, Any]) -> tuple[bool, str]:
            metrics, failure = evaluate(evaluator, module)
            bits = metrics.get("bits_per_dim", np.nan)
            caught = matches(module.get("failure", "(?!)"), failure)
            caught |= bool(bits >= module.get("bits_at_least", np.inf))
            return caught, failure or f"{bits:.3f} bits per dimension"

        caught = count_passes("agent.generative.cheats", catch, "cheats")
        yield replace(caught, value=float(round(caught.n * (1 - caught.value))))


@benchmark("agent.generative.bits_per_dim_error")
def agent_bits() -> Iterator[Result]:
    """Compare the evaluator's bits per dimension with the pipeline's on the same weights.

    Each side draws its own z, so the difference holds the noise of both means.
    """
    with open_evaluator("generate", replace(BUDGET, max_parameters=500_000)) as evaluator:
        _, weights = evaluator.evaluate(vae_module.SOURCE, "Model", Training(), seed=0)
        validation = evaluator.data.validation
        results = [
            evaluator.test(vae_module.SOURCE, "Model", weights, validation, seed)
            for seed in range(DRAWS)
        ]
    model = vae_module.as_pipeline_model(weights)
    images = np.ascontiguousarray(validation.items.transpose(0, 2, 3, 1))
    terms = [posterior.elbo_terms(model, images, seed) for seed in range(DRAWS)]
    bits = np.mean([nll + kl for nll, kl in terms]) / (images[0].size * np.log(2))
    evaluator_bits = np.mean([result["metrics"]["bits_per_dim"] for result in results])
    print(f"evaluator {evaluator_bits:.4f}, pipeline {bits:.4f}")
    error = abs(float(evaluator_bits - bits))
    yield Result("agent.generative.bits_per_dim_error", error, n=len(validation))


@benchmark("agent.goals_parsed")
def agent_goals() -> Iterator[Result]:
    """Parse goal sentences, or have a scripted model read them; what cannot be is refused."""
    os.environ.setdefault("OPENAI_API_KEY", "none")
    with tempfile.TemporaryDirectory() as folder, open_reader() as params:

        def parse(entry: dict[str, Any]) -> tuple[bool, str]:
            try:
                goal, is_read = read_goal(entry["goal"], params, Path(folder))
            except GenlabError as error:
                return matches(entry.get("refused", "(?!)"), str(error)), str(error)
            expected = {"max_parameters": None, "max_seconds": None, **entry.get("expect", {})}
            correct = all(getattr(goal, name) == value for name, value in expected.items())
            correct &= "expect" in entry and is_read == ("answer" in entry)
            return correct, goal.description

        yield count_passes("agent.goals_parsed", parse, *SETS)


@benchmark("agent.inputs")
def agent_inputs() -> Iterator[Result]:
    """Count the replies of servers, templates and proxies that are read correctly."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", INPUTS, f"--junitxml={report}"]
        subprocess.run(command, cwd=ROOT, stdout=sys.stderr)
        (suite,) = ElementTree.parse(report).getroot()  # noqa: S314 - our own file
    count, *wrong = (int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped"))
    yield Result.share("agent.inputs", count - sum(wrong), count)


@benchmark("agent.real_servers")
def agent_real_servers() -> Iterator[Result]:
    """Count the real servers on which both modes ended as they should when `make servers` ran."""
    servers = read_json(ROOT / "results" / "servers.json", producer_command="make servers")
    passed = 0
    for name, server in servers.items():
        ends = [server["modes"][mode] for mode in ("loop", "tools")]
        passed += all(end["honest"] for end in ends)
        for end in ends:
            print(f"{name}: {'passed' if end['honest'] else 'NOT PASSED'}: {end['ended']}")
    yield Result.share("agent.real_servers", passed, len(SERVERS))


def agent_settings(seed: int = 0, text: str = "", **changes: Any) -> Settings:
    """Make the settings of a run without early stopping; text: its goal, if not the default."""
    params = load_params(ROOT / "params.yaml")
    limits = {"patience": PATIENCE_OFF, "max_tokens": 0, "max_seconds": 0.0, "max_cost": 0.0}
    changed = AgentParams.model_validate(params.agent.model_dump() | limits | changes)
    goal = parse_goal(text or params.agent.goal)
    return Settings(goal, changed, seed, data=DATA, stop_at_goal=False)


def scripted_roles(url: str) -> dict[str, Any]:
    """Make the parameters of both roles for an endpoint on loopback, which asks for no key."""
    os.environ.setdefault("OPENAI_API_KEY", "none")
    roles = load_params(ROOT / "params.yaml").agent
    return {
        name: getattr(roles, name).model_dump() | {"base_url": url, "model": "scripted"}
        for name in ("planning", "tools")
    }


def complete(settings: Settings, workspaces: Path, name: str) -> RunRecord:
    """Complete a run; resumes it in its workspace."""
    # The key is the name: the endpoint's port differs from process to process.
    folder = workspaces / f"{name}-{settings.seed}"
    workspace = open_workspace(folder, settings.goal, name)
    run(settings, workspace, lambda line: print(f"{name} {settings.seed}: {line}", flush=True))
    return read_run(workspace)


@benchmark(
    "agent.goal_rate",
    "agent.goal_rate.search",
    "agent.goal_rate.embedded",
    "agent.goal_rate.expert_minus_search",
    "agent.goal_rate.embedded_minus_search",
)
def agent_goal_rate(
    seeds: Annotated[int, typer.Option(min=1, max=10, help="Number of runs, one per seed.")] = 10,
    workspaces: Annotated[Path, typer.Option(help="Where runs are kept and resumed.")] = WORKSPACES,
) -> Iterator[Result]:
    """Measure how often the default goal is reached by expert, search and embedded model."""
    used_seeds = range(seeds)

    def complete_all(name: str, **options: Any) -> list[RunRecord]:
        return [complete(agent_settings(seed, **options), workspaces, name) for seed in used_seeds]

    with Server(reply) as server:
        expert = complete_all("expert", backend="openai", **scripted_roles(server.url))
    by_expert = sum(record.find_first_met(record.attempts) is not None for record in expert)
    yield Result.rate("agent.goal_rate", by_expert, seeds, used_seeds)
    by_search = sum(record.find_first_met(record.search) is not None for record in expert)
    yield Result.rate("agent.goal_rate.search", by_search, seeds, used_seeds)
    key = "agent.goal_rate.expert_minus_search"
    yield Result.rate_difference(key, (by_expert, seeds), (by_search, seeds), used_seeds)
    embedded = complete_all("embedded", backend="embedded", compare_with_search=False)
    by_embedded = sum(record.find_first_met(record.attempts) is not None for record in embedded)
    yield Result.rate("agent.goal_rate.embedded", by_embedded, seeds, used_seeds)
    key = "agent.goal_rate.embedded_minus_search"
    yield Result.rate_difference(key, (by_embedded, seeds), (by_search, seeds), used_seeds)


def run_briefly(answer: Callable[[Request], Reply], **changes: Any) -> list[Attempt]:
    """Make the attempts of a run of short trainings, planned by an endpoint on loopback."""
    with tempfile.TemporaryDirectory() as scratch, Server(answer) as server:
        options = {**QUICK, "backend": "openai", "compare_with_search": False, **changes}
        settings = agent_settings(**options, **scripted_roles(server.url))
        return complete(settings, Path(scratch), "brief").attempts


def starve(request: Request) -> Reply:
    """The expert's answer behind REASONING_TOKENS: cut off where the limit is below them."""
    body = request.body
    limit = int(body.get("max_completion_tokens") or body.get("max_tokens") or 0)
    if limit and limit < REASONING_TOKENS + 500:
        return good("", finish="length", usage=(500, limit))
    return reply(request)


@benchmark("agent.starved")
def agent_starved() -> Iterator[Result]:
    """Share of attempts that the language model plans when it spends tokens on reasoning first."""
    attempts = run_briefly(starve)
    planned = sum(attempt.origin == "llm" for attempt in attempts)
    yield Result.share("agent.starved", planned, len(attempts))


@benchmark("agent.overhead_s")
def agent_overhead(
    attempts: Annotated[int, typer.Option(min=3, help="Timed attempts.")] = 12,
) -> Iterator[Result]:
    """Measure the seconds of an attempt beyond its answers and its training.

    Trainings are short, since the overhead does not grow with them. Answers of the scripted
    endpoint take milliseconds and count as overhead.
    """
    goal = "dummy stripes, validation loss below 0.000001"
    overheads = []
    for attempt in run_briefly(reply, text=goal, max_iterations=attempts + WARM_UP):
        training = sum(seed["seconds"] for seed in attempt.seeds)
        overheads.append(attempt.wall_seconds - training)
    yield Result.median("agent.overhead_s", overheads[WARM_UP:])
