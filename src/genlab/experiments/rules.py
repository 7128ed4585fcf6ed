"""Rules that choose a default from a sweep, written in experiments.yaml before the sweep is run.

Also which runs of a sweep are missing, since a rule needs all of them.
"""

from pathlib import Path
from typing import NamedTuple

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from genlab.core.errors import to_genlab_error
from genlab.core.io import read_yaml
from genlab.core.stats import student_interval
from genlab.experiments.results import paired_differences, select_sweep

RULES = "rules"
"""Key of experiments.yaml that is no experiment."""


class SelectionRule(BaseModel):
    """A rule of the section `rules` of experiments.yaml."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    sweep: str = Field(description="Sweep whose entries are compared.")
    default: str = Field(description="Entry with the params of params.yaml.")
    why: str = Field(min_length=1, description="Why these columns decide.")
    minimize: str = Field(description="Column whose mean over seeds is minimised.")
    ties: str = Field(description="Column whose smaller mean decides between ties.")
    kept: str = Field(default="", description="Why the default is kept where another is picked.")


class Choice(NamedTuple):
    """What a rule picks, and the entries that tie with the smallest mean, in the sweep's order."""

    picked: str
    ties: list[str]


def read_rules(path: Path) -> dict[str, SelectionRule]:
    """Read the section `rules` of experiments.yaml. Raises a GenlabError if it is malformed."""
    rules = {}
    for name, content in read_yaml(path).get(RULES, {}).items():
        try:
            rules[str(name)] = SelectionRule.model_validate(content)
        except ValidationError as error:
            location = f"{path}: rules.{name}"
            raise to_genlab_error(error, location, SelectionRule.model_fields) from error
    return rules


def find_missing(path: Path, runs: pd.DataFrame) -> dict[str, list[str]]:
    """List the runs that each sweep of experiments.yaml lacks; sweeps without any are left out."""
    missing: dict[str, list[str]] = {}
    for name, entry in read_yaml(path).items():
        if name == RULES:
            continue
        for seed in entry.get("seeds", ()):
            run = f"{name}-seed{seed}"
            if run not in runs.index:
                for sweep in entry.get("sweep", ()):
                    missing.setdefault(sweep, []).append(run)
    return missing


def apply_rule(rule: SelectionRule, runs: pd.DataFrame) -> Choice:
    """Apply a rule to the runs of its sweep.

    An entry ties with the best one if Student's 95 % interval of their paired differences over
    seeds contains 0; a single seed leaves only the best. Raises a GenlabError where the sweep is
    incomplete or mixed.
    """
    rows = select_sweep(runs, rule.sweep)
    means = rows.groupby("entry", sort=False)[[rule.minimize, rule.ties]].mean()
    best = means[rule.minimize].idxmin()
    ties = []
    for entry in means.index:
        differences = paired_differences(rows, rule.minimize, entry, best)
        several = len(differences) > 1
        if entry == best or (several and student_interval(differences)["low"] <= 0):
            ties.append(str(entry))
    return Choice(str(means.loc[ties, rule.ties].idxmin()), ties)
