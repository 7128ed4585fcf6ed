"""Digests of code: what keeps them, what changes them, and whether their table is complete."""

import ast
import io
import random
import shutil
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from genlab.core.code import (
    CODE_OF_RESULT,
    DOCSTRINGS_READ,
    WITHOUT_EFFECT,
    describe_syntax,
    digest_code,
    digest_sources,
)

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
SAMPLE = '''"""Docstring."""
from __future__ import annotations
import os as system

class Sample(dict, metaclass=type):
    """Docstring."""
    rate: float = -1.5e-3  # a comment
    "documents the attribute"

    @staticmethod
    async def run(a, /, b=1, *args, c: int = 0x10, **options) -> None:
        async with a as (x, y), b: pass
        try:
            return [i async for i in x if i not in {1, *y}][::2]
        except (ValueError, OSError) as error:
            raise KeyError(f"{error!r:>{b}} is {{no}} {a + b=}" "key", b"\\0") from None

match system:
    case {"key": [Sample(rate=1), *_], **rest} if (n := len(rest)) > 1_000: print(n, "é", 1j)
'''
SAMPLE_DIGEST = "797099ca"
DIGESTS = """
import hashlib
import sys
sys.path.insert(0, {src!r})
from genlab.core.code import CODE_OF_RESULT, describe_syntax, digest_code
sample = describe_syntax(sys.stdin.read())
print(hashlib.sha256(sample.encode()).hexdigest()[:8], *map(digest_code, CODE_OF_RESULT))
"""

Edit = Callable[[str, random.Random], str]


def lines_after(source: str) -> list[int]:
    """Numbers of the lines that end a statement without a body."""
    simple = (ast.Assign, ast.AnnAssign, ast.Return, ast.Raise, ast.Import, ast.ImportFrom)
    return [
        node.end_lineno or 0 for node in ast.walk(ast.parse(source)) if isinstance(node, simple)
    ]


def add_comment(source: str, rng: random.Random) -> str:
    lines = source.splitlines()
    lines[rng.choice(lines_after(source)) - 1] += "  # a remark"
    return "\n".join(lines)


def add_blank_line(source: str, rng: random.Random) -> str:
    lines = source.splitlines()
    lines.insert(rng.choice(lines_after(source)), "")
    return "\n".join(lines)


def add_docstring(source: str, rng: random.Random) -> str:
    nodes = (ast.FunctionDef, ast.ClassDef)
    tree = ast.parse(source)
    first = [
        node.body[0]
        for node in ast.walk(tree)
        if isinstance(node, nodes) and node.body[0].lineno > node.lineno
    ]
    chosen = rng.choice(first)
    decorators = [decorator.lineno for decorator in getattr(chosen, "decorator_list", [])]
    lines = source.splitlines()
    lines.insert(min([chosen.lineno, *decorators]) - 1, " " * chosen.col_offset + '"""A remark."""')
    return "\n".join(lines)


def add_line_break(source: str, rng: random.Random) -> str:
    brackets = []
    inside = 0  # f-strings, whose parts are tokens from Python 3.12 on
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        name = tokenize.tok_name[token.type]
        inside += (name == "FSTRING_START") - (name == "FSTRING_END")
        if token.string in ("(", "[") and name == "OP" and not inside:
            brackets.append(token.end)
    row, column = rng.choice(brackets)
    lines = source.splitlines()
    lines[row - 1] = lines[row - 1][:column] + "\n" + lines[row - 1][column:]
    return "\n".join(lines)


def change_node(kinds: Any, change: Callable[[Any], None]) -> Edit:
    """An edit of a random node of some kinds in a source."""

    def edit(source: str, rng: random.Random) -> str:
        tree = ast.parse(source)
        change(rng.choice([node for node in ast.walk(tree) if isinstance(node, kinds)]))
        return ast.unparse(ast.fix_missing_locations(tree))

    return edit


def change_operator(node: Any) -> None:
    if isinstance(node, ast.Compare):
        node.ops[0] = ast.Lt() if isinstance(node.ops[0], ast.GtE) else ast.GtE()
    else:
        node.op = ast.Sub() if isinstance(node.op, ast.MatMult) else ast.MatMult()


def change_constant(source: str, rng: random.Random) -> str:
    tree = ast.parse(source)
    numbers = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float)
    ]
    chosen = rng.choice(numbers)
    chosen.value = not chosen.value if isinstance(chosen.value, bool) else chosen.value + 1
    return ast.unparse(tree)


