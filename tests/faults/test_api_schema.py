"""The API answers as its own OpenAPI document says, to requests that schemathesis generates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import app_room
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from genlab.web.api import make_api
from genlab.web.live import Live

SEED = 0
RUN = "2026-01-01"


def test_every_answer_is_in_the_document(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    full_size: bool,
    record: Callable[..., None],
) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    folder = app_room.make_project(tmp_path, cases=3)
    monkeypatch.syspath_prepend(str(folder / "package"))
    live = Live(folder)
    app_room.make_run(live.store, folder, run_id=RUN)
    app = Starlette(routes=[Mount("/api", app=make_api(live))])
    wanted = 5000 if full_size else 100
    try:
        faults, tried = check(schemathesis.openapi.from_asgi("/api/openapi.json", app), wanted)
    finally:
        live.close()
    record("app.schemathesis", len(faults), n=tried)
    assert faults == []
    assert tried >= wanted


def check(schema: Any, requests: int) -> tuple[list[str], int]:
    """Answers that are a 5xx or outside the document, and the number of requests made.

    Half of the requests fit the document, half do not, and half name things that exist.
    """
    from schemathesis import checks as known
    from schemathesis.core.failures import Failure, FailureGroup
    from schemathesis.specs.openapi import checks as documented

    checks = [
        known.not_a_server_error,
        documented.status_code_conformance,
        documented.content_type_conformance,
        documented.response_headers_conformance,
        documented.response_schema_conformance,
    ]
    tried, faults = 0, []
    operations = [found.ok() for found in schema.get_all_operations()]
    kinds = [(one, fitting) for one in operations for fitting in (True, False)]
    kinds = [kind for kind in kinds if draw_requests(*kind, 1)]
    for operation, fitting in kinds:
        for case in draw_requests(operation, fitting, -(-requests // len(kinds))):
            tried += 1
            if tried % 2:
                name_what_exists(case, tried)
            try:
                case.validate_response(case.call(timeout=60), checks=checks)
            except (FailureGroup, Failure) as error:
                faults.append(f"{operation.label}: {str(error)[:600]}")
    return faults, tried


def draw_requests(operation: Any, fitting: bool, count: int) -> list[Any]:
    """Requests of an operation that fit its schema or not; none where all requests fit."""
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis.errors import Unsatisfiable
    from schemathesis import GenerationMode
    from schemathesis.errors import SchemathesisError

    found: list[Any] = []
    mode = GenerationMode.POSITIVE if fitting else GenerationMode.NEGATIVE

    @seed(SEED)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def draw(case: Any) -> None:
        found.append(case)

    try:
        draw()
    except (SchemathesisError, Unsatisfiable):
        return found[:count]
    # An operation without parameters has one request: it is sent as often as the others.
    return [found[n % len(found)] for n in range(count)]


def name_what_exists(case: Any, number: int) -> None:
    """Let a request name a run, a case and items that exist, so that it gets beyond a 404."""
    exists = {"run_id": RUN, "case_id": "case-001", "name": "template"}
    case.path_parameters = {
        key: exists.get(key, value) for key, value in (case.path_parameters or {}).items()
    }
    if isinstance(case.body, dict) and "case_ids" in case.body:
        case.body |= {"case_ids": ["case-001"], "tool_ids": ["sim_fail"]}
    if isinstance(case.body, dict) and "run_item_id" in case.body:
        case.body |= {"run_item_id": number % 8}
