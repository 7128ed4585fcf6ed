"""The report of a grid dataset: its captions, and the figures across its experiments."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from genlab.evaluation import figures
from genlab.evaluation.diagnostics.anomalies import anomalies
from genlab.evaluation.reports import ablations
from genlab.evaluation.reports.report_kind import Context, ReportKind

SWEPT = re.compile(r"-(seed)?[\d.]+$")
"""Names of runs of a sweep or of a seed: too many curves for one figure, and too like."""

CAPTIONS: Mapping[str, str] = {
    "reconstructions": "Reconstructions of test grids: input over output, wrong cells outlined",
    "samples": "Samples from the prior",
    "colour_histogram": "Colours, predicted against true",
    "colour_confusion": "Which colours are taken for which",
    "accuracy_by_group": "Accuracy by shape kind and by object count",
    "training_curves": "Loss, KL and accuracy over training",
    "arc_agi": "Reconstructions of real ARC-AGI grids",
    "sheet": "64 grids and the distributions that they are drawn from",
    "capacity_curve": "Exact grids against the number of latents, at β = 0",
    "loss_over_baselines": "Reconstruction loss over that of the baseline runs",
}


def complete(context: Context) -> Context:
    """What the templates of a grid dataset speak about beside the files."""
    return {
        "anomalies": anomalies(context),
        "pairs": ablations.pairs(context["experiments"], lambda fault: "collapse" in fault),
    }


def draw(folder: Path, context: Context) -> list[Path]:
    """Draw the figures that compare experiments; returns those for which there were numbers."""
    drawn = []
    experiments, metrics = context["experiments"], context["metrics"]
    every = ablations.runs(experiments, context["params"], {"metrics": metrics})
    capacity = ablations.series(every, "latent_dim", lambda run: run.params["beta_max"] == 0)
    if len(capacity) > 1:
        points = [(int(d), *_point(r.metrics, "exact_grid_accuracy")) for d, r in capacity.items()]
        drawn.append(folder / "capacity_curve.png")
        figures.capacity_curve(drawn[-1], points, metrics["data_entropy_bound_nats"])
    baselines = {k: e["training"] for k, e in experiments.items() if not SWEPT.search(k)}
    trained = {"default": context["training"], **baselines}
    curves = {k: run.get("series", {}).get("reconstruction_loss") for k, run in trained.items()}
    curves = {name: curve for name, curve in curves.items() if curve}
    if len(curves) > 1:
        drawn.append(folder / "loss_over_baselines.png")
        shares = [v for v in metrics["colour_histogram"]["true"].values() if v > 0]
        frequencies = -256 * sum(v * math.log(v) for v in shares)
        figures.loss_over_baselines(drawn[-1], curves, ("colour frequencies", frequencies))
    return drawn


def _point(metrics: Mapping[str, Any], name: str) -> tuple[float, float, float]:
    interval = metrics["intervals"][name]
    return metrics[name], interval["low"], interval["high"]


GRIDS = ReportKind(
    templates={
        "report": "report.md.j2",
        "data_sheet": "data_sheet.md.j2",
        "readme": "readme.md.j2",
    },
    captions=CAPTIONS,
    benchmarks=lambda key, dataset: key.startswith("grids."),
    complete=complete,
    draw=draw,
)
