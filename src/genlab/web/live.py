"""The runs of this process: begun here, followed from here, gone on with after a restart.

One thread with a loop of its own does them, so that a page that is busy holds up no image and an
image that is being scored holds up no page. Pages and the API call in from any thread.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import OrderedDict
from collections.abc import Coroutine, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from genlab.benchmark.cases import CASE_FILE, Case, load_cases
from genlab.benchmark.events import update
from genlab.benchmark.judging import judge_of
from genlab.benchmark.plugins import ImageTool
from genlab.benchmark.runner import Runner
from genlab.benchmark.scoring import Scorer
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Run
from genlab.core.errors import GenlabError
from genlab.core.params import BenchmarkParams
from genlab.web.feed import Feed
from genlab.web.readings import read_case, read_params, read_tools

RUNS = "runs"
STORE = "genlab.sqlite3"
AT_A_TIME = 2  # runs under way; further ones wait
MOST_WAITING = 8  # runs under way and waiting
FEEDS = 64  # runs whose events are kept in memory after their end
OPTIONS = "_run"  # what was asked of a run as a whole, beside the options of its tools
CALL_SECONDS = 60.0

RunStatus = Literal["running", "finished", "cancelled", "interrupted"]
Result = TypeVar("Result")


class TooManyRuns(GenlabError):  # noqa: N818 - an answer, no fault
    """More runs are under way than this server takes."""

    status = 429


class Live:
    """Cases, tools, the store, and the runs that this process does. `live()` gives the one."""

    def __init__(self, root: Path, scorer: Scorer | None = None) -> None:
        """root: the project's folder, with `params.yaml`, `runs/` and the folder of cases.

        scorer: scores pictures; the benchmark's own if None.
        """
        self.root = root
        self._scorer = scorer
        self.runs_folder = root / RUNS
        self._feeds: OrderedDict[str, Feed] = OrderedDict()
        self._runners: dict[str, Runner] = {}
        self._reasons: dict[str, str] = {}
        self._lock = threading.Lock()
        self._slots = asyncio.Semaphore(AT_A_TIME)
        self._tasks: set[asyncio.Task[None]] = set()

    @cached_property
    def store(self) -> Store:
        """The database under `runs/`; made where there is none."""
        return Store(self.runs_folder / STORE)

    @property
    def params(self) -> BenchmarkParams:
        """As `params.yaml` says now."""
        return read_params(self.root / "params.yaml")

    def cases(self) -> list[Case]:
        """All cases as they are now. Raises a `GenlabError` where one is faulty, or none is."""
        root = self.root / self.params.cases
        folders = sorted(path.parent for path in root.glob(f"*/{CASE_FILE}"))
        if not folders:
            return load_cases(root)  # it knows what to say
        return [read_case(folder) for folder in folders]

    def case(self, folder: Path) -> Case | None:
        """One case as it is now; None where it can't be read."""
        try:
            return read_case(folder)
        except (GenlabError, OSError):
            return None

    def tools(self) -> dict[str, ImageTool]:
        """All tools by their ids. A package that is installed meanwhile takes a new server."""
        file = self.runs_folder / "tools.yaml"
        return read_tools(self.root, file)

    # runs

    def start(
        self,
        cases: Sequence[Case],
        tools: Sequence[ImageTool],
        *,
        max_cost: float = 0.0,
        options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> str:
        """Begin a run; returns its id at once. max_cost: dollars it may take.

        Raises a `GenlabError` where a case has no consent, `TooManyRuns` where enough wait already.
        """
        asked = {**(options or {}), OPTIONS: {"max_cost": max_cost}}

        async def begin() -> str:
            if len(self._runners) >= MOST_WAITING:
                raise TooManyRuns(f"{MOST_WAITING} runs are under way; wait for one, or cancel one")
            runner = self._runner(max_cost, {tool.tool_id: tool for tool in tools})
            run_id = runner.start(cases, tools, asked)
            self._keep_going(runner, run_id)
            return run_id

        return self._call(begin())

    def resume(self) -> list[str]:
        """Go on with every run that has not ended; returns which. For the start of a server."""
        if not (self.runs_folder / STORE).exists():
            return []
        left = [run for run in reversed(self.store.runs()) if not run.ending]

        async def go_on(run: Run) -> None:
            max_cost = run.options.get(OPTIONS, {}).get("max_cost", 0.0)
            self._keep_going(self._runner(float(max_cost), self.tools()), run.run_id)

        for run in left:
            if run.run_id not in self._runners:
                self._call(go_on(run))
        return [run.run_id for run in left]

    def wake(self) -> None:
        """For the start of a server: go on with what was left, and load what the pages will want.

        Files in disorder are no reason not to start: the pages say what is wrong.
        """
        try:
            self.resume()
            self.tools()
        except GenlabError as error:
            print(f"genlab: error: {error}", file=sys.stderr)

    def cancel(self, run_id: str) -> bool:
        """End a run: what arrived is kept. False where this process doesn't do it."""

        async def end() -> bool:
            runner = self._runners.get(run_id)
            if runner is not None:
                runner.cancel(run_id)
            return runner is not None

        return self._call(end())

    def status(self, run: Run) -> tuple[RunStatus, str]:
        """Where a run stands, and why where it was interrupted."""
        if run.run_id in self._runners:
            return "running", ""
        ending = run.ending or self.store.run(run.run_id).ending  # it may have ended since
        if ending:
            return ("cancelled" if ending == "cancelled" else "finished"), ""
        reason = self._reasons.get(run.run_id, "the process that did it has ended")
        return "interrupted", f"{reason}; go on with: genlab-benchmark run --resume {run.run_id}"

    def feed(self, run_id: str) -> Feed:
        """The events of a run; of one that this process doesn't do, its state and an end.

        Raises a `GenlabError` where there is no such run.
        """
        with self._lock:
            known = self._feeds.get(run_id)
        if known is not None and (run_id in self._runners or known.ended):
            return known
        run = self.store.run(run_id)
        past = Feed(run_id)
        for item in self.store.items(run_id):
            past.add(update(item))
        status, reason = self.status(run)
        past.add({"type": "run", "run_id": run_id, "status": status, "reason": reason})
        return past

    def close(self) -> None:
        """Stop what is under way, as a kill would, and let go of the store."""
        if "_loop" in self.__dict__:

            async def stop() -> None:
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)

            self._call(stop())
            self._loop.call_soon_threadsafe(self._loop.stop)
        if "store" in self.__dict__:
            self.store.close()

    # the thread

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, name="benchmark", daemon=True).start()
        return loop

    def _call(self, work: Coroutine[Any, Any, Result]) -> Result:
        with self._lock:
            loop = self._loop
        return asyncio.run_coroutine_threadsafe(work, loop).result(CALL_SECONDS)

    def _runner(self, max_cost: float, tools: Mapping[str, ImageTool]) -> Runner:
        params = self.params
        return Runner(
            self.store,
            self.runs_folder,
            concurrency=params.concurrency,
            timeout=params.timeout,
            retries=params.retries,
            max_cost=max_cost,
            scorer=self._scorer,
            tools=tools,
            judge=judge_of(params),
        )

    def _keep_going(self, runner: Runner, run_id: str) -> None:
        feed = Feed(run_id)
        with self._lock:
            self._feeds[run_id] = feed
            self._feeds.move_to_end(run_id)
            for old in [key for key in self._feeds if key not in self._runners][:-FEEDS]:
                del self._feeds[old]
            self._runners[run_id] = runner
        task = asyncio.get_running_loop().create_task(self._go(runner, run_id, feed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _go(self, runner: Runner, run_id: str, feed: Feed) -> None:
        """Do a run and hand its events on, until both have ended."""
        try:
            for item in self.store.items(run_id):  # also while it waits for its turn
                feed.add(update(item))
            async with self._slots:
                run = asyncio.ensure_future(runner.run(run_id))
                try:
                    await asyncio.sleep(0)  # it opens its channel before it waits for anything
                    async for event in runner.subscribe(run_id):
                        if event["type"] == "update":
                            feed.add(event)
                    await run
                finally:
                    run.cancel()
                    await asyncio.gather(run, return_exceptions=True)
        except Exception as error:  # the run stands where it is, and says so
            said = (
                str(error) if isinstance(error, GenlabError) else f"{type(error).__name__}: {error}"
            )
            self._reasons[run_id] = said
        finally:
            with self._lock:
                self._runners.pop(run_id, None)
            status, reason = self.status(self.store.run(run_id))
            feed.add({"type": "run", "run_id": run_id, "status": status, "reason": reason})


_KNOWN: dict[Path, Live] = {}
_KNOWN_LOCK = threading.Lock()


def live(root: Path | None = None) -> Live:
    """The one `Live` of this process for a project's folder, the working directory if None."""
    place = (root or Path.cwd()).resolve()
    with _KNOWN_LOCK:
        if place not in _KNOWN:
            _KNOWN[place] = Live(place)
        return _KNOWN[place]
