"""The side-by-side with baselines: its judge, the choice of settings, what is kept, the sums."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from benchmarks.baselines import Bench, Contender, Judge, Outcome, Settings
from platformdirs import user_cache_dir
from scipy import stats

from benchmarks import baseline_worker, baselines
from genlab.core.errors import GenlabError
from genlab.core.io import read_json, write_json, write_npz
from genlab.datasets.image_files import (
    LABELS_FILE,
    LABELS_KIND,
    MANIFEST_FILE,
    SPLIT_KIND,
    VERSION,
    load_images,
)

Images = npt.NDArray[np.uint8]

COUNTS = {"train": 160, "val": 60, "test": 80}
SIDE = 28
ENVIRONMENT = Path(user_cache_dir("genlab")) / "baselines"


def _bars(count: int, seed: int) -> tuple[Images, npt.NDArray[np.int64]]:
    """Noisy images with one bright bar, across or down: its direction is the label."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 60, (count, SIDE, SIDE, 1), dtype=np.uint8)
    labels = rng.integers(0, 2, count)
    for image, label, place in zip(images, labels, rng.integers(4, SIDE - 6, count), strict=True):
        view = image if label else image.swapaxes(0, 1)
        view[place : place + 3, 4:-4] = 230
    return images, labels


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A split folder of bars."""
    folder = tmp_path_factory.mktemp("data")
    labels = {}
    for seed, (split, count) in enumerate(COUNTS.items()):
        images, labels[split] = _bars(count, seed)
        np.save(folder / f"{split}.npy", images)
    write_npz(folder / LABELS_FILE, labels, kind=LABELS_KIND)
    shape = [SIDE, SIDE, 1]
    manifest = {"version": VERSION, "counts": COUNTS, "shape": shape, "labels": ["down", "across"]}
    write_json(folder / MANIFEST_FILE, {"kind": SPLIT_KIND, **manifest})
    return folder


@pytest.fixture(scope="module")
def judge(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    """A judge whose classifier was trained for a moment, and kept in a cache of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return Judge(data, 2000)


def _outcome(data: Path, *, noise: float = 10.0, nats: float = 1000.0, seed: int = 5) -> Outcome:
    """The test images with some noise as reconstructions; fresh bars, or noise, as samples."""
    rng = np.random.default_rng(seed)
    test = load_images(data, "test")
    blurred = np.clip(test + rng.normal(0, noise, test.shape), 0, 255).astype(np.uint8)
    worse = rng.integers(0, 256, (80, SIDE, SIDE, 1), dtype=np.uint8)
    samples = {"normal": worse, "gmm": _bars(80, seed)[0]}
    facts = {"cpu_seconds": 1.0, "images_seen": 640, "updates": 10, "parameters": 99}
    return Outcome(blurred, samples, np.full(60, nats), np.full(80, nats), facts)


Run = Callable[[Settings, Path], Outcome]


def _counted(data: Path, calls: list[Settings]) -> Run:
    """A run that costs nothing: the best rate is 0.01, with loss `b`."""

    def run(settings: Settings, folder: Path) -> Outcome:
        calls.append(settings)
        off = abs(math.log10(settings.rate or 0.01) + 2) + (settings.loss == "a")
        return _outcome(data, nats=1000 + 100 * off + settings.seed)

    return run


def _bench(data: Path, output: Path, judge: Judge, run: Run) -> tuple[Bench, Contender]:
    code = output / "code"
    code.mkdir(exist_ok=True)
    contender = Contender("fake", run, (code,), ("a", "b"), (0.1, 0.01, 0.001))
    return Bench(data, output, judge, {"fake": contender}), contender


# sigma


def test_nats_are_those_of_scipys_normal_shared_out_to_levels() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (3, SIDE, SIDE, 1), dtype=np.uint8)
    images[0, :4], images[0, 4:8] = 0, 255
    means = np.clip(images + rng.normal(0, 40, images.shape), 0, 255).astype(np.uint8)
    x, mean, half = images / 255, means / 255, 0.5 / 255
    normal = stats.norm(mean, 0.15)
    low = np.where(images == 0, 0.0, normal.cdf(x - half))
    high = np.where(images == 255, 1.0, normal.cdf(x + half))
    wanted = -np.log(high - low).sum(axis=(1, 2, 3))
    assert baselines.gaussian_nats(images, means, 0.15) == pytest.approx(wanted, rel=1e-4)


