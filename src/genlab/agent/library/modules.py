"""Write the module of a config, inspect and analyse it, and remember who wrote it.

`trials.train` trains what `assemble` returns. Who wrote a file is stored under the file's digest in
a folder that no tool can write: a comment in the file could claim anything.
"""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from genlab.agent.architecture.schema import ModelConfig, has_custom
from genlab.agent.architecture.template import write_source
from genlab.agent.evaluator.results import ModelSummary
from genlab.agent.library.toolbox import Toolbox
from genlab.core.errors import GenlabError
from genlab.core.io import read_json, write_json
from genlab.llm.chat import LLMFailure, Message

NOTES = "written"  # folder of the notes on who wrote a file
NOTE_KIND = "assembled code"  # as a note names itself
CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
MAX_CODE = 40_000  # characters of a file that a language model writes or reads
PLANNER = "planner"  # who wrote code that came with a proposal, or by write_file in mode tools

WRITE = """You write one Python file with one class, a torch.nn.Module whose constructor takes no
arguments. Nothing runs when the file is imported. You answer in JSON: {"code": "the file",
"analysis": "two or three sentences on where the model's capacity lies and what it may lack"}."""
DESCRIBE = """You review PyTorch code. You answer in JSON: {"analysis": "two or three sentences on
where the model's capacity lies and what it may lack"}."""

CONTRACT = {
    "classify": "forward(x) takes float32 images of shape (n, {shape}) in [0, 1] and returns logits"
    " of shape (n, {outputs}).",
    "generate": "encode(x) takes float32 images of shape (n, {shape}) in [0, 1] and returns (mean,"
    " logvar), each of shape (n, d); decode(z) takes z of shape (n, d) and returns parameters of"
    " shape (n, {outputs}, {sides}).",
}


class Code(BaseModel):
    """The answer of a language model that writes a file."""

    code: str = Field(description="the whole Python file", max_length=MAX_CODE)
    analysis: str = Field("", max_length=1500)


class Analysis(BaseModel):
    """The answer of a language model that reads a file."""

    analysis: str = Field("", max_length=1500)


class Module(BaseModel):
    """A Python file that defines a model as a torch.nn.Module.

    config: the model_config that it was written for, empty where there is none. origin: who wrote
    it: template, llm, llm+repaired(n), planner or file. analysis: what the language model that
    wrote or read it says about it.
    """

    model_config = ConfigDict(frozen=True)

    source: str
    class_name: str
    config: dict[str, Any] = Field(default_factory=dict)
    origin: str = "file"
    analysis: str = ""


def assemble(toolbox: Toolbox, config: ModelConfig) -> Module:
    """Write the module of a config, by the tools' language model or else by the template.

    A language model's file is checked in the sandbox and repaired up to `max_repairs` times. The
    first lines of the file say who wrote it. Raises a GenlabError for a config with a custom layer,
    which the template cannot write, where no language model could write it either.
    """
    backend = toolbox.backend
    faults = list[str]()
    messages = _ask_for_code(toolbox, config)
    config_json = config.model_dump(mode="json")
    while backend is not None and len(faults) <= toolbox.params.max_repairs:
        try:
            answer = backend.ask("tools", messages, schema=Code)
        except LLMFailure as error:
            faults.append(f"no answer: {error.reason}")
            break
        assert isinstance(answer.parsed, Code)
        origin = f"llm+repaired({len(faults)})" if faults else "llm"
        module = Module(
            source=_add_header(answer.parsed.code, origin, faults),
            class_name=config.name,
            config=config_json,
            origin=origin,
            analysis=answer.parsed.analysis,
        )
        fault = inspect(toolbox, module).failure
        if not fault:
            return remember(toolbox, module)
        faults.append(fault)
        repair = f"That does not work: {fault}. Answer with the whole file."
        messages.append({"role": "assistant", "content": answer.text})
        messages.append({"role": "user", "content": repair})
    if has_custom(config):
        reason = faults[-1] if faults else "no language model that writes code is configured"
        raise GenlabError(f"the custom layer of {config.name} was not written: {reason}")
    source = _add_header(write_source(config, *toolbox.contract), "template", faults)
    module = Module(source=source, class_name=config.name, config=config_json, origin="template")
    return remember(toolbox, module)


