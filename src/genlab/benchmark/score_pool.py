"""Scores in processes of their own: a scorer that crashes or hangs costs one image its score."""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Protocol

from genlab.benchmark.cases import Case
from genlab.core import runtime as processes

ONE_THREAD = "genlab.benchmark.one_thread"
SECONDS = 300.0  # that a score may take
RANK = 5  # niceness of a worker: a tool shall not wait for its next request because of a score


class ScoringError(Exception):
    """The scorer gave no result: it crashed, hung or raised."""


class Scored(Protocol):
    """What a scorer returns (`genlab.benchmark.scoring.scorer.Score`)."""

    @property
    def outcome(self) -> str:
        """`scored`, or why there is no score."""
        ...

    @property
    def score(self) -> float | None:
        """Without reference, in [0, 1]."""
        ...

    @property
    def score_reference(self) -> float | None:
        """Against the ideal, in [0, 1]."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """Lines for people."""
        ...

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON, with `components`."""
        ...


Scorer = Callable[[Path, Mapping[str, Path], "list[dict[str, Any]]", Path, "Path | None"], Scored]
"""(template, avatars, swaps, image, ideal) to a score; plain arguments for another process."""


class ScoringPool:
    """Processes that score. Made at the first score; `close` ends them."""

    def __init__(self, scorer: Scorer, processes: int, seconds: float = SECONDS) -> None:
        self._scorer = scorer
        self._processes = processes
        self._seconds = seconds
        self._pool: ProcessPoolExecutor | None = None
        self._alone = asyncio.Lock()
        # As many as there are processes: who holds a slot doesn't wait for a process.
        self.slots = asyncio.Semaphore(processes)

    async def score(self, case: Case, image: Path) -> Scored:
        """Score an image. Raises `ScoringError`.

        A process that crashes takes its neighbours' work along: each is tried once more, in a
        process that is not shared, so that only the image that crashes it has no score.
        """
        swaps = [swap.model_dump() for swap in case.swaps]
        work = (case.template, dict(case.avatars), swaps, image, case.ideal)
        self.warm()
        pool = self._pool
        assert pool is not None
        try:
            return await self._run(pool, work)
        except BrokenProcessPool:
            if self._pool is pool:
                self._pool = None
            processes.end(pool)
        async with self._alone:
            pool = _pool(1, self._scorer)
            try:
                return await self._run(pool, work)
            except BrokenProcessPool as error:
                raise ScoringError("the scorer's process crashed twice") from error
            finally:
                processes.end(pool)

    def warm(self) -> None:
        """Start the processes and have them import the scorer, while images are in the making."""
        if self._pool is None:
            self._pool = _pool(self._processes, self._scorer)
            for _ in range(self._processes):
                self._pool.submit(_imported, self._scorer)

    def close(self) -> None:
        """End the processes, whatever they do."""
        if self._pool is not None:
            processes.end(self._pool)
            self._pool = None

    async def _run(self, pool: ProcessPoolExecutor, work: tuple[Any, ...]) -> Scored:
        try:
            future = pool.submit(self._scorer, *work)
            return await asyncio.wait_for(asyncio.wrap_future(future), self._seconds)
        except BrokenProcessPool:
            raise
        except asyncio.TimeoutError as error:
            if self._pool is pool:
                self._pool = None
            processes.end(pool)
            raise ScoringError(f"the scorer took over {self._seconds:g} seconds") from error
        except Exception as error:  # a bug of the scorer costs this image its score, no more
            raise ScoringError(f"the scorer failed: {type(error).__name__}: {error}") from error


def _pool(processes: int, scorer: Scorer) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("forkserver")  # not fork: this process has threads
    # Imported once, in the server, which lives as long as this program: later runs begin at once.
    context.set_forkserver_preload([ONE_THREAD, scorer.__module__])
    return ProcessPoolExecutor(processes, mp_context=context, initializer=_prepare)


def _imported(scorer: Scorer) -> None:
    """Nothing: its argument had to be imported to get here."""


def _prepare() -> None:
    """In a worker: deaf to Ctrl-C, after the requests in rank, and dead when the parent is."""
    importlib.import_module(ONE_THREAD)  # where the server was begun by somebody else
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(RANK)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
        os._exit(0)

    threading.Thread(target=follow, daemon=True).start()
