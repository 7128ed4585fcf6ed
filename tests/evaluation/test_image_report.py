"""The report of an image dataset: every statement from the run's files, each file optional or told.

The metrics are fabricated to the schema; verdicts, diagnoses and failures are made of them by the
code that makes them in a run.
"""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genlab.core.errors import GenlabError
from genlab.core.io import write_bytes, write_json
from genlab.core.params import load_params
from genlab.datasets.registry import find_dataset
from genlab.evaluation.diagnostics import (
    image_criteria as image_verdict,
)
from genlab.evaluation.diagnostics import (
    image_gallery,
)
from genlab.evaluation.diagnostics import (
    images as image_health,
)
from genlab.evaluation.reports import report

DATASET = "fashion_mnist"
PNG = b"\x89PNG\r\n\x1a\n"
BEGIN, END = (marker.format(dataset=DATASET) for marker in (report.BEGIN, report.END))
README = (
    f"# genlab\n\n{report.BEGIN.format(dataset='arc_grids')}\nof grids\n"
    f"{report.END.format(dataset='arc_grids')}\n\n{BEGIN}\nold\n{END}\n\nbelow\n"
)
SERIES = {
    "loss": [1700.0, 1610.0],
    "reconstruction_loss": [1650.0, 1560.0],
    "kl_divergence": [50.0, 52.0],
    "beta_kl": [20.0, 52.0],
    "skipped_updates": [0.0, 0.0],
    "updates": [100.0, 100.0],
}


def _interval(value: float, n: int = 10_000) -> dict[str, float]:
    return {"low": 0.99 * value, "high": 1.01 * value, "n": n}


def _with_intervals(flat: Mapping[str, float]) -> dict[str, Any]:
    return {**flat, "intervals": {name: _interval(value) for name, value in flat.items()}}


def _sampler(frechet: float, floor: float, recall: float = 0.55) -> dict[str, Any]:
    found = _with_intervals(
        {"frechet_distance": frechet, "precision": 0.71, "recall": recall}
        | {"density": 0.83, "coverage": 0.77}
    )
    extra = {"relative_frechet": frechet / floor, "validation_frechet": frechet + 0.1}
    return {**found, **extra, "k": 5, "n": 10_000, "n_reference": 10_000}


def _metrics(
    bits: float = 3.0,
    *,
    frechet: float = 12.0,
    ssim: float = 0.86,
    likelihood: str = "discretized_logistic_mixture",
    beta: float = 1.0,
    kl: float = 52.0,
    sigma: list[float] | None = None,
) -> dict[str, Any]:
    nats = bits * 784 * np.log(2)
    flat = _with_intervals(
        {"neg_elbo_nats": nats, "reconstruction_nats": nats - kl, "kl_nats": kl}
        | {"bits_per_dim": bits, "neg_iwae_nats": nats - 9, "mse": 0.008, "psnr": 21.3}
        | {"ssim": ssim}
    )
    floor = 0.7
    copies = _with_intervals(
        {"near_duplicate_rate": 0.013, "exact_duplicate_rate": 0.0, "median_ratio": 1.08}
    )
    return {
        "likelihood": likelihood,
        "comparable": "bernoulli" not in likelihood,
        **flat,
        "iwae_bits_per_dim": (nats - 9) / 784 / np.log(2),
        "iwae_samples": 64,
        "iwae_items": 200,
        "active_units": 144,
        "latent_dim": 392,
        "tokens": 49,
        "beta_max": beta,
        "n": 10_000,
        "mean_image_mse": 0.087,
        "sharpness": {"test": 0.2, "reconstructions": 0.18, "samples": 0.17},
        "aggregate": {
            "aggregate_std_p05": 0.02,
            "aggregate_std_p95": 1.2,
            "aggregate_gaussian_kl": 0.01,
        },
        "sigma": sigma,
        "features": {"kind": "classifier", "task": "labels", "digest": "f00d", "accuracy": 0.913}
        | {"n": 10_000},
        "floor": _with_intervals({"frechet_distance": floor}) | {"n": 10_000, "n_reference": 9_999},
        "reconstruction": _sampler(5.0, floor, 0.6),
        "best_sampler": "prior",
        "samplers": {
            "prior": _sampler(frechet, floor),
            "ancestral": _sampler(frechet + 3, floor),
            "gmm": _sampler(frechet + 20, floor) | {"components": 37, "regularised": True},
        },
        "memorisation": {**copies, "held_out_exact_duplicate_rate": 0.0, "near_threshold": 0.031}
        | {"median_distance": 0.1, "held_out_median_distance": 0.09}
        | {"n": 2000, "n_reference": 2000},
        "kl_per_latent": [1.0, 0.5],
    }


