"""The API beside the pages, under `/api`: cases, tools, runs, ratings, reports.

Every fault is a problem (RFC 9457), and every answer a route can give stands in its OpenAPI
document. Who may ask at all is decided before (`genlab.web.guards`).
"""

from __future__ import annotations

import threading
from typing import Annotated, Any, Literal

from fastapi import APIRouter, FastAPI, Path, Query, Request, WebSocket, WebSocketDisconnect
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, Response

from genlab import __version__
from genlab.benchmark.cases import CASE_FILE, Case
from genlab.benchmark.plugins import checked_options
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Item, Run
from genlab.core.errors import GenlabError
from genlab.web.answers import (
    MAX_ITEMS,
    Begun,
    Cancelled,
    CaseId,
    CaseOut,
    Rated,
    RateIn,
    RunId,
    RunIn,
    RunLine,
    RunOut,
    ToolOut,
)
from genlab.web.live import Live
from genlab.web.pictures import picture, run_picture
from genlab.web.problems import Refusal, answers, problem, tell_problems

MAX_FOLLOWERS = 1000  # WebSockets at a time
ALWAYS = (400, 401, 403, 408, 409, 413)  # what the guards, or files in disorder, may answer

Width = Literal["160", "320", "640", "1280"]  # pictures.WIDTHS, as a query spells them

_FILE = {"schema": {"type": "string", "format": "binary"}}
_PICTURES: dict[int | str, dict[str, Any]] = {
    200: {"content": {f"image/{kind}": _FILE for kind in ("jpeg", "png", "webp")}}
}


def make_api(live: Live) -> FastAPI:
    """The API over `live`."""
    api = FastAPI(
        title="genlab",
        version=__version__,
        summary="The person-swap benchmark: cases through image tools, scored and rated.",
        docs_url=None,  # FastAPI's own pages fetch their scripts from the internet
        redoc_url=None,
        openapi_url="/openapi.json",
        responses=answers(*ALWAYS),
    )
    api.include_router(_reading(live))
    api.include_router(_running(live))
    api.include_router(_following(live))
    tell_problems(api)

    return api


def _reading(live: Live) -> APIRouter:
    routes = APIRouter()

    @routes.get("/test-cases", summary="The cases")
    def cases() -> list[CaseOut]:
        return [CaseOut.of(case) for case in live.cases()]

    @routes.get(
        "/test-cases/{case_id}/{name}",
        summary="A case's template, or an avatar by its name",
        response_class=Response,
        responses=_PICTURES | answers(404, 422),
    )
    def case_picture(
        request: Request,
        case_id: CaseId,
        name: Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")],
        width: Annotated[Width | None, Query()] = None,
    ) -> Response:
        case = _find(live, case_id)
        path = case.template if name == "template" else case.avatars.get(name)
        if path is None:
            raise Refusal(404, f"case {case_id} has no avatar {name!r}")
        return picture(path, int(width) if width else None, request.headers)

    @routes.get(
        "/pictures/{sha256}",
        summary="A picture of a run by its content: its address tells nothing of the tool",
        response_class=Response,
        responses=_PICTURES | answers(404, 422),
    )
    def run_picture_by_content(
        request: Request,
        sha256: Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")],
        width: Annotated[Width, Query()] = "640",
    ) -> Response:
        query = "SELECT image FROM run_items WHERE image_sha256 = :sha AND image <> ''"
        for (image,) in live.store.rows(query, sha=sha256):
            path = run_picture(live.runs_folder, *image.split("/"))
            return picture(path, int(width), request.headers, lasting=True)
        raise Refusal(404, "no picture of a run has this content")

    @routes.get("/tools", summary="The image tools, and why not where one is not available")
    def tools() -> list[ToolOut]:
        return [ToolOut.of(tool) for tool in live.tools().values()]

    @routes.get("/runs", summary="All runs, the newest first")
    def runs() -> list[RunLine]:
        return [RunLine.of(run, live.status(run)[0]) for run in live.store.runs()]

    @routes.get("/run/{run_id}", summary="A run and its items", responses=answers(404, 422))
    def run(run_id: RunId) -> RunOut:
        return _run_out(live, _found(live.store, run_id))

    one_at_a_time = threading.Lock()  # it decodes every picture of the run

    @routes.get(
        "/report/{run_id}",
        summary="The report of a run, one HTML file",
        response_class=HTMLResponse,
        responses=answers(404, 422),
    )
    def report(run_id: RunId) -> HTMLResponse:
        from genlab.benchmark.report import page

        _found(live.store, run_id)
        with one_at_a_time:
            text = page(live.store, run_id)
        name = f'attachment; filename="report_{run_id}.html"'
        return HTMLResponse(text, headers={"Content-Disposition": name})

    return routes


