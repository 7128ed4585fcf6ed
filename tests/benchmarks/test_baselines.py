"""The comparison with baselines: tuning, judge, stored results, training, and intervals."""

import json
import math
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tiny
import torch
from benchmarks.baseline_outcomes import TEMPERATURES, Outcome, shrink
from benchmarks.baseline_settings import GENLAB, LIBRARIES, OURS, SPACE, Settings, make_trials
from benchmarks.baselines import Comparison, Judge
from refusals import refused
from scipy import stats
from torch import Tensor, nn

from benchmarks import (
    baseline_counts,
    baseline_flow,
    baseline_genlab,
    baseline_packages,
    baseline_results,
    baseline_training,
    baseline_vae,
    baselines,
)
from genlab.datasets.images import load_images, load_labels
from genlab.evaluation.metrics.judges import TrainingSet, make_judges
from genlab.evaluation.metrics.reference_models import ContextTable

Images = npt.NDArray[np.uint8]

COUNTS = {"train": 400, "val": 60, "test": 80}
SIDE = tiny.SIDE


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A split folder of rectangles."""
    folder = tmp_path_factory.mktemp("data") / "fashion_mnist"
    return tiny.write_image_dataset(folder, tuple(COUNTS.values()))


@pytest.fixture(scope="module")
def judge(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """A judge whose classifier is trained briefly."""
    folder = tmp_path_factory.mktemp("judges")
    images = load_images(data, "train")
    training = TrainingSet.of_dataset(data.name, images, load_labels(data, "train"))
    make_judges(training, folder, examples=2000, processes=1)
    return Judge(data, folder)


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw as many samples as there are test images."""
    for name in ("DRAWS", "CHOOSING_DRAWS", "SEARCH_DRAWS"):
        monkeypatch.setattr(baselines, name, COUNTS["test"])


def make_outcome(data: Path, *, noise: float = 10.0, frechet: float = 1.0) -> Outcome:
    """Reconstructions are noisy test images; samplers draw other rectangles, or noise."""
    rng = np.random.default_rng(5)
    test = load_images(data, "test")
    blurred = np.clip(test + rng.normal(0, noise, test.shape), 0, 255).astype(np.uint8)

    def worse(count: int, seed: int) -> Images:
        drawn = np.random.default_rng(seed).integers(0, 256, (count, SIDE, SIDE, 1))
        return drawn.astype(np.uint8)

    def dimmed(count: int, seed: int) -> Images:
        return (tiny.images(count, seed) / frechet).astype(np.uint8)

    samplers = {"prior": worse, "gmm": dimmed}
    facts = {"cpu_seconds": 1.0, "sampler_seconds": 1.0, "images_seen": 640, "parameters": 99}
    nats = np.full(COUNTS["test"], SIDE * SIDE * math.log(2) * 3.5)
    return Outcome(samplers, nats, lambda: (blurred, nats), facts)


@dataclass(frozen=True, eq=False)
class Counted(Comparison):
    """Fake runs, the best at rate 0.01; killed_at: the run that is interrupted."""

    calls: list[Settings] = field(default_factory=list)
    killed_at: int = -1

    def run(self, settings: Settings) -> Outcome:
        if len(self.calls) == self.killed_at:
            raise KeyboardInterrupt
        self.calls.append(settings)
        rate = dict(settings.options)["lr"]
        return make_outcome(self.data, frechet=1 + abs(math.log10(rate) + 2))


TRIED = [Settings("pythae", (("lr", rate),), 30) for rate in (0.1, 0.01, 0.001)]


def test_settings_begin_with_the_authors_and_are_as_many_for_all() -> None:
    for name in (*GENLAB, *LIBRARIES):
        trials = make_trials(name, 5, 12)
        assert len({*trials}) == 5
        assert trials == make_trials(name, 5, 12)
        first = dict(trials[0].options)
        assert first == {option: choices[0] for option, choices in SPACE[name].items()}
        assert all(settings.seconds == 12 for settings in trials)
    assert make_trials(OURS, 1, 12)[0].title == OURS  # params.yaml as it is


def test_one_set_of_draws_chooses_the_sampler_and_another_is_reported(
    data: Path, judge: Judge
) -> None:
    outcome = make_outcome(data)
    seeds: dict[str, list[int]] = {name: [] for name in outcome.samplers}

    def recorded(name: str, count: int, seed: int) -> Images:
        seeds[name].append(seed)
        return outcome.samplers[name](count, seed)

    draws = {name: partial(recorded, name) for name in outcome.samplers}
    row = judge.measure(replace(outcome, samplers=draws), seed=3)
    assert row["best_sampler"] == "gmm"
    assert len(set(seeds["gmm"])) == 2
    assert seeds["prior"] == seeds["gmm"][:1]
    assert row["bits_per_dim"] == pytest.approx(3.5)
    assert row["validation_bits_per_dim"] == pytest.approx(3.5)
    noise = replace(outcome, samplers={"prior": outcome.samplers["prior"]})
    assert judge.measure(noise, seed=3)["relative_frechet"] > row["relative_frechet"]
    assert judge.measure(make_outcome(data, noise=60), seed=3)["ssim"] < row["ssim"]


