"""Training curves: several runs in one chart, live while a run is under way."""

import json
import math
import time
from pathlib import Path

import streamlit as st

from genlab.core import git
from genlab.core.errors import GenlabError
from genlab.evaluation.reports.formats import to_words
from genlab.web.components import charts, frame
from genlab.web.files import CONTENT_ERRORS, cache_by_file, open_json, require

Points = list[tuple[float, float]]
Curves = dict[str, Points]  # series of a run by name, (epoch, value) each

ROOT = Path()
PATIENCE = 180.0  # seconds without an epoch, after which a run counts as stopped
MAX_EXPERIMENTS = 40  # the newest ones
MAX_COMMITS = 10  # the newest ones that changed the results
# Series that have a chart, and those that can have a log scale.
PANELS = (
    "loss", "reconstruction_loss", "focal_loss", "auxiliary_loss", "kl_loss", "kl_divergence",
    "elbo", "exact_grid_accuracy", "pixel_accuracy", "psnr", "mse", "gradient_norm",
    "learning_rate",
)  # fmt: skip
LOG = ("loss", "reconstruction_loss", "kl_divergence", "mse", "gradient_norm")


def read_runs(root: Path, dataset: str) -> dict[str, Curves]:
    """Read the curves of all finished runs of `dataset` by name, the current run first.

    Those of experiments come from DVC's git refs, and those of earlier runs from the commits of
    their results, the newest first. Raises a GenlabError if there is no run, or if a file is
    broken.
    """
    folder = root / "plots" / dataset / "training" / "plots" / "metrics"
    current = {file.stem: read_tsv(file) for file in sorted(folder.glob("*.tsv"))}
    runs = {"current run": current} if current else {}
    newest = ("--sort=-committerdate", f"--count={MAX_EXPERIMENTS}")
    names = ("--format=%(objectname) %(refname:lstrip=4)", "refs/exps/*/*/*")
    refs = git.run_git(root, "for-each-ref", *newest, *names) or b""
    for line in refs.decode(errors="replace").splitlines():
        commit, _, name = line.partition(" ")
        if curves := _read_experiment(root, commit, dataset):
            runs.setdefault(name, curves)
    log = ("log", f"--max-count={MAX_COMMITS}", "--format=%H commit %h of %cs")
    commits = git.run_git(root, *log, "--", _name_results(dataset)) or b""
    for line in commits.decode(errors="replace").splitlines():
        commit, _, name = line.partition(" ")
        curves = _read_experiment(root, commit, dataset)
        # The newest commit is usually that of the current run.
        if curves and curves["reconstruction_loss"] != current.get("reconstruction_loss"):
            runs.setdefault(name, curves)
    if not runs:
        require(folder)
    return runs


@cache_by_file
def read_tsv(file: Path) -> Points:
    """Read a series of dvclive: a line of names, then step and value; NaN for a missing value."""
    try:
        text = file.read_text(encoding="utf-8")
        if not text.endswith("\n"):  # a truncated number would be read as another number
            raise ValueError("its last line has no end")
        cells = [row.split("\t") for row in text.splitlines()[1:] if row.strip()]
        return [(float(step), float(value)) for step, value, *_ in cells]
    except ValueError as error:
        raise GenlabError(
            f"{file} is truncated ({error}); make it with: dvc repro train"
        ) from error


@st.cache_data(max_entries=4 * (MAX_EXPERIMENTS + MAX_COMMITS), show_spinner=False)
def _read_experiment(root: Path, commit: str, dataset: str) -> Curves:
    """Read the curves of a commit, with the ELBO; none if it was run for another dataset."""
    path = _name_results(dataset)
    content = git.run_git(root, "show", f"{commit}:{path}")
    if content is None or content == git.run_git(root, "show", f"{commit}^:{path}"):
        return {}
    try:
        curves: Curves = {}
        for name, values in json.loads(content)["series"].items():
            numbers = [math.nan if value is None else float(value) for value in values]
            curves[name] = list(enumerate(numbers, 1))
        terms = zip(curves["reconstruction_loss"], curves["kl_divergence"], strict=False)
    except CONTENT_ERRORS:
        return {}
    curves["elbo"] = [(epoch, -(nats + kl)) for (epoch, nats), (_, kl) in terms]
    return curves