def change_default(node: ast.arguments) -> None:
    node.kwonlyargs.append(ast.arg("another"))
    node.kw_defaults.append(ast.Constant(0))


def reorder(node: Any) -> None:
    statements = node.body[1:] if isinstance(node.body[0], ast.Expr) else node.body
    if len(statements) < 2 or isinstance(node.body[-1], ast.Expr):  # text below an attribute
        raise IndexError
    node.body.insert(0, node.body.pop())


KEEPING = [add_comment, add_blank_line, add_docstring, add_line_break]
CHANGING = [
    change_node((ast.BinOp, ast.Compare), change_operator),
    change_constant,
    change_node(ast.Name, lambda node: setattr(node, "id", node.id + "_")),
    change_node(ast.arguments, change_default),
    change_node(
        (ast.FunctionDef, ast.ClassDef),
        lambda node: node.decorator_list.append(ast.Name("another", ast.Load())),
    ),
    change_node(ast.Module, reorder),
]


def edit_sources(edits: list[Edit], count: int) -> Iterator[tuple[str, str]]:
    """Yield random sources of the package before and after a random edit."""
    rng = random.Random(0)
    while count:
        source = rng.choice(SOURCES).read_text(encoding="utf-8")
        try:
            changed = rng.choice(edits)(source, rng)
        except IndexError:  # nothing of this kind in the file
            continue
        if changed == source:  # a blank line at the very end
            continue
        count -= 1
        yield source, changed


def test_comments_docstrings_and_line_breaks_keep_the_digest() -> None:
    for source, changed in edit_sources(KEEPING, 200):
        assert describe_syntax(changed) == describe_syntax(source)


def test_what_a_program_does_changes_the_digest() -> None:
    for source, changed in edit_sources(CHANGING, 200):
        assert describe_syntax(changed) != describe_syntax(source)
        assert describe_syntax(ast.unparse(ast.parse(source))) == describe_syntax(source)


def test_values_of_different_types_differ() -> None:
    texts = [
        "1",
        "1.0",
        "True",
        "'1'",
        "b'1'",
        "None",
        "...",
        "1j",
        "-1",
        "x",
        "f'1{x}'",
        "f'{x}1'",
    ]
    assert len({describe_syntax(f"a = {text}") for text in texts}) == len(texts)


def find_interpreters() -> list[str]:
    """Find every installed Python from 3.10 on."""
    names = [f"python3.{minor}" for minor in range(10, 20)]
    candidates = [
        *Path.home().glob(".pyenv/versions/3.1?.*/bin/python3"),
        *filter(None, map(shutil.which, names)),
    ]
    interpreters = {str(Path(sys.executable).resolve())}
    for candidate in candidates:
        python = str(Path(candidate).resolve())
        probe = [python, "-c", "import sys; sys.exit(sys.version_info < (3, 10))"]
        if subprocess.run(probe, capture_output=True).returncode == 0:
            interpreters.add(python)
    return sorted(interpreters)


