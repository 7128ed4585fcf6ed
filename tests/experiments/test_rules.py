"""The rule that chooses a default: smallest mean, ties over seeds, and what a sweep lacks."""

from pathlib import Path

import pandas as pd
import pytest

from genlab.core.errors import GenlabError
from genlab.experiments.rules import SelectionRule, apply_rule, find_missing, read_rules

RULE = SelectionRule(sweep="rate", default="a", why="x", minimize="distance", ties="bits")
VALID = "sweep: rate, default: a, why: x, minimize: distance, ties: bits"


def make_runs(distances: dict[str, list[float]], bits: dict[str, float]) -> pd.DataFrame:
    """Runs of the sweep `rate`: an entry per key, a seed per distance."""
    rows = [
        {
            "entry": entry, "sweep": ["rate"], "seed": seed, "distance": distance,
            "bits": bits[entry], "fingerprint.code": "1", "fingerprint.evaluation": "1",
            "machine": "A, 1 thread",
        }
        for entry, values in distances.items()
        for seed, distance in enumerate(values)
    ]  # fmt: skip
    names = [f"{row['entry']}-seed{row['seed']}" for row in rows]
    return pd.DataFrame(rows, index=names)


def test_the_smallest_mean_is_picked_though_another_has_fewer_bits() -> None:
    distances = {"a": [12.0, 13.0, 14.0], "b": [10.0, 11.1, 12.0], "c": [20.0, 22.0, 21.0]}
    choice = apply_rule(RULE, make_runs(distances, {"a": 2.8, "b": 2.9, "c": 2.7}))
    assert choice == ("b", ["b"])


def test_a_tie_over_seeds_goes_to_the_fewer_bits() -> None:
    # The differences of a and b are 1, 3 and -1: their interval contains 0.
    distances = {"a": [11.0, 14.0, 11.0], "b": [10.0, 11.0, 12.0], "c": [20.0, 22.0, 21.0]}
    choice = apply_rule(RULE, make_runs(distances, {"a": 2.8, "b": 2.9, "c": 2.7}))
    assert choice == ("a", ["a", "b"])
    choice = apply_rule(RULE, make_runs(distances, {"a": 2.9, "b": 2.8, "c": 2.7}))
    assert choice == ("b", ["a", "b"])


def test_a_mixed_sweep_is_not_ruled_on() -> None:
    runs = make_runs({"a": [1.0, 2.0], "b": [3.0, 4.0]}, {"a": 1.0, "b": 1.0})
    runs.loc["b-seed1", "machine"] = "B, 1 thread"
    with pytest.raises(GenlabError, match="2 kinds of machine"):
        apply_rule(RULE, runs)


def test_the_runs_that_a_sweep_lacks_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "experiments.yaml"
    path.write_text(
        f"rules: {{free_bits: {{{VALID}}}}}\n"
        "a: {why: a, sweep: [rate, more], seeds: [0, 1], params: {}}\n"
        "b: {why: b, params: {}}\n"
    )
    runs = make_runs({"a": [1.0]}, {"a": 1.0})
    assert find_missing(path, runs) == {"rate": ["a-seed1"], "more": ["a-seed1"]}
    assert read_rules(path) == {"free_bits": RULE}


def test_a_rule_with_another_key_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "experiments.yaml"
    path.write_text(f"rules: {{free_bits: {{{VALID}, slack: 0.01}}}}\n")
    with pytest.raises(GenlabError, match=r"rules\.free_bits.*slack"):
        read_rules(path)


def test_the_committed_rule_names_entries_of_its_sweep(root: Path) -> None:
    path = root / "experiments.yaml"
    [rule] = read_rules(path).values()
    empty = pd.DataFrame(index=pd.Index([], dtype=object))
    entries = {run.rpartition("-seed")[0] for run in find_missing(path, empty)[rule.sweep]}
    assert rule.default in entries