def test_a_model_without_reconstructions_or_likelihood_has_none_in_its_row(
    data: Path, judge: Judge
) -> None:
    outcome = replace(make_outcome(data), validation_nats=None, test=lambda: (None, None))
    row = {**judge.measure(outcome, seed=0), "contender": "drawn", "options": {}, "seed": 0}
    assert row["ssim"] is row["bits_per_dim"] is row["validation_bits_per_dim"] is None
    summary = baseline_results.summarize([row])
    assert summary["mean"]["ssim"] is None
    assert summary["mean"]["relative_frechet"] == row["relative_frechet"]


def test_the_best_settings_go_on_and_a_killed_search_resumes(
    data: Path, judge: Judge, tmp_path: Path
) -> None:
    killed = Counted(data, tmp_path, judge, killed_at=2)
    with pytest.raises(KeyboardInterrupt):
        killed.search(TRIED)
    resumed = Counted(data, tmp_path, judge)
    assert resumed.search(TRIED) == TRIED[1]
    assert resumed.calls == TRIED[2:]
    again = Counted(data, tmp_path, judge)
    assert again.search(TRIED) == TRIED[1]
    assert again.calls == []


def make_row(name: str, distances: list[float], bits: float | None = 3.0) -> dict[str, Any]:
    runs = [
        {
            **dict.fromkeys(baseline_results.REPORTED, 0.5), "contender": name, "options": {},
            "seed": seed, "best_sampler": "gmm", "relative_frechet": distance,
            "validation_frechet": distance, "bits_per_dim": bits,
        }
        for seed, distance in enumerate(distances)
    ]  # fmt: skip
    return baseline_results.summarize(runs)


def test_a_summary_holds_mean_deviation_and_seeds() -> None:
    row = make_row("pythae", [40.0, 44.0, 42.0], None)
    assert row["mean"]["relative_frechet"] == pytest.approx(42)
    assert row["sd"]["relative_frechet"] == pytest.approx(2)
    assert row["seeds"] == [0, 1, 2]
    single = make_row("pythae", [1.0])
    assert single["sd"]["relative_frechet"] is None
    json.dumps([row, single], allow_nan=False)


def test_ours_is_compared_with_the_library_that_is_best_on_validation() -> None:
    ours = make_row(OURS, [4.0, 4.6, 4.3])
    head = make_row("no-latents", [8.0, 9.0, 8.8])
    better = make_row("normflows", [40.0, 44.0, 42.0])
    lucky = make_row("pythae", [50.0, 54.0, 52.0])
    for run in lucky["runs"]:
        run["relative_frechet"] = 1.0  # on the test images, which choose nothing
    [result] = baseline_results.compare([ours, head, lucky, better])
    assert result.value == pytest.approx(4.3 / 42)
    assert result.interval is not None
    assert result.interval[0] < 4.3 / 42 < result.interval[1]
    assert result.details["baseline"] == "normflows"
    assert result.seeds == [0, 1, 2]
    assert list(baseline_results.compare([ours, head])) == []
    assert list(baseline_results.compare([better])) == []


def test_what_z_buys_is_the_distance_without_it_over_ours() -> None:
    ours = make_row(OURS, [4.0, 4.6, 4.3])
    head = make_row("no-latents", [8.0, 9.0, 8.8])
    [result] = baseline_results.latent_gain([ours, make_row("pythae", [1.0, 2.0, 3.0]), head])
    assert result.key == "images.latent_gain"
    assert result.value == pytest.approx(8.6 / 4.3)
    assert result.interval is not None
    assert result.interval[0] < 2 < result.interval[1]
    assert result.details["trainings"] == 3
    assert list(baseline_results.latent_gain([ours])) == []


def test_rows_that_are_compared_have_the_same_judge() -> None:
    ours = {"contender": OURS, "seed": 1, "judge": "a"}
    same = {"contender": "normflows", "seed": 1, "judge": "a"}
    foreign = {"contender": "pythae", "seed": 1, "judge": "b"}
    baseline_results.require_same_judge([ours, same])
    with refused("ours", "pythae"):
        baseline_results.require_same_judge([ours, same, foreign])


def test_the_interval_of_a_ratio_covers_as_often_as_it_claims() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(500):
        _, interval = baseline_results.ratio(
            list(rng.normal(5, 0.3, 3)), list(rng.normal(50, 6, 3))
        )
        assert interval is not None
        hits += interval[0] <= 0.1 <= interval[1]
    assert 455 <= hits <= 499
    assert baseline_results.ratio([2.0], [4.0]) == (0.5, None)


