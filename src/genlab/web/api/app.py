"""The FastAPI application of all routers."""

from fastapi import FastAPI

from genlab import __version__
from genlab.benchmark.service.jobs import Jobs
from genlab.web.api import cases, ratings, runs
from genlab.web.problems import HANDLERS, PROBLEMS


def make_api(jobs: Jobs) -> FastAPI:
    """Make the API of the project of `jobs`."""
    api = FastAPI(
        title="genlab",
        version=__version__,
        summary="The person-swap benchmark: cases through image tools, scored and rated.",
        docs_url=None,  # FastAPI's own pages fetch their scripts from the internet
        redoc_url=None,
        responses=PROBLEMS,
        exception_handlers=HANDLERS,
    )
    api.state.jobs = jobs
    for module in (cases, runs, ratings):
        api.include_router(module.router)
    return api
