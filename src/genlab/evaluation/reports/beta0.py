"""Tables of the report of a run of generated grids without the KL term: what its code can hold."""

from genlab.core.params import TRAINING_KEYS
from genlab.evaluation.reports.context import DEFAULT, Context
from genlab.evaluation.reports.formats import (
    format_interval,
    format_number,
    format_share,
    format_value,
    to_words,
)
from genlab.grids.palette import COLOUR_NAMES

Rows = list[dict[str, str]]

TEMPLATE = "grids_beta0.md.j2"
RECONSTRUCTION = "metrics.reconstruction_nats"
EXACT = "metrics.exact_grid_accuracy"


def is_beta0_run(context: Context) -> bool:
    """Whether a context of `load_context` is that of a run of generated grids at beta 0."""
    return bool(context["family"] == "grids" and context["params"]["beta_max"] == 0)


def make_tables(context: Context) -> dict[str, Rows]:
    """Make the rows of the tables that TEMPLATE shows, by name."""
    return {
        "configuration": list_configuration(context),
        "classes": list_classes(context),
        "earlier_runs": list_earlier_runs(context),
    }


def list_configuration(context: Context) -> Rows:
    """List the params of training, and what the run made of them."""
    params = {key: context["params"][key] for key in TRAINING_KEYS}
    training = context["training"]
    names = ("epochs", "best_epoch", "stopped_early", "items_seen", "skipped_updates")
    outcome = {f"run: {to_words(name)}": training[name] for name in names}
    parameters = {"run: parameters": training["parameters"]["all"]}
    values = {**{f"`{key}`": value for key, value in params.items()}, **outcome, **parameters}
    return [{"name": name, "value": format_value(value)} for name, value in values.items()]


def list_classes(context: Context) -> Rows:
    """List the accuracy of each colour with its interval, and its true and predicted shares."""
    metrics = context["metrics"]
    histogram = metrics["colour_histogram"]
    rows = []
    for colour, name in enumerate(COLOUR_NAMES):
        key = str(colour)
        interval = metrics["intervals"].get(f"per_class_accuracy.{key}")
        rows.append(
            {
                "class": f"{key}, {name}",
                "accuracy": format_share(metrics["per_class_accuracy"].get(key)),
                "95 % interval": format_interval(interval) or "–",
                "share of cells": format_share(histogram["true"][key]),
                "predicted": format_share(histogram["predicted"][key]),
            }
        )
    return rows


def list_earlier_runs(context: Context) -> Rows:
    """List the reconstruction term of this run, and of the recorded experiments with grids."""
    runs = context["runs"]
    this = runs.loc[DEFAULT]
    rows = [_describe("this run", 1, this[RECONSTRUCTION], this[EXACT])]
    for entry, recorded in runs.drop(DEFAULT).groupby("entry", sort=False):
        means = recorded[[RECONSTRUCTION, EXACT]].astype(float).mean()
        rows.append(_describe(f"`{entry}`", len(recorded), means[RECONSTRUCTION], means[EXACT]))
    return rows


def _describe(name: str, seeds: int, reconstruction: float, exact: float) -> dict[str, str]:
    return {
        "run": name,
        "seeds": str(seeds),
        "reconstruction, nats": format_number(reconstruction),
        "exact match": format_share(exact),
    }
