"""Limits on requests to a service: dollars per run, requests at a time, retries and waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential_jitter,
)

from genlab.benchmark.plugins.base import ToolFailure

Sleep = Callable[[float], Awaitable[None]]
Ask = Callable[[float, float], Awaitable["float | None"]]
"""Called with the ceiling and the sum wanted; returns a new ceiling, or None to keep it."""
Result = TypeVar("Result")

MAX_WAIT = 120.0  # seconds that a service may ask us to wait; beyond, the item fails at once


@dataclass(frozen=True)
class Limits:
    """concurrency: images at a time; timeout: seconds per request; retries: after a passing fault;
    scorers: processes that score; sleep: waits between tries."""

    concurrency: int = 4
    timeout: float = 300.0
    retries: int = 4
    scorers: int = 2
    sleep: Sleep = asyncio.sleep


class Budget:
    """Dollars of a run, reserved before a request is sent, so that the ceiling is never passed."""

    def __init__(self, ceiling: float, spent: float, ask: Ask | None = None) -> None:
        self.ceiling = ceiling
        self.spent = spent
        self._ask = ask
        self._asking = asyncio.Lock()

    async def reserve(self, cost: float) -> None:
        """Count `cost` as spent. Raises `ToolFailure` (`over_budget`) where it passes the ceiling.

        `ask` is called first, by one request at a time, and never again after a no.
        """
        async with self._asking:
            wanted = self.spent + cost
            if cost > 0 and wanted > self.ceiling + 1e-9:
                raised = await self._ask(self.ceiling, wanted) if self._ask else None
                if raised is None or raised + 1e-9 < wanted:
                    self._ask = None
                    raise ToolFailure(
                        "over_budget",
                        f"{self.spent:.2f} dollars of {self.ceiling:.2f} are spent and this image"
                        f" would cost about {cost:.3f} more; raise max_cost",
                    )
                self.ceiling = raised
            self.spent = wanted

    def correct(self, by: float) -> None:
        """Add the difference between what a request cost and what was reserved."""
        self.spent += by


class Gate:
    """Requests to one service: so many at a time, tried again, and paused when it asks for it."""

    def __init__(self, concurrency: int, limits: Limits, places: asyncio.Semaphore) -> None:
        """places: of the whole run, one of which a request takes, too."""
        self._slots = asyncio.Semaphore(max(1, concurrency))
        self._limits, self._places = limits, places
        self._paused_until = 0.0

    async def send(self, request: Callable[[], Awaitable[Result]]) -> Result:
        """The result of `request`, retried after a passing `ToolFailure`; raises the last one."""
        tries = AsyncRetrying(
            stop=stop_after_attempt(self._limits.retries + 1),
            wait=_wait,
            retry=retry_if_exception(_is_passing),
            sleep=self._limits.sleep,
            reraise=True,
        )
        async with self._slots:  # held between tries: they concern this service alone
            async for attempt in tries:
                with attempt:
                    pause = self._paused_until - time.monotonic()
                    if pause > 0:
                        await self._limits.sleep(pause)
                    async with self._places:
                        return await self._send_once(request)
        raise AssertionError("the last try returns or raises")

    async def _send_once(self, request: Callable[[], Awaitable[Result]]) -> Result:
        try:
            return await request()
        except ToolFailure as failure:
            if failure.retry_after is not None and failure.passing:
                until = time.monotonic() + min(failure.retry_after, MAX_WAIT)
                self._paused_until = max(self._paused_until, until)
            raise


def _is_passing(error: BaseException) -> bool:
    return isinstance(error, ToolFailure) and error.passing and (error.retry_after or 0) <= MAX_WAIT


_backoff = wait_exponential_jitter(initial=1, max=60)


def _wait(state: RetryCallState) -> float:
    """Seconds to the next try: what the service asks for, else growing with each try."""
    error = state.outcome.exception() if state.outcome is not None else None
    asked = error.retry_after if isinstance(error, ToolFailure) else None
    return _backoff(state) if asked is None else asked
