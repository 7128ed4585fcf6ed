"""Markdown tables of sweeps of experiments, and what is said of their rows."""

from collections.abc import Callable, Container, Mapping, Sequence
from functools import wraps
from typing import Any

import pandas as pd

from genlab.core.errors import GenlabError
from genlab.core.stats import student_interval
from genlab.evaluation.reports.formats import format_interval, format_number
from genlab.evaluation.reports.tables import format_with_interval, to_markdown
from genlab.experiments.results import paired_differences, select_sweep, summarise_sweep
from genlab.experiments.rules import SelectionRule, apply_rule

PRIOR_DISTANCE = "metrics.samplers.prior.validation_frechet"


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
    intervals, by default all. A star marks a mean whose difference from that of the entry `base`
    has an interval over seeds without 0. differences: columns of mean differences from `base`, with
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
            differs = bool(base) and _differs(rows, key, name, base)
            cells[title] = format_with_interval(means[name], key) + ("*" if differs else "")
        for key, title in (differences or {}).items():
            cells[title] = "–" if name == base else _mean_difference(rows, key, name, base)
        table.append(cells)
    return to_markdown(table)


@explain_missing
def entry_mean(
    runs: pd.DataFrame, sweep: str, entry: str, column: str, limit: float | None = None
) -> str:
    """The mean of a column over the seeds of an entry, with Student's interval.

    limit: value that the column is compared with; one in the interval leaves this undecided.
    """
    rows = _select_entry(runs, sweep, entry)
    if column not in rows or rows[column].isna().all():
        raise GenlabError(f"no {column} of {entry}")
    summary = summarise_sweep(rows, [column])[entry]
    text = format_with_interval(summary, column)
    interval = summary["intervals"].get(column)
    undecided = interval and limit is not None and interval["low"] <= limit <= interval["high"]
    return f"{text.removesuffix(')')}; undecided)" if undecided else text


@explain_missing
def count_diagnoses(runs: pd.DataFrame, sweep: str, entry: str, rule: str) -> str:
    """Count the seeds of an entry in which a failure is diagnosed: `2 of 3`."""
    issues_by_seed = _select_entry(runs, sweep, entry)["diagnosis.found"]
    count = sum(rule in issues for issues in issues_by_seed)
    return f"{count} of {len(issues_by_seed)}"


def _select_entry(runs: pd.DataFrame, sweep: str, entry: str) -> pd.DataFrame:
    """Select the runs of an entry. Raises a GenlabError where the sweep has none."""
    rows = select_sweep(runs, sweep)
    rows = rows[rows["entry"] == entry]
    if rows.empty:
        raise GenlabError(f"no run of {entry}")
    return rows


@explain_missing
def chosen_default(
    runs: pd.DataFrame,
    rule: SelectionRule,
    missing: Mapping[str, Sequence[str]],
    prices: Mapping[str, str],
) -> str:
    """Say what a rule picks, also by one sampler for all, and what another default costs.

    missing: runs that each sweep lacks. prices: {column: label} of the differences of the default
    from what the rule picks, with intervals over seeds. The rule's column is that of the sampler
    that each run chose on validation, so that entries may be compared by different samplers.
    """
    if lacking := missing.get(rule.sweep):
        return f"*Not applied: {len(lacking)} runs of sweep `{rule.sweep}` are missing.*"
    rows = select_sweep(runs, rule.sweep)
    choice = apply_rule(rule, runs)
    count = len(choice.ties)
    tie = f", one of {count} that tie with the smallest mean" if count > 1 else ""
    default = ", the default" if choice.picked == rule.default else ""
    by_prior = apply_rule(rule.model_copy(update={"minimize": PRIOR_DISTANCE}), runs).picked
    other = "" if by_prior == choice.picked else f" By draws of `prior` alone: `{by_prior}`."
    picked = f"It picks `{choice.picked}`{default}{tie}.{other}"
    if default:
        return picked
    differences = [
        f"{label} {_mean_difference(rows, column, rule.default, choice.picked)}"
        for column, label in prices.items()
    ]
    return (
        f"{picked} The default, `{rule.default}`, is kept{f' {rule.kept}' if rule.kept else ''}."
        f" It differs by: {'; '.join(differences)}."
    )


def _differs(rows: pd.DataFrame, column: str, entry: str, base: str) -> bool:
    """Whether the interval over seeds of the mean difference of two entries leaves out 0."""
    differences = paired_differences(rows, column, entry, base)
    if len(differences) < 2:
        return False
    interval = student_interval(differences)
    return interval["low"] > 0 or interval["high"] < 0


def _mean_difference(rows: pd.DataFrame, column: str, entry: str, base: str) -> str:
    """Mean difference over seeds with Student's 95 % interval."""
    differences = paired_differences(rows, column, entry, base)
    return f"{format_number(differences.mean())} ({format_interval(student_interval(differences))})"
