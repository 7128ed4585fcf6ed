"""Markdown tables of reports, made from result files by pandas."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any

import pandas as pd

from genlab.core.errors import GenlabError
from genlab.evaluation.diagnostics.error_analysis import Test, ranked
from genlab.evaluation.reports.formats import number, share, spread, value, words
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
RATE_SLACK = 0.01  # share of the ELBO that better samples are worth
Row = Mapping[str, Any]


def markdown(rows: Iterable[Mapping[str, str]]) -> str:
    """Rows as a markdown table; the first one's keys are the header."""
    text: str = pd.DataFrame(rows).to_markdown(index=False, disable_numparse=True)
    return text


def show(key: str, found: Any) -> str:
    """A metric as a percentage or a number, as its key asks for; lists of names as words."""
    if isinstance(found, list):
        return words(", ".join(found)) or "nothing"
    if isinstance(found, str | bool | Mapping):
        return value(found)
    if key.endswith(SHARES):
        return share(found if pd.isna(found) else min(max(found, 0.0), 1.0))
    is_count = key.endswith(("_units", "epochs", "updates", "latent_dim"))
    return number(int(found) if is_count and not pd.isna(found) else found)


def with_interval(metrics: Row, key: str) -> str:
    """A metric with its interval: `0.91 (0.90 to 0.92)`."""
    interval = metrics.get("intervals", {}).get(key)
    text = show(key, metrics.get(key))
    if interval is None:
        return text
    return f"{text} ({show(key, interval['low'])} to {show(key, interval['high'])})"


def metrics_table(metrics: Row, labels: Mapping[str, str] | None = None) -> str:
    """The metrics of `labels` ({key: what it is}, default: all) with intervals and sample sizes."""
    sizes = {key: interval["n"] for key, interval in metrics["intervals"].items()}
    return markdown(
        {"metric": label, "value": with_interval(metrics, key), "n": number(sizes.get(key))}
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
    intervals: bool = True,
) -> str:
    """Entries of a sweep ({name: what it is}, default: all) by columns: means over seeds."""
    found = summarise_sweep(select_sweep(runs, sweep), columns)
    hidden: dict[str, Any] = {} if intervals else {"intervals": {}}
    labels = names or {name: f"`{name}`" for name in found}
    known = ((label, found[name] | hidden) for name, label in labels.items() if name in found)
    return _rows_table("run", known, columns)


@or_reason
def seeds_table(
    runs: pd.DataFrame, sweep: str, columns: Mapping[str, str], names: Mapping[str, str]
) -> str:
    """Entries of a sweep by columns, the value of every seed: for skewed numbers, without means."""
    found = select_sweep(runs, sweep)
    return markdown(
        {
            "run": label,
            **{
                title: "; ".join(number(value) for value in found.loc[found["entry"] == name, key])
                for key, title in columns.items()
            },
        }
        for name, label in names.items()
    )


@or_reason
def chosen_rate(runs: pd.DataFrame) -> str:
    """The entry of the sweep `rate` with the lowest Fréchet distance of draws from the prior.

    Candidates are trained at beta 1, and their -ELBO exceeds the lowest of these by at most
    RATE_SLACK; both numbers are means over seeds on the validation split.
    """
    beta, elbo = "training.best.beta", "training.best.elbo"
    frechet = "metrics.samplers.prior.validation_frechet"
    found = summarise_sweep(select_sweep(runs, "rate"), (beta, elbo, frechet))
    at_one = {name: row for name, row in found.items() if row[beta] == 1.0}
    limit = max(row[elbo] for row in at_one.values()) * (1 + RATE_SLACK)
    allowed = {name: row[frechet] for name, row in at_one.items() if row[elbo] >= limit}
    return f"`{min(allowed, key=allowed.__getitem__)}`"


@or_reason
def fixes_table(runs: pd.DataFrame, sweep: str, fixes: Sequence[Sequence[str]]) -> str:
    """Failures by symptom, measurement without a change, the change, and measurement with it.

    fixes: (symptom, what is measured, its column, entry without the change, change, entry with it).
    """
    found = summarise_sweep(select_sweep(runs, sweep), {fix[2] for fix in fixes})
    return markdown(
        {
            "symptom": symptom,
            "measurement": f"{measure} {with_interval(found[without], column)}",
            "change": change,
            "effect": with_interval(found[changed], column),
        }
        for symptom, measure, column, without, change, changed in fixes
        if {without, changed} <= found.keys()
    )


def samplers_table(samplers: Mapping[str, Row], columns: Mapping[str, str] | None = None) -> str:
    """Samplers by columns ({key: label}, default: all of `prior`) with intervals."""
    return _rows_table("sampler", samplers.items(), columns or _by_key(samplers["prior"]))


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
            "value": "not measured" if found is None else number(found),
            "95 % interval": " to ".join(map(number, interval)) if interval else "–",
            "target": "–" if target.target is None else f"{target.sign} {number(target.target)}",
            "outcome": "**missed**" if outcome == "missed" else outcome,
        }
        last = ("command", entry["command"]) if command else ("key", key)
        rows.append({**row, last[0]: f"`{last[1]}`"})
    return markdown(rows)


def missed_targets(targets: Mapping[str, Target], benchmarks: Mapping[str, Row]) -> list[str]:
    """Each missed target with its value: `grids.valid_rate` 0.731 (target >= 0.8)."""
    values = {key: benchmarks.get(key, {}).get("value") for key in targets}
    return [
        f"`{key}` {number(values[key])} (target {target.sign} {number(target.target)})"
        for key, target in targets.items()
        if target.outcome(values[key]) == "missed"
    ]


def hypotheses_table(tests: Sequence[Test], count: int | None = None) -> str:
    """The `count` (default: all) supported hypotheses, the largest lower bound of a ratio first."""
    supported = [test for test in ranked(tests) if test["verdict"] == "supported"]
    return markdown(
        {
            "hypothesis": test["sentence"],
            "n": number(test["n_with"]),
            "error ratio": number(test["ratio"]),
            "95 % interval": f"{number(test['low'])} to {number(test['high'])}",
        }
        for test in supported[:count]
    )


def baselines_table(baselines: Iterable[Row], columns: Mapping[str, str]) -> str:
    """Models compared at equal CPU time: mean ± standard deviation over seeds, by columns."""
    return markdown(
        {
            "model": ", ".join(filter(None, [BASELINES[row["contender"]], row["loss"]])),
            "seeds": str(len(row["seeds"])),
            **{
                label: number(row["mean"][key])
                + ("" if row["sd"][key] is None else f" ± {spread(row['sd'][key])}")
                for key, label in columns.items()
            },
        }
        for row in baselines
    )


def _by_key(metrics: Row) -> dict[str, str]:
    """The metrics that have an interval, labelled by their keys."""
    return {key: f"`{key}`" for key in metrics["intervals"] if key in metrics}


def _rows_table(first: str, rows: Iterable[tuple[str, Row]], columns: Mapping[str, str]) -> str:
    return markdown(
        {first: label, **{title: with_interval(row, key) for key, title in columns.items()}}
        for label, row in rows
    )
