"""Durations of pipeline, smoke run, tests and checks, as ratios to those of an earlier commit.

Both commits run in turn in clones, with an empty DVC cache and an empty user cache, and without
released judges, so that both train them. Finished runs are kept in build/pairs/: an interrupted
call resumes, and a call for more pairs adds to them. Nothing else should run on the machine.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from scripts.check_lock import RESOLVING
from scripts.smoke import run, smoke
from scripts.summary import read_stages

from benchmarks.ci import SET_BY_MAKE
from benchmarks.harness import ROOT, Result, benchmark
from genlab.core import git
from genlab.core.code import is_documented
from genlab.core.errors import GenlabError
from genlab.core.io import read_json, write_json
from genlab.core.runtime import CHILDREN_FIELDS, read_status

BASELINE = "96de87dd"
PLACE = ROOT / "build" / "pairs"
STAGE = "Running stage '"
PARTS = {
    "pipeline.ratio.evaluate": ("judges", "evaluate", "failure_gallery"),
    "pipeline.ratio.agent": ("agent_reference", "agent_search", "agent_iterate"),
    "pipeline.ratio.train": ("train",),
}
"""Stages of each part of the pipeline."""

APP_RATIOS = {
    "swap.leaderboard_ratio": ("swap_leaderboard", "swap.leaderboard_s"),
    "app.page_ratio": ("app_page", "app.page_ms"),
    "app.event_ratio": ("app_event", "app.event_ms"),
    "app.rate_ratio": ("app_rate", "app.rate_ms"),
}
"""Benchmark, and key of its value, that each commit runs from its own code."""

Run = dict[str, Any]
Pairs = Annotated[
    int, typer.Option(min=1, help="Pairs of runs; the median of their ratios counts.")
]
Baseline = Annotated[str, typer.Option(help="Commit that is compared with.")]


@benchmark("pipeline.ratio", *PARTS)
def pipeline_time(pairs: Pairs = 2, baseline: Baseline = BASELINE) -> Iterator[Result]:
    """Time `dvc repro` from nothing at a baseline and at HEAD."""
    runs = list(run_pairs("pipeline", run_pipeline, baseline, pairs))
    yield compare_walls("pipeline.ratio", runs)
    for key, stages in PARTS.items():
        yield compare_walls(key, runs, lambda run, stages=stages: sum_stages(run, stages))


@benchmark("pipeline.smoke_ratio")
def smoke_time(pairs: Pairs = 2, baseline: Baseline = BASELINE) -> Iterator[Result]:
    """Time `make smoke` at a baseline and at HEAD."""
    runs = list(run_pairs("smoke", time_command(["make", "smoke"]), baseline, pairs))
    yield compare_walls("pipeline.smoke_ratio", runs)


@benchmark("tests.ratio", "tests.fast_ratio")
def suite_time(pairs: Pairs = 1, baseline: Baseline = BASELINE) -> Iterator[Result]:
    """Time `make test` and `make test-fast` at a baseline and at HEAD."""
    for key, target in (("tests.ratio", "test"), ("tests.fast_ratio", "test-fast")):
        runs = list(run_pairs(target, time_command(["make", target]), baseline, pairs))
        yield compare_walls(key, runs)


@benchmark("ci.ratio")
def checks_time(pairs: Pairs = 1, baseline: Baseline = BASELINE) -> Iterator[Result]:
    """Time `.ci/run` in a clean clone, set-up included, at a baseline and at HEAD."""
    runs = list(run_pairs("ci", time_command([".ci/run"], set_up_first=False), baseline, pairs))
    yield compare_walls("ci.ratio", runs)


@benchmark("pipeline.docstring_stages")
def docstring_stages() -> Iterator[Result]:
    """Count stages that run once docstrings were edited, at a small size.

    The docstrings are those of every module but the ones whose docstrings a program reads.
    """
    with tempfile.TemporaryDirectory(prefix="genlab-docstrings-") as folder:
        clone = smoke(Path(folder))
        for module in sorted((clone / "src").rglob("*.py")):
            name = ".".join(module.relative_to(clone / "src").with_suffix("").parts)
            if not is_documented(name):
                source = module.read_text(encoding="utf-8")
                module.write_text(source.replace('"""', '"""Reworded. ', 1), encoding="utf-8")
        edited = time.time()
        run(clone, [sys.executable, "-m", "dvc", "repro"])
        ran = [stage["stage"] for stage in read_stages(clone, edited)]
    others = [stage for stage in ran if stage not in RESOLVING]
    yield Result("pipeline.docstring_stages", len(others), details={"ran": ran})


@benchmark(*APP_RATIOS)
def app_ratios(pairs: Pairs = 3, baseline: Baseline = BASELINE) -> Iterator[Result]:
    """Time leaderboard and pages at a baseline and at HEAD, each by its own benchmark.

    Both run with the packages of this environment and over the files that git has, so that pages
    without a pipeline's data say what is missing.
    """
    runs = list(run_pairs("app", run_app_benchmarks, baseline, pairs))
    for key in APP_RATIOS:
        ratios = [after[key] / before[key] for before, after in runs]
        details = {"ratios": ratios, "runs": [[run[key] for run in pair] for pair in runs]}
        yield Result(key, statistics.median(ratios), n=len(runs), details=details)


def run_app_benchmarks(clone: Path, environment: dict[str, str]) -> Run:
    """The values of APP_RATIOS' benchmarks, run in the clone."""
    output = clone / "measured.json"
    command = [sys.executable, "benchmarks/run.py", "--output", str(output)]
    for name, _ in APP_RATIOS.values():
        subprocess.run(
            [*command, name],
            cwd=clone,
            env={**environment, "PYTHONPATH": str(clone / "src")},
            check=True,
            stdout=sys.stderr,
        )
    values = read_json(output, producer_command="make bench")
    return {key: values[measured]["value"] for key, (_, measured) in APP_RATIOS.items()}


