"""`genlab doctor --endpoints`: what each kind of endpoint has, and what is done without."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import replies
from loopback import Reply, Request, Server, html, status
from replies import KEY
from ruamel.yaml import YAML
from typer.testing import CliRunner

from genlab.cli import app
from genlab.core.params import load_params
from genlab.doctor import Check, check_endpoints, format_table

ROOT = Path(__file__).parents[2]
Script = Callable[[Request], Reply]
SERVE = "transformers serve"


def answer(request: Request) -> Reply:
    if "tools" in request.body:
        return replies.called("add", {"a": 17, "b": 25})
    return replies.good({"total": 42}, usage=(20, 5000))


def examine(script: Script | list[Reply], **planning: Any) -> dict[str, Check]:
    params = load_params(ROOT / "params.yaml").agent
    with Server(script) as server:
        role = params.planning.model_copy(update={**planning, "base_url": server.url})
        checks = check_endpoints(params.model_copy(update={"planning": role}))
        return {check.name.removeprefix("both roles: "): check for check in checks}


def page_settings(section: str) -> dict[str, Any]:
    """The settings of agent.planning in a section of the how-to page."""
    page = (ROOT / "docs" / "how-to" / "language-models.md").read_text(encoding="utf-8")
    block = re.search(rf"## {section}\n.*?```yaml\n(.*?)```", page, re.DOTALL)
    assert block is not None
    planning = {"model": "", **YAML(typ="safe").load(block[1])["planning"]}
    assert planning.pop("base_url", "http://x/v1").endswith("/v1")
    return planning


@pytest.mark.parametrize(
    ("script", "planning", "lacking"),
    [
        (replies.openai(answer), page_settings("OpenAI"), []),
        (replies.ollama(answer), page_settings("Ollama"), []),
        (replies.ollama(answer, tools=False), {"model": "gpt-oss:20b"}, ["functions"]),
        (replies.vllm(answer), page_settings("vLLM"), ["functions"]),
        (replies.transformers_serve(answer), page_settings(SERVE), ["JSON schema"]),
        (replies.llama_cpp(answer), page_settings("llama.cpp server"), ["functions"]),
        (
            [replies.good("no"), replies.without_schema(replies.good("no"))],
            {},
            ["JSON schema", "functions"],
        ),
    ],
)
def test_each_endpoint_is_described(
    script: Script, planning: dict[str, Any], lacking: list[str]
) -> None:
    checks = examine(script, **planning)
    assert [
        name for name, check in checks.items() if not check.passed and name != "speed"
    ] == lacking
    assert checks["model"].detail == replies.MODEL
    assert "tokens per second" in checks["speed"].detail
    assert all("without" in checks[name].job for name in lacking)


@pytest.mark.parametrize(
    ("reply", "failed", "before"),
    [
        (status(401, message=f"wrong {KEY}"), "key", ["reachable"]),
        (status(404, message="no model m"), "model", ["reachable", "key"]),
        (status(503, replies.AT_ONCE), "answer", []),
        (html(), "answer", []),
    ],
)
def test_what_is_missing_is_named(reply: Reply, failed: str, before: list[str]) -> None:
    checks = examine([reply], model="m")
    assert list(checks) == [*before, failed]
    assert not checks[failed].passed
    assert KEY not in format_table(list(checks.values()))


def test_the_command_fails_where_no_model_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    result = CliRunner().invoke(app, ["doctor", "--endpoints"])
    assert result.exit_code == 1
    assert "http://127.0.0.1:9/v1: nothing answers" in result.stdout
    assert "missing: both roles: reachable" in result.stdout
