"""The comparison with baselines: its judge, choice of rates, what is kept, and intervals."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from benchmarks.baseline_runs import OURS, PYTHAE, Outcome, Settings
from benchmarks.baselines import TUNED_LOSS, Comparison, Judge
from platformdirs import user_cache_dir
from scipy import stats

from benchmarks import baseline_runs, baseline_worker, baselines
from genlab.core.errors import GenlabError
from genlab.core.io import write_json, write_npz
from genlab.datasets.images import (
    LABELS_FILE,
    LABELS_KIND,
    SPLIT_KIND,
    load_images,
)
from genlab.datasets.manifests import MANIFEST_FILE, VERSION

Images = npt.NDArray[np.uint8]

COUNTS = {"train": 160, "val": 60, "test": 80}
SIDE = 28
ENVIRONMENT = Path(user_cache_dir("genlab")) / PYTHAE[0].replace("==", "-")


def stripes(count: int, seed: int) -> tuple[Images, npt.NDArray[np.int64]]:
    """Noisy images with one bright stripe, across or down: its direction is the label."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 60, (count, SIDE, SIDE, 1), dtype=np.uint8)
    labels = rng.integers(0, 2, count)
    for image, label, place in zip(images, labels, rng.integers(4, SIDE - 6, count), strict=True):
        view = image if label else image.swapaxes(0, 1)
        view[place : place + 3, 4:-4] = 230
    return images, labels


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A split folder of stripes."""
    folder = tmp_path_factory.mktemp("data")
    labels = {}
    for seed, (split, count) in enumerate(COUNTS.items()):
        images, labels[split] = stripes(count, seed)
        np.save(folder / f"{split}.npy", images)
    write_npz(folder / LABELS_FILE, labels, kind=LABELS_KIND)
    shape = [SIDE, SIDE, 1]
    manifest = {"version": VERSION, "counts": COUNTS, "shape": shape, "labels": ["down", "across"]}
    write_json(folder / MANIFEST_FILE, {"kind": SPLIT_KIND, **manifest})
    return folder


@pytest.fixture(scope="module")
def judge(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """A judge whose classifier is trained for a moment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return Judge(data, 2000)


def make_outcome(data: Path, *, noise: float = 10.0, nats: float = 1000.0) -> Outcome:
    """The test images with noise as reconstructions; other stripes, and noise, as samples."""
    rng = np.random.default_rng(5)
    test = load_images(data, "test")
    blurred = np.clip(test + rng.normal(0, noise, test.shape), 0, 255).astype(np.uint8)
    worse = rng.integers(0, 256, (80, SIDE, SIDE, 1), dtype=np.uint8)
    samples = {"normal": worse, "gmm": stripes(80, 5)[0]}
    facts = {"cpu_seconds": 1.0, "images_seen": 640, "updates": 10, "parameters": 99}
    return Outcome(blurred, samples, np.full(60, nats), np.full(80, nats), facts)


@dataclass(frozen=True, eq=False)
class Counted(Comparison):
    """Runs that cost nothing: rate 0.01 has the fewest bits. killed_at: raises at that run."""

    calls: list[Settings] = field(default_factory=list)
    killed_at: int = -1

    def run(self, settings: Settings, folder: Path) -> Outcome:
        if len(self.calls) == self.killed_at:
            raise KeyboardInterrupt
        self.calls.append(settings)
        assert settings.rate is not None
        return make_outcome(self.data, nats=1000 + 100 * abs(math.log10(settings.rate) + 2))


TRIED = [Settings("antixk", "", rate, 30, 0, 20) for rate in (0.1, 0.01, 0.001)]


def test_nats_are_those_of_a_discretised_normal_and_sigma_is_their_best() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (3, SIDE, SIDE, 1), dtype=np.uint8)
    images[0, :4], images[0, 4:8] = 0, 255
    means = np.clip(images + rng.normal(0, 20, images.shape), 0, 255).astype(np.uint8)
    x, half = images / 255, 0.5 / 255
    normal = stats.norm(means / 255, 0.15)
    low = np.where(images == 0, 0.0, normal.cdf(x - half))
    high = np.where(images == 255, 1.0, normal.cdf(x + half))
    wanted = -np.log(high - low).sum(axis=(1, 2, 3))
    assert baseline_runs.gaussian_nats(images, means, 0.15) == pytest.approx(wanted, rel=1e-4)
    sigma = baseline_runs.fit_sigma(images, means)
    at = {s: baseline_runs.gaussian_nats(images, means, s).mean() for s in (0.95, 1, 1.05)}
    at = {s: baseline_runs.gaussian_nats(images, means, s * sigma).mean() for s in at}
    assert min(at, key=lambda s: at[s]) == 1


