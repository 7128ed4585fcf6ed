"""What the routers share: types of identifiers, and the project's `Jobs`."""

from typing import Annotated

from fastapi import Depends
from pydantic import Field
from starlette.requests import HTTPConnection

from genlab.benchmark.service.jobs import Jobs

RunId = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(-[0-9]{1,6})?$", max_length=20)]
ToolId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_]{0,47}$", max_length=48)]
ItemId = Annotated[int, Field(ge=1, le=2**53 - 1)]


def find_jobs(connection: HTTPConnection) -> Jobs:
    """The `Jobs` of the application that answers."""
    jobs: Jobs = connection.app.state.jobs
    return jobs


ProjectJobs = Annotated[Jobs, Depends(find_jobs)]
"""The `Jobs` of a route."""
