"""Tools that write and describe a model; `evaluation` has the one that trains it.

Who wrote a file is remembered by its digest in the judge's folder: a comment could claim anything.
"""

from __future__ import annotations  # signatures show annotations as they are written

import hashlib
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field
from ruamel.yaml import YAML

from genlab.agent.architecture.schema import ModelConfig, has_custom, parse_config
from genlab.agent.architecture.template import write_source
from genlab.agent.evaluator.results import Summary
from genlab.agent.tools.files import read_file, writable
from genlab.agent.tools.toolbox import Toolbox, current
from genlab.agent.workspace import CONFIG, MODEL
from genlab.core.errors import GenlabError
from genlab.core.io import read_json, write_json, write_text
from genlab.llm.chat import LLMFailure, Message

WRITTEN, WRITTEN_KIND = "written", "assembled code"
MAX_CELLS = 1 << 24  # of an input
MAX_CODE = 40_000  # characters of a file that a language model writes or reads

WRITE = """You write one Python file with one class, a torch.nn.Module whose constructor takes no
arguments. Nothing runs when the file is imported. You answer in JSON: {"code": "the file"}."""
CONTRACT = {
    "classify": "forward(x) takes float32 images of shape (n, {shape}) in [0, 1] and returns logits"
    " of shape (n, {outputs}).",
    "generate": "encode(x) takes float32 images of shape (n, {shape}) in [0, 1] and returns (mean,"
    " logvar), each of shape (n, d); decode(z) takes z of shape (n, d) and returns parameters of"
    " shape (n, {outputs}, {sides}).",
}
DESCRIBE = """You review PyTorch code. You answer in JSON: {"analysis": "two or three sentences on
where the model's capacity lies and what it may lack", "parameters": its number of parameters}."""


class Code(BaseModel):
    """The answer of a language model that writes a file."""

    code: str = Field(description="the whole Python file", max_length=MAX_CODE)


class Analysis(BaseModel):
    """The answer of a language model that reads a file."""

    analysis: str = Field("", max_length=1500)
    parameters: int | None = Field(None, description="number of parameters, by the code")


def pytorch_model_assembler(model_config: dict[str, Any], output_script_path: str) -> None:
    """Write the nn.Module of a model_config to a .py file in src: by a language model, or template.

    A language model's file is checked in the sandbox. The first lines say who wrote the file.
    """
    toolbox, path = current(), writable(output_script_path)
    if path.suffix != ".py":
        raise GenlabError(f"output_script_path must end in .py, got {output_script_path!r}")
    config = parse_config(model_config, toolbox.goal.task)
    source, origin = write_code(toolbox, config)
    stored = config.model_dump(mode="json")
    note = {"kind": WRITTEN_KIND, "config": stored, "origin": origin}
    write_json(_note_path(toolbox, source), note)
    write_text(path, source)
    if path == toolbox.workspace.root.resolve() / MODEL:
        write_text(toolbox.workspace.root / CONFIG, to_yaml({"model_config": stored}))


def write_code(toolbox: Toolbox, config: ModelConfig) -> tuple[str, str]:
    """Source of a config and who wrote it: llm, llm+repaired(n) or template.

    Raises a GenlabError where nobody can write it.
    """
    backend, faults = toolbox.backend, list[str]()
    messages = _ask_for_code(toolbox, config)
    while backend is not None and len(faults) <= toolbox.params.max_repairs:
        try:
            answer = backend.ask("tools", messages, schema=Code)
        except LLMFailure as error:
            faults.append(f"no answer: {error.reason}")
            break
        assert isinstance(answer.parsed, Code)
        origin = f"llm+repaired({len(faults)})" if faults else "llm"
        source = _with_head(answer.parsed.code, origin, faults)
        if not (fault := toolbox.inspect(source, config.name).failure):
            return source, origin
        faults.append(fault)
        repair = f"That does not work: {fault}. Answer with the whole file."
        messages.append({"role": "assistant", "content": answer.text})
        messages.append({"role": "user", "content": repair})
    if has_custom(config):
        reason = faults[-1] if faults else "no language model that writes code is configured"
        raise GenlabError(f"the custom layer of {config.name} was not written: {reason}")
    return _with_head(write_source(config, *toolbox.contract), "template", faults), "template"


