"""Images over HTTP: those of runs and cases, whole or small; nothing else of the disk."""

from __future__ import annotations

import io
import re
from functools import lru_cache
from pathlib import Path

from PIL import Image
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from genlab.benchmark.cases.photographs import read_photograph
from genlab.core.errors import GenlabError
from genlab.web.api.problems import Refusal, problem

WIDTHS = (160, 320, 640, 1280)
QUALITY = 82
KEPT = 512  # small pictures in memory: some 40 kB each

_RUN = re.compile(r"\d{4}-\d{2}-\d{2}(-\d{1,6})?")
_FOLDER = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_IMAGE = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}(\.\d{1,3})?\.png")
_TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"}


def find_run_image(folder: Path, run_id: str, tool: str, name: str) -> Path:
    """The file `<run>/<tool>/<case>.png` of the runs' folder. Raises a `Refusal` for any other."""
    valid = _RUN.fullmatch(run_id) and _FOLDER.fullmatch(tool) and _IMAGE.fullmatch(name)
    path = folder / run_id / tool / name
    # A link could lead out of the folder, or to something that is no image of a run.
    if not valid or not path.is_file() or path.resolve() != folder.resolve() / run_id / tool / name:
        raise Refusal(404, "there is no such image of a run")
    return path


def serve_image(
    path: Path, width: int | None, asked: Headers, *, lasting: bool = False
) -> Response:
    """The response with an image file, at most `width` pixels wide where that is given.

    asked: the request's headers, for caching. lasting: whether the address names the content.
    """
    if width is not None and width not in WIDTHS:
        raise Refusal(422, f"width must be one of {', '.join(map(str, WIDTHS))}, got {width}")
    found = path.stat()
    tag = f'"{found.st_mtime_ns:x}-{found.st_size:x}-{width or 0}"'
    keep = "max-age=31536000, immutable" if lasting else "no-cache"
    headers = {"Cache-Control": f"private, {keep}", "ETag": tag}
    if asked.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    if width is None:
        return FileResponse(path, headers=headers, media_type=_TYPES[path.suffix.lower()])
    try:
        data = small(path, width, found.st_mtime_ns, found.st_size)
    except GenlabError as error:
        raise Refusal(404, f"the image cannot be read: {error}") from error
    return Response(data, headers=headers, media_type="image/jpeg")


@lru_cache(maxsize=KEPT)
def small(path: Path, width: int, modified: int, size: int) -> bytes:
    """An image file as JPEG, at most `width` pixels wide, without metadata such as the tool's name.

    modified, size: distinguish versions of the file in the cache.
    """
    image = read_photograph(path)
    image.thumbnail((width, image.height), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.info = {}
    image.save(buffer, "JPEG", quality=QUALITY)  # WebP takes ten times as long to encode
    return buffer.getvalue()


def make_image_routes(folder: Path) -> Starlette:
    """The routes under `/runs`: `<run>/<tool>/<case>.png`, with `?width=` small."""

    async def show(request: Request) -> Response:
        asked = request.query_params.get("width")
        if asked is not None and not re.fullmatch(r"\d{1,5}", asked):
            raise Refusal(422, f"width must be one of {', '.join(map(str, WIDTHS))}")
        path = find_run_image(folder, **request.path_params)
        width = None if asked is None else int(asked)
        return await run_in_threadpool(serve_image, path, width, request.headers)

    async def refused(_: Request, error: Exception) -> Response:
        if isinstance(error, Refusal):
            return problem(error.status, error.detail)
        if isinstance(error, HTTPException):
            return problem(error.status_code, "there is no such image of a run", error.headers)
        raise error

    return Starlette(
        routes=[Route("/{run_id}/{tool}/{name}", show, methods=["GET"])],
        exception_handlers={Refusal: refused, HTTPException: refused},
    )
