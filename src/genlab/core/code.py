"""Digests of source code by meaning, and the table of which code decides which result.

A digest covers what a program does: the syntax trees of modules without comments, formatting and
docstrings, and a package's other files (templates, styles, weights) byte for byte. A reworded
comment keeps it. A changed operator, name, default or order of statements changes it, and the
results that the table lists for that module become stale.
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
"""Folder of genlab's sources."""
SKIPPED_FIELDS = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
"""Fields of syntax trees that have no effect: `kind` is the u of u"text"."""

_DATA = (
    "genlab.core.params.catalogue",
    "genlab.core.params.geometry",
    "genlab.core.io",
    "genlab.datasets.__init__",
    "genlab.datasets.arc_grids",
    "genlab.datasets.images",
    "genlab.datasets.manifests",
    "genlab.datasets.own_grids",
    "genlab.datasets.shards",
    "genlab.datasets.splits",
    "genlab.grids",
)
_OWN_DATA = (
    "genlab.core.deep_tiff",
    "genlab.core.paths",
    "genlab.core.picture",
    "genlab.core.text",
    "genlab.datasets.readers",
)
_READ = (
    *_OWN_DATA,
    "genlab.datasets.emoji",
    "genlab.datasets.generating",
    "genlab.datasets.own",
    "genlab.datasets.sources",
)
_MODEL = ("genlab.core.engine", "genlab.distributions", "genlab.vae.models")
_TRAINING = ("genlab.core.tracking", "genlab.vae.training")
_MEASURE = ("genlab.__init__", "genlab.core.stats", "genlab.evaluation.metrics")
_CLASSIFIERS = ("genlab.evaluation.metrics.features", "genlab.evaluation.metrics.judges")
_FIGURE = ("genlab.evaluation.figures.genlab.mplstyle", "genlab.evaluation.figures.style")
_SEARCH = (
    "genlab.agent.__init__",
    "genlab.agent.architecture",
    "genlab.agent.config",
    "genlab.agent.decisions",
    "genlab.agent.evaluator",
    "genlab.agent.goals.__init__",
    "genlab.agent.goals.goal",
    "genlab.agent.goals.numbers",
    "genlab.agent.goals.parser",
    "genlab.agent.goals.words",
    "genlab.agent.library",
    "genlab.agent.loop",
    "genlab.agent.planning.__init__",
    "genlab.agent.planning.planner",
    "genlab.agent.planning.search",
    "genlab.agent.random_search",
    "genlab.agent.registry",
    "genlab.agent.templates.model.py.j2",
    "genlab.agent.tools",
    "genlab.agent.workspace",
    "genlab.core.config_yaml",
    "genlab.llm",
    "genlab.sandbox",
    *_DATA,
    *_OWN_DATA,
    *_MEASURE,
    "genlab.core.engine",
    "genlab.distributions",
)
_ATTEMPTS = (
    *_SEARCH,
    "genlab.agent.iterate",
    "genlab.agent.planning.llm_planner",
    "genlab.agent.planning.prompts",
    "genlab.agent.tool_loop",
)

