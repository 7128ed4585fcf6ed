"""Types of identifiers, and the dependency on the project's `Jobs`, for all routers."""

from typing import Annotated

from fastapi import Depends
from pydantic import Field
from starlette.requests import HTTPConnection

from genlab.benchmark.service.jobs import Jobs

RunId = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(-[0-9]{1,6})?$", max_length=20)]
ToolId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_]{0,47}$", max_length=48)]
ItemId = Annotated[int, Field(ge=1, le=2**53 - 1)]


def find_jobs(connection: HTTPConnection) -> Jobs:
    """Return the `Jobs` of the application that handles a connection."""
    jobs: Jobs = connection.app.state.jobs
    return jobs


ProjectJobs = Annotated[Jobs, Depends(find_jobs)]
"""Parameter of a route that receives the `Jobs`."""
