"""Registry, intervals and recording of the benchmarks, and their command line.

A benchmark is a function that yields its results; `@benchmark` makes it a command whose options are
the function's parameters. Every result goes to results/benchmarks.json with the command that
measures it again, and is printed beside its target of benchmarks/targets.yaml.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import pkgutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ParamSpec

import numpy as np
import typer

from genlab.core.errors import GenlabError
from genlab.core.io import read_json, write_json
from genlab.core.stats import student_interval, wilson_interval
from genlab.evaluation.reports.targets import Target, judge_target, read_targets

ROOT = Path(__file__).resolve().parent.parent
MEASURE = """
import resource, subprocess, sys
from pathlib import Path
status = subprocess.run(sys.argv[2:]).returncode
Path(sys.argv[1]).write_text(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(status)
"""
RUN = "benchmarks/run.py"
RESULTS_FILE = Path("results/benchmarks.json")
RESAMPLES = 2000

Bounds = tuple[float, float]
Repeats = Annotated[int, typer.Option(min=1, help="Repeats.")]
P = ParamSpec("P")


@dataclass(frozen=True)
class Result:
    """A benchmark's value under its key, with the 95 % interval where there is one.

    n: what was counted; command: measures it again, the benchmark's own where empty; details:
    recorded beside the value.
    """

    key: str
    value: float
    interval: Bounds | None = None
    n: int = 1
    seeds: Sequence[int] = (0,)
    command: str = ""
    details: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def share(cls, key: str, hits: int, n: int) -> Result:
        """A share of a list that its author chose: no sample, and so without an interval."""
        return cls(key, hits / n, None, n)

    @classmethod
    def rate(cls, key: str, hits: int, n: int, seeds: Sequence[int] = (0,)) -> Result:
        """A rate over random runs or items, with Wilson's interval."""
        interval = wilson_interval(hits, n)
        return cls(key, hits / n, (interval["low"], interval["high"]), n, seeds)

    @classmethod
    def rate_difference(
        cls,
        key: str,
        minuend: tuple[int, int],
        subtrahend: tuple[int, int],
        seeds: Sequence[int] = (0,),
    ) -> Result:
        """The difference of two rates, with Newcombe's interval (1998, method 10).

        minuend, subtrahend: hits and trials of each rate. The interval is for independent runs; for
        runs on the same seeds it is wider than it needs to be.
        """
        hits_1, n_1 = minuend
        hits_2, n_2 = subtrahend
        rate_1 = hits_1 / n_1
        rate_2 = hits_2 / n_2
        interval_1 = wilson_interval(hits_1, n_1)
        interval_2 = wilson_interval(hits_2, n_2)
        difference = rate_1 - rate_2
        below = math.hypot(rate_1 - interval_1["low"], interval_2["high"] - rate_2)
        above = math.hypot(interval_1["high"] - rate_1, rate_2 - interval_2["low"])
        return cls(key, difference, (difference - below, difference + above), n_1, seeds)

    @classmethod
    def mean(cls, key: str, values: Sequence[float], seeds: Sequence[int] = (0,)) -> Result:
        """A mean with Student's interval; none for fewer than two values or equal ones."""
        bounds = None
        if len(values) > 1 and np.std(values):
            interval = student_interval(values)
            bounds = (interval["low"], interval["high"])
        return cls(key, float(np.mean(values)), bounds, len(values), seeds)

    @classmethod
    def median(cls, key: str, values: Sequence[float], seed: int = 0) -> Result:
        """A median with its percentile bootstrap interval; none for fewer than three values."""
        interval = None
        if len(values) > 2:
            resamples = np.random.default_rng(seed).choice(values, (RESAMPLES, len(values)))
            low, high = np.quantile(np.median(resamples, axis=1), (0.025, 0.975))
            interval = (float(low), float(high))
        return cls(key, float(np.median(values)), interval, len(values), (seed,))

    def describe(self, target: Target | None) -> str:
        """Describe the result and its target in one line."""
        parts = [f"{self.key} = {self.value:.4g}"]
        if self.interval is not None:
            parts.append("({:.4g} to {:.4g})".format(*self.interval))
        parts.append(f"n = {self.n}")
        if target is not None and target.target is not None:
            measured = {"value": self.value, "interval": self.interval}
            outcome = judge_target(target, {**self.details, **measured})
            parts.append(f"target {target.sign} {target.target:g} {outcome}")
        return ", ".join(parts)


def clip_to_shares(low: float, high: float) -> tuple[float, float]:
    """End an interval of a mean of shares where shares end: Student's knows no limits."""
    return max(low, 0.0), min(high, 1.0)


Run = tuple[str, Iterable[Result]]
"""The command line that repeats a benchmark, and its results, which are measured one by one."""


def complete(run: Run | None, keep: bool, output: Path, **_: object) -> None:
    """Run the benchmark of the command line; print and record each result as it is measured."""
    targets = read_targets(ROOT)
    command, results = run or ("", ())
    for result in results:
        typer.echo(result.describe(targets.get(result.key)))
        if keep:
            record(result, result.command or command, output)


def record(result: Result, command: str, path: Path) -> None:
    """Write a result under its key of the file `path`, atomically; other keys stay.

    Raises a GenlabError where the file is not a table of results.
    """
    recorded = read_json(path, producer_command="make bench") if path.exists() else {}
    if not isinstance(recorded, dict):
        raise GenlabError(f"{path} holds no table of results; remove it and run: make bench")
    recorded[result.key] = {
        "value": result.value,
        "interval": result.interval,
        "n": result.n,
        "seeds": list(result.seeds),
        "command": command,
        **result.details,
    }
    write_json(path, dict(sorted(recorded.items())))


app = typer.Typer(add_completion=False, rich_markup_mode=None, result_callback=complete)
REGISTRY: dict[str, tuple[str, ...]] = {}
"""The keys of every benchmark's results, by its name."""


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Run every benchmark.")] = False,
    names: Annotated[bool, typer.Option("--list", help="List benchmarks and targets.")] = False,
    keep: Annotated[bool, typer.Option(help="Record the results.")] = True,
    output: Annotated[Path, typer.Option(help="File of the results.")] = RESULTS_FILE,
) -> None:
    """Measure what the project promises.

    Example: python benchmarks/run.py generator --repeats 5
    """
    if names:
        list_benchmarks()
    elif every:
        # One process each: no benchmark inherits another's memory, threads or children.
        options = ["--output", str(output), "--keep" if keep else "--no-keep"]
        failed = [
            name
            for name in REGISTRY
            if subprocess.run([sys.executable, RUN, *options, name], cwd=ROOT).returncode
        ]
        if failed:
            raise GenlabError(f"these benchmarks failed: {', '.join(failed)}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def list_benchmarks() -> None:
    """Print every benchmark with its keys and targets."""
    targets = read_targets(ROOT)
    for name, keys in REGISTRY.items():
        typer.echo(name)
        for key in keys:
            target = targets[key]
            limit = "reported" if target.target is None else f"{target.sign} {target.target:g}"
            typer.echo(f"  {key:<34}{limit:<12}{target.description}")


def load_benchmarks() -> None:
    """Import the modules of this folder, which register benchmarks.

    By name, so that `--all` compares the pipeline's results with new ones of the baselines.
    """
    for module in pkgutil.iter_modules([str(Path(__file__).parent)], "benchmarks."):
        importlib.import_module(module.name)


def benchmark(
    *keys: str,
) -> Callable[[Callable[P, Iterable[Result]]], Callable[P, Iterable[Result]]]:
    """Register a function that yields results under `keys` as a command of its name."""

    def register(function: Callable[P, Iterable[Result]]) -> Callable[P, Iterable[Result]]:
        name = function.__name__
        defaults = inspect.signature(function).parameters

        @functools.wraps(function)
        def prepare(*args: P.args, **options: P.kwargs) -> Run:
            words = ["python", RUN, name]
            for option, value in options.items():
                if value != defaults[option].default:
                    words += [f"--{option.replace('_', '-')}", str(value)]
            return " ".join(words), function(*args, **options)

        REGISTRY[name] = keys
        app.command(name)(prepare)
        return function

    return register


def run_measured(command: Sequence[object], folder: Path) -> tuple[float, int]:
    """Run a command in `folder`; return its wall-clock seconds and its peak memory in bytes.

    A small process starts it, since on Linux the peak of a process begins with that of the one
    that started it, and this one has imported every benchmark. Raises a GenlabError where it fails.
    """
    with tempfile.NamedTemporaryFile("r") as peak:
        words = [sys.executable, "-c", MEASURE, peak.name, *map(str, command)]
        start = time.perf_counter()
        if subprocess.run(words, cwd=folder).returncode:
            raise GenlabError(f"{' '.join(map(str, command))} failed: see above")
        return time.perf_counter() - start, int(peak.read()) * 1024


def wall_seconds(
    function: Callable[[], object], times: int = 1, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Wall-clock seconds that `times` calls of `function` take."""
    start = clock()
    for _ in range(times):
        function()
    return clock() - start


cpu_seconds = functools.partial(wall_seconds, clock=time.process_time)
"""CPU seconds of this process that `times` calls take."""
