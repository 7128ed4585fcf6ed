"""Sentences that the numbers themselves give rise to: what went against expectation."""

from collections.abc import Iterator, Mapping
from typing import Any

Context = Mapping[str, Any]


def found_names(diagnosis: Any) -> list[str]:
    """Names of the collapses that were found, from `diagnosis.json`: a list, or {diagnoses: []}."""
    findings = diagnosis["diagnoses"] if isinstance(diagnosis, Mapping) else diagnosis
    return [finding["name"] for finding in findings if finding["found"]]


def surprises(context: Context) -> list[str]:
    """Statements about this run, each computed from its files; empty when nothing surprises."""
    return [
        *_missed(context["verdict"]),
        *_refuted(context["failures"]),
        *_uncounted(context["metrics"].get("samplers", {})),
        *_experiments(context["experiments"]),
    ]


def _missed(verdict: Context) -> Iterator[str]:
    for names, opening in (
        ("criteria", "The verdict's criterion `{name}` fails"),
        ("old_rules", "The old rule `{name}` would reject this model"),
    ):
        for rule in verdict[names]:
            if not rule["passed"]:
                yield (
                    f"{opening.format(name=rule['name'])}: {rule['value']:.4g} is not "
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


def _uncounted(samplers: Context) -> Iterator[str]:
    for name, metrics in samplers.items():
        if not metrics["counted"]:
            yield (
                f"Samples of `{name}`, {metrics['legal_grids']:.1%} legal, do not count: "
                f"total variation from the data is {metrics['count_tv']:.3f} in object count, "
                f"{metrics['size_tv']:.3f} in size, {metrics['colour_tv']:.3f} in colour, and "
                f"{metrics['unique_and_novel_share']:.1%} are neither repeats nor training grids."
            )


def _experiments(experiments: Context) -> Iterator[str]:
    for name, experiment in experiments.items():
        found = found_names(experiment["diagnosis"])
        if found:
            names = ", ".join(word.replace("_", " ") for word in found)
            yield f"The experiment `{name}` shows {names}."