def test_the_fitted_sigma_is_the_best_of_a_fine_grid() -> None:
    rng = np.random.default_rng(1)
    means = rng.integers(60, 196, (20, SIDE, SIDE, 1), dtype=np.uint8)
    images = (means + rng.normal(0, 0.08 * 255, means.shape)).round().clip(0, 255).astype(np.uint8)
    sigma = baselines.fitted_sigma(images, means)
    grid = np.exp(np.linspace(math.log(0.05), math.log(0.13), 60))
    nats = [baselines.gaussian_nats(images, means, each).mean() for each in grid]
    assert sigma == pytest.approx(grid[int(np.argmin(nats))], rel=0.02)
    assert sigma == pytest.approx(0.08, rel=0.03)
    assert baselines.gaussian_nats(images, means, sigma).mean() <= min(nats) * (1 + 1e-6)


# the judge


def test_the_judge_picks_the_sampler_that_is_nearer_to_the_validation_split(
    data: Path, judge: Judge
) -> None:
    row = judge.measure(_outcome(data))
    found = {name: each["validation_frechet"] for name, each in row["samplers"].items()}
    assert row["best_sampler"] == "gmm"
    assert found["gmm"] < found["normal"]
    assert row["frechet_distance"] == row["samplers"]["gmm"]["frechet_distance"]


def test_bits_are_nats_over_dimensions_and_log_two(data: Path, judge: Judge) -> None:
    row = judge.measure(_outcome(data, nats=SIDE * SIDE * math.log(2) * 3.5))
    assert row["bits_per_dim"] == pytest.approx(3.5)
    assert row["validation_bits_per_dim"] == pytest.approx(3.5)


def test_closer_reconstructions_score_higher(data: Path, judge: Judge) -> None:
    near, far = (judge.measure(_outcome(data, noise=noise)) for noise in (5, 60))
    assert near["ssim"] > far["ssim"]
    assert near["psnr"] > far["psnr"]


# the choice of settings, and what is kept


def test_the_best_of_all_rates_and_losses_goes_on(data: Path, judge: Judge, tmp_path: Path) -> None:
    calls: list[Settings] = []
    bench, contender = _bench(data, tmp_path, judge, _counted(data, calls))
    chosen = bench.chosen(contender.tried(30, 0, 20))
    assert len(calls) == 6
    best = next(each for each, aims in chosen.items() if "bits_per_dim" in aims)
    assert (best.loss, best.rate, best.seconds) == ("b", 0.01, 30)


def test_settings_that_are_best_at_one_thing_each_both_go_on() -> None:
    tried = [Settings("p", "", rate, 1, 0, 20) for rate in (0.1, 0.2, 0.3)]
    rows = [
        {"validation_bits_per_dim": bits, "validation_frechet": distance}
        for bits, distance in ((3.0, 9.0), (2.0, 5.0), (4.0, 1.0))
    ]
    assert baselines.best_settings(tried, rows) == {
        tried[1]: ["bits_per_dim"],
        tried[2]: ["frechet"],
    }
    rows[1]["validation_frechet"] = 0.5
    assert baselines.best_settings(tried, rows) == {tried[1]: ["bits_per_dim", "frechet"]}


def test_a_contender_with_its_own_settings_is_not_searched(
    data: Path, judge: Judge, tmp_path: Path
) -> None:
    calls: list[Settings] = []
    alone = Contender(baselines.OURS, _counted(data, calls), ())
    bench = Bench(data, tmp_path, judge, {baselines.OURS: alone})
    assert list(bench.chosen(alone.tried(30, 0, 20))) == [
        Settings(baselines.OURS, "", None, 30, 0, 20)
    ]
    assert calls == []


def test_a_killed_run_goes_on_with_what_is_not_there_yet(
    data: Path, judge: Judge, tmp_path: Path
) -> None:
    calls: list[Settings] = []
    counted = _counted(data, calls)

    def killed(settings: Settings, folder: Path) -> Outcome:
        if len(calls) == 4:
            raise KeyboardInterrupt
        return counted(settings, folder)

    bench, contender = _bench(data, tmp_path, judge, killed)
    with pytest.raises(KeyboardInterrupt):
        bench.chosen(contender.tried(30, 0, 20))
    bench, contender = _bench(data, tmp_path, judge, counted)
    first = bench.chosen(contender.tried(30, 0, 20))
    assert len(calls) == len(set(calls)) == 6
    assert bench.chosen(contender.tried(30, 0, 20)) == first
    assert len(calls) == 6
    bench.chosen(contender.tried(31, 0, 20))
    assert len(calls) == 12


