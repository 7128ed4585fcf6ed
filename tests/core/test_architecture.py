"""The house of the project: imports point down only, and stages hold no logic of their own."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "genlab"

# Each may import those named beside it (and itself), nothing else of ours.
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "grids": set(),
    "datasets": {"core", "grids"},
    "vae": {"core", "grids", "datasets"},
    "measure": {"core", "grids", "datasets", "vae"},
    "agent": {"core", "grids", "datasets"},
    "benchmark": {"core"},
    # The pages show what all the others found; nothing imports them.
    "web": {"core", "grids", "datasets", "vae", "measure", "agent", "benchmark"},
}


def _imported(tree: ast.AST, module: str) -> Iterator[str]:
    """Dotted names of everything that `tree`, the source of `module`, imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")[: -node.level]
                base = ".".join([*parents, base] if base else parents)
            yield base
            yield from (f"{base}.{name.name}" for name in node.names)


def _violations(source: str, module: str) -> list[str]:
    own = module.split(".")[1]
    found = []
    for name in _imported(ast.parse(source), module):
        parts = name.split(".")
        ours = parts[0] == "genlab" and len(parts) > 1 and parts[1] in MAY_IMPORT
        if ours and parts[1] != own and parts[1] not in MAY_IMPORT[own]:
            found.append(f"{module} imports {name}")
    return found


def _modules() -> list[tuple[str, Path]]:
    files = sorted(PACKAGE.rglob("*.py"))
    names = [
        ".".join(("genlab", *path.relative_to(PACKAGE).with_suffix("").parts)) for path in files
    ]
    return [(name, path) for name, path in zip(names, files, strict=True) if name.count(".") > 1]


def test_every_package_has_its_place_in_the_table() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages <= set(MAY_IMPORT)
    assert {"core", "grids"} <= packages


@pytest.mark.parametrize("module", [name for name, _ in _modules()])
def test_imports_point_down_only(module: str) -> None:
    source = dict(_modules())[module].read_text(encoding="utf-8")
    assert _violations(source, module) == []


def test_agent_vae_and_benchmark_never_import_each_other() -> None:
    for one in ("agent", "vae", "benchmark"):
        assert not MAY_IMPORT[one] & {"agent", "vae", "benchmark"}


@pytest.mark.parametrize(
    ("source", "module"),
    [
        ("import genlab.vae.models.vae", "genlab.core.params"),
        ("from genlab.datasets import registry", "genlab.grids.shapes"),
        ("from ..vae import model", "genlab.benchmark.cases"),
        ("from genlab import agent", "genlab.vae.models.vae"),
        ("def f():\n    from genlab.benchmark.cases import x", "genlab.agent.loop"),
    ],
)
def test_the_walk_finds_an_import_that_points_up(source: str, module: str) -> None:
    assert _violations(source, module)


# Words of errors, checks and the command line: what they let through, dvc tracks by value.
# geometry is asked by params whether shapes fit, too; train, which builds by it, lists it.
NO_DEPENDENCY = {"console", "faults", "params", "experiments", "geometry"}


def _reached(script: Path) -> set[str]:
    """Paths of the library's files that a stage's script imports, directly or through others."""
    modules = {name.removesuffix(".__init__"): path for name, path in _modules()}
    seen: set[str] = set()
    waiting = [("stages." + script.stem, script)]
    while waiting:
        module, path = waiting.pop()
        for name in _imported(ast.parse(path.read_text(encoding="utf-8")), module):
            if name in modules and name not in seen:
                seen.add(name)
                full = name + ".__init__" if modules[name].name == "__init__.py" else name
                waiting.append((full, modules[name]))
    return {modules[name].relative_to(ROOT).as_posix() for name in seen}


STAGES = YAML(typ="safe").load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]


@pytest.mark.parametrize("name", sorted(STAGES))
def test_a_stage_declares_all_the_code_that_it_uses(name: str) -> None:
    deps = [dep for dep in STAGES[name]["deps"] if not dep.startswith("data/") and "${" not in dep]
    for dep in deps:
        assert (ROOT / dep).exists(), f"{name}: {dep} is not there"
    for path in sorted(_reached(ROOT / "stages" / f"{name}.py")):
        of_core = path.startswith("src/genlab/core/")
        if (of_core and Path(path).stem in NO_DEPENDENCY) or path.endswith("/__init__.py"):
            continue
        covered = any(path == dep or path.startswith(dep + "/") for dep in deps)
        assert covered, f"dvc.yaml: {name} uses {path} and does not list it in deps"


def test_stages_and_scripts_are_imported_by_nothing_of_the_library() -> None:
    for module, path in _modules():
        names = set(_imported(ast.parse(path.read_text(encoding="utf-8")), module))
        roots = {name.split(".")[0] for name in names}
        assert not roots & {"stages", "benchmarks", "tests", "ci", "ui", "app", "tools"}, module


@pytest.mark.parametrize("path", sorted((ROOT / "stages").glob("*.py")), ids=lambda p: p.name)
def test_a_stage_is_a_screen_or_two_long(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 200
