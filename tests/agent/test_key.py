"""The key of a run: what decides its attempts changes it, and nothing else does."""

import shutil
from pathlib import Path

import pytest
from agent_runs import ROOT

from genlab.core.code import digest_code

AGENT = "src/genlab/agent"
DECIDING = {
    "a prompt": (f"{AGENT}/planning/prompts.py", "You are a researcher", "You are a student"),
    "a prompt of mode tools": (
        f"{AGENT}/tool_loop.py",
        "You have tools that act",
        "You act",
    ),
    "a prompt for code": (
        f"{AGENT}/library/modules.py",
        "You write one Python file",
        "Write a file",
    ),
    "a schema's description": (f"{AGENT}/registry.py", "what the last attempt", "what it"),
    "a schema's docstring": (f"{AGENT}/tools/model.py", "Measure a model", "Describe it"),
    "a tool's docstring": (f"{AGENT}/tools/files.py", '    """Read a', '    """Show a'),
    "a recipe's description": (f"{AGENT}/architecture/training.py", "peak learning rate", "rate"),
    "the template": (f"{AGENT}/templates/model.py.j2", "super().__init__()", "super().__init__( )"),
    "the evaluator": (
        f"{AGENT}/evaluator/model_evaluator.py",
        "PROBE_ITEMS = 500",
        "PROBE_ITEMS = 400",
    ),
    "the guest": (f"{AGENT}/evaluator/guest/jobs.py", "CHUNK = 250", "CHUNK = 125"),
    "random search": (f"{AGENT}/planning/search.py", "DEBUG_SHARE = 0.5", "DEBUG_SHARE = 0.4"),
}
OTHER = {
    "the command line": f"{AGENT}/cli.py",
    "the report": f"{AGENT}/report.py",
    "the report's template": f"{AGENT}/templates/report.md.j2",
    "the record": f"{AGENT}/record.py",
    "the order of a run": f"{AGENT}/run.py",
    "the page": "src/genlab/web/pages/agent.py",
    "the stage": "stages/agent_iterate.py",
    "errors": "src/genlab/core/errors.py",
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources."""
    target = tmp_path_factory.mktemp("repository")
    for folder in ("src", "stages"):
        skip = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info")
        shutil.copytree(ROOT / folder, target / folder, ignore=skip)
    return target


@pytest.mark.parametrize("what", DECIDING)
def test_what_decides_the_attempts_changes_the_key(what: str, repository: Path) -> None:
    before = digest_code("agent_run", repository)
    name, old, new = DECIDING[what]
    path = repository / name
    source = path.read_text(encoding="utf-8")
    assert old in source
    path.write_text(source.replace(old, new, 1), encoding="utf-8")
    try:
        assert digest_code("agent_run", repository) != before
    finally:
        path.write_text(source, encoding="utf-8")


@pytest.mark.parametrize("what", OTHER)
def test_a_change_elsewhere_leaves_the_key(what: str, repository: Path) -> None:
    before = digest_code("agent_run", repository)
    with (repository / OTHER[what]).open("a", encoding="utf-8") as file:
        file.write("\nadded = 1\n")
    assert digest_code("agent_run", repository) == before


def test_the_key_of_search_does_not_hold_the_planners_prompts(repository: Path) -> None:
    before = digest_code("agent_search", repository)
    for name in ("prompts.py", "llm_planner.py", "tool_loop.py"):
        with (repository / AGENT / name).open("a", encoding="utf-8") as file:
            file.write("\nadded = 1\n")
    assert digest_code("agent_search", repository) == before


def test_a_reworded_docstring_of_the_judge_leaves_the_key(repository: Path) -> None:
    before = digest_code("agent_run", repository)
    path = repository / AGENT / "evaluator/model_evaluator.py"
    source = path.read_text(encoding="utf-8")
    changed = source.replace('"""Train a generated model', '"""Train and judge a model', 1)
    assert changed != source
    path.write_text(changed, encoding="utf-8")
    assert digest_code("agent_run", repository) == before
