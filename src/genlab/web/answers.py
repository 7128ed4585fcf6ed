"""What the API takes and gives, as types: its OpenAPI document is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from genlab.benchmark.cases import Case
from genlab.benchmark.events import update
from genlab.benchmark.plugins import ImageTool, why_absent
from genlab.benchmark.store.schema import MAX_RATER, STATUSES, Item, Run, Status
from genlab.web.live import RunStatus

MAX_CASES, MAX_TOOLS, MAX_ITEMS = 500, 50, 5000

RunId = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(-[0-9]{1,6})?$", max_length=20)]
CaseId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", max_length=64)]
ToolId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_]{0,47}$", max_length=48)]
ItemId = Annotated[int, Field(ge=1, le=2**53 - 1)]
Option = bool | int | float | Annotated[str, Field(max_length=2000)]


class Part(BaseModel):
    """A part of the API: no key beside those that it names, no value of another type."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class RegionOut(Part):
    """A face in the template, in pixels."""

    left: int
    top: int
    width: int
    height: int


class SwapOut(Part):
    """Whose place an avatar takes."""

    region: RegionOut
    avatar: str


class CaseOut(Part):
    """A case, and where its pictures are."""

    case_id: CaseId
    title: str
    consent: bool = Field(description="Without it the case is shown and not run.")
    template_url: str
    avatar_urls: dict[str, str]
    swaps: list[SwapOut]
    licences: dict[str, str] = Field(description="Licence of each picture.")

    @classmethod
    def of(cls, case: Case) -> CaseOut:
        """The case as the API shows it."""
        base = f"/api/test-cases/{case.case_id}"
        return cls(
            case_id=case.case_id,
            title=case.title,
            consent=case.consent,
            template_url=f"{base}/template",
            avatar_urls={name: f"{base}/{name}" for name in case.avatars},
            swaps=[
                SwapOut(region=RegionOut(**swap.region.model_dump()), avatar=swap.avatar)
                for swap in case.swaps
            ],
            licences={name: source.licence for name, source in case.sources.items()},
        )


class ToolOut(Part):
    """An image tool, and why it can't be used where it can't."""

    tool_id: ToolId
    title: str
    available: bool
    reason: str = Field(description="Why it is not available.")
    cost: float = Field(description="Dollars an image, an estimate.")
    network: bool = Field(description="Whether photographs leave this machine.")

    @classmethod
    def of(cls, tool: ImageTool) -> ToolOut:
        """The tool as the API shows it."""
        reason = why_absent(tool)
        return cls(
            tool_id=tool.tool_id,
            title=tool.title,
            available=not reason,
            reason=reason,
            cost=tool.needs.cost,
            network=tool.needs.network,
        )


class RunIn(Part):
    """What is to be run: every case through every tool."""

    case_ids: Annotated[list[CaseId], Field(min_length=1, max_length=MAX_CASES)]
    tool_ids: Annotated[list[ToolId], Field(min_length=1, max_length=MAX_TOOLS)]
    max_cost: float = Field(default=0.0, ge=0, le=10_000, description="Dollars it may take.")
    options: Annotated[
        dict[ToolId, Annotated[dict[str, Option], Field(max_length=20)]],
        Field(max_length=MAX_TOOLS, description="What each tool is told, by its id."),
    ] = {}


class Begun(Part):
    """A run that has begun."""

    run_id: RunId


class ItemOut(Part):
    """A case through a tool: where it stands."""

    run_item_id: ItemId
    case_id: CaseId
    tool_id: ToolId
    status: Status
    image_url: str
    score: float | None = Field(description="In [0, 1]; null where there is none.")
    components: dict[str, Any] = Field(description="Parts of the score, each in [0, 1] or null.")
    failure_kind: str
    failure: str = Field(description="Why there is no score, one line.")
    cost: float = Field(description="Dollars.")
    seconds: float
    attempts: int


class RunOut(Part):
    """A run and all its items."""

    run_id: RunId
    created: str
    status: RunStatus
    reason: str = Field(description="Why it was interrupted, and how to go on.")
    case_ids: list[CaseId]
    tool_ids: list[ToolId]
    progress: dict[Status, int]
    spent: float = Field(description="Dollars.")
    items: list[ItemOut]

    @classmethod
    def of(
        cls,
        run: Run,
        items: Sequence[Item],
        status: RunStatus,
        reason: str,
    ) -> RunOut:
        """The run as the API shows it."""
        fields = ItemOut.model_fields
        return cls(
            run_id=run.run_id,
            created=run.created,
            status=status,
            reason=reason,
            case_ids=[case["case_id"] for case in run.cases],
            tool_ids=[tool["tool_id"] for tool in run.tools],
            progress={each: sum(item.status == each for item in items) for each in STATUSES},
            spent=sum(item.cost for item in items),
            items=[
                ItemOut(**{key: value for key, value in update(item).items() if key in fields})
                for item in items
            ],
        )


class RunLine(Part):
    """A run in the list of runs."""

    run_id: RunId
    created: str
    status: RunStatus
    cases: int
    tools: int

    @classmethod
    def of(cls, run: Run, status: RunStatus) -> RunLine:
        """The run as a line."""
        return cls(
            run_id=run.run_id,
            created=run.created,
            status=status,
            cases=len(run.cases),
            tools=len(run.tools),
        )


class Cancelled(Part):
    """Whether there was anything to cancel."""

    run_id: RunId
    cancelled: bool


class RateIn(Part):
    """Stars for an item's picture; null takes them back."""

    run_item_id: ItemId
    stars: Annotated[int, Field(ge=1, le=5)] | None
    rater: Annotated[str, Field(min_length=1, max_length=MAX_RATER)] = "anonymous"
    blind: bool = Field(default=False, description="Whether the tool was hidden.")


class Rated(Part):
    """What people say of the picture now."""

    run_item_id: ItemId
    changed: bool = Field(description="False where the same stars were there already.")
    mean_stars: float | None
    raters: int
