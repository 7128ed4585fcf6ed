"""What the experiments on images show: measures with and without, likelihoods, rate and distortion.

Nothing here is told which experiment belongs to what: runs are compared where their params differ
in one thing alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from genlab.evaluation.reports import ablations
from genlab.evaluation.reports.ablations import Run

Row = dict[str, Any]

SWEEP = "images-beta-"
"""How names of the runs of the documented sweep over β begin."""


@dataclass(frozen=True)
class Measure:
    """A choice with a sentence of why; keys: the params that make it, its own first."""

    name: str
    keys: tuple[str, ...]
    why: str


MEASURES: tuple[Measure, ...] = (
    Measure(
        "KL warm-up",
        ("beta_warmup", "beta_schedule", "beta_delay", "beta_cycles"),
        "A decoder that does not listen yet makes sending nothing the cheapest code; "
        "the rate is charged for once there is something to say.",
    ),
    Measure(
        "β",
        ("beta_max",),
        "It trades rate for distortion in training; at 1 the loss is the bound itself, "
        "and pictures and bits/dim speak of the same model.",
    ),
    Measure(
        "free bits",
        ("free_bits",),
        "Until the code spends that much, it costs nothing: no latent is switched off before it "
        "was of use.",
    ),
    Measure(
        "gradient clipping",
        ("grad_clip",),
        "One odd batch has a gradient many times as long as the others; "
        "cut, it cannot throw the weights out.",
    ),
    Measure(
        "likelihood",
        ("likelihood", "likelihood_components"),
        "A fixed width decides beforehand which errors are worth paying for; "
        "one that is learned or fitted pays for the detail that can be had.",
    ),
    Measure(
        "EMA of weights",
        ("ema",),
        "The average of the last updates lies nearer to where they circle than any one of them; "
        "it is what is kept and measured.",
    ),
    Measure(
        "learned prior",
        ("prior", "prior_width", "prior_depth", "prior_components"),
        "Codes of images do not fill N(0, I): a prior that learns where they lie makes them "
        "cheaper, and samples come from where the decoder has been.",
    ),
)
"""What keeps training stable. Each is a param, and none of them touches the reported bound."""

CHOICES: tuple[Measure, ...] = (
    Measure("network", ("network", "patch", "width", "depth"), "What encoder and decoder are."),
    Measure("latents", ("latent_dim",), "How much a code can hold."),
)

LIKELIHOODS: Mapping[str, str] = {
    "bernoulli": "images of two levels; of grey ones it gives pictures, but no code length",
    "continuous_bernoulli": "grey values that crowd at both ends; a density, on a scale of its own",
    "gaussian": "one width a channel, learned with the rest",
    "gaussian_analytic": "pictures with nothing to tune: the width follows the error by itself",
    "discretized_logistic_mixture": "code length, and pixels with more than one plausible answer",
}
"""What each likelihood is for."""


def headline(metrics: Mapping[str, Any]) -> Row:
    """The numbers that runs are compared by; of samples, those of the sampler that was picked.

    bits: bits/dim, which compare with others only if `comparable`. What was not measured, or is
    not finite, is None.
    """
    sampler = metrics["best_sampler"]
    best = metrics["samplers"].get(sampler, {})
    sharp = metrics["sharpness"]
    return {
        "bits": metrics["bits_per_dim"],
        "comparable": metrics["comparable"],
        "kl": metrics["kl_nats"],
        "sampler": sampler,
        "frechet": best.get("frechet_distance"),
        "over_floor": best.get("relative_frechet"),
        "sharpness": ratio(sharp["samples"], sharp["test"]),
        **{name: metrics[name] for name in ("neg_iwae_nats", "mse", "psnr", "ssim")},
        **{name: best.get(name) for name in ("precision", "recall", "density", "coverage")},
    }


def ratio(one: float | None, other: float | None) -> float | None:
    """One over the other; None where that says nothing."""
    return one / other if one is not None and other else None


def measures(every: Sequence[Run], of: Sequence[Measure] = MEASURES) -> list[Row]:
    """Each measure with the default's values and its ablations.

    A row of `rows`: {name, reference, changed, off, on}: a run that differs from its reference in
    this measure alone, both headlines. Of numbers such as β the two furthest values stand for all.
    """
    default = every[0]
    found = []
    for measure in of:
        rows = [
            {
                "name": run.name,
                "reference": reference.name,
                "changed": {
                    key: run.params[key] for key in measure.keys if not run.chooses(default, [key])
                },
                "off": headline(run.metrics),
                "on": headline(reference.metrics),
            }
            for run, reference in _ends(measure, ablations.without(every, measure.keys))
        ]
        own = {key: default.params[key] for key in measure.keys[:1]}
        found.append({"name": measure.name, "why": measure.why, "default": own, "rows": rows})
    return found


def _ends(measure: Measure, pairs: Iterator[tuple[Run, Run]]) -> list[tuple[Run, Run]]:
    """All pairs, or the first and the last by value where the measure is a sweep's number."""
    found = list(pairs)
    if measure.keys != ("beta_max",) or len(found) < 3:
        return found
    found.sort(key=lambda pair: float(pair[0].params["beta_max"]))
    return [found[0], found[-1]]


