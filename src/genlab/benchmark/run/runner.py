"""Run cases through contenders: queue, generate, save, score, record; cancel, kill and resume.

An item is queued; its request is recorded, with its cost, before it is sent; the image is on disk
before the store says `generated`; a score or a failure ends it. So a resumed run knows which images
arrived (they are not requested again) and which requests were under way (they count as paid and
are sent again). Not protected: an image under way at the moment of a kill, which only the service
knows of; a folder of runs deleted by hand.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import KW_ONLY, dataclass, field
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock, Timeout

from genlab.benchmark.cases import Case
from genlab.benchmark.judge import StarJudge
from genlab.benchmark.plugins.base import one_line
from genlab.benchmark.run.events import EventLog
from genlab.benchmark.run.item_processor import ItemProcessor, RunOptions, load_cases_of
from genlab.benchmark.run.requests import RequestLimits
from genlab.benchmark.run.score_pool import Scorer, ScoringPool
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Contender, Run, now
from genlab.core.errors import GenlabError, acquire
from genlab.core.params import BenchmarkParams

LOCK = ".lock"
_PROBE = threading.Lock()  # `is_locked` takes the file's lock for a moment: one thread at a time


@dataclass(eq=False)
class Runner:
    """Run cases through contenders. One object serves one event loop, of `threads.make_loop`.

    Images go to `folder`/<run>/<tool>/<case>.png. scorer: the project's scorer if None.
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
        """Create a runner with the limits and the judge of params.yaml.

        options: further fields of `RunOptions`.
        """
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

        The id is today's date, with -2, -3, ... if that is taken. repeats: images per case and
        contender; max_cost: dollars, 0 for free tools only; server: whether a server resumes the
        run. Nothing is sent before `run`.
        """
        if not cases or not contenders:
            raise GenlabError("a run takes at least one case with consent, and one tool")
        today = date.today().isoformat()
        taken = {run.run_id for run in self.store.runs()}
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
        # Of one run alone: a run that is started and never run would keep its cases for ever.
        self._cases = {run_id: {case.case_id: case for case in cases}}
        return run_id

    async def run(self, run_id: str, *, again: bool = False) -> Run:
        """Process the unfinished items of a run; returns the run's record.

        Skipped items are tried again (a key may be set now, or the ceiling higher); failed ones
        only with `again`. Raises a `GenlabError` if the run is running in another process, or if a
        case or a tool has changed.
        """
        run = self.store.run(run_id)
        with hold_lock(self.folder, run_id):
            log = self.log(run_id)
            ending = "interrupted"
            reason = ""
            try:
                ending = await self._process_items(run, again)
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
        """Cancel a run of this process: images that arrived are kept, no more are requested."""
        self._cancelled.add(run_id)
        for task in self._tasks.get(run_id, ()):
            task.cancel()

    def log(self, run_id: str) -> EventLog:
        """Return the event log of a run that this process executes or is about to execute."""
        if run_id not in self._logs:
            log = self._logs[run_id] = EventLog(run_id)
            for item in self.store.items(run_id):
                log.update(item)
        return self._logs[run_id]

    async def _process_items(self, run: Run, again: bool) -> str:
        """Process the items of a locked run; returns how the run ended."""
        log = self.log(run.run_id)
        cases = self._cases.pop(run.run_id, None)  # from `start`: reading 100 takes half a second
        if cases is None:
            cases = load_cases_of(self.store, run)
        processor = ItemProcessor(self.store, self.folder, run, cases, self.options, log, again)
        self.store.set_run(run.run_id, ending="", ended=None)
        pool = ScoringPool(self.scorer or load_scorer(), self.options.limits.scorers)
        try:
            unfinished = await processor.recover()
            tasks = [asyncio.create_task(processor.process(item, pool)) for item in unfinished]
            self._tasks[run.run_id] = tasks
            if run.run_id in self._cancelled:  # before the tasks began
                self.cancel(run.run_id)
            await _wait_for_all(tasks)
            if run.run_id in self._cancelled:
                await processor.skip_rest()
                ending = "cancelled"
            else:
                ending = "finished"
            self.store.set_run(run.run_id, ending=ending, ended=now())
            return ending
        finally:
            pool.close()


def load_scorer() -> Scorer:
    """Import the project's scorer, which takes a second."""
    from genlab.benchmark.scoring.scorer import score

    return score


def lock_of(folder: Path, run_id: str) -> FileLock:
    """Return the lock that the process executing a run holds."""
    (folder / run_id).mkdir(parents=True, exist_ok=True)
    return FileLock(folder / run_id / LOCK, timeout=0)


def hold_lock(folder: Path, run_id: str) -> AbstractContextManager[BaseFileLock]:
    """Hold a run's lock. Raises a `GenlabError` if another process holds it."""
    fault = f"run {run_id} is running in another process; wait for it, or end it"
    with _PROBE:
        return acquire(lock_of(folder, run_id), fault)


def is_locked(folder: Path, run_id: str) -> bool:
    """Whether a process is executing the run now."""
    if not (folder / run_id / LOCK).exists():
        return False
    try:
        with _PROBE, lock_of(folder, run_id):
            return False
    except Timeout:
        return True


async def _wait_for_all(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for all tasks; if one raises (a bug, a full disk), cancel the others and raise that."""
    try:
        if tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):  # CancelledError is a BaseException
            raise outcome
