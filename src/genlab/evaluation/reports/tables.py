"""Markdown tables of reports, made from result files by pandas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from genlab.evaluation.reports.formats import number, share, spread, value, words

SHARES = ("accuracy", "rate", "baseline", "share", "components")
"""Endings of the metrics that are written as percentages."""


def markdown(rows: Iterable[Mapping[str, str]]) -> str:
    """Rows as a markdown table; the first one's keys are the header."""
    frame = pd.DataFrame(rows).fillna("–").replace(r"\|", r"\\|", regex=True)
    text: str = frame.to_markdown(index=False, disable_numparse=True)
    return text


def show(key: str, found: Any) -> str:
    """A metric as a percentage or a number, as its key asks for; lists of names as words."""
    if isinstance(found, list):
        return words(", ".join(found)) or "nothing"
    if isinstance(found, str | bool):
        return value(found)
    if key.endswith(SHARES):
        return share(found)
    is_count = key.endswith(("_units", "epochs", "updates", "latent_dim"))
    return number(int(found) if is_count and not pd.isna(found) else found)


def with_interval(metrics: Mapping[str, Any], key: str) -> str:
    """A metric with its interval: `0.91 (0.90 to 0.92)`."""
    interval = metrics.get("intervals", {}).get(key)
    text = show(key, metrics.get(key))
    if interval is None:
        return text
    return f"{text} ({show(key, interval['low'])} to {show(key, interval['high'])})"


def metrics_table(metrics: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """The metrics of `labels` ({key: what it is}) with their intervals and sample sizes."""
    intervals = metrics["intervals"]
    return markdown(
        {
            "metric": label,
            "value": with_interval(metrics, key),
            "n": number(intervals.get(key, {}).get("n")),
        }
        for key, label in labels.items()
    )


def runs_table(runs: pd.DataFrame, names: Mapping[str, str], columns: Mapping[str, str]) -> str:
    """Runs ({name: what it is}) by columns ({dotted column: label})."""
    return markdown(
        {
            "run": label,
            **{title: show(column, runs.at[name, column]) for column, title in columns.items()},
        }
        for name, label in names.items()
    )


def seeds_table(runs: pd.DataFrame, names: Sequence[str], columns: Mapping[str, str]) -> str:
    """Mean and standard deviation of each column over the runs `names`."""
    chosen = runs.loc[list(names), list(columns)].astype(float)
    rows = chosen.agg(["mean", "std"]).T
    return markdown(
        {"metric": columns[str(key)], "mean": number(row["mean"]), "sd": spread(row["std"])}
        for key, row in rows.iterrows()
    )


def samplers_table(
    samplers: Mapping[str, Mapping[str, Any]], columns: Mapping[str, str], best: str
) -> str:
    """Samplers, the selected one in bold, by columns ({key: label}) with intervals."""
    return markdown(
        {
            "sampler": f"**{name}**" if name == best else name,
            **{label: with_interval(found, key) for key, label in columns.items()},
        }
        for name, found in samplers.items()
    )


def targets_table(targets: Iterable[Mapping[str, Any]], last_column: str = "key") -> str:
    """Benchmarks beside their targets: rows of `target_rows`; last column: `key` or `command`."""
    return markdown(
        {
            "result": row["what"],
            "value": value(row["value"]) if row["value"] is not None else "not measured",
            "95 % interval": _interval(row["entry"]["interval"]),
            "target": _wanted(row["sign"], row["target"]),
            "outcome": _outcome(row["met"], row["stretch_met"]),
            last_column: f"`{row['key'] if last_column == 'key' else row['entry'].get('command')}`",
        }
        for row in targets
    )


def diagnosis_table(diagnosis: Mapping[str, Any]) -> str:
    """Failure rules with their outcome and the numbers that decided it."""
    return markdown(
        {
            "failure": words(row["name"]),
            "detected": "**yes**" if row["found"] else "no",
            "rule": row["rule"],
            "evidence": "; ".join(f"{words(k)} {value(v)}" for k, v in row["evidence"].items()),
        }
        for row in diagnosis["diagnoses"]
    )


def hypotheses_table(tests: Sequence[Mapping[str, Any]], count: int) -> str:
    """The `count` supported hypotheses with the largest lower bound of their error ratio."""
    ratio = next(key for key in tests[0] if key.startswith("ratio_same"))
    supported = [test for test in tests if test["verdict"] == "supported"]
    supported.sort(key=lambda test: -test["low"])
    return markdown(
        {
            "hypothesis": test["sentence"],
            "n": number(test["n_with"]),
            "error ratio": number(test[ratio]),
            "joint 95 % interval": f"{number(test['low'])} to {number(test['high'])}",
        }
        for test in supported[:count]
    )


def fixes_table(runs: pd.DataFrame, pairs: Sequence[tuple[str, str]]) -> str:
    """Provoked failures and the runs that apply the fix their diagnosis names."""
    return markdown(
        {
            "provoked by": _changes(runs.at[broken, "params"], runs.at[fixed, "params"]),
            "diagnosed": show("", runs.at[broken, "diagnosis.found"]),
            "recommended fix": _changes(runs.at[broken, "diagnosis.fix"], {}),
            "diagnosed after it": show("", runs.at[fixed, "diagnosis.found"]),
        }
        for broken, fixed in pairs
    )


def baselines_table(baselines: pd.DataFrame, names: Mapping[str, str]) -> str:
    """The models of the comparison at equal CPU time, mean ± standard deviation over seeds."""
    columns = {
        "bits_per_dim": "bits/dim",
        "ssim": "SSIM",
        "frechet_distance": "Fréchet distance",
        "relative_frechet": "relative Fréchet",
    }
    return markdown(
        {
            "model": ", ".join(filter(None, [names[row["contender"]], row["loss"]])),
            "seeds": str(row["seeds"]),
            "images seen": number(row["images_seen"]),
            **{
                label: number(row[key])
                + ("" if pd.isna(row[f"sd.{key}"]) else f" ± {spread(row[f'sd.{key}'])}")
                for key, label in columns.items()
            },
        }
        for row in baselines.to_dict("records")
    )


def _interval(interval: Sequence[float] | None) -> str:
    return "–" if interval is None else f"{number(interval[0])} to {number(interval[1])}"


def _wanted(sign: str, target: float | bool | None) -> str:
    if target is None:
        return "–"
    return value(target) if isinstance(target, bool) else f"{sign} {number(target)}"


def _outcome(met: bool | None, stretch_met: bool | None) -> str:
    if met is None:
        return "reported"
    if not met:
        return "**missed**"
    return "stretch target met" if stretch_met else "met"


def _changes(changed: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The params of `changed` that `other` lacks or has with another value."""
    return " ".join(f"`{key}={v}`" for key, v in changed.items() if other.get(key) != v)