def test_a_kept_row_of_another_judge_is_measured_again(
    data: Path, judge: Judge, tmp_path: Path
) -> None:
    calls: list[Settings] = []
    bench, _ = _bench(data, tmp_path, judge, _counted(data, calls))
    settings = Settings("fake", "b", 0.01, 30, 0, 20)
    row = bench.measured(settings)
    path = bench.folder(settings) / "measured.json"
    kept = read_json(path, producer_command="x")["row"]
    over = row["frechet_distance"] / judge.floor["frechet_distance"]
    assert bench.measured(settings) == row == {**kept, "relative_frechet": over}
    write_json(path, {**read_json(path, producer_command="x"), "features": "another"})
    assert bench.measured(settings) == row
    assert len(calls) == 2


def test_a_kept_row_of_other_code_is_run_again(data: Path, judge: Judge, tmp_path: Path) -> None:
    calls: list[Settings] = []
    bench, _ = _bench(data, tmp_path, judge, _counted(data, calls))
    for text, runs in (("x = 1\n", 1), ("x = 1\n", 1), ("x = 2\n", 2)):
        (tmp_path / "code" / "model.py").write_text(text, encoding="utf-8")
        bench.measured(Settings("fake", "b", 0.01, 30, 0, 20))
        assert len(calls) == runs


def test_only_names_who_takes_part() -> None:
    names = ("a", "b", baselines.OURS)
    known = {name: Contender(name, lambda s, f: _outcome(f), ()) for name in names}
    assert [each.name for each in baselines.taking_part(known, "")] == ["a", "b", "ours"]
    assert [each.name for each in baselines.taking_part(known, "baselines")] == ["a", "b"]
    assert [each.name for each in baselines.taking_part(known, "ours, a")] == ["ours", "a"]
    with pytest.raises(GenlabError, match=r"'c'.*known: baselines, a, b, ours"):
        baselines.taking_part(known, "a,c")


# the sums


def _runs(name: str, distances: list[float], bits: list[float], **more: Any) -> dict[str, Any]:
    runs = [
        {
            "contender": name,
            "loss": "mse",
            "rate": 0.001,
            "seed": seed,
            "cpu_seconds": 300.2,
            "images_seen": 123456,
            "bits_per_dim": bit,
            "ssim": 0.5,
            "psnr": 20.0,
            "best_sampler": "gmm",
            "samplers": {"normal": {"frechet_distance": 2 * distance}},
            "frechet_distance": distance,
            "relative_frechet": distance / 0.5,
            **more,
        }
        for seed, (distance, bit) in enumerate(zip(distances, bits, strict=True))
    ]
    return baselines.summary(runs, ["frechet"])


ROWS = [
    _runs("worse", [200.0, 210.0, 190.0], [4.0, 4.1, 3.9]),
    _runs("better", [40.0, 44.0, 42.0], [4.5, 4.4, 4.6]),
    _runs(baselines.OURS, [4.0, 4.6, 4.3], [3.0, 3.1, 3.05], loss="", rate=None),
]


def test_a_summary_holds_mean_deviation_and_every_seed() -> None:
    row = ROWS[1]
    assert row["mean"]["frechet_distance"] == pytest.approx(42)
    assert row["sd"]["frechet_distance"] == pytest.approx(2)
    assert row["mean"]["frechet_normal"] == pytest.approx(84)
    assert row["seeds"] == [0, 1, 2]
    single = _runs("one", [1.0], [3.0], samplers={"flow": {"frechet_distance": 1.0}})
    assert single["sd"]["frechet_distance"] is None
    assert single["mean"]["frechet_normal"] is None


def test_each_bar_is_held_against_the_peer_that_is_best_at_it() -> None:
    found = baselines.compare(ROWS)
    (over, interval), nearest = found["images.frechet_over_baseline"]
    assert (over, nearest["contender"]) == (pytest.approx(4.3 / 42), "better")
    assert interval is not None
    assert interval[0] < over < interval[1]
    (below, interval), shortest = found["images.bpd_below_baseline"]
    assert (below, shortest["contender"]) == (pytest.approx(4.0 - 3.05), "worse")
    welch = stats.ttest_ind([4.0, 4.1, 3.9], [3.0, 3.1, 3.05], equal_var=False)
    expected = welch.confidence_interval()
    assert interval == pytest.approx((expected.low, expected.high))


