"""Markdown tables of reports, made from result files by pandas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from genlab.core.errors import GenlabError
from genlab.core.experiment_results import select_sweep, summarise_sweep
from genlab.evaluation.reports.formats import number, share, spread, value, words
from genlab.evaluation.reports.targets import Target

SHARES = ("accuracy", "rate", "baseline", "share", "components")
"""Endings of the metrics that are written as percentages."""
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
        return share(found)
    is_count = key.endswith(("_units", "epochs", "updates", "latent_dim"))
    return number(int(found) if is_count and not pd.isna(found) else found)


def with_interval(metrics: Row, key: str) -> str:
    """A metric with its interval: `0.91 (0.90 to 0.92)`."""
    interval = metrics.get("intervals", {}).get(key)
    text = show(key, metrics.get(key))
    if interval is None:
        return text
    return f"{text} ({show(key, interval['low'])} to {show(key, interval['high'])})"


def metrics_table(metrics: Row, labels: Mapping[str, str]) -> str:
    """The metrics of `labels` ({key: what it is}) with their intervals and sample sizes."""
    sizes = {key: interval["n"] for key, interval in metrics["intervals"].items()}
    return markdown(
        {"metric": label, "value": with_interval(metrics, key), "n": number(sizes.get(key))}
        for key, label in labels.items()
    )


def sweep_table(
    runs: pd.DataFrame, sweep: str, names: Mapping[str, str], columns: Mapping[str, str]
) -> str:
    """Entries of a sweep ({name: what it is}) by columns: means with intervals over seeds.

    Where the sweep has not been run, or mixes versions of the code, the reason stands instead.
    """
    try:
        found = summarise_sweep(select_sweep(runs, sweep), columns)
    except GenlabError as error:
        return f"*Not shown: {error}*"
    known = ((label, found[name]) for name, label in names.items() if name in found)
    return _rows_table("run", known, columns)


def samplers_table(samplers: Mapping[str, Row], columns: Mapping[str, str]) -> str:
    """Samplers by columns ({key: label}) with intervals."""
    return _rows_table("sampler", samplers.items(), columns)


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


def hypotheses_table(tests: Sequence[Row], count: int) -> str:
    """The `count` supported hypotheses with the largest lower bound of their error ratio."""
    supported = [test for test in tests if test["verdict"] == "supported"]
    return markdown(
        {
            "hypothesis": test["sentence"],
            "n": number(test["n_with"]),
            "error ratio": number(test["ratio"]),
            "joint 95 % interval": f"{number(test['low'])} to {number(test['high'])}",
        }
        for test in sorted(supported, key=lambda test: -test["low"])[:count]
    )


def baselines_table(
    baselines: Iterable[Row], names: Mapping[str, str], columns: Mapping[str, str]
) -> str:
    """Models compared at equal CPU time: mean ± standard deviation over seeds, by columns."""
    return markdown(
        {
            "model": ", ".join(filter(None, [names[row["contender"]], row["loss"]])),
            "seeds": str(len(row["seeds"])),
            **{
                label: number(row["mean"][key])
                + ("" if row["sd"][key] is None else f" ± {spread(row['sd'][key])}")
                for key, label in columns.items()
            },
        }
        for row in baselines
    )


def _rows_table(first: str, rows: Iterable[tuple[str, Row]], columns: Mapping[str, str]) -> str:
    return markdown(
        {first: label, **{title: with_interval(row, key) for key, title in columns.items()}}
        for label, row in rows
    )
