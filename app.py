"""The server: the pages (`genlab.web.pages`), the API (`/api`), the runs' images (`/runs`).

`make app` serves it on http://127.0.0.1:8000, `make dev` reloads it on change.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import streamlit as st
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.routing import Mount

from genlab.benchmark.service.jobs import jobs
from genlab.core.errors import run_cli
from genlab.web.api.app import make_api
from genlab.web.images import make_image_app
from genlab.web.security import Access, Security

run_cli(Access.from_environment)  # do not start a server that would refuse everybody
JOBS = jobs()


@asynccontextmanager
async def lifespan(_: st.App) -> AsyncIterator[None]:
    """Resume the runs that the last server left unfinished; interrupt runs on shutdown."""
    resuming = asyncio.create_task(run_in_threadpool(JOBS.resume_server_runs))  # pages do not wait
    yield
    await resuming
    await run_in_threadpool(JOBS.close)


app = st.App(
    Path(__file__).parent / "src/genlab/web/pages/main.py",
    routes=[
        Mount("/api", app=make_api(JOBS)),
        Mount("/runs", app=make_image_app(JOBS.runs_folder)),
    ],
    middleware=[Middleware(Security)],
    lifespan=lifespan,
)
