"""A digest of code: of modules and of all in their package that they import."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "genlab.benchmark"
CONTRACT = "genlab.benchmark.plugins"
"""What a tool is and how one is found: it names every tool, and paints nothing itself."""


def code(modules: Sequence[str]) -> str:
    """SHA-256 of the sources of `modules` and of all that they import; see `reached`."""
    sources = reached(modules)
    return digest(
        [f"{name} {hashlib.sha256(sources[name]).hexdigest()}" for name in sorted(sources)]
    )


def reached(modules: Sequence[str]) -> dict[str, bytes]:
    """The sources of `modules` and of all that they import of their own packages, by name.

    Of genlab that is the benchmark; of somebody else's tool, the package that it comes in.
    """
    own = tuple({_package(module) for module in modules} | {PACKAGE})
    seen: dict[str, bytes] = {}
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        path = None if module in seen or module == CONTRACT else _source(module)
        if path is None:
            continue
        seen[module] = path.read_bytes()
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        waiting += [
            name
            for name in imported(seen[module], package)
            if any(name == root or name.startswith(f"{root}.") for root in own)
        ]
    return seen


def imported(source: bytes, package: str) -> Iterator[str]:
    """Dotted names of what the source of a module in `package` imports, wherever it does so."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: 1 - node.level or None] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def digest(parts: Sequence[str]) -> str:
    """SHA-256 of texts, each apart from the next."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _package(module: str) -> str:
    return PACKAGE if module.startswith("genlab.") else module.partition(".")[0]


def _source(module: str) -> Path | None:
    try:
        spec = find_spec(module)
    except (ModuleNotFoundError, ValueError):
        return None  # `from package.module import name`: the name is no module; or a program's own
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None
