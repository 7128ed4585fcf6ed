"""Scores in subprocesses: a scorer that crashes or hangs costs one image its score."""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING

from genlab.benchmark.cases import Case
from genlab.core import runtime as processes

if TYPE_CHECKING:  # importing it takes a second
    from genlab.benchmark.scoring.scorer import Score

ONE_THREAD = "genlab.benchmark.one_thread"
SECONDS = 300.0
NICENESS = 5  # of a worker, so that requests do not wait for scores

Scorer = Callable[[Case, Path], "Score"]
"""A case and a picture to a score, in another process."""


class ScoringError(Exception):
    """The scorer gave no result: it crashed, hung or raised."""


class ScoringPool:
    """Subprocesses that score, each an executor, so that a crash affects no other image."""

    def __init__(self, scorer: Scorer, processes: int, seconds: float = SECONDS) -> None:
        """seconds: that a score may take."""
        self._scorer, self._seconds = scorer, seconds
        self._idle: asyncio.Queue[ProcessPoolExecutor] = asyncio.Queue()
        self._workers = [_start_worker(scorer) for _ in range(processes)]
        for worker in self._workers:
            self._idle.put_nowait(worker)

    async def score(self, case: Case, image: Path) -> Score:
        """Score an image. Raises `ScoringError`."""
        worker = await self._idle.get()
        try:
            future = worker.submit(self._scorer, case, image)
            return await asyncio.wait_for(asyncio.wrap_future(future), self._seconds)
        except BrokenProcessPool as error:
            worker = self._replace(worker)
            raise ScoringError("the scorer's process crashed") from error
        except asyncio.TimeoutError as error:
            worker = self._replace(worker)
            raise ScoringError(f"the scorer took over {self._seconds:g} seconds") from error
        except Exception as error:  # a bug of the scorer costs this image its score, no more
            raise ScoringError(f"the scorer failed: {type(error).__name__}: {error}") from error
        finally:
            self._idle.put_nowait(worker)

    def close(self) -> None:
        """End the processes, whatever they do."""
        for worker in self._workers:
            processes.end(worker)

    def _replace(self, worker: ProcessPoolExecutor) -> ProcessPoolExecutor:
        processes.end(worker)
        self._workers.remove(worker)
        self._workers.append(_start_worker(self._scorer))
        return self._workers[-1]


def _start_worker(scorer: Scorer) -> ProcessPoolExecutor:
    """A process that imports the scorer at once, while images are generated."""
    context = multiprocessing.get_context("forkserver")  # not fork: this process has threads
    # Imported once, in the server, which lives as long as this program: later runs begin at once.
    context.set_forkserver_preload([ONE_THREAD, scorer.__module__])
    worker = ProcessPoolExecutor(1, mp_context=context, initializer=_prepare)
    worker.submit(_import, scorer)
    return worker


def _import(scorer: Scorer) -> None:
    """Nothing: its argument had to be imported to get here."""


def _prepare() -> None:
    """In a worker: ignore Ctrl-C, run after the requests, and exit when the parent exits."""
    importlib.import_module(ONE_THREAD)  # where another part of the program started the server
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
        os._exit(0)

    threading.Thread(target=follow, daemon=True).start()