def test_the_judge_chooses_the_sampler_on_the_validation_split(data: Path, judge: Judge) -> None:
    row = judge.measure(make_outcome(data, nats=SIDE * SIDE * math.log(2) * 3.5))
    assert row["best_sampler"] == "gmm"
    assert row["frechet_distance"] == row["samplers"]["gmm"]["frechet_distance"]
    assert row["frechet_normal"] == row["samplers"]["normal"]["frechet_distance"]
    assert row["bits_per_dim"] == pytest.approx(3.5)
    assert row["validation_bits_per_dim"] == pytest.approx(3.5)
    assert judge.measure(make_outcome(data, noise=60))["ssim"] < row["ssim"]


def test_the_best_rate_goes_on_and_a_killed_search_resumes(
    data: Path, judge: Judge, tmp_path: Path
) -> None:
    killed = Counted(data, tmp_path, judge, tmp_path, killed_at=2)
    with pytest.raises(KeyboardInterrupt):
        killed.search(TRIED)
    resumed = Counted(data, tmp_path, judge, tmp_path)
    chosen = resumed.search(TRIED)
    assert "bits_per_dim" in chosen[TRIED[1]]
    assert killed.calls + resumed.calls == TRIED
    assert resumed.search(TRIED) == chosen
    assert len(resumed.calls) == 1


