"""The agent's nine tools.

They act on the toolbox that is bound around them (`bind_toolbox`), or on the workspace that holds
the current folder. Every path is relative to that workspace and cannot leave it. A mistake that the
caller can correct raises a `GenlabError` of one line.
"""

from collections.abc import Callable
from typing import Any

from genlab.agent.library.toolbox import Toolbox, bind_toolbox
from genlab.agent.tools.commands import bash_run, python_run
from genlab.agent.tools.evaluation import EvaluationFailedError, pytorch_quick_evaluator
from genlab.agent.tools.files import (
    create_pytorch_project_scaffold,
    list_directory,
    read_file,
    write_file,
)
from genlab.agent.tools.model import pytorch_model_assembler, pytorch_model_summary

__all__ = [
    "TOOLS",
    "EvaluationFailedError",
    "Toolbox",
    "bash_run",
    "bind_toolbox",
    "create_pytorch_project_scaffold",
    "list_directory",
    "python_run",
    "pytorch_model_assembler",
    "pytorch_model_summary",
    "pytorch_quick_evaluator",
    "read_file",
    "write_file",
]  # fmt: skip

TOOLS: dict[str, Callable[..., Any]] = {
    tool.__name__: tool
    for tool in (
        read_file, write_file, bash_run, python_run, list_directory,
        create_pytorch_project_scaffold, pytorch_model_assembler, pytorch_model_summary,
        pytorch_quick_evaluator,
    )
}  # fmt: skip
