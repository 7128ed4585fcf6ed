"""Markdown tables of reports, made from result files by pandas."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any

import pandas as pd
from scipy.stats import ttest_1samp

from genlab.core.errors import GenlabError
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
from genlab.evaluation.reports.targets import Target
from genlab.experiments.results import select_sweep, summarise_sweep

BASELINES = {
    "ours": "this model",
    "pythae-mlp": "pythae, MLP",
    "pythae-conv": "pythae, convolutions",
    "antixk": "PyTorch-VAE, VanillaVAE",
}
"""Names of the models of results/baselines.json in tables."""
SHARES = ("accuracy", "rate", "baseline", "share", "components")
"""Endings of the metrics that are percentages."""
COUNTS = ("_units", "epochs", "updates", "latent_dim")
"""Endings of the metrics that are counts, for which Student's interval is not meant."""
RATE_SLACK = 0.01  # fraction of the ELBO that may be given up for better samples
LEVEL = 0.05  # of significance: a difference with a larger p is within the noise of the seeds
INTERVALS = "Intervals of a model's metrics are over items of one checkpoint, not over trainings."
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


def explain_missing(table: Callable[..., str]) -> Callable[..., str]:
    """Make `table` return the reason where a sweep was not run, or by different code versions."""

    @wraps(table)
    def table_or_reason(*arguments: Any, **options: Any) -> str:
        try:
            return table(*arguments, **options)
        except GenlabError as error:
            return f"*Not shown: {error}*"

    return table_or_reason


@explain_missing
def sweep_table(
    runs: pd.DataFrame,
    sweep: str,
    columns: Mapping[str, str],
    names: Mapping[str, str] | None = None,
    *,
    intervals: Container[str] | None = None,
    base: str = "",
    differences: Mapping[str, str] | None = None,
) -> str:
    """Table of the entries of a sweep by columns: means over seeds.

    names: {entry: label}, by default all entries. intervals: the columns that are shown with their
    intervals, by default all. A star marks a mean that differs from that of the entry `base` by
    more than the noise of the seeds. differences: columns of mean differences from `base`, with
    intervals.
    """
    rows = select_sweep(runs, sweep)
    means = summarise_sweep(rows, columns)
    with_intervals = columns if intervals is None else intervals
    for row in means.values():
        row["intervals"] = {
            key: row["intervals"].get(key) for key in columns if key in with_intervals
        }
    table = []
    for name, label in (names or {name: f"`{name}`" for name in means}).items():
        if name not in means:
            continue
        cells = {"run": label}
        for key, title in columns.items():
            differs = bool(base) and _p_value(rows, key, name, base) < LEVEL
            cells[title] = format_with_interval(means[name], key) + ("*" if differs else "")
        for key, title in (differences or {}).items():
            cells[title] = "–" if name == base else _mean_difference(rows, key, name, base)
        table.append(cells)
    return to_markdown(table)


@explain_missing
def entry_mean(runs: pd.DataFrame, sweep: str, entry: str, column: str) -> str:
    """The mean of a column over the seeds of an entry."""
    return format_number(summarise_sweep(select_sweep(runs, sweep), [column])[entry][column])


@explain_missing
def count_diagnoses(runs: pd.DataFrame, sweep: str, entry: str, rule: str) -> str:
    """Count the seeds of an entry in which a failure is diagnosed: `2 of 3`."""
    return _count_diagnoses(select_sweep(runs, sweep), entry, rule)


def _count_diagnoses(rows: pd.DataFrame, entry: str, rule: str) -> str:
    issues_by_seed = rows.loc[rows["entry"] == entry, "diagnosis.found"]
    count = sum(rule in issues for issues in issues_by_seed)
    return f"{count} of {len(issues_by_seed)}"


@explain_missing
def seeds_table(
    runs: pd.DataFrame, sweep: str, rule: str, columns: Mapping[str, str], names: Mapping[str, str]
) -> str:
    """Table of the entries of a sweep by columns: ranges over seeds, for skewed numbers.

    rule: the failure that the columns give evidence of. names: {entry: label}.
    """
    rows = select_sweep(runs, sweep)

    def span(name: str, key: str) -> str:
        values = rows.loc[rows["entry"] == name, key]
        return " to ".join(dict.fromkeys(map(format_number, (values.min(), values.max()))))

    return to_markdown(
        {
            "run": label,
            "diagnosed": _count_diagnoses(rows, name, rule),
            **{title: span(name, key) for key, title in columns.items()},
        }
        for name, label in names.items()
        if name in set(rows["entry"])
    )


