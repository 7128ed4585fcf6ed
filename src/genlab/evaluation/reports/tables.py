"""Markdown tables of reports, made from result files by pandas."""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from genlab.core.stats import student_interval
from genlab.evaluation.failures.error_analysis import Test, rank_tests
from genlab.evaluation.reports.formats import (
    format_interval,
    format_number,
    format_share,
    format_spread,
    format_value,
    to_words,
)
from genlab.evaluation.reports.targets import Target, judge_target
from genlab.evaluation.reports.trainings import find_metric, training_values

BASELINES = {
    "ours": "this model",
    "no-latents": "its causal head without z",
    "no-head": "it without the causal head",
    "pythae": "pythae, BetaVAE",
    "pythae-mixture": "pythae, last layer ours",
    "normflows": "normflows, Glow",
}
"""Names of the models of results/baselines.json in tables."""
SHARES = ("accuracy", "rate", "baseline", "share", "components")
"""Endings of the metrics that are percentages."""
COUNTS = ("_units", "epochs", "updates", "latent_dim")
"""Endings of the metrics that are counts, for which Student's interval is not meant."""
INTERVALS = (
    "Intervals of several trainings are Student's over them; others are over items, persons or"
    " repeats and say nothing of another training. Where an interval over trainings or persons"
    " contains the target, the outcome is undecided."
)
Row = Mapping[str, Any]


def to_markdown(rows: Iterable[Mapping[str, str]]) -> str:
    """Format rows as a Markdown table with the first row's keys as its header."""
    text: str = pd.DataFrame(rows).to_markdown(index=False, disable_numparse=True)
    return text


def format_metric(key: str, value: Any) -> str:
    """Format a metric as a percentage, count or number, by its key; a list of names in words."""
    if isinstance(value, list):
        return ", ".join(map(to_words, value)) or "nothing"
    if isinstance(value, str | bool | Mapping):
        return format_value(value)
    if key.endswith(SHARES):
        return format_share(value if pd.isna(value) else min(max(value, 0.0), 1.0))
    if key.endswith(COUNTS) and not pd.isna(value):
        return format_number(round(value))
    return format_number(value)


def format_with_interval(metrics: Row, key: str) -> str:
    """Format a metric with its interval: `0.91 (0.90 to 0.92)`."""
    interval = metrics.get("intervals", {}).get(key)
    text = format_metric(key, metrics.get(key))
    if interval is None or key.endswith(COUNTS):
        return text
    return (
        f"{text} ({format_metric(key, interval['low'])} to {format_metric(key, interval['high'])})"
    )


def metrics_table(metrics: Row, labels: Mapping[str, str] | None = None) -> str:
    """Table of the metrics of `labels`, {key: label}, by default all, with intervals and n."""
    sizes = {key: interval["n"] for key, interval in metrics["intervals"].items()}
    return to_markdown(
        {
            "metric": label,
            "value": format_with_interval(metrics, key),
            "n": format_number(sizes.get(key)),
        }
        for key, label in (labels or _by_key(metrics)).items()
    )


def headline(metrics: Row, trainings: pd.DataFrame, path: str) -> str:
    """Format a metric of the default model: the mean of its trainings, else that of one.

    path: dotted, below metrics.json; `best` stands for the sampler that validation chose.
    """
    if trainings.empty:
        group, name = find_metric(metrics, path)
        return f"{format_metric(name, group[name])} (of one training)"
    return f"{_mean_of_trainings(trainings, path)} over {len(trainings)} trainings"


def headlines_table(metrics: Row, trainings: pd.DataFrame, labels: Mapping[str, str]) -> str:
    """Table of metrics, {path: label}: means over trainings, and the committed training.

    The committed training has intervals over its items where it is the only one.
    """
    rows = []
    for path, label in labels.items():
        group, name = find_metric(metrics, path)
        row = {"metric": label}
        if not trainings.empty:
            row[f"mean of {len(trainings)} trainings"] = _mean_of_trainings(trainings, path)
        alone = trainings.empty
        value = format_with_interval(group, name) if alone else format_metric(name, group[name])
        row["committed training"] = value
        rows.append(row)
    return to_markdown(rows)


def _mean_of_trainings(trainings: pd.DataFrame, path: str) -> str:
    """Mean over trainings with Student's interval: `9.3 (8.1 to 10.5)`."""
    name = path.rpartition(".")[2]
    values = training_values(trainings, path)
    row = {name: float(np.mean(values)), "intervals": {name: student_interval(values)}}
    return format_with_interval(row, name)


