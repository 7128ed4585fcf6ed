"""The evaluator of each family of datasets: generated grids, the user's own grids, images."""

from genlab.core.params import Params
from genlab.core.params.catalogue import Dataset
from genlab.evaluation.evaluators.base import EvaluationPaths, Evaluator


def make_evaluator(params: Params, dataset: Dataset, paths: EvaluationPaths) -> Evaluator:
    """Create the evaluator of a dataset and load the checkpoint that it evaluates.

    Raises GenlabError where the checkpoint is missing, truncated or of another kind.
    """
    # Each family is imported where it is used: the imports of images alone take seconds.
    if dataset.family == "own_grids":
        from genlab.evaluation.evaluators.own_grids import OwnGridEvaluator

        return OwnGridEvaluator(params, dataset, paths)
    if dataset.family == "grids":
        from genlab.evaluation.evaluators.grids import GridEvaluator

        return GridEvaluator(params, dataset, paths)
    from genlab.evaluation.evaluators.images import ImageEvaluator

    return ImageEvaluator(params, dataset, paths)
