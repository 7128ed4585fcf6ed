"""The FastAPI application of all routers."""

from __future__ import annotations

from fastapi import FastAPI

from genlab import __version__
from genlab.web.api import cases, ratings, runs, tools
from genlab.web.api.problems import PROBLEMS, add_problem_handlers
from genlab.web.jobs import Jobs


def make_api(jobs: Jobs) -> FastAPI:
    """The API over the project of `jobs`."""
    api = FastAPI(
        title="genlab",
        version=__version__,
        summary="The person-swap benchmark: cases through image tools, scored and rated.",
        docs_url=None,  # FastAPI's own pages fetch their scripts from the internet
        redoc_url=None,
        responses=PROBLEMS,
    )
    for module in (cases, tools, runs, ratings):
        api.include_router(module.make_router(jobs))
    add_problem_handlers(api)
    return api
