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
"""The models of results/baselines.json as tables name them."""
SHARES = ("accuracy", "rate", "baseline", "share", "components")
"""Endings of the metrics that are written as percentages."""
COUNTS = ("_units", "epochs", "updates", "latent_dim")
"""Endings of the metrics that are whole numbers; Student's interval is not for these."""
RATE_SLACK = 0.01  # share of the ELBO that better samples are worth
LEVEL = 0.05  # of tests: a difference with a larger p is within the noise of the seeds
INTERVALS = "Intervals of a model's metrics are over items of one checkpoint, not over trainings."
Row = Mapping[str, Any]


def markdown(rows: Iterable[Mapping[str, str]]) -> str:
    """Rows as a markdown table; the first one's keys are the header."""
    text: str = pd.DataFrame(rows).to_markdown(index=False, disable_numparse=True)
    return text


def show(key: str, found: Any) -> str:
    """A metric as a percentage or a number, as its key asks for; lists of names as words."""
    if isinstance(found, list):
        return ", ".join(map(to_words, found)) or "nothing"
    if isinstance(found, str | bool | Mapping):
        return format_value(found)
    if key.endswith(SHARES):
        return format_share(found if pd.isna(found) else min(max(found, 0.0), 1.0))
    return format_number(round(found) if key.endswith(COUNTS) and not pd.isna(found) else found)


def with_interval(metrics: Row, key: str) -> str:
    """A metric with its interval: `0.91 (0.90 to 0.92)`."""
    interval = metrics.get("intervals", {}).get(key)
    text = show(key, metrics.get(key))
    if interval is None or key.endswith(COUNTS):
        return text
    return f"{text} ({show(key, interval['low'])} to {show(key, interval['high'])})"


def metrics_table(metrics: Row, labels: Mapping[str, str] | None = None) -> str:
    """The metrics of `labels` ({key: what it is}, default: all) with intervals and sample sizes."""
    sizes = {key: interval["n"] for key, interval in metrics["intervals"].items()}
    return markdown(
        {"metric": label, "value": with_interval(metrics, key), "n": format_number(sizes.get(key))}
        for key, label in (labels or _by_key(metrics)).items()
    )


def or_reason(table: Callable[..., str]) -> Callable[..., str]:
    """`table`, or the reason where a sweep has not been run or mixes versions of the code."""

    @wraps(table)
    def shown(*arguments: Any, **options: Any) -> str:
        try:
            return table(*arguments, **options)
        except GenlabError as error:
            return f"*Not shown: {error}*"

    return shown


@or_reason
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
    """Entries of a sweep ({name: what it is}, default: all) by columns: means over seeds.

    intervals: the columns that are shown with theirs; all by default. A star marks a mean that
    differs from that of the entry `base` by more than the noise of the seeds. differences: columns
    of mean differences from `base`, with intervals.
    """
    rows = select_sweep(runs, sweep)
    found, shown = summarise_sweep(rows, columns), columns if intervals is None else intervals
    for row in found.values():
        row["intervals"] = {key: row["intervals"].get(key) for key in columns if key in shown}
    return markdown(
        {"run": label}
        | {
            title: with_interval(found[name], key)
            + ("*" if base and _p_value(rows, key, name, base) < LEVEL else "")
            for key, title in columns.items()
        }
        | {
            title: "–" if name == base else _mean_difference(rows, key, name, base)
            for key, title in (differences or {}).items()
        }
        for name, label in (names or {name: f"`{name}`" for name in found}).items()
        if name in found
    )


@or_reason
def entry_mean(runs: pd.DataFrame, sweep: str, entry: str, column: str) -> str:
    """The mean of a column over the seeds of an entry."""
    return format_number(summarise_sweep(select_sweep(runs, sweep), [column])[entry][column])


@or_reason
def count_diagnoses(runs: pd.DataFrame, sweep: str, entry: str, rule: str) -> str:
    """In how many seeds of an entry a failure is diagnosed: `2 of 3`."""
    return _count_diagnoses(select_sweep(runs, sweep), entry, rule)


def _count_diagnoses(rows: pd.DataFrame, entry: str, rule: str) -> str:
    found = [rule in issues for issues in rows.loc[rows["entry"] == entry, "diagnosis.found"]]
    return f"{sum(found)} of {len(found)}"


@or_reason
def seeds_table(
    runs: pd.DataFrame, sweep: str, rule: str, columns: Mapping[str, str], names: Mapping[str, str]
) -> str:
    """Entries of a sweep by columns, the range over seeds: for skewed numbers, without means.

    rule: the failure that the columns are the evidence of.
    """
    rows = select_sweep(runs, sweep)

    def span(name: str, key: str) -> str:
        values = rows.loc[rows["entry"] == name, key]
        return " to ".join(dict.fromkeys(map(format_number, (values.min(), values.max()))))

    return markdown(
        {
            "run": label,
            "diagnosed": _count_diagnoses(rows, name, rule),
            **{title: span(name, key) for key, title in columns.items()},
        }
        for name, label in names.items()
        if name in set(rows["entry"])
    )


