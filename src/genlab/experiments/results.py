"""Results of experiments: one row per run of results/experiments.csv, compared in sweeps."""

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
"""Parts of the fingerprint, digests of code, that the runs of a sweep must share."""
# Histograms are reported of the default run alone, and so are most intervals of nested metrics.
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

    Scalars keep their path (`metrics.samplers.prior.frechet_distance`), but for those in OMITTED;
    of the training curves the exact match of grids is kept.
    """
    found = [rule for rule in diagnosis["diagnoses"] if rule["found"]]
    fix = {key: value for rule in found for key, value in rule["fix"].items()}
    curve = training.get("series", {}).get("exact_grid_accuracy", ())
    evidence = {rule["name"]: rule["evidence"] for rule in diagnosis["diagnoses"]}
    nested = {"metrics": metrics, "training": training, "diagnosis": evidence}
    flat = pd.json_normalize(nested).to_dict("records")[0]
    return {
        "verdict.passed": verdict["passed"],
        "verdict.missed": join_cells(r["name"] for r in verdict["criteria"] if not r["passed"]),
        "diagnosis.found": join_cells(rule["name"] for rule in found),
        "diagnosis.fix": join_cells(format_assignment(key, value) for key, value in fix.items()),
        "metrics.sigma": join_cells(metrics.get("sigma") or ()),
        "training.exact_grid_accuracy": join_cells(
            "nan" if v is None else f"{v:.7g}" for v in curve
        ),
        **{k: v for k, v in flat.items() if not isinstance(v, list) and not OMITTED.match(k)},
    }


def read_results(path: str | Path = RESULTS_FILE) -> pd.DataFrame:
    """Read results/experiments.csv: one row per run, indexed by name, dotted columns.

    `sweep`, `verdict.missed` and `diagnosis.found` hold lists of names, `metrics.sigma` and
    `training.exact_grid_accuracy` lists of numbers, `params` and `diagnosis.fix` dicts. Other cells
    are numbers, booleans or text, NaN where a run has no such value.
    """
    return read_table(path, converters=CONVERTERS)


def select_sweep(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows of a sweep. Raises a GenlabError where there are none, or of several versions."""
    sweeps = table.get("sweep", pd.Series(dtype=object))
    rows = table.loc[[run for run, own in sweeps.items() if name in own]]
    fix = f"make experiments ARGS='--only {name}'"
    if rows.empty:
        raise GenlabError(f"{RESULTS_FILE}: no run of sweep {name!r}; run: {fix}", fix=fix)
    for part in FINGERPRINTS:
        if len(first := rows.drop_duplicates(f"fingerprint.{part}")) > 1:
            raise GenlabError(
                f"{RESULTS_FILE}: the runs of sweep {name} are of {len(first)} versions of {part}"
                f" ({', '.join(first.index[:3])} differ); run: {fix[:-1]} --force'",
                fix=f"{fix[:-1]} --force'",
            )
    return rows


def summarise_sweep(rows: pd.DataFrame, columns: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Mean of each column over an entry's seeds, `n`, Student's `intervals` of unequal values."""
    found: dict[str, dict[str, Any]] = {}
    for entry, runs in rows.groupby("entry", sort=False):
        values = runs[list(columns)].astype(float)
        differing = {column: cells for column, cells in values.items() if cells.nunique() > 1}
        intervals = {column: student_interval(cells) for column, cells in differing.items()}
        found[str(entry)] = {**values.mean(skipna=False), "n": len(runs), "intervals": intervals}
    return found


def read_table(path: str | Path, **options: Any) -> pd.DataFrame:
    try:
        text = Path(path).read_text(encoding="utf-8")
        # pandas fills up a row that is cut short.
        if len({len(row) for row in csv.reader(io.StringIO(text), strict=True)}) != 1:
            raise ValueError("a row has other columns than the first line")
        columns = {"dtype": {"commit": str}, **options}  # one of digits alone is no number
        return pd.read_csv(io.StringIO(text), **columns).set_index("name")
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
    return [float(part) for part in _split(cell)]


def _parse_changes(cell: str) -> dict[str, Any]:
    yaml = YAML(typ="safe", pure=True)
    pairs = (part.partition("=") for part in _split(cell))
    return {key: yaml.load(value) for key, _, value in pairs}


CONVERTERS = {
    **dict.fromkeys(("sweep", "verdict.missed", "diagnosis.found"), _split),
    **dict.fromkeys(("metrics.sigma", "training.exact_grid_accuracy"), _parse_numbers),
    **dict.fromkeys(("params", "diagnosis.fix"), _parse_changes),
}


def format_assignment(key: str, value: Any) -> str:
    """`key=value` as `dvc exp run -S` reads it."""
    return f"{key}={json.dumps(value) if isinstance(value, bool | list) else value}"
