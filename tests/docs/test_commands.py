"""Every command and Python block in README and docs runs, parses, or says why it cannot."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agent_runs import GOAL
from benchmarks.harness import app as benchmarks_app
from benchmarks.harness import load_benchmarks
from clones import SIZE, copy_clone, dvc_in, run_in
from dvc.cli import parse_args
from dvc.repo import Repo
from dvc.utils.hydra import apply_overrides
from ruamel.yaml import YAML
from stage_runs import run_stage
from torch.distributed.run import get_args_parser
from typer.main import get_command
from typer.testing import CliRunner

from genlab.agent.workspace import create_project
from genlab.cli import app as genlab_app
from genlab.core.io import read_yaml
from genlab.core.params import load_params
from genlab.experiments.definitions import apply_changes, load_experiments, select_experiments

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "SECURITY.md", "CONTRIBUTING.md", "docs/**/*.md")
TABLE: dict[str, Any] = read_yaml(Path(__file__).parent / "commands.yaml")
SHELL = ("sh", "bash", "console")
PROXIES = ("nginx", "caddy")  # tests/support/proxies.py runs them
FENCE = re.compile(r"^ *```(\w*) *$")
INLINE = re.compile(r"(?<!`)`((?:\.venv/bin/)?(?:genlab|make|dvc|python)\s[^`]+)`")
OURS = ("genlab", "make", "dvc", "python", "torchrun")
LANGUAGES = (*SHELL, *PROXIES, "python", "yaml", "json")


@dataclass(frozen=True)
class Snippet:
    """A command or a Python block of a page.

    place: page and line. language: of the block; `inline` for a command in running text.
    """

    place: str
    text: str
    language: str


def find_all() -> Iterator[Snippet]:
    """Find the commands and Python blocks of all pages."""
    for pattern in PAGES:
        for path in sorted(ROOT.glob(pattern)):
            page = str(path.relative_to(ROOT))
            text = path.read_text(encoding="utf-8")
            yield from find_in_blocks(page, text)
            yield from find_inline(page, text)


def find_blocks(page: str, text: str) -> Iterator[tuple[str, int, list[str]]]:
    """Language, number of the first line, and lines of each block; unknown languages fail."""
    language = None
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if fence and language is not None:
            yield language, number - len(lines), lines
            language = None
        elif fence:
            language = fence[1] or "text"
            lines = []
            assert language in LANGUAGES, f"{page}:{number}: a block of {language}"
        elif language is not None:
            lines.append(line)


def find_in_blocks(page: str, text: str) -> Iterator[Snippet]:
    """Find Python blocks, and commands of shell blocks; a backslash continues a command."""
    for language, start, lines in find_blocks(page, text):
        if language == "python":
            yield Snippet(f"{page}:{start}", "".join(f"{line}\n" for line in lines), language)
        if language not in SHELL:
            continue
        command = ""
        command_start = start
        for number, line in enumerate(lines, start):
            if not command:
                command_start = number
            line = re.sub(r"(^| +)# .*$", "", line.removeprefix("$ ")).strip()
            command += line.removesuffix("\\")
            if command and not line.endswith("\\"):
                yield Snippet(f"{page}:{command_start}", command, language)
                command = ""


def find_inline(page: str, text: str) -> Iterator[Snippet]:
    """Find commands in running text, which may continue in the next line."""
    lines = text.splitlines()
    for _, start, block in find_blocks(page, text):
        for number in range(start - 1, start + len(block) + 1):  # with both fences
            lines[number - 1] = ""
    prose = "\n".join(lines)
    for match in INLINE.finditer(prose):
        number = prose[: match.start()].count("\n") + 1
        command = " ".join(match[1].split())
        yield Snippet(f"{page}:{number}", command.removeprefix(".venv/bin/"), "inline")


def classes() -> dict[str, str]:
    """Class of each command in commands.yaml: executed, checked or waiting."""
    by_command = dict.fromkeys(TABLE["executed"].splitlines(), "executed")
    for name in ("checked", "waiting"):
        for commands in TABLE[name].values():
            by_command |= dict.fromkeys(commands.splitlines(), name)
    return by_command


def classify(snippet: Snippet) -> str:
    """Class of a snippet; commands in running text are checked unless commands.yaml has them."""
    if snippet.language == "python":
        return "executed"
    default = "checked" if snippet.language == "inline" else "unknown"
    return classes().get(snippet.text, default)


def parse_click(command: Any, words: list[str]) -> None:
    """Parse the arguments of a command and its sub-commands, without calling them."""
    context = command.make_context("program", list(words))
    while hasattr(command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        if not rest:
            return
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


def parse_dvc(words: list[str], folder: Path) -> None:
    """Parse a command of dvc; check the stages that it names and the parameters that it sets."""
    arguments = parse_args(words)
    changed = folder / "params.yaml"
    shutil.copy(ROOT / "params.yaml", changed)
    apply_overrides(changed, getattr(arguments, "set_param", None) or [])
    load_params(changed)
    if words[0] in ("repro", "commit"):
        with Repo(ROOT) as repo:
            for target in arguments.targets or []:
                assert repo.stage.collect(target), f"no stage {target}"


def parse(words: list[str], folder: Path) -> None:
    """Parse a command of the project's programs. Raises its parser's error if it is invalid."""
    program, *rest = words
    if program == "genlab":
        parse_click(get_command(genlab_app), rest)
        if rest[:1] == ["experiments"]:
            names = [rest[i + 1] for i, word in enumerate(rest) if word == "--only"]
            select_experiments(load_experiments("experiments.yaml"), names)
    elif program == "dvc":
        parse_dvc(rest, folder)
    elif program == "make":
        # Without variables of an outer `make test ARGS=...`.
        inherited = ("MAKEFLAGS", "MAKEOVERRIDES", "ARGS")
        environment = {name: v for name, v in os.environ.items() if name not in inherited}
        done = subprocess.run(
            ["make", "-n", *rest], cwd=ROOT, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        for recipe in re.findall(r"(?:^|\s)\.venv/bin/((?:python|genlab) .+)", done.stdout):
            parse(shlex.split(recipe), folder)
    elif program == "torchrun":
        arguments = get_args_parser().parse_args(rest)
        assert (ROOT / arguments.training_script).is_file(), f"no {arguments.training_script}"
    elif rest[0] == "-m":
        assert importlib.util.find_spec(rest[1]), f"no module {rest[1]}"
    elif rest[0] == "benchmarks/run.py":
        load_benchmarks()
        parse_click(get_command(benchmarks_app), rest[1:])
    else:
        assert not rest[1:], f"the options of {rest[0]} are not known here"
        assert (ROOT / rest[0]).is_file(), f"no {rest[0]}"


@pytest.fixture(scope="module")
def project(reproduced: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone in which the pipeline has run on grids only, with own grids and one workspace."""
    target = copy_clone(reproduced, tmp_path_factory.mktemp("docs") / "genlab")
    params = apply_changes(read_yaml(target / "params.yaml"), {"datasets": ["arc_grids"]}, "docs")
    YAML().dump(params, target / "params.yaml")
    run_in(target, "git", "commit", "--quiet", "--all", "--message", "Grids alone")
    side = SIZE["grids.size"]
    grids = np.random.default_rng(0).integers(0, 10, (200, side, side), dtype=np.uint8)
    np.savez(target / "my_grids.npz", train=grids[:160], val=grids[160:180], test=grids[180:])
    shutil.rmtree(target / "workspaces", ignore_errors=True)
    create_project(target / "workspaces" / "project", GOAL)
    return target


