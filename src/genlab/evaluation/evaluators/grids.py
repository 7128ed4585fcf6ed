"""The evaluation of grid models."""

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core import engine
from genlab.core.stats import wilson_interval
from genlab.datasets.arc_agi import load_arc_agi_grids
from genlab.datasets.arc_grids import (
    bound_entropy_nats,
    load_objects,
    load_split,
)
from genlab.evaluation import figures
from genlab.evaluation.evaluators.base import Arrays, Evaluator, Items, Metrics, merge
from genlab.evaluation.evaluators.summary import GridSummary
from genlab.evaluation.metrics import likelihood, reconstruction, validity
from genlab.grids.parser import is_valid
from genlab.vae.sampling import posterior as inference
from genlab.vae.sampling import samplers

Tasks = npt.NDArray[np.int64]

PICTURED = 32  # samples in a figure
COMPARED = 16  # pairs of input and output in one
SELECTION_SEED = 1_000_000  # added to the seed of the draws that samplers are compared on
BITS = (2, 4, 6, 8)  # per latent
RANGED = 5000  # training grids whose codes give the latents' ranges


class GridEvaluator(Evaluator):
    """Evaluate a model of grids: also on real ARC-AGI grids, which training never saw.

    samples: {sampler: (s, h, w)}. arc, arc_predicted: (a, h, w), of ARC-AGI evaluation tasks.
    """

    samples: Mapping[str, Items]
    arc: Items
    arc_tasks: Tasks
    arc_predicted: Items

    def measure(self) -> Metrics:
        """Reconstruct the test split, sample, and measure both."""
        data = self.paths.data
        train, test = load_split(data, "train"), load_split(data, "test")
        self.infer(test)
        neg_elbo = self.inferred.nats + self.inferred.kl
        entropy = bound_entropy_nats(data, "test", len(test))
        size = self.params.grids.size
        tuning, tuning_tasks, _ = load_arc_agi_grids(size, "training")
        self.arc, self.arc_tasks, cut = load_arc_agi_grids(size, "evaluation")
        self.arc_predicted = inference.reconstruct(self.model, self.arc)

        def compare(truth: Items, predicted: Items, tasks: Tasks | None = None) -> Metrics:
            return reconstruction.grid_metrics(truth, predicted, groups=tasks, **self.resampling)

        return {
            **merge(
                compare(test, self.inferred.predicted),
                self.measure_bounds(),
                likelihood.bound_over_entropy(neg_elbo, entropy, **self.resampling),
            ),
            **self._measure_rate(train, float(entropy.mean())),
            **self._measure_samplers(train),
            "arc_agi_training": compare(
                tuning, inference.reconstruct(self.model, tuning), tuning_tasks
            ),
            "arc_agi": {
                **compare(self.arc, self.arc_predicted, self.arc_tasks),
                "cut": int(cut.sum()),
            },
        }

    def _measure_samplers(self, train: Items) -> Metrics:
        """Every sampler against the test split; the best one is picked on other draws.

        These are compared with the validation split.
        """
        model, seed, count = self.model, self.params.seed, self.params.evaluate.samples
        limits = {k: getattr(self.params.grids, k) for k in ("min_objects", "max_objects")}

        def compare(grids: Items, split: str, bootstrap: int) -> Metrics:
            objects = load_objects(self.paths.data, split)
            counts = np.bincount(objects["grid"])  # no grid is without an object
            options = {**limits, "bootstrap": bootstrap, "seed": seed}
            return validity.sample_metrics(grids, train, objects, counts, **options)

        fitted = {
            name: samplers.fit(model, name, train, seed) for name in samplers.list_names(model)
        }
        draw = partial(samplers.sample_all, model, fitted, count)
        with engine.torch_threads(1), ThreadPoolExecutor(self.params.threads) as pool:
            self.samples, choosing = pool.map(draw, (seed, seed + SELECTION_SEED))
        found = {
            n: compare(grids, "test", self.params.bootstrap) for n, grids in self.samples.items()
        }
        for name, grids in choosing.items():
            drawn = compare(grids, "val", 1)
            found[name]["selection"] = {key: drawn[key] for key in ("valid_rate", "counted")}
        return {"samplers": found, "best_sampler": pick_sampler(found)}

    def _measure_rate(self, train: Items, entropy: float) -> Metrics:
        """Exact-match accuracy of test grids from quantised latents; inactive ones cost no bit."""
        codes, _ = inference.encode(self.model, train[:RANGED])
        active, n, rate = likelihood.active_units(codes), len(self.test), {}
        mean = self.inferred.mean
        for bits in BITS:
            decoded = inference.decode(self.model, likelihood.quantize(mean, codes, bits))
            exact = int(np.count_nonzero(reconstruction.wrong_cells(self.test, decoded) == 0))
            accuracy = {"exact_grid_accuracy": exact / n, "interval": wilson_interval(exact, n)}
            rate[f"{bits}_per_latent"] = {"bits": bits * active, **accuracy}
        return {"rate": rate, "data_entropy_bound_bits": entropy / math.log(2)}

    def summarise(self, metrics: Metrics) -> GridSummary:
        """Select the scalars of metrics/<dataset>.json."""
        best = metrics["samplers"][metrics["best_sampler"]]
        exact = "exact_grid_accuracy"
        renamed = {"exact_match": metrics[exact], "arc_exact_match": metrics["arc_agi"][exact]}
        return GridSummary.model_validate({**best, **metrics, **renamed})

    def draw(self, metrics: Metrics) -> None:
        """Draw reconstructions and samples."""
        folder, settings, shown = self.paths.plots, self.params.grids, slice(0, PICTURED)
        unseen = "Grids of ARC-AGI evaluation tasks, which training never saw"
        for file, truth, predicted, title in (
            ("reconstructions.png", self.test, self.inferred.predicted, "Test grids"),
            ("arc_agi.png", self.arc, self.arc_predicted, unseen),
        ):
            figures.draw_reconstructions(
                folder / file, truth[:COMPARED], predicted[:COMPARED], title
            )
        for name, grids in self.samples.items():
            if name != "ancestral":  # looks like `prior`: it only draws the cells, too
                valid = is_valid(grids[shown], settings.min_objects, settings.max_objects)
                path = folder / f"samples_{name}.png"
                figures.draw_samples(path, grids[shown], valid, f"Sampler {name}")

    def arrays(self, metrics: Metrics) -> Arrays:
        """Reconstructions with what they are compared by, and samples of the best sampler."""
        samples, limits = self.samples[metrics["best_sampler"]], self.params.grids
        return {
            "predicted": self.inferred.predicted,
            "nats": self.inferred.nats,
            "margins": self.inferred.margins,
            "samples": samples,
            "valid": is_valid(samples, limits.min_objects, limits.max_objects),
            "arc": self.arc,
            "arc_tasks": self.arc_tasks,
            "arc_predicted": self.arc_predicted,
        }


def pick_sampler(found: Mapping[str, Any]) -> str:
    """The sampler with most valid grids among the draws that samplers are compared on.

    found: {sampler: {"selection": {valid_rate, counted}}}. One whose samples do not count is picked
    only where none does.
    """
    drawn = {name: each["selection"] for name, each in found.items()}
    return max(drawn, key=lambda name: (drawn[name]["counted"], drawn[name]["valid_rate"]))
