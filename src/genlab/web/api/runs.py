"""Routes of the runs: start, follow, cancel, resume, show, report."""

from __future__ import annotations

import threading
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Path, Request, WebSocket, WebSocketDisconnect
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, Response

from genlab.benchmark.cases import split_by_consent
from genlab.benchmark.events import Event
from genlab.benchmark.plugins.registry import make_contenders
from genlab.benchmark.report import render_report
from genlab.benchmark.store.schema import Run
from genlab.core.errors import GenlabError
from genlab.web.api.cases import IMAGES
from genlab.web.api.problems import Refusal, problem
from genlab.web.api.types import CaseId, Part, RunId, ToolId
from genlab.web.images import Width, find_run_image, serve_image
from genlab.web.jobs import Jobs, RunStatus

MAX_CASES, MAX_TOOLS, MAX_ITEMS = 500, 50, 5000

Value = bool | int | float | Annotated[str, Field(max_length=2000)]
Values = Value | Annotated[list[Value], Field(min_length=1, max_length=20)]


class RunIn(Part):
    """What is to be run: every case through every contender."""

    case_ids: Annotated[list[CaseId], Field(min_length=1, max_length=MAX_CASES)]
    tool_ids: Annotated[list[ToolId], Field(min_length=1, max_length=MAX_TOOLS)]
    max_cost: float = Field(default=0.0, ge=0, le=10_000, description="Ceiling in dollars.")
    options: dict[ToolId, Annotated[dict[str, Values], Field(max_length=20)]] = Field(
        default={}, max_length=MAX_TOOLS, description="Options by tool; lists make contenders."
    )
    repeats: int = Field(default=1, ge=1, le=100, description="Images per case and contender.")


class RunOut(Part):
    """A run and its state."""

    run_id: RunId
    status: RunStatus
    reason: str = Field(default="", description="Why it was interrupted, and how to continue.")


def find_run(jobs: Jobs, run_id: str) -> Run:
    """The run of this id. Raises a `Refusal` where there is none."""
    try:
        return jobs.store.run(run_id)
    except GenlabError as error:
        raise Refusal(404, f"there is no run {run_id}") from error


def start_run(jobs: Jobs, asked: RunIn) -> str:
    """Check a request for a run and start it; returns its id. Raises a `Refusal`."""
    cases, tools = {case.case_id: case for case in jobs.cases()}, jobs.tools()
    for names, known, kind in (
        (asked.case_ids, cases, "case"),
        (asked.tool_ids, tools, "tool"),
        (asked.options, asked.tool_ids, "tool of this run"),
    ):
        for name in names:
            if name not in known:
                raise Refusal(404, f"there is no {kind} {name}")
    chosen, _ = split_by_consent([cases[name] for name in dict.fromkeys(asked.case_ids)])
    if not chosen:
        raise Refusal(409, "none of these cases has consent")
    try:
        with_tools = [tools[name] for name in dict.fromkeys(asked.tool_ids)]
        contenders = make_contenders(with_tools, asked.options)
    except GenlabError as error:
        raise Refusal(422, str(error)) from error
    if len(chosen) * len(contenders) * asked.repeats > MAX_ITEMS:
        raise Refusal(422, f"a run may have {MAX_ITEMS} images; choose fewer")
    return jobs.start(chosen, contenders, repeats=asked.repeats, max_cost=asked.max_cost)


def make_router(jobs: Jobs) -> APIRouter:
    """The routes under `/run`, `/runs`, `/report` and `/pictures`."""
    router = APIRouter()

    def describe(run: Run) -> RunOut:
        status, reason = jobs.status(run)
        return RunOut(run_id=run.run_id, status=status, reason=reason)

    @router.post("/run", status_code=202, summary="Start a run")
    def start(asked: RunIn) -> RunOut:
        return RunOut(run_id=start_run(jobs, asked), status="running")

    @router.post("/run/{run_id}/cancel", summary="End a run")
    def cancel(run_id: RunId) -> RunOut:
        run = find_run(jobs, run_id)
        if not jobs.cancel(run_id):
            raise Refusal(409, f"this server does not do run {run_id} now")
        return describe(run)

    @router.post("/run/{run_id}/resume", status_code=202, summary="Continue a run")
    def resume(run_id: RunId) -> RunOut:
        run = find_run(jobs, run_id)
        if jobs.status(run)[0] == "running":
            raise Refusal(409, f"run {run_id} is running")
        jobs.resume(run_id, again=True)
        return describe(run)

    @router.get("/runs", summary="All runs, the newest first")
    def runs() -> list[RunOut]:
        return [describe(run) for run in jobs.store.runs()]

    @router.get("/run/{run_id}", summary="The state of a run: its WebSocket's first event")
    async def state(run_id: RunId) -> Event:
        await run_in_threadpool(find_run, jobs, run_id)
        async with aclosing(jobs.follow(run_id)) as events:
            return await anext(events)

    @router.websocket("/run/{run_id}")
    async def follow(socket: WebSocket, run_id: RunId, after: int | None = None) -> None:
        """Events of a run: the state first, or with `?after=` those behind that sequence."""
        try:
            await run_in_threadpool(find_run, jobs, run_id)
        except Refusal as error:
            return await socket.send_denial_response(problem(error.status, str(error)))
        await socket.accept()
        try:
            async for event in jobs.follow(run_id, after):
                await socket.send_json(event)
            await socket.close()
        except (WebSocketDisconnect, RuntimeError):
            pass  # the client has left

    add_results(router, jobs)
    return router


def add_results(router: APIRouter, jobs: Jobs) -> None:
    """The routes under `/report` and `/pictures`."""
    rendering = threading.Lock()  # a report decodes every image of its run

    @router.get(
        "/report/{run_id}",
        summary="The report of a run, one HTML file",
        response_class=HTMLResponse,
    )
    def report(run_id: RunId) -> HTMLResponse:
        find_run(jobs, run_id)
        with rendering:
            text = render_report(jobs.store, run_id)
        name = f'attachment; filename="report_{run_id}.html"'
        return HTMLResponse(text, headers={"Content-Disposition": name})

    @router.get(
        "/pictures/{sha256}",
        summary="An image of a run by its content: its address does not name the tool",
        response_class=Response,
        responses=IMAGES,
    )
    def image(
        request: Request,
        sha256: Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")],
        width: Width = "640",
    ) -> Response:
        query = "SELECT image FROM run_items WHERE image_sha256 = :sha AND image <> '' LIMIT 1"
        found = jobs.store.table(query, sha=sha256)
        if found.empty:
            raise Refusal(404, "no image of a run has this content")
        path = find_run_image(jobs.runs_folder, str(found.image[0]))
        return serve_image(request, path, width, immutable=True)