def pytorch_model_summary(
    model_script_path: str, model_class_name: str, input_size: tuple[int, ...]
) -> dict[str, Any]:
    """Measure a model: parameters, multiply_adds, output, layers; with a language model's analysis.

    input_size: channels, height and width, with or without a batch size before them.
    """
    toolbox, source, shape = current(), read_file(model_script_path), tuple(input_size)
    if len(shape) not in (3, 4) or min(shape) < 1 or math.prod(shape[-3:]) > MAX_CELLS:
        rule = f"channels, height, width, such as (1, 28, 28), of at most {MAX_CELLS} cells"
        raise GenlabError(f"input_size must be {rule}, got {shape}")
    channels, height, width = shape[-3:]
    size = None if shape[-3:] == toolbox.data.shape else (channels, height, width)
    summary = toolbox.inspect(source, model_class_name, size)
    if summary.failure:
        place = f"{model_script_path}: {model_class_name} fails for input_size {shape}"
        raise GenlabError(f"{place}: {summary.failure}; correct the class or the size")
    return summary.model_dump(mode="json") | {"analysis": analyse(toolbox, source, summary)}


def analyse(toolbox: Toolbox, source: str, summary: Summary) -> str:
    """A language model's reading of the code, and a remark where its figure is not the measured."""
    if toolbox.backend is None:
        return ""
    try:
        answer = toolbox.backend.ask("tools", _prompt(DESCRIBE, source[:MAX_CODE]), schema=Analysis)
    except LLMFailure as error:
        return f"[no analysis: {error.reason}]"
    found = answer.parsed
    assert isinstance(found, Analysis)
    if found.parameters in (None, summary.parameters):
        return found.analysis
    remark = f"it states {found.parameters} parameters, {summary.parameters} are measured"
    return f"{found.analysis} [{remark}]"


def read_note(toolbox: Toolbox, source: str) -> tuple[dict[str, Any], str]:
    """Config and writer of a source; nothing and `file` where the assembler did not write it."""
    path = _note_path(toolbox, source)
    if not path.is_file():
        return {}, "file"
    stored = read_json(path, producer_command=f"rm {path}", kind=WRITTEN_KIND)
    return dict(stored["config"]), str(stored["origin"])


def to_yaml(value: Mapping[str, Any]) -> str:
    """Plain values as YAML in block style."""
    text = io.StringIO()
    YAML().dump(dict(value), text)
    return text.getvalue()


def _ask_for_code(toolbox: Toolbox, config: ModelConfig) -> list[Message]:
    shape, outputs, task = toolbox.contract
    named = {"shape": ", ".join(map(str, shape)), "sides": ", ".join(map(str, shape[1:]))}
    text = (
        f"Write class {config.name}(nn.Module) for this architecture:\n{config.model_dump_json()}\n"
        "Layers are applied in order; Residual adds its input, Parallel applies its branches to one"
        " input, Repeat repeats its layers, custom is described in words.\n"
        f"{CONTRACT[task].format(outputs=outputs, **named)}"
        f" It has at most {toolbox.settings.budget.max_parameters:,} parameters."
    )
    return _prompt(WRITE, text)


def _prompt(system: str, user: str) -> list[Message]:
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def _note_path(toolbox: Toolbox, source: str) -> Path:
    digest = hashlib.sha256(source.encode()).hexdigest()
    return toolbox.workspace.experiments / WRITTEN / f"{digest}.json"


def _with_head(source: str, origin: str, faults: Sequence[str]) -> str:
    """Source below comments that say who wrote it and what was wrong before."""
    lines = [f"Written by: {origin}", *(" ".join(each.split())[:160] for each in faults)]
    source = source.encode("utf-8", "replace").decode("utf-8")
    return "".join(f"# {line}\n" for line in lines) + source
