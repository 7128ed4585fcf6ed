"""Score stored images again whose score is of another version of the scorer."""

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
    """Give each image of a run a score of these versions, where it has one of others.

    No tool is asked. An image whose case or file is gone or has changed keeps its old score.
    Returns a line on each of these, and on how many were scored. Raises a `GenlabError` where
    another process does the run.
    """
    run = runner.store.run(run_id)
    with hold_lock(runner.folder, run_id):
        older = [
            item
            for item in runner.store.items(run_id)
            if item.image and item.scoring is not None and item.scoring.versions != versions
        ]
        if not older:
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
                end = await score_item(item, case, path, pool)
            except ScoringError as fault:
                return f"{item.image} keeps its old score: {fault}"
            item.evaluate()
            end()
            await asyncio.to_thread(runner.store.save_items, [item])
            return ""

        try:
            lines = await asyncio.gather(*map(score_again, older))
        finally:
            pool.close()
    kept = [f"{run_id}: {line}" for line in lines if line]
    return [*kept, f"{run_id}: {len(older) - len(kept)} of {len(older)} images are scored again"]


def _load_cases(store: Store, run: Run) -> dict[str, Case | GenlabError]:
    """The cases of a run by id, or why one cannot be used."""
    cases: dict[str, Case | GenlabError] = {}
    for stored in run.cases:
        try:
            cases[stored["case_id"]] = load_stored_case(store, run.run_id, stored)
        except GenlabError as fault:
            cases[stored["case_id"]] = fault
    return cases
