"""Stars of a vision model within a run: one request per scored image, never part of the score.

The stars are ratings of the context `judge`. What the request cost and how it failed is kept in the
item's details as `judge`, recorded before it is sent as requests to tools are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genlab.benchmark.cases import Case
from genlab.benchmark.plugins.base import ToolFailure, absence
from genlab.benchmark.requests import Budget, Gate, Limits
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Item
from genlab.core.params import BenchmarkParams

if TYPE_CHECKING:  # importing the client takes a second
    from genlab.benchmark.judge import Judge, Verdict

DETAIL = "judge"  # of an item's details
JUDGE_COST = 0.02  # dollars per answer, an estimate


def make_judge(params: BenchmarkParams) -> Judge | None:
    """The judge that params.yaml names, if any."""
    if not params.judge:
        return None
    from genlab.benchmark.judge import Judge

    return Judge(params.judge, JUDGE_COST)


def judging_cost(item: Item) -> float:
    """Dollars that judging an item cost in its own run, apart from what its image cost."""
    known = item.details.get(DETAIL, {})
    return float(known["cost"]) if known.get("run_id") == item.run_id else 0.0


class Judging:
    """Ask a judge about the images of one run."""

    def __init__(
        self,
        judge: Judge,
        limits: Limits,
        budget: Budget,
        places: asyncio.Semaphore,
        store: Store,
        change: Callable[..., Awaitable[None]],
    ) -> None:
        """change: sets fields of an item in the store."""
        self._judge, self._timeout, self._budget = judge, limits.timeout, budget
        self._store, self._change = store, change
        self._gate = Gate(judge.needs.concurrency, limits, places)
        self._name = f"{judge.model}, prompt {judge.prompt}"

    def wants(self, item: Item, again: bool = False) -> bool:
        """Whether the judge has not answered yet; a failed request counts unless `again`."""
        known = item.details.get(DETAIL, {})
        if known.get("judge") != self._name:
            return True
        return known["status"] != "given" and (known["status"] != "failed" or again)

    async def item(self, item: Item, case: Case, image: Path) -> None:
        """Have a scored image rated; a failure is recorded in the item's details alone."""
        if not self.wants(item, again=True):
            return
        state: dict[str, Any] = {
            **{"judge": self._name, "status": "skipped", "reason": "", "answer": ""},
            **{"failure_kind": "", "failure": ""},
            **{"run_id": item.run_id, "cost": judging_cost(item)},
        }
        try:
            reason = absence(self._judge)
            if reason is not None:
                raise reason
            verdict = await self._gate.send(lambda: self._request(item, state, case, image))
            state |= {"status": "given", "reason": verdict.reason, "answer": verdict.answer}
            await asyncio.to_thread(
                self._store.rate, "run_item", item.image_sha256, self._name, verdict.stars, "judge"
            )
        except ToolFailure as failure:
            asked = state["status"] == "asked" and failure.kind != "over_budget"
            state["status"] = "failed" if asked else "skipped"
            state |= {"failure_kind": failure.kind, "failure": failure.reason}
        await self._record(item, state)

    async def _request(self, item: Item, state: dict[str, Any], case: Case, image: Path) -> Verdict:
        """Send one request, recorded with its cost before it is sent."""
        estimate = self._judge.needs.cost
        await self._budget.reserve(estimate)
        state |= {"status": "asked", "cost": state["cost"] + estimate}
        await self._record(item, state)
        try:
            return await asyncio.wait_for(self._judge.verdict(case, image), self._timeout)
        except asyncio.TimeoutError as error:  # it may have been paid for
            reason = f"no answer within {self._timeout:g} seconds"
            raise ToolFailure("timeout", reason, passing=True, cost=estimate) from error
        except ToolFailure as failure:
            unspent = (failure.cost or 0.0) - estimate
            self._budget.correct(unspent)
            state["cost"] = max(0.0, state["cost"] + unspent)
            raise
        except Exception as error:  # an unforeseen answer does not end the run
            raise ToolFailure("error", f"{type(error).__name__}: {error}") from error

    async def _record(self, item: Item, state: dict[str, Any]) -> None:
        await self._change(item, details={**item.details, DETAIL: dict(state)})
