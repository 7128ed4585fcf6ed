"""The report: rendered from the run's files alone, and one line where a file fails."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genlab.core.errors import GenlabError
from genlab.core.io import write_json
from genlab.core.params import load_params
from genlab.datasets.datasheet import describe, entropy_facts
from genlab.evaluation import figures
from genlab.evaluation.diagnostics.gallery import summary
from genlab.evaluation.diagnostics.grids import diagnose, verdict
from genlab.evaluation.metrics.likelihood import bound_summary, iwae_summary
from genlab.evaluation.metrics.reconstruction import grid_metrics
from genlab.evaluation.metrics.validity import sample_metrics
from genlab.evaluation.reports import formats, report
from genlab.grids.distribution import GridDistribution
from genlab.grids.generator import AtomicImageGenerator

DATASET = "arc_grids"
SERIES = {
    "kl_divergence": [10.0, 44.0],
    "beta_kl": [0.0, 44.0],
    "loss": [200.0, 55.0],
    "reconstruction_loss": [190.0, 11.0],
}
BEGIN, END = (marker.format(dataset=DATASET) for marker in (report.BEGIN, report.END))
README = f"# genlab\n\nabove\n\n{BEGIN}\nold\n{END}\n\nbelow\n"


def _run(grids: np.ndarray, predicted: np.ndarray, beta: float) -> dict[str, Any]:
    """Metrics, verdict and diagnosis of an answer, made as stage evaluate makes them."""
    n = len(grids)
    bound = bound_summary(np.full(n, 55.0), np.full(n, 11.0), np.full(n, 44.0), bootstrap=20)
    weights = iwae_summary(np.full((20, 64), -50.0), bootstrap=20)
    found = grid_metrics(grids, predicted, bootstrap=20)
    metrics = found | {key: v for part in (bound, weights) for key, v in part.items() if key != "n"}
    metrics["intervals"] = found["intervals"] | bound["intervals"] | weights["intervals"]
    metrics |= {"active_units": 100, "latent_dim": 128, "data_entropy_bound_nats": 37.0}
    metrics["arc_agi"] = grid_metrics(grids[:50], grids[:50], bootstrap=20)
    return {
        "metrics": metrics,
        "verdict": verdict(metrics, beta_max=beta),
        "diagnosis": {"diagnoses": diagnose(metrics, SERIES)},
        "training": {"series": SERIES},
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    """A repository after `make repro`, `make experiments` and `make bench`, of small numbers."""
    folder = tmp_path_factory.mktemp("a repository")
    grids, objects = AtomicImageGenerator(GridDistribution()).generate(600, 0)
    predicted = grids.copy()
    predicted[0, 0, 0] = 9
    run, black = _run(grids, predicted, 1.0), _run(grids, np.zeros_like(grids), 0.0)
    counts = np.bincount(objects["grid"], minlength=600)
    metrics = {**run["metrics"], "samplers": {}}
    # Enough of them that their colours lie near the data's by more than luck.
    fresh, _ = AtomicImageGenerator(GridDistribution()).generate(3000, 1)
    for name, samples in (("prior", fresh), ("specks", np.zeros_like(fresh))):
        metrics["samplers"][name] = sample_metrics(
            samples, grids[300:], objects, counts, bootstrap=20
        )
    failures = summary(
        grids, predicted, np.ones(600), objects, grids[:200], count=10, bootstrap=100
    )
    files: dict[str, Any] = {
        f"results/{DATASET}/metrics.json": metrics,
        f"results/{DATASET}/verdict.json": run["verdict"],
        f"results/{DATASET}/diagnosis.json": run["diagnosis"],
        f"results/{DATASET}/training.json": run["training"],
        f"results/{DATASET}/failures.json": failures,
        f"results/{DATASET}/data.json": {
            "count": 600,
            **entropy_facts(objects[objects["grid"] < 20], GridDistribution(), 20, 0),
            "splits": {name: describe(grids, objects) for name in ("train", "val", "test")},
        },
        "results/experiments.json": {
            "beta0": _entry(_run(grids, grids, 0.0), {"beta_max": 0.0}),
            "latents-64": _entry(
                _run(grids, predicted, 0.0), {"beta_max": 0.0, "latent_dim": 64}
            ),
            "conv-collapsed": _entry(black, {"network": "conv", "beta_max": 0.0}),
            "conv-fixed": _entry(_run(grids, grids, 0.0), {"network": "conv", "patch": 4}),
            "of-images": {"dataset": "fashion_mnist", "params": {}, "diagnosis": []},
        },
        "results/benchmarks.json": {
            "grids.beta0.exact": {
                "value": 0.9975, "interval": [0.996, 0.998], "n": 10000, "seeds": [0],
                "command": "b",
            },
            "grids.valid_rate": {
                "value": 0.41, "interval": [0.4, 0.42], "n": 2000, "seeds": [0],
                "command": "b",
            },
            "images.ssim": {
                "value": 0.123, "interval": None, "n": 1, "seeds": [0], "command": "b",
            },
        },
    }  # fmt: skip
    for name, value in files.items():
        write_json(folder / name, value)
    for name in ("evaluation", "experiments/conv-collapsed", "experiments/conv-fixed"):
        path = folder / "plots" / DATASET / name / "reconstructions.png"
        figures.reconstructions(path, grids[:4], predicted[:4], "Test")
    shutil.copy(root / "params.yaml", folder)
    (folder / "benchmarks").mkdir()
    shutil.copy(root / "benchmarks/targets.yaml", folder / "benchmarks")
    (folder / "README.md").write_text(README)
    return folder


def _entry(run: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    return {"why": "Because.", "params": params, "command": "dvc exp run", **run}


@pytest.fixture
def repository(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "a repository"))


def _texts(repository: Path) -> dict[str, str]:
    context = report.gather(repository, DATASET)
    return {path.name: text for path, text in report.texts(repository, DATASET, context).items()}


def _stage(root: Path, repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "stages" / "report.py"), "--dataset", DATASET, *arguments]
    environment = {
        "PYTHONPATH": str(root / "src"),
        "PATH": "/usr/bin:/bin",
        "HOME": str(repository),
    }
    return subprocess.run(
        command, cwd=repository, env=environment, capture_output=True, text=True, check=False
    )


def _change(path: Path, **changes: Any) -> None:
    write_json(path, {**json.loads(path.read_text()), **changes})


def test_what_is_outside_the_markers_stays(repository: Path) -> None:
    text = _texts(repository)["README.md"]
    assert text.startswith("# genlab\n\nabove\n\n" + BEGIN)
    assert text.endswith(END + "\n\nbelow\n")
    assert "\nold\n" not in text


def test_numbers_follow_the_files(repository: Path) -> None:
    before = _texts(repository)
    _change(repository / "results" / DATASET / "metrics.json", exact_grid_accuracy=0.12345)
    after = _texts(repository)
    for name in ("README.md", f"{DATASET}.md"):
        assert "12.3 %" not in before[name]
        assert "12.3 %" in after[name]


def test_the_report_holds_metrics_verdict_diagnosis_samples_and_configuration(
    repository: Path, root: Path
) -> None:
    text = _texts(repository)[f"{DATASET}.md"]
    latent_dim = load_params(root / "params.yaml").latent_dim
    for words in (
        "## Final metrics", "## Verdict: passed", "posterior collapse", "## Samples from the prior",
        "## Why grids fail", "## Surprises", f"| `latent_dim` | {latent_dim} |",
        "| `grids.count` | 100,000 |",
        "(old rule, recorded only)", "**missed**", "not measured",
    ):  # fmt: skip
        assert words in text, words


def test_experiments_and_benchmarks_of_images_stay_out(repository: Path) -> None:
    for text in _texts(repository).values():
        assert "of-images" not in text
        assert "images.ssim" not in text


def test_surprises_are_computed(repository: Path) -> None:
    text = _texts(repository)[f"{DATASET}.md"].split("## Surprises")[1].split("##")[0]
    assert "`black_accuracy_below_95_percent` would reject this model" in text
    assert "Samples of `specks`, 0.0% legal, do not count" in text
    assert "Samples of `prior`" not in text
    assert "`conv-collapsed` shows all black collapse" in text
    assert "`beta0`" not in text


def test_a_collapse_stands_beside_its_cure_with_both_pictures(repository: Path) -> None:
    text = _texts(repository)["README.md"]
    assert "| conv-collapsed | conv-fixed |" in text
    for name in ("conv-collapsed", "conv-fixed"):
        assert f"(plots/{DATASET}/experiments/{name}/reconstructions.png)" in text


def test_links_lead_to_files_that_exist(repository: Path) -> None:
    context = report.gather(repository, DATASET)
    assert {path.stem for path in report.draw(repository, DATASET, context)} == {
        "capacity_curve", "loss_over_baselines",
    }  # fmt: skip
    for path, text in report.texts(repository, DATASET, context).items():
        links = [part.split(")")[0] for part in text.split("](")[1:]]
        pictures = [link for link in links if link.endswith(".png")]
        assert all((path.parent / link).resolve().is_file() for link in pictures), path
        assert len(pictures) >= 4 or "data_sheet" in path.name


def test_tables_have_as_many_cells_in_every_row(repository: Path) -> None:
    for name, text in _texts(repository).items():
        for block in text.split("\n\n"):
            rows = [line for line in block.splitlines() if line.startswith("|")]
            assert len({row.count("|") for row in rows}) <= 1, (name, rows[:3])
            assert len(rows) != 1, (name, rows)


def test_no_line_ends_in_a_space(repository: Path) -> None:
    for name, text in _texts(repository).items():
        assert [line for line in text.splitlines() if line != line.rstrip()] == [], name


def test_the_data_sheet_shows_facts_and_the_distributions_of_every_split(repository: Path) -> None:
    data = json.loads((repository / "results" / DATASET / "data.json").read_text())
    text = _texts(repository)[f"{DATASET}_data_sheet.md"]
    assert f"| program entropy nats | {data['data_entropy_bound_nats']:.4g} |" in text
    assert "| | train | val | test |" in text
    assert f"| plus | {formats.share(data['splits']['train']['kinds']['plus'])} |" in text
    assert "## Object count, shares" in text


def test_notes_are_rendered_with_numbers_from_the_files(repository: Path) -> None:
    notes = repository / "reports" / f"notes_{DATASET}.md"
    notes.parent.mkdir(exist_ok=True)
    notes.write_text("Only {{ metrics.n }} grids.")
    assert "Only 600 grids." in _texts(repository)[f"{DATASET}.md"]
    notes.write_text("{{ metrics.no_such }}")
    with pytest.raises(GenlabError, match=r"notes_arc_grids\.md.*no_such"):
        _texts(repository)


def test_check_passes_after_a_report_and_fails_after_a_change(repository: Path, root: Path) -> None:
    first = _stage(root, repository, "--check")
    assert first.returncode == 2
    assert "make report" in first.stderr
    assert _stage(root, repository).returncode == 0
    assert _stage(root, repository, "--check").returncode == 0
    readme = repository / "README.md"
    readme.write_text(readme.read_text().replace("nats a grid", "nats"))
    again = _stage(root, repository, "--check")
    assert again.returncode == 2
    assert again.stderr.startswith("genlab: error: README.md out of date")
    assert again.stderr.count("\n") == 1


@pytest.mark.parametrize("name", sorted(report.SOURCES))
def test_a_missing_input_is_one_line_with_the_command_that_makes_it(
    name: str, repository: Path
) -> None:
    pattern, command = report.SOURCES[name]
    path = repository / pattern.format(dataset=DATASET)
    path.unlink()
    with pytest.raises(GenlabError, match=f"{path.name}.*{command}") as error:
        report.gather(repository, DATASET)
    assert "\n" not in str(error.value)


def test_files_of_an_older_run_are_one_line(repository: Path) -> None:
    path = repository / "results" / DATASET / "metrics.json"
    metrics = json.loads(path.read_text())
    del metrics["foreground_recall"]
    write_json(path, metrics)
    with pytest.raises(GenlabError, match=r"foreground_recall.*make repro"):
        _texts(repository)


def test_a_readme_without_markers_is_one_line_and_stays(repository: Path) -> None:
    (repository / "README.md").write_text("# mine\n")
    with pytest.raises(GenlabError, match="put both back"):
        _texts(repository)
    assert (repository / "README.md").read_text() == "# mine\n"


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (1.0, "100 %"), (0.0, "0 %"), (0.5, "50.0 %"), (0.9999, "99.99 %"), (0.99996, "99.996 %"),
        (0.00004, "0.004 %"), (0.995, "99.5 %"), (1 - 1e-9, "99.9999999 %"), (None, "–"),
    ],
)  # fmt: skip
def test_shares_do_not_round_a_miss_away(share: float | None, text: str) -> None:
    assert formats.share(share) == text


def _datasets() -> list[str]:
    return list(load_params(Path(__file__).parents[2] / "params.yaml").datasets)


@pytest.mark.parametrize("dataset", _datasets())
def test_the_committed_reports_say_what_the_committed_files_say(dataset: str, root: Path) -> None:
    written = report.texts(root, dataset, report.gather(root, dataset))
    assert report.stale(written) == []


def test_the_committed_readme_has_a_place_for_every_dataset(root: Path) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    for dataset in {*_datasets(), "fashion_mnist"}:
        for marker in (report.BEGIN, report.END):
            assert text.count(marker.format(dataset=dataset)) == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0025883, "0.002588"),
        (1234.56, "1,235"),
        (9999.7, "10,000"),
        (171541.33, "171,541"),
        (200_000, "200,000"),
        (1e12 + 0.5, "1e+12"),
        (float("inf"), "inf"),
        (None, "–"),
    ],
)
def test_a_number_is_written_as_people_write_it(value: float | None, text: str) -> None:
    assert formats.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0025883, "0.0026"), (1.0853, "1.1"), (6909.7, "6,910"), (0.0, "0")]
)
def test_a_deviation_has_two_digits(value: float, text: str) -> None:
    assert formats.spread(value) == text
