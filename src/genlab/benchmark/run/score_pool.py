"""Scores in subprocesses: a scorer that crashes or hangs costs one image its score."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING

from genlab.benchmark.cases import Case
from genlab.core import runtime

if TYPE_CHECKING:  # importing it takes a second
    from genlab.benchmark.scoring.scorer import Score

ONE_THREAD = "genlab.benchmark.run.one_thread"
SECONDS = 300.0

Scorer = Callable[[Case, Path], "Score"]
"""A case and a picture to a score, in another process."""


class ScoringError(Exception):
    """The scorer gave no result: it crashed, hung or raised."""


class ScoringPool:
    """Subprocesses that score, each an executor, so that a crash affects no other image."""

    def __init__(self, scorer: Scorer, processes: int, seconds: float = SECONDS) -> None:
        self._scorer, self._seconds = scorer, seconds
        self._idle: asyncio.Queue[ProcessPoolExecutor] = asyncio.Queue()
        for _ in range(processes):
            self._idle.put_nowait(_start_worker(scorer))

    async def score(self, case: Case, image: Path) -> Score:
        """Score an image. Raises `ScoringError`."""
        worker = await self._idle.get()
        try:
            future = worker.submit(self._scorer, case, image)
            return await asyncio.wait_for(asyncio.wrap_future(future), self._seconds)
        except (BrokenProcessPool, asyncio.TimeoutError) as error:
            runtime.kill_pool(worker)
            worker = _start_worker(self._scorer)
            crashed = isinstance(error, BrokenProcessPool)
            fault = "'s process crashed" if crashed else f" took over {self._seconds:g} seconds"
            raise ScoringError(f"the scorer{fault}") from error
        except Exception as error:  # a bug of the scorer costs this image its score, no more
            raise ScoringError(f"the scorer failed: {type(error).__name__}: {error}") from error
        finally:
            self._idle.put_nowait(worker)

    def close(self) -> None:
        """End the processes, whatever they do; nobody waits for a score any more."""
        while not self._idle.empty():
            runtime.kill_pool(self._idle.get_nowait())


def _start_worker(scorer: Scorer) -> ProcessPoolExecutor:
    """A process that imports the scorer at once, while images are generated."""
    context = multiprocessing.get_context("forkserver")  # not fork: this process has threads
    # Imported once, in the server, which lives as long as this program: later runs begin at once.
    context.set_forkserver_preload([ONE_THREAD, scorer.__module__])
    # As initializer: a task would never reach a worker whose parent is killed before it is sent.
    worker = ProcessPoolExecutor(1, mp_context=context, initializer=_prepare, initargs=(scorer,))
    worker.submit(int)  # the first task starts the process
    return worker


def _prepare(scorer: Scorer) -> None:
    """In a worker, once its argument is imported: ignore Ctrl-C, and exit with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    runtime.follow_parent()
