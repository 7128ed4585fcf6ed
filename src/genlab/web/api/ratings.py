"""Route of people's ratings."""

from __future__ import annotations

import secrets
from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from genlab.benchmark.leaderboard.standings import SUBJECT
from genlab.benchmark.store.schema import MAX_RATER, Context
from genlab.core.errors import GenlabError
from genlab.web.api.problems import Refusal, responses
from genlab.web.api.types import ItemId, Part
from genlab.web.jobs import Jobs


def guest() -> str:
    """A name for a rater who gives none, so that no two overwrite each other."""
    return f"guest-{secrets.token_hex(4)}"


class RateIn(Part):
    """Stars for an item's image; null deletes them."""

    run_item_id: ItemId
    stars: Annotated[int, Field(ge=1, le=5)] | None
    rater: Annotated[str, Field(max_length=MAX_RATER)] = Field(
        default="", description="Empty: a new guest."
    )
    blind: bool = Field(default=False, description="Whether the tool was hidden.")


class Rated(Part):
    """People's stars of the image, blind or not, now."""

    run_item_id: ItemId
    rater: str
    changed: bool = Field(description="False where the same stars were there already.")
    mean_stars: float | None
    raters: int


def make_router(jobs: Jobs) -> APIRouter:
    """The route `/rate`."""
    router = APIRouter()

    @router.post("/rate", summary="Rate an image", responses=responses(404, 422))
    def rate(asked: RateIn) -> Rated:
        try:
            item = jobs.store.item(asked.run_item_id)
        except GenlabError as error:
            raise Refusal(404, f"there is no item {asked.run_item_id}") from error
        sha = item.image_sha256
        if not sha:
            raise Refusal(409, f"item {item.item_id} has no image to rate")
        rater = asked.rater or guest()
        context: Context = "blind" if asked.blind else "grid"
        try:
            changed = jobs.store.rate(SUBJECT, sha, rater, asked.stars, context)
        except GenlabError as error:
            raise Refusal(422, str(error)) from error
        stars = [
            rating.stars
            for rating in jobs.store.ratings(SUBJECT, context=context)
            if rating.subject_hash == sha
        ]
        return Rated(
            run_item_id=item.item_id,
            rater=rater,
            changed=changed,
            mean_stars=sum(stars) / len(stars) if stars else None,
            raters=len(stars),
        )

    return router