def test_a_peer_with_another_loss_than_its_own_is_compared_with_by_itself() -> None:
    tuned = _runs("better", [10.0, 11.0, 12.0], [3.4, 3.5, 3.6], loss=baselines.TUNED_LOSS)
    found = baselines.compare([*ROWS, tuned])
    assert (
        found["images.frechet_over_baseline"]
        == baselines.compare(ROWS)["images.frechet_over_baseline"]
    )
    assert found["images.frechet_over_tuned"][0][0] == pytest.approx(4.3 / 11)
    assert found["images.bpd_below_tuned"][0][0] == pytest.approx(3.5 - 3.05)


def test_only_those_who_lead_at_something_and_ours_are_run_with_all_seeds() -> None:
    slow = _runs("slow", [300.0], [5.0])
    tuned = _runs("better", [10.0], [3.5], loss=baselines.TUNED_LOSS)
    assert baselines.leaders([slow, *ROWS, tuned]) == [False, True, True, True, False]


def test_without_ours_or_without_peers_nothing_is_compared() -> None:
    assert baselines.compare(ROWS[:2]) == {}
    assert baselines.compare(ROWS[2:]) == {}
    assert baselines.ratios(ROWS[:2]) == []


def test_a_ratio_of_single_seeds_has_no_interval() -> None:
    assert baselines.ratio([2.0], [4.0]) == (0.5, None)
    assert baselines.difference([2.0], [4.0]) == (-2.0, None)


def test_the_interval_of_a_ratio_holds_the_true_one_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(1000):
        one, other = rng.normal(5, 0.3, 3), rng.normal(50, 6, 3)
        _, interval = baselines.ratio(list(one), list(other))
        assert interval is not None
        hits += interval[0] <= 0.1 <= interval[1]
    assert 920 <= hits <= 995


def test_the_table_shows_each_row_with_its_spread() -> None:
    head, *lines = baselines.table(ROWS).splitlines()
    assert "bits/dim" in head
    assert len({line.index("gmm") for line in lines}) == 1
    assert lines[1].startswith("better mse lr 0.001 ")
    assert "42.00 ± 2.00" in lines[1]
    assert "84.00 ± 4.00" in lines[1]
    assert "123,456" in lines[1]
    assert lines[2].startswith("ours ")
    assert len(baselines.ratios(ROWS)) == 2
    assert "Fréchet best 0.102" in baselines.ratios(ROWS)[1]


def test_the_report_is_plain_json(judge: Judge, tmp_path: Path) -> None:
    searched = [{**ROWS[0]["runs"][0], "validation_bits_per_dim": 1.0, "validation_frechet": 2.0}]
    write_json(tmp_path / "baselines.json", baselines.report_of(judge, ROWS, searched, 300, 100))
    found = json.loads((tmp_path / "baselines.json").read_text(encoding="utf-8"))
    assert [row["contender"] for row in found["rows"]] == ["worse", "better", "ours"]
    assert len(found["rows"][0]["runs"]) == 3
    assert found["search"][0]["rate"] == 0.001
    assert found["floor"]["frechet_distance"] > 0


# the worker


def _tensor(images: Images) -> torch.Tensor:
    return torch.from_numpy(images.transpose(0, 3, 1, 2).copy())


def test_kl_is_that_of_torch_distributions() -> None:
    mean, log_variance = torch.randn(5, 7), torch.randn(5, 7)
    normal = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
    wanted = torch.distributions.kl_divergence(normal, torch.distributions.Normal(0, 1)).sum(1)
    assert torch.allclose(baseline_worker.kl(mean, log_variance), wanted, atol=1e-5)


def test_training_stops_at_its_budget_and_gets_better() -> None:
    torch.manual_seed(0)
    images, held_out = _tensor(_bars(160, 0)[0]), _tensor(_bars(60, 1)[0])
    baseline = baseline_worker.Vanilla()
    before = baseline_worker.held_out_loss(baseline, held_out)
    facts = baseline_worker.fit(baseline, images, held_out, 1e-3, 1.0)
    assert facts["cpu_seconds"] >= 1.0
    assert 0 < facts["images_seen"] <= facts["updates"] * baseline_worker.BATCH
    assert baseline_worker.held_out_loss(baseline, held_out) < before