def _running(live: Live) -> APIRouter:
    routes = APIRouter()

    @routes.post(
        "/run",
        status_code=202,
        summary="Run cases through tools",
        responses=answers(404, 422, 429),
    )
    def start(asked: RunIn) -> Begun:
        cases, tools = {case.case_id: case for case in live.cases()}, live.tools()
        for kind, known, names in (
            ("case", cases, asked.case_ids),
            ("tool", tools, asked.tool_ids),
        ):
            missing = [name for name in names if name not in known]
            if missing:
                raise Refusal(404, f"there is no {kind} {missing[0]}")
        for name in asked.options:
            if name not in asked.tool_ids:
                raise Refusal(404, f"options are for tool {name}, which is not to be run")
        chosen = [cases[name] for name in dict.fromkeys(asked.case_ids)]
        with_tools = [tools[name] for name in dict.fromkeys(asked.tool_ids)]
        if len(chosen) * len(with_tools) > MAX_ITEMS:
            raise Refusal(422, f"a run may have {MAX_ITEMS} pictures; choose fewer")
        for tool in with_tools:
            try:
                checked_options(tool, asked.options.get(tool.tool_id, {}))
            except GenlabError as error:
                raise Refusal(422, str(error)) from error
        run_id = live.start(chosen, with_tools, max_cost=asked.max_cost, options=asked.options)
        return Begun(run_id=run_id)

    @routes.post("/run/{run_id}/cancel", summary="End a run", responses=answers(404, 422))
    def cancel(run_id: RunId) -> Cancelled:
        _found(live.store, run_id)
        return Cancelled(run_id=run_id, cancelled=live.cancel(run_id))

    @routes.post("/rate", summary="Give stars to a picture", responses=answers(404, 422))
    def rate(asked: RateIn) -> Rated:
        from genlab.benchmark.tallies import SUBJECT, ratings_of

        item = _item(live.store, asked.run_item_id)
        if not item.image_sha256:
            raise Refusal(409, f"item {item.item_id} has no picture to rate")
        try:
            changed = live.store.rate(
                SUBJECT,
                item.image_sha256,
                asked.rater,
                asked.stars,
                run_item_id=item.item_id,
                blind=asked.blind,
            )
        except GenlabError as error:
            raise Refusal(422, str(error)) from error
        by_image, _ = ratings_of(live.store, item.run_id)
        stars = list(by_image.get(item.image_sha256, {}).values())
        return Rated(
            run_item_id=item.item_id,
            changed=changed,
            mean_stars=sum(stars) / len(stars) if stars else None,
            raters=len(stars),
        )

    return routes


def _following(live: Live) -> APIRouter:
    routes = APIRouter()
    followers: set[WebSocket] = set()

    @routes.websocket("/run/{run_id}")
    async def follow(socket: WebSocket, run_id: RunId, after: int | None = None) -> None:
        """Events of a run: the state first, or with `?after=` what came after that sequence."""
        if len(followers) >= MAX_FOLLOWERS:
            return await socket.send_denial_response(problem(429, "too many follow runs already"))
        try:
            feed = await run_in_threadpool(live.feed, run_id)
        except GenlabError as error:
            return await socket.send_denial_response(problem(404, str(error)))
        await socket.accept()
        followers.add(socket)
        try:
            async for text in feed.follow(after):
                await socket.send_text(text)
            await socket.close()
        except (WebSocketDisconnect, RuntimeError):
            pass  # it has gone
        finally:
            followers.discard(socket)

    return routes


def _find(live: Live, case_id: str) -> Case:
    folder = live.root / live.params.cases / case_id  # a CaseId: it can't lead out of there
    if not (folder / CASE_FILE).is_file():
        raise Refusal(404, f"there is no case {case_id}")
    case = live.case(folder)
    if case is None:
        raise Refusal(409, f"case {case_id} can't be read; list the cases to see why")
    return case


def _found(store: Store, run_id: str) -> Run:
    if not store.rows("SELECT 1 FROM runs WHERE run_id = :run", run=run_id):
        raise Refusal(404, f"there is no run {run_id}")
    return store.run(run_id)


def _item(store: Store, item_id: int) -> Item:
    if not store.rows("SELECT 1 FROM run_items WHERE item_id = :item", item=item_id):
        raise Refusal(404, f"there is no item {item_id}")
    return store.item(item_id)


def _run_out(live: Live, run: Run) -> RunOut:
    store = live.store
    return RunOut.of(run, store.items(run.run_id), *live.status(run))
