"""The API answers as its own OpenAPI document says, to requests that schemathesis generates."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import app_room
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from genlab.benchmark.service.jobs import Jobs
from genlab.web.api.app import make_api

RUN = "2026-01-01"
PROMISED = ("not_a_server_error", "status_code_conformance", "content_type_conformance",
            "response_headers_conformance", "response_schema_conformance")  # fmt: skip
WITH_PARAMETERS = 7  # operations that take any: the others have one request each


@pytest.fixture
def schemathesis() -> Iterator[Any]:
    """schemathesis, whose every second request names a run, a case and items that exist."""
    module = pytest.importorskip("schemathesis")
    numbers = itertools.count()

    @module.hook
    def before_call(context: Any, case: Any, kwargs: Any) -> None:
        # Starlette's Mount answers a path with a line feed itself, in plain text: 404.
        # Parameters are percent-encoded by now.
        parameters = case.path_parameters or {}
        case.path_parameters = {k: str(v).replace("%0A", "") for k, v in parameters.items()}
        number = next(numbers)
        if number % 2:
            name_what_exists(case, number)

    yield module
    module.hooks.unregister_all()


def name_what_exists(case: Any, number: int) -> None:
    """Let a request name what exists, so that it gets beyond a 404."""
    exists = {"run_id": RUN, "case_id": "case-001", "name": "template"}
    case.path_parameters = {
        key: exists.get(key, value) for key, value in (case.path_parameters or {}).items()
    }
    if isinstance(case.body, dict) and "case_ids" in case.body:
        case.body |= {"case_ids": ["case-001"], "tool_ids": ["sim_fail"]}
    if isinstance(case.body, dict) and "run_item_id" in case.body:
        case.body |= {"run_item_id": number % 8}


def test_every_answer_is_in_the_document(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    schemathesis: Any,
    full_size: bool,
    record: Callable[..., None],
) -> None:
    folder = app_room.make_project(tmp_path, cases=3)
    monkeypatch.syspath_prepend(str(folder / "package"))
    jobs = Jobs(folder)
    app_room.make_run(jobs.store, folder, run_id=RUN)
    app = Starlette(routes=[Mount("/api", app=make_api(jobs))])
    wanted = 5000 if full_size else 100
    try:
        faults, tried = check(schemathesis.openapi.from_asgi("/api/openapi.json", app), wanted)
    finally:
        jobs.store.close()
    record("app.schemathesis", len(faults), n=tried)
    assert faults == []
    assert tried >= wanted


def check(schema: Any, requests: int) -> tuple[list[str], int]:
    """Answers that are a 5xx or outside the document, and the number of requests made."""
    from schemathesis.config import ChecksConfig
    from schemathesis.engine import events, from_schema

    config = schema.config
    config.generation.max_examples = requests // WITH_PARAMETERS + 1
    config.generation.deterministic = config.continue_on_failure = True
    for phase in ("examples", "coverage", "stateful"):
        getattr(config.phases, phase).enabled = False
    promised = {name: {"enabled": True} for name in PROMISED}
    config.checks = ChecksConfig.from_dict({"enabled": False, **promised})
    tried = 0
    faults: list[str] = []
    for event in from_schema(schema).execute():
        assert not isinstance(event, events.NonFatalError | events.FatalError), event
        if isinstance(event, events.ScenarioFinished):
            tried += len(event.recorder.interactions)
            for check in itertools.chain(*event.recorder.checks.values()):
                if check.failure_info:
                    fault = str(check.failure_info.failure)[:600]
                    faults.append(f"{event.recorder.label}: {fault}")
    return faults, tried