def run_pairs(
    name: str, measure: Callable[[Path, dict[str, str]], Run], baseline: str, pairs: int
) -> Iterator[tuple[Run, Run]]:
    """Yield runs of the baseline and of HEAD in turn; finished ones are read from build/pairs/."""
    commits = [git.resolve_commit(ROOT, commit) for commit in (baseline, "HEAD")]
    for number in range(pairs):
        before, after = (run_once(name, measure, commit, number) for commit in commits)
        yield before, after


def run_once(
    name: str, measure: Callable[[Path, dict[str, str]], Run], commit: str, number: int
) -> Run:
    """Measure a clone of a commit with empty caches, or read its finished run."""
    record = PLACE / f"{name}-{commit[:12]}-{number}.json"
    if not record.exists():
        folder = PLACE / "run"
        shutil.rmtree(folder, ignore_errors=True)
        clone = folder / "genlab"
        git.clone_commit(ROOT, commit, clone)
        for released in (clone / "checkpoints").glob("*.judges.*"):
            released.unlink()
        environment = {key: v for key, v in os.environ.items() if key not in SET_BY_MAKE}
        environment |= {"XDG_CACHE_HOME": str(folder / "cache"), "DVC_NO_ANALYTICS": "1"}
        print(f"{name} of {commit[:12]}, run {number + 1}", file=sys.stderr, flush=True)
        write_json(record, {"commit": commit, **measure(clone, environment)})
        shutil.rmtree(folder, ignore_errors=True)
    run: Run = read_json(record, producer_command="make bench")
    return run


def run_pipeline(clone: Path, environment: dict[str, str]) -> Run:
    """Run `dvc repro`; seconds in all, and wall and CPU seconds of each stage with its children."""
    set_up(clone, environment)
    path = f"{clone}/.venv/bin{os.pathsep}{environment['PATH']}"
    shutil.rmtree(clone / "data", ignore_errors=True)
    (clone / "dvc.lock").unlink()
    command = [str(clone / ".venv/bin/python"), "-u", "-m", "dvc", "repro"]
    starts: list[tuple[str, float, float]] = []
    begun = time.monotonic()
    with subprocess.Popen(
        command, cwd=clone, env={**environment, "PATH": path}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(STAGE):
                name = line.removeprefix(STAGE).partition("'")[0]
                starts.append((name, time.monotonic(), children_seconds(process.pid)))
        cpu = children_seconds(process.pid)
    if process.returncode:
        raise GenlabError(f"dvc repro ended with {process.returncode} in {clone}")
    ended = time.monotonic()
    stages = {
        name: {"seconds": round(next_wall - wall, 1), "cpu_seconds": round(next_cpu - used, 1)}
        for (name, wall, used), (_, next_wall, next_cpu) in zip(
            starts, [*starts[1:], ("", ended, cpu)], strict=True
        )
    }
    return {"seconds": round(ended - begun, 1), "stages": stages}


def children_seconds(process: int) -> float:
    """CPU seconds of the ended children of a process, theirs included."""
    return sum(read_status(process)[CHILDREN_FIELDS]) / os.sysconf("SC_CLK_TCK")


def time_command(
    command: Sequence[str], *, set_up_first: bool = True
) -> Callable[[Path, dict[str, str]], Run]:
    """Return a function that measures the wall time of a command in a clone."""

    def measure(clone: Path, environment: dict[str, str]) -> Run:
        if set_up_first:
            set_up(clone, environment)
        begun = time.monotonic()
        done = subprocess.run(command, cwd=clone, env=environment, stdout=subprocess.DEVNULL)
        if done.returncode:
            raise GenlabError(f"{' '.join(command)} ended with {done.returncode} in {clone}")
        return {"seconds": round(time.monotonic() - begun, 1)}

    return measure


def set_up(clone: Path, environment: dict[str, str]) -> None:
    """Make the clone's environment."""
    subprocess.run(["make", "setup"], cwd=clone, env=environment, check=True, stdout=sys.stderr)


def wall_time(measured: Run) -> float:
    """Wall seconds of a whole run."""
    return float(measured["seconds"])


def sum_stages(run: Run, names: Sequence[str]) -> float:
    """Wall seconds of stages, over all datasets."""
    return sum(
        float(used["seconds"])
        for stage, used in run["stages"].items()
        if stage.partition("@")[0] in names
    )


def compare_walls(
    key: str, pairs: Sequence[tuple[Run, Run]], seconds: Callable[[Run], float] = wall_time
) -> Result:
    """The median over pairs of the second run's seconds over the first one's."""
    ratios = [seconds(after) / seconds(before) for before, after in pairs]
    details: dict[str, Any] = {"ratios": ratios}
    if seconds is wall_time:  # the stages' seconds are in the same runs
        details["runs"] = [list(pair) for pair in pairs]
    return Result(key, statistics.median(ratios), n=len(pairs), details=details)