def _run(metrics: dict[str, Any]) -> dict[str, Any]:
    return {
        "metrics": metrics,
        "verdict": image_verdict.verdict(metrics, series=SERIES, least_accuracy=0.9),
        "diagnosis": {"diagnoses": image_health.diagnose(metrics, SERIES)},
        "training": {
            "epochs": 27, "best_epoch": 26, "stopped_early": False, "items_seen": 108_321,
            "updates": 3_375, "skipped_updates": 1, "series": SERIES,
            "parameters": {"encoder": 71_001, "decoder": 82_002, "prior": 93_003, "all": 246_006},
        },
    }  # fmt: skip


def _entry(params: dict[str, Any], metrics: dict[str, Any], **more: Any) -> dict[str, Any]:
    dotted = {f"{DATASET}.{key}" if key in SECTION else key: v for key, v in params.items()}
    entry = {"why": "Because.", "params": {"datasets": [DATASET], **dotted}, "dataset": DATASET}
    return {**entry, "command": "dvc exp run -S x", **_run(metrics), **more}


SECTION = getattr(load_params(Path(__file__).parents[2] / "params.yaml"), DATASET)


def _experiments() -> dict[str, Any]:
    lost = ("bits_per_dim", "neg_elbo_nats", "reconstruction_nats", "neg_iwae_nats", "mse")
    broken = _metrics() | dict.fromkeys(lost)
    short = {"epochs": 3}
    collapsed = _metrics(4.4, kl=0.2, ssim=0.31)
    return {
        "beta0": {"why": "Of grids.", "params": {}, "metrics": {}, "diagnosis": []},
        "images-beta-0.3": _entry(
            {"beta_max": 0.3, **short}, _metrics(3.3, beta=0.3, kl=91.25)
        ),
        "images-beta-4": _entry({"beta_max": 4.0, **short}, _metrics(3.6, beta=4.0, kl=23.75)),
        "images-beta-8": _entry({"beta_max": 8.0, **short}, _metrics(3.8, beta=8.0, kl=11.5)),
        "images-short": _entry(short, _metrics(3.2)),
        "images-short-seed7": _entry({**short, "seed": 7}, _metrics(3.21)),
        "images-no-ema": _entry({"ema": 0.123, **short}, _metrics(3.456, ssim=0.8123)),
        "images-lonely": _entry({"free_bits": 7.5, "epochs": 4}, _metrics(2.9)),
        "images-gaussian": _entry(
            {"likelihood": "gaussian_analytic", **short},
            _metrics(3.7, ssim=0.912, likelihood="gaussian_analytic", sigma=[0.09]),
        ),
        "images-bernoulli": _entry(
            {"likelihood": "bernoulli", **short},
            _metrics(1.1, frechet=8.5, likelihood="bernoulli"),
        ),
        "images-seed1": _entry({"seed": 1}, _metrics(3.02)),
        "images-seed2": _entry({"seed": 2}, _metrics(3.04)),
        "images-collapsed": _entry({"beta_max": 60.0, "lr": 0.5}, collapsed),
        "images-cured": _entry({"beta_max": 0.9}, _metrics(3.05), fixes="images-collapsed"),
        "images-nan": _entry({"lr": 0.7}, broken),
    }  # fmt: skip


def _baselines() -> dict[str, Any]:
    def row(contender: str, loss: str, rate: float | None, bits: float, far: float) -> Any:
        mean = {"cpu_seconds": 300.0, "images_seen": 5e5, "bits_per_dim": bits, "ssim": 0.7}
        mean |= {"psnr": 19.0, "frechet_normal": None, "frechet_distance": far}
        mean |= {"relative_frechet": far / 0.7}
        spread = {name: None if value is None else 0.25 for name, value in mean.items()}
        return {
            "contender": contender, "loss": loss, "rate": rate, "chosen_for": [],
            "seeds": [0, 1, 2], "samplers": ["gmm", "gmm", "normal"], "mean": mean, "sd": spread,
        }  # fmt: skip

    return {
        "seconds": 300.0, "search_seconds": 300.0, "n": 10_000, "floor": {"frechet_distance": 0.7},
        "features": {"kind": "classifier", "digest": "beef", "accuracy": 0.912},
        "machine": {"cpu": "a CPU"}, "search": [],
        "rows": [row("ours", "", None, 3.0, 12.5), row("pythae-mlp", "mse", 1e-3, 4.125, 250.0)],
    }  # fmt: skip


