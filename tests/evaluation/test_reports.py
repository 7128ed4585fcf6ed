"""Reports: every number from the result files, one line where a file is missing or outdated."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import Result
from clones import run_in
from typer.testing import CliRunner

from genlab.cli import app
from genlab.core.errors import GenlabError
from genlab.core.io import write_bytes, write_json
from genlab.core.params import load_params
from genlab.evaluation import reports
from genlab.evaluation.reports import formats, render, sweeps, tables
from genlab.evaluation.reports.context import RESULTS
from genlab.evaluation.reports.render import BEGIN, END
from genlab.evaluation.reports.targets import read_targets
from genlab.experiments.definitions import fingerprint_code, load_experiments
from genlab.experiments.results import (
    add_image_columns,
    flatten_results,
    read_results,
    write_rows,
)
from genlab.experiments.rules import read_rules

GRIDS = "arc_grids"
IMAGES = "fashion_mnist"
PNG = b"\x89PNG\r\n\x1a\n"
README = f"# genlab\n\nabove\n\n{BEGIN}\nold\n{END}\n\nbelow\n"
TEST = {"sentence": "edges are hard", "n_with": 20, "verdict": "supported"}
TEST |= {"ratio": 1.5, "low": 1.1, "high": 1.9}


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    """A repository in which every sweep was run, with the results of the default run for all."""
    folder = tmp_path_factory.mktemp("a repository")
    shutil.copytree(root / "results", folder / "results")
    for dataset in ("emoji", "shapes"):
        shutil.copytree(root / "results" / IMAGES, folder / "results" / dataset)
    rows = {}
    for experiment in load_experiments(root / "experiments.yaml", root / "params.yaml"):
        results = folder / "results" / experiment.dataset
        parts = ("metrics", "training", "verdict", "diagnosis")
        files = (json.loads((results / f"{name}.json").read_text()) for name in parts)
        rows[experiment.name] = {**experiment.columns, **flatten_results(*files)}
    write_rows(folder / "results" / "experiments.csv", rows)
    for template in Path(reports.__file__).parent.glob("templates/*.md.j2"):
        for path in re.findall(r'figure\("([^"]+\.png)"\)', template.read_text()):
            write_bytes(folder / path, PNG)
    shutil.copy(root / "experiments.yaml", folder)
    params = (root / "params.yaml").read_text()
    datasets = f"datasets: [{GRIDS}, {IMAGES}]"
    (folder / "params.yaml").write_text(re.sub(r"(?m)^datasets: \[.*?\]", datasets, params))
    (folder / "benchmarks").mkdir()
    shutil.copy(root / "benchmarks" / "targets.yaml", folder / "benchmarks")
    (folder / "README.md").write_text(README)
    return folder


@pytest.fixture
def repository(complete: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(complete, tmp_path / "a repository"))


@pytest.fixture
def runs(complete: Path) -> pd.DataFrame:
    return read_results(complete / "results" / "experiments.csv")


def texts(repository: Path, *datasets: str) -> dict[str, str]:
    rendered = render.render_reports(repository, list(datasets))
    return {path.name: text for path, text in rendered.items()}


def drop_runs(repository: Path, sweep: str) -> None:
    """Drop the rows whose sweep ends with a name."""
    path = repository / "results" / "experiments.csv"
    runs = pd.read_csv(path, dtype=str, keep_default_na=False)
    runs[~runs["sweep"].str.endswith(sweep)].to_csv(path, index=False)


def change(path: Path, **changes: Any) -> None:
    write_json(path, {**json.loads(path.read_text()), **changes})


def test_the_readme_has_at_most_twelve_results_with_interval_target_and_command(
    repository: Path,
) -> None:
    entry = {"value": 0.41, "interval": [0.4, 0.42], "n": 2000, "command": "dvc repro"}
    entry["trainings"] = 1
    write_json(repository / "results" / "benchmarks.json", {"grids.valid_rate": entry})
    text = texts(repository)["README.md"]
    assert text.startswith("# genlab\n\nabove\n\n" + BEGIN)
    unmeasured = tables.unmeasured_targets(read_targets(repository), {"grids.valid_rate"})
    missed = "All missed targets: `grids.valid_rate` 0.41 (target >= 0.8). Not measured: "
    missed += f"{', '.join(unmeasured)}."
    agent = json.loads((repository / render.AGENT).read_text())["statement"]
    assert text.endswith(f"\n{tables.INTERVALS}\n\n{missed}\n\n{agent}\n{END}\n\nbelow\n")
    rows = [line for line in text.splitlines() if line.startswith("|")][2:]
    assert 0 < len(rows) <= 12
    [measured] = [row for row in rows if "0.41" in row]
    cells = [cell.strip() for cell in measured.strip("|").split("|")]
    assert cells[1:] == ["0.41", "0.4 to 0.42", "1", ">= 0.8", "**missed**", "`dvc repro`"]
    assert sum("not measured" in row for row in rows) == len(rows) - 1


@pytest.mark.parametrize("text", ["# mine\n", f"{BEGIN}\n", f"{END}\n{BEGIN}\n"])
def test_a_readme_without_both_markers_is_refused(text: str, repository: Path) -> None:
    (repository / "README.md").write_text(text)
    with pytest.raises(GenlabError, match=r"README\.md"):
        render.render_reports(repository)


INPUTS = [f"{GRIDS}/{name}.json" for name in RESULTS]
INPUTS += ["experiments.csv", "benchmarks.json", "baselines.json"]


@pytest.mark.parametrize("name", INPUTS)
def test_a_missing_file_is_named_with_the_command_that_makes_it(
    name: str, repository: Path
) -> None:
    (repository / "results" / name).unlink()
    with pytest.raises(GenlabError, match=f"{name}.*(make|python)"):
        render.render_reports(repository)


@pytest.mark.parametrize("sweeps", ["committed", "complete"])
@pytest.mark.parametrize("dataset", [GRIDS, IMAGES])
def test_a_report_of_the_committed_results_has_at_most_1100_words_and_5_figures(
    dataset: str, sweeps: str, root: Path, repository: Path
) -> None:
    if sweeps == "committed":
        text = (root / "reports" / f"{dataset}.md").read_text()
    else:  # every sweep of experiments.yaml has its runs
        text = texts(repository, dataset)[f"{dataset}.md"]
        assert "Not shown" not in text
    assert len(text.split()) <= 1100
    assert 3 <= text.count("![") <= 5


@pytest.mark.parametrize(
    ("dataset", "key", "unmeasured"),
    [
        (GRIDS, "grids.valid_rate", "grids.count_tv"),
        (IMAGES, "images.ssim", "images.relative_frechet"),
    ],
)
def test_a_report_begins_with_what_failed_what_is_missed_and_what_is_not_measured(
    dataset: str, key: str, unmeasured: str, repository: Path
) -> None:
    drop_runs(repository, "seeds")
    path = repository / "results" / dataset / "verdict.json"
    change(path, passed=False, summary="missed: active_share 0.1 (wanted > 0.2)")
    entry = {"value": 0.7, "interval": None, "n": 1, "command": "dvc repro"}
    write_json(repository / "results" / "benchmarks.json", {key: entry})
    first, _, verdict = texts(repository, dataset)[f"{dataset}.md"].splitlines()[:3]
    assert first.endswith(": not passed, of one training; targets missed: 1")
    assert "Acceptance criteria missed: active share 0.1 (wanted > 0.2)." in verdict
    assert f"Missed targets: `{key}` 0.7 (target >= 0.8" in verdict
    _, _, missing = verdict.partition("Targets not measured: ")
    assert f"`{unmeasured}`" in missing
    assert f"`{key}`" not in missing


@pytest.mark.parametrize(
    ("name", "content", "fix"),
    [
        (f"results/{GRIDS}/metrics.json", '{"intervals": {}, "samplers": {}}', "make repro"),
        (f"plots/{GRIDS}/data/sheet.png", None, "make repro"),
        ("benchmarks/targets.yaml", "grids.valid_rate: {}", "git checkout"),
    ],
)
def test_an_outdated_file_is_one_line(
    name: str, content: str | None, fix: str, repository: Path
) -> None:
    path = repository / name
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(GenlabError, match=fix):
        render.render_reports(repository)


def test_a_sweep_that_was_not_run_says_so_in_place_of_its_table(repository: Path) -> None:
    drop_runs(repository, "grids-beta0")
    text = texts(repository)[f"{GRIDS}_tables.md"]
    assert "no run of sweep 'grids-beta0'; run: make experiments ARGS='--only grids-beta0'" in text


def test_the_command_writes_and_its_check_compares_what_is_committed(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit() -> None:
        for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
            run_in(repository, "git", *command)

    def run_report(*options: str) -> Result:
        return CliRunner().invoke(app, ["report", *options])

    monkeypatch.chdir(repository)
    assert run_report().exit_code == 0
    assert render.find_outdated(render.render_reports(repository)) == []
    with pytest.raises(GenlabError):  # nothing is committed yet
        render.check_committed(repository)
    commit()
    change(repository / "results" / GRIDS / "metrics.json", exact_grid_accuracy=0.5)
    assert run_report("--check").exit_code == 0  # only the working tree differs
    commit()
    outdated = run_report("--check").exception
    assert isinstance(outdated, GenlabError)
    assert f"reports/{GRIDS}.md" in str(outdated)


def test_a_dataset_without_its_own_template_is_reported_with_that_of_images(
    repository: Path,
) -> None:
    for stem in ("reconstructions", "samplers"):
        write_bytes(repository / "plots" / "emoji" / "evaluation" / f"{stem}.png", PNG)
    folder = repository / "results" / "emoji"
    interval = {"low": 2.8125, "high": 3.125, "n": 9}
    change(folder / "metrics.json", bits_per_dim=3.125, intervals={"bits_per_dim": interval})
    mismatch = {"name": "prior_posterior_mismatch", "found": True, "fix": {}, "evidence": {}}
    change(folder / "diagnosis.json", diagnoses=[mismatch])
    text = texts(repository, "emoji")["emoji.md"]
    assert "3.125 (2.812 to 3.125)" in text
    assert "prior posterior mismatch" in text


def test_a_run_of_grids_at_beta_0_has_a_report_of_its_own(repository: Path) -> None:
    params = repository / "params.yaml"
    params.write_text(re.sub(r"(?m)^beta_max: \S+", "beta_max: 0.0", params.read_text()))
    for stem in ("reconstructions", "colours", "arc_agi", "training_curves"):
        write_bytes(repository / "plots" / GRIDS / "evaluation" / f"{stem}.png", PNG)
    path = repository / "results" / GRIDS / "metrics.json"
    metrics = json.loads(path.read_text())
    metrics["reconstruction_nats"] = 1.25
    metrics["per_class_accuracy"]["3"] = 0.875
    metrics["intervals"]["per_class_accuracy.3"] = {"low": 0.8125, "high": 0.9, "n": 9}
    metrics["colour_histogram"]["predicted"]["3"] = 0.25
    write_json(path, metrics)
    text = re.sub(" +", " ", texts(repository, GRIDS)[f"{GRIDS}.md"])
    assert ", β = 0: passed" in text.splitlines()[0]
    assert "| 3, green | 87.5 % | 0.8125 to 0.9 |" in text
    assert "| 25.0 % |" in text
    assert "| `beta_max` | 0 |" in text
    assert "| `latent_dim` | 256 |" in text
    assert "| this run | 1 | 1.25 | 100 % |" in text
    assert re.search(r"\| `grids-beta0` \| \d \| ", text)
    assert text.count("![") == 4


def test_compared_models_are_shown_with_their_settings(
    repository: Path,
) -> None:
    def row(name: str, frechet: float, seeds: int, settings: str = "") -> dict[str, Any]:
        mean = {"frechet_distance": frechet, "relative_frechet": frechet, "bits_per_dim": 3.0}
        mean |= {
            "images_seen": 9,
            "ssim": None if name == "no-latents" else 0.5,
            "cpu_seconds": 7.0,
        }
        sd = {key: 0.25 if seeds > 1 and value else None for key, value in mean.items()}
        samplers = ["gmm at temperature 0.7"] * seeds
        numbers = {"seeds": [*range(seeds)], "samplers": samplers, "mean": mean, "sd": sd}
        return {"contender": name, "settings": settings, **numbers}

    rows = [
        row("ours", 2.125, 2),
        row("no-latents", 8.5, 2),
        row("pythae", 10.0, 1, "bce, lr 0.001"),
    ]
    comparison = {"rows": rows, "search": [], "seconds": 60.0, "search_seconds": 5, "trials": 4}
    comparison["params"] = load_params(repository / "params.yaml").training_digest(IMAGES)
    write_json(repository / "results" / "baselines.json", comparison)
    by_name = texts(repository, IMAGES)
    report, table = (re.sub(" +", " ", by_name[f"{IMAGES}{end}.md"]) for end in ("", "_tables"))
    assert "this model | default | 2 | gmm at temperature 0.7 |" in table
    assert "pythae, BetaVAE | bce, lr 0.001 | 1 | gmm at temperature 0.7 |" in table
    assert "3 ± 0.25 | – | 8.5 ± 0.25 |" in table  # no reconstructions without latents
    assert "this model | 3 ± 0.25 | 2.125 ± 0.25 |" in report
    assert "Means of 2 seeds, about 60 CPU seconds each;" in report
    assert "more than pythae's VAE under its own likelihood" in re.sub(r"\s+", " ", report)


PRICES = {"metrics.ssim": "SSIM", "validation_bits_per_dim": "bits/dim"}


def test_a_default_that_the_rule_does_not_pick_is_reported_with_its_price(
    runs: pd.DataFrame, root: Path
) -> None:
    [rule] = read_rules(root / "experiments.yaml").values()
    runs = add_image_columns(runs[runs["dataset"] == IMAGES])
    runs["validation_bits_per_dim"] = 3.0
    runs[rule.minimize] = 20.0
    runs.loc[runs.entry == "images-free-bits-0", rule.minimize] = [10.0, 11.0, 12.0]
    runs.loc[runs.entry == "images-base", "metrics.ssim"] = [0.85, 0.86, 0.87]
    runs.loc[runs.entry == "images-free-bits-0", "metrics.ssim"] = [0.75, 0.76, 0.78]
    runs[sweeps.PRIOR_DISTANCE] = 20.0
    runs.loc[runs.entry == "images-beta-2", sweeps.PRIOR_DISTANCE] = 10.0
    text = sweeps.chosen_default(runs, rule, {}, PRICES)
    assert text.startswith("It picks `images-free-bits-0`. By draws of `prior` alone: `images-beta")
    assert "The default, `images-base`, is kept for sharper reconstructions than the pick's" in text
    assert "SSIM 0.09667 (0.08232 to 0.111); bits/dim 0 (0 to 0)." in text
    runs.loc[runs.entry == "images-base", rule.minimize] = [1.0, 2.0, 3.0]
    runs[sweeps.PRIOR_DISTANCE] = runs[rule.minimize]
    assert sweeps.chosen_default(runs, rule, {}, PRICES) == "It picks `images-base`, the default."
    lacking = {"rate": ["images-beta-2-seed1"]}
    assert "1 runs of sweep `rate` are missing" in sweeps.chosen_default(runs, rule, lacking, {})


def test_headlines_are_means_over_trainings_or_say_of_one_training(repository: Path) -> None:
    path = repository / "results" / "experiments.csv"
    runs = pd.read_csv(path, dtype=str, keep_default_na=False)
    seeds = runs["entry"] == "grids-default"
    column = "metrics.neg_elbo_over_entropy_bound"
    runs.loc[seeds, column] = ["1.01", "1.02", "1.03", "1.04", "1.05"]
    runs.to_csv(path, index=False)
    report = texts(repository, GRIDS)[f"{GRIDS}.md"]
    assert "−ELBO is 1.03 (1.01 to 1.05) over 5 trainings times" in report
    assert "over 5 trainings" in report.splitlines()[0]
    runs.loc[seeds.idxmax(), "machine"] = "another"
    runs.to_csv(path, index=False)
    report = texts(repository, GRIDS)[f"{GRIDS}.md"]
    assert re.search(r"−ELBO is [\d.]+ \(of one training\) times", report)
    assert "of one training" in report.splitlines()[0]
    assert "of 2 kinds of machine" in texts(repository, GRIDS)[f"{GRIDS}_tables.md"]


def test_a_report_names_the_sweeps_that_lack_runs(repository: Path) -> None:
    drop_runs(repository, "capacity")
    report = texts(repository, GRIDS)[f"{GRIDS}.md"]
    assert "Runs are missing in sweeps capacity." in report


def test_a_star_marks_what_differs_by_more_than_the_noise_of_seeds(runs: pd.DataFrame) -> None:
    kl = {"metrics.kl_nats": "KL"}
    base = "images-base"
    # Seeds are pairs: an equal difference in each is significant, however far seeds lie apart.
    by_entry = {
        base: [1.0, 20, 30],
        "images-no-latents": [2.0, 19, 33],
        "images-no-head": [2.0, 21.2, 30.9],
    }
    for entry, values in by_entry.items():
        runs.loc[runs.entry == entry, "metrics.kl_nats"] = values
    names = dict.fromkeys(by_entry, "x")
    text = sweeps.sweep_table(
        runs,
        "ablation",
        kl,
        names,
        intervals=(),
        base=base,
        differences={"metrics.kl_nats": "over"},
    )
    cells = [[cell.strip() for cell in line.split("|")[2:4]] for line in text.splitlines()[2:]]
    assert cells == [
        ["17", "–"],
        ["18", "1 (-3.968 to 5.968)"],
        ["18.03*", "1.033 (0.6539 to 1.413)"],
    ]


def test_a_count_has_no_interval_of_real_numbers(runs: pd.DataFrame) -> None:
    runs.loc[runs.entry == "images-base", "training.epochs"] = [3, 5, 10]
    table = sweeps.sweep_table(runs, "ablation", {"training.epochs": "epochs"})
    assert re.search(r"`images-base` +\| 6 +\|", table)
    assert " to " not in table


def test_diagnoses_are_counted_over_seeds(runs: pd.DataFrame) -> None:
    names = runs.index[runs.entry == "images-no-head"]
    for name, issues in zip(names, (["nan"], [], ["nan", "other"]), strict=True):
        runs.at[name, "diagnosis.found"] = issues
    assert sweeps.count_diagnoses(runs, "ablation", "images-no-head", "nan") == "2 of 3"
    missing = "*Not shown: no run of unknown*"
    assert sweeps.count_diagnoses(runs, "ablation", "unknown", "nan") == missing
    assert sweeps.entry_mean(runs, "ablation", "unknown", "metrics.bits_per_dim") == missing


def test_a_mean_whose_interval_contains_the_limit_is_undecided(runs: pd.DataFrame) -> None:
    runs.loc[runs.entry == "images-no-head", "metrics.kl_nats"] = [8.0, 9.0, 10.0]
    arguments = (runs, "ablation", "images-no-head", "metrics.kl_nats")
    assert sweeps.entry_mean(*arguments, limit=9.5) == "9 (6.516 to 11.48; undecided)"
    assert sweeps.entry_mean(*arguments, limit=5.0) == "9 (6.516 to 11.48)"


def test_the_chosen_sampler_of_the_committed_training_stands_beside_those_of_all() -> None:
    trainings = pd.DataFrame({"metrics.best_sampler": ["rejection", "prior", "rejection"]})
    metrics = {"best_sampler": "prior"}
    text = tables.chosen_samplers(metrics, trainings)
    assert text == "`prior` (`rejection` in 2, `prior` in 1 of 3 trainings)"
    assert tables.chosen_samplers(metrics, trainings.iloc[:0]) == "`prior`"


def test_a_report_without_a_supported_hypothesis_says_so(repository: Path) -> None:
    path = repository / "results" / IMAGES / "failures.json"
    change(path, tests=[{**TEST, "verdict": "undecided"}])
    assert "none is supported." in texts(repository, IMAGES)[f"{IMAGES}.md"]


def test_a_report_says_whether_its_experiments_are_of_the_current_code(repository: Path) -> None:
    path = repository / "results" / "experiments.csv"
    runs = pd.read_csv(path, dtype=str, keep_default_na=False)
    for column, current in fingerprint_code().items():
        runs[f"fingerprint.{column}"] = current
    runs.to_csv(path, index=False)
    assert "of one version of the code, the current one." in texts(repository, GRIDS)[f"{GRIDS}.md"]
    runs.loc[runs["dataset"].eq(GRIDS).idxmax(), "fingerprint.code"] = "older"
    runs.to_csv(path, index=False)
    report = texts(repository, GRIDS)[f"{GRIDS}.md"]
    assert "of 2 versions of the code (columns `fingerprint`)" in report
    runs[runs["dataset"] != GRIDS].to_csv(path, index=False)
    assert "No experiment on it has been run." in texts(repository, GRIDS)[f"{GRIDS}.md"]
    assert "the current one." in texts(repository, IMAGES)[f"{IMAGES}.md"]


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (1.0, "100 %"), (0.0, "0 %"), (0.5, "50.0 %"), (0.9999, "99.99 %"), (0.99996, "99.996 %"),
        (0.00004, "0.004 %"), (0.995, "99.5 %"), (1 - 1e-9, "99.9999999 %"), (None, "–"),
        (float("nan"), "–"),
    ],
)  # fmt: skip
def test_shares_do_not_round_a_miss_away(share: float | None, text: str) -> None:
    assert formats.format_share(share) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0025883, "0.002588"), (1234.56, "1,235"), (9999.7, "10,000"), (171541.33, "171,541"),
        (200_000, "200,000"), (1e12 + 0.5, "1e+12"), (float("inf"), "inf"), (None, "–"),
    ],
)  # fmt: skip
def test_a_number_has_four_significant_digits(value: float | None, text: str) -> None:
    assert formats.format_number(value) == text


def test_a_supported_hypothesis_of_infinite_ratio_comes_first() -> None:
    endless = {**TEST, "sentence": "green is hard", "ratio": None, "low": None, "high": None}
    lines = tables.hypotheses_table([TEST, endless]).splitlines()
    assert "green is hard" in lines[2]
    assert "no error without" in lines[2]
    assert "edges are hard" in lines[3]
    assert "No hypothesis is supported" in tables.hypotheses_table([{**TEST, "verdict": "refuted"}])
