"""The evaluation of grid models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from genlab.core.io import read_json
from genlab.core.stats import scaled_interval
from genlab.datasets.arc_grids import arc_agi_grids, load_objects, load_split
from genlab.evaluation import figures
from genlab.evaluation.evaluators.base import Arrays, Evaluator, Items, Metrics, merge
from genlab.evaluation.evaluators.summary import GridSummary
from genlab.evaluation.metrics import reconstruction, validity
from genlab.grids.parser import is_valid
from genlab.vae.sampling import posterior as inference
from genlab.vae.sampling import samplers

SPLIT = "dvc repro split"
PICTURED = 32  # samples in a figure
COMPARED = 16  # pairs of input and output in one


class GridEvaluator(Evaluator):
    """Evaluate a model of grids: also on real ARC-AGI grids, which training never saw.

    samples: {sampler: (s, h, w)}. arc, arc_predicted: (a, h, w).
    """

    samples: Mapping[str, Items]
    arc: Items
    arc_predicted: Items

    def measure(self) -> Metrics:
        """Reconstruct the test split, sample, and measure both."""
        model, data, seed = self.model, self.paths.data, self.params.seed
        described = read_json(self.paths.results / "data.json", producer_command=SPLIT)
        train, test = load_split(data, "train"), load_split(data, "test")
        self.infer(test)
        self.arc = arc_agi_grids(self.params.grids.size)
        self.arc_predicted = inference.reconstruct(model, self.arc)
        fitted = {name: samplers.fit(model, name, train, seed) for name in samplers.names(model)}
        self.samples = {
            name: samplers.sample(model, sampler, self.params.evaluate.samples, seed)
            for name, sampler in fitted.items()
        }
        metrics = merge(
            reconstruction.grid_metrics(test, self.predicted, **self.resampling),
            self.measure_bounds(),
        )
        entropy, intervals = described["data_entropy_bound_nats"], metrics["intervals"]
        name = "neg_elbo_over_entropy_bound"
        intervals[name] = scaled_interval(intervals["neg_elbo_nats"], 1 / entropy)
        objects = load_objects(data, "test")
        counts = np.bincount(objects["grid"], minlength=len(test))
        limits = {key: getattr(self.params.grids, key) for key in ("min_objects", "max_objects")}
        return {
            **metrics,
            "data_entropy_bound_nats": entropy,
            name: metrics["neg_elbo_nats"] / entropy,
            "samplers": {
                sampler: validity.sample_metrics(
                    grids, train, objects, counts, **limits, **self.resampling
                )
                for sampler, grids in self.samples.items()
            },
            "arc_agi": reconstruction.grid_metrics(self.arc, self.arc_predicted, **self.resampling),
        }

    def summarise(self, metrics: Metrics) -> GridSummary:
        """Select the scalars of metrics/<dataset>.json."""
        best = metrics["samplers"][best_sampler(metrics)]
        exact = "exact_grid_accuracy"
        renamed = {"exact_match": metrics[exact], "arc_exact_match": metrics["arc_agi"][exact]}
        return GridSummary.model_validate({**best, **metrics, **renamed})

    def draw(self, metrics: Metrics) -> None:
        """Draw reconstructions, samples and colours."""
        folder, pairs, shown = self.paths.plots, slice(0, COMPARED), slice(0, PICTURED)
        for name, truth, predicted, title in (
            ("reconstructions", self.test, self.predicted, "Test grids"),
            (
                "arc_agi",
                self.arc,
                self.arc_predicted,
                "Real ARC-AGI grids, which training never saw",
            ),
        ):
            figures.reconstructions(folder / f"{name}.png", truth[pairs], predicted[pairs], title)
        settings = self.params.grids
        for name, grids in self.samples.items():
            if name != "ancestral":  # looks like `prior`: it only draws the cells, too
                valid = is_valid(grids[shown], settings.min_objects, settings.max_objects)
                path = folder / f"samples_{name}.png"
                figures.samples(path, grids[shown], valid, f"Sampler {name}")
        colours = metrics["colour_histogram"]
        path = folder / "colour_histogram.png"
        figures.colour_histogram(path, colours["true"], colours["predicted"])

    def arrays(self, metrics: Metrics) -> Arrays:
        """Reconstructions, their nats, and samples of the best sampler."""
        samples = self.samples[best_sampler(metrics)]
        return {"predicted": self.predicted, "nats": self.nats, "samples": samples}


def best_sampler(metrics: Mapping[str, Any]) -> str:
    """The sampler with most valid grids among those whose samples count (all, where none does)."""
    found: Mapping[str, Any] = metrics["samplers"]
    counted = {name: of for name, of in found.items() if of["counted"]} or found
    return max(counted, key=lambda name: float(counted[name]["valid_rate"]))
