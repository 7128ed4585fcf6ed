"""The report of an image dataset: captions, experiments, baselines, and what they add up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from genlab.evaluation import figures
from genlab.evaluation.diagnostics.anomalies import detected_issues, image_surprises
from genlab.evaluation.reports import ablations, image_ablations
from genlab.evaluation.reports.image_ablations import CHOICES, MEASURES, Row, headline
from genlab.evaluation.reports.next_steps import next_steps
from genlab.evaluation.reports.report_kind import Context, ReportKind

BASELINES = {
    "pythae-mlp": "pythae's MLP",
    "pythae-conv": "pythae's convolutions",
    "antixk": "PyTorch-VAE's VanillaVAE",
}
MAIN = "fashion_mnist"
"""The dataset that the targets are set for, and that baselines are trained on."""

CAPTIONS: Mapping[str, str] = {
    "reconstructions": "Test images over their reconstructions",
    "samplers": "Samples of each sampler",
    "samples": "Samples of the sampler that was picked",
    "neighbours": "Samples over their nearest training images",
    "interpolations": "On the way between two test images",
    "traversals": "Along principal directions of the codes",
    "projection": "Codes of test images on two principal directions",
    "kl_by_latent": "KL of each latent from N(0, 1); a learned prior leaves less of it",
    "training_curves": "Loss, reconstruction and KL over training",
    "rate_distortion": "Distortion, IWAE bound and Fréchet distance against the rate, along β",
    "sheet": "Training images of every class",
}

PEER_COLUMNS = (
    "cpu_seconds", "images_seen", "bits_per_dim", "ssim", "psnr", "frechet_normal",
    "frechet_distance", "relative_frechet",
)  # fmt: skip
COUNTED = ("cpu_seconds", "images_seen")  # means of counts: their deviation says nothing
OURS = "ours"
MANY = 5  # claims in a list


def complete(context: Context) -> Context:
    """What the templates of an image dataset speak about beside the files."""
    experiments, metrics, failures = (context[k] for k in ("experiments", "metrics", "failures"))
    default = {name: context[name] for name in ("metrics", "diagnosis", "training")}
    every = ablations.runs(experiments, context["params"], default)
    measures = image_ablations.measures(every, MEASURES)
    choices = image_ablations.measures(every, CHOICES)
    likelihoods = image_ablations.likelihoods(every)
    return {
        "anomalies": image_surprises(context),
        "headline": headline(metrics),
        "rows": [
            {
                "name": run.name,
                "changed": run.changed,
                "found": detected_issues(run.record["diagnosis"]),
                **headline(run.metrics),
            }
            for run in every
        ],
        "measures": measures,
        "choices": [choice for choice in choices if choice["rows"]],
        "likelihoods": likelihoods,
        "likelihood_winners": image_ablations.winners(likelihoods),
        "points": image_ablations.rate_distortion(every),
        "seeds": image_ablations.seeds(every),
        "findings": ablations.findings(context["diagnosis"]),
        "claims": {
            "reconstructions": claims(failures["tests"]),
            "samples": claims(failures["sample_tests"]),
        },
        "provoked": _provoked(experiments),
        "peer_rows": _peer_rows(context["baselines"], context["dataset"]),
        "steps": next_steps(metrics, [*measures, *choices]),
    }


def claims(tests: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The supported claims about failures, the best supported first."""
    supported = [test for test in tests if test["verdict"] == "supported"]
    return sorted(supported, key=lambda test: -float(test["low"]))[:MANY]


def draw(folder: Path, context: Context) -> list[Path]:
    """Draw the figures that compare experiments; returns those for which there were numbers."""
    points = context["points"]
    known = [
        point
        for point in points
        if any(point[key] is not None for key in ("mse", "neg_iwae_nats", "frechet"))
        and point["rate"] is not None
    ]
    if not known:
        return []
    path = folder / "rate_distortion.png"
    figures.rate_distortion(path, known)
    return [path]


def _provoked(experiments: Mapping[str, Any]) -> list[Row]:
    """Failures on purpose, before and after their fix; any finding is one."""
    return [
        {
            "name": pair["collapsed"],
            "fixed": pair["fixed"],
            "found": pair["found"],
            "changed": ablations.differing(experiments, pair["collapsed"], pair["fixed"]),
            "fix": ablations.fix(experiments[pair["collapsed"]]),
            "evidence": ablations.before_and_after(experiments, pair),
            "before": headline(experiments[pair["collapsed"]]["metrics"]),
            "after": headline(experiments[pair["fixed"]]["metrics"]),
        }
        for pair in ablations.pairs(experiments, lambda fault: True)
    ]


def _peer_rows(baselines: Mapping[str, Any] | None, dataset: str) -> list[Row]:
    """Ours and the baselines as the table has them: {title, columns: {name: (mean, sd)}, sampler, ...}.

    frechet_share: ours over theirs; bits_below: theirs minus ours; None where ours is missing;
    nearest: whether no other learning rate of the same has a smaller Fréchet distance.
    Empty for a dataset that they were not run on.
    """
    if baselines is None or baselines.get("dataset", MAIN) != dataset:
        return []
    ours = next((row for row in baselines["rows"] if row["contender"] == OURS), None)
    found = []
    for row in baselines["rows"]:
        mean, spread = row["mean"], row["sd"]
        rate = "" if row["rate"] is None else f"lr {row['rate']:g}"
        rival = None if row is ours else ours
        name = BASELINES.get(row["contender"], row["contender"])
        found.append(
            {
                "title": ", ".join(part for part in (name, row["loss"], rate) if part),
                "columns": {
                    name: (mean[name], None if name in COUNTED else spread[name])
                    for name in PEER_COLUMNS
                },
                "sampler": ", ".join(sorted(set(row["samplers"]))),
                "seeds": len(row["seeds"]),
                "nearest": row is _nearest(baselines["rows"], row),
                "frechet_share": rival
                and image_ablations.ratio(
                    rival["mean"]["frechet_distance"], mean["frechet_distance"]
                ),
                "bits_below": rival and mean["bits_per_dim"] - rival["mean"]["bits_per_dim"],
            }
        )
    return found


def _nearest(rows: Sequence[Row], row: Row) -> Row:
    """Of the rows that differ from `row` in the learning rate alone, that of the least distance."""
    alike = [one for one in rows if all(one[key] == row[key] for key in ("contender", "loss"))]
    return min(alike, key=lambda one: float(one["mean"]["frechet_distance"]))


def about(key: str, dataset: str) -> bool:
    """Whether a key of results/benchmarks.json is about `dataset`."""
    start = "images." if dataset == MAIN else f"images.{dataset}_"
    return key.startswith(start)


IMAGES = ReportKind(
    templates={
        "report": "image_report.md.j2",
        "data_sheet": "image_data_sheet.md.j2",
        "readme": "image_readme.md.j2",
    },
    captions=CAPTIONS,
    benchmarks=about,
    complete=complete,
    draw=draw,
)
