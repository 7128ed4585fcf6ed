"""Evaluation of models of the user's own grids, whose distribution is unknown."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from genlab.datasets.arc_grids import load_split
from genlab.datasets.own_grids import describe_task_limits, load_tasks
from genlab.evaluation import figures
from genlab.evaluation.evaluators.base import Arrays, Evaluator, Metrics, merge
from genlab.evaluation.evaluators.grid_samples import draw_grid_samples
from genlab.evaluation.evaluators.summary import OwnGridSummary
from genlab.evaluation.metrics import own_grids, reconstruction
from genlab.vae.models.vae import Items

Numbers = npt.NDArray[np.int64]

FIGURE_SAMPLES = 32
QUERIES = 200  # samples whose nearest training grid is searched, for the gallery
CHUNK = 2000  # training grids that a sample is compared with at a time


class OwnGridEvaluator(Evaluator):
    """Evaluate a model of grids of unknown distribution: without a valid rate or an entropy.

    samples: {sampler: (s, h, w)}.
    """

    train: Items
    samples: Mapping[str, Items]

    def list_limits(self) -> list[str]:
        """Warnings about metrics that the splits have too few tasks for, a sentence each."""
        tasks = {name: load_tasks(self.paths.data, name) for name in ("val", "test")}
        return describe_task_limits(tasks)

    def measure(self) -> Metrics:
        """Reconstruct the test split, sample, and measure both."""
        data = self.paths.data
        self.train = load_split(data, "train")
        test = load_split(data, "test")
        tasks = load_tasks(data, "test")
        self.infer(test)
        accuracies = reconstruction.grid_metrics(
            test, self.inferred.predicted, groups=tasks, values=own_grids.VALUES, **self.resampling
        )
        lengths = own_grids.code_lengths(
            self.inferred.nats + self.inferred.kl,
            own_grids.context_nats(self.train, test),
            test,
            tasks,
            **self.resampling,
        )
        return {
            **merge(accuracies, self.measure_bounds(), lengths),
            "tasks": len(np.unique(tasks)),
            "floor": own_grids.component_distances(self.train, test),
            **self._measure_samplers(),
        }

    def _measure_samplers(self) -> Metrics:
        """Compare samples with the test split; choose the best sampler on the validation split.

        The sampler is chosen by draws of another seed than those that are reported.
        """
        val = load_split(self.paths.data, "val")
        self.samples, choosing = draw_grid_samples(self.model, self.train, self.params)
        metrics: Metrics = {
            name: {
                **own_grids.component_distances(grids, self.test),
                **own_grids.novelty(grids, self.train),
                "selection": own_grids.component_distances(choosing[name], val),
            }
            for name, grids in self.samples.items()
        }
        for distances in metrics.values():
            distances["component_distance"] = average_distance(distances)
        best = min(metrics, key=lambda name: average_distance(metrics[name]["selection"]))
        return {"samplers": metrics, "best_sampler": best}

    def summarise(self, metrics: Metrics) -> OwnGridSummary:
        """Select the scalars of metrics/<dataset>.json."""
        best = metrics["samplers"][metrics["best_sampler"]]
        exact = {"exact_match": metrics["exact_grid_accuracy"]}
        return OwnGridSummary.model_validate({**best, **metrics, **exact})

    def draw_figures(self, metrics: Metrics) -> None:
        """Draw reconstructions and samples."""
        folder = self.paths.plots
        path = folder / "reconstructions.png"
        inferred = self.inferred
        figures.draw_reconstructions(
            path, self.test, inferred.predicted, "Test grids", inferred.margins
        )
        histograms = {"Test grids": metrics["colour_histogram"]}
        figures.draw_colour_histograms(folder / "colours.png", histograms)
        for name, grids in self.samples.items():
            if name != "ancestral":  # looks like `prior`, but also draws the cells
                novelty = metrics["samplers"][name]["novelty"]
                title = f"Sampler {name}: {novelty:.0%} are no training grid"
                path = folder / f"samples_{name}.png"
                figures.draw_grid_board(path, grids[:FIGURE_SAMPLES], title)

    def collect_arrays(self, metrics: Metrics) -> Arrays:
        """Collect reconstructions, and samples of the best sampler with nearest training grids."""
        samples = self.samples[metrics["best_sampler"]][:QUERIES]
        rows, cells = find_nearest_grids(samples, self.train)
        return {
            "predicted": self.inferred.predicted,
            "nats": self.inferred.nats,
            "margins": self.inferred.margins,
            "samples": samples,
            "sample_errors": cells,
            "sample_nearest": self.train[rows],
        }


def average_distance(distances: Mapping[str, float]) -> float:
    """Average the three distances of components."""
    names = ("component_number", "component_size", "component_colour")
    return float(np.mean([distances[name] for name in names]))


def find_nearest_grids(samples: Items, train: Items) -> tuple[Numbers, Numbers]:
    """Find the training grid that differs least from each sample.

    Returns its row and the number of cells that differ, (n,) each.
    """
    rows = np.zeros(len(samples), dtype=np.int64)
    cells = np.full(len(samples), samples[0].size + 1, dtype=np.int64)
    for start in range(0, len(train), CHUNK):
        chunk = train[start : start + CHUNK]
        for index, sample in enumerate(samples):
            wrong = np.count_nonzero(chunk != sample, axis=(1, 2))
            nearest = int(wrong.argmin())
            if wrong[nearest] < cells[index]:
                rows[index] = start + nearest
                cells[index] = wrong[nearest]
    return rows, cells