def _failures(names: tuple[str, ...]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 256, (600, 8, 8, 1), dtype=np.uint8)
    labels = np.arange(600) % len(names)
    # Where a class is hard, and nothing else is.
    noise = np.where(labels == 3, 90, 15)[:, None, None, None] * rng.random(truth.shape)
    predicted = np.clip(truth + noise, 0, 255).astype(np.uint8)
    pairs = image_gallery.Reconstructions(truth, predicted, labels, nats=np.full(600, 9.0))
    samples = image_gallery.Samples(truth[:300], truth[300:], rng.random(300), labels[:300])
    return image_gallery.summary(pairs, samples, names, count=10, bootstrap=50)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    """A repository after `make repro`, `make experiments` and `make bench`, of made-up numbers."""
    folder = tmp_path_factory.mktemp("a repository")
    names = find_dataset(DATASET).labels
    splits = {"train": 540, "val": 60, "test": 100}
    run = _run(_metrics())
    for name in ("metrics", "verdict", "diagnosis", "training"):
        write_json(folder / f"results/{DATASET}/{name}.json", run[name])
    write_json(folder / f"results/{DATASET}/failures.json", _failures(names))
    counted = {split: dict.fromkeys(names, n // 10) for split, n in splits.items()}
    write_json(
        folder / f"results/{DATASET}/data.json",
        {"dataset": DATASET, "counts": splits, "shape": [28, 28, 1], "channel_mean": [0.2861]}
        | {"channel_std": [0.3531], "class_counts": counted, "duplicates": {"test_in_train": 43}},
    )
    write_json(folder / "results/experiments.json", _experiments())
    write_json(folder / "metrics/baselines.json", _baselines())
    bars: dict[str, Any] = {
        "images.ssim": (0.8612, [0.86, 0.862]), "images.relative_frechet": (17.3, None),
        "images.one_model": (0.0, None), "grids.beta0.exact": (0.5, None),
    }  # fmt: skip
    write_json(
        folder / "results/benchmarks.json",
        {
            key: {"value": value, "interval": interval, "n": 10, "seeds": [0], "command": "b"}
            for key, (value, interval) in bars.items()
        },
    )
    for stem in ("reconstructions", "samplers", "kl_by_latent"):
        write_bytes(folder / "plots" / DATASET / "evaluation" / f"{stem}.png", PNG)
    for name in ("images-collapsed", "images-cured"):
        write_bytes(folder / f"plots/{DATASET}/experiments/{name}/reconstructions.png", PNG)
    shutil.copy(root / "params.yaml", folder)
    (folder / "benchmarks").mkdir()
    shutil.copy(root / "benchmarks/targets.yaml", folder / "benchmarks")
    (folder / "README.md").write_text(README)
    return folder


@pytest.fixture
def repository(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "a repository"))


def _texts(repository: Path) -> dict[str, str]:
    context = report.gather(repository, DATASET)
    return {path.name: text for path, text in report.texts(repository, DATASET, context).items()}


def _change(path: Path, place: str, value: Any) -> None:
    """Set the entry at a dotted place of a JSON file."""
    found = json.loads(path.read_text())
    *outer, last = place.split("/")
    inner = found
    for key in outer:
        inner = inner[int(key) if isinstance(inner, list) else key]
    inner[last] = value
    write_json(path, found)


def _row(text: str, start: str) -> str:
    [row] = [line for line in text.splitlines() if line.startswith(start)]
    return row


METRICS = f"results/{DATASET}/metrics.json"


@pytest.mark.parametrize(
    ("file", "place", "value", "shown", "names"),
    [
        (METRICS, "bits_per_dim", 2.71828, "2.718", "README.md report"),
        (METRICS, "iwae_bits_per_dim", 2.61803, "2.618", "README.md report"),
        (METRICS, "ssim", 0.87654, "0.8765", "README.md report"),
        (METRICS, "active_units", 317, "317 ", "README.md report"),
        (METRICS, "features/accuracy", 0.9377, "93.8 %", "README.md report"),
        (METRICS, "samplers/prior/frechet_distance", 11.237, "11.24", "README.md report"),
        (METRICS, "samplers/gmm/recall", 0.4321, "0.4321", "README.md report"),
        (METRICS, "samplers/gmm/components", 41, "41 components", "README.md report"),
        (METRICS, "floor/frechet_distance", 0.6543, "0.6543", "README.md report"),
        (METRICS, "memorisation/near_duplicate_rate", 0.0234, "2.3 %", "README.md report"),
        (METRICS, "sharpness/samples", 0.15678, "0.1568", "report"),
        (METRICS, "intervals/psnr", _interval(31.7), "31.38 to 32.02", "report"),
        ("results/experiments.json", "images-no-ema/metrics/bits_per_dim", 3.9872, "3.987",
         "README.md report"),
        ("results/experiments.json", "images-seed1/metrics/ssim", 0.99, "0.9033 ± 0.075",
         "README.md"),
        ("results/experiments.json", "images-beta-4/metrics/kl_nats", 17.125, "17.12", "report"),
        ("metrics/baselines.json", "rows/1/mean/frechet_distance", 123.5, "123.5", "README.md report"),
        ("results/benchmarks.json", "images.ssim/value", 0.8877, "0.8877", "README.md report"),
        (f"results/{DATASET}/training.json", "parameters/prior", 93_117, "93,117",
         "README.md report"),
        (f"results/{DATASET}/data.json", "counts/train", 53_998, "53,998",
         "README.md report sheet"),
        (f"results/{DATASET}/data.json", "duplicates/test_in_train", 4_747, "4,747",
         "report sheet"),
        (f"results/{DATASET}/failures.json", "sample_n", 1_987, "1,987", "report"),
    ],
)  # fmt: skip
def test_numbers_follow_the_files(
    file: str, place: str, value: Any, shown: str, names: str, repository: Path
) -> None:
    before = _texts(repository)
    _change(repository / file, place, value)
    after = _texts(repository)
    of = {"report": f"{DATASET}.md", "sheet": f"{DATASET}_data_sheet.md"}
    for name in (of.get(name, name) for name in names.split()):
        assert shown not in before[name], name
        assert shown in after[name], name


def test_each_dataset_has_its_own_place_in_the_readme(repository: Path) -> None:
    text = _texts(repository)["README.md"]
    head, own = README.split(f"{BEGIN}\nold\n{END}")[0], text.split(BEGIN)[1]
    assert text.startswith(head + BEGIN)
    assert own.startswith("\n## Fashion-MNIST")
    assert own.endswith(f"{END}\n\nbelow\n")
    assert "\nold\n" not in text


def test_a_readme_without_a_place_for_a_dataset_is_left_alone(repository: Path) -> None:
    readme = repository / "README.md"
    readme.write_text(readme.read_text().replace(BEGIN, "").replace(END, ""))
    assert "README.md" not in _texts(repository)


@pytest.mark.parametrize("lost", [BEGIN, END])
def test_half_a_pair_of_markers_is_one_line(lost: str, repository: Path) -> None:
    readme = repository / "README.md"
    readme.write_text(readme.read_text().replace(lost, ""))
    with pytest.raises(GenlabError, match="put both back"):
        _texts(repository)


def test_experiments_and_benchmarks_of_grids_stay_out(repository: Path) -> None:
    for text in _texts(repository).values():
        assert "beta0" not in text
        assert "Of grids." not in text


def test_a_measure_is_compared_with_the_run_that_differs_in_it_alone(repository: Path) -> None:
    texts = _texts(repository)
    row = _row(texts[f"{DATASET}.md"], "| EMA of weights |")
    assert "`ema=0.123` (`images-no-ema` against `images-short`)" in row
    assert "| 3.456 / 3.2 | 0.8123 / 0.86 |" in row
    item = _row(texts["README.md"], "- **EMA of weights**")
    assert "(`ema=0.123`): bits/dim 3.456 / 3.2, Fréchet distance 12 / 12." in item


def test_a_run_without_such_a_partner_is_no_ablation(repository: Path) -> None:
    text = _texts(repository)[f"{DATASET}.md"]
    assert "not run" in _row(text, "| free bits |")
    assert "free_bits=7.5" in _row(text, "| images-lonely |")


def test_of_a_sweep_over_beta_the_ends_are_ablations_and_all_are_points(repository: Path) -> None:
    text = _texts(repository)[f"{DATASET}.md"]
    measures, rates = text.split("## Which")[0], text.split("## Rate and distortion")[1]
    assert "images-beta-0.3" in measures
    assert "images-beta-4" not in measures
    rates = rates.split("\n## ")[0]
    for beta, kl in (("0.3", "91.25"), ("1", "52"), ("4", "23.75"), ("8", "11.5")):
        assert f"| {beta} | {kl} |" in rates
    assert "| 1, seed 7 | 52 |" in rates


def test_the_best_likelihood_is_read_off_and_other_scales_do_not_compete(repository: Path) -> None:
    text = _texts(repository)["README.md"]
    assert "discretized logistic mixture has the fewest" in text
    assert re.search(r"highest SSIM has\s+gaussian analytic", text)
    assert re.search(r"least Fréchet distance bernoulli", text)
    assert "| 1.1 (own scale) |" in _row(text, "| bernoulli |")
    _change(
        repository / "results/experiments.json", "images-gaussian/metrics/bits_per_dim", 2.5
    )  # fmt: skip
    assert "gaussian analytic has the fewest" in _texts(repository)["README.md"]


def test_a_failure_stands_beside_its_cure_with_evidence_and_pictures(repository: Path) -> None:
    text = _texts(repository)["README.md"]
    row = _row(text, "| posterior collapse | ")
    assert "`beta_max=60.0`" in row
    assert "kl nats 0.2" in row
    assert "kl nats 52" in row
    assert row.endswith("| gone |")
    for name in ("images-collapsed", "images-cured"):
        picture = f"(../plots/{DATASET}/experiments/{name}/reconstructions.png)"
        assert picture in _texts(repository)[f"{DATASET}.md"]


def test_a_cure_that_does_not_help_is_not_said_to(repository: Path) -> None:
    experiments = repository / "results/experiments.json"
    records = json.loads(experiments.read_text())
    records["images-cured"]["diagnosis"] = records["images-collapsed"]["diagnosis"]
    write_json(experiments, records)
    row = _row(_texts(repository)["README.md"], "| posterior collapse | ")
    assert row.endswith("| **still there** |")


def test_supported_claims_are_the_issues(repository: Path) -> None:
    failures = json.loads((repository / f"results/{DATASET}/failures.json").read_text())
    name = find_dataset(DATASET).labels[3]
    [test] = [test for test in failures["tests"] if test["name"] == f"class_{name}"]
    assert test["verdict"] == "supported"
    ratio = f"{test['ratio_same_class']:.4g} times the mse"
    assert ratio in _texts(repository)["README.md"].split("### Issues")[1]


def test_findings_of_the_run_come_with_their_cure(repository: Path) -> None:
    assert "finds none of the 8 faults" in _texts(repository)["README.md"]
    _change(repository / METRICS, "samplers/prior/frechet_distance", 99.0)
    metrics = json.loads((repository / METRICS).read_text())
    write_json(
        repository / f"results/{DATASET}/diagnosis.json",
        {"diagnoses": image_health.diagnose(metrics, SERIES)},
    )
    text = _texts(repository)["README.md"]
    assert "- **Prior hole**: frechet over fitted 3.094" in text
    assert "`prior=" in text.split("**Prior hole**")[1].splitlines()[0]


def test_peers_are_shown_where_they_were_run(repository: Path) -> None:
    text = _texts(repository)["README.md"]
    row = _row(text, "| pythae's MLP, mse, lr 0.001 |")
    assert "| 250 ± 0.25 | 357.1 ± 0.25 | 0.05 | 1.125 |" in row
    row = _row(_texts(repository)[f"{DATASET}.md"], "| pythae's MLP, mse, lr 0.001 |")
    assert row.endswith("| gmm, normal | 0.05 | 1.125 |")
    (repository / "metrics/baselines.json").unlink()
    for text in _texts(repository).values():
        assert "pythae" not in text
        assert "Beside baselines" not in text


def test_bars_are_those_of_images(repository: Path) -> None:
    text = _texts(repository)["README.md"]
    assert _row(text, "| one model").endswith("| no | – | 10 | yes | – | **missed** |")
    assert "(`images.ssim`) | 0.8612 | 0.86, 0.862 | 10 | 0.85 | 0.92 | reached |" in text
    assert "(`images.minutes`) | – |" in text
    assert "grids." not in text


def test_next_steps_follow_the_numbers(repository: Path) -> None:
    def steps() -> str:
        return _texts(repository)[f"{DATASET}.md"].split("## Next steps")[1]

    assert "more is lost in the decoder than in sampling" in steps()
    assert "`images-bernoulli` (`likelihood=bernoulli`) has 8.5" in steps()
    _change(repository / METRICS, "sharpness/samples", 0.05)
    assert "more is lost in sampling than in the decoder" in steps()
    assert "0.25 times" in steps()
    _change(repository / METRICS, "samplers/ancestral/frechet_distance", 1.5)
    assert "puts back" in steps()


def test_a_run_that_broke_is_shown_without_numbers(repository: Path) -> None:
    row = _row(_texts(repository)[f"{DATASET}.md"], "| images-nan |")
    assert "| – |" in row
    assert "nan" in row.split("|")[-2]


def test_surprises_speak_of_images(repository: Path) -> None:
    _change(repository / METRICS, "samplers/gmm/frechet_distance", 3.25)
    verdict = repository / f"results/{DATASET}/verdict.json"
    found = json.loads(verdict.read_text())
    found["criteria"][1] |= {"value": None, "passed": False}
    write_json(verdict, found)
    text = _texts(repository)[f"{DATASET}.md"].split("## Surprises")[1].split("\n## ")[0]
    assert "`gmm` has 3.25" in text
    assert "samples better than its own prior" in text
    assert "criterion `ssim` fails: no value is not >= 0.6" in text
    assert "`images-collapsed` shows posterior collapse" in text


def test_tables_have_as_many_cells_in_every_row(repository: Path) -> None:
    for name, text in _texts(repository).items():
        for block in text.split("\n\n"):
            rows = [line for line in block.splitlines() if line.startswith("|")]
            assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) <= 1, (name, rows[:3])
            assert len(rows) != 1, (name, rows)


