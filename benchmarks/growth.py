"""How cost grows with size: seconds of six tasks over three decades, as a figure.

Each size is timed once, the smallest first. From the third on, a size is left out if it would take
more than LONGEST seconds by extrapolation from the one before. The exponent of a task is the slope
of log seconds over log size between its two largest sizes: 1 is linear. The estimates of `JOBS` are
multiples of the cost of one piece at the largest size: grids are drawn in shards, images are scored
one by one, and a run has as many attempts as were timed.
"""

import math
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.harness import Result, benchmark, wall_seconds
from benchmarks.swap_leaderboard import fill, show_leaderboard
from genlab.agent.goals.parser import parse_goal
from genlab.agent.registry import Attempt, Registry
from genlab.agent.workspace import create_project
from genlab.benchmark.cases import load_cases
from genlab.benchmark.scoring.scorer import score
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Contender
from genlab.core.io import write_npz
from genlab.core.params import load_params
from genlab.datasets.arc_grids import load_split, make_distribution
from genlab.datasets.shards import GRIDS_KIND, SHARD, Shard, draw_shard
from genlab.evaluation.figures.style import figure_file
from genlab.grids.generator import AtomicImageGenerator, GeneratedGrids
from genlab.grids.parser import is_valid

DECADES = (1, 10, 100, 1000)
LONGEST = 120.0  # seconds
PICTURE = Path("docs/pictures/growth.png")
JOBS = {
    "draw grids": ("1 billion grids", 1e9),
    "score images": ("10,000 benchmark items", 1e4),
    "record attempts": ("1,000 agent attempts, without their models and training", 1e3),
}
SecondsBySize = dict[int, float]
Task = Callable[[int, Path], Callable[[], object]]
"""Prepares a task of a size in a folder; returns the function that is timed."""


def draw_grids(size: int, _: Path) -> Callable[[], GeneratedGrids]:
    generator = AtomicImageGenerator(make_distribution(load_params().grids))
    return lambda: generator.generate(size, 0)


def load_grids(size: int, folder: Path) -> Callable[[], object]:
    grids = draw_grids(size, folder)().grids
    write_npz(folder / "grids.npz", {"train": grids}, kind=GRIDS_KIND)
    return lambda: load_split(folder / "grids.npz", "train")


def parse_grids(size: int, folder: Path) -> Callable[[], object]:
    grids = draw_grids(size, folder)().grids
    return lambda: is_valid(grids)


def score_images(size: int, _: Path) -> Callable[[], object]:
    case = load_cases(Path("cases"))[0]
    score(case, case.template)  # the models and the case's own faces are loaded once
    return lambda: [score(case, case.template) for _ in range(size)]


def rank_items(size: int, folder: Path) -> Callable[[], object]:
    rng = np.random.default_rng(0)
    with Store(folder / "store.sqlite3") as store:
        tools = [Contender(tool_id=f"tool_{index}") for index in range(10)]
        scored = {"status": "scored", "image_sha256": "0" * 64, "components": {}, "seconds": 1.0}
        fill(store, tools, size // 10, lambda _: scored | {"score": float(rng.random())})
    return lambda: show_leaderboard(folder / "store.sqlite3")


def record_attempts(size: int, folder: Path) -> Callable[[], object]:
    registry = Registry(
        create_project(folder / "workspace", parse_goal("dummy, accuracy above 90 %"))
    )
    named = {"model_name": "Net", "dataset": "dummy", "metrics_summary": {"accuracy": 0.5}}

    def record() -> None:
        for number in range(size):
            run_id = f"qe_{number:06}"
            place = {"run_id": run_id, "experiment_dir": f"experiments/{run_id}"}
            registry.put(Attempt(timestamp=f"{number:06}", **place, **named))

    return record


TASKS: dict[str, tuple[Task, int]] = {
    "draw grids": (draw_grids, 100),
    "load grids": (load_grids, 100),
    "parse grids": (parse_grids, 100),
    "rank items": (rank_items, 100),
    "record attempts": (record_attempts, 1),
    "score images": (score_images, 1),
}
"""Each task with its smallest size; the last word of its name is the unit of the size."""


def measure(task: Task, smallest: int) -> SecondsBySize:
    """Measure the seconds that a task takes at each size."""
    seconds: SecondsBySize = {}
    for size in (smallest * decade for decade in DECADES):
        if len(seconds) > 1 and seconds[size // 10] * 10 > LONGEST:
            break
        with tempfile.TemporaryDirectory() as folder:
            seconds[size] = wall_seconds(task(size, Path(folder)))
    return seconds


@benchmark("scale.exponent")
def growth() -> Iterator[Result]:
    """Measure how the cost of each kind of work grows with its size, and draw it."""
    measured = {name: measure(task, smallest) for name, (task, smallest) in TASKS.items()}
    exponents: dict[str, float] = {}
    seconds_per_piece: dict[str, float] = {}
    for name, seconds in measured.items():
        largest = max(seconds)
        exponents[name] = math.log10(seconds[largest] / seconds[largest // 10])
        seconds_per_piece[name] = seconds[largest] / largest
        milliseconds = 1000 * seconds_per_piece[name]
        print(f"{name}: {milliseconds:.3g} ms at {largest:,}, exponent {exponents[name]:.2f}")
    distribution = make_distribution(load_params().grids)
    nothing = np.empty(0, dtype=np.uint64)
    shard = len(draw_shard(Shard(distribution, SHARD, (0, 1), nothing)))
    draw(measured)
    worst = max(exponents, key=exponents.__getitem__)
    core_hours = {job: seconds_per_piece[name] * size / 3600 for name, (job, size) in JOBS.items()}
    details = {
        "work": worst,
        "exponents": exponents,
        "core_hours": core_hours,
        "bytes_per_grid": shard / SHARD + distribution.size**2,  # and the file that training maps
    }
    print(details)
    yield Result("scale.exponent", exponents[worst], n=len(TASKS), details=details)


def draw(measured: dict[str, SecondsBySize]) -> None:
    """Draw seconds over size, one line per task and one panel per unit of size."""
    names_by_unit: dict[str, list[str]] = {}
    for name in measured:
        names_by_unit.setdefault(name.split()[-1], []).append(name)
    with figure_file(PICTURE, 5.2) as figure:
        panels = figure.subplots(2, 2, sharey=True)
        for axes, (unit, names) in zip(panels.flat, names_by_unit.items(), strict=True):
            for name in names:
                seconds = measured[name]
                axes.loglog([*seconds], [*seconds.values()], "o-", label=name.split()[0])
            axes.set(xlabel=unit, ylabel="seconds")
            axes.legend()
