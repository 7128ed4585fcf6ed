"""Wall time of the benchmark's runner relative to the ideal.

100 items of 256 x 256 pixels run through a simulated tool of 2 s, 16 at a time; each is stored,
scored in two processes and recorded. The ideal is the tool alone: 7 rounds of 2 s.
"""

import math
import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from small_benchmark import Turned, make_cases, small_score

from benchmarks.harness import Repeats, Result, benchmark, wall_seconds
from genlab.benchmark.plugins.registry import make_contenders
from genlab.benchmark.run.item_processor import RunOptions
from genlab.benchmark.run.requests import RequestLimits
from genlab.benchmark.run.runner import Runner
from genlab.benchmark.run.threads import complete
from genlab.benchmark.store.repository import Store

ITEMS = 100
SECONDS = 2.0
CONCURRENCY = 16


@benchmark("swap.runner_over_ideal")
def swap_runner(repeats: Repeats = 5) -> Iterator[Result]:
    """Time the runner against a simulated tool."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    ideal = math.ceil(ITEMS / CONCURRENCY) * SECONDS
    ratios = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases = make_cases(folder / "cases", ITEMS, side=256)
        # Images that are made beforehand: the tool takes its seconds and nothing else.
        images = {case.case_id: case.open_template().rotate(180) for case in cases}
        tool = Turned(SECONDS, make=lambda case: images[case.case_id], concurrency=CONCURRENCY)
        with Store(folder / "runs" / "genlab.sqlite3") as store:
            limits = RequestLimits(concurrency=CONCURRENCY, scorers=2)
            tools = {tool.tool_id: tool}
            options = RunOptions(limits=limits, tools=tools)
            for _ in range(repeats):
                runner = Runner(store, folder / "runs", options=options, scorer=small_score)
                run_id = runner.start(cases, make_contenders([tool], {}))
                run = partial(complete, runner.run(run_id))
                ratios.append(wall_seconds(run) / ideal)
                assert [item.status for item in store.items(run_id)] == ["scored"] * ITEMS
    yield Result.median("swap.runner_over_ideal", ratios)
