"""Route for people's ratings."""

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field

from genlab.benchmark.leaderboard.standings import SUBJECT
from genlab.benchmark.service.rating_session import name_guest
from genlab.benchmark.store.schema import MAX_RATER, Context
from genlab.core.errors import GenlabError
from genlab.web.api.schema import ItemId, ProjectJobs
from genlab.web.problems import Refusal, StrictModel
from genlab.web.security import sees_all

router = APIRouter()


class RateIn(StrictModel):
    """Stars for an item's image; null deletes them."""

    run_item_id: ItemId
    stars: Annotated[int, Field(ge=1, le=5)] | None
    rater: str = Field(
        default="", max_length=MAX_RATER, description="Empty: the guest of your token."
    )
    blind: bool = Field(default=False, description="Whether the tool was hidden.")


class Rated(StrictModel):
    """Current stars of the image in the context, blind or not, of the request."""

    run_item_id: ItemId
    rater: str
    changed: bool = Field(description="False if the image had these stars already.")
    mean_stars: float | None
    raters: int


@router.post("/rate", summary="Rate an image")
def rate(request: Request, jobs: ProjectJobs, rating: RateIn) -> Rated:
    try:
        sha = jobs.store.item(rating.run_item_id).image_sha256
    except GenlabError as error:
        raise Refusal(404, f"there is no item {rating.run_item_id}") from error
    if not sha:
        raise Refusal(409, f"item {rating.run_item_id} has no image to rate")
    # One guest per role, so that a script counts once; the name does not contain the token.
    role = "all" if sees_all(request.headers, request.cookies) else "rater"
    rater = rating.rater or name_guest(f"{jobs.root} {role}")
    context: Context = "blind" if rating.blind else "grid"
    try:
        changed = jobs.store.rate(SUBJECT, sha, rater, rating.stars, context)
    except GenlabError as error:
        raise Refusal(422, str(error)) from error
    ratings = jobs.store.ratings(SUBJECT, context=context)
    stars = [row.stars for row in ratings if row.subject_hash == sha]
    return Rated(
        run_item_id=rating.run_item_id,
        rater=rater,
        changed=changed,
        mean_stars=sum(stars) / len(stars) if stars else None,
        raters=len(stars),
    )
