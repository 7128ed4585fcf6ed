"""The evaluation of grid models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.io import read_json
from genlab.core.stats import scaled_interval
from genlab.datasets.arc_grids import arc_agi_grids, load_objects, load_split
from genlab.evaluation import figures
from genlab.evaluation.diagnostics.criteria import grid_verdict
from genlab.evaluation.evaluators.base import Arrays, Evaluator, Floats, Metrics
from genlab.evaluation.evaluators.summary import GridSummary
from genlab.evaluation.metrics import likelihood, reconstruction, validity
from genlab.grids.parser import is_valid
from genlab.vae.sampling import posterior as inference
from genlab.vae.sampling import samplers

Grids = npt.NDArray[np.uint8]
SPLIT = "dvc repro split"
PICTURED = 32  # samples in a figure
COMPARED = 16  # pairs of input and output in one


@dataclass(frozen=True)
class GridEvidence:
    """What a model did with held-out grids; n test grids, d latents.

    truth, predicted: (n, h, w). reconstruction, kl: (n,) nats, -log p(x|z) and KL at one z.
    log_weights: (m, k), see `likelihood.iwae`. means: (n, d) posterior means. objects: the object
    table of truth. train: the training grids. samples: {sampler: (s, h, w)}. arc_truth,
    arc_predicted: real ARC-AGI grids.
    """

    truth: Grids
    predicted: Grids
    reconstruction: Floats
    kl: Floats
    log_weights: Floats
    means: Floats
    objects: npt.NDArray[Any]
    train: Grids
    samples: Mapping[str, Grids]
    arc_truth: Grids
    arc_predicted: Grids


class GridEvaluator(Evaluator):
    """Evaluate a model of grids: also on real ARC-AGI grids, which training never saw."""

    evidence: GridEvidence

    def measure(self) -> Metrics:
        """Reconstruct the test split, sample, and measure both."""
        model, seed, settings = self.model, self.params.seed, self.params.evaluate
        described = read_json(self.paths.results / "data.json", producer_command=SPLIT)
        train, test = load_split(self.paths.data, "train"), load_split(self.paths.data, "test")
        self.check_items(test)
        arc = arc_agi_grids(self.params.grids.size)
        nats, kl = inference.elbo_terms(model, test, seed)
        self.check_bounds(nats + kl)
        samples = {
            name: samplers.sample(
                model, samplers.fit(model, name, train, seed), settings.samples, seed
            )
            for name in samplers.names(model)
        }
        weighed = test[: settings.iwae_items]
        self.evidence = GridEvidence(
            truth=test,
            predicted=inference.reconstruct(model, test),
            reconstruction=nats,
            kl=kl,
            log_weights=inference.log_importance_weights(
                model, weighed, settings.iwae_samples, seed
            ),
            means=inference.encode(model, test)[0],
            objects=load_objects(self.paths.data, "test"),
            train=train,
            samples=samples,
            arc_truth=arc,
            arc_predicted=inference.reconstruct(model, arc),
        )
        return measure_grids(
            self.evidence,
            beta_max=self.facts["training"]["beta_max"],
            entropy_nats=described["data_entropy_bound_nats"],
            object_range=(self.params.grids.min_objects, self.params.grids.max_objects),
            bootstrap=self.params.bootstrap,
            seed=seed,
        )

    def judge(self, metrics: Metrics) -> dict[str, Any]:
        """Apply the criteria of grids."""
        return grid_verdict(metrics, self.series)

    def summarise(self, metrics: Metrics, *, passed: bool) -> GridSummary:
        """Select the scalars of metrics/<dataset>.json."""
        return GridSummary(
            passed=passed,
            active_units=metrics["active_units"],
            pixel_accuracy=metrics["pixel_accuracy"],
            nonblack_accuracy=metrics["nonblack_accuracy"],
            exact_match=metrics["exact_grid_accuracy"],
            neg_elbo_over_entropy_bound=metrics["neg_elbo_over_entropy_bound"],
            valid_rate=metrics["samplers"][best_sampler(metrics)]["valid_rate"],
            arc_exact_match=metrics["arc_agi"]["exact_grid_accuracy"],
        )

    def draw(self, metrics: Metrics) -> None:
        """Draw reconstructions, samples, colours and curves."""
        grids = self.params.grids
        draw_grids(self.paths.plots, self.evidence, metrics, (grids.min_objects, grids.max_objects))
        curves = self.paths.plots / "training_curves.png"
        figures.training_curves(curves, self.curves, "nats per grid")

    def arrays(self, metrics: Metrics) -> Arrays:
        """Reconstructions, their nats, and samples of the best sampler."""
        evidence = self.evidence
        samples = evidence.samples[best_sampler(metrics)]
        return {
            "predicted": evidence.predicted,
            "nats": evidence.reconstruction,
            "samples": samples,
        }


def measure_grids(
    evidence: GridEvidence,
    *,
    beta_max: float,
    entropy_nats: float,
    object_range: tuple[int, int],
    bootstrap: int,
    seed: int,
) -> Metrics:
    """metrics.json: flat numbers, nested groups, and `intervals` of the flat ones."""
    e, resampling = evidence, {"bootstrap": bootstrap, "seed": seed}
    accuracy = reconstruction.grid_metrics(e.truth, e.predicted, **resampling)
    bound = likelihood.bound_summary(e.reconstruction, e.kl, cells=e.truth[0].size, **resampling)
    iwae = likelihood.iwae_summary(e.log_weights, **resampling)
    parts = (accuracy, bound, iwae)
    intervals = {name: found for part in parts for name, found in part.pop("intervals").items()}
    intervals["neg_elbo_over_entropy_bound"] = scaled_interval(
        intervals["neg_elbo_nats"], 1 / entropy_nats
    )
    counts = np.bincount(e.objects["grid"], minlength=len(e.truth))
    objects = {"min_objects": object_range[0], "max_objects": object_range[1]}
    return {
        **accuracy,
        **bound,
        **iwae,
        "data_entropy_bound_nats": entropy_nats,
        "neg_elbo_over_entropy_bound": bound["neg_elbo_nats"] / entropy_nats,
        "active_units": likelihood.active_units(e.means),
        "latent_dim": e.means.shape[1],
        "beta_max": beta_max,
        "samplers": {
            name: validity.sample_metrics(
                grids, e.train, e.objects, counts, **objects, **resampling
            )
            for name, grids in e.samples.items()
        },
        "arc_agi": reconstruction.grid_metrics(e.arc_truth, e.arc_predicted, **resampling),
        "intervals": intervals,
    }


def best_sampler(metrics: Mapping[str, Any]) -> str:
    """The sampler with most valid grids among those whose samples count (all, where none does)."""
    found: Mapping[str, Any] = metrics["samplers"]
    counted = {name: of for name, of in found.items() if of["counted"]} or found
    return max(counted, key=lambda name: float(counted[name]["valid_rate"]))


def draw_grids(
    folder: Path, evidence: GridEvidence, metrics: Metrics, object_range: tuple[int, int]
) -> None:
    """Every figure but the training curves, as PNG files in `folder`."""
    e, pairs, shown = evidence, slice(0, COMPARED), slice(0, PICTURED)
    for name, truth, predicted, title in (
        ("reconstructions", e.truth, e.predicted, "Test grids"),
        ("arc_agi", e.arc_truth, e.arc_predicted, "Real ARC-AGI grids, which training never saw"),
    ):
        figures.reconstructions(folder / f"{name}.png", truth[pairs], predicted[pairs], title)
    for name, grids in e.samples.items():
        if name != "ancestral":  # looks like `prior`: it only draws the cells, too
            valid = is_valid(grids[shown], *object_range)
            title = f"Sampler {name}"
            figures.samples(folder / f"samples_{name}.png", grids[shown], valid, title)
    colours = metrics["colour_histogram"]
    figures.colour_histogram(folder / "colour_histogram.png", colours["true"], colours["predicted"])
    confusion = reconstruction.colour_confusion(e.truth, e.predicted).sum(axis=0)
    figures.colour_confusion(folder / "colour_confusion.png", confusion)
