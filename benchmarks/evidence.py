"""Statements that an audit refuted, and what proves that each was corrected.

A point is open where one of its tests fails or is gone, or where one of its results is not in
results/benchmarks.json, has fewer trainings than the point asks for, or misses a target that the
point names. Other results may have any value: the point is that they are measured.
docs/explanation/audit.md has the claims, the evidence against them and what holds now, under the
same numbers.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS_FILE, ROOT, Result, benchmark
from genlab.core.io import read_json
from genlab.evaluation.reports.targets import judge_target, read_targets

REPORTS = "tests/evaluation/test_reports.py::test_"
EXPERIMENTS = "tests/experiments/test_experiments.py::test_"
RULES = "tests/experiments/test_rules.py::test_"
PIPELINE = "tests/benchmarks/test_pipeline.py::test_"
FIGURES = "tests/evaluation/test_figures.py::test_"


@dataclass(frozen=True)
class Point:
    """A refuted statement.

    tests: pytest's names of what proves its correction. results: keys of results/benchmarks.json,
    and the number of trainings that each is a mean over at least; 0 where it is none. met: those
    whose target has to be met.
    """

    title: str
    tests: tuple[str, ...]
    results: Mapping[str, int] = field(default_factory=dict)
    met: tuple[str, ...] = ()


POINTS: Mapping[int, Point] = {
    1: Point(
        "the rule that chooses free bits",
        (
            f"{RULES}the_smallest_mean_is_picked_though_another_has_fewer_bits",
            f"{RULES}a_tie_over_seeds_goes_to_the_fewer_bits",
            f"{RULES}the_committed_rule_names_entries_of_its_sweep",
            f"{REPORTS}a_default_that_the_rule_does_not_pick_is_reported_with_its_price",
        ),
        {"experiments.sweeps": 0},
        met=("experiments.sweeps",),
    ),
    2: Point(
        "headlines of one training",
        (
            f"{PIPELINE}a_headline_is_the_mean_over_five_trainings_of_one_version",
            f"{REPORTS}headlines_are_means_over_trainings_or_say_of_one_training",
            f"{EXPERIMENTS}the_default_models_over_seeds_are_those_of_the_pipeline",
        ),
        {
            "images.relative_frechet": 5,
            "images.bits_per_dim": 5,
            "grids.neg_elbo_over_entropy_bound": 5,
            "grids.valid_rate": 5,
        },
    ),
    3: Point(
        "verdicts at noise level",
        (
            "tests/evaluation/test_trainings.py",
            "tests/evaluation/test_criteria.py",
        ),
    ),
    4: Point(
        "bits per dimension that compare likelihoods",
        (
            "tests/vae/test_networks.py::test_without_latent_context_z_changes_nothing_and_costs_nothing",
            "tests/benchmarks/test_baselines.py",
        ),
        {"images.latent_gain": 3, "images.counts_bits_per_dim": 0},
    ),
    5: Point(
        "the KL of another prior than the sampled one",
        (
            "tests/vae/test_priors.py::test_the_log_probability_sums_over_classes_and_training_takes_one_of_them",
        ),
    ),
    6: Point(
        "the figure of training",
        (
            f"{FIGURES}the_drawn_terms_of_a_training_add_up_to_its_drawn_loss",
            f"{FIGURES}equal_divergences_are_one_line_and_phases_that_did_not_occur_have_no_mark",
        ),
    ),
    7: Point(
        "baselines with fewer choices",
        (
            "tests/benchmarks/test_baselines.py::test_settings_begin_with_the_authors_and_are_as_many_for_all",
            "tests/benchmarks/test_baselines.py::test_at_the_librarys_width_networks_have_the_librarys_shapes",
        ),
        {"images.frechet_over_baseline": 0},
    ),
    8: Point(
        "single causes of the long run",
        (
            f"{EXPERIMENTS}a_mixed_sweep_is_refused_with_the_command",
            f"{PIPELINE}the_long_run_counts_what_it_loses_once_it_has_converged",
        ),
        {"grids.long_run.gain": 5},
    ),
    9: Point(
        "the gallery's definition of hard",
        (
            "tests/evaluation/test_error_analysis.py::test_what_is_invalid_by_definition_of_an_attribute_supports_no_hypothesis",
        ),
    ),
    10: Point(
        "rejection and the model's own distribution",
        (f"{REPORTS}the_readme_has_at_most_twelve_results_with_interval_target_and_command",),
        {"images.relative_frechet.ancestral": 5},
    ),
    11: Point(
        "the agent beside search",
        ("tests/agent/test_agent_report.py::test_the_comparison_says_what_its_interval_allows",),
    ),
    12: Point(
        "figures that say nothing or the wrong thing",
        (
            f"{FIGURES}reconstructions_of_the_smallest_margins_are_drawn_and_all_wrong_ones_counted",
            f"{FIGURES}the_line_of_an_interval_ends_where_the_interval_ends",
            "tests/vae/test_run.py::test_early_epochs_and_every_tenth_are_pictured_while_reconstructions_change",
        ),
    ),
    13: Point(
        "the specification",
        (
            "tests/core/test_tracking.py::test_the_capacity_run_of_grids_alone_has_the_specified_name_and_tags",
            "tests/datasets/test_arc_grids.py::test_the_default_dataset_has_100000_grids_of_16_cells_in_ten_classes",
            "tests/core/test_config_yaml.py",
            f"{FIGURES}each_colour_has_a_bar_of_its_true_and_one_of_its_predicted_share",
            f"{REPORTS}a_run_of_grids_at_beta_0_has_a_report_of_its_own",
        ),
    ),
    14: Point(
        "which SSIM",
        ("tests/evaluation/test_fidelity.py::test_ssim_follows_wangs_formula",),
    ),
}


@benchmark("evidence.open")
def evidence() -> Iterator[Result]:
    """Run what proves the corrections of an audit's points, and count the points left open."""
    recorded = read_json(RESULTS_FILE, producer_command="make bench")
    reasons = {}
    for number, point in POINTS.items():
        reason = find_gap(point, recorded, ROOT)
        print(f"{number} {point.title}: {reason or 'closed'}", flush=True)
        if reason:
            reasons[str(number)] = reason
    details = {"reasons": reasons}
    yield Result("evidence.open", float(len(reasons)), n=len(POINTS), details=details)


def find_gap(point: Point, recorded: Mapping[str, Any], root: Path) -> str:
    """Say why a point is open; empty where it is closed.

    recorded: content of results/benchmarks.json. root: repository whose tests are run.
    """
    for key, trainings in point.results.items():
        if key not in recorded:
            return f"no result {key}"
        count = recorded[key].get("trainings", 0)
        if count < trainings:
            return f"{key} is of {count} trainings, not of {trainings}"
    for key in point.met:
        if judge_target(read_targets(ROOT)[key], recorded[key]) == "missed":
            return f"{key} is {recorded[key]['value']:.4g}, and misses its target"
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-x", *point.tests]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()
        failures = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
        return (failures or lines or ["no output"])[0]
    return ""
