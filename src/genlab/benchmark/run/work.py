"""The work on a run's items: generate, save, score, judge, record.

Everything that is awaited may be cancelled, except for an image that has arrived: it is written to
disk and recorded first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import asdict
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from genlab.benchmark.cases import Case, describe_missing_consent, load_run_case
from genlab.benchmark.judge import Judge, Verdict
from genlab.benchmark.plugins.base import Picture, ToolFailure, one_line
from genlab.benchmark.plugins.registry import choose_tools, load_tools, version_of
from genlab.benchmark.run.arrivals import Arrival, Place, find_saved, keep, recovered
from genlab.benchmark.run.events import update
from genlab.benchmark.run.requests import Budget, Requests
from genlab.benchmark.run.score_pool import ScoringError, ScoringPool
from genlab.benchmark.store.schema import Item, Run, image_name
from genlab.core.errors import GenlabError
from genlab.core.io import write_bytes, write_json

if TYPE_CHECKING:
    from genlab.benchmark.run.runner import Runner

NOTHING: dict[str, Any] = {
    **{"status": "queued", "image": "", "image_sha256": "", "seconds": 0.0, "failure_kind": ""},
    **{"score": None, "score_reference": None, "components": {}, "details": {}},
}
"""An item before its image has arrived."""
CANCELLED = {
    "status": "skipped",
    "failure_kind": "cancelled",
    "failure": "the run was cancelled; resume it to continue",
}
"""What an unfinished item of a cancelled run becomes."""
JUDGED = ("refused", "error")  # failures of a judge that answered: asked again with `again` alone


class Work:
    """One pass over the items of a run."""

    def __init__(self, runner: Runner, run: Run, again: bool) -> None:
        """again: failed items, too. Raises a `GenlabError` where a case or tool has changed."""
        self._store, self._folder, self._reuses = runner.store, runner.folder, runner.reuse
        self._run, self._contenders, self._again = run, run.contenders, again
        self._log, self._judge = runner.log(run.run_id), runner.judge
        self._cases: dict[str, Case] = {}
        self._sound: set[str] = set()
        for known in run.cases:
            folder, digest = self._store.case_folder(known), known.get("digest", "")
            case = self._cases[known["case_id"]] = load_run_case(folder, run.run_id, digest)
            if not case.consent:
                raise GenlabError(describe_missing_consent(case))
        names = [contender.tool_id for contender in self._contenders.values()]
        tools = choose_tools(load_tools() if runner.tools is None else runner.tools, names)
        self._tools = {tool.tool_id: tool for tool in tools}
        for each in self._contenders.values():
            if (version := version_of(self._tools[each.tool_id])) != each.version:
                raise GenlabError(
                    f"tool {each.tool_id} has version {version!r}, and run {run.run_id} began with"
                    f" {each.version!r}; restore the tool, or start a new run"
                )
        self._items = self._store.items(run.run_id)
        budget = self._budget = Budget(run.max_cost, sum(item.cost for item in self._items))
        slots = asyncio.Semaphore(runner.limits.concurrency)
        paid = partial(Requests, limits=runner.limits, budget=budget, slots=slots)
        self._requests = {name: paid(tool) for name, tool in self._tools.items()}
        if self._judge is not None:
            self._judge_requests = paid(self._judge)
            given = self._store.ratings("run_item", rater=self._judge.name, context="judge")
            self._judged = {rating.subject_hash for rating in given}

    async def item(self, item: Item, pool: ScoringPool) -> None:
        """Take an item to a score, or to the reason why it has none."""
        try:
            if item.status not in ("generated", "scored"):
                await self._generate(item)
            if item.status != "scored":
                await self._evaluate(item, pool)
        except ToolFailure as failure:
            skipped = failure.kind == "over_budget" or item.status == "queued"
            status = "skipped" if skipped else "failed"
            await self._fail(item, failure.kind, failure.reason, status=status)
        if self._judge is not None and self._waits_for_judge(item):
            await self._ask_judge(self._judge, item)

    async def recover(self) -> list[Item]:
        """The items with something left to do, each set to where it continues.

        An image that arrived is found in the store or on disk; one that is damaged or missing is
        made again.
        """
        left = []
        for item in self._items:
            if item.status == "failed" and not self._again:
                continue
            try:
                arrival = await asyncio.to_thread(recovered, self._place(item), item.image_sha256)
            except ToolFailure as failure:
                await self._fail(item, failure.kind, failure.reason)
                continue
            if item.status == "scored" and arrival is not None:
                if not self._waits_for_judge(item):
                    continue
            elif arrival is not None:
                if arrival.cost is not None:  # an answer that the killed process had saved
                    difference = arrival.cost - self._tools[item.tool_id].needs.cost
                    self._charge(item, difference)
                    self._budget.spent += difference
                await self._record_arrival(item, arrival)
            elif item.status != "queued":
                lost = "its image was damaged or missing and is made again" if item.image else ""
                await self._set(item, **NOTHING, failure=lost)
            left.append(item)
        return left

    async def skip_rest(self) -> None:
        """Record what is unfinished as skipped: the run was cancelled."""
        for item in self._items:
            if not item.finished:
                await self._set(item, **CANCELLED)

    # generating

    async def _generate(self, item: Item) -> None:
        if self._reuses and await self._reuse(item):
            return
        tool, options = self._tools[item.tool_id], self._contenders[item.contender].options
        case = self._cases[item.case_id].model_copy(update={"ideal": None})

        async def call() -> tuple[tuple[Picture, float], float | None]:
            await self._check_case(item.case_id)
            begin = time.monotonic()
            made: object = await tool.swap(case, options)
            picture = Picture(made) if isinstance(made, Image.Image) else made
            if not isinstance(picture, Picture):  # it may have been paid for all the same
                found = type(made).__name__
                reason = f"the tool returns {found}, no PIL image or Picture; correct its swap()"
                raise ToolFailure("no_image", reason, cost=tool.needs.cost)
            return (picture, time.monotonic() - begin), picture.cost

        picture, seconds = await self._requests[item.tool_id].send(
            call,
            partial(self._charge, item),
            lambda: self._set(item, status="generating", attempts=item.attempts + 1),
        )
        await _finish(self._keep(item, picture, seconds))

    async def _check_case(self, case_id: str) -> None:
        """Decode the case's images, once. Raises `ToolFailure`: no tool is to blame for them."""
        if case_id not in self._sound:
            try:
                await asyncio.to_thread(self._cases[case_id].check)
            except GenlabError as fault:
                raise ToolFailure("case_fault", str(fault)) from fault
            self._sound.add(case_id)

    async def _reuse(self, item: Item) -> bool:
        """Copy the image of an earlier run with the same contender, case and draw, if any.

        Its details name the run that made it and what it cost as `reused`; ratings belong to an
        image's content and follow.
        """
        digest = self._cases[item.case_id].digest
        wanted = item.model_dump(include={"contender", "case_id", "repeat"})
        draws = await asyncio.to_thread(lambda: self._store.find(Item, **wanted))
        for old in reversed(draws):
            if old.run_id == item.run_id:
                continue
            earlier = await asyncio.to_thread(self._store.run, old.run_id)
            if digest not in [case.get("digest") for case in earlier.cases]:
                continue
            path = self._folder / old.run_id / image_name(earlier.contenders, old)
            found = await asyncio.to_thread(find_saved, path, old.image_sha256)
            if found is not None:
                await asyncio.to_thread(write_bytes, self._path(item), path.read_bytes())
                digests = {"image_sha256": found.sha256}
                await asyncio.to_thread(write_json, self._path(item).with_suffix(".json"), digests)
                reused = old.details.get("reused", {"run_id": old.run_id, "cost": old.cost})
                kept = {"tool": old.details["tool"]} if "tool" in old.details else {}
                item.details = {**kept, "reused": reused}
                await self._record_arrival(item, found, old.seconds)
                return True
        return False

    async def _keep(self, item: Item, picture: Picture, seconds: float) -> None:
        arrival = await asyncio.to_thread(keep, picture, self._place(item))
        await self._record_arrival(item, arrival, seconds)

    async def _record_arrival(self, item: Item, arrival: Arrival, seconds: float = 0.0) -> None:
        note = {"tool": arrival.note} if arrival.note else {}
        await self._set(
            item,
            status="generated",
            image=f"{self._run.run_id}/{image_name(self._contenders, item)}",
            image_sha256=arrival.sha256,
            seconds=seconds or item.seconds,
            details={**item.details, **note},
            failure_kind="",
            failure="",
        )

    def _charge(self, item: Item, dollars: float) -> None:
        """Add to what an item cost; the next change of it is written with it."""
        item.cost = max(0.0, item.cost + dollars)

    # scoring

    async def _evaluate(self, item: Item, pool: ScoringPool) -> None:
        await self._set(item, status="evaluating")
        try:
            scored = await pool.score(self._cases[item.case_id], self._path(item))
        except ScoringError as error:
            await self._fail(item, "scorer_failed", str(error))
            return
        found = asdict(scored)
        changes: dict[str, Any] = {"components": found.pop("components")}
        changes["details"] = {**item.details, **found}
        if scored.outcome != "scored":
            await self._fail(item, scored.outcome, "; ".join(scored.notes), **changes)
            return
        scores = {"score": scored.score, "score_reference": scored.score_reference}
        await self._set(item, status="scored", **scores, **changes)

    # judging

    def _waits_for_judge(self, item: Item) -> bool:
        """Whether a scored image has no stars from the judge yet, nor a refusal that was paid."""
        if self._judge is None or item.status != "scored" or item.image_sha256 in self._judged:
            return False
        last = item.details.get("judge", {})
        paid = last.get("judge") == self._judge.name and last.get("failure_kind") in JUDGED
        return self._again or not paid

    async def _ask_judge(self, judge: Judge, item: Item) -> None:
        """Have an image rated; answer and failure are recorded in the item's details."""
        case, path = self._cases[item.case_id], self._path(item)
        today = datetime.now(timezone.utc).date().isoformat()
        state: dict[str, Any] = {"judge": judge.name, "date": today}

        async def call() -> tuple[Verdict, None]:
            return await judge.verdict(case, path), None

        async def record() -> None:
            await self._set(item, details={**item.details, "judge": dict(state)})

        try:
            verdict = await self._judge_requests.send(call, partial(self._charge, item), record)
            rated = ("run_item", item.image_sha256, judge.name, verdict.stars)
            await asyncio.to_thread(self._store.rate, *rated, "judge")
            state |= {"failure_kind": "", "failure": "", **verdict.model_dump(exclude={"stars"})}
        except ToolFailure as failure:
            state |= {"failure_kind": failure.kind, "failure": failure.reason}
        await record()

    # recording

    async def _fail(self, item: Item, kind: str, reason: str, **changes: Any) -> None:
        values = {"status": "failed", "failure_kind": kind, "failure": one_line(reason) or kind}
        await self._set(item, **{**values, **changes})

    async def _set(self, item: Item, **changes: Any) -> None:
        """Change an item here, then in the store, then for listeners."""
        for name, value in changes.items():
            setattr(item, name, value)
        values = {"cost": item.cost, **changes}
        await _finish(asyncio.to_thread(self._store.set_items, [(item.item_id, values)]))
        self._log.publish(update(item))

    def _place(self, item: Item) -> Place:
        number = {"draw": str(item.repeat)} if item.repeat > 1 else {}
        marks = {"run": item.run_id, "tool": item.tool_id, "case": item.case_id, **number}
        size = self._cases[item.case_id].size
        return Place(self._path(item), size, {**marks, "date": self._run.created[:10]})

    def _path(self, item: Item) -> Path:
        return self._folder / self._run.run_id / image_name(self._contenders, item)


async def _finish(work: Awaitable[None]) -> None:
    """Await `work`; a cancellation is raised once it is done."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