def test_rates_that_are_best_at_one_thing_each_both_go_on(
    data: Path, judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = dict(zip(TRIED, ((3.0, 9.0), (2.0, 5.0), (4.0, 1.0)), strict=True))
    monkeypatch.setattr(
        Comparison,
        "measure",
        lambda self, settings: dict(
            zip(("validation_bits_per_dim", "validation_frechet"), rows[settings], strict=True)
        ),
    )
    comparison = Comparison(data, tmp_path, judge, tmp_path)
    assert comparison.search(TRIED) == {TRIED[1]: ["bits_per_dim"], TRIED[2]: ["frechet"]}
    assert comparison.search(TRIED[:1]) == {TRIED[0]: []}


def make_row(name: str, distances: list[float], bits: list[float], **more: Any) -> dict[str, Any]:
    runs = [
        {
            "contender": name, "loss": "mse", "rate": 0.001, "seed": seed, "cpu_seconds": 300.2,
            "images_seen": 123456, "bits_per_dim": bit, "ssim": 0.5, "psnr": 20.0,
            "best_sampler": "gmm", "frechet_normal": 2 * distance, "frechet_distance": distance,
            "relative_frechet": distance / 0.5, **more,
        }
        for seed, (distance, bit) in enumerate(zip(distances, bits, strict=True))
    ]  # fmt: skip
    return baselines.summarize(runs, ["frechet"])


ROWS = [
    make_row("worse", [200.0, 210.0, 190.0], [4.0, 4.1, 3.9]),
    make_row("better", [40.0, 44.0, 42.0], [4.5, 4.4, 4.6]),
    make_row(OURS, [4.0, 4.6, 4.3], [3.0, 3.1, 3.05], loss="", rate=None),
]
TUNED = make_row("better", [10.0, 11.0, 12.0], [3.4, 3.5, 3.6], loss=TUNED_LOSS)


def test_a_summary_holds_mean_deviation_and_seeds() -> None:
    row = ROWS[1]
    assert row["mean"]["frechet_distance"] == pytest.approx(42)
    assert row["sd"]["frechet_distance"] == pytest.approx(2)
    assert row["seeds"] == [0, 1, 2]
    single = make_row("one", [1.0], [3.0], frechet_normal=None)
    assert single["sd"]["frechet_distance"] is None
    assert single["mean"]["frechet_normal"] is None
    json.dumps(single, allow_nan=False)


def test_each_key_is_about_the_baseline_that_is_best_at_it() -> None:
    found = {result.key: result for result in baselines.compare([*ROWS, TUNED])}
    over, below = found["images.frechet_over_baseline"], found["images.bpd_below_baseline"]
    assert over.value == pytest.approx(4.3 / 42)
    assert below.value == pytest.approx(4.0 - 3.05)
    welch = stats.ttest_ind([4.0, 4.1, 3.9], [3.0, 3.1, 3.05], equal_var=False)
    assert below.interval == pytest.approx(tuple(welch.confidence_interval()))
    assert found["images.frechet_over_tuned"].value == pytest.approx(4.3 / 11)
    assert found["images.bpd_below_tuned"].value == pytest.approx(3.5 - 3.05)
    assert list(baselines.compare(ROWS[:2])) == list(baselines.compare(ROWS[2:])) == []


def test_ours_and_the_leading_baselines_run_with_all_seeds() -> None:
    rows = [make_row("slow", [300.0], [5.0]), *ROWS, TUNED]
    assert [baselines.leads(row, rows) for row in rows] == [False, True, True, True, False]


def test_the_interval_of_a_ratio_covers_as_often_as_it_claims() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(500):
        _, interval = baselines.ratio(list(rng.normal(5, 0.3, 3)), list(rng.normal(50, 6, 3)))
        assert interval is not None
        hits += interval[0] <= 0.1 <= interval[1]
    assert 455 <= hits <= 499
    assert baselines.ratio([2.0], [4.0]) == (0.5, None)


def test_an_unknown_contender_is_one_line() -> None:
    assert baselines.select("ours, antixk") == ["ours", "antixk"]
    with pytest.raises(GenlabError, match="--only"):
        baselines.select("antixk,nobody")


def to_tensor(images: Images) -> torch.Tensor:
    return torch.from_numpy(images.transpose(0, 3, 1, 2).copy())


def test_kl_is_that_of_torch_distributions() -> None:
    mean, log_variance = torch.randn(5, 7), torch.randn(5, 7)
    normal = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
    wanted = torch.distributions.kl_divergence(normal, torch.distributions.Normal(0, 1)).sum(1)
    assert torch.allclose(baseline_worker.kl(mean, log_variance), wanted, atol=1e-5)


@pytest.mark.parametrize("rate", [1e-3, 1e30])
def test_training_stops_at_its_budget_with_the_best_weights(rate: float) -> None:
    torch.manual_seed(0)
    images, held_out = to_tensor(stripes(160, 0)[0]), to_tensor(stripes(60, 1)[0])
    baseline = baseline_worker.VanillaVAE()
    before = baseline_worker.held_out_loss(baseline, held_out)
    facts = baseline_worker.fit(baseline, images, held_out, rate, 0.5)
    assert 0 < facts["images_seen"] <= facts["updates"] * baseline_worker.BATCH
    assert all(value.isfinite().all() for value in baseline.state_dict().values())
    after = baseline_worker.held_out_loss(baseline, held_out)
    assert after <= before  # at a rate that breaks the weights, the first ones stay
    decoded = baseline.decode(baseline.encode(torch.rand(3, 1, SIDE, SIDE))[0])
    assert decoded.shape == (3, 1, SIDE, SIDE)
    assert 0 <= decoded.min() <= decoded.max() <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "loss"), [("antixk", ""), ("pythae-mlp", "bce"), ("pythae-conv", "mse")]
)
def test_a_baseline_is_trained_once_in_a_subprocess(
    name: str, loss: str, data: Path, judge: Judge, tmp_path: Path
) -> None:
    if name != "antixk" and not ENVIRONMENT.exists():
        pytest.skip("pythae is not installed; make bench installs it")
    settings = Settings(name, loss, 1e-3, 1, 0, 60)
    outcome = baseline_runs.run_baseline(settings, tmp_path / "run", data, ENVIRONMENT)
    assert outcome.facts["cpu_seconds"] >= 1
    assert outcome.samples["gmm"].shape == outcome.reconstructions.shape == (60, SIDE, SIDE, 1)
    assert 0 < judge.measure(outcome)["bits_per_dim"] < 16
    stamp = (tmp_path / "run" / "run.npz").stat().st_mtime_ns
    again = baseline_runs.run_baseline(settings, tmp_path / "run", data, ENVIRONMENT)
    assert (tmp_path / "run" / "run.npz").stat().st_mtime_ns == stamp
    assert np.array_equal(again.test_nats, outcome.test_nats)


@pytest.mark.slow
def test_a_baseline_that_fails_is_one_line(data: Path, tmp_path: Path) -> None:
    (tmp_path / "pythae").mkdir()
    (tmp_path / "pythae" / "__init__.py").write_text("raise ImportError('broken')\n")
    settings = Settings("pythae-mlp", "mse", 1e-3, 1, 0, 20)
    with pytest.raises(GenlabError, match="broken") as caught:
        baseline_runs.run_baseline(settings, tmp_path / "run", data, tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run" / "run.npz").exists()


def test_without_an_index_the_error_is_one_line_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(GenlabError, match="pip could not install pythae") as caught:
        baseline_runs.install_pythae(tmp_path / "pythae")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "pythae").exists()
