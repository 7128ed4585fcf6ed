"""Curves of training: several runs in one chart, live while one is under way."""

import json
import math
import time
from pathlib import Path

import streamlit as st

from genlab.core import git
from genlab.core.errors import GenlabError
from genlab.evaluation.reports.formats import to_words
from genlab.web.components import charts, frame
from genlab.web.files import UNFIT, fresh, reading, require

Points = list[tuple[float, float]]
Curves = dict[str, Points]  # series of a run by name, (epoch, value) each

ROOT = Path()
PATIENCE = 180.0  # seconds without an epoch, after which a run counts as stopped
MAX_EXPERIMENTS = 40  # the newest are shown
# Series that have a chart, and those that a log scale suits.
PANELS = (
    "loss", "reconstruction_loss", "kl_divergence", "beta_kl", "elbo", "exact_grid_accuracy",
    "pixel_accuracy", "psnr", "mse", "gradient_norm", "learning_rate",
)  # fmt: skip
LOG = ("loss", "reconstruction_loss", "kl_divergence", "mse", "gradient_norm")


def read_runs(root: Path, dataset: str) -> dict[str, Curves]:
    """The curves of all finished runs of `dataset` by name, those of the current one first.

    Those of experiments come from git's refs, where DVC keeps them, the newest first. Raises a
    GenlabError where there is none, or where a file is broken.
    """
    folder = root / "plots" / dataset / "training" / "plots" / "metrics"
    current = {file.stem: read_tsv(file) for file in sorted(folder.glob("*.tsv"))}
    found = {"current run": current} if current else {}
    newest = ("--sort=-committerdate", f"--count={MAX_EXPERIMENTS}")
    names = ("--format=%(objectname) %(refname:lstrip=4)", "refs/exps/*/*/*")
    listed = git.run_git(root, "for-each-ref", *newest, *names) or b""
    for line in listed.decode(errors="replace").splitlines():
        commit, _, name = line.partition(" ")
        if curves := _read_experiment(root, commit, dataset):
            found.setdefault(name, curves)
    if not found:
        require(folder)
    return found


@fresh
def read_tsv(file: Path) -> Points:
    """A series of dvclive: a line of names, then step and value; NaN where there is no value."""
    try:
        text = file.read_text(encoding="utf-8")
        if not text.endswith("\n"):  # a truncated number would still be read
            raise ValueError("its last line has no end")
        cells = [row.split("\t") for row in text.splitlines()[1:] if row.strip()]
        return [(float(step), float(value)) for step, value, *_ in cells]
    except ValueError as error:
        raise GenlabError(
            f"{file} is truncated ({error}); make it with: dvc repro train"
        ) from error


@st.cache_data(max_entries=4 * MAX_EXPERIMENTS, show_spinner=False)
def _read_experiment(root: Path, commit: str, dataset: str) -> Curves:
    """The curves of a commit, ELBO included; none where it was run for another dataset."""
    path = f"results/{dataset}/training.json"
    content = git.run_git(root, "show", f"{commit}:{path}")
    if content is None or content == git.run_git(root, "show", f"{commit}^:{path}"):
        return {}
    try:
        curves: Curves = {
            name: [(i, math.nan if v is None else float(v)) for i, v in enumerate(values, 1)]
            for name, values in json.loads(content)["series"].items()
        }
        terms = zip(curves["reconstruction_loss"], curves["kl_divergence"], strict=False)
    except UNFIT:
        return {}
    return curves | {"elbo": [(epoch, -(nats + kl)) for (epoch, nats), (_, kl) in terms]}


def find_unfinished(root: Path, dataset: str) -> Path | None:
    """The history of the unfinished run that logged last; None where there is none."""
    found = root.glob(f"data/.making/{dataset}-*/history.json")
    return max(found, key=lambda file: file.stat().st_mtime, default=None)


def read_history(file: Path) -> Curves:
    """The curves of an unfinished run. Raises a GenlabError where the file is broken."""
    curves: Curves = {}
    with reading(file, "a training run from the start") as saved:
        for row in saved["rows"]:
            for name, value in row["values"].items():
                curves.setdefault(name, []).append((float(row["epoch"]), float(value)))
    return curves


def find_pictures(folder: Path) -> dict[str, Path]:
    """Reconstructions by epoch, `epoch 10` and so on, `best` last."""
    found = {path.stem.rpartition("_")[2]: path for path in folder.glob("reconstructions_*.png")}
    return {f"epoch {int(k)}" if k.isdigit() else k: found[k] for k in sorted(found)}


def show_picture(path: Path, epoch: str) -> None:
    """Validation items over their reconstructions."""
    words = f"Validation items over their reconstructions, {epoch}"
    st.image(str(path), caption=words, alt=words)


def draw(runs: dict[str, Curves], log: bool) -> None:
    """A chart for each series that a run has, three in a row."""
    with st.grid(3, min_column_width=300):
        for key in PANELS:
            if found := {name: run[key] for name, run in runs.items() if run.get(key)}:
                charts.draw(found, to_words(key), log=log and key in LOG)


@st.fragment(run_every=2)
def live(dataset: str) -> None:
    """The newest unfinished run: how far it is and, while it goes on, its curves."""
    with frame.sentences():
        history = find_unfinished(ROOT, dataset)
        if history is None:
            st.caption("No training is under way. `make repro` or `dvc exp run` starts one.")
            return
        run = read_history(history)
        most = frame.params().for_dataset(dataset).epochs
        epoch = max((int(points[-1][0]) for points in run.values()), default=0)
        if time.time() - history.stat().st_mtime > PATIENCE:
            st.caption(f"stopped, epoch {epoch} of at most {most}; the same command resumes it")
            return
        st.progress(min(1.0, epoch / most), f"training now, epoch {epoch} of at most {most}")
        draw({history.parent.name: run}, log=True)
        for name, path in list(find_pictures(history.parent / "images").items())[-1:]:
            show_picture(path, name)


def main() -> None:
    dataset = frame.choose_dataset()
    live(dataset)
    with frame.sentences():
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
        epoch = st.select_slider(
            "Epoch", pictures, value=list(pictures)[-1], key="epoch", bind="query-params"
        )
        show_picture(pictures[epoch], epoch)
