"""Requests from the API's own OpenAPI document, and whether the answers are as it says.

`benchmarks/app.py` sends them to a server, the tests to the same API within their process.
"""

from __future__ import annotations

from typing import Any

SEED = 0
RUN = "2026-01-01"


def judged(schema: Any, requests: int) -> tuple[int, int]:
    """(answers that are a 5xx or outside the document, requests made) of a loaded document."""
    from schemathesis import checks as known
    from schemathesis.core.failures import Failure as CheckFailed
    from schemathesis.core.failures import FailureGroup
    from schemathesis.specs.openapi import checks as documented

    checks = [
        known.not_a_server_error,
        documented.status_code_conformance,
        documented.content_type_conformance,
        documented.response_headers_conformance,
        documented.response_schema_conformance,
    ]
    made, faults = 0, 0
    operations = [found.ok() for found in schema.get_all_operations()]
    kinds = [(one, fitting) for one in operations for fitting in (True, False)]
    kinds = [kind for kind in kinds if drawn(*kind, 1)]
    share = -(-requests // len(kinds))
    for operation, fitting in kinds:
        for case in drawn(operation, fitting, share):
            made += 1
            if made % 2:
                meet_what_is_there(case, made)
            try:
                case.validate_response(case.call(timeout=60), checks=checks)
            except (FailureGroup, CheckFailed) as error:
                faults += 1
                print(f"  {operation.label}: {str(error)[:600]}")
    return faults, made


def drawn(operation: Any, fitting: bool, count: int) -> list[Any]:
    """Requests of an operation, fitting its schema or not; none where it can't be unfitting."""
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis.errors import Unsatisfiable
    from schemathesis import GenerationMode
    from schemathesis.errors import SchemathesisError

    found: list[Any] = []

    @seed(SEED)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=operation.as_strategy(
            generation_mode=GenerationMode.POSITIVE if fitting else GenerationMode.NEGATIVE
        )
    )
    def draw(case: Any) -> None:
        found.append(case)

    try:
        draw()
    except (SchemathesisError, Unsatisfiable):
        return found[:count]
    # An operation without parameters has one request: it is asked as often as the others.
    return [found[n % len(found)] for n in range(count)]


def meet_what_is_there(case: Any, number: int) -> None:
    """Let a request name a run, a case and items that exist, so that it gets beyond a 404."""
    there = {"run_id": RUN, "case_id": "case-001", "name": "template"}
    case.path_parameters = {
        key: there.get(key, value) for key, value in (case.path_parameters or {}).items()
    }
    if isinstance(case.body, dict) and "case_ids" in case.body:
        case.body |= {"case_ids": ["case-001"], "tool_ids": ["sim_fail"]}
    if isinstance(case.body, dict) and "run_item_id" in case.body:
        case.body |= {"run_item_id": number % 8}
