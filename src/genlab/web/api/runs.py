"""Routes for tools and runs: list, start, follow, cancel, resume, show, report."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request, WebSocket, WebSocketDisconnect
from pydantic import Field
from starlette.responses import HTMLResponse, Response

from genlab.benchmark.cases import split_by_consent
from genlab.benchmark.plugins.base import ImageTool, why_unavailable
from genlab.benchmark.plugins.registry import make_contenders
from genlab.benchmark.report import render_report
from genlab.benchmark.run.events import Event
from genlab.benchmark.service.cases import CaseId
from genlab.benchmark.service.jobs import Jobs, RunStatus, TooManyRunsError
from genlab.benchmark.service.pictures import find_content
from genlab.benchmark.store.schema import Run
from genlab.core.errors import GenlabError
from genlab.web.api.schema import ProjectJobs, RunId, ToolId
from genlab.web.components import figures
from genlab.web.images import IMAGES, Width, serve_image
from genlab.web.problems import Refusal, StrictModel

MAX_CASES = 500
MAX_TOOLS = 50

Value = bool | int | float | Annotated[str, Field(max_length=2000)]
Values = Value | Annotated[list[Value], Field(min_length=1, max_length=20)]

router = APIRouter()
rendering = threading.Lock()  # a report decodes every image of its run


class ToolOption(StrictModel):
    """A setting of a tool."""

    name: str
    help: str
    choices: list[str] = Field(description="Accepted values; empty: any text.")


class ToolOut(StrictModel):
    """An image tool, with the reason if it is not available."""

    tool_id: ToolId
    title: str
    available: bool
    reason: str = Field(description="Why it is not available.")
    cost: float = Field(description="Estimated dollars per image.")
    network: bool = Field(description="Whether photographs leave this machine.")
    options: list[ToolOption]

    @classmethod
    def of(cls, tool: ImageTool) -> ToolOut:
        """Describe a tool."""
        reason = why_unavailable(tool)
        needs = tool.needs
        return cls(
            tool_id=tool.tool_id,
            title=tool.title,
            available=not reason,
            reason=reason,
            cost=needs.cost,
            network=needs.network,
            options=[
                ToolOption(name=name, help=option.help, choices=list(option.choices))
                for name, option in (needs.options or {}).items()
            ],
        )


class RunIn(StrictModel):
    """A run to start: every case through every contender."""

    case_ids: Annotated[list[CaseId], Field(min_length=1, max_length=MAX_CASES)]
    tool_ids: Annotated[list[ToolId], Field(min_length=1, max_length=MAX_TOOLS)]
    max_cost: float = Field(default=0.0, ge=0, le=10_000, description="Ceiling in dollars.")
    options: dict[ToolId, Annotated[dict[str, Values], Field(max_length=20)]] = Field(
        default={}, max_length=MAX_TOOLS, description="Options by tool; lists make contenders."
    )
    repeats: int = Field(default=1, ge=1, le=100, description="Images per case and contender.")


class RunOut(StrictModel):
    """A run and its state."""

    run_id: RunId
    status: RunStatus
    reason: str = Field(default="", description="Why it was interrupted, and how to continue.")

    @classmethod
    def of(cls, jobs: Jobs, run: Run) -> RunOut:
        """Describe a run."""
        status, reason = jobs.status(run)
        return cls(run_id=run.run_id, status=status, reason=reason)


def find_run(jobs: ProjectJobs, run_id: RunId) -> Run:
    """Find a run by its id. Raises a `Refusal` if there is none."""
    try:
        return jobs.store.run(run_id)
    except GenlabError as error:
        raise Refusal(404, f"there is no run {run_id}") from error


ExistingRun = Annotated[Run, Depends(find_run)]


@router.get("/tools", summary="List the image tools")
def list_tools(jobs: ProjectJobs) -> list[ToolOut]:
    return [ToolOut.of(tool) for tool in jobs.tools().values()]


@router.post("/run", status_code=202, summary="Start a run")
def start(jobs: ProjectJobs, run: RunIn) -> RunOut:
    cases = {case.case_id: case for case in jobs.cases()}
    tools = jobs.tools()
    for names, existing, kind in (
        (run.case_ids, cases, "case"),
        (run.tool_ids, tools, "tool"),
        (run.options, run.tool_ids, "tool of this run"),
    ):
        for name in names:
            if name not in existing:
                raise Refusal(404, f"there is no {kind} {name}")
    chosen, _ = split_by_consent([cases[name] for name in dict.fromkeys(run.case_ids)])
    if not chosen:
        raise Refusal(409, "none of these cases has consent")
    try:
        chosen_tools = [tools[name] for name in dict.fromkeys(run.tool_ids)]
        contenders = make_contenders(chosen_tools, run.options)
    except GenlabError as error:
        raise Refusal(422, str(error)) from error
    try:
        run_id = jobs.start(chosen, contenders, run.repeats, run.max_cost)
    except TooManyRunsError as error:
        raise Refusal(429, str(error)) from error
    except GenlabError as error:
        raise Refusal(422, str(error)) from error
    return RunOut(run_id=run_id, status="running")


@router.post("/run/{run_id}/cancel", summary="Cancel a run")
def cancel(jobs: ProjectJobs, run: ExistingRun) -> RunOut:
    if not jobs.cancel(run.run_id):
        raise Refusal(409, f"run {run.run_id} is not running on this server")
    return RunOut.of(jobs, run)


@router.post("/run/{run_id}/resume", status_code=202, summary="Continue a run")
def resume(jobs: ProjectJobs, run: ExistingRun) -> RunOut:
    if jobs.status(run)[0] == "running":
        raise Refusal(409, f"run {run.run_id} is running")
    try:
        jobs.resume(run.run_id, again=True)
    except TooManyRunsError as error:
        raise Refusal(429, str(error)) from error
    return RunOut.of(jobs, run)


@router.get("/runs", summary="List all runs, the newest first")
def list_runs(jobs: ProjectJobs) -> list[RunOut]:
    return [RunOut.of(jobs, run) for run in jobs.store.runs()]


@router.get("/run/{run_id}", summary="Show the state of a run: its WebSocket's first event")
async def state(jobs: ProjectJobs, run: ExistingRun) -> Event:
    async with jobs.watch(run.run_id) as log:
        return log.state()


@router.websocket("/run/{run_id}")
async def follow(socket: WebSocket, jobs: ProjectJobs, run: ExistingRun) -> None:
    """Send the state of a run, then its events; a client that reconnects gets the state again."""
    await _send_until_left(socket, _events(jobs, run))


@router.websocket("/run/{run_id}/cells")
async def follow_cells(socket: WebSocket, jobs: ProjectJobs, run: ExistingRun) -> None:
    """Send the same events as HTML for the page: the cells of changed items, and the progress."""
    await _send_until_left(socket, _cells(jobs, run))


async def _events(jobs: Jobs, run: Run) -> AsyncGenerator[Event, None]:
    async with jobs.watch(run.run_id) as log:
        async for event in log.follow():
            yield event


async def _cells(jobs: Jobs, run: Run) -> AsyncGenerator[dict[str, Any], None]:
    labels = {name: contender.label for name, contender in run.contenders.items()}
    async with jobs.watch(run.run_id) as log:
        async for event in log.follow():
            updates = event.get("items", [event] if event["type"] == "update" else [])
            items = [log.item(update["run_item_id"]) for update in updates]
            yield {
                "cells": {
                    item.item_id: figures.item_figure(item, labels[item.contender])
                    for item in items
                },
                "progress": figures.progress(log.counts),
                "end": log.end is not None,
            }


async def _send_until_left(
    socket: WebSocket, messages: AsyncGenerator[dict[str, Any], None]
) -> None:
    """Send messages as JSON until they end or the client leaves."""

    async def send() -> None:
        async with aclosing(messages):
            async for message in messages:
                await socket.send_json(message)
        await socket.close()

    await socket.accept()
    tasks = [asyncio.create_task(work) for work in (send(), _wait_until_left(socket))]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    with suppress(WebSocketDisconnect, RuntimeError):  # the client has left
        for task in ended:
            task.result()


async def _wait_until_left(socket: WebSocket) -> None:
    """Return when the client or the server closes the socket; ignore the client's messages."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass


@router.get(
    "/report/{run_id}",
    summary="Download a run's report: one HTML file",
    response_class=HTMLResponse,
)
def report(jobs: ProjectJobs, run: ExistingRun) -> HTMLResponse:
    with rendering:
        text = render_report(jobs.store, run.run_id)
    name = f'attachment; filename="report_{run.run_id}.html"'
    return HTMLResponse(text, headers={"Content-Disposition": name})


@router.get(
    "/pictures/{sha256}",
    summary="Show an image of a run by its content; the address does not name the tool",
    response_class=Response,
    responses=IMAGES,
)
def show_picture(
    request: Request,
    jobs: ProjectJobs,
    sha256: Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")],
    width: Width = "640",
) -> Response:
    path = find_content(jobs.store, sha256)
    if path is None:
        raise Refusal(404, "no image of a run has this content")
    try:
        return serve_image(request, path, width, immutable=True)
    except GenlabError as error:  # it names the file, and so the tool
        raise Refusal(409, "the image is damaged; resume its run to have it made again") from error