def inspect(toolbox: Toolbox, module: Module) -> ModelSummary:
    """Build a module in the sandbox and check it; an error is the `failure` of the summary."""
    return toolbox.inspect(module.source, module.class_name)


def analyse(toolbox: Toolbox, module: Module) -> str:
    """Ask the tools' language model about the code, once per file; empty where there is none."""
    if module.analysis or toolbox.backend is None:
        return module.analysis
    messages = [
        {"role": "system", "content": DESCRIBE},
        {"role": "user", "content": module.source[:MAX_CODE]},
    ]
    try:
        answer = toolbox.backend.ask("tools", messages, schema=Analysis)
    except LLMFailure as error:
        return f"[no analysis: {error.reason}]"
    assert isinstance(answer.parsed, Analysis)
    remember(toolbox, module.model_copy(update={"analysis": answer.parsed.analysis}))
    return answer.parsed.analysis


def remember(toolbox: Toolbox, module: Module) -> Module:
    """Store who wrote a module's file, and for which config; returns the module."""
    note = module.model_dump(include={"config", "origin", "analysis"})
    write_json(_note_path(toolbox, module.source), {"kind": NOTE_KIND, **note})
    return module


def recall(toolbox: Toolbox, source: str, class_name: str) -> Module:
    """Make a module from source code, with what is stored about it; origin `file` if nothing is."""
    path = _note_path(toolbox, source)
    note = read_json(path, producer_command=f"rm {path}", kind=NOTE_KIND) if path.is_file() else {}
    return Module.model_validate({**note, "source": source, "class_name": class_name})


def find_class(source: str) -> str:
    """Find the name of a file's class: `Model`, or else the last class.

    The file is searched as text, since only the sandbox may parse it. Raises a GenlabError for a
    file without a class.
    """
    names: list[str] = CLASS.findall(source)
    if not names:
        raise GenlabError("code: it has no class; send a file with one torch.nn.Module")
    return "Model" if "Model" in names else names[-1]


def format_summary(summary: ModelSummary) -> str:
    """Format a summary as a table, one layer per line."""
    if summary.failure:
        return summary.failure
    lines = [
        f"{layer['name']:<28} {layer['kind']:<22} {layer['output']!s:<22}"
        f" {layer['parameters']:>10,}"
        for layer in summary.layers
    ]
    header = f"{'layer':<28} {'type':<22} {'output':<22} {'parameters':>10}"
    total = f"parameters {summary.parameters or 0:,}, trainable {summary.trainable or 0:,}"
    operations = "unknown" if summary.multiply_adds is None else f"{summary.multiply_adds:,}"
    return "\n".join([header, *lines, f"{total}, multiply-adds per item {operations}"])


def describe_contract(task: str, shape: Sequence[int], outputs: int) -> str:
    """Describe what the methods of a module take and return. shape: channels, height, width."""
    image_shape = ", ".join(map(str, shape))
    sides = ", ".join(map(str, shape[1:]))
    return CONTRACT[task].format(shape=image_shape, outputs=outputs, sides=sides)


def _ask_for_code(toolbox: Toolbox, config: ModelConfig) -> list[Message]:
    shape, outputs, task = toolbox.contract
    text = (
        f"Write class {config.name}(nn.Module) for this architecture:\n{config.model_dump_json()}\n"
        "Layers are applied in order; Residual adds its input, Parallel applies its branches to one"
        " input, Repeat repeats its layers, custom is described in words.\n"
        f"{describe_contract(task, shape, outputs)}"
        f" It has at most {toolbox.settings.budget.max_parameters:,} parameters."
    )
    return [{"role": "system", "content": WRITE}, {"role": "user", "content": text}]


def _note_path(toolbox: Toolbox, source: str) -> Path:
    digest = hashlib.sha256(source.encode()).hexdigest()
    return toolbox.workspace.experiments / NOTES / f"{digest}.json"


def _add_header(source: str, origin: str, faults: Sequence[str]) -> str:
    """Put comments above source code: who wrote it, and the faults of earlier versions."""
    lines = [f"Written by: {origin}"]
    lines += [" ".join(fault.split())[:160] for fault in faults]
    header = "".join(f"# {line}\n" for line in lines)
    return header + source.encode("utf-8", "replace").decode("utf-8")
