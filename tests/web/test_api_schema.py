"""The API answers as its own OpenAPI document says, to what schemathesis makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

import app_room
from app_schema import RUN, judged
from genlab.web.api import make_api
from genlab.web.live import Live

REQUESTS = 100


def test_every_answer_is_in_the_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    folder = app_room.make_project(tmp_path, cases=3)
    monkeypatch.syspath_prepend(str(folder / "package"))
    live = Live(folder)
    app_room.make_run(live.store, folder, run_id=RUN)
    app = Starlette(routes=[Mount("/api", app=make_api(live))])
    try:
        faults, made = judged(schemathesis.openapi.from_asgi("/api/openapi.json", app), REQUESTS)
    finally:
        live.close()
    assert faults == 0, capsys.readouterr().out
    assert made >= REQUESTS
