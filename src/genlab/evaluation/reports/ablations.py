"""What the documented experiments say about each other: sweeps, ablations, failures and fixes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from genlab.evaluation.diagnostics.anomalies import detected_issues

Record = Mapping[str, Any]

OF_ALL_DATASETS = "datasets"
"""The param that says which datasets a run is over, not what it does with one of them."""
BEFORE_DATASETS = "arc_grids"
"""Records that name no dataset were made when there was but one."""
DEFAULT = "default"


def of_dataset(
    experiments: Mapping[str, Record], dataset: str, section: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """The experiments of `dataset`, their params as flat keys that mattered to it.

    section: what params.yaml says of the dataset; a flat key that stands there too was overruled.
    """
    found = {}
    for name, record in experiments.items():
        if record.get("dataset", BEFORE_DATASETS) == dataset:
            changed = {
                key.removeprefix(f"{dataset}."): value
                for key, value in record["params"].items()
                if key != OF_ALL_DATASETS and key not in section
            }
            found[name] = {**record, "params": changed}
    return found


@dataclass(frozen=True, eq=False)
class Run:
    """A run: its name, what differs from the default params, all of its params, its results."""

    name: str
    changed: Mapping[str, Any]
    params: Mapping[str, Any]
    record: Record

    @property
    def metrics(self) -> Record:
        """Its metrics.json."""
        metrics: Record = self.record["metrics"]
        return metrics

    def alike(self, other: Run, *but: str) -> bool:
        """Whether both have the same params, except perhaps for the keys `but`."""
        keys = {*self.params, *other.params} - set(but)
        return all(self.params.get(key) == other.params.get(key) for key in keys)

    def chooses(self, other: Run, keys: Sequence[str]) -> bool:
        """Whether both have the same values for `keys`."""
        return all(self.params.get(key) == other.params.get(key) for key in keys)


def runs(experiments: Mapping[str, Record], params: Record, default: Record) -> list[Run]:
    """The default run, whose results are `default`, then the experiments; params: the default's."""
    base = {key: value for key, value in params.items() if key != OF_ALL_DATASETS}
    return [
        Run(DEFAULT, {}, base, default),
        *(
            Run(name, record["params"], {**base, **record["params"]}, record)
            for name, record in experiments.items()
        ),
    ]


def series(
    every: Sequence[Run], key: str, keep: Callable[[Run], bool] = lambda run: True
) -> dict[Any, Run]:
    """The longest series of runs that differ from each other in `key` alone: {value: run}.

    Only runs that `keep` holds of are looked at. Sorted by value.
    """
    found: list[list[Run]] = []
    for run in filter(keep, every):
        mates = next((group for group in found if group[0].alike(run, key)), None)
        if mates is None:
            found.append([run])
        else:
            mates.append(run)
    longest = max(found, key=lambda group: len({run.params[key] for run in group}), default=[])
    return dict(sorted({run.params[key]: run for run in longest}.items()))


def without(every: Sequence[Run], keys: Sequence[str]) -> Iterator[tuple[Run, Run]]:
    """Runs with other values for `keys` than the default's, each beside its reference.

    The reference has the default's values for them, and is otherwise the same run.
    """
    default = every[0]
    for run in every[1:]:
        if not run.chooses(default, keys):
            for reference in every:
                if reference.chooses(default, keys) and reference.alike(run, *keys):
                    yield run, reference
                    break


def seeded(every: Sequence[Run], run: Run) -> list[Run]:
    """The runs that differ from `run` in nothing but the seed, and how many threads they had."""
    return [
        other
        for other in every
        if other.alike(run, "seed", "threads")
        and other.params.get("seed") != run.params.get("seed")
    ]


def spread(values: Sequence[float | None]) -> dict[str, Any] | None:
    """Mean and standard deviation of one number a seed; None with fewer than two numbers."""
    known = [value for value in values if value is not None]
    if len(known) < max(2, len(values)):
        return None
    return {"mean": statistics.fmean(known), "sd": statistics.stdev(known), "n": len(known)}


def pairs(experiments: Mapping[str, Record], counts: Callable[[str], bool]) -> list[dict[str, Any]]:
    """Failures produced on purpose beside the run that fixes them.

    A failure is an experiment in which a fault was diagnosed that `counts`; the fixed one names it
    in `fixes`, or else bears its name with `fixed` in place of `collapsed`.
    """
    found = []
    for name, experiment in experiments.items():
        faults = [fault for fault in detected_issues(experiment["diagnosis"]) if counts(fault)]
        fixed = [
            other
            for other, candidate in experiments.items()
            if name in candidate.get("fixes", ())
            or (other != name and other == name.replace("collapsed", "fixed"))
        ]
        if faults and fixed:
            found.append({"collapsed": name, "fixed": fixed[0], "found": faults})
    return found


def differing(experiments: Mapping[str, Record], name: str, other: str) -> Record:
    """The params of a run that another one does not have, or has with another value."""
    mine, theirs = experiments[name]["params"], experiments[other]["params"]
    return {key: value for key, value in mine.items() if theirs.get(key) != value}


def fix(experiment: Record) -> Record:
    """The params that a run's diagnosis names against all that it found."""
    named: dict[str, Any] = {}
    for finding in findings(experiment["diagnosis"]):
        named |= finding["fix"] if finding["found"] else {}
    return named


def before_and_after(
    experiments: Mapping[str, Record], pair: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The findings of a failure with the same evidence after the fix: one entry a fault."""
    broken, fixed = (
        {finding["name"]: finding for finding in findings(experiments[pair[name]]["diagnosis"])}
        for name in ("collapsed", "fixed")
    )
    return [
        {
            "name": name,
            "rule": broken[name]["rule"],
            "before": broken[name]["evidence"],
            "after": fixed.get(name, {}).get("evidence", {}),
            "gone": name in fixed and not fixed[name]["found"],
        }
        for name in pair["found"]
    ]


def findings(diagnosis: Any) -> list[dict[str, Any]]:
    """The entries of `diagnosis.json`: a list, or {diagnoses: []}."""
    return list(diagnosis["diagnoses"] if isinstance(diagnosis, Mapping) else diagnosis)
