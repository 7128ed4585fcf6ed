"""The work of a run: what happens to an item from its place in the queue to its score.

`Work.item` is the policy: generate, keep, score, record. Everything that is waited for here may be
cancelled, except for an image that has arrived: that is put on the disk and noted first.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from genlab.benchmark.arrivals import (
    Arrival,
    Place,
    answer_of,
    keep,
    picture_of,
    put_down,
    recovered,
    set_aside,
    write_record,
)
from genlab.benchmark.budget import Budget
from genlab.benchmark.cases import Case, upright_size
from genlab.benchmark.events import Channel, update
from genlab.benchmark.gate import Gate, Limits
from genlab.benchmark.journal import Journal
from genlab.benchmark.judging import Judging
from genlab.benchmark.marks import marks_of
from genlab.benchmark.plugins import ImageTool, Picture, ToolFailure, absence, one_line
from genlab.benchmark.scoring import RANK, Scorer, ScoringPool
from genlab.benchmark.store.repository import Item, Run, Store

if TYPE_CHECKING:
    from genlab.benchmark.judge import Judge

Result = TypeVar("Result")

SAVERS = 2  # threads that encode and write images
HEAD_START = 3  # turns of the loop from a place that is free to the note of the next request
ANEW: dict[str, Any] = {
    **{"status": "queued", "image": "", "image_sha256": "", "score": None, "seconds": 0.0},
    **{"components": {}, "details": {}, "failure_kind": "", "failure": ""},
}


class Work:
    """All that one pass over a run takes. Close it."""

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
        channel: Channel,
        judge: Judge | None = None,
    ) -> None:
        self._store, self._folder, self._run = store, folder, run
        self._cases, self._tools = cases, tools
        self._limits, self._budget, self._channel = limits, budget, channel
        self._slots = asyncio.Semaphore(limits.concurrency)
        self._gates = {
            name: Gate(tool.needs.concurrency, limits, self._slots) for name, tool in tools.items()
        }
        self._judging: Judging | None = None
        if judge is not None:
            self._judging = Judging(judge, limits, budget, self._slots, self._set_details)
        self._pool = ScoringPool(scorer, limits.scorers)
        self._journal = Journal(store)
        self._savers = ThreadPoolExecutor(SAVERS, "images", _after_requests)
        self._answers = ThreadPoolExecutor(1, "answers")
        self._sizes: dict[str, tuple[int, int]] = {}  # of templates, read when first needed

    def warm(self) -> None:
        """Have the scorers ready by the time that the first image is there."""
        self._pool.warm()

    async def item(self, item: Item) -> None:
        """Take an item as far as it goes: to a score, or to the reason why it has none."""
        unjudged = item.status == "scored"  # that is why it is here
        try:
            if item.status not in ("generated", "scored"):
                await self._generate(item)
            if not unjudged:
                await self._evaluate(item)
        except ToolFailure as failure:
            skipped = failure.kind == "over_budget" or item.status == "queued"
            await self._set(
                item,
                status="skipped" if skipped else "failed",
                failure_kind=failure.kind,
                failure=failure.reason,
            )
        path = self._path(item)
        await self._in_thread(write_record, path.with_suffix(".json"), item)
        judging = self._judging if item.status == "scored" else None
        if judging is not None and (unjudged or judging.wanted(item)):
            await judging.item(item, self._cases[item.case_id], path)
            await self._in_thread(write_record, path.with_suffix(".json"), item)

    async def unfinished(self, items: Sequence[Item], again: bool) -> list[Item]:
        """The items that something is left to do for, each set to where it goes on.

        An image that arrived is found again, in the store or on the disk; one that is damaged or
        gone is made again. again: failed items too.
        """
        left = []
        kept = set(self._folder.glob("*/*"))
        for item in items:
            if item.status == "failed" and not again:
                continue
            path = self._path(item)
            if item.status == "queued" and kept.isdisjoint((path, answer_of(path))):
                left.append(item)  # most of a new run: nothing to look at
                continue
            try:
                found = await self._in_thread(self._recovered, item)
            except ToolFailure as failure:
                await self._set(
                    item, status="failed", failure_kind=failure.kind, failure=failure.reason
                )
                continue
            if item.status == "scored" and found is not None:
                if self._judging is not None and self._judging.wanted(item, again):
                    left.append(item)
                continue
            if found is not None:
                await self._note_arrival(item, found)
            elif item.status != "queued":
                await self._in_thread(set_aside, path)
                lost = "its image was damaged or gone, and is made again" if item.image else ""
                await self._set(item, **{**ANEW, "failure": lost})
            left.append(item)
        return left

    async def skip_rest(self) -> None:
        """Note what is unfinished as skipped: the run was cancelled."""
        for item in self._store.items(self._run.run_id):
            if not item.finished:
                await self._set(
                    item,
                    status="skipped",
                    failure_kind="cancelled",
                    failure="the run was cancelled; resume it to go on",
                )

    async def close(self) -> None:
        """End the scorers and wait for what is being written."""
        self._pool.close()
        await self._journal.close()
        self._answers.shutdown()
        self._savers.shutdown()

    # generating

    async def _generate(self, item: Item) -> None:
        tool = self._tools[item.tool_id]
        lacking = absence(tool)
        if lacking is not None:
            raise lacking
        gate = self._gates[item.tool_id]
        picture, seconds = await gate.tried(lambda: self._ask(item, tool))
        await self._uninterrupted(self._keep(item, picture, seconds))

    async def _ask(self, item: Item, tool: ImageTool) -> tuple[Picture, float]:
        """One request, journaled with its cost before it is sent."""
        estimate = tool.needs.cost
        await self._budget.reserve(estimate)
        await self._set(
            item, status="generating", attempts=item.attempts + 1, cost=item.cost + estimate
        )
        begin = time.monotonic()
        try:
            picture = await self._swap(self._cases[item.case_id], tool)
        except ToolFailure as failure:
            self._charge(item, (failure.cost or 0.0) - estimate)
            raise
        if picture.cost is not None:
            self._charge(item, picture.cost - estimate)
        return picture, time.monotonic() - begin

    async def _swap(self, case: Case, tool: ImageTool) -> Picture:
        """What the tool gives; whatever else comes out of it is a `ToolFailure`."""
        options = self._run.options.get(tool.tool_id, {})
        limit = self._limits.timeout
        try:
            made = await asyncio.wait_for(tool.swap(case, options), limit)
        except asyncio.TimeoutError as error:
            # It may have been paid for all the same.
            raise ToolFailure(
                "timeout", f"no image within {limit:g} seconds", passing=True, cost=tool.needs.cost
            ) from error
        except ToolFailure:
            raise
        except Exception as error:  # other people's code: anything may come out of it
            raise ToolFailure("error", f"{type(error).__name__}: {error}") from error
        return picture_of(made, tool.needs.cost)

    async def _keep(self, item: Item, picture: Picture, seconds: float) -> None:
        if isinstance(picture.image, bytes):  # what was paid for waits behind nobody's picture
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._answers, put_down, picture, self._path(item))
        await self._requests_out()
        arrival = await self._in_thread(lambda: keep(picture, self._place(item)))
        await self._note_arrival(item, arrival, seconds)

    async def _requests_out(self) -> None:
        """Let requests that waited for this image's place go out before it is worked on: the
        threads that save take the interpreter from the loop for tens of milliseconds."""
        for _ in range(HEAD_START):
            await asyncio.sleep(0)
        await self._journal.settled()
        for _ in range(HEAD_START):
            await asyncio.sleep(0)

    async def _note_arrival(self, item: Item, arrival: Arrival, seconds: float = 0.0) -> None:
        changes: dict[str, Any] = {"image": self._image(item), "image_sha256": arrival.sha256}
        if not seconds and arrival.cost is not None:  # an answer that a killed process had kept
            self._charge(item, arrival.cost - self._tools[item.tool_id].needs.cost)
        changes |= {"seconds": seconds or item.seconds, "cost": item.cost}
        changes |= {"failure_kind": "", "failure": ""}
        if arrival.note:
            changes["details"] = {"tool": arrival.note}
        await self._set(item, status="generated", **changes)

    def _charge(self, item: Item, dollars: float) -> None:
        """Correct what an item cost; the next note about it tells the store."""
        self._budget.correct(dollars)
        item.cost = max(0.0, item.cost + dollars)

    # scoring

    async def _evaluate(self, item: Item) -> None:
        case = self._cases[item.case_id]
        async with self._pool.slots:
            item.status = "evaluating"
            self._journal.mention(item.item_id, status=item.status)  # a kill here loses nothing
            self._channel.publish(update(item))
            swaps = [swap.model_dump() for swap in case.swaps]
            path = self._path(item)
            scored = await self._pool.score(case.template, case.avatars, swaps, path)
        changes: dict[str, Any] = {"components": dict(scored.components)}
        changes["details"] = {**item.details, **scored.as_dict()}
        if scored.outcome == "scored" and scored.total is not None:
            await self._set(item, status="scored", score=scored.total, **changes)
        else:
            reason = one_line("; ".join(scored.notes)) or scored.outcome
            changes |= {"failure_kind": scored.outcome, "failure": reason}
            await self._set(item, status="failed", **changes)

    # keeping

    async def _set(self, item: Item, **changes: Any) -> None:
        """Change an item here, in the store, and for those who listen, in this order."""
        for name, value in changes.items():
            setattr(item, name, value)
        await self._journal.note(item.item_id, **{"cost": item.cost, **changes})
        self._channel.publish(update(item))

    async def _set_details(self, item: Item, details: Mapping[str, Any]) -> None:
        await self._set(item, details=dict(details))

    async def _uninterrupted(self, work: Awaitable[None]) -> None:
        """Await `work`; a cancellation comes out once it is done."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            raise

    async def _in_thread(self, function: Callable[..., Result], *arguments: Any) -> Result:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._savers, function, *arguments)

    def _recovered(self, item: Item) -> Arrival | None:
        return recovered(self._place(item), item.image_sha256)

    def _place(self, item: Item) -> Place:
        """In a thread: a template's size may take decoding it."""
        if item.case_id not in self._sizes:
            self._sizes[item.case_id] = upright_size(self._cases[item.case_id].template)
        marks = marks_of(item, self._run.created)
        return Place(self._path(item), self._sizes[item.case_id], marks)

    def _path(self, item: Item) -> Path:
        return self._folder / item.tool_id / f"{item.case_id}.png"

    def _image(self, item: Item) -> str:
        return f"{self._run.run_id}/{item.tool_id}/{item.case_id}.png"


def _after_requests() -> None:
    """In a thread that saves: let the loop, which sends requests, go first where cores are few."""
    if sys.platform == "linux":  # elsewhere a niceness is the whole program's
        os.nice(RANK)
