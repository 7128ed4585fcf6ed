"""The work on a run's items: generate, keep, score, judge, record.

Everything that is awaited may be cancelled, except for an image that has arrived: it is written to
disk and recorded first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genlab.benchmark.arrivals import (
    Arrival,
    Place,
    keep,
    picture_of,
    put_down,
    recovered,
    set_aside,
    write_record,
)
from genlab.benchmark.cases import Case
from genlab.benchmark.cases.photographs import upright_size
from genlab.benchmark.events import EventLog, update
from genlab.benchmark.judging import Judging
from genlab.benchmark.marks import marks_of
from genlab.benchmark.plugins.base import ImageTool, Picture, ToolFailure, absence, one_line
from genlab.benchmark.requests import Budget, Gate, Limits
from genlab.benchmark.score_pool import Scorer, ScoringError, ScoringPool
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Item, Run, image_name

if TYPE_CHECKING:
    from genlab.benchmark.judge import Judge

RESET: dict[str, Any] = {
    **{"status": "queued", "image": "", "image_sha256": "", "seconds": 0.0},
    **{"score": None, "score_reference": None, "components": {}, "details": {}},
    **{"failure_kind": "", "failure": ""},
}


class Work:
    """Everything that one pass over a run needs. Close it."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        run: Run,
        cases: Mapping[str, Case],
        tools: Mapping[str, ImageTool],
        scorer: Scorer,
        limits: Limits,
        budget: Budget,
        log: EventLog,
        judge: Judge | None,
    ) -> None:
        self._store, self._folder, self._run, self._cases = store, folder, run, cases
        self._tools, self._limits, self._budget, self._log = tools, limits, budget, log
        self._contenders = run.contenders
        places = asyncio.Semaphore(limits.concurrency)
        self._gates = {
            name: Gate(tool.needs.concurrency, limits, places) for name, tool in tools.items()
        }
        self._judging = (
            Judging(judge, limits, budget, places, store, self._set) if judge is not None else None
        )
        self._pool = ScoringPool(scorer, limits.scorers)

    def warm(self) -> None:
        """Start the scoring processes while the first images are generated."""
        self._pool.warm()

    async def close(self) -> None:
        """End the scoring processes."""
        self._pool.close()

    async def item(self, item: Item) -> None:
        """Take an item to a score, or to the reason why it has none."""
        try:
            if item.status not in ("generated", "scored"):
                await self._generate(item)
            if item.status != "scored":
                await self._evaluate(item)
        except ToolFailure as failure:
            skipped = failure.kind == "over_budget" or item.status == "queued"
            status = "skipped" if skipped else "failed"
            await self._set(item, status=status, **_failure(failure))
        if item.status == "scored" and self._judging is not None:
            await self._judging.item(item, self._cases[item.case_id], self._path(item))
        await asyncio.to_thread(write_record, self._path(item).with_suffix(".json"), item)

    async def recover(self, items: Sequence[Item], again: bool) -> list[Item]:
        """The items with something left to do, each set to where it continues.

        An image that arrived is found in the store or on disk; one that is damaged or missing is
        made again. again: failed items too.
        """
        left = []
        for item in items:
            if item.status == "failed" and not again:
                continue
            try:
                arrival = await asyncio.to_thread(recovered, self._place(item), item.image_sha256)
            except ToolFailure as failure:
                await self._set(item, status="failed", **_failure(failure))
                continue
            if item.status == "scored" and arrival is not None:
                if self._judging is None or not self._judging.wants(item, again):
                    continue
            elif arrival is not None:
                await self._record_arrival(item, arrival)
            elif item.status != "queued":
                await asyncio.to_thread(set_aside, self._path(item))
                lost = "its image was damaged or missing and is made again" if item.image else ""
                await self._set(item, **{**RESET, "failure": lost})
            left.append(item)
        return left

    async def skip_rest(self) -> None:
        """Record what is unfinished as skipped: the run was cancelled."""
        for item in self._store.items(self._run.run_id):
            if not item.finished:
                reason = "the run was cancelled; resume it to continue"
                await self._set(item, status="skipped", failure_kind="cancelled", failure=reason)

    # generating

    async def _generate(self, item: Item) -> None:
        tool = self._tools[item.tool_id]
        reason = absence(tool)
        if reason is not None:
            raise reason
        picture, seconds = await self._gates[item.tool_id].send(lambda: self._request(item, tool))
        await _finish(self._keep(item, picture, seconds))

    async def _request(self, item: Item, tool: ImageTool) -> tuple[Picture, float]:
        """Send one request, recorded with its cost before it is sent."""
        estimate = tool.needs.cost
        await self._budget.reserve(estimate)
        attempts, cost = item.attempts + 1, item.cost + estimate
        await self._set(item, status="generating", attempts=attempts, cost=cost)
        begin = time.monotonic()
        try:
            picture = await self._swap(item, tool)
        except ToolFailure as failure:
            self._charge(item, (failure.cost or 0.0) - estimate)
            raise
        if picture.cost is not None:
            self._charge(item, picture.cost - estimate)
        return picture, time.monotonic() - begin

    async def _swap(self, item: Item, tool: ImageTool) -> Picture:
        """Call the tool; whatever else it raises becomes a `ToolFailure`."""
        case = self._cases[item.case_id].without_ideal()
        options, limit = self._contenders[item.contender].options, self._limits.timeout
        try:
            made = await asyncio.wait_for(tool.swap(case, options), limit)
        except asyncio.TimeoutError as error:  # it may have been paid for
            reason = f"no image within {limit:g} seconds"
            raise ToolFailure("timeout", reason, passing=True, cost=tool.needs.cost) from error
        except ToolFailure:
            raise
        except Exception as error:  # other people's code: anything may come out of it
            raise ToolFailure("error", f"{type(error).__name__}: {error}") from error
        return picture_of(made, tool.needs.cost)

    async def _keep(self, item: Item, picture: Picture, seconds: float) -> None:
        await asyncio.to_thread(put_down, picture, self._path(item))
        arrival = await asyncio.to_thread(lambda: keep(picture, self._place(item)))
        await self._record_arrival(item, arrival, seconds)

    async def _record_arrival(self, item: Item, arrival: Arrival, seconds: float = 0.0) -> None:
        if not seconds and arrival.cost is not None:  # an answer that a killed process had kept
            self._charge(item, arrival.cost - self._tools[item.tool_id].needs.cost)
        changes: dict[str, Any] = {"details": {"tool": arrival.note} if arrival.note else {}}
        changes |= {"image": f"{self._run.run_id}/{image_name(self._contenders, item)}"}
        changes |= {"image_sha256": arrival.sha256, "seconds": seconds or item.seconds}
        await self._set(item, status="generated", failure_kind="", failure="", **changes)

    def _charge(self, item: Item, dollars: float) -> None:
        """Correct what an item cost; the next change of it is written with it."""
        self._budget.correct(dollars)
        item.cost = max(0.0, item.cost + dollars)

    # scoring

    async def _evaluate(self, item: Item) -> None:
        case = self._cases[item.case_id]
        async with self._pool.slots:
            await self._set(item, status="evaluating")
            try:
                scored = await self._pool.score(case, self._path(item))
            except ScoringError as error:
                await self._fail(item, "scorer_failed", str(error))
                return
        found = scored.as_dict()
        changes: dict[str, Any] = {"components": found.pop("components")}
        changes["details"] = {**item.details, **found}
        if scored.outcome != "scored":
            await self._fail(item, scored.outcome, "; ".join(scored.notes), **changes)
            return
        scores = {"score": scored.score, "score_reference": scored.score_reference}
        await self._set(item, status="scored", **scores, **changes)

    async def _fail(self, item: Item, kind: str, reason: str, **changes: Any) -> None:
        values = {"failure_kind": kind, "failure": one_line(reason) or kind}
        await self._set(item, status="failed", **values, **changes)

    # recording

    async def _set(self, item: Item, **changes: Any) -> None:
        """Change an item here, then in the store, then for listeners."""
        for name, value in changes.items():
            setattr(item, name, value)
        values = {"cost": item.cost, **changes}
        await _finish(asyncio.to_thread(self._store.set_items, [(item.item_id, values)]))
        self._log.publish(update(item))

    def _place(self, item: Item) -> Place:
        size = upright_size(self._cases[item.case_id].template)
        return Place(self._path(item), size, marks_of(item, self._run.created))

    def _path(self, item: Item) -> Path:
        return self._folder / self._run.run_id / image_name(self._contenders, item)


def _failure(failure: ToolFailure) -> dict[str, str]:
    return {"failure_kind": failure.kind, "failure": failure.reason}


async def _finish(work: Awaitable[None]) -> None:
    """Await `work`; a cancellation is raised once it is done."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
