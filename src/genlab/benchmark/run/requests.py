"""Paid requests to a service: dollars per run, requests at a time, retries and waits."""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from genlab.benchmark.plugins.base import Service, ToolFailure, check_available

Result = TypeVar("Result")
Call = Callable[[], Awaitable["tuple[Result, float | None]"]]
"""Sends a request; returns the result and its dollars, None for the estimate."""
Charge = Callable[[float], None]
Record = Callable[[], Awaitable[None]]

MAX_WAIT = 120.0  # seconds that a service may ask us to wait; beyond, the item fails at once
MAX_BACKOFF = 60.0  # seconds between two tries where it does not ask


@dataclass(frozen=True)
class RequestLimits:
    """concurrency: images at a time; timeout: seconds per request; retries: after a passing fault;
    scorers: processes that score; sleep: waits between tries."""

    concurrency: int = 4
    timeout: float = 300.0
    retries: int = 4
    scorers: int = 2
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass
class CostBudget:
    """Dollars of a run. A request's estimate is reserved before it is sent, within the ceiling."""

    ceiling: float
    spent: float


class Requests:
    """Requests to one service: so many at a time, within the budget, retried after a fault."""

    def __init__(
        self, service: Service, limits: RequestLimits, budget: CostBudget, slots: asyncio.Semaphore
    ) -> None:
        """slots: of the whole run, one of which a request takes."""
        self._service, self._limits, self._budget, self._slots = service, limits, budget, slots
        self._free = not (service.needs.cost or service.needs.network)
        self._own_slots = asyncio.Semaphore(max(1, service.needs.concurrency))

    async def send(self, call: Call[Result], charge: Charge, record: Record) -> Result:
        """The result of `call`, retried after a passing `ToolFailure`; raises the last one.

        charge: adds dollars to what the item cost; record: stores that before each request. Between
        tries it waits as long as the service asks, else twice as long each time.
        """
        if reason := check_available(self._service):
            raise reason
        async with self._own_slots:  # held between tries: they concern this service alone
            number = 0
            while True:
                try:
                    return await self._send_once(call, charge, record)
                except ToolFailure as failure:
                    wait = failure.retry_after
                    last = number == self._limits.retries or (wait or 0.0) > MAX_WAIT
                    if last or not failure.passing:
                        raise
                backoff = min(2.0**number, MAX_BACKOFF) + random.random()
                await self._limits.sleep(backoff if wait is None else wait)
                number += 1

    async def _send_once(self, call: Call[Result], charge: Charge, record: Record) -> Result:
        estimate, limit = self._service.needs.cost, self._limits.timeout
        async with self._slots:
            spent, ceiling = self._budget.spent, self._budget.ceiling
            if not self._free and spent + estimate > ceiling + 1e-9:
                raise ToolFailure(
                    "over_budget",
                    f"{spent:.2f} dollars of {ceiling:.2f} are spent and this request would cost"
                    f" about {estimate:.3f} more; raise max_cost",
                )
            self._budget.spent += estimate
            charge(estimate)
            await record()
            cost: float | None = None
            try:
                result, cost = await asyncio.wait_for(call(), limit)
                return result
            except asyncio.TimeoutError as error:  # it may have been paid for
                reason = f"no answer within {limit:g} seconds"
                raise ToolFailure("timeout", reason, passing=True) from error
            except ToolFailure as failure:
                cost = failure.cost or 0.0
                raise
            except Exception as error:  # other people's code: anything may come out of it
                cost = 0.0
                if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise  # the disk's fault; it ends the run, which is resumed later
                raise ToolFailure("error", f"{type(error).__name__}: {error}") from error
            finally:
                if cost is not None:
                    self._free = self._free and cost == 0
                    self._budget.spent += cost - estimate
                    charge(cost - estimate)
