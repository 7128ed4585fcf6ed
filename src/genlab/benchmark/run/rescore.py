"""Score stored images again if their score comes from another version of the scorer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from genlab.benchmark.cases import Case, load_stored_case
from genlab.benchmark.run.images import find_saved
from genlab.benchmark.run.item_processor import score_item
from genlab.benchmark.run.runner import Runner, hold_lock, load_scorer
from genlab.benchmark.run.score_pool import ScoringError, ScoringPool
from genlab.benchmark.store.items import ItemResult
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Run
from genlab.core.errors import GenlabError


async def rescore(runner: Runner, run_id: str, versions: Mapping[str, str]) -> list[str]:
    """Score the images of a run again whose score has other versions than these.

    No tool is asked. An image keeps its old score if its case or file is gone or has changed.
    Returns a line per such image, and one with the number of images that were scored. Raises a
    `GenlabError` if the run is running in another process.
    """
    run = runner.store.run(run_id)
    with hold_lock(runner.folder, run_id):
        outdated = [
            item
            for item in runner.store.items(run_id)
            if item.image and item.scoring is not None and item.scoring.versions != versions
        ]
        if not outdated:
            return [f"{run_id}: every score is of this version"]
        cases = await asyncio.to_thread(_load_cases, runner.store, run)
        pool = ScoringPool(runner.scorer or load_scorer(), runner.options.limits.scorers)

        async def score_again(item: ItemResult) -> str:
            case = cases[item.case_id]
            path = runner.folder / item.image
            if isinstance(case, GenlabError):
                return f"{item.image} keeps its old score: {case}"
            if await asyncio.to_thread(find_saved, path, item.image_sha256) is None:
                return f"{item.image} is gone or has changed; it keeps its old score"
            try:
                record_score = await score_item(item, case, path, pool)
            except ScoringError as fault:
                return f"{item.image} keeps its old score: {fault}"
            item.start_scoring()
            record_score()
            await asyncio.to_thread(runner.store.save_items, [item])
            return ""

        try:
            reasons = await asyncio.gather(*map(score_again, outdated))
        finally:
            pool.close()
    lines = [f"{run_id}: {reason}" for reason in reasons if reason]
    scored = len(outdated) - len(lines)
    return [*lines, f"{run_id}: {scored} of {len(outdated)} images are scored again"]


def _load_cases(store: Store, run: Run) -> dict[str, Case | GenlabError]:
    """Load the cases of a run by id; a case that cannot be used is replaced by its error."""
    cases: dict[str, Case | GenlabError] = {}
    for stored in run.cases:
        try:
            cases[stored["case_id"]] = load_stored_case(store, run.run_id, stored)
        except GenlabError as fault:
            cases[stored["case_id"]] = fault
    return cases
