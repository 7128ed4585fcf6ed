"""Serve images of runs and cases over HTTP, at full size or scaled, and no other files."""

import io
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from fastapi import FastAPI, Request
from PIL import Image
from starlette.responses import FileResponse, Response

from genlab.benchmark.cases.photographs import read_photograph
from genlab.benchmark.service.pictures import find_image
from genlab.web.problems import HANDLERS, Refusal

Width = Literal["160", "320", "640", "1280"]  # pixels, as a query spells them

_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
_FILE = {"schema": {"type": "string", "format": "binary"}}
IMAGES: dict[int | str, dict[str, Any]] = {
    200: {"content": dict.fromkeys(sorted(_TYPES.values()), _FILE)}
}
"""For FastAPI's `responses=`."""


def case_image_url(case_id: str, name: str, width: Width | None = None) -> str:
    """Return the address of a case's template, or of an avatar."""
    return f"/api/test-cases/{case_id}/{name}" + (f"?width={width}" if width else "")


def serve_image(
    request: Request, path: Path, width: Width | None, *, immutable: bool = False
) -> Response:
    """Make the response with an image file, scaled to at most `width` pixels unless None.

    immutable: whether the address names the content, so that browsers need not ask again.
    """
    status = path.stat()
    tag = f'"{status.st_mtime_ns:x}-{status.st_size:x}-{width}"'
    lifetime = "max-age=31536000, immutable" if immutable else "no-cache"
    headers = {"Cache-Control": f"private, {lifetime}", "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    if width is None:
        return FileResponse(path, headers=headers, media_type=_media_type(path))
    return Response(_scale(path, int(width), tag), headers=headers, media_type="image/jpeg")


def _media_type(path: Path) -> str:
    try:
        with Image.open(path, formats=[*_TYPES]) as image:  # the suffix may be wrong
            return _TYPES[str(image.format)]
    except (OSError, Image.DecompressionBombError) as error:
        raise Refusal(409, f"{path.name} is damaged or is no JPEG, PNG or WebP image") from error


@lru_cache(maxsize=512)  # some 40 kB each
def _scale(path: Path, width: int, tag: str) -> bytes:
    """Encode an image file as JPEG, at most `width` pixels wide and without metadata.

    The metadata name the tool, which blind raters must not see. tag: identifies the version of the
    file in the cache.
    """
    image = read_photograph(path)
    image.thumbnail((width, image.height), Image.Resampling.LANCZOS)
    image.info = {}
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=82)  # WebP takes ten times as long to encode
    return buffer.getvalue()


def make_image_app(folder: Path) -> FastAPI:
    """Make the application of `/runs`: `<run>/<tool>/<case>.png`, scaled with `?width=`."""
    app = FastAPI(openapi_url=None, exception_handlers=HANDLERS)

    @app.get("/{image:path}")
    def show(request: Request, image: str, width: Width | None = None) -> Response:
        path = find_image(folder, image)
        if path is None:
            raise Refusal(404, "there is no such image of a run")
        return serve_image(request, path, width)

    return app