def samplers_table(samplers: Mapping[str, Row], columns: Mapping[str, str] | None = None) -> str:
    """Table of samplers by columns, {key: label}, by default those of `prior`, with intervals."""
    labels = columns or _by_key(samplers["prior"])
    return to_markdown(
        {
            "sampler": name,
            **{title: format_with_interval(row, key) for key, title in labels.items()},
        }
        for name, row in samplers.items()
    )


def other_judges(metrics: Row) -> str:
    """Relative Fréchet distances of the chosen sampler by the judges after the first, in words."""
    judges = metrics["samplers"][metrics["best_sampler"]]["judges"]
    distances = [judge["relative_frechet"] for name, judge in judges.items() if name != "0"]
    return " and ".join(map(format_number, distances))


def targets_table(
    targets: Mapping[str, Target], benchmarks: Mapping[str, Row], *, command: bool = False
) -> str:
    """Table of benchmarks and their targets; the last column is the key, or the command."""
    rows = []
    for key, target in targets.items():
        entry = {"value": None, "interval": None, "command": None, **benchmarks.get(key, {})}
        value = entry["value"]
        interval = entry["interval"]
        trainings = entry.get("trainings")
        outcome = judge_target(target, entry)
        row = {
            "result": target.description,
            "value": "not measured" if value is None else format_number(value),
            "95 % interval": " to ".join(map(format_number, interval)) if interval else "–",
            "trainings": "–" if trainings is None else str(trainings),
            "target": "–"
            if target.target is None
            else f"{target.sign} {format_number(target.target)}",
            "outcome": "**missed**" if outcome == "missed" else outcome,
        }
        if command:
            row["command"] = f"`{entry['command']}`" if entry["command"] else "–"
        else:
            row["key"] = f"`{key}`"
        rows.append(row)
    return f"{to_markdown(rows)}\n\n{INTERVALS}"


def missed_targets(targets: Mapping[str, Target], benchmarks: Mapping[str, Row]) -> list[str]:
    """List the missed targets with values: `grids.valid_rate` 0.731 (target >= 0.8)."""
    missed = []
    for key, target in targets.items():
        entry = benchmarks.get(key, {})
        if judge_target(target, entry) == "missed":
            value = entry["value"]
            limit = f"{target.sign} {format_number(target.target)}"
            missed.append(f"`{key}` {format_number(value)} (target {limit})")
    return missed


def unmeasured_targets(targets: Mapping[str, Target], benchmarks: Container[str]) -> list[str]:
    """List the keys of the targets that have no value yet."""
    return [
        f"`{key}`"
        for key, target in targets.items()
        if target.target is not None and key not in benchmarks
    ]


def hypotheses_table(tests: Sequence[Test], count: int | None = None) -> str:
    """Table of the supported hypotheses, by the lower bounds of their ratios; at most `count`."""
    supported = [test for test in rank_tests(tests) if test["verdict"] == "supported"]
    if not supported:
        return "*No hypothesis is supported.*"
    return to_markdown(
        {
            "hypothesis": test["sentence"],
            "n": format_number(test["n_with"]),
            "error ratio": "no error without"
            if test["ratio"] is None
            else format_number(test["ratio"]),
            "95 % interval": "–" if test["ratio"] is None else format_interval(test),
        }
        for test in supported[:count]
    )


def chosen_samplers(metrics: Row, trainings: pd.DataFrame) -> str:
    """Name the sampler that validation chose in the committed training; count those of all."""
    committed = f"`{metrics['best_sampler']}`"
    if trainings.empty:
        return committed
    counts = trainings["metrics.best_sampler"].value_counts().items()
    by_name = ", ".join(f"`{name}` in {count}" for name, count in counts)
    return f"{committed} ({by_name} of {len(trainings)} trainings)"


def baselines_table(
    baselines: Sequence[Row], columns: Mapping[str, str], *, settings: bool = False
) -> str:
    """Table of models at equal CPU time by columns: mean ± standard deviation over seeds.

    settings: whether to show what was chosen, settings and samplers, and the number of seeds.
    """
    rows = []
    for row in baselines:
        cells = {"model": BASELINES[row["contender"]]}
        if settings:
            cells["chosen settings"] = row["settings"] or "default"
            cells["seeds"] = str(len(row["seeds"]))
            cells["chosen samplers"] = ", ".join(dict.fromkeys(row["samplers"]))
        for key, label in columns.items():
            cells[label] = format_number(row["mean"][key])
            if row["sd"][key] is not None:
                cells[label] += f" ± {format_spread(row['sd'][key])}"
        rows.append(cells)
    return to_markdown(rows)


def _by_key(metrics: Row) -> dict[str, str]:
    """Label the metrics that have an interval by their keys."""
    return {key: f"`{key}`" for key in metrics["intervals"] if key in metrics}
