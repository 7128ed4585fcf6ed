"""Tools that write and describe a model; the tool that trains it is in `evaluation`."""

from __future__ import annotations  # signatures show annotations as they are written

import math
from typing import Any

from genlab.agent.architecture.schema import parse_config
from genlab.agent.library import modules
from genlab.agent.library.toolbox import current_toolbox
from genlab.agent.tools.files import read_file, resolve_writable
from genlab.agent.workspace import CONFIG, MODEL
from genlab.core.config_yaml import format_config
from genlab.core.errors import GenlabError
from genlab.core.io import write_text

MAX_CELLS = 1 << 24  # of an input


def pytorch_model_assembler(model_config: dict[str, Any], output_script_path: str) -> None:
    """Write the nn.Module of a model_config to a .py file in src: by a language model, or template.

    A language model's file is checked in the sandbox. The first lines say who wrote the file.
    """
    toolbox = current_toolbox()
    path = resolve_writable(output_script_path)
    if path.suffix != ".py":
        raise GenlabError(f"output_script_path must end in .py, got {output_script_path!r}")
    module = modules.assemble(toolbox, parse_config(model_config, toolbox.goal.task))
    write_text(path, module.source)
    if path == toolbox.workspace.root.resolve() / MODEL:
        write_text(toolbox.workspace.root / CONFIG, format_config({"model_config": module.config}))


def pytorch_model_summary(
    model_script_path: str, model_class_name: str, input_size: tuple[int, ...]
) -> dict[str, Any]:
    """Measure a model: parameters, multiply_adds, output, layers, and all of it as `text`.

    With a language model's analysis of the code. input_size: channels, height and width, with or
    without a batch size before them.
    """
    toolbox = current_toolbox()
    source = read_file(model_script_path)
    shape = tuple(input_size)
    if len(shape) not in (3, 4) or min(shape) < 1 or math.prod(shape[-3:]) > MAX_CELLS:
        rule = f"channels, height, width, such as (1, 28, 28), of at most {MAX_CELLS} cells"
        raise GenlabError(f"input_size must be {rule}, got {shape}")
    channels, height, width = shape[-3:]
    size = None if shape[-3:] == toolbox.data.shape else (channels, height, width)
    summary = toolbox.inspect(source, model_class_name, size)
    if summary.failure:
        fault = f"{model_script_path}: {model_class_name} fails for input_size {shape}"
        raise GenlabError(f"{fault}: {summary.failure}; correct the class or the size")
    analysis = modules.analyse(toolbox, modules.recall(toolbox, source, model_class_name))
    text = modules.format_summary(summary)
    return {**summary.model_dump(mode="json"), "text": text, "analysis": analysis}
