"""Paid requests to a service: budget of a run, concurrency, retries and waits."""

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
"""Sends a request; returns the result and its cost in dollars, None if the estimate stands."""
Charge = Callable[[float], None]
Record = Callable[[], Awaitable[None]]

MAX_WAIT = 120.0  # seconds that a service may ask us to wait; beyond, the item fails at once
MAX_BACKOFF = 60.0  # seconds between two tries if the service does not name a wait


@dataclass(frozen=True)
class RequestLimits:
    """How requests are sent.

    concurrency: images at a time; timeout: seconds per request; retries: after a passing fault;
    scorers: processes that score; sleep: waits between tries.
    """

    concurrency: int = 4
    timeout: float = 300.0
    retries: int = 4
    scorers: int = 2
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


@dataclass
class CostBudget:
    """Dollars that a run has spent and may spend.

    The estimate of a request is reserved, within the ceiling, before the request is sent.
    """

    ceiling: float
    spent: float


class Requests:
    """Requests to one service: limited in number, within the budget, retried after a fault."""

    def __init__(
        self, service: Service, limits: RequestLimits, budget: CostBudget, slots: asyncio.Semaphore
    ) -> None:
        """slots: shared by all services of a run; each request takes one."""
        self._service = service
        self._limits = limits
        self._budget = budget
        self._slots = slots
        self._service_slots = asyncio.Semaphore(max(1, service.needs.concurrency))
        self._free = not (service.needs.cost or service.needs.network)

    async def send(self, call: Call[Result], charge: Charge, record: Record) -> Result:
        """Return the result of `call`, retried after a passing `ToolFailure`; raises the last one.

        charge: adds dollars to the item's cost; record: stores the item before each request.
        Between tries it waits as long as the service asks, otherwise twice as long each time.
        """
        if reason := check_available(self._service):
            raise reason
        async with self._service_slots:  # held between tries, which concern this service only
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
        estimate = self._service.needs.cost
        timeout = self._limits.timeout
        async with self._slots:
            spent = self._budget.spent
            ceiling = self._budget.ceiling
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
                result, cost = await asyncio.wait_for(call(), timeout)
                return result
            except asyncio.TimeoutError as error:  # it may have been paid for
                reason = f"no answer within {timeout:g} seconds"
                raise ToolFailure("timeout", reason, passing=True) from error
            except ToolFailure as failure:
                cost = failure.cost or 0.0
                raise
            except Exception as error:  # a plugin may raise anything
                cost = 0.0
                if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise  # the disk is full: the run ends and can be resumed
                raise ToolFailure("error", f"{type(error).__name__}: {error}") from error
            finally:
                if cost is not None:
                    self._free = self._free and cost == 0
                    self._budget.spent += cost - estimate
                    charge(cost - estimate)
