"""Responses to faulty requests: problem details (RFC 9457) with a status, a title and one line."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from genlab.core.errors import GenlabError

MEDIA_TYPE = "application/problem+json"
LONGEST = 500  # characters of a detail


class StrictModel(BaseModel):
    """Base of the API's models: unknown keys and values of another type are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class ProblemDetails(StrictModel):
    """Description of a fault, for programs (`status`, `title`) and for people (`detail`)."""

    type: str = Field(default="about:blank", description="Kind of the fault; RFC 9457.")
    title: str = Field(description="Name of the status.")
    status: int = Field(ge=400, le=599, description="HTTP status.")
    detail: str = Field(description="One line: what is wrong, and what to do about it.")


_CONTENT = {MEDIA_TYPE: {"schema": ProblemDetails.model_json_schema()}}
PROBLEMS: dict[int | str, dict[str, Any]] = {"4XX": {"description": "Error", "content": _CONTENT}}
"""For FastAPI's `responses=`."""


class Refusal(GenlabError):  # noqa: N818 - a response, not a fault of the program
    """Raised to refuse a request with problem details of this status."""

    def __init__(self, status: int, detail: str) -> None:
        self.status = status
        super().__init__(detail)


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Make the response with the details of a problem."""
    # The detail may quote text of the client, including half of a surrogate pair.
    line = " ".join(detail.encode("utf-8", "replace").decode("utf-8").split())
    content = ProblemDetails(title=HTTPStatus(status).phrase, status=status, detail=line[:LONGEST])
    return JSONResponse(content.model_dump(), status, headers, media_type=MEDIA_TYPE)


async def report(_: object, error: Exception) -> JSONResponse:
    """Turn an exception into the response of a problem, for FastAPI's `exception_handlers=`."""
    if isinstance(error, GenlabError):  # 409: a faulty file, which the line names
        return problem(getattr(error, "status", 409), str(error))
    if isinstance(error, RequestValidationError):
        fault, *others = error.errors()
        location = ".".join(map(str, fault["loc"]))
        more = f" (and {len(others)} more)" if others else ""
        return problem(422, f"{location}: {fault['msg']}{more}")
    if isinstance(error, HTTPException):
        return problem(error.status_code, str(error.detail), error.headers)
    # A bug: its traceback is for the server's log, not for the client.
    return problem(500, f"{type(error).__name__} in the server; its log says more")


HANDLERS: dict[int | type[Exception], Any] = dict.fromkeys(
    (GenlabError, HTTPException, RequestValidationError, Exception), report
)
