"""The comparison with baselines: tuning, judges, stored results, and intervals."""

import json
import math
import sys
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tiny
import torch
from benchmarks.baseline_models import PYTHAE
from benchmarks.baseline_runs import OURS, SAMPLERS, Outcome, Settings
from benchmarks.baselines import Comparison, Judge
from platformdirs import user_cache_dir
from refusals import refused
from scipy import stats

from benchmarks import baseline_models, baseline_results, baseline_runs, baselines
from genlab.datasets.images import load_images, load_labels
from genlab.evaluation.metrics import two_sample
from genlab.evaluation.metrics.judges import TrainingSet, make_judges

Images = npt.NDArray[np.uint8]

COUNTS = {"train": 400, "val": 60, "test": 80}
SIDE = tiny.SIDE
ENVIRONMENT = Path(user_cache_dir("genlab")) / PYTHAE[0].replace("==", "-")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A split folder of rectangles."""
    return tiny.write_image_dataset(tmp_path_factory.mktemp("data"), tuple(COUNTS.values()))


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
    """Draw as many samples as there are test images, and shorten the two-sample test."""
    monkeypatch.setattr(two_sample, "EXAMPLES", 2000)
    for name in ("DRAWS", "CHOOSING_DRAWS", "SEARCH_DRAWS"):
        monkeypatch.setattr(baselines, name, COUNTS["test"])


def make_outcome(data: Path, *, noise: float = 10.0, nats: float = 1000.0) -> Outcome:
    """Reconstructions are noisy test images; samplers draw other rectangles, or noise."""
    rng = np.random.default_rng(5)
    test = load_images(data, "test")
    blurred = np.clip(test + rng.normal(0, noise, test.shape), 0, 255).astype(np.uint8)

    def worse(count: int, seed: int) -> Images:
        drawn = np.random.default_rng(seed).integers(0, 256, (count, SIDE, SIDE, 1))
        return drawn.astype(np.uint8)

    samplers = {"prior": worse, "gmm": tiny.images}
    facts = {"cpu_seconds": 1.0, "sampler_seconds": 1.0, "images_seen": 640, "parameters": 99}
    return Outcome(samplers, np.full(60, nats), lambda: (blurred, np.full(80, nats)), facts)


@dataclass(frozen=True, eq=False)
class Counted(Comparison):
    """Fake runs, of which rate 0.01 has the fewest bits; killed_at: the run that is interrupted."""

    calls: list[Settings] = field(default_factory=list)
    killed_at: int = -1

    def run(self, settings: Settings) -> Outcome:
        if len(self.calls) == self.killed_at:
            raise KeyboardInterrupt
        self.calls.append(settings)
        assert settings.rate is not None
        return make_outcome(self.data, nats=1000 + 100 * abs(math.log10(settings.rate) + 2))


TRIED = [Settings("antixk", "", rate, 16, 8, 30, samples=20) for rate in (0.1, 0.01, 0.001)]


def test_nats_are_those_of_a_discretised_normal_and_sigma_is_their_best() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (3, SIDE, SIDE, 1), dtype=np.uint8)
    images[0, :4] = 0
    images[0, 4:8] = 255
    means = np.clip(images + rng.normal(0, 20, images.shape), 0, 255).astype(np.uint8)
    x = images / 255
    half = 0.5 / 255
    normal = stats.norm(means / 255, 0.15)
    low = np.where(images == 0, 0.0, normal.cdf(x - half))
    high = np.where(images == 255, 1.0, normal.cdf(x + half))
    expected = -np.log(high - low).sum(axis=(1, 2, 3))
    assert baseline_runs.gaussian_nats(images, means, 0.15) == pytest.approx(expected, rel=1e-4)
    sigma = baseline_runs.fit_sigma(images, means)
    at = {s: baseline_runs.gaussian_nats(images, means, s).mean() for s in (0.95, 1, 1.05)}
    at = {s: baseline_runs.gaussian_nats(images, means, s * sigma).mean() for s in at}
    assert min(at, key=lambda s: at[s]) == 1


def test_one_set_of_draws_chooses_the_sampler_and_another_is_reported(
    data: Path, judge: Judge
) -> None:
    outcome = make_outcome(data, nats=SIDE * SIDE * math.log(2) * 3.5)
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
    assert set(baseline_results.JUDGES) <= set(row)
    noise = replace(outcome, samplers={"prior": outcome.samplers["prior"]})
    worse = judge.measure(noise, seed=3)
    assert all(worse[name] > row[name] for name in baseline_results.JUDGES)
    assert judge.measure(make_outcome(data, noise=60), seed=3)["ssim"] < row["ssim"]


def test_the_best_settings_go_on_and_a_killed_search_resumes(
    data: Path, judge: Judge, tmp_path: Path
) -> None:
    killed = Counted(data, tmp_path, judge, killed_at=2)
    with pytest.raises(KeyboardInterrupt):
        killed.search(TRIED)
    resumed = Counted(data, tmp_path, judge)
    chosen = resumed.search(TRIED)
    assert "bits_per_dim" in chosen[TRIED[1]]
    assert killed.calls + resumed.calls == TRIED
    assert resumed.search(TRIED) == chosen
    assert len(resumed.calls) == 1
    row = resumed.measure(TRIED[0], searching=True)
    assert not [name for name in row if name in (*baseline_results.JUDGES, "bits_per_dim")]


@pytest.mark.parametrize("contender", baselines.SPACE)
def test_the_first_trial_is_the_library_and_all_contenders_have_as_many(contender: str) -> None:
    trials = baselines.make_trials(contender, 12, 5.0)
    assert len(set(trials)) == 12
    default = trials[0]
    assert (default.loss, default.rate, default.width, default.latents) == {
        "pythae-mlp": ("mse", 1e-4, 512, 10),
        "pythae-conv": ("mse", 1e-4, 128, 16),
        "antixk": ("", 5e-3, 32, 128),
    }[contender]
    assert trials == baselines.make_trials(contender, 12, 5.0)
    assert {settings.seconds for settings in trials} == {5.0}
    tuned = f"lr {default.rate:g} width {default.width} {default.latents} latents"
    assert default.title.endswith(tuned)
    assert Settings(OURS).title == "ours"


def test_settings_that_are_best_at_one_thing_each_both_go_on(
    data: Path, judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = dict(zip(TRIED, ((3.0, 9.0), (2.0, 5.0), (4.0, 1.0)), strict=True))

    def measure(self: Comparison, settings: Settings, searching: bool) -> dict[str, Any]:
        bits, frechet = rows[settings]
        return {"validation_bits_per_dim": bits, "validation_frechet": frechet, "judges": []}

    monkeypatch.setattr(Comparison, "measure", measure)
    comparison = Comparison(data, tmp_path, judge)
    assert comparison.search(TRIED) == {TRIED[1]: ["bits_per_dim"], TRIED[2]: ["frechet"]}


def make_row(name: str, distances: list[float], bits: list[float], **more: Any) -> dict[str, Any]:
    runs = [
        {
            **dict.fromkeys(baseline_results.REPORTED, 0.5), "contender": name, "loss": "mse",
            "rate": 0.001, "width": 64, "latents": 16, "seed": seed, "best_sampler": "gmm",
            **dict.fromkeys(baseline_results.JUDGES, distance), "validation_frechet": distance,
            "bits_per_dim": bit, "validation_bits_per_dim": bit, **more,
        }
        for seed, (distance, bit) in enumerate(zip(distances, bits, strict=True))
    ]  # fmt: skip
    return baseline_results.summarize(runs, ["frechet"])


ROWS = [
    make_row("worse", [200.0, 210.0, 190.0], [4.0, 4.1, 3.9]),
    make_row("better", [40.0, 44.0, 42.0], [4.5, 4.4, 4.6]),
    make_row(OURS, [4.0, 4.6, 4.3], [3.0, 3.1, 3.05], loss="", rate=None),
]


def test_a_summary_holds_mean_deviation_and_seeds() -> None:
    row = ROWS[1]
    assert row["mean"]["frechet_distance"] == pytest.approx(42)
    assert row["sd"]["frechet_distance"] == pytest.approx(2)
    assert row["seeds"] == [0, 1, 2]
    single = make_row("one", [1.0], [3.0])
    assert single["sd"]["frechet_distance"] is None
    json.dumps(single, allow_nan=False)


def test_each_key_is_about_the_baseline_that_is_best_at_it_on_validation() -> None:
    lucky = make_row("worse", [1.0, 1.0, 1.0], [4.2, 4.2, 4.2], validation_frechet=300.0)
    results = {result.key: result for result in baseline_results.compare([*ROWS, lucky])}
    over = results["images.frechet_over_baseline"]
    below = results["images.bpd_below_baseline"]
    assert over.value == pytest.approx(4.3 / 42)
    assert below.value == pytest.approx(4.0 - 3.05)
    welch = stats.ttest_ind([4.0, 4.1, 3.9], [3.0, 3.1, 3.05], equal_var=False)
    assert below.interval == pytest.approx(tuple(welch.confidence_interval()))
    accuracy = results["images.discriminator_accuracy"]
    assert (accuracy.value, accuracy.details["baseline"]) == (pytest.approx(4.3), pytest.approx(42))
    assert results["images.discriminator_below_baseline"].value == pytest.approx(42 - 4.3)
    compare = baseline_results.compare
    assert list(compare(ROWS[:2])) == list(compare(ROWS[2:])) == []


def test_a_row_of_one_seed_is_not_compared_with_rows_of_all() -> None:
    single = make_row("lucky", [30.0], [3.5])
    results = {result.key: result for result in baseline_results.compare([single, *ROWS])}
    assert results["images.frechet_over_baseline"].value == pytest.approx(4.3 / 42)
    assert results["images.bpd_below_baseline"].seeds == [0, 1, 2]
    assert "lucky" in results["images.judges_agree"].details["orders"]["kid"]  # of the first seeds


def test_judges_agree_where_each_names_the_same_winner() -> None:
    agreed = baseline_results.agreement(ROWS)
    assert (agreed.value, agreed.n) == (1.0, 5)
    assert set(agreed.details["kendall_tau"].values()) == {1.0}
    by_kid = make_row("better", [40.0, 44.0], [4.5, 4.4], kid=0.1)
    differing = baseline_results.agreement([ROWS[0], by_kid, ROWS[2]])
    assert differing.value == 0.0
    assert differing.details["orders"]["kid"] == ["better", OURS, "worse"]
    assert differing.details["kendall_tau"]["kid"] == pytest.approx(1 / 3)


def test_rows_that_are_compared_have_the_same_judges() -> None:
    ours = {"contender": OURS, "seed": 1, "judges": ["a"]}
    same_judge = {"contender": "antixk", "seed": 1, "judges": ["a"]}
    another_judge = {"contender": "pythae-mlp", "seed": 1, "judges": ["b"]}
    baseline_results.require_same_judges([ours, same_judge])
    with refused("ours", "pythae-mlp"):
        baseline_results.require_same_judges([ours, same_judge, another_judge])


def test_ours_and_the_best_baseline_by_either_number_run_with_all_seeds() -> None:
    rows = [make_row("better", [300.0], [5.0]), *ROWS, make_row("better", [310.0], [3.5])]
    assert [baseline_results.leads(row, rows) for row in rows] == [False, False, True, True, True]


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
    assert baselines.select("ours, antixk") == ["ours", "antixk"]
    with refused("--only", "nobody"):
        baselines.select("antixk,nobody")


def test_seeds_are_read_and_a_wrong_one_is_one_line() -> None:
    assert baselines.read_seeds("2, 0,1") == [2, 0, 1]
    for text in ("", "0,one", "0,0", "0,-1"):
        with refused("--seeds"):
            baselines.read_seeds(text)


@pytest.mark.parametrize("rate", [1e-3, 1e30])
def test_training_stops_at_its_budget_with_the_best_weights(rate: float) -> None:
    torch.manual_seed(0)
    images = tiny.images(160, 0)
    held_out = tiny.images(60, 1)
    baseline = baseline_models.VanillaVAE()
    held_out_tensor = torch.from_numpy(held_out.transpose(0, 3, 1, 2).copy())
    before = baseline_models.held_out_loss(baseline, held_out_tensor)
    facts = baseline_models.fit(baseline, images, held_out, rate, 0.5)
    assert 0 < facts["images_seen"] <= facts["updates"] * baseline_models.BATCH
    assert all(value.isfinite().all() for value in baseline.state_dict().values())
    after = baseline_models.held_out_loss(baseline, held_out_tensor)
    # At a rate that breaks the weights the first ones stay; the loss is at a draw of z.
    assert after <= 1.001 * before
    decoded = baseline.decode(baseline.encode(torch.rand(3, 1, SIDE, SIDE))[0])
    assert decoded.shape == (3, 1, SIDE, SIDE)
    assert 0 <= decoded.min() <= decoded.max() <= 1


@pytest.fixture
def pythae() -> None:
    if not ENVIRONMENT.exists():
        pytest.skip("pythae is not installed; make bench installs it")
    baseline_models.install_pythae(ENVIRONMENT)


@pytest.mark.usefixtures("pythae")
def test_at_the_librarys_width_networks_have_the_librarys_shapes() -> None:
    baseline_models.import_pythae()
    from pythae.models import VAE, VAEConfig
    from pythae.models.nn.benchmarks.mnist import Decoder_Conv_AE_MNIST, Encoder_Conv_VAE_MNIST

    def shapes(module: torch.nn.Module) -> list[tuple[int, ...]]:
        return sorted(tuple(weights.shape) for weights in module.parameters())

    mlp, conv = (VAEConfig((1, SIDE, SIDE), latents) for latents in (10, 16))
    networks = {"encoder": Encoder_Conv_VAE_MNIST(conv), "decoder": Decoder_Conv_AE_MNIST(conv)}
    assert shapes(baseline_models.make_mlp(512, 10, "mse")) == shapes(VAE(mlp))
    assert shapes(baseline_models.make_conv(128, 16, "mse")) == shapes(VAE(conv, **networks))
    assert sys.modules["pydantic"].VERSION.startswith("2")


@pytest.mark.slow
@pytest.mark.usefixtures("pythae")
@pytest.mark.parametrize(
    ("name", "loss"), [("antixk", ""), ("pythae-mlp", "bce"), ("pythae-conv", "mse")]
)
def test_a_baseline_is_trained_and_sampled_like_ours(
    name: str, loss: str, data: Path, judge: Judge
) -> None:
    settings = Settings(name, loss, 1e-3, 16, 8, 1, samples=60)
    outcome = baseline_runs.run_baseline(settings, data)
    assert outcome.facts["cpu_seconds"] >= 1
    assert tuple(outcome.samplers) == SAMPLERS
    drawn = {name: draw(30, 1) for name, draw in outcome.samplers.items()}
    assert {images.shape for images in drawn.values()} == {(30, SIDE, SIDE, 1)}
    assert np.array_equal(outcome.samplers["gmm"](30, 1), drawn["gmm"])
    assert outcome.test()[0].shape == (80, SIDE, SIDE, 1)
    assert 0 < judge.measure(outcome, 0)["bits_per_dim"] < 16


def test_without_an_index_the_error_is_one_line_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with refused("pip", "pythae"):
        baseline_models.install_pythae(tmp_path / "pythae")
    assert not (tmp_path / "pythae").exists()
