"""The server: the pages of `ui/`, the API under `/api` and the runs' pictures under `/runs`.

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

from genlab.web.api import make_api
from genlab.web.guards import Guards
from genlab.web.live import live
from genlab.web.pictures import run_pictures

LIVE = live()
API = make_api(LIVE)


@asynccontextmanager
async def lifespan(_: st.App) -> AsyncIterator[None]:
    """Go on with the runs that the last server left; at the end, stop them where they are."""
    async with API.router.lifespan_context(API):
        waking = asyncio.create_task(run_in_threadpool(LIVE.wake))  # the pages don't wait
        yield
        await waking
        await run_in_threadpool(LIVE.close)


app = st.App(
    Path(__file__).parent / "ui" / "main.py",
    routes=[
        Mount("/api", app=API),
        Mount("/runs", app=run_pictures(LIVE.runs_folder)),
    ],
    middleware=[Middleware(Guards)],
    lifespan=lifespan,
)
