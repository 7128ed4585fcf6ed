"""Did the model learn, and if not, which of the known collapses is it? Rules over numbers only."""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Metrics = Mapping[str, Any]
Series = Mapping[str, Sequence[float]]
Finding = dict[str, Any]

COMPARED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
COLOURS = [str(colour) for colour in range(10)]


@dataclass(frozen=True)
class Thresholds:
    """The judge's numbers. They live here, out of the reach of what is judged."""

    pixel_accuracy: float = 0.95
    collapse_skill: float = 0.5
    """Share of the way from the all-black baseline to 1 that pixel accuracy must have gone."""
    dominant_excess: float = 0.02
    """How far one colour's predicted share may lie above its true share."""
    class_accuracy: float = 0.5
    histogram_tv: float = 0.05
    active_share: float = 0.05
    """Least share of the latents that must be active."""
    old_black_accuracy: float = 0.95
    old_kl_nats: float = 1.0

    def collapse_pixel_accuracy(self, baseline: float) -> float:
        """The collapse threshold in pixel accuracy, for the all-black baseline of these data."""
        return baseline + self.collapse_skill * (1 - baseline)


DEFAULT = Thresholds()


def verdict(
    metrics: Metrics, thresholds: Thresholds = DEFAULT, *, beta_max: float
) -> dict[str, Any]:
    """Every criterion with value, threshold, `passed` and why; `passed` overall is all obeyed ones.

    metrics: as `reconstruction.grid_metrics` makes them, with `active_units`, `latent_dim` and
    `kl_nats`. `old_rules` are recorded and not obeyed: `obeyed` is false and `why` says what is
    wrong with them; the one about β = 0 stands only where `beta_max` is 0. Raises KeyError when a
    metric is missing.
    """
    criteria = [
        criterion(
            "pixel_accuracy",
            metrics["pixel_accuracy"],
            ">",
            thresholds.pixel_accuracy,
            "share of the test cells that come back with their colour",
        ),
        _above_baseline(metrics, thresholds),
        _no_dominant_colour(metrics, thresholds),
        _all_colours(metrics, thresholds),
        criterion(
            "colour_histogram_tv",
            metrics["colour_histogram_tv"],
            "<",
            thresholds.histogram_tv,
            "total variation between the predicted and the true shares of the ten colours",
        ),
        criterion(
            "active_share",
            metrics["active_units"] / metrics["latent_dim"],
            ">=",
            thresholds.active_share,
            f"{metrics['active_units']} of {metrics['latent_dim']} latents vary with the grid",
        ),
    ]
    return {
        "passed": all(rule["passed"] for rule in criteria),
        "criteria": criteria,
        "old_rules": _old_rules(metrics, thresholds, beta_max),
    }


def diagnose(
    metrics: Metrics,
    series: Series,
    *,
    evidence_files: Sequence[str] = ("metrics.json", "training.json"),
) -> list[Finding]:
    """The five known collapses, each looked for by a numeric rule, found or not.

    metrics: as for `verdict`, with `kl_nats` and `data_entropy_bound_nats`. series: per-epoch
    `kl_divergence`, `beta_kl`, `loss`, `skipped_updates` (updates skipped in that epoch) and, where
    known, `updates` (updates tried in that epoch); β at the end is beta_kl / kl_divergence.

    Returns [{name, found, rule, evidence, evidence_files, fix}], in a fixed order. `fix` is the
    params that mend it, empty when it was not found.
    """
    findings = [
        _posterior_collapse(metrics),
        _all_black(metrics),
        _exploding_kl(metrics, series),
        _dead_colours(metrics),
        _over_regularisation(metrics, series),
    ]
    return with_files(findings, evidence_files)


def criterion(
    name: str, value: float | None, sign: str, threshold: float, why: str
) -> dict[str, Any]:
    """One criterion of a verdict. A value of None was not measured, and what was not fails."""
    return {
        "name": name,
        "value": None if value is None else float(value),
        "threshold": float(threshold),
        "sign": sign,
        "passed": value is not None and bool(COMPARED[sign](value, threshold)),
        "obeyed": True,
        "why": why if value is not None else f"{why}; not measured, or not finite",
    }


