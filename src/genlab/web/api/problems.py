"""Faults of the API: one JSON object of type application/problem+json (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from genlab.core.errors import GenlabError

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


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Problems of these statuses, for FastAPI's `responses=`."""
    schema = {"$ref": f"#/components/schemas/{Problem.__name__}"}
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status in statuses
    }


def add_problem_handlers(api: FastAPI) -> None:
    """Answer every fault of `api` with a problem, and declare it in its OpenAPI document."""
    for kind in (Refusal, GenlabError, HTTPException, RequestValidationError):
        api.add_exception_handler(kind, _refused)
    api.add_exception_handler(Exception, _broken)
    made = api.openapi

    def document() -> dict[str, Any]:
        found = made()
        schemas = found["components"]["schemas"]
        schemas[Problem.__name__] = Problem.model_json_schema()
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        return found

    api.openapi = document  # type: ignore[method-assign]


async def _refused(_: Request, error: Exception) -> Response:
    if isinstance(error, Refusal):
        return problem(error.status, error.detail)
    if isinstance(error, GenlabError):  # files in disorder: the line says which and the fix
        return problem(getattr(error, "status", 409), str(error))
    if isinstance(error, RequestValidationError):
        faults = error.errors()
        if faults[0]["type"] == "json_invalid":
            return problem(422, _no_json(faults[0]))
        where = ".".join(str(part) for part in faults[0]["loc"])
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        return problem(422, f"{where}: {faults[0]['msg']}{more}")
    if isinstance(error, HTTPException):
        return problem(error.status_code, str(error.detail), error.headers)
    raise error


def _no_json(fault: Mapping[str, Any]) -> str:
    why, place = fault.get("ctx", {}).get("error", "it ends early"), fault["loc"][-1]
    return (
        f"the body is no JSON ({why}, at character {place}); send an object such as"
        ' {"run_item_id": 1, "stars": 3}, see /api/openapi.json'
    )


async def _broken(_: Request, error: Exception) -> Response:
    """A bug: its traceback is for the server's log, not for the client."""
    return problem(500, f"{type(error).__name__} in the server; its log says more")