CODE_OF_RESULT: Mapping[str, tuple[str, ...]] = {
    # stages of dvc.yaml
    "generate": ("stages.generate", *_DATA, *_READ),
    "split": (
        "stages.split",
        "genlab.datasets.splitting",
        *_DATA,
        "genlab.evaluation.figures",
    ),
    "train": ("stages.train", *_DATA, *_MODEL, *_TRAINING),
    "judges": ("stages.judges", "genlab.__init__", "genlab.core.engine", *_DATA, *_CLASSIFIERS),
    "evaluate": (
        "stages.evaluate",
        "genlab.datasets.arc_agi",
        *_DATA,
        *_MODEL,
        *_MEASURE,
        "genlab.evaluation.diagnostics",
        "genlab.evaluation.evaluators",
        "genlab.evaluation.figures",
        "genlab.vae.sampling",
        "genlab.vae.training.checkpoint",
        "genlab.vae.training.distributed",
        "genlab.vae.training.schedules",
    ),
    "failure_gallery": (
        "stages.failure_gallery",
        "genlab.__init__",
        "genlab.core.stats",
        *_DATA,
        "genlab.evaluation.failures",
        "genlab.evaluation.figures",
        "genlab.evaluation.metrics.fidelity",
        "genlab.evaluation.metrics.own_grids",
        "genlab.evaluation.metrics.reconstruction",
        "genlab.evaluation.reports.formats",
        "genlab.evaluation.reports.templates.gallery.html.j2",
    ),
    "agent_reference": (
        "stages.agent_reference",
        "genlab.agent_reference",
        "genlab.agent.architecture.training",
        "genlab.agent.evaluator",
        "genlab.sandbox",
        *_DATA,
        *_OWN_DATA,
        *_MODEL,
        *_TRAINING,
        *_MEASURE,
        "genlab.vae.sampling.posterior",
    ),
    "agent_search": ("stages.agent_search", *_SEARCH),
    "agent_iterate": (
        "stages.agent_iterate",
        *_ATTEMPTS,
        "genlab.agent",
        "genlab.evaluation.figures.image_grids",
        *_FIGURE,
    ),
    "benchmark": (
        "stages.benchmark",
        "genlab.__init__",
        "genlab.benchmark",
        "genlab.core.config_yaml",
        "genlab.core.deep_tiff",
        "genlab.core.io",
        "genlab.core.picture",
        "genlab.core.paths",
        "genlab.core.stats",
        "genlab.core.text",
        "genlab.llm",
        *_FIGURE,
    ),
    # caches outside of DVC
    "shards": _DATA,
    "unfinished_training": (*_DATA, *_MODEL, *_TRAINING),
    "agent_run": _ATTEMPTS,
}
"""Stage or cache, and the modules and packages that decide its content.

tests/core/test_code.py walks their imports: every module of genlab that they import has to be in
the same row or among the exceptions.
"""

WITHOUT_EFFECT: Mapping[str, str] = {
    "genlab.agent.cli": "a command line; its options are stored in the run's settings",
    "genlab.benchmark.cli": "a command line; its options are stored in the run's options",
    "genlab.benchmark.cli_files": "a command line for files that people exchange and keep",
    "genlab.benchmark.terminal": "progress of a run on a terminal",
    "genlab.core.code": "digests, which are stored in keys only",
    "genlab.core.errors": "error messages",
    "genlab.core.git": "reads the commit, which only provenance names",
    "genlab.core.params.options": "command lines of stages, which depend on values of params",
    "genlab.core.params.__init__": "re-exports",
    "genlab.core.params.base": "a stage depends on its values of params",
    "genlab.core.params.flat": "a stage depends on its values of params",
    "genlab.core.params.loading": "a stage depends on its values of params",
    "genlab.core.params.model": "a stage depends on its values of params",
    "genlab.core.progress": "progress bars",
    "genlab.core.params.renamed": "error messages",
    "genlab.core.runtime": "lifetimes of processes",
    "genlab.core.params.sections": "a stage depends on its values of params",
    "genlab.core.workers": "parallel work; results do not depend on the number of workers",
}
"""Modules that change no result of the rows that import or contain them, and why."""

DOCSTRINGS_READ: Mapping[str, str] = {
    "genlab.agent.architecture.schema": "descriptions in the JSON schema of model_config",
    "genlab.agent.architecture.training": "descriptions in the JSON schema of eval_config",
    "genlab.agent.goals.model_reading": "descriptions in the schema of goals that are read",
    "genlab.agent.library.modules": "descriptions in the schemas of code",
    "genlab.agent.registry": "descriptions in the schema of reviews",
    "genlab.agent.tools": "descriptions of the tools that a language model calls",
    "genlab.benchmark.judge": "description of the schema of verdicts",
}
"""Modules whose docstrings a program reads, and as what: these docstrings are part of digests."""


def digest_code(result: str, root: Path | None = None) -> str:
    """SHA-256 of the code of a row of CODE_OF_RESULT; see `digest_sources`."""
    return digest_sources(CODE_OF_RESULT[result], root)