@pytest.mark.parametrize("python", find_interpreters())
def test_every_python_gives_the_same_digests(python: str) -> None:
    code = DIGESTS.format(src=str(ROOT / "src"))
    done = subprocess.run(
        [python, "-c", code], input=SAMPLE.encode(), capture_output=True, check=True
    )
    sample, *rows = done.stdout.decode().split()
    assert sample == SAMPLE_DIGEST
    assert rows == [digest_code(row) for row in CODE_OF_RESULT]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A copy of the sources."""
    for folder in ("src", "stages"):
        skip = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=skip)
    return tmp_path


CHANGES = {
    "stages/train.py": {"train"},
    "src/genlab/core/errors.py": set(),
    "src/genlab/benchmark/scoring/head.py": {"benchmark"},
    "src/genlab/benchmark/scoring/data/selfie_segmentation.tflite": {"benchmark"},
    "src/genlab/evaluation/figures/genlab.mplstyle": {
        "split", "evaluate", "failure_gallery", "agent_iterate", "benchmark",
    },
    "src/genlab/evaluation/reports/templates/gallery.html.j2": {"failure_gallery"},
    "src/genlab/agent/cli.py": set(),
    "src/genlab/agent/report.py": {"agent_iterate"},
    "src/genlab/agent/templates/report.md.j2": {"agent_iterate"},
    "src/genlab/web/pages/agent.py": set(),
    "src/genlab/agent/planning/prompts.py": {"agent_iterate", "agent_run"},
    "src/genlab/agent/evaluator/model_evaluator.py": {
        "agent_reference", "agent_search", "agent_iterate", "agent_run",
    },
    "src/genlab/vae/training/trainer.py": {"train", "agent_reference", "unfinished_training"},
}  # fmt: skip


@pytest.mark.parametrize("file", CHANGES)
def test_a_change_makes_exactly_the_stages_stale_that_use_the_module(
    file: str, repository: Path
) -> None:
    before = {row: digest_code(row, repository) for row in CODE_OF_RESULT}
    assert before == {row: digest_code(row) for row in CODE_OF_RESULT}
    path = repository / file
    path.write_bytes(path.read_bytes() + b"\nadded = 1\n")
    stale = {row for row in CODE_OF_RESULT if digest_code(row, repository) != before[row]}
    assert stale == CHANGES[file]


def test_caches_and_hidden_files_are_left_out(repository: Path) -> None:
    before = digest_sources(["genlab"], repository)
    for name in (".part", "__pycache__/new.cpython-311.pyc"):
        path = repository / "src/genlab/grids" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("a = 1\n")
    assert digest_sources(["genlab"], repository) == before
    (repository / "src/genlab/grids/new.py").write_text("")
    assert digest_sources(["genlab"], repository) != before


def test_a_name_without_a_file_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"genlab\.grid"):
        digest_sources(["genlab.grid"])


def name_module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)


def module_file(name: str) -> Path | None:
    folder = ROOT if name.startswith("stages.") else ROOT / "src"
    place = folder.joinpath(*name.split("."))
    files = [place.with_name(f"{place.name}.py"), place / "__init__.py"]
    return next((file for file in files if file.is_file()), None)


def imported_modules(path: Path) -> Iterator[str]:
    """Modules of genlab that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("genlab."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "genlab":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if module_file(inner) else str(node.module)


def is_covered(module: str, names: Any) -> bool:
    return any(f"{module}.".startswith(f"{name}.") for name in names)


@pytest.mark.parametrize("row", CODE_OF_RESULT)
def test_what_decides_a_result_is_in_its_row_or_an_exception(row: str) -> None:
    names = CODE_OF_RESULT[row]
    modules = [name_module(path) for path in SOURCES if is_covered(name_module(path), names)]
    files = {name: module_file(name) for name in [*modules, *names]}
    missing = {
        module
        for name, path in files.items()
        if path is not None and name not in WITHOUT_EFFECT
        for module in imported_modules(path)
        if module not in ("genlab", "genlab.core")
        and f"{module}.__init__" not in WITHOUT_EFFECT
        and not is_covered(module, [*names, *WITHOUT_EFFECT])
    }
    assert missing == set()


def test_every_stage_has_a_row() -> None:
    stages = {path.stem for path in (ROOT / "stages").glob("*.py")}
    assert stages - {"params", "source"} <= set(CODE_OF_RESULT)


def test_exceptions_exist_and_have_a_reason() -> None:
    assert [name for name in [*WITHOUT_EFFECT, *DOCSTRINGS_READ] if module_file(name) is None] == []
    assert all({**WITHOUT_EFFECT, **DOCSTRINGS_READ}.values())


def test_docstrings_that_a_program_reads_count() -> None:
    """Tools' docstrings, and those of classes whose JSON schema a language model gets."""
    readers = set()
    schemas = set()
    classes = {}
    for path in SOURCES:
        module = name_module(path)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                classes[node.name] = module
            if isinstance(node, ast.Attribute) and node.attr in ("__doc__", "getdoc"):
                readers.add(module)
            if isinstance(node, ast.Attribute) and node.attr == "model_json_schema":
                schemas |= {node.value.id} if isinstance(node.value, ast.Name) else set()
            if isinstance(node, ast.keyword) and node.arg == "schema":
                schemas |= {node.value.id} if isinstance(node.value, ast.Name) else set()
    assert readers == {"genlab.agent.tools.functions"}
    described = {classes[name] for name in schemas & classes.keys()}
    described -= {"genlab.web.problems"}  # the description of the API, no result
    assert described
    assert [module for module in described if not is_covered(module, DOCSTRINGS_READ)] == []