def _name_results(dataset: str) -> str:
    """Name the file that holds the curves of a finished run, relative to the repository."""
    return f"results/{dataset}/training.json"


def find_unfinished(root: Path, dataset: str) -> Path | None:
    """Find the history of the unfinished run that logged last; None if there is none."""
    files = root.glob(f"data/.making/{dataset}-*/history.json")
    return max(files, key=lambda file: file.stat().st_mtime, default=None)


def read_history(file: Path) -> Curves:
    """Read the curves of an unfinished run. Raises a GenlabError if the file is broken."""
    curves: Curves = {}
    with open_json(file, "a training run from the start") as history:
        for row in history["rows"]:
            for name, value in row["values"].items():
                curves.setdefault(name, []).append((float(row["epoch"]), float(value)))
    return curves


def find_pictures(folder: Path) -> dict[str, Path]:
    """Find reconstructions by epoch: `epoch 10` and so on, `best` last."""
    paths = {path.stem.rpartition("_")[2]: path for path in folder.glob("reconstructions_*.png")}
    return {
        f"epoch {int(key)}" if key.isdigit() else key: path for key, path in sorted(paths.items())
    }


def show_picture(path: Path, epoch: str) -> None:
    """Show validation items above their reconstructions."""
    words = f"Validation items over their reconstructions, {epoch}"
    st.image(str(path), caption=words, alt=words)


def draw(runs: dict[str, Curves], log: bool) -> None:
    """Draw a chart for each series that a run has, three in a row."""
    with st.grid(3, min_column_width=300):
        for key in PANELS:
            if curves := {name: run[key] for name, run in runs.items() if run.get(key)}:
                charts.draw(curves, to_words(key), log=log and key in LOG)


@st.fragment(run_every=2)
def live(dataset: str) -> None:
    """Show the progress of the newest unfinished run and, while it goes on, its curves."""
    with frame.show_errors():
        history = find_unfinished(ROOT, dataset)
        if history is None:
            st.caption("No training is under way. `make repro` or `dvc exp run` starts one.")
            return
        run = read_history(history)
        epochs = frame.params().for_dataset(dataset).epochs
        epoch = max((int(points[-1][0]) for points in run.values()), default=0)
        if time.time() - history.stat().st_mtime > PATIENCE:
            st.caption(f"stopped, epoch {epoch} of at most {epochs}; the same command resumes it")
            return
        st.progress(min(1.0, epoch / epochs), f"training now, epoch {epoch} of at most {epochs}")
        draw({history.parent.name: run}, log=True)
        for name, path in list(find_pictures(history.parent / "images").items())[-1:]:
            show_picture(path, name)


def main() -> None:
    dataset = frame.choose_dataset()
    live(dataset)
    with frame.show_errors():
        runs = read_runs(ROOT, dataset)
        left, right = st.columns([4, 1], vertical_alignment="bottom")
        chosen = left.multiselect(
            "Runs", runs, default=list(runs)[:1], max_selections=8, key="runs", bind="query-params"
        )
        log = right.toggle("Log scale", value=True, key="log", bind="query-params")
        st.caption("On the validation split; losses, KL and ELBO in nats per item.")
        draw({name: runs[name] for name in chosen}, log)
    pictures = find_pictures(ROOT / "plots" / dataset / "training" / "plots" / "images")
    if len(pictures) > 1:
        st.subheader("Reconstructions by epoch", anchor=False)
        st.caption("Pictures that equal the one before them are left out.")
        epoch = st.select_slider(
            "Epoch", pictures, value=list(pictures)[-1], key="epoch", bind="query-params"
        )
        show_picture(pictures[epoch], epoch)
