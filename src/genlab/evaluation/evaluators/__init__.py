"""Evaluators: a checkpoint and a test split in; metrics, verdict, diagnosis and figures out."""

from genlab.core.params import Params
from genlab.datasets.registry import Dataset
from genlab.evaluation.evaluators.base import EvaluationPaths, Evaluator
from genlab.evaluation.evaluators.grids import GridEvaluator
from genlab.evaluation.evaluators.images import ImageEvaluator

__all__ = ["EvaluationPaths", "make_evaluator"]


def make_evaluator(params: Params, dataset: Dataset, paths: EvaluationPaths) -> Evaluator:
    """The evaluator of a dataset; reads the checkpoint.

    Raises GenlabError where the checkpoint is missing, truncated or of another kind.
    """
    kind = GridEvaluator if dataset.kind == "grids" else ImageEvaluator
    return kind(params, dataset, paths)
