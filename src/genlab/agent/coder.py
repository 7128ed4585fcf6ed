"""Who writes the code of an attempt: the tool LLM, the tool LLM on second thoughts, or a template.

Nothing is saved that was not checked: it parses, imports only what is allowed, builds, answers with
the right shape, and has about as many parameters as its config says. A fault goes back to the LLM a
few times; after that the template of the config stands in, and the record says so.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import BaseModel, Field

from genlab.agent.llm import Backend, LLMFailure, Message, Question
from genlab.agent.space import Input, ModelConfig
from genlab.agent.template import source as template

ALLOWED = (
    "__future__", "collections", "dataclasses", "functools", "itertools", "math", "torch", "typing"
)  # fmt: skip
TOLERANCE = 0.1  # of the parameters that the config says
LONGEST = 40_000  # characters of a model's file
ANSWER_TOKENS = 3000

Probe = Callable[[str, str], "Probed"]
"""(source, class name) -> what the sandbox found when it built the class."""


@dataclass(frozen=True)
class Probed:
    """A model that was built in the sandbox; `failure` says in a line why it was not."""

    parameters: int = 0
    output: tuple[int, ...] = ()  # shape for a batch of two
    failure: str = ""


class Code(BaseModel):
    """What the tool LLM answers with."""

    code: str = Field(description="the whole Python file")


@dataclass
class Written:
    """A file that was checked; origin: llm, llm+repaired(n) or template. faults: a line each."""

    source: str
    origin: str
    faults: list[str] = field(default_factory=list)


def assemble(
    config: ModelConfig,
    shape: Input,
    classes: int,
    backend: Backend | None,
    probe: Probe,
    max_repairs: int,
) -> Written:
    """The code of `config`; without a backend it is the template's."""
    faults: list[str] = []
    if backend is not None:
        messages = ask_for_code(config, shape, classes)
        for repairs in range(max_repairs + 1):
            try:
                found = backend.ask(Question("tools", messages, Code, ANSWER_TOKENS))
            except LLMFailure as error:
                faults.append(f"no answer: {error.reason}")
                break
            assert isinstance(found.parsed, Code)
            fault = fault_of(found.parsed.code, config, shape, classes, probe)
            if not fault:
                origin = f"llm+repaired({repairs})" if repairs else "llm"
                return Written(found.parsed.code, origin, faults)
            faults.append(fault)
            messages = [*messages, *ask_for_repair(found.text, fault)]
    return Written(template(config, shape, classes), "template", faults)


def fault_of(code: str, config: ModelConfig, shape: Input, classes: int, probe: Probe) -> str:
    """What is wrong with `code`, in a line; empty where nothing is."""
    if fault := fault_of_text(code, config.name):
        return fault
    found = probe(code, config.name)
    if found.failure:
        return found.failure
    if found.output != (2, classes):
        return f"forward gives {found.output} for two images, it must give (2, {classes})"
    wanted = config.parameters(shape, classes)
    if abs(found.parameters - wanted) > TOLERANCE * wanted:
        return f"it has {found.parameters} parameters, the config says {wanted}"
    return ""


def fault_of_text(code: str, class_name: str) -> str:
    """What can be seen without running it: syntax, imports, and whether the class is there."""
    if len(code) > LONGEST:
        return f"the file has {len(code)} characters, at most {LONGEST} are read"
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        reason = getattr(error, "msg", None) or str(error) or type(error).__name__
        return f"it does not parse: {' '.join(str(reason).split())[:200]}" + (
            f" at line {line}" if line else ""
        )
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = ["." * node.level + (node.module or "")]
        for name in names:
            if name.split(".")[0] not in ALLOWED:
                return f"it imports {name[:60]!r}; allowed are {', '.join(ALLOWED)}"
    classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    if class_name not in classes:
        return f"there is no class {class_name} in it (it has {', '.join(classes) or 'none'})"
    return ""


SYSTEM = """You write one PyTorch file with one nn.Module class that takes no arguments, and nothing
that runs when it is imported. You answer in JSON: {"code": "..."}."""


def ask_for_code(config: ModelConfig, shape: Input, classes: int) -> list[Message]:
    """The messages that ask for the file of `config`."""
    channels, height, width = shape
    told = (
        f"Write class {config.name}(nn.Module) for this architecture:\n"
        f"{config.model_dump_json()}\n"
        f"It takes images of shape (batch, {channels}, {height}, {width}) and returns logits of"
        f" shape (batch, {classes}).\n"
        "After the blocks comes nn.AdaptiveAvgPool2d(1); `halve` is nn.MaxPool2d(2,"
        " ceil_mode=True) after a block; a residual block adds its input (by a 1 x 1 convolution"
        " where channels differ); depthwise is a convolution a channel, then a 1 x 1 convolution."
        f" It has {config.parameters(shape, classes)} parameters.\n"
        f"Import only from: {', '.join(ALLOWED)}."
    )
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": told}]


def ask_for_repair(answer: str, fault: str) -> list[Message]:
    """The messages that hand a fault back."""
    return [
        {"role": "assistant", "content": answer},
        {"role": "user", "content": f"That does not work: {fault}. Answer with the whole file."},
    ]
