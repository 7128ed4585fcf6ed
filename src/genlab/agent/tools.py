"""The tools of the agent, with the signatures that a language model is told.

They act on the toolbox that is bound around them (`toolbox.using`), or on the nearest workspace
upwards of the current folder; every path is relative to that workspace, and confined to it. What a
caller did wrong is a `GenlabError` of one line, and leaves everything as it was.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from genlab.agent import packages, shell, trials
from genlab.agent.attempt import as_yaml
from genlab.agent.coder import assemble
from genlab.agent.goal import goal
from genlab.agent.quick_evaluator import EvalConfig, eval_config
from genlab.agent.space import Input, ModelConfig, repaired
from genlab.agent.summary import analysed, checked_size
from genlab.agent.toolbox import PACKAGES, Toolbox, bound, current, using
from genlab.agent.workspace import CONFIG, MODEL, goal_of, scaffold
from genlab.core.errors import GenlabError
from genlab.core.io import write_text

__all__ = [
    "Toolbox", "bash_run", "create_pytorch_project_scaffold", "list_directory", "promote",
    "python_run", "pytorch_model_assembler", "pytorch_model_summary", "pytorch_quick_evaluator",
    "read_file", "using", "write_file",
]  # fmt: skip

LONGEST = 200_000  # characters that are read of a file, or written to one
MOST_ENTRIES = 1000
MOST_CLASSES = 1000


def read_file(file_path: str) -> str:
    """The text of a file in the workspace, with a mark where it is cut."""
    path = current().workspace.inside(file_path)
    if not path.is_file():
        what = "a folder" if path.is_dir() else "no such file"
        raise GenlabError(f"{file_path}: {what}; list_directory tells what is there")
    text = path.read_text(encoding="utf-8", errors="replace")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n[... cut at {LONGEST} characters]"


def write_file(file_path: str, content: str) -> None:
    """Write a text file in the workspace, whole or not at all; folders are made."""
    path = current().writable(file_path)
    if path.is_dir():
        raise GenlabError(f"{file_path}: that is a folder; name a file")
    if len(content) > LONGEST:
        raise GenlabError(f"{file_path}: {len(content)} characters, at most {LONGEST}; write less")
    write_text(path, content.encode("utf-8", "replace").decode("utf-8"))


def bash_run(command: str) -> str:
    """What a line of bash says in the sandbox, and its exit code; there is no network in it.

    `pip install` is refused, unless the param `agent.allow_pip` lets it install packages into the
    workspace.
    """
    box = current()
    words = packages.pip_words(command)
    return shell.bash(box, command) if words is None else packages.install(box, words)


def python_run(script_path: str, *args: str) -> str:
    """What a script of the workspace says in the sandbox, and its exit code."""
    box = current()
    path = box.workspace.inside(script_path)
    if not path.is_file():
        raise GenlabError(f"{script_path}: no such script; list_directory tells what is there")
    return shell.python(box, box.workspace.relative(path), [str(each) for each in args])


def list_directory(path: str = ".", recursive: bool = False) -> list[str]:
    """Names in a folder of the workspace, relative to it and sorted; folders end in a slash."""
    box = current()
    folder = box.workspace.inside(path)
    if not folder.is_dir():
        raise GenlabError(f"{path}: no such folder; list_directory('.') tells what is there")
    root = box.workspace.root.resolve()
    found = []
    for each in sorted(folder.rglob("*") if recursive else folder.iterdir()):
        parts = each.relative_to(root).parts
        if parts[0] == PACKAGES and len(parts) > 1:
            continue  # thousands of files that nobody wrote here
        found.append("/".join(parts) + ("/" if each.is_dir() and not each.is_symlink() else ""))
    more = len(found) - MOST_ENTRIES
    return [*found[:MOST_ENTRIES], *([f"[... and {more} more]"] if more > 0 else [])]


def create_pytorch_project_scaffold(project_name: str, base_dir: str = ".") -> None:
    """Make `workspaces/<project_name>/` under `base_dir`; a project that is there is left alone.

    Within a bound toolbox `base_dir` is relative to the folder that holds its `workspaces`, and
    doesn't lead out of it.
    """
    box = bound()
    if box is None:
        scaffold(project_name, base_dir)
        return
    home = box.workspace.root.resolve().parent.parent
    base = (home / base_dir).resolve()
    if not base.is_relative_to(home):
        raise GenlabError(f"base_dir {base_dir!r} leads out of {home}; choose a folder in it")
    scaffold(project_name, base)


def pytorch_model_assembler(model_config: dict[str, Any], output_script_path: str) -> None:
    """Write the nn.Module of a config to a file: by the tool LLM, or else by the template.

    model_config: the fields of `space.ModelConfig`, mended where they don't fit; `input_size`
    (channels, height, width) and `num_classes` stand for those of the goal's dataset. What was
    mended, and who wrote the code, stands in the head of the file.
    """
    box = current()
    path = box.writable(output_script_path)
    if path.suffix != ".py":
        raise GenlabError(f"output_script_path must end in .py, got {output_script_path!r}")
    wanted = _wanted(model_config)
    shape, classes = _fits(box, model_config)
    found = repaired(wanted, shape, classes, box.max_parameters)
    probe = partial(box.inspector.probe, shape=shape)
    written = assemble(found.config, shape, classes, box.backend, probe, box.max_repairs)
    code = _headed(written.source, written.origin, [*found.edits, *written.faults])
    architecture = found.config.model_dump(mode="json")
    trials.noted(box, code, written.origin, architecture)
    write_text(path, code)
    if path == box.workspace.root.resolve() / MODEL:
        write_text(box.workspace.root / CONFIG, as_yaml({"architecture": architecture}))


def pytorch_model_summary(
    model_script_path: str, model_class_name: str, input_size: tuple[int, ...]
) -> dict[str, Any]:
    """Parameters, multiply-adds, output and layers of a model, measured; and an LLM's words.

    input_size: channels, height, width, perhaps with a batch before. Raises GenlabError where the
    class isn't there, breaks, or doesn't take that size.
    """
    box = current()
    code = _code(box, model_script_path, model_class_name)
    size = checked_size(input_size)
    found = box.inspector.summary(code, model_class_name, size)
    if found.failure:
        raise GenlabError(
            f"{model_script_path}: {model_class_name} gives no answer to input_size"
            f" {tuple(input_size)}: {found.failure}; mend the class or the size"
        )
    return analysed(found, box.backend)


def pytorch_quick_evaluator(
    model_script_path: str, model_class_name: str, eval_config: dict[str, Any]
) -> dict[str, Any]:
    """Train a model for a moment and mark it on the validation part.

    eval_config: the fields of `quick_evaluator.EvalConfig`. Returns accuracy, val_loss, train_loss,
    seconds and run_id, and what each seed gave; the attempt is in the registry then, also where it
    failed (a GenlabError that names it).
    """
    box = current()
    config = _eval_config(eval_config)
    code = _code(box, model_script_path, model_class_name)
    return trials.tried(box, code, model_class_name, config)


def promote(
    run_id: str,
    *,
    epochs: int = 20,
    seeds: Sequence[int] = (0, 1, 2),
    time_limit: float = 3600.0,
    device: str = "cpu",
) -> dict[str, Any]:
    """Train an attempt at full length on several seeds; kept in `experiments/<run_id>/`.

    See `trials.promoted`.
    """
    return trials.promoted(
        current(), run_id, epochs=epochs, seeds=seeds, time_limit=time_limit, device=device
    )


def _eval_config(given: object) -> EvalConfig:
    if not isinstance(given, Mapping):
        raise GenlabError(f"eval_config must be fields with values, got {str(given)[:60]!r}")
    return eval_config({str(key): value for key, value in given.items()})


def _code(box: Toolbox, path: str, class_name: str) -> str:
    """The text of a model's file that has the class."""
    code = read_file(path)
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        where = f" at line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise GenlabError(f"{path} does not parse{where}: {error}; mend it") from error
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    if class_name not in classes:
        known = ", ".join(classes[:10]) or "none"
        raise GenlabError(f"{path}: no class {class_name!r} is in it (it has {known}); name one")
    return code