def finding(
    name: str, found: bool, rule: str, evidence: Mapping[str, Any], fix: Mapping[str, Any]
) -> Finding:
    """One finding of a diagnosis; `with_files` completes it."""
    return {
        "name": name,
        "found": bool(found),
        "rule": rule,
        "evidence": dict(evidence),
        "fix": dict(fix),
    }


def with_files(findings: Sequence[Finding], evidence_files: Sequence[str]) -> list[Finding]:
    """The findings with the files that their evidence is in; only what was found has a fix."""
    return [
        {
            **found,
            "fix": found["fix"] if found["found"] else {},
            "evidence_files": list(evidence_files),
        }
        for found in findings
    ]


def _above_baseline(metrics: Metrics, thresholds: Thresholds) -> dict[str, Any]:
    baseline = metrics["all_black_baseline"]
    return criterion(
        "above_collapse_threshold",
        metrics["pixel_accuracy"],
        ">",
        thresholds.collapse_pixel_accuracy(baseline),
        f"an all-black answer scores {baseline:.4f} on these data; a model must have gone "
        f"{thresholds.collapse_skill:.0%} of the way from there to 1",
    )


def _excess(metrics: Metrics) -> dict[str, float]:
    """Predicted minus true share of each colour, of all cells."""
    histogram = metrics["colour_histogram"]
    return {c: histogram["predicted"][c] - histogram["true"][c] for c in COLOURS}


def _no_dominant_colour(metrics: Metrics, thresholds: Thresholds) -> dict[str, Any]:
    excess = _excess(metrics)
    worst = max(excess, key=lambda colour: excess[colour])
    return criterion(
        "no_dominant_colour",
        excess[worst],
        "<",
        thresholds.dominant_excess,
        f"colour {worst} exceeds its true share of the cells most",
    )


def _all_colours(metrics: Metrics, thresholds: Thresholds) -> dict[str, Any]:
    accuracies = metrics["per_class_accuracy"]
    worst = min(accuracies, key=lambda colour: accuracies[colour])
    learnt = criterion(
        "all_colours_learnt",
        accuracies[worst],
        ">",
        thresholds.class_accuracy,
        f"colour {worst} is the least accurate of {len(accuracies)}",
    )
    missing = [colour for colour in COLOURS if colour not in accuracies]
    if missing:
        learnt["passed"] = False
        learnt["why"] += f"; the data hold no cell of colour {', '.join(missing)}"
    return learnt


def _old_rules(metrics: Metrics, thresholds: Thresholds, beta_max: float) -> list[dict[str, Any]]:
    """Rules of the earlier work, with what they would have said and why they are not obeyed."""
    black, baseline = metrics["per_class_accuracy"].get("0", 1.0), metrics["all_black_baseline"]
    cap = 1 - baseline * (1 - thresholds.old_black_accuracy)
    rules = [
        criterion(
            "black_accuracy_below_95_percent",
            black,
            "<",
            thresholds.old_black_accuracy,
            "meant to show that black does not swallow the grid. But at "
            f"{baseline:.1%} black it caps pixel accuracy at {cap:.1%}, so it rejects every good "
            "model: skill over all-black and the colour histogram ask the same question well",
        )
    ]
    if beta_max == 0:
        rules.append(
            criterion(
                "kl_near_zero_at_beta_0",
                metrics["kl_nats"],
                "<",
                thresholds.old_kl_nats,
                "holds for beta*KL, the term in the loss, and not for KL: at beta 0 nothing holds "
                "the KL, so it grows freely, and a KL near zero would mean an empty latent",
            )
        )
    for rule in rules:
        rule["obeyed"] = False
    return rules


def _posterior_collapse(metrics: Metrics) -> Finding:
    kl, active = metrics["kl_nats"], metrics["active_units"]
    # KL bounds the information between grid and latent from above: under 1 nat the latent cannot
    # tell three grids apart.
    return finding(
        "posterior_collapse",
        kl < 1.0 or active == 0,
        "kl_nats < 1 or active_units == 0",
        {"kl_nats": kl, "active_units": active, "latent_dim": metrics["latent_dim"]},
        {"beta_schedule": "linear", "beta_warmup": 0.5, "free_bits": 0.05},
    )


