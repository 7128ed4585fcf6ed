"""Evaluation of models of generated grids."""

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from genlab.core.stats import wilson_interval
from genlab.datasets.arc_agi import load_arc_agi_grids
from genlab.datasets.arc_grids import (
    bound_entropy_nats,
    load_objects,
    load_split,
)
from genlab.evaluation import figures
from genlab.evaluation.evaluators.base import Arrays, Evaluator, Metrics, merge
from genlab.evaluation.evaluators.grid_samples import choose_sampler, draw_grid_samples
from genlab.evaluation.evaluators.summary import GridSummary
from genlab.evaluation.metrics import likelihood, reconstruction, validity
from genlab.grids.parser import is_valid
from genlab.vae.models.vae import Items
from genlab.vae.sampling import posterior as inference

Tasks = npt.NDArray[np.int64]

FIGURE_SAMPLES = 32
BITS = (2, 4, 6, 8)  # per latent
RANGE_ITEMS = 5000  # training grids whose codes define the ranges of the latents


class GridEvaluator(Evaluator):
    """Evaluate a model of grids on the test split and on real ARC-AGI grids.

    samples: {sampler: (s, h, w)}. arc, arc_predicted: grids of ARC-AGI evaluation tasks, which
    training never saw, and their reconstructions, (a, h, w). arc_tasks: the task of each, (a,).
    """

    samples: Mapping[str, Items]
    arc: Items
    arc_tasks: Tasks
    arc_predicted: Items

    def measure(self) -> Metrics:
        """Reconstruct the test split, sample, and measure both."""
        data = self.paths.data
        train = load_split(data, "train")
        test = load_split(data, "test")
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
        """Compare samples with the test split; choose the best sampler on the validation split.

        The sampler is chosen by draws of another seed than those that are reported.
        """
        limits = {k: getattr(self.params.grids, k) for k in ("min_objects", "max_objects")}

        def compare(grids: Items, split: str, bootstrap: int) -> Metrics:
            objects = load_objects(self.paths.data, split)
            counts = np.bincount(objects["grid"])  # no grid is without an object
            options = {**limits, "bootstrap": bootstrap, "seed": self.params.seed}
            return validity.sample_metrics(grids, train, objects, counts, **options)

        self.samples, choosing = draw_grid_samples(self.model, train, self.params)
        metrics = {
            name: compare(grids, "test", self.params.bootstrap)
            for name, grids in self.samples.items()
        }
        for name, grids in choosing.items():
            selection = compare(grids, "val", 1)
            metrics[name]["selection"] = {k: selection[k] for k in ("valid_rate", "counted")}
        return {"samplers": metrics, "best_sampler": choose_sampler(metrics)}

    def _measure_rate(self, train: Items, entropy: float) -> Metrics:
        """Exact-match accuracy of test grids by the bits of their quantised latents.

        Inactive latents cost no bits.
        """
        codes, _ = inference.encode(self.model, train[:RANGE_ITEMS])
        active = likelihood.active_units(codes)
        n = len(self.test)
        rate = {}
        for bits in BITS:
            quantized = likelihood.quantize(self.inferred.mean, codes, bits)
            decoded = inference.decode(self.model, quantized)
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

    def draw_figures(self, metrics: Metrics) -> None:
        """Draw reconstructions and samples."""
        folder = self.paths.plots
        limits = self.params.grids
        unseen = "Grids of unseen ARC-AGI evaluation tasks"
        inferred = self.inferred
        path = folder / "reconstructions.png"
        figures.draw_reconstructions(
            path, self.test, inferred.predicted, "Test grids", inferred.margins
        )
        figures.draw_reconstructions(folder / "arc_agi.png", self.arc, self.arc_predicted, unseen)
        histograms = {
            "Test grids": metrics["colour_histogram"],
            "ARC-AGI grids": metrics["arc_agi"]["colour_histogram"],
        }
        figures.draw_colour_histograms(folder / "colours.png", histograms)
        for name, grids in self.samples.items():
            if name != "ancestral":  # looks like `prior`, but also draws the cells
                shown_grids = grids[:FIGURE_SAMPLES]
                valid = is_valid(shown_grids, limits.min_objects, limits.max_objects)
                path = folder / f"samples_{name}.png"
                figures.draw_samples(path, shown_grids, valid, f"Sampler {name}")

    def collect_arrays(self, metrics: Metrics) -> Arrays:
        """Collect reconstructions, their nats and margins, and samples of the best sampler."""
        samples = self.samples[metrics["best_sampler"]]
        limits = self.params.grids
        return {
            "predicted": self.inferred.predicted,
            "nats": self.inferred.nats,
            "margins": self.inferred.margins,
            "samples": samples,
            "valid": is_valid(samples, limits.min_objects, limits.max_objects),
            "object_range": np.array([limits.min_objects, limits.max_objects]),
            "arc": self.arc,
            "arc_tasks": self.arc_tasks,
            "arc_predicted": self.arc_predicted,
        }
