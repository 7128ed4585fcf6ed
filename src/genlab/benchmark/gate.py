"""The gate before a service: how many requests at a time, how often, and when to leave it alone."""

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

from genlab.benchmark.plugins import ToolFailure

Sleep = Callable[[float], Awaitable[None]]
Result = TypeVar("Result")

MAX_WAIT = 120.0  # seconds that a service may ask us to wait; beyond, the item fails at once


@dataclass(frozen=True)
class Limits:
    """How much at a time, how long, how often; see `Runner`."""

    concurrency: int
    scorers: int
    timeout: float
    retries: int
    sleep: Sleep


class Gate:
    """One service's: how many requests it takes at a time, and whether it asked us to wait."""

    def __init__(self, at_a_time: int, limits: Limits, places: asyncio.Semaphore) -> None:
        """places: of the whole run, one of which a request takes, too."""
        self._slots = asyncio.Semaphore(max(1, at_a_time))
        self._limits, self._places = limits, places
        self._shut_until = 0.0

    async def tried(self, ask: Callable[[], Awaitable[Result]]) -> Result:
        """What `ask` gives, tried again after a passing `ToolFailure`; the last one comes out."""
        tries = AsyncRetrying(
            stop=stop_after_attempt(self._limits.retries + 1),
            wait=_wait,
            retry=retry_if_exception(_passing),
            sleep=self._limits.sleep,
            reraise=True,
        )
        async with self._slots:  # held between the tries: they are all of this service's affair
            async for attempt in tries:
                with attempt:
                    await self._passed()
                    async with self._places:
                        return await self._asked(ask)
        raise AssertionError("the last try gives or raises")

    async def _asked(self, ask: Callable[[], Awaitable[Result]]) -> Result:
        try:
            return await ask()
        except ToolFailure as failure:
            if failure.retry_after is not None and failure.passing:
                wait = min(failure.retry_after, MAX_WAIT)
                self._shut_until = max(self._shut_until, time.monotonic() + wait)
            raise

    async def _passed(self) -> None:
        """Wait until the service may be asked again."""
        left = self._shut_until - time.monotonic()
        if left > 0:
            await self._limits.sleep(left)


def _passing(error: BaseException) -> bool:
    return isinstance(error, ToolFailure) and error.passing and (error.retry_after or 0) <= MAX_WAIT


_backoff = wait_exponential_jitter(initial=1, max=60)


def _wait(state: RetryCallState) -> float:
    """Seconds to the next try: what the service asks for, else ever more of them."""
    error = state.outcome.exception() if state.outcome is not None else None
    asked = error.retry_after if isinstance(error, ToolFailure) else None
    return _backoff(state) if asked is None else asked