def _all_black(metrics: Metrics) -> Finding:
    skill, recall = metrics["skill_score"], metrics["foreground_recall"]
    black = metrics["colour_histogram"]["predicted"]["0"]
    return finding(
        "all_black_collapse",
        skill < 0.1 and recall < 0.5,
        "skill_score < 0.1 and foreground_recall < 0.5",
        {
            "skill_score": skill,
            "foreground_recall": recall,
            "predicted_black_share": black,
            "all_black_baseline": metrics["all_black_baseline"],
        },
        {"network": "mixer", "patch": 2},
    )


def _exploding_kl(metrics: Metrics, series: Series) -> Finding:
    kl, loss = list(series["kl_divergence"]), list(series["loss"])
    finite = all(math.isfinite(value) for value in [*kl, *loss])
    beta, entropy = final_beta(series), metrics["data_entropy_bound_nats"]
    skipped, tried = sum(series.get("skipped_updates", ())), sum(series.get("updates", ()))
    skipped_share = skipped / tried if tried else 0.0
    # At beta 0 nothing holds the KL and its growth is no disease; a penalised KL that is ten times
    # the information in the data is.
    runaway = beta > 0 and metrics["kl_nats"] > 10 * entropy
    return finding(
        "kl_explosion",
        not finite or runaway or skipped_share > 0.01,
        "a non-finite loss or KL, more than 1 % of the updates skipped, or (beta > 0) "
        "kl_nats > 10 x data_entropy_bound_nats",
        {
            "kl_nats": metrics["kl_nats"],
            "data_entropy_bound_nats": entropy,
            "beta": beta,
            "skipped_updates": int(skipped),
            "skipped_share": skipped_share,
            "finite": finite,
        },
        {"grad_clip": 1.0, "lr": 0.001, "beta_warmup": 0.1},
    )


def _dead_colours(metrics: Metrics) -> Finding:
    accuracies, histogram = metrics["per_class_accuracy"], metrics["colour_histogram"]
    dead = [
        colour
        for colour in accuracies
        if accuracies[colour] < 0.05
        or histogram["predicted"][colour] < 0.1 * histogram["true"][colour]
    ]
    return finding(
        "dead_colours",
        bool(dead),
        "a colour of the data has accuracy < 0.05, or is predicted on less than a tenth of its "
        "true share",
        {
            "colours": dead,
            "accuracy": {colour: accuracies[colour] for colour in dead},
            "predicted_share": {colour: histogram["predicted"][colour] for colour in dead},
        },
        {"class_balance_exponent": 0.5, "focal_gamma": 2.0, "network": "mixer"},
    )


def _over_regularisation(metrics: Metrics, series: Series) -> Finding:
    beta, entropy = final_beta(series), metrics["data_entropy_bound_nats"]
    ratio = metrics["kl_nats"] / entropy
    # A code of fewer nats than half the data's entropy cannot name the grid: the rest is a guess.
    return finding(
        "over_regularisation",
        beta > 0 and ratio < 0.5 and metrics["skill_score"] < 0.9,
        "beta > 0, kl_nats < 0.5 x data_entropy_bound_nats and skill_score < 0.9",
        {
            "beta": beta,
            "kl_nats": metrics["kl_nats"],
            "kl_over_entropy": ratio,
            "skill_score": metrics["skill_score"],
        },
        {"beta_max": min(1.0, beta / 2), "free_bits": 0.05},
    )


def final_beta(series: Series) -> float:
    """β in the last epoch: beta_kl / kl_divergence, 0 where the KL is 0 or not finite."""
    kl, beta_kl = series["kl_divergence"][-1], series["beta_kl"][-1]
    if not (math.isfinite(kl) and math.isfinite(beta_kl)) or kl <= 0:
        return 0.0
    return beta_kl / kl
