"""A judge's stars within a run: asked once a picture, kept in the item's details as `judge`.

The picture has its score by then, and keeps it whatever comes of this. Requests are tried, bounded
in cost and gone on with as those to tools are: noted with their cost before they are sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genlab.benchmark.budget import Budget
from genlab.benchmark.cases import Case
from genlab.benchmark.gate import Gate, Limits
from genlab.benchmark.plugins import ToolFailure, absence
from genlab.benchmark.store.repository import Item
from genlab.core.params import BenchmarkParams

if TYPE_CHECKING:  # a judge brings its client along, which takes a second to import
    from genlab.benchmark.judge import Judge, Verdict

COLUMN = "judge"  # of an item's details
JUDGE_COST = 0.02  # dollars per answer, an estimate; they count to max_cost
Note = Callable[[Item, Mapping[str, Any]], Awaitable[None]]


def judge_of(params: BenchmarkParams) -> Judge | None:
    """The judge that params.yaml names; None where it names none."""
    if not params.judge:
        return None
    from genlab.benchmark.judge import Judge

    return Judge(params.judge, JUDGE_COST)


class Judging:
    """Asks a judge about the pictures of one run."""

    def __init__(
        self, judge: Judge, limits: Limits, budget: Budget, places: asyncio.Semaphore, note: Note
    ) -> None:
        """note: keeps an item's new details; returns when they are on the disk."""
        self._judge, self._timeout, self._budget, self._note = judge, limits.timeout, budget, note
        self._gate = Gate(judge.needs.concurrency, limits, places)

    def wanted(self, item: Item, again: bool = False) -> bool:
        """Whether the judge has still to be asked; of failures, whether `again`."""
        said = item.details.get(COLUMN, {})
        if (said.get("model"), said.get("prompt")) != (self._judge.model, self._judge.prompt):
            return True
        return said["status"] != "given" and (said["status"] != "failed" or again)

    async def item(self, item: Item, case: Case, picture: Path) -> None:
        """Have a scored picture judged; what goes wrong is an outcome of this column alone."""
        before = item.details.get(COLUMN, {})
        own = before.get("run_id") == item.run_id
        said: dict[str, Any] = {
            **{"model": self._judge.model, "prompt": self._judge.prompt, "status": "skipped"},
            **{"run_id": item.run_id, "cost": before["cost"] if own else 0.0},
            **{"stars": None, "reason": "", "answer": "", "failure_kind": "", "failure": ""},
        }
        try:
            lacking = absence(self._judge)
            if lacking is not None:
                raise lacking
            verdict = await self._gate.tried(lambda: self._ask(item, said, case, picture))
            said |= {"status": "given", **vars(verdict)}
        except ToolFailure as failure:
            asked = said["status"] == "asked" and failure.kind != "over_budget"
            said["status"] = "failed" if asked else "skipped"
            said |= {"failure_kind": failure.kind, "failure": failure.reason}
        await self._note(item, with_verdict(item, said))

    async def _ask(self, item: Item, said: dict[str, Any], case: Case, picture: Path) -> Verdict:
        """One request, noted with its cost before it is sent."""
        estimate = self._judge.needs.cost
        await self._budget.reserve(estimate)
        said |= {"status": "asked", "cost": said["cost"] + estimate}
        await self._note(item, with_verdict(item, said))
        try:
            return await asyncio.wait_for(self._judge.verdict(case, picture), self._timeout)
        except asyncio.TimeoutError as error:  # it may have been paid for all the same
            limit = f"no answer within {self._timeout:g} seconds"
            raise ToolFailure("timeout", limit, passing=True, cost=estimate) from error
        except ToolFailure as failure:
            unspent = (failure.cost or 0.0) - estimate
            self._budget.correct(unspent)
            said["cost"] = max(0.0, said["cost"] + unspent)
            raise
        except Exception as error:  # an answer that nobody foresaw must not end the run
            raise ToolFailure("error", f"{type(error).__name__}: {error}") from error


def with_verdict(item: Item, said: Mapping[str, Any]) -> dict[str, Any]:
    """The item's details with what a judge said; first, so that it is found without a search."""
    others = {name: value for name, value in item.details.items() if name != COLUMN}
    return {COLUMN: dict(said), **others}


def spent(items: Iterable[Item]) -> float:
    """Dollars that judging took in the items' own runs."""
    said = [(item.run_id, item.details.get(COLUMN, {})) for item in items]
    return float(sum(one["cost"] for run_id, one in said if one.get("run_id") == run_id))
