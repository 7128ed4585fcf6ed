"""Sentences that the numbers themselves give rise to: what went against expectation."""

from collections.abc import Iterator, Mapping
from typing import Any

Context = Mapping[str, Any]

FITTED = ("gaussian", "gmm", "flow")
"""Samplers that know nothing but the codes of a finished model."""


def detected_issues(diagnosis: Any) -> list[str]:
    """Names of the collapses that were found, from `diagnosis.json`: a list, or {diagnoses: []}."""
    findings = diagnosis["diagnoses"] if isinstance(diagnosis, Mapping) else diagnosis
    return [finding["name"] for finding in findings if finding["found"]]


def anomalies(context: Context) -> list[str]:
    """Statements about this run, each computed from its files; empty when nothing anomalies."""
    return [
        *_missed(context["verdict"]),
        *_refuted(context["failures"]),
        *_uncounted(context["metrics"].get("samplers", {})),
        *_experiments(context["experiments"]),
    ]


def image_surprises(context: Context) -> list[str]:
    """The same of a run on images."""
    return [
        *_missed(context["verdict"]),
        *_refuted_of_images(context["failures"]),
        *_samplers_out_of_order(context["metrics"]),
        *_experiments(context["experiments"]),
    ]


def _missed(verdict: Context) -> Iterator[str]:
    for names, opening in (
        ("criteria", "The verdict's criterion `{name}` fails"),
        ("old_rules", "The old rule `{name}` would reject this model"),
    ):
        for rule in verdict[names]:
            if not rule["passed"]:
                # Of images a criterion without a value fails: what was not measured is not good.
                value = "no value" if rule["value"] is None else f"{rule['value']:.4g}"
                yield (
                    f"{opening.format(name=rule['name'])}: {value} is not "
                    f"{rule['sign']} {rule['threshold']:.4g} ({rule['why']})."
                )


def _refuted(failures: Context) -> Iterator[str]:
    for test in failures["tests"]:
        if test["verdict"] == "refuted":
            yield (
                f"Refuted: '{test['sentence']}'. At an equal number of objects such grids have "
                f"{test['ratio_same_count']:.2f} times the {test['error']} of the others "
                f"({test['low']:.2f} to {test['high']:.2f})."
            )


def _refuted_of_images(failures: Context) -> Iterator[str]:
    for tests in (failures["tests"], failures["sample_tests"]):
        for test in tests:
            if test["verdict"] == "refuted":
                yield (
                    f"Refuted: '{test['sentence']}'. Within their classes such images have "
                    f"{test['ratio_same_class']:.2f} times the {test['error']} of the others "
                    f"({test['low']:.2f} to {test['high']:.2f})."
                )
    by_error = {test["name"]: test["verdict"] for test in failures["tests"]}
    for test in failures["nats_tests"]:
        verdicts = {by_error[test["name"]], test["verdict"]}
        if verdicts == {"supported", "refuted"}:
            yield (
                f"'{test['sentence']}' is {by_error[test['name']]} in squared error and "
                f"{test['verdict']} in nats: both do not measure the same."
            )


def _samplers_out_of_order(metrics: Context) -> Iterator[str]:
    known = {
        name: found["frechet_distance"]
        for name, found in metrics["samplers"].items()
        if found["frechet_distance"] is not None
    }
    best = metrics["best_sampler"]
    nearest = min(known, key=lambda name: float(known[name]), default=best)
    if best in known and nearest != best:
        yield (
            f"The sampler `{best}`, picked on the validation split, has Fréchet distance "
            f"{known[best]:.4g} on the test split; `{nearest}` has {known[nearest]:.4g}."
        )
    for name, distance in known.items():
        if name in FITTED and "prior" in known and distance < known["prior"]:
            yield (
                f"`{name}`, fitted to the finished model's codes, samples better than its own "
                f"prior: Fréchet distance {distance:.4g} against {known['prior']:.4g}."
            )


def _uncounted(samplers: Context) -> Iterator[str]:
    for name, metrics in samplers.items():
        if not metrics["counted"]:
            yield (
                f"Samples of `{name}`, {metrics['valid_rate']:.1%} legal, do not count: "
                f"total variation from the data is {metrics['count_tv']:.3f} in object count, "
                f"{metrics['size_tv']:.3f} in size, {metrics['colour_tv']:.3f} in colour, and "
                f"{metrics['unique_and_novel_share']:.1%} are neither repeats nor training grids."
            )


def _experiments(experiments: Context) -> Iterator[str]:
    for name, experiment in experiments.items():
        found = detected_issues(experiment["diagnosis"])
        if found:
            names = ", ".join(word.replace("_", " ") for word in found)
            yield f"The experiment `{name}` shows {names}."
