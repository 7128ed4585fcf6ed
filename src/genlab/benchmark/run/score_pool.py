"""Score images in subprocesses: if the scorer crashes or hangs, one image has no score."""

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
"""Scores a picture of a case; called in a subprocess."""


class ScoringError(Exception):
    """The scorer crashed, hung or raised."""


class ScoringPool:
    """Subprocesses that score images, one executor each, so that a crash affects no other image."""

    def __init__(self, scorer: Scorer, processes: int, seconds: float = SECONDS) -> None:
        self._scorer = scorer
        self._seconds = seconds
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
        except Exception as error:  # a bug in the scorer concerns this image only
            raise ScoringError(f"the scorer failed: {type(error).__name__}: {error}") from error
        finally:
            self._idle.put_nowait(worker)

    def close(self) -> None:
        """End the processes at once; no score is awaited any more."""
        while not self._idle.empty():
            runtime.kill_pool(self._idle.get_nowait())


def _start_worker(scorer: Scorer) -> ProcessPoolExecutor:
    """Start a process that imports the scorer at once, while images are generated."""
    context = multiprocessing.get_context("forkserver")  # not fork: this process has threads
    # The fork server imports the scorer once and lives as long as this program: later runs need
    # not wait for it.
    context.set_forkserver_preload([ONE_THREAD, scorer.__module__])
    # An initializer, not a task: a task never arrives if the parent is killed before it is sent.
    worker = ProcessPoolExecutor(1, mp_context=context, initializer=_prepare, initargs=(scorer,))
    worker.submit(int)  # the first task starts the process
    return worker


def _prepare(scorer: Scorer) -> None:
    """Make a worker ignore Ctrl-C and exit with its parent; unpickling `scorer` imports it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    runtime.follow_parent()
