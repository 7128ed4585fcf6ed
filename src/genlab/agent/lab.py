"""The rooms that a run works in: one warm worker builds, describes and trains its models."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path

from genlab.agent.candidate import Constraints
from genlab.agent.quick_evaluator import EvalConfig, Evaluator
from genlab.agent.summary import Inspector


class Lab(AbstractContextManager["Lab"]):
    """An evaluator and an inspector, started when they are first needed; close it when done.

    data: the folder that holds the folders of the datasets; mode: of the sandbox.
    """

    def __init__(self, data: Path, mode: str = "auto") -> None:
        self.data, self.mode = data, mode

    @cached_property
    def evaluator(self) -> Evaluator:
        """Where models are trained and marked."""
        return Evaluator(self.data, mode=self.mode)

    @cached_property
    def inspector(self) -> Inspector:
        """Where they are built and described, by the same worker: it imports torch once."""
        return Inspector(worker=self.evaluator.worker)

    def constraints(self, config: EvalConfig, most_parameters: int) -> Constraints:
        """What candidates for the exam of `config` have to fit into."""
        exam = self.evaluator.exam(config)
        return Constraints(exam.shape, exam.classes, most_parameters, config.epochs, config.subset)

    def close(self) -> None:
        """End the worker, if there is one."""
        self.__dict__.pop("inspector", None)
        if "evaluator" in self.__dict__:
            self.__dict__.pop("evaluator").close()

    def __exit__(self, *_: object) -> None:
        self.close()