def _wanted(model_config: object) -> dict[str, Any]:
    """The architecture's part of a config. Raises GenlabError where it says nothing of one."""
    known = sorted(ModelConfig.model_fields)
    if not isinstance(model_config, Mapping) or not set(model_config) & set(known):
        raise GenlabError(
            f"model_config must say some of {', '.join(known)}, got {str(model_config)[:60]!r}"
        )
    apart = ("input_size", "num_classes")
    return {str(key): value for key, value in model_config.items() if key not in apart}


def _fits(box: Toolbox, model_config: Mapping[str, Any]) -> tuple[Input, int]:
    """Shape of an image and number of classes: the config's own, or those of the goal's data."""
    size, classes = model_config.get("input_size"), model_config.get("num_classes")
    if size is None or classes is None:
        text = goal_of(box.workspace.root)
        if not text:
            raise GenlabError(
                "model_config must say input_size and num_classes: this workspace has no goal"
            )
        asked = box.evaluator.exam(EvalConfig(dataset=goal(text).dataset))
        size = asked.shape if size is None else size
        classes = asked.classes if classes is None else classes
    if not isinstance(classes, int) or not 2 <= classes <= MOST_CLASSES:
        raise GenlabError(f"num_classes must be 2 to {MOST_CLASSES}, got {str(classes)[:40]}")
    channels, height, width = checked_size(size)[1:]
    return (channels, height, width), classes


def _headed(code: str, origin: str, remarks: Sequence[str]) -> str:
    """Code under a comment that says who wrote it, and what was mended."""
    lines = [f"Written by: {origin}", *(" ".join(each.split())[:160] for each in remarks[:20])]
    return "".join(f"# {line}\n" for line in lines) + code