def test_no_line_ends_in_a_space(repository: Path) -> None:
    for name, text in _texts(repository).items():
        assert [line for line in text.splitlines() if line != line.rstrip()] == [], name


def test_every_picture_exists_and_the_curve_is_drawn(repository: Path) -> None:
    context = report.gather(repository, DATASET)
    assert [path.stem for path in report.draw(repository, DATASET, context)] == ["rate_distortion"]
    for path, text in report.texts(repository, DATASET, context).items():
        pictures = re.findall(r"\]\(([^)]*\.png)\)", text)
        assert all((path.parent / picture).resolve().is_file() for picture in pictures), path
        assert len(pictures) >= 2 or "data_sheet" in path.name


def test_the_readme_section_is_short(repository: Path) -> None:
    section = _texts(repository)["README.md"].split(BEGIN)[1].split(END)[0]
    prose = [line for line in section.splitlines() if not line.startswith("![")]
    assert len(" ".join(prose).split()) < 1600  # two printed pages, half of it tables


def test_without_experiments_nothing_is_claimed_of_them(repository: Path) -> None:
    write_json(repository / "results/experiments.json", {})
    text = _texts(repository)[f"{DATASET}.md"]
    for heading in ("## Rate and distortion", "## Failures on purpose", "### Which likelihood"):
        assert heading not in text
    assert report.draw(repository, DATASET, report.gather(repository, DATASET)) == []


@pytest.mark.parametrize("key", ["bits_per_dim", "sharpness", "mean_image_mse"])
def test_files_of_an_older_run_are_one_line(key: str, repository: Path) -> None:
    metrics = json.loads((repository / METRICS).read_text())
    del metrics[key]
    write_json(repository / METRICS, metrics)
    with pytest.raises(GenlabError, match=rf"{key}.*make repro") as error:
        _texts(repository)
    assert "\n" not in str(error.value)
