"""Run cases through contenders: queue, generate, keep, score, record; cancel, kill and resume.

An item is queued; its request is recorded, with its cost, before it is sent; the image is on disk
before the store says `generated`; a score or a reason ends it. So a resumed run knows which images
arrived (they are not requested again) and which requests were under way (they count as paid and
are sent again). Not protected: an image under way at the moment of a kill, which only the service
knows of; a runs' folder deleted by hand.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from genlab.benchmark.cases import Case
from genlab.benchmark.judge import StarJudge
from genlab.benchmark.plugins.base import one_line
from genlab.benchmark.run.events import EventLog
from genlab.benchmark.run.item_processor import ItemProcessor, RunOptions, load_cases_of
from genlab.benchmark.run.requests import RequestLimits
from genlab.benchmark.run.score_pool import Scorer, ScoringPool
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Contender, Run, now
from genlab.core.errors import GenlabError
from genlab.core.params import BenchmarkParams

LOCK = ".lock"
_PROBE = threading.Lock()  # a question holds the file's lock for a moment: one at a time


@dataclass(eq=False)
class Runner:
    """Run cases through contenders. One object serves one event loop, of `threads.make_loop`.

    Images go to `folder`/<run>/<tool>/<case>.png. options: how runs are done; scorer: the
    project's own if None.
    """

    store: Store
    folder: Path
    _: KW_ONLY
    options: RunOptions = field(default_factory=RunOptions)
    scorer: Scorer | None = None
    _logs: dict[str, EventLog] = field(default_factory=dict, init=False)
    _tasks: dict[str, list[asyncio.Task[None]]] = field(default_factory=dict, init=False)
    _cancelled: set[str] = field(default_factory=set, init=False)
    _cases: dict[str, dict[str, Case]] = field(default_factory=dict, init=False)

    @classmethod
    def configured(
        cls, store: Store, folder: Path, params: BenchmarkParams, **options: Any
    ) -> Runner:
        """A runner with the limits and the judge of params.yaml."""
        limits = RequestLimits(params.concurrency, params.timeout, params.retries)
        judge = StarJudge(params.judge) if params.judge else None
        return cls(store, folder, options=RunOptions(limits=limits, judge=judge, **options))

    def start(
        self,
        cases: Sequence[Case],
        contenders: Sequence[Contender],
        *,
        repeats: int = 1,
        max_cost: float = 0.0,
        server: bool = False,
    ) -> str:
        """Queue every case for every contender; returns the run's id, the name of its folder.

        It is today's date, with -2, -3, ... where that is taken. repeats: draws per case; max_cost:
        dollars, 0 for free tools alone; server: whether a server resumes it. Nothing is sent before
        `run`.
        """
        if not cases or not contenders:
            raise GenlabError("a run takes at least one case with consent, and one tool")
        today, taken = date.today().isoformat(), {run.run_id for run in self.store.runs()}
        for number in count(1):
            run_id = today if number == 1 else f"{today}-{number}"
            with suppress(FileExistsError):  # another process may have taken it just now
                if run_id not in taken:
                    (self.folder / run_id).mkdir(parents=True)
                    break
        project = self.folder.resolve().parent
        stored = [case.run_record for case in cases]
        for facts in stored:  # relative within the project, which may be moved
            folder = Path(facts["folder"])
            if folder.is_relative_to(project):
                facts["folder"] = folder.relative_to(project).as_posix()
        self.store.create_run(
            run_id, now(), stored, contenders, repeats=repeats, max_cost=max_cost, server=server
        )
        self._cases[run_id] = {case.case_id: case for case in cases}
        return run_id

    async def run(self, run_id: str, *, again: bool = False) -> Run:
        """Do all that is unfinished in a run; returns its record.

        Skipped items are tried again (a key may be set now, or the ceiling higher); failed ones
        with `again`. Raises a `GenlabError` where another process runs it, or a case or tool
        has changed.
        """
        run = self.store.run(run_id)
        with hold_lock(self.folder, run_id):
            log = self.log(run_id)
            ending, reason = "interrupted", ""
            try:
                ending = await self._do(run, again)
            except Exception as error:
                reason = one_line(str(error))
                raise
            finally:
                self._cancelled.discard(run_id)
                self._tasks.pop(run_id, None)
                self._logs.pop(run_id, None)
                log.close(ending, reason)
        return self.store.run(run_id)

    def cancel(self, run_id: str) -> None:
        """End a run of this process: what has arrived is kept, nothing more is requested."""
        self._cancelled.add(run_id)
        for task in self._tasks.get(run_id, ()):
            task.cancel()

    def log(self, run_id: str) -> EventLog:
        """The events of a run that this process does or is about to do."""
        if run_id not in self._logs:
            log = self._logs[run_id] = EventLog(run_id)
            for item in self.store.items(run_id):
                log.update(item)
        return self._logs[run_id]

    async def _do(self, run: Run, again: bool) -> str:
        """Do a run that is locked; returns its ending."""
        log = self.log(run.run_id)
        cases = self._cases.pop(run.run_id, None)  # of `start`: reading 100 takes half a second
        if cases is None:
            cases = load_cases_of(self.store, run)
        work = ItemProcessor(self.store, self.folder, run, cases, self.options, log, again)
        self.store.set_run(run.run_id, ending="", ended=None)
        pool = ScoringPool(self.scorer or load_scorer(), self.options.limits.scorers)
        try:
            unfinished = await work.recover()
            tasks = [asyncio.create_task(work.item(item, pool)) for item in unfinished]
            self._tasks[run.run_id] = tasks
            if run.run_id in self._cancelled:  # before it began
                self.cancel(run.run_id)
            await _wait_for_all(tasks)
            if run.run_id in self._cancelled:
                await work.skip_rest()
                ending = "cancelled"
            else:
                ending = "finished"
            self.store.set_run(run.run_id, ending=ending, ended=now())
            return ending
        finally:
            pool.close()


def load_scorer() -> Scorer:
    """The project's scorer, whose import takes a second."""
    from genlab.benchmark.scoring.scorer import score

    return score


def lock_of(folder: Path, run_id: str) -> FileLock:
    """The lock that the process holds which does a run."""
    (folder / run_id).mkdir(parents=True, exist_ok=True)
    return FileLock(folder / run_id / LOCK)


@contextmanager
def hold_lock(folder: Path, run_id: str) -> Iterator[None]:
    """Hold a run's lock. Raises a `GenlabError` where another process holds it."""
    lock = lock_of(folder, run_id)
    try:
        with _PROBE:
            lock.acquire(timeout=0)
    except Timeout as error:
        raise GenlabError(
            f"run {run_id} is running in another process; wait for it, or end it"
        ) from error
    try:
        yield
    finally:
        lock.release()


def is_locked(folder: Path, run_id: str) -> bool:
    """Whether a process does the run now."""
    if not (folder / run_id / LOCK).exists():
        return False
    try:
        with _PROBE, lock_of(folder, run_id).acquire(timeout=0):
            return False
    except Timeout:
        return True


async def _wait_for_all(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for all tasks; a bug or a full disk in one ends the others and is raised."""
    try:
        if tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for fault in ended:
        if isinstance(fault, Exception):  # a cancellation is none
            raise fault