def test_an_unknown_contender_is_one_line() -> None:
    assert baselines.select("ours, pythae") == ["ours", "pythae"]
    with refused("--only", "nobody"):
        baselines.select("pythae,nobody")


def test_seeds_are_read_and_a_wrong_one_is_one_line() -> None:
    assert baselines.read_seeds("2, 0,1") == [2, 0, 1]
    for text in ("", "0,one", "0,0", "0,-1"):
        with refused("--seeds"):
            baselines.read_seeds(text)


class Constant(baseline_training.LibraryModel):
    """Predicts one grey level, which is its only weight."""

    def __init__(self) -> None:
        super().__init__()
        self.level = nn.Parameter(torch.tensor(3.0))

    def loss(self, x: Tensor) -> Tensor:
        return (x.float() / 255 - self.level).square().mean()


@pytest.mark.parametrize("rate", [0.03, 1e30])
@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_training_stops_at_its_budget_with_the_best_weights(rate: float, schedule: str) -> None:
    torch.manual_seed(0)
    images = tiny.images(160, 0)
    held_out = tiny.images(60, 1)
    model = Constant()
    tensor = torch.from_numpy(held_out.transpose(0, 3, 1, 2).copy())
    before = baseline_training.held_out_loss(model, tensor)
    options = {"lr": rate, "batch_size": 32, "schedule": schedule}
    facts = baseline_training.fit(model, images, held_out, options, 0.5)
    assert 0 < facts["images_seen"] <= facts["updates"] * 32
    assert all(value.isfinite().all() for value in model.state_dict().values())
    after = baseline_training.held_out_loss(model, tensor)
    assert after < 0.5 * before if rate < 1 else math.isfinite(after)


def test_a_cosine_falls_from_one_to_almost_zero() -> None:
    values = [baseline_training.cosine(progress) for progress in (0, 0.25, 0.5, 0.75, 1, 1.5)]
    assert values[0] == 1
    assert values == sorted(values, reverse=True)
    assert values[-1] == values[-2] == baseline_training.LR_END


def test_a_temperature_scales_deviations_from_the_mean() -> None:
    def draw(count: int, generator: torch.Generator) -> Tensor:
        return 5 + 2 * torch.randn(count, 3, generator=generator)

    half = shrink(draw, 0.5)(4000, torch.Generator().manual_seed(1))
    assert half.mean(0).numpy() == pytest.approx([5] * 3, abs=0.3)
    assert half.std(0).numpy() == pytest.approx([1] * 3, rel=0.1)
    assert shrink(draw, 1.0) is draw


def test_a_table_of_counts_is_chosen_on_validation_and_reads_two_neighbours(data: Path) -> None:
    [result] = list(baseline_counts.counts(data))
    train, val, test = (load_images(data, name) for name in COUNTS)
    table = ContextTable(train, int(str(result.details["context_bits"])))
    pseudo_count = float(str(result.details["pseudo_count"]))
    assert table.bits_per_dim(test, pseudo_count) == result.value < 8
    for bits in baseline_counts.CONTEXT_BITS:
        bits_per_dim = ContextTable(train, bits).bits_per_dim(val, pseudo_count)
        assert bits_per_dim >= result.details["validation_bits_per_dim"]


@pytest.fixture
def library(request: pytest.FixtureRequest) -> str:
    """Make the package of a contender importable; skip where it is not installed."""
    name: str = request.param
    if not baseline_packages.package_folder(name).exists():
        pytest.skip(f"{name} is not installed; make bench installs it")
    baseline_packages.install(name)
    return name


@pytest.mark.parametrize("library", ["pythae"], indirect=True)
def test_at_the_librarys_width_networks_have_the_librarys_shapes(library: str) -> None:
    from pythae.models import VAE, VAEConfig
    from pythae.models.nn.benchmarks.mnist import Decoder_Conv_AE_MNIST, Encoder_Conv_VAE_MNIST

    def shapes(module: torch.nn.Module) -> list[tuple[int, ...]]:
        return sorted(tuple(weights.shape) for weights in module.parameters())

    def built(network: str, latents: int) -> torch.nn.Module:
        return baseline_vae.build(network, "mse", 1.0, latents).vae

    mlp, conv = (VAEConfig((1, SIDE, SIDE), latents) for latents in (10, 16))
    networks = {"encoder": Encoder_Conv_VAE_MNIST(conv), "decoder": Decoder_Conv_AE_MNIST(conv)}
    assert shapes(built("mlp-512", 10)) == shapes(VAE(mlp))
    assert shapes(built("conv-128", 16)) == shapes(VAE(conv, **networks))


