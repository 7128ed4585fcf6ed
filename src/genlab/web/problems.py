"""Faults as the API tells them: one JSON object of type application/problem+json (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse

MEDIA_TYPE = "application/problem+json"
LONGEST = 500  # characters of a detail


class Problem(BaseModel):
    """What went wrong, for programs (`status`, `title`) and for people (`detail`)."""

    model_config = ConfigDict(extra="forbid")

    type: str = Field(default="about:blank", description="Kind of the fault; RFC 9457.")
    title: str = Field(description="Name of the status.")
    status: int = Field(ge=400, le=599, description="HTTP status.")
    detail: str = Field(description="One line: what is wrong, and what to do about it.")


class Refusal(Exception):  # noqa: N818 - an answer, no fault
    """A request that is answered with a problem."""

    def __init__(self, status: int, detail: str) -> None:
        self.status = status
        self.detail = detail
        super().__init__(f"{status}: {detail}")


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The answer that says it."""
    # What a client sent may stand in it, half of a surrogate pair included.
    line = " ".join(detail.encode("utf-8", "replace").decode("utf-8").split())
    said = Problem(title=HTTPStatus(status).phrase, status=status, detail=line[:LONGEST])
    return JSONResponse(said.model_dump(), status, headers, media_type=MEDIA_TYPE)


def answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What FastAPI's `responses=` takes to declare problems of these statuses."""
    schema = {"$ref": f"#/components/schemas/{Problem.__name__}"}
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status in statuses
    }
