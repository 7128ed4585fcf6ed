"""Stages declare the code that they use; import-linter (`make lint`) checks the directions."""

import ast
from pathlib import Path

import grimp
import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
STAGES = YAML(typ="safe").load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
# Errors, checks, options, progress, and where work runs: dvc tracks what they let through by value.
NO_RESULT = {
    "errors", "params", "sections", "geometry", "renamed", "progress", "runtime", "options", "git",
    "workers",
}  # fmt: skip


def imported_modules(script: Path) -> set[str]:
    """Modules of genlab that a stage's script imports, directly or through others."""
    graph = grimp.build_graph("genlab")
    found: set[str] = set()
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
            found |= names & graph.modules
    return found.union(*(graph.find_upstream_modules(name) for name in found))


@pytest.mark.parametrize("name", sorted(STAGES))
def test_a_stage_declares_all_the_code_that_it_uses(name):
    deps = [dep for dep in STAGES[name]["deps"] if not dep.startswith("data/") and "${" not in dep]
    assert [dep for dep in deps if not (ROOT / dep).exists()] == []
    undeclared = []
    for module in sorted(imported_modules(ROOT / "stages" / f"{name}.py")):
        path = "src/" + module.replace(".", "/")
        if (ROOT / path).is_dir() or path.removeprefix("src/genlab/core/") in NO_RESULT:
            continue
        if not any(f"{path}.py" == dep or path.startswith(dep + "/") for dep in deps):
            undeclared.append(module)
    assert undeclared == []