@pytest.mark.parametrize("library", ["pythae"], indirect=True)
def test_bits_of_a_library_are_those_of_a_discretised_normal_with_the_best_sigma(
    library: str,
) -> None:
    torch.manual_seed(0)
    images = tiny.images(40, 0)
    model = baseline_vae.build("mlp-16", "mse", 1.0, 4).eval()
    sigma = baseline_vae.fit_sigma(model, images)
    with torch.no_grad():
        out = model.decode(torch.randn(len(images), 4))
        x = torch.from_numpy(images.transpose(0, 3, 1, 2).copy())
        nats = -model.likelihood.log_prob(out, x).numpy()
    centre = out.numpy()
    unit = x.numpy() / 255
    normal = stats.norm(centre, sigma)
    low = np.where(unit == 0, 0.0, normal.cdf(unit - 0.5 / 255))
    high = np.where(unit == 1, 1.0, normal.cdf(unit + 0.5 / 255))
    assert nats == pytest.approx(-np.log(high - low).sum(axis=(1, 2, 3)), rel=1e-3)
    best = baseline_vae.compute_nats(model, images).mean()
    for factor in (0.8, 1.25):
        model.likelihood.log_sigma.data.fill_(math.log(factor * sigma))
        assert baseline_vae.compute_nats(model, images).mean() > best


SMALL: dict[str, dict[str, Any]] = {
    "pythae": {"network": "mlp-16", "likelihood": "gaussian", "kl_weight": 0.3, "latents": 4},
    "pythae-mixture": {"network": "conv-4", "likelihood": "mixture", "kl_weight": 1, "latents": 4},
    "normflows": {"blocks": 1, "hidden": 8},
}


@pytest.mark.slow
@pytest.mark.parametrize("library", list(SMALL), indirect=True)
def test_a_library_is_trained_and_sampled_like_ours(library: str, data: Path, judge: Judge) -> None:
    training = {"lr": 1e-3, "batch_size": 32, "schedule": "cosine"}
    settings = Settings(library, tuple((SMALL[library] | training).items()), 1)
    outcome = baselines.RUNS[library](settings, data)
    assert outcome.facts["cpu_seconds"] >= 1
    assert len(outcome.samplers) in (len(TEMPERATURES), 2 * len(TEMPERATURES))
    drawn = {name: draw(30, 1) for name, draw in outcome.samplers.items()}
    assert {images.shape for images in drawn.values()} == {(30, SIDE, SIDE, 1)}
    name = list(drawn)[-1]
    assert np.array_equal(outcome.samplers[name](30, 1), drawn[name])
    row = judge.measure(outcome, 0)
    assert 0 < row["bits_per_dim"] < 16
    assert (row["ssim"] is None) == (library == "normflows")


@pytest.mark.parametrize("library", ["normflows"], indirect=True)
def test_a_flows_bits_are_those_of_its_density(library: str) -> None:
    torch.manual_seed(0)
    model = baseline_flow.Glow(1, 8)
    x = torch.randint(0, 256, (6, 1, SIDE, SIDE), dtype=torch.uint8)
    model.loss(x).backward()  # type: ignore[no-untyped-call]  # initialises its normalisation
    model.eval()
    with torch.no_grad():
        torch.manual_seed(1)
        nats = model.nats(x)
        torch.manual_seed(1)
        z, log_det = model.flow.inverse_and_log_det((x + torch.rand(x.shape)) / 256)
        log_base = sum(q.log_prob(part) for q, part in zip(model.flow.q0, z, strict=True))
    assert nats.numpy() == pytest.approx((SIDE**2 * math.log(256) - log_base - log_det).numpy())
    cold = baseline_flow.draw(model, 1e-6, 5, 0)
    assert np.ptp(cold.astype(int), axis=0).max() <= 1  # all images at the mode


@pytest.mark.slow
@pytest.mark.parametrize("name", GENLAB)
def test_our_parts_are_trained_for_about_their_budget(
    name: str, data: Path, judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baseline_genlab, "EPOCHS", 4)
    options = (("width", 8), ("batch_size", 16))
    outcome = baseline_genlab.run_genlab(Settings(name, options, 4.0), tmp_path / "run", data)
    assert 1 < outcome.facts["cpu_seconds"] < 16
    assert not (tmp_path / "run").exists()
    row = judge.measure(outcome, 0)
    has_latents = name != "no-latents"
    assert len(row["samplers"]) == len(TEMPERATURES) * (1 + has_latents)
    assert (row["ssim"] is not None) == has_latents
    assert 0 < row["bits_per_dim"] < 16


def test_without_an_index_the_error_is_one_line_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setattr(baseline_packages, "user_cache_path", lambda _: tmp_path)
    with refused("pip", "pythae"):
        baseline_packages.install("pythae")
    assert list(tmp_path.iterdir()) == []
