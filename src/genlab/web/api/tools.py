"""Route of the image tools."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from genlab.benchmark.plugins.base import why_absent
from genlab.web.api.types import Part, ToolId
from genlab.web.jobs import Jobs


class ToolOption(Part):
    """A setting of a tool."""

    name: str
    help: str
    choices: list[str] = Field(description="Accepted values; empty: any text.")


class ToolOut(Part):
    """An image tool, and why it is not available where it is not."""

    tool_id: ToolId
    title: str
    available: bool
    reason: str = Field(description="Why it is not available.")
    cost: float = Field(description="Estimated dollars per image.")
    network: bool = Field(description="Whether photographs leave this machine.")
    options: list[ToolOption]


def make_router(jobs: Jobs) -> APIRouter:
    """The route under `/tools`."""
    router = APIRouter()

    @router.get("/tools", summary="The image tools")
    def tools() -> list[ToolOut]:
        return [
            ToolOut(
                tool_id=tool.tool_id,
                title=tool.title,
                available=not (reason := why_absent(tool)),
                reason=reason,
                cost=tool.needs.cost,
                network=tool.needs.network,
                options=[
                    ToolOption(name=name, help=option.help, choices=list(option.choices))
                    for name, option in (tool.needs.options or {}).items()
                ],
            )
            for tool in jobs.tools().values()
        ]

    return router
