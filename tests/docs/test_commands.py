"""Every command and Python block of README and docs runs, parses, or names what it waits for."""

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


@dataclass(frozen=True)
class Found:
    """A command or a Python block, and where it stands."""

    place: str
    text: str
    language: str  # inline: a command in a line of text


def find_all() -> Iterator[Found]:
    """Commands and Python blocks of all pages; a fenced block of unknown language is an error."""
    for path in (path for pattern in PAGES for path in sorted(ROOT.glob(pattern))):
        language, block, start, prose = "", "", 0, ""
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            prose += "\n" if language else f"{line}\n"
            place = f"{path.relative_to(ROOT)}:{start or number}"
            if fence := FENCE.match(line):
                if language == "python":
                    yield Found(place, block, language)
                language, block, start = "" if language else fence[1] or "text", "", 0
                known = (*SHELL, *PROXIES, "python", "yaml", "json", "")
                assert language in known, f"{place}: a block of {language}, not one of {known}"
            elif language in SHELL:
                start = start or number
                text = re.sub(r"(^| +)# .*$", "", line.removeprefix("$ ")).strip()
                block += text.removesuffix("\\")
                if block and not text.endswith("\\"):
                    yield Found(place, block, language)
                    block, start = "", 0
            elif language:
                start, block = start or number, f"{block}{line}\n"
        for match in INLINE.finditer(prose):  # one may go on in the next line
            place = f"{path.relative_to(ROOT)}:{prose[: match.start()].count(chr(10)) + 1}"
            command = " ".join(match[1].split())
            yield Found(place, command.removeprefix(".venv/bin/"), "inline")


def classes() -> dict[str, str]:
    """The class of each command of the table."""
    listed = [(text, "executed") for text in TABLE["executed"].splitlines()]
    for name in ("checked", "waiting"):
        listed += [(text, name) for lines in TABLE[name].values() for text in lines.splitlines()]
    return dict(listed)


def classify(found: Found) -> str:
    """executed, checked or waiting; a command in a line of text is checked unless it is listed."""
    if found.language == "python":
        return "executed"
    return classes().get(found.text, "checked" if found.language == "inline" else "unknown")


def parse_click(command: Any, words: list[str]) -> None:
    """Parse the words after the program by a command and its sub-commands, without calling them."""
    context = command.make_context("program", list(words))
    while hasattr(command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        if not rest:
            return
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


def parse_dvc(words: list[str], folder: Path) -> None:
    """Parse a command of dvc, find its stages, and check the parameters that it sets."""
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
    """Parse a command of a program of ours. Raises an error of its parser for what it rejects."""
    program, *rest = words
    if program == "genlab":
        parse_click(get_command(genlab_app), rest)
        if rest[:1] == ["experiments"]:
            names = [rest[i + 1] for i, word in enumerate(rest) if word == "--only"]
            select_experiments(load_experiments("experiments.yaml"), names)
    elif program == "dvc":
        parse_dvc(rest, folder)
    elif program == "make":
        # Without what `make test ARGS=...` hands to its children.
        plain = {
            k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKEOVERRIDES", "ARGS")
        }
        done = subprocess.run(
            ["make", "-n", *rest], cwd=ROOT, env=plain, capture_output=True, text=True
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
    """A clone in which the pipeline has run, of grids alone, with own grids and one workspace."""
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
    """The output of a command in `folder`, which must succeed.

    What is ours runs in this process, without the seconds that a process takes to import torch.
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
        shown = CliRunner().invoke(genlab_app, words)
        assert shown.exception is None, (shown.exception, shown.output)
        return shown.output
    return run_in(folder, "sh", "-c", text)


ALL = list(find_all())
ORDER = TABLE["executed"].splitlines()


def select(name: str, *languages: str) -> list[Any]:
    """Test cases of the commands of a class, each once; those to execute in the table's order."""
    of_class = [one for one in ALL if classify(one) == name and one.language in languages]
    chosen = {one.text: one for one in reversed(of_class)}
    order = [text for text in ORDER if text in chosen] or reversed(chosen)
    return [pytest.param(chosen[text], id=f"{name} {chosen[text].place}") for text in order]


COMMANDS = (*SHELL, "inline")


def test_every_command_has_one_class() -> None:
    unknown = [f"{one.place}: {one.text}" for one in ALL if classify(one) == "unknown"]
    assert unknown == [], "add these commands to tests/docs/commands.yaml"
    stale = classes().keys() - {one.text for one in ALL}
    assert stale == set(), "no page has these commands of tests/docs/commands.yaml"


@pytest.mark.parametrize("found", select("executed", *COMMANDS))
def test_a_command_runs(found: Found, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = re.sub(r"/tmp/|/mnt/share/", f"{project.parent}/tmp/", found.text)
    execute(command, project, monkeypatch)


@pytest.mark.parametrize("found", [*select("checked", *COMMANDS), *select("waiting", *COMMANDS)])
def test_a_command_parses(found: Found, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    words = shlex.split(found.text)
    if found.text == "dvc exp apply":  # the name of the command, in a sentence
        words.append("NAME")
    own_name = {"NAME", "STAGE"} & set(re.findall(r"\w+", " ".join(words)))
    if words[0] == "dvc" and own_name:
        parse_args(words[1:])
    elif words[0] in OURS:
        parse(words, tmp_path)
    else:
        assert classify(found) == "waiting", f"{found.place}: nothing here parses {words[0]}"


@pytest.mark.parametrize("found", select("executed", "python"))
def test_a_python_block_runs(found: Found, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    if "sys.argv" not in found.text:
        exec(compile(found.text, found.place, "exec"), {"__name__": "__main__"})
        return
    page = (ROOT / found.place.partition(":")[0]).read_text(encoding="utf-8")
    (tools,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (project / "runs").mkdir(exist_ok=True)
    (project / "runs" / "tools.yaml").write_text(tools)
    (project / "runs" / "mirror.py").write_text(found.text)
    command = "genlab benchmark run --tools my_program --case astronaut-officer"
    said = execute(command, project, monkeypatch)
    assert re.search(r"no[_ ]face", said), said