def add_code(values: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Add the digest of each stage's code, as key `code`, to the params that the stage reads."""
    return {stage: {"code": digest_code(stage), **read} for stage, read in values.items()}


def digest_sources(names: Iterable[str], root: Path | None = None) -> str:
    """SHA-256 of the meaning of modules, packages (with all their files) and other files.

    names: dotted, such as `genlab.vae.models`, `stages.train` or, for another file,
    `genlab.agent.templates.model.py.j2`. Modules in WITHOUT_EFFECT are left out. root: repository
    whose sources are read in place of the running ones. The digest depends neither on the order of
    names nor on the version of Python. Raises ValueError for a name without a file.
    """
    digests: dict[str, str] = {}
    for name in names:
        base = _find_base(name, root)
        for path in _find_files(name, base):
            relative = path.relative_to(base)
            module = ".".join(relative.with_suffix("").parts)
            if module not in WITHOUT_EFFECT:
                digests[relative.as_posix()] = _digest_file(path, module)
    lines = (f"{file} {content}" for file, content in sorted(digests.items()))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def describe_syntax(source: str, *, docstrings: bool = False) -> str:
    """Return a module's syntax tree as text, one line per node or value.

    `ast.dump` differs between versions of Python; this omits empty fields, which newer versions
    have more of, and joins the constants of an f-string, which versions split differently.
    docstrings: whether to include them; other bare strings are always omitted.
    """
    return "\n".join(_describe(ast.parse(source), "", docstrings))


def is_documented(module: str) -> bool:
    """Whether a program reads the docstrings of a module; see DOCSTRINGS_READ."""
    return any(f"{module}.".startswith(f"{name}.") for name in DOCSTRINGS_READ)


def _find_base(name: str, root: Path | None) -> Path:
    """Folder that a dotted name is relative to."""
    if name.split(".")[0] != PACKAGE.name:
        return root or PACKAGE.parents[1]
    return root / "src" if root else PACKAGE.parent


def _find_files(name: str, base: Path) -> list[Path]:
    """Find the file of a module, all files of a package, or another file, by its dotted name."""
    parts = name.split(".")
    target = base.joinpath(*parts)
    module = target.with_name(f"{target.name}.py")
    if module.is_file():
        return [module]
    if target.is_dir():
        return [path for path in target.rglob("*") if path.is_file() and _is_source(path)]
    for count in range(1, len(parts)):  # a file's name has dots, too
        file = base.joinpath(*parts[:count], ".".join(parts[count:]))
        if file.is_file():
            return [file]
    raise ValueError(f"no module, package or file in {base} is called {name}")


def _is_source(path: Path) -> bool:
    """Whether a file is part of a package: neither hidden nor compiled bytecode."""
    return path.suffix != ".pyc" and not path.name.startswith(".")


def _digest_file(path: Path, module: str) -> str:
    content = path.read_bytes()
    if path.suffix != ".py":
        return hashlib.sha256(content).hexdigest()
    return _digest_source(content, is_documented(module))


@cache
def _digest_source(source: bytes, docstrings: bool) -> str:
    text = describe_syntax(source.decode("utf-8"), docstrings=docstrings)
    return hashlib.sha256(text.encode()).hexdigest()


def _describe(value: Any, indent: str, docstrings: bool) -> Iterator[str]:
    if isinstance(value, ast.Constant):
        yield f"{indent}{type(value.value).__name__} {value.value!r}"
    elif isinstance(value, ast.AST):
        yield indent + type(value).__name__
        for field in sorted(set(value._fields) - SKIPPED_FIELDS):
            content = getattr(value, field, None)
            if isinstance(content, list):
                content = _select_effective(value, field, content, docstrings)
            if content is not None and content != []:
                yield f"{indent} {field}"
                yield from _describe(content, indent + "  ", docstrings)
    elif isinstance(value, list):
        for element in value:
            yield from _describe(element, indent, docstrings)
            yield f"{indent},"
    else:
        yield f"{indent}{type(value).__name__} {value!r}"


def _select_effective(node: ast.AST, field: str, content: list[Any], docstrings: bool) -> list[Any]:
    """Select the elements of a list field that have an effect."""
    if isinstance(node, ast.JoinedStr):
        return _join_constants(content)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    keeps_first = docstrings and field == "body" and isinstance(node, documented)
    return [
        element
        for index, element in enumerate(content)
        if not _is_bare_string(element) or (keeps_first and index == 0)
    ]


def _is_bare_string(node: Any) -> bool:
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        return False
    return isinstance(node.value.value, str)


def _join_constants(values: list[Any]) -> list[Any]:
    """Join neighbouring constants of an f-string, and drop empty ones."""
    joined: list[Any] = []
    for value in values:
        if not isinstance(value, ast.Constant):
            joined.append(value)
        elif joined and isinstance(joined[-1], ast.Constant):
            joined[-1] = ast.Constant(str(joined[-1].value) + str(value.value))
        elif value.value:
            joined.append(value)
    return joined