def likelihoods(every: Sequence[Run]) -> list[Row]:
    """The runs that differ in the likelihood alone: {likelihood, name, use, sigma, headline's}."""
    found = ablations.series(every, "likelihood")
    if len(found) < 2:
        return []
    return [
        {
            "likelihood": name,
            "name": run.name,
            "use": LIKELIHOODS.get(name, ""),
            "sigma": run.metrics["sigma"],
            **headline(run.metrics),
        }
        for name, run in sorted(found.items(), key=lambda item: _place(item[0]))
    ]


def _place(likelihood: str) -> int:
    return len(list(takewhile(lambda name: name != likelihood, LIKELIHOODS)))


def winners(rows: Sequence[Row]) -> Row:
    """Which of the likelihoods has the fewest bits/dim, the highest SSIM, the least Fréchet."""

    def first(key: str, sign: int, among: Sequence[Row]) -> str | None:
        known = [row for row in among if row[key] is not None]
        return min(known, key=lambda row: sign * float(row[key]))["likelihood"] if known else None

    return {
        "bits": first("bits", 1, [row for row in rows if row["comparable"]]),
        "ssim": first("ssim", -1, rows),
        "frechet": first("frechet", 1, rows),
    }


def rate_distortion(every: Sequence[Run]) -> list[Row]:
    """Points of `figures.rate_distortion`, and of a table: a headline with name, beta, rate.

    They are the runs of the documented sweep, those that differ from them in β alone (the default
    run may be one), and then other seeds of any of these.
    """
    swept = [run for run in every if run.name.startswith(SWEEP)]
    found = ablations.series(
        [*every, *swept],  # of two runs at one β the last stands for both
        "beta_max",
        lambda run: any(run.alike(point, "beta_max") for point in swept),
    )
    if len(found) < 2:
        return []
    points = [(run, None) for run in found.values()]
    others = [
        (other, other.params["seed"])
        for run in found.values()
        for other in ablations.seeded(every, run)
    ]
    return [_point(run, seed) for run, seed in (*points, *others)]


def _point(run: Run, seed: int | None) -> Row:
    found = headline(run.metrics)
    return {
        **found,
        "name": run.name,
        "beta": run.params["beta_max"],
        "rate": found["kl"],
        "distortion": found["mse"],
        **({} if seed is None else {"seed": seed}),
    }


def seeds(every: Sequence[Run]) -> Row | None:
    """Mean and deviation of the main numbers over the seeds of the default run; None with one."""
    together = [every[0], *ablations.seeded(every, every[0])]
    rows = [headline(run.metrics) for run in together]
    keys = ("bits", "neg_iwae_nats", "ssim", "psnr", "frechet", "over_floor", "recall")
    spreads = {key: ablations.spread([row[key] for row in rows]) for key in keys}
    known = {key: found for key, found in spreads.items() if found is not None}
    if not known:
        return None
    return {"seeds": [run.params["seed"] for run in together], "spreads": known}
