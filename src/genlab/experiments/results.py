"""Read, write and compare results of experiments, one row per run of results/experiments.csv."""

import csv
import io
import json
import math
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

TEXTS = {"commit": str, "fingerprint.code": str, "fingerprint.evaluation": str}
TEXTS |= {"fingerprint.params": str}
"""Columns that may consist of digits only, but are no numbers."""
RESULTS_FILE = Path("results") / "experiments.csv"
PRODUCER = "make experiments"
VERSIONS = {
    "fingerprint.code": "versions of code",
    "fingerprint.evaluation": "versions of evaluation",
    "machine": "kinds of machine",
}
"""Columns that have one value in all runs of a sweep, and what differs where they do not."""
KEPT = re.compile(
    r"training\.(epochs|seconds|skipped_updates|items_seen|exact_grid_accuracy|best\.\w+)"
    r"|diagnosis\..+"
    r"|metrics\.(\w+|floor\.\w+|rate\..+|arc_agi\.\w+|memorisation\.near_duplicate_rate)"
    r"|metrics\.intervals\.bits_per_dim\.\w+"
    r"|metrics\.samplers\.\w+\.(n|valid_rate|count_tv|temperature|validation_frechet"
    r"|frechet_distance|recall|precision|acceptance|discriminator_accuracy|novelty"
    r"|relative_frechet|intervals\.relative_frechet\.\w+)"
)
"""Columns of the result files that tables, benchmarks and pages read, or may want to."""


def flatten_results(
    metrics: Mapping[str, Any],
    training: Mapping[str, Any],
    verdict: Mapping[str, Any],
    diagnosis: Mapping[str, Any],
) -> dict[str, Any]:
    """Flatten the result files of a run into dotted columns.

    Scalars keep their path (`metrics.samplers.prior.frechet_distance`) if they are in KEPT. Of the
    training curves, the exact-match accuracy of grids is kept. Of each criterion of the verdict,
    `criteria.NAME.value` and `criteria.NAME.threshold`, which may differ from run to run.
    """
    detected = [rule for rule in diagnosis["diagnoses"] if rule["found"]]
    fixes: dict[str, Any] = {}
    for rule in detected:
        fixes |= rule["fix"]
    criteria = {
        f"criteria.{criterion['name']}.{key}": criterion[key]
        for criterion in verdict["criteria"]
        for key in ("value", "threshold")
    }
    curve = training.get("series", {}).get("exact_grid_accuracy", ())
    evidence = {rule["name"]: rule["evidence"] for rule in diagnosis["diagnoses"]}
    nested = {"metrics": metrics, "training": training, "diagnosis": evidence}
    flat = pd.json_normalize(nested).to_dict("records")[0]
    scalars = {
        column: value
        for column, value in flat.items()
        if not isinstance(value, list) and KEPT.fullmatch(column)
    }
    return {
        **criteria,
        "diagnosis.found": join_cells(rule["name"] for rule in detected),
        "diagnosis.fix": join_cells(format_assignment(key, value) for key, value in fixes.items()),
        "training.exact_grid_accuracy": join_cells(
            "nan" if accuracy is None else f"{accuracy:.7g}" for accuracy in curve
        ),
        **scalars,
    }


def read_results(path: str | Path = RESULTS_FILE) -> pd.DataFrame:
    """Read results/experiments.csv: one row per run, indexed by name, with dotted columns.

    `sweep` and `diagnosis.found` are lists of names, `training.exact_grid_accuracy` a list of
    numbers, `params` and `diagnosis.fix` dicts. Other cells are numbers, booleans or text, or NaN
    if a run lacks the value.
    """
    return read_table(path, converters=CONVERTERS)


def select_sweep(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Select the rows of a sweep.

    Raises a GenlabError if there are none, or if they are of different versions of the code or of
    different kinds of machines.
    """
    sweeps = table.get("sweep", pd.Series(dtype=object))
    rows = table.loc[[run for run, sweep_names in sweeps.items() if name in sweep_names]]
    fix = f"make experiments ARGS='--only {name}'"
    if rows.empty:
        raise GenlabError(f"{RESULTS_FILE}: no run of sweep {name!r}; run: {fix}", fix=fix)
    for column, what in VERSIONS.items():
        versions = rows.drop_duplicates(column)
        if len(versions) > 1:
            differing = ", ".join(versions.index[:3])
            force = f"make experiments ARGS='--only {name} --force'"
            raise GenlabError(
                f"{RESULTS_FILE}: the runs of sweep {name} are of {len(versions)} {what}"
                f" ({differing} differ); run: {force}",
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


def paired_differences(
    rows: pd.DataFrame, column: str, entry: str, base: str
) -> "pd.Series[float]":
    """Differences of two entries by seed, which are paired since a seed draws the split too."""
    values = rows.pivot(index="seed", columns="entry", values=column).astype(float)
    return (values[entry] - values[base]).dropna()


def add_image_columns(runs: pd.DataFrame) -> pd.DataFrame:
    """Add the numbers of the sampler that the validation split selected, where there are images.

    Adds `frechet`, `relative_frechet`, `recall`, `relative_validation_frechet` (the distance to
    validation images, over that of training images to test images), and
    `validation_bits_per_dim`.
    """
    if "metrics.best_sampler" not in runs or "metrics.bits_per_dim" not in runs:
        return runs
    keys = {
        "frechet": "frechet_distance",
        "recall": "recall",
        "relative_frechet": "relative_frechet",
        "relative_validation_frechet": "validation_frechet",
    }
    added = {
        column: [
            row.get(f"metrics.samplers.{row['metrics.best_sampler']}.{key}", math.nan)
            for _, row in runs.iterrows()
        ]
        for column, key in keys.items()
    }
    columns = pd.DataFrame(added, index=runs.index)
    columns["relative_validation_frechet"] /= runs["metrics.floor.frechet_distance"]
    bits_per_nat = runs["metrics.bits_per_dim"] / runs["metrics.neg_elbo_nats"]
    columns["validation_bits_per_dim"] = -runs["training.best.elbo"] * bits_per_nat
    return pd.concat([runs, columns], axis=1)


def read_table(path: str | Path, **options: Any) -> pd.DataFrame:
    """Read a table of experiments with `options` of pandas; cells are not converted to lists."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        # pandas would fill up a truncated row.
        lengths = {len(row) for row in csv.reader(io.StringIO(text), strict=True)}
        if len(lengths) != 1:
            raise ValueError("a row has other columns than the first line")
        options = {"dtype": TEXTS, **options}
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
    **dict.fromkeys(("sweep", "diagnosis.found"), _split),
    "training.exact_grid_accuracy": _parse_numbers,
    **dict.fromkeys(("params", "diagnosis.fix"), _parse_changes),
}


def format_assignment(key: str, value: Any) -> str:
    """Return `key=value` as `dvc exp run -S` reads it."""
    return f"{key}={json.dumps(value) if isinstance(value, bool | list) else value}"
