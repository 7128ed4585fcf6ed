"""Start, follow and cancel the runs of this process, and resume them after a restart.

Runs are tasks of one event loop, which has its own thread. Pages and the server's routes call these
functions from other threads and loops.
"""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Literal

from genlab.benchmark.cases import Case, load_cases
from genlab.benchmark.plugins.base import ImageTool
from genlab.benchmark.plugins.registry import load_tools
from genlab.benchmark.run.events import EventLog
from genlab.benchmark.run.runner import Runner, is_locked
from genlab.benchmark.run.threads import make_loop
from genlab.benchmark.store.repository import STORE, Store
from genlab.benchmark.store.schema import Contender, Run, now
from genlab.core.errors import GenlabError
from genlab.core.params import BenchmarkParams, load_params

MAX_RUNNING = 2  # runs at a time; further ones wait
MAX_RUNS = 8  # runs that are running or waiting
MAX_ITEMS = 5000  # images of a run
MAX_LOGS = 64  # runs whose events are kept in memory
POLL_SECONDS = 1.0  # interval of reading the state of another process's run

RunStatus = Literal["running", "finished", "cancelled", "interrupted"]


class TooManyRunsError(GenlabError):
    """The limit of runs that are running or waiting is reached."""


class Jobs:
    """Cases, tools, the store, and the runs of this process; `jobs()` returns the instance."""

    def __init__(self, root: Path) -> None:
        """root: the project's folder, with params.yaml and runs/."""
        self.root = root
        self.runs_folder = root / "runs"
        self._runners: dict[str, Runner] = {}
        self._logs: dict[str, EventLog] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(MAX_RUNNING)
        self._lock = threading.Lock()

    @cached_property
    def store(self) -> Store:
        """The database in `runs/`, created on first use."""
        return Store(self.runs_folder / STORE)

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the runs, started with the first run."""
        loop = make_loop()
        threading.Thread(target=loop.run_forever, name="runs", daemon=True).start()
        return loop

    @property
    def params(self) -> BenchmarkParams:
        """The section `benchmark` of params.yaml."""
        return load_params(self.root / "params.yaml").benchmark

    @property
    def cases_folder(self) -> Path:
        return self.root / Path(self.params.cases).expanduser()

    def cases(self) -> list[Case]:
        """Load all cases. Raises a `GenlabError` if one is faulty, or there is none."""
        return load_cases(self.cases_folder)

    def tools(self) -> dict[str, ImageTool]:
        """Load all tools by id; a plugin that is installed later needs a restart of the server."""
        file = self.runs_folder / "tools.yaml"
        return load_tools(file if file.exists() else None)

    # runs

    def start(
        self, cases: Sequence[Case], contenders: Sequence[Contender], repeats: int, max_cost: float
    ) -> str:
        """Start a run; returns its id at once. max_cost: ceiling in dollars.

        Raises a TooManyRunsError where as many runs as allowed are running or waiting.
        """
        if len(cases) * len(contenders) * repeats > MAX_ITEMS:
            raise GenlabError(f"a run may have {MAX_ITEMS} images; choose fewer")
        with self._lock:
            self._check_number()
            runner = self._make_runner()
            run_id = runner.start(
                cases, contenders, repeats=repeats, max_cost=max_cost, server=True
            )
            self._schedule(runner, run_id)
            return run_id

    def resume(self, run_id: str, *, again: bool = False) -> None:
        """Continue a run that no process executes. Raises TooManyRunsError as `start` does."""
        with self._lock:
            if run_id not in self._runners:
                self._check_number()
                self._schedule(self._make_runner(), run_id, again)

    def _check_number(self) -> None:
        """Raise a TooManyRunsError where as many runs as allowed are running or waiting."""
        if len(self._runners) >= MAX_RUNS:
            reason = f"{MAX_RUNS} runs are under way; wait for one, or cancel one"
            raise TooManyRunsError(reason)

    def executes(self, run_id: str) -> bool:
        """Whether this process executes a run, or will when a slot is free."""
        return run_id in self._runners

    def cancel(self, run_id: str) -> bool:
        """Cancel a run; images that arrived are kept. Returns False if it is not this process's."""
        runner = self._runners.get(run_id)
        if runner is None:
            return False
        self._loop.call_soon_threadsafe(self._cancel, runner, run_id)
        return True

    def status(self, run: Run) -> tuple[RunStatus, str]:
        """Return the status of a run, and the reason if it was interrupted."""
        return self._status(run, not run.ending and is_locked(self.runs_folder, run.run_id))

    def _status(self, run: Run, locked: bool) -> tuple[RunStatus, str]:
        if self.executes(run.run_id) or (locked and not run.ending):
            return "running", ""
        ending = run.ending or self.store.run(run.run_id).ending  # it may have ended since
        if ending:
            return ("cancelled" if ending == "cancelled" else "finished"), ""
        reason = "its process ended"
        log = self._logs.get(run.run_id)
        if log is not None and log.end is not None and log.end["reason"]:
            reason = log.end["reason"]
        command = f"genlab benchmark run --resume {run.run_id}"
        return "interrupted", f"{reason}; continue it here, or with: {command}"

    def log(self, run_id: str) -> EventLog:
        """Return the event log of a run: this process's, or a new one with the stored state."""
        log = self._logs.get(run_id)
        run = self.store.run(run_id)
        ours = self.executes(run_id)
        locked = is_locked(self.runs_folder, run_id)
        status, _ = self._status(run, locked)
        in_other_process = locked and not ours
        outdated = log is not None and log.end is not None and log.end["status"] != status
        # Another process may have continued a run that had ended here.
        if log is None or in_other_process or outdated:
            log = EventLog(run_id)
            self._publish(log)
        return log

    @asynccontextmanager
    async def watch(self, run_id: str) -> AsyncIterator[EventLog]:
        """The event log of a run, kept up to date if another process executes the run."""
        log = await asyncio.to_thread(self.log, run_id)
        polling = None
        if self._logs.get(run_id) is not log and log.end is None:
            polling = asyncio.create_task(self._poll(log))
        try:
            yield log
        finally:
            if polling is not None:
                polling.cancel()

    # life of the server

    def resume_server_runs(self) -> None:
        """Continue the unfinished runs that a server started, with their ceilings."""
        if not (self.runs_folder / STORE).exists():
            return
        try:
            for run in reversed(self.store.runs()):
                if run.server and not run.ending and not is_locked(self.runs_folder, run.run_id):
                    self.resume(run.run_id)
        except GenlabError as error:  # the server starts nevertheless: the pages show the error
            print(f"genlab: error: {error}", file=sys.stderr)

    def close(self) -> None:
        """Stop all runs, which stay resumable as after a kill, and close the store."""
        if "_loop" in self.__dict__:
            asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
        if "store" in self.__dict__:
            self.store.close()

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _make_runner(self) -> Runner:
        return Runner.configured(self.store, self.runs_folder, self.params, tools=self.tools())

    def _schedule(self, runner: Runner, run_id: str, again: bool = False) -> None:
        self._runners[run_id] = runner
        self._logs[run_id] = runner.log(run_id)  # listeners see the run while it waits
        if len(self._logs) > MAX_LOGS:
            oldest = next(iter(self._logs))
            del self._logs[oldest]
        asyncio.run_coroutine_threadsafe(self._execute(runner, run_id, again), self._loop)

    def _cancel(self, runner: Runner, run_id: str) -> None:
        """Cancel a run, in the loop; its ending is recorded first, so that no server resumes it."""
        if self._runners.get(run_id) is not runner:  # it has ended meanwhile
            return
        self.store.set_run(run_id, ending="cancelled", ended=now())
        if is_locked(self.runs_folder, run_id):  # it is running, not waiting
            runner.cancel(run_id)
            return
        del self._runners[run_id]
        unfinished = [item for item in self.store.items(run_id) if not item.finished]
        for item in unfinished:
            item.cancel()
        self.store.save_items(unfinished)
        for item in unfinished:
            runner.log(run_id).update(item)
        runner.log(run_id).close("cancelled")

    async def _execute(self, runner: Runner, run_id: str, again: bool) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        log = runner.log(run_id)
        try:
            async with self._slots:
                if self._runners.get(run_id) is runner:  # not cancelled while it waited
                    await runner.run(run_id, again=again)
        except Exception as error:  # the run stays resumable, and the page shows the reason
            log.close("interrupted", str(error))
        finally:
            if self._runners.get(run_id) is runner:
                del self._runners[run_id]
            self._tasks.discard(task)
            log.close("interrupted")

    async def _poll(self, log: EventLog) -> None:
        """Publish the stored state of another process's run until the run ends."""
        while log.end is None:
            await asyncio.sleep(POLL_SECONDS)
            await asyncio.to_thread(self._publish, log)

    def _publish(self, log: EventLog) -> None:
        """Publish the stored state of a run."""
        status, reason = self.status(self.store.run(log.run_id))
        for item in self.store.items(log.run_id):
            log.update(item)
        if status != "running":
            log.close(status, reason)


def jobs(root: Path | None = None) -> Jobs:
    """Return the `Jobs` of this process for a project's folder, the working directory if None."""
    return _make_jobs((root or Path.cwd()).resolve())


_make_jobs = cache(Jobs)