def execute(text: str, folder: Path, patch: pytest.MonkeyPatch) -> str:
    """Run a command in `folder`, which must succeed, and return its output.

    The project's programs run in this process, without the seconds in which torch is imported.
    """
    program, *words = shlex.split(text)
    if program == "dvc":
        return dvc_in(folder, *words)
    if program == "python" and words[0].startswith("stages/"):
        done = run_stage(folder, Path(words[0]).stem, *words[1:])
        assert done.status == 0, done.stderr
        return done.stdout
    if program == "genlab":
        patch.chdir(folder)
        result = CliRunner().invoke(genlab_app, words)
        assert result.exception is None, (result.exception, result.output)
        return result.output
    return run_in(folder, "sh", "-c", text)


ALL = list(find_all())
ORDER = TABLE["executed"].splitlines()


def select(name: str, *languages: str) -> list[Any]:
    """Test cases of a class, each command once; executed ones in the order of commands.yaml."""
    of_class = [
        snippet for snippet in ALL if classify(snippet) == name and snippet.language in languages
    ]
    by_text = {snippet.text: snippet for snippet in reversed(of_class)}
    order = [text for text in ORDER if text in by_text] or reversed(by_text)
    return [pytest.param(by_text[text], id=f"{name} {by_text[text].place}") for text in order]


COMMANDS = (*SHELL, "inline")


def test_every_command_has_one_class() -> None:
    unknown = [
        f"{snippet.place}: {snippet.text}" for snippet in ALL if classify(snippet) == "unknown"
    ]
    assert unknown == [], "add these commands to tests/docs/commands.yaml"
    stale = classes().keys() - {snippet.text for snippet in ALL}
    assert stale == set(), "no page has these commands of tests/docs/commands.yaml"


@pytest.mark.parametrize("snippet", select("executed", *COMMANDS))
def test_a_command_runs(snippet: Snippet, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = re.sub(r"/tmp/|/mnt/share/", f"{project.parent}/tmp/", snippet.text)
    execute(command, project, monkeypatch)


@pytest.mark.parametrize("snippet", [*select("checked", *COMMANDS), *select("waiting", *COMMANDS)])
def test_a_command_parses(
    snippet: Snippet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    words = shlex.split(snippet.text)
    if snippet.text == "dvc exp apply":  # the name of the command, in a sentence
        words.append("NAME")
    placeholders = {"NAME", "STAGE"} & set(re.findall(r"\w+", " ".join(words)))
    if words[0] == "dvc" and placeholders:
        parse_args(words[1:])
    elif words[0] in OURS:
        parse(words, tmp_path)
    else:
        assert classify(snippet) == "waiting", f"{snippet.place}: nothing here parses {words[0]}"


@pytest.mark.parametrize("snippet", select("executed", "python"))
def test_a_python_block_runs(
    snippet: Snippet, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    if "sys.argv" not in snippet.text:
        exec(compile(snippet.text, snippet.place, "exec"), {"__name__": "__main__"})
        return
    page = (ROOT / snippet.place.partition(":")[0]).read_text(encoding="utf-8")
    (tools,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (project / "runs").mkdir(exist_ok=True)
    (project / "runs" / "tools.yaml").write_text(tools)
    (project / "runs" / "mirror.py").write_text(snippet.text)
    command = "genlab benchmark run --tools my_program --case astronaut-officer"
    output = execute(command, project, monkeypatch)
    assert re.search(r"no[_ ]face", output), output