def test_a_rate_that_breaks_the_weights_leaves_the_best_ones() -> None:
    torch.manual_seed(0)
    images, held_out = _tensor(_bars(160, 0)[0]), _tensor(_bars(60, 1)[0])
    baseline = baseline_worker.Vanilla()
    baseline_worker.fit(baseline, images, held_out, 1e30, 0.5)
    assert all(value.isfinite().all() for value in baseline.state_dict().values())
    assert math.isfinite(baseline_worker.held_out_loss(baseline, held_out))


def test_images_of_the_vanilla_peer_are_28_wide_and_within_range() -> None:
    baseline = baseline_worker.Vanilla().eval()
    x = torch.rand(3, 1, SIDE, SIDE)
    mean, log_variance = baseline.encode(x)
    decoded = baseline.decode(baseline_worker.drawn(mean, log_variance))
    assert mean.shape == log_variance.shape == (3, 128)
    assert decoded.shape == x.shape
    assert 0 <= decoded.min() <= decoded.max() <= 1


@pytest.mark.slow
def test_a_peer_is_trained_in_its_own_process_once(
    data: Path, judge: Judge, tmp_path: Path
) -> None:
    settings, nowhere = Settings("antixk", "", 1e-3, 1, 0, 60), tmp_path / "none"
    outcome = baselines.run_peer(settings, tmp_path / "run", data=data, environment=nowhere)
    assert outcome.facts["cpu_seconds"] >= 1
    assert outcome.reconstructions.shape == (60, SIDE, SIDE, 1)
    assert outcome.samples["gmm"].shape == (60, SIDE, SIDE, 1)
    assert outcome.test_nats.shape == (60,)
    assert 0 < judge.measure(outcome)["bits_per_dim"] < 16
    stamp = (tmp_path / "run" / "run.npz").stat().st_mtime_ns
    again = baselines.run_peer(settings, tmp_path / "run", data=data, environment=nowhere)
    assert (tmp_path / "run" / "run.npz").stat().st_mtime_ns == stamp
    assert np.array_equal(again.test_nats, outcome.test_nats)


@pytest.mark.slow
def test_a_peer_that_fails_is_one_line(data: Path, tmp_path: Path) -> None:
    (tmp_path / "pythae").mkdir()
    (tmp_path / "pythae" / "__init__.py").write_text("raise ImportError('broken')\n")
    settings = Settings("pythae-mlp", "mse", 1e-3, 1, 0, 20)
    with pytest.raises(GenlabError, match=r"pythae-mlp failed .*broken") as caught:
        baselines.run_peer(settings, tmp_path / "run", data=data, environment=tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run" / "run.npz").exists()


# pythae's folder


def test_without_an_index_the_error_is_one_line_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(GenlabError, match=r"pip could not install pythae==0\.1\.2") as caught:
        baselines.install(tmp_path / "baselines")
    assert "\n" not in str(caught.value)
    assert "--environment" in str(caught.value)
    assert not (tmp_path / "baselines").exists()


def test_what_is_installed_is_not_installed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    folder = tmp_path / "baselines"
    write_json(folder / baselines.INSTALLED, list(baselines.REQUIREMENTS))
    baselines.install(folder)
    write_json(folder / baselines.INSTALLED, ["pythae==0.1.1"])
    with pytest.raises(GenlabError):
        baselines.install(folder)


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(GenlabError, match="choose an empty folder: --environment"):
        baselines.install(tmp_path)
    assert (tmp_path / "thesis.txt").exists()


@pytest.mark.slow
@pytest.mark.skipif(not baselines.installed(ENVIRONMENT), reason="pythae's folder is not there")
@pytest.mark.parametrize(("name", "loss"), [("pythae-mlp", "bce"), ("pythae-conv", "mse")])
def test_pythae_trains_beside_pydantic_1(name: str, loss: str, data: Path, tmp_path: Path) -> None:
    settings = Settings(name, loss, 1e-3, 1, 0, 40)
    outcome = baselines.run_peer(settings, tmp_path / "run", data=data, environment=ENVIRONMENT)
    assert outcome.facts["updates"] > 0
    assert outcome.samples["normal"].shape == (40, SIDE, SIDE, 1)
    assert np.isfinite(outcome.test_nats).all()
