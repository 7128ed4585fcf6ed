"""Read, write and compare results of experiments, one row per run of results/experiments.csv."""

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from genlab.core.errors import GenlabError
from genlab.core.io import atomic_write, file_error
from genlab.core.stats import student_interval

RESULTS_FILE = Path("results") / "experiments.csv"
PRODUCER = "make experiments"
FINGERPRINTS = ("code", "evaluation")
"""Digests of code in the fingerprint that the runs of a sweep must share."""
# Histograms, and most intervals of nested metrics, are reported for the default run only.
OMITTED = re.compile(
    r"metrics\.(arc_agi\w*\.)?colour_histogram\."
    r"|metrics\..+\.intervals?\.(?!exact_grid_accuracy|relative_frechet)"
)


def flatten_results(
    metrics: Mapping[str, Any],
    training: Mapping[str, Any],
    verdict: Mapping[str, Any],
    diagnosis: Mapping[str, Any],
) -> dict[str, Any]:
    """Flatten the result files of a run into dotted columns.

    Scalars keep their path (`metrics.samplers.prior.frechet_distance`), except those in OMITTED. Of
    the training curves, the exact-match accuracy of grids is kept.
    """
    detected = [rule for rule in diagnosis["diagnoses"] if rule["found"]]
    fixes: dict[str, Any] = {}
    for rule in detected:
        fixes |= rule["fix"]
    missed = [criterion for criterion in verdict["criteria"] if not criterion["passed"]]
    curve = training.get("series", {}).get("exact_grid_accuracy", ())
    evidence = {rule["name"]: rule["evidence"] for rule in diagnosis["diagnoses"]}
    nested = {"metrics": metrics, "training": training, "diagnosis": evidence}
    flat = pd.json_normalize(nested).to_dict("records")[0]
    scalars = {
        column: value
        for column, value in flat.items()
        if not isinstance(value, list) and not OMITTED.match(column)
    }
    return {
        "verdict.passed": verdict["passed"],
        "verdict.missed": join_cells(criterion["name"] for criterion in missed),
        "diagnosis.found": join_cells(rule["name"] for rule in detected),
        "diagnosis.fix": join_cells(format_assignment(key, value) for key, value in fixes.items()),
        "metrics.sigma": join_cells(metrics.get("sigma") or ()),
        "training.exact_grid_accuracy": join_cells(
            "nan" if accuracy is None else f"{accuracy:.7g}" for accuracy in curve
        ),
        **scalars,
    }


def read_results(path: str | Path = RESULTS_FILE) -> pd.DataFrame:
    """Read results/experiments.csv: one row per run, indexed by name, with dotted columns.

    `sweep`, `verdict.missed` and `diagnosis.found` are lists of names, `metrics.sigma` and
    `training.exact_grid_accuracy` lists of numbers, `params` and `diagnosis.fix` dicts. Other cells
    are numbers, booleans or text, or NaN if a run lacks the value.
    """
    return read_table(path, converters=CONVERTERS)


def select_sweep(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Select the rows of a sweep.

    Raises a GenlabError if there are none, or if they are of different versions of the code.
    """
    sweeps = table.get("sweep", pd.Series(dtype=object))
    rows = table.loc[[run for run, sweep_names in sweeps.items() if name in sweep_names]]
    fix = f"make experiments ARGS='--only {name}'"
    if rows.empty:
        raise GenlabError(f"{RESULTS_FILE}: no run of sweep {name!r}; run: {fix}", fix=fix)
    for fingerprint in FINGERPRINTS:
        versions = rows.drop_duplicates(f"fingerprint.{fingerprint}")
        if len(versions) > 1:
            differing = ", ".join(versions.index[:3])
            force = f"make experiments ARGS='--only {name} --force'"
            raise GenlabError(
                f"{RESULTS_FILE}: the runs of sweep {name} are of {len(versions)} versions of"
                f" {fingerprint} ({differing} differ); run: {force}",
                fix=force,
            )
    return rows


def summarise_sweep(rows: pd.DataFrame, columns: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Summarise columns over each entry's seeds: means, `n`, and Student's `intervals`.

    Columns with the same value for all seeds have no interval.
    """
    summaries: dict[str, dict[str, Any]] = {}
    for entry, runs in rows.groupby("entry", sort=False):
        values = runs[list(columns)].astype(float)
        differing = {column: cells for column, cells in values.items() if cells.nunique() > 1}
        intervals = {column: student_interval(cells) for column, cells in differing.items()}
        means = values.mean(skipna=False)
        summaries[str(entry)] = {**means, "n": len(runs), "intervals": intervals}
    return summaries


def read_table(path: str | Path, **options: Any) -> pd.DataFrame:
    """Read a table of experiments with `options` of pandas; cells are not converted to lists."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        # pandas would fill up a truncated row.
        lengths = {len(row) for row in csv.reader(io.StringIO(text), strict=True)}
        if len(lengths) != 1:
            raise ValueError("a row has other columns than the first line")
        options = {"dtype": {"commit": str}, **options}  # a commit may consist of digits only
        return pd.read_csv(io.StringIO(text), **options).set_index("name")
    except FileNotFoundError as error:
        raise file_error(path, "is missing", PRODUCER) from error
    except (csv.Error, YAMLError, ValueError, KeyError, RecursionError) as error:
        reason = " ".join(str(error).split())
        fault = f"is truncated or not a table of experiments ({reason})"
        raise file_error(path, fault, PRODUCER) from error


def write_rows(path: str | Path, rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the rows of results/experiments.csv; columns in the order of first appearance."""
    table = pd.DataFrame(list(rows.values()), index=list(rows), dtype=object)
    with atomic_write(path) as temporary:
        table.to_csv(temporary, index_label="name", lineterminator="\n")


def join_cells(values: Iterable[Any]) -> str:
    return ";".join(str(value) for value in values)


def _split(cell: str) -> list[str]:
    return cell.split(";") if cell else []


def _parse_numbers(cell: str) -> list[float]:
    return [float(number) for number in _split(cell)]


def _parse_changes(cell: str) -> dict[str, Any]:
    yaml = YAML(typ="safe", pure=True)
    changes = {}
    for assignment in _split(cell):
        key, _, value = assignment.partition("=")
        changes[key] = yaml.load(value)
    return changes


CONVERTERS = {
    **dict.fromkeys(("sweep", "verdict.missed", "diagnosis.found"), _split),
    **dict.fromkeys(("metrics.sigma", "training.exact_grid_accuracy"), _parse_numbers),
    **dict.fromkeys(("params", "diagnosis.fix"), _parse_changes),
}


def format_assignment(key: str, value: Any) -> str:
    """Return `key=value` as `dvc exp run -S` reads it."""
    return f"{key}={json.dumps(value) if isinstance(value, bool | list) else value}"
