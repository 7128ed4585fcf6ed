"""The evaluation of models of one's own grids, of which no generator is known."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import numpy.typing as npt

from genlab.core import engine
from genlab.datasets.arc_grids import load_split
from genlab.datasets.own_grids import describe_task_limits, load_tasks
from genlab.evaluation import figures
from genlab.evaluation.evaluators.base import Arrays, Evaluator, Items, Metrics, merge
from genlab.evaluation.evaluators.summary import OwnGridSummary
from genlab.evaluation.metrics import own_grids, reconstruction
from genlab.vae.sampling import samplers

Numbers = npt.NDArray[np.int64]

PICTURED, COMPARED = 32, 16  # samples in a figure; pairs of input and output in one
SELECTION_SEED = 1_000_000  # added to the seed of the draws that samplers are compared on
NEAREST = 200  # samples whose nearest training grid is searched, for the gallery
CHUNK = 2000  # training grids that a sample is compared with at a time


class OwnGridEvaluator(Evaluator):
    """Evaluate a model of grids that came without a distribution: no valid rate, no entropy.

    samples: {sampler: (s, h, w)}.
    """

    train: Items
    samples: Mapping[str, Items]

    def list_limits(self) -> list[str]:
        """Which figures a set of this size cannot carry, a sentence each."""
        tasks = {name: load_tasks(self.paths.data, name) for name in ("val", "test")}
        return describe_task_limits(tasks)

    def measure(self) -> Metrics:
        """Reconstruct the test split, sample, and measure both."""
        data = self.paths.data
        self.train, test = load_split(data, "train"), load_split(data, "test")
        tasks = load_tasks(data, "test")
        self.infer(test)
        found = reconstruction.grid_metrics(
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
            **merge(found, self.measure_bounds(), lengths),
            "tasks": len(np.unique(tasks)),
            "floor": own_grids.component_distances(self.train, test),
            **self._measure_samplers(),
        }

    def _measure_samplers(self) -> Metrics:
        """Every sampler against the test split; the best one is picked on other draws.

        These are compared with the validation split.
        """
        model, seed, count = self.model, self.params.seed, self.params.evaluate.samples
        val = load_split(self.paths.data, "val")
        fitted = {n: samplers.fit(model, n, self.train, seed) for n in samplers.list_names(model)}
        draw = partial(samplers.sample_all, model, fitted, count)
        with engine.torch_threads(1), ThreadPoolExecutor(self.params.threads) as pool:
            self.samples, choosing = pool.map(draw, (seed, seed + SELECTION_SEED))
        found = {
            name: {
                **own_grids.component_distances(grids, self.test),
                **own_grids.novelty(grids, self.train),
                "selection": own_grids.component_distances(choosing[name], val),
            }
            for name, grids in self.samples.items()
        }
        for facts in found.values():
            facts["component_distance"] = mean_distance(facts)
        best = min(found, key=lambda name: mean_distance(found[name]["selection"]))
        return {"samplers": found, "best_sampler": best}

    def summarise(self, metrics: Metrics) -> OwnGridSummary:
        """Select the scalars of metrics/<dataset>.json."""
        best = metrics["samplers"][metrics["best_sampler"]]
        exact = {"exact_match": metrics["exact_grid_accuracy"]}
        return OwnGridSummary.model_validate({**best, **metrics, **exact})

    def draw(self, metrics: Metrics) -> None:
        """Draw reconstructions and samples."""
        folder = self.paths.plots
        pairs = self.test[:COMPARED], self.inferred.predicted[:COMPARED]
        figures.draw_reconstructions(folder / "reconstructions.png", *pairs, "Test grids")
        for name, grids in self.samples.items():
            if name != "ancestral":  # looks like `prior`: it only draws the cells, too
                new = metrics["samplers"][name]["novelty"]
                title = f"Sampler {name}: {new:.0%} are no training grid"
                figures.draw_grid_board(folder / f"samples_{name}.png", grids[:PICTURED], title)

    def arrays(self, metrics: Metrics) -> Arrays:
        """Reconstructions, and samples of the best sampler with their nearest training grids."""
        samples = self.samples[metrics["best_sampler"]][:NEAREST]
        rows, cells = find_nearest(samples, self.train)
        return {
            "predicted": self.inferred.predicted,
            "nats": self.inferred.nats,
            "margins": self.inferred.margins,
            "samples": samples,
            "sample_errors": cells,
            "sample_nearest": self.train[rows],
        }


def mean_distance(facts: Mapping[str, float]) -> float:
    """Mean of the three distances of components."""
    names = ("component_number", "component_size", "component_colour")
    return float(np.mean([facts[name] for name in names]))


def find_nearest(samples: Items, train: Items) -> tuple[Numbers, Numbers]:
    """Rows of the training grids that differ least from each sample, and in how many cells."""
    rows = np.zeros(len(samples), dtype=np.int64)
    cells = np.full(len(samples), samples[0].size + 1, dtype=np.int64)
    for start in range(0, len(train), CHUNK):
        part = train[start : start + CHUNK]
        for index, sample in enumerate(samples):
            wrong = np.count_nonzero(part != sample, axis=(1, 2))
            nearest = int(wrong.argmin())
            if wrong[nearest] < cells[index]:
                rows[index], cells[index] = start + nearest, wrong[nearest]
    return rows, cells