@explain_missing
def chosen_rate(runs: pd.DataFrame) -> str:
    """Name the entry of the sweep `rate` with the lowest Fréchet distance of prior draws.

    Candidates are trained at beta 1, and their -ELBO exceeds the lowest of these by at most
    RATE_SLACK; both numbers are means over seeds on the validation split. Candidates whose distance
    differs by no more than the noise of the seeds are named as ties.
    """
    beta = "training.best.beta"
    elbo = "training.best.elbo"
    frechet = "metrics.samplers.prior.validation_frechet"
    rows = select_sweep(runs, "rate")
    means = summarise_sweep(rows, (beta, elbo, frechet))
    at_one = {name: row for name, row in means.items() if row[beta] == 1.0}
    limit = max(row[elbo] for row in at_one.values()) * (1 + RATE_SLACK)
    allowed = {name: row[frechet] for name, row in at_one.items() if row[elbo] >= limit}
    best = min(allowed, key=allowed.__getitem__)
    p_values = {n: _p_value(rows, frechet, n, best) for n in allowed if n != best}
    ties = [f"`{n}` (p = {format_number(p)})" for n, p in p_values.items() if not p < LEVEL]
    return f"`{best}`" + (f", in a tie with {', '.join(ties)}" if ties else "")


@explain_missing
def fixes_table(runs: pd.DataFrame, sweep: str, fixes: Sequence[Sequence[str]]) -> str:
    """Table of failures and their fixes: a measurement without and with each change.

    fixes: (symptom, its diagnosis, what is measured, its column, entry without the change, change,
    entry with it). The table also says in how many seeds without the change the failure is
    diagnosed.
    """
    rows = select_sweep(runs, sweep)
    means = summarise_sweep(rows, {fix[3] for fix in fixes})
    return to_markdown(
        {
            "symptom": symptom,
            "diagnosed": _count_diagnoses(rows, without, rule),
            "measurement": f"{measure} {format_with_interval(means[without], column)}",
            "change": change,
            "effect": format_with_interval(means[changed], column),
        }
        for symptom, rule, measure, column, without, change, changed in fixes
        if {without, changed} <= means.keys()
    )


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


def targets_table(
    targets: Mapping[str, Target], benchmarks: Mapping[str, Row], *, command: bool = False
) -> str:
    """Table of benchmarks and their targets; the last column is the key, or the command."""
    rows = []
    for key, target in targets.items():
        entry = {"value": None, "interval": None, "command": None, **benchmarks.get(key, {})}
        value = entry["value"]
        interval = entry["interval"]
        outcome = target.outcome(value)
        row = {
            "result": target.description,
            "value": "not measured" if value is None else format_number(value),
            "95 % interval": " to ".join(map(format_number, interval)) if interval else "–",
            "target": "–"
            if target.target is None
            else f"{target.sign} {format_number(target.target)}",
            "outcome": "**missed**" if outcome == "missed" else outcome,
        }
        if command:
            row["command"] = f"`{entry['command']}`"
        else:
            row["key"] = f"`{key}`"
        rows.append(row)
    return f"{to_markdown(rows)}\n\n{INTERVALS}"


def missed_targets(targets: Mapping[str, Target], benchmarks: Mapping[str, Row]) -> list[str]:
    """List the missed targets with values: `grids.valid_rate` 0.731 (target >= 0.8)."""
    missed = []
    for key, target in targets.items():
        value = benchmarks.get(key, {}).get("value")
        if target.outcome(value) == "missed":
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


def baselines_table(baselines: Sequence[Row], columns: Mapping[str, str]) -> str:
    """Table of models at equal CPU time by columns: mean ± standard deviation over seeds.

    Where a model has several settings, the table names the metric that each was chosen for.
    """
    several = len({row["contender"] for row in baselines}) < len(baselines)
    return to_markdown(
        {
            "model": ", ".join(filter(None, [BASELINES[row["contender"]], row["loss"]])),
            **(
                {"chosen for": ", ".join(map(to_words, row["chosen_for"])) or "–"}
                if several
                else {}
            ),
            "seeds": str(len(row["seeds"])),
            **{
                label: format_number(row["mean"][key])
                + ("" if row["sd"][key] is None else f" ± {format_spread(row['sd'][key])}")
                for key, label in columns.items()
            },
        }
        for row in baselines
    )


def _differences(rows: pd.DataFrame, column: str, entry: str, base: str) -> "pd.Series[float]":
    """Differences of two entries by seed, which are paired since a seed draws the split too."""
    values = rows.pivot(index="seed", columns="entry", values=column).astype(float)
    return (values[entry] - values[base]).dropna()


def _p_value(rows: pd.DataFrame, column: str, entry: str, base: str) -> float:
    """p-value of a paired t-test over the seeds of two entries; nan for a single seed."""
    return float(ttest_1samp(_differences(rows, column, entry, base), 0.0).pvalue)


def _mean_difference(rows: pd.DataFrame, column: str, entry: str, base: str) -> str:
    """Mean difference over seeds with Student's 95 % interval."""
    differences = _differences(rows, column, entry, base)
    return f"{format_number(differences.mean())} ({format_interval(student_interval(differences))})"


def _by_key(metrics: Row) -> dict[str, str]:
    """Label the metrics that have an interval by their keys."""
    return {key: f"`{key}`" for key in metrics["intervals"] if key in metrics}