@or_reason
def chosen_rate(runs: pd.DataFrame) -> str:
    """The entry of the sweep `rate` with the lowest Fréchet distance of draws from the prior.

    Candidates are trained at beta 1, and their -ELBO exceeds the lowest of these by at most
    RATE_SLACK; both numbers are means over seeds on the validation split. Those whose distance
    differs by no more than the noise of the seeds are named as ties.
    """
    beta, elbo = "training.best.beta", "training.best.elbo"
    frechet = "metrics.samplers.prior.validation_frechet"
    rows = select_sweep(runs, "rate")
    found = summarise_sweep(rows, (beta, elbo, frechet))
    at_one = {name: row for name, row in found.items() if row[beta] == 1.0}
    limit = max(row[elbo] for row in at_one.values()) * (1 + RATE_SLACK)
    allowed = {name: row[frechet] for name, row in at_one.items() if row[elbo] >= limit}
    best = min(allowed, key=allowed.__getitem__)
    p_values = {n: _p_value(rows, frechet, n, best) for n in allowed if n != best}
    ties = [f"`{n}` (p = {format_number(p)})" for n, p in p_values.items() if not p < LEVEL]
    return f"`{best}`" + (f", in a tie with {', '.join(ties)}" if ties else "")


@or_reason
def fixes_table(runs: pd.DataFrame, sweep: str, fixes: Sequence[Sequence[str]]) -> str:
    """Failures by symptom, measurement without a change, the change, and measurement with it.

    fixes: (symptom, its diagnosis, what is measured, its column, entry without the change, change,
    entry with it). Beside the symptom: in how many seeds without the change it is diagnosed.
    """
    rows = select_sweep(runs, sweep)
    found = summarise_sweep(rows, {fix[3] for fix in fixes})
    return markdown(
        {
            "symptom": symptom,
            "diagnosed": _count_diagnoses(rows, without, rule),
            "measurement": f"{measure} {with_interval(found[without], column)}",
            "change": change,
            "effect": with_interval(found[changed], column),
        }
        for symptom, rule, measure, column, without, change, changed in fixes
        if {without, changed} <= found.keys()
    )


def samplers_table(samplers: Mapping[str, Row], columns: Mapping[str, str] | None = None) -> str:
    """Samplers by columns ({key: label}, default: all of `prior`) with intervals."""
    labels = columns or _by_key(samplers["prior"])
    return markdown(
        {"sampler": name, **{title: with_interval(row, key) for key, title in labels.items()}}
        for name, row in samplers.items()
    )


def targets_table(
    targets: Mapping[str, Target], benchmarks: Mapping[str, Row], *, command: bool = False
) -> str:
    """Benchmarks by key beside their targets; last column: the key, or the command."""
    rows = []
    for key, target in targets.items():
        entry = {"value": None, "interval": None, "command": None, **benchmarks.get(key, {})}
        found, interval, outcome = entry["value"], entry["interval"], target.outcome(entry["value"])
        row = {
            "result": target.description,
            "value": "not measured" if found is None else format_number(found),
            "95 % interval": " to ".join(map(format_number, interval)) if interval else "–",
            "target": "–"
            if target.target is None
            else f"{target.sign} {format_number(target.target)}",
            "outcome": "**missed**" if outcome == "missed" else outcome,
        }
        last = ("command", entry["command"]) if command else ("key", key)
        rows.append({**row, last[0]: f"`{last[1]}`"})
    return f"{markdown(rows)}\n\n{INTERVALS}"


def missed_targets(targets: Mapping[str, Target], benchmarks: Mapping[str, Row]) -> list[str]:
    """Each missed target with its value: `grids.valid_rate` 0.731 (target >= 0.8)."""
    missed = []
    for key, target in targets.items():
        value = benchmarks.get(key, {}).get("value")
        if target.outcome(value) == "missed":
            wanted = f"{target.sign} {format_number(target.target)}"
            missed.append(f"`{key}` {format_number(value)} (target {wanted})")
    return missed


def unmeasured_targets(targets: Mapping[str, Target], benchmarks: Container[str]) -> list[str]:
    """The key of each target that has no value yet."""
    known = (key for key, each in targets.items() if each.target is not None)
    return [f"`{key}`" for key in known if key not in benchmarks]


def hypotheses_table(tests: Sequence[Test], count: int | None = None) -> str:
    """The `count` (default: all) supported hypotheses, the largest lower bound of a ratio first."""
    supported = [test for test in rank_tests(tests) if test["verdict"] == "supported"]
    if not supported:
        return "*No hypothesis is supported.*"
    return markdown(
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
    """Models compared at equal CPU time: mean ± standard deviation over seeds, by columns.

    Where a model has several settings, the number that each was chosen for is named.
    """
    several = len({row["contender"] for row in baselines}) < len(baselines)
    return markdown(
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


def _differences(rows: pd.DataFrame, column: str, one: str, other: str) -> "pd.Series[float]":
    """`one` minus `other` by seed: runs of a seed are a pair, since it draws the split too."""
    values = rows.pivot(index="seed", columns="entry", values=column).astype(float)
    return (values[one] - values[other]).dropna()


def _p_value(rows: pd.DataFrame, column: str, one: str, other: str) -> float:
    """Of a paired t-test over the seeds of two entries; nan for a single seed."""
    return float(ttest_1samp(_differences(rows, column, one, other), 0.0).pvalue)


def _mean_difference(rows: pd.DataFrame, column: str, one: str, other: str) -> str:
    """The mean of the differences over seeds with Student's 95 % interval."""
    found = _differences(rows, column, one, other)
    return f"{format_number(found.mean())} ({format_interval(student_interval(found))})"


def _by_key(metrics: Row) -> dict[str, str]:
    """The metrics that have an interval, labelled by their keys."""
    return {key: f"`{key}`" for key in metrics["intervals"] if key in metrics}
