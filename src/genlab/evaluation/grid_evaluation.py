"""All the numbers and pictures of a grid experiment, from arrays.

`grid_run` asks the model for the arrays; what they mean is decided here, out of its
reach.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.evaluation import figures
from genlab.evaluation.diagnostics import grids as collapse
from genlab.evaluation.metrics import groups, likelihood, reconstruction, validity
from genlab.grids.parser import is_valid

Grids = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
PICTURED = 32  # samples in a figure
COMPARED = 16  # pairs of input and output in one
SERIES = ("loss", "reconstruction_loss", "kl_divergence", "beta_kl", "skipped_updates", "updates")


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


def measure(
    evidence: GridEvidence,
    *,
    beta_max: float,
    entropy_nats: float,
    object_range: tuple[int, int],
    bootstrap: int,
    seed: int,
) -> dict[str, Any]:
    """metrics.json: flat numbers, nested groups, and `intervals` of the flat ones."""
    e, resampling = evidence, {"bootstrap": bootstrap, "seed": seed}
    right = reconstruction.grid_metrics(e.truth, e.predicted, **resampling)
    bound = likelihood.bound_summary(
        e.reconstruction + e.kl, e.reconstruction, e.kl, cells=e.truth[0].size, **resampling
    )
    iwae = likelihood.iwae_summary(e.log_weights, **resampling)
    active, _ = likelihood.active_units(e.means)
    counts = np.bincount(e.objects["grid"], minlength=len(e.truth))
    fewest, most = object_range
    intervals = {**right.pop("intervals"), **bound.pop("intervals"), **iwae.pop("intervals")}
    ratio = {key: intervals["neg_elbo_nats"][key] / entropy_nats for key in ("low", "high")}
    intervals["neg_elbo_over_entropy_bound"] = {**ratio, "n": len(e.truth)}
    return {
        **right,
        **bound,
        "neg_iwae_nats": iwae["neg_iwae_nats"],
        "iwae_samples": iwae["iwae_samples"],
        "iwae_items": iwae["n"],
        "data_entropy_bound_nats": entropy_nats,
        "neg_elbo_over_entropy_bound": bound["neg_elbo_nats"] / entropy_nats,
        "active_units": active,
        "latent_dim": e.means.shape[1],
        "beta_max": beta_max,
        "n": len(e.truth),
        "samplers": {
            name: validity.sample_metrics(
                grids,
                e.train,
                e.objects,
                counts,
                min_objects=fewest,
                max_objects=most,
                **resampling,
            )
            for name, grids in e.samples.items()
        },
        "arc_agi": reconstruction.grid_metrics(e.arc_truth, e.arc_predicted, **resampling),
        "by_kind": groups.accuracy_by_kind(e.truth, e.predicted, e.objects),
        "by_object_count": groups.accuracy_by_count(e.truth, e.predicted, e.objects),
        "intervals": intervals,
    }


def best_sampler(metrics: Mapping[str, Any]) -> str:
    """The sampler with most legal grids among those whose samples count (all, where none does)."""
    samplers: Mapping[str, Any] = metrics["samplers"]
    counted = {name: found for name, found in samplers.items() if found["counted"]} or samplers
    return max(counted, key=lambda name: float(counted[name]["valid_rate"]))


def series(history: Sequence[Mapping[str, float]], updates_an_epoch: int) -> dict[str, list[float]]:
    """The per-epoch series that `collapse.diagnose` reads, from a training history.

    The history counts skipped updates since the start; the series, those of each epoch.
    """
    rows: list[dict[str, float]] = []
    before = 0.0
    for row in history:
        skipped = row["skipped_updates"] - before
        before = row["skipped_updates"]
        rows.append({**row, "skipped_updates": skipped, "updates": float(updates_an_epoch)})
    return {name: [row[name] for row in rows] for name in SERIES}


def draw(
    folder: Path,
    evidence: GridEvidence,
    metrics: Mapping[str, Any],
    history: Sequence[Mapping[str, float]],
    object_range: tuple[int, int],
) -> None:
    """Every figure of the evaluation, as PNG files in `folder`."""
    e = evidence
    shown, pairs = slice(0, PICTURED), slice(0, COMPARED)
    figures.reconstructions(
        folder / "reconstructions.png", e.truth[pairs], e.predicted[pairs], "Test grids"
    )
    figures.reconstructions(
        folder / "arc_agi.png",
        e.arc_truth[pairs],
        e.arc_predicted[pairs],
        "Real ARC-AGI grids, which training never saw",
    )
    for name, grids in e.samples.items():
        if name == "ancestral":  # looks like `prior`: it only draws the cells, too
            continue
        flags = is_valid(grids[shown], *object_range)
        figures.samples(folder / f"samples_{name}.png", grids[shown], flags, f"Sampler {name}")
    histogram = metrics["colour_histogram"]
    figures.colour_histogram(
        folder / "colour_histogram.png", histogram["true"], histogram["predicted"]
    )
    figures.colour_confusion(
        folder / "colour_confusion.png", reconstruction.colour_confusion(e.truth, e.predicted)
    )
    curves = {name: [row[name] for row in history] for name in history[0]}
    figures.training_curves(folder / "training_curves.png", curves, "nats per grid")


def judge(
    metrics: Mapping[str, Any],
    history: Sequence[Mapping[str, float]],
    updates_an_epoch: int,
    evidence_files: Sequence[str],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(verdict.json, diagnosis.json)."""
    verdict = collapse.verdict(metrics, beta_max=metrics["beta_max"])
    findings = collapse.diagnose(
        metrics, series(history, updates_an_epoch), evidence_files=evidence_files
    )
    return verdict, {"diagnoses": findings}


def _points(found: Mapping[str, Any]) -> dict[str, tuple[float, float, float]]:
    return {name: (g["value"], g["low"], g["high"]) for name, g in found.items()}
