"""Reports: every number from the result files, one line where a file is missing or outdated."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from stage_runs import run_stage

from genlab.core.errors import GenlabError
from genlab.core.experiment_results import flatten_results, write_rows
from genlab.core.experiments import load_experiments
from genlab.core.io import write_bytes, write_json
from genlab.evaluation import reports
from genlab.evaluation.reports import formats, render, tables
from genlab.evaluation.reports.context import RESULTS, load_baselines
from genlab.evaluation.reports.render import BEGIN, END

GRIDS, IMAGES = "arc_grids", "fashion_mnist"
README = f"# genlab\n\nabove\n\n{BEGIN}\nold\n{END}\n\nbelow\n"


def read(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    """The committed results of both datasets, with a run of every experiment and every figure."""
    folder = tmp_path_factory.mktemp("a repository")
    shutil.copytree(root / "results", folder / "results")
    shutil.copy(root / "params.yaml", folder)
    (folder / "benchmarks").mkdir()
    shutil.copy(root / "benchmarks" / "targets.yaml", folder / "benchmarks")
    (folder / "README.md").write_text(README)
    flat = {}
    for dataset in (GRIDS, IMAGES):
        own = folder / "results" / dataset
        files = (read(own / f"{k}.json") for k in ("metrics", "training", "verdict", "diagnosis"))
        flat[dataset] = flatten_results(*files)
    described = load_experiments(root / "experiments.yaml", root / "params.yaml")
    rows = {one.name: {**one.columns, **flat.get(one.dataset, flat[IMAGES])} for one in described}
    write_rows(folder / "results" / "experiments.csv", rows)
    for template in Path(reports.__file__).parent.glob("templates/*.md.j2"):
        for path in re.findall(r'figure\("([^"]+\.png)"\)', template.read_text()):
            write_bytes(folder / path, b"\x89PNG\r\n\x1a\n")
    return folder


@pytest.fixture
def repository(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "a repository"))


def texts(repository: Path, *datasets: str) -> dict[str, str]:
    found = render.render_reports(repository, list(datasets or (GRIDS, IMAGES)))
    return {path.name: text for path, text in found.items()}


def change(path: Path, **changes: Any) -> None:
    write_json(path, {**read(path), **changes})


def measure(repository: Path, key: str, value: float) -> None:
    """The one benchmark that has been run."""
    entry = {"value": value, "interval": [0.4, 0.42], "n": 2000, "command": "dvc repro"}
    write_json(repository / "results" / "benchmarks.json", {key: entry})


@pytest.mark.parametrize(
    ("dataset", "key", "number"),
    [(GRIDS, "exact_grid_accuracy", "12.3 %"), (IMAGES, "ssim", "0.1235")],
)
def test_numbers_follow_the_files(dataset: str, key: str, number: str, repository: Path) -> None:
    before = texts(repository)[f"{dataset}.md"]
    change(repository / "results" / dataset / "metrics.json", **{key: 0.12345})
    assert number not in before
    assert number in texts(repository)[f"{dataset}.md"]


def test_the_readme_has_at_most_ten_results_with_interval_target_and_command(
    repository: Path,
) -> None:
    measure(repository, "grids.valid_rate", 0.41)
    text = texts(repository)["README.md"]
    assert text.startswith("# genlab\n\nabove\n\n" + BEGIN)
    assert text.endswith(END + "\n\nbelow\n")
    rows = [line for line in text.splitlines() if line.startswith("|")][2:]
    assert 0 < len(rows) <= 10
    [measured] = [row for row in rows if "0.41" in row]
    cells = [cell.strip() for cell in measured.strip("|").split("|")]
    assert cells[1:] == ["0.41", "0.4 to 0.42", ">= 0.8", "**missed**", "`dvc repro`"]
    assert sum("not measured" in row for row in rows) == len(rows) - 1


@pytest.mark.parametrize("text", ["# mine\n", f"{BEGIN}\n", f"{END}\n{BEGIN}\n"])
def test_a_readme_without_both_markers_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(text)
    with pytest.raises(GenlabError, match=BEGIN):
        render.splice(tmp_path / "README.md", "results")


INPUTS = [f"{GRIDS}/{name}.json" for name in RESULTS]
INPUTS += ["experiments.csv", "benchmarks.json", "baselines.json"]


@pytest.mark.parametrize("name", INPUTS)
def test_a_missing_file_is_named_with_the_command_that_makes_it(
    name: str, repository: Path
) -> None:
    (repository / "results" / name).unlink()
    with pytest.raises(GenlabError, match=f"{name}.*(make|python)"):
        texts(repository)


@pytest.mark.parametrize("dataset", [GRIDS, IMAGES])
def test_a_report_has_at_most_1100_words_and_5_figures(
    dataset: str, root: Path, repository: Path
) -> None:
    complete = texts(repository, dataset)[f"{dataset}.md"]
    assert "Not shown" not in complete
    for text in (complete, (root / "reports" / f"{dataset}.md").read_text()):
        assert len(text.split()) <= 1100
        assert 3 <= text.count("![") <= 5


@pytest.mark.parametrize(("dataset", "key"), [(GRIDS, "grids.valid_rate"), (IMAGES, "images.ssim")])
def test_the_first_line_says_whether_the_run_passed_and_how_many_targets_it_misses(
    dataset: str, key: str, repository: Path
) -> None:
    path = repository / "results" / dataset / "verdict.json"
    change(path, passed=False, criteria=[{"name": "active_share", "passed": False}])
    measure(repository, key, 0.7)
    first, _, verdict = texts(repository, dataset)[f"{dataset}.md"].splitlines()[:3]
    assert first.endswith(": not passed; targets missed: 1")
    assert "Failed acceptance criteria: active share." in verdict
    assert f"Missed targets: `{key}` 0.7 (target >= 0.8" in verdict


def drop_metric(repository: Path) -> None:
    path = repository / "results" / GRIDS / "metrics.json"
    metrics = read(path)
    del metrics["neg_elbo_over_entropy_bound"]
    write_json(path, metrics)


def drop_figure(repository: Path) -> None:
    (repository / "plots" / GRIDS / "data" / "sheet.png").unlink()


def spoil_targets(repository: Path) -> None:
    (repository / "benchmarks" / "targets.yaml").write_text("grids.valid_rate: {}")


@pytest.mark.parametrize("outdate", [drop_metric, drop_figure, spoil_targets])
def test_outdated_files_are_one_line(outdate: Callable[[Path], None], repository: Path) -> None:
    outdate(repository)
    with pytest.raises(GenlabError, match=r"make|git checkout") as error:
        texts(repository)
    assert "\n" not in str(error.value)


def test_a_sweep_that_was_not_run_says_so_in_place_of_its_table(repository: Path) -> None:
    path = repository / "results" / "experiments.csv"
    rows = path.read_text().splitlines(keepends=True)
    path.write_text("".join(row for row in rows if not row.startswith("grids-beta0-")))
    text = texts(repository, GRIDS)[f"{GRIDS}_tables.md"]
    assert "no run of sweep 'grids-beta0'; run: make experiments ARGS='--only grids-beta0'" in text


def test_the_stage_writes_and_its_check_compares_what_is_committed(repository: Path) -> None:
    def commit() -> None:
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
            subprocess.run([*git, *command], cwd=repository, check=True)

    assert run_stage(repository, "report").status == 0
    assert render.outdated(render.render_reports(repository)) == []
    with pytest.raises(GenlabError):  # nothing is committed yet
        render.check_committed(repository)
    commit()
    change(repository / "results" / GRIDS / "metrics.json", exact_grid_accuracy=0.5)
    assert run_stage(repository, "report", "--check").status == 0  # only the working tree differs
    commit()
    failed = run_stage(repository, "report", "--check")
    assert failed.status == 2
    assert f"reports/{GRIDS}.md" in failed.stderr


def test_a_dataset_without_its_own_template_is_reported_with_that_of_images(
    repository: Path,
) -> None:
    for folder in ("results", "plots"):
        shutil.copytree(repository / folder / IMAGES, repository / folder / "emoji")
    change(repository / "results" / "emoji" / "metrics.json", bits_per_dim=3.14159)
    assert "3.142" in texts(repository, "emoji")["emoji.md"]


def test_a_baseline_has_its_best_learning_rate(tmp_path: Path) -> None:
    tried = [("ours", 2.0), ("antixk", 12.0), ("antixk", 11.0), ("pythae-mlp", 30.0)]
    rows = [{"contender": n, "loss": "", "mean": {"frechet_distance": d}} for n, d in tried]
    write_json(tmp_path / "results" / "baselines.json", {"rows": rows})
    found = [row["mean"]["frechet_distance"] for row in load_baselines(tmp_path)]
    assert found == [2.0, 11.0, 30.0]


@pytest.fixture
def runs() -> pd.DataFrame:
    """A sweep of two seeds of each of three entries, of one version of the code."""
    return pd.DataFrame(
        {
            "entry": ["small", "small", "near", "near", "far", "far"],
            "sweep": [["rate"]] * 6,
            "fingerprint.code": "1",
            "fingerprint.evaluation": "2",
            "training.best.beta": 1.0,
            "training.best.elbo": [-1700.0, -1690.0, -1711.0, -1711.0, -1713.0, -1713.0],
            "metrics.samplers.prior.validation_frechet": [2.0, 2.0, 1.0, 1.0, 0.5, 0.5],
        }
    )


def test_the_rate_with_the_best_samples_is_chosen_where_the_bound_is_near_the_best(
    runs: pd.DataFrame,
) -> None:
    assert tables.chosen_rate(runs) == "`near`"
    runs.loc[runs["entry"] == "near", "training.best.beta"] = 0.5
    assert tables.chosen_rate(runs) == "`small`"


def test_a_run_is_shown_by_the_value_of_each_seed(runs: pd.DataFrame) -> None:
    text = tables.seeds_table(runs, "rate", {"training.best.elbo": "ELBO"}, {"small": "default"})
    assert "-1,700; -1,690" in text.splitlines()[2]


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (1.0, "100 %"), (0.0, "0 %"), (0.5, "50.0 %"), (0.9999, "99.99 %"), (0.99996, "99.996 %"),
        (0.00004, "0.004 %"), (0.995, "99.5 %"), (1 - 1e-9, "99.9999999 %"), (None, "–"),
    ],
)  # fmt: skip
def test_shares_do_not_round_a_miss_away(share: float | None, text: str) -> None:
    assert formats.share(share) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0025883, "0.002588"), (1234.56, "1,235"), (9999.7, "10,000"), (171541.33, "171,541"),
        (200_000, "200,000"), (1e12 + 0.5, "1e+12"), (float("nan"), "–"), (None, "–"),
    ],
)  # fmt: skip
def test_a_number_has_four_significant_digits(value: float | None, text: str) -> None:
    assert formats.number(value) == text


def test_a_supported_hypothesis_of_infinite_ratio_comes_first() -> None:
    bounded = {"sentence": "edges are hard", "n_with": 20, "verdict": "supported"}
    bounded |= {"ratio": 1.5, "low": 1.1, "high": 1.9}
    endless = {**bounded, "sentence": "green is hard", "ratio": None, "low": None, "high": None}
    lines = tables.hypotheses_table([bounded, endless]).splitlines()
    assert "green is hard" in lines[2]
    assert "edges are hard" in lines[3]
