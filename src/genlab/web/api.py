"""The API beside the pages, under `/api`: cases, tools, runs, ratings, reports.

Every fault is a problem (RFC 9457), and every answer a route can give stands in its OpenAPI
document. Who may ask at all is decided before (`genlab.web.guards`).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, FastAPI, Path, Query, Request, WebSocket, WebSocketDisconnect
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from genlab import __version__
from genlab.benchmark.cases import Case
from genlab.core.console import GenlabError
from genlab.core.records import Item, Run
from genlab.core.store import Store
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
from genlab.web.handbook import handbook
from genlab.web.live import Live, TooManyRuns
from genlab.web.pictures import picture, run_picture
from genlab.web.problems import Problem, Refusal, answers, problem

MAX_FOLLOWERS = 1000  # WebSockets at a time
ALWAYS = (400, 401, 403, 408, 409, 413)  # what the guards, or files in disorder, may answer

Named = TypeVar("Named")
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
    api.add_exception_handler(Refusal, _refused)
    api.add_exception_handler(GenlabError, _refused)
    api.add_exception_handler(HTTPException, _refused)
    api.add_exception_handler(RequestValidationError, _refused)
    api.add_exception_handler(Exception, _broken)
    _describe(api)

    @api.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(handbook(api.openapi(), "/api"))

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
        from genlab.benchmark.report import page  # SciPy comes along: seconds of a server's start

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
        run_id = live.start(chosen, with_tools, max_cost=asked.max_cost, options=asked.options)
        return Begun(run_id=run_id)

    @routes.post("/run/{run_id}/cancel", summary="End a run", responses=answers(404, 422))
    def cancel(run_id: RunId) -> Cancelled:
        _found(live.store, run_id)
        return Cancelled(run_id=run_id, cancelled=live.cancel(run_id))

    @routes.post("/rate", summary="Give stars to a picture", responses=answers(404, 422))
    def rate(asked: RateIn) -> Rated:
        from genlab.benchmark.tallies import SUBJECT, ratings_of  # SciPy, as above

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


async def _refused(_: Request, error: Exception) -> Response:
    if isinstance(error, Refusal):
        return problem(error.status, error.detail)
    if isinstance(error, TooManyRuns):
        return problem(429, str(error))
    if isinstance(error, GenlabError):  # files in disorder: the line says which and the cure
        return problem(409, str(error))
    if isinstance(error, RequestValidationError):
        return problem(422, _first(error))
    assert isinstance(error, HTTPException)
    return problem(error.status_code, str(error.detail), error.headers)


async def _broken(_: Request, error: Exception) -> Response:
    """A bug: its traceback is for the server's log, not for the client."""
    return problem(500, f"{type(error).__name__} in the server; its log says more")


def _first(error: RequestValidationError) -> str:
    faults = error.errors()
    where = ".".join(str(part) for part in faults[0]["loc"])
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{where}: {faults[0]['msg']}{more}"


def _named(kind: str, known: Mapping[str, Named], names: Sequence[str]) -> list[Named]:
    """The entries of these names, each once."""
    for name in names:
        if name not in known:
            raise Refusal(404, f"there is no {kind} {name}")
    return [known[name] for name in dict.fromkeys(names)]


def _find(live: Live, case_id: str) -> Case:
    for case in live.cases():
        if case.case_id == case_id:
            return case
    raise Refusal(404, f"there is no case {case_id}")


def _found(store: Store, run_id: str) -> Run:
    for run in store.runs():
        if run.run_id == run_id:
            return run
    raise Refusal(404, f"there is no run {run_id}")


def _item(store: Store, item_id: int) -> Item:
    if not store.rows("SELECT 1 FROM run_items WHERE item_id = :item", item=item_id):
        raise Refusal(404, f"there is no item {item_id}")
    return store.item(item_id)


def _run_out(live: Live, run: Run) -> RunOut:
    store = live.store
    items, progress = store.items(run.run_id), store.progress(run.run_id)
    return RunOut.of(run, items, progress, store.spent(run.run_id), *live.status(run))


def _describe(api: FastAPI) -> None:
    """Let the OpenAPI document name problems, not FastAPI's own kind of fault."""
    made = api.openapi

    def document() -> dict[str, Any]:
        found = made()
        schemas = found["components"]["schemas"]
        schemas[Problem.__name__] = Problem.model_json_schema()
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        return found

    api.openapi = document  # type: ignore[method-assign]
