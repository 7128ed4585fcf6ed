"""Process the items of a run: generate, save, score, judge, record.

A cancellation may interrupt any step except one: an image that has arrived is written to disk and
recorded first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from PIL import Image

from genlab.benchmark.cases import Case, describe_missing_consent, load_stored_case
from genlab.benchmark.judge import StarJudge, Verdict
from genlab.benchmark.plugins.base import ImageTool, Picture, ToolFailure, one_line
from genlab.benchmark.plugins.registry import choose_tools, load_tools, tool_version
from genlab.benchmark.run.events import EventLog
from genlab.benchmark.run.images import (
    Destination,
    SavedImage,
    find_saved,
    recover_image,
    save_image,
)
from genlab.benchmark.run.requests import CostBudget, RequestLimits, Requests
from genlab.benchmark.run.score_pool import ScoringError, ScoringPool
from genlab.benchmark.store.items import ItemResult, Judging, Reused, ScoreDetails
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Run, image_name
from genlab.core.errors import GenlabError
from genlab.core.io import write_bytes, write_json

ANSWERED = ("refused", "error")  # failures of a judge that answered: asked again only by `again`


@dataclass(frozen=True)
class RunOptions:
    """How runs are executed.

    limits: of requests; tools: by id, all installed and configured ones if None; judge: gives stars
    to scored images, within the same ceiling; reuse: whether images of earlier runs with the same
    contender and case are copied.
    """

    _: KW_ONLY
    limits: RequestLimits = field(default_factory=RequestLimits)
    tools: Mapping[str, ImageTool] | None = None
    judge: StarJudge | None = None
    reuse: bool = False


class ItemProcessor:
    """Processes the items of a run, once."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        run: Run,
        cases: Mapping[str, Case],
        options: RunOptions,
        log: EventLog,
        again: bool,
    ) -> None:
        """cases: by id; again: whether failed items are tried again, too.

        Raises a `GenlabError` if a tool has changed since the run began, or a case lacks consent.
        """
        self._store = store
        self._folder = folder
        self._run = run
        self._contenders = run.contenders
        self._log = log
        self._again = again
        self._reuses = options.reuse
        self._judge = options.judge
        self._cases = cases
        self._checked_cases: set[str] = set()  # ids
        for case in self._cases.values():
            if not case.may_run:
                raise GenlabError(describe_missing_consent(case))
        names = [contender.tool_id for contender in self._contenders.values()]
        tools = choose_tools(load_tools() if options.tools is None else options.tools, names)
        self._tools = {tool.tool_id: tool for tool in tools}
        for contender in self._contenders.values():
            version = tool_version(self._tools[contender.tool_id])
            if version != contender.version:
                raise GenlabError(
                    f"tool {contender.tool_id} has version {version!r}, and run {run.run_id} began"
                    f" with {contender.version!r}; restore the tool, or start a new run"
                )
        self._items = store.items(run.run_id)
        self._budget = CostBudget(run.max_cost, sum(item.cost for item in self._items))
        slots = asyncio.Semaphore(options.limits.concurrency)
        make_requests = partial(Requests, limits=options.limits, budget=self._budget, slots=slots)
        self._requests = {name: make_requests(tool) for name, tool in self._tools.items()}
        if self._judge is not None:
            self._judge_requests = make_requests(self._judge)
            ratings = store.ratings("run_item", rater=self._judge.name, context="judge")
            self._rated_images = {rating.subject_hash for rating in ratings}

    async def process(self, item: ItemResult, pool: ScoringPool) -> None:
        """Process an item until it has a score or a failure."""
        try:
            if item.status not in ("generated", "scored"):
                await self._generate(item)
            if item.status != "scored":
                await self._evaluate(item, pool)
        except ToolFailure as failure:
            nothing_sent = failure.kind == "over_budget" or item.status == "queued"
            transition = item.skip if nothing_sent else item.fail
            await self._record(item, partial(transition, failure.kind, one_line(failure.reason)))
        if self._judge is not None and self._waits_for_judge(item):
            await self._ask_judge(self._judge, item)

    async def recover(self) -> list[ItemResult]:
        """Return the unfinished items, each in the status from which it continues.

        An image that arrived is taken from disk; one that is damaged or missing is made again.
        """
        unfinished = []
        candidates = [item for item in self._items if item.status != "failed" or self._again]
        images = await asyncio.to_thread(self._recover_images, candidates)
        for item, image in zip(candidates, images, strict=True):
            if isinstance(image, ToolFailure):
                await self._record(item, partial(item.fail, image.kind, image.reason))
                continue
            if item.status == "scored" and image is not None:
                if not self._waits_for_judge(item):
                    continue
            elif image is not None:
                if image.cost is not None:  # an answer that the killed process had saved
                    difference = image.cost - self._tools[item.tool_id].needs.cost
                    item.charge(difference)
                    self._budget.spent += difference
                await self._record_image(item, image)
            elif item.status != "queued":
                reason = "its image was damaged or missing and is made again" if item.image else ""
                await self._record(item, partial(item.queue, reason))
            unfinished.append(item)
        return unfinished

    async def skip_rest(self) -> None:
        """Record unfinished items as skipped: the run was cancelled."""
        for item in self._items:
            if not item.finished:
                await self._record(item, item.cancel)

    # generating

    async def _generate(self, item: ItemResult) -> None:
        if self._reuses and await self._reuse(item):
            return
        tool = self._tools[item.tool_id]
        options = self._contenders[item.contender].options
        case = self._cases[item.case_id].model_copy(update={"ideal": None})

        async def call() -> tuple[tuple[Picture, float], float | None]:
            await self._check_case(item.case_id)
            started = time.monotonic()
            answer: object = await tool.swap(case, options)
            picture = Picture(answer) if isinstance(answer, Image.Image) else answer
            if not isinstance(picture, Picture):  # it may have been paid for nevertheless
                kind = type(answer).__name__
                reason = f"the tool returns {kind}, no PIL image or Picture; correct its swap()"
                raise ToolFailure("no_image", reason, cost=tool.needs.cost)
            return (picture, time.monotonic() - started), picture.cost

        picture, seconds = await self._requests[item.tool_id].send(
            call,
            item.charge,
            partial(self._record, item, item.start_request),
        )
        await _finish(self._save(item, picture, seconds))

    async def _check_case(self, case_id: str) -> None:
        """Decode the images of a case, once. Raises a `ToolFailure` that blames the case."""
        if case_id not in self._checked_cases:
            try:
                await asyncio.to_thread(self._cases[case_id].check)
            except GenlabError as fault:
                raise ToolFailure("case_fault", str(fault)) from fault
            self._checked_cases.add(case_id)

    async def _reuse(self, item: ItemResult) -> bool:
        """Copy the image of an earlier run with the same contender, case and draw, if any.

        The item names the run that made it. Ratings belong to the image's content and still apply.
        """
        digest = self._cases[item.case_id].digest
        draw = item.model_dump(include={"contender", "case_id", "repeat"})
        candidates = await asyncio.to_thread(partial(self._store.find, ItemResult, **draw))
        for old in reversed(candidates):
            if old.run_id == item.run_id:
                continue
            earlier = await asyncio.to_thread(self._store.run, old.run_id)
            if digest not in [case.get("digest") for case in earlier.cases]:
                continue
            path = self._folder / old.run_id / image_name(earlier.contenders, old)
            image = await asyncio.to_thread(find_saved, path, old.image_sha256)
            if image is not None:
                await asyncio.to_thread(write_bytes, self._path(item), path.read_bytes())
                digests = {"image_sha256": image.sha256}
                await asyncio.to_thread(write_json, self._path(item).with_suffix(".json"), digests)
                item.note = old.note
                item.reused = old.reused or Reused(run_id=old.run_id, cost=old.cost)
                await self._record_image(item, image, old.seconds)
                return True
        return False

    async def _save(self, item: ItemResult, picture: Picture, seconds: float) -> None:
        image = await asyncio.to_thread(save_image, picture, self._destination(item))
        await self._record_image(item, image, seconds)

    async def _record_image(
        self, item: ItemResult, image: SavedImage, seconds: float = 0.0
    ) -> None:
        path = f"{self._run.run_id}/{image_name(self._contenders, item)}"
        await self._record(
            item, partial(item.record_image, path, image.sha256, seconds, image.note)
        )

    # scoring

    async def _evaluate(self, item: ItemResult, pool: ScoringPool) -> None:
        await self._record(item, item.start_scoring)
        try:
            transition = await score_item(item, self._cases[item.case_id], self._path(item), pool)
        except ScoringError as error:
            transition = partial(item.fail, "scorer_failed", one_line(str(error)))
        await self._record(item, transition)

    # judging

    def _waits_for_judge(self, item: ItemResult) -> bool:
        """Whether a scored image has neither stars from the judge nor a refusal that was paid."""
        if (
            self._judge is None
            or item.status != "scored"
            or item.image_sha256 in self._rated_images
        ):
            return False
        if self._again or item.judging is None or item.judging.judge != self._judge.name:
            return True
        return item.judging.failure_kind not in ANSWERED

    async def _ask_judge(self, judge: StarJudge, item: ItemResult) -> None:
        """Have the judge rate an image; its answer or failure is recorded with the item."""
        case = self._cases[item.case_id]
        path = self._path(item)
        item.judging = Judging(judge=judge.name, date=datetime.now(timezone.utc).date().isoformat())

        async def call() -> tuple[Verdict, None]:
            return await judge.rate(case, path), None

        try:
            record = partial(self._record, item)
            verdict = await self._judge_requests.send(call, item.charge, record)
            rating = ("run_item", item.image_sha256, judge.name, verdict.stars)
            await asyncio.to_thread(self._store.rate, *rating, "judge")
            values = verdict.model_dump(exclude={"stars"})
        except ToolFailure as failure:
            values = {"failure_kind": failure.kind, "failure": failure.reason}
        item.judging = item.judging.model_copy(update=values)
        await self._record(item)

    # recording

    async def _record(self, item: ItemResult, transition: Callable[[], None] | None = None) -> None:
        """Apply a transition to an item, save the item, and publish it."""
        if transition is not None:
            transition()
        await _finish(asyncio.to_thread(self._store.save_items, [item]))
        self._log.update(item)

    def _recover_images(self, items: Sequence[ItemResult]) -> list[SavedImage | ToolFailure | None]:
        """Find the images of an earlier process, or why an answer that it saved is no image."""
        images: list[SavedImage | ToolFailure | None] = []
        for item in items:
            try:
                images.append(recover_image(self._destination(item), item.image_sha256))
            except ToolFailure as failure:
                images.append(failure)
        return images

    def _destination(self, item: ItemResult) -> Destination:
        number = {"draw": str(item.repeat)} if item.repeat > 1 else {}
        marks = {"run": item.run_id, "tool": item.tool_id, "case": item.case_id, **number}
        size = self._cases[item.case_id].size
        return Destination(self._path(item), size, {**marks, "date": self._run.created[:10]})

    def _path(self, item: ItemResult) -> Path:
        return self._folder / self._run.run_id / image_name(self._contenders, item)


def load_cases_of(store: Store, run: Run) -> dict[str, Case]:
    """Load the cases of a run by id. Raises a `GenlabError` if one is gone or has changed."""
    return {stored["case_id"]: load_stored_case(store, run.run_id, stored) for stored in run.cases}


async def score_item(
    item: ItemResult, case: Case, image: Path, pool: ScoringPool
) -> Callable[[], None]:
    """Score an item's image; returns the transition that records the score or its failure.

    Raises `ScoringError` if the scorer gave no result.
    """
    score = await pool.score(case, image)
    details = ScoreDetails.model_validate(asdict(score))
    if score.score is None:
        reason = one_line("; ".join(details.notes))
        return partial(item.fail, score.outcome, reason, score.components, details)
    return partial(item.record_score, score.score, score.score_reference, score.components, details)


async def _finish(work: Awaitable[None]) -> None:
    """Await `work` to its end; a cancellation is raised afterwards."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
