"""A run of the image-tool benchmark as a process, to be killed.

`python swap_worker.py FOLDER URL` resumes the run in FOLDER/runs, or starts one over the cases in
FOLDER/cases, with the image endpoint at URL. It prints `running` before its first request.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path


def main(folder: Path, url: str) -> None:
    """Run everything that is unfinished."""
    # The scorers' processes import this file again: what they do not need is imported here.
    from small_benchmark import small_score

    from genlab.benchmark.cases import load_cases
    from genlab.benchmark.runner import Runner
    from genlab.benchmark.store.repository import Store
    from genlab.benchmark.tools.endpoint import EndpointTool, Entry

    tool = EndpointTool(Entry(id="turned", base_url=url, model="m", cost=0.01, concurrency=4))
    with Store(folder / "runs" / "genlab.sqlite3") as store:
        runner = Runner(
            store,
            folder / "runs",
            concurrency=4,
            scorers=1,
            max_cost=99.0,
            scorer=small_score,
            tools={"turned": tool},
        )
        runs = store.runs()
        run_id = runs[0].run_id if runs else runner.start(load_cases(folder / "cases"), [tool])
        print("running", flush=True)
        asyncio.run(runner.run(run_id))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
