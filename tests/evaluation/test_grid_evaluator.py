"""The stage evaluate on grids: metrics, the selected scalars and the figures."""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import tiny
from stage_runs import run_stage

from genlab.core.io import read_npz
from genlab.datasets.arc_grids import SPLIT_KIND, bound_entropy_nats, make_distribution
from genlab.datasets.manifests import write_manifest
from genlab.evaluation.evaluators.grid_samples import choose_sampler

NAME = "arc_grids"


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a tiny model of grids was trained and evaluated."""
    folder = tmp_path_factory.mktemp("grids")
    tiny.write_params(folder, epochs=1)
    data = folder / "data" / NAME
    tiny.write_dataset(data)
    distribution = asdict(make_distribution(tiny.params().grids))
    write_manifest(data, SPLIT_KIND, [], {"generated": {"distribution": distribution}})
    for stage in ("train", "evaluate"):
        run = run_stage(folder, stage, "--dataset", NAME)
        assert run.status == 0, run.stderr
    return folder


@pytest.fixture(scope="module")
def metrics(done: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((done / "results" / NAME / "metrics.json").read_text())
    return content


def test_the_bound_is_compared_with_the_entropy_of_the_same_grids(
    done: Path, metrics: dict[str, Any]
) -> None:
    entropy = bound_entropy_nats(done / "data" / NAME, "test", 40).mean()
    assert metrics["data_entropy_bound_nats"] == pytest.approx(entropy)
    bound = metrics["reconstruction_nats"] + metrics["kl_nats"]
    assert metrics["neg_elbo_nats"] == pytest.approx(bound)
    assert metrics["neg_elbo_over_entropy_bound"] == pytest.approx(bound / entropy)
    interval = metrics["intervals"]["neg_elbo_over_entropy_bound"]
    assert interval["low"] <= metrics["neg_elbo_over_entropy_bound"] <= interval["high"]
    assert interval["n"] == 40


def test_the_summary_selects_scalars_of_the_metrics(done: Path, metrics: dict[str, Any]) -> None:
    summary = json.loads((done / "metrics" / f"{NAME}.json").read_text())
    assert summary == {
        "passed": False,
        **{name: metrics[name] for name in ("active_units", "pixel_accuracy", "nonblack_accuracy")},
        "exact_match": metrics["exact_grid_accuracy"],
        "neg_elbo_over_entropy_bound": metrics["neg_elbo_over_entropy_bound"],
        "valid_rate": metrics["samplers"][metrics["best_sampler"]]["valid_rate"],
        "arc_exact_match": metrics["arc_agi"]["exact_grid_accuracy"],
    }


def test_the_sampler_is_chosen_on_draws_that_are_not_reported() -> None:
    def sampler(rate: float, counted: bool) -> dict[str, Any]:
        selection = {"valid_rate": rate, "counted": counted}
        # The reported numbers would choose another sampler.
        return {"valid_rate": 1 - rate, "counted": not counted, "selection": selection}

    counted = {"a": sampler(0.5, True), "b": sampler(0.7, True)}
    assert choose_sampler({**counted, "c": sampler(1, False)}) == "b"
    assert choose_sampler({"a": sampler(0.5, False), "b": sampler(0.7, False)}) == "b"


def test_the_samples_of_the_chosen_sampler_are_saved(done: Path, metrics: dict[str, Any]) -> None:
    assert metrics["best_sampler"] == choose_sampler(metrics["samplers"])
    reported = metrics["samplers"][metrics["best_sampler"]]
    file = done / "data/evaluated" / NAME / "evidence.npz"
    arrays = read_npz(file, kind="evaluation", keys=["samples", "valid"], producer_command="")
    assert len(arrays["samples"]) == reported["n"]
    assert arrays["valid"].mean() == reported["valid_rate"]
    assert (arrays["samples"] == 0).mean() == reported["black_share"]


def test_quantised_codes_cost_the_bits_of_the_active_latents(metrics: dict[str, Any]) -> None:
    assert list(metrics["rate"]) == [f"{bits}_per_latent" for bits in (2, 4, 6, 8)]
    for name, row in metrics["rate"].items():
        assert row["bits"] == int(name[0]) * metrics["active_units"]
        assert row["interval"]["low"] <= row["exact_grid_accuracy"] <= row["interval"]["high"]
    bits = metrics["data_entropy_bound_nats"] / math.log(2)
    assert metrics["data_entropy_bound_bits"] == pytest.approx(bits)


def test_real_grids_of_training_and_of_evaluation_tasks_are_reported_apart(
    done: Path, metrics: dict[str, Any]
) -> None:
    sizes = metrics["arc_agi_training"]["n"], metrics["arc_agi"]["n"]
    assert min(sizes) > 500
    assert sizes[0] != sizes[1]
    names = {path.stem for path in (done / "plots" / NAME / "evaluation").iterdir()}
    assert names == {"reconstructions", "arc_agi", "colours", "samples_prior", "training_curves"}
