"""What the model can do: verdict and targets, reconstructions, samplers, latents, neighbours."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from genlab.evaluation.reports.formats import words
from genlab.web import items, results
from genlab.web.components import frame, look
from genlab.web.components.files import require

ROOT = Path()
SHOWN = 24


def show_targets(dataset: str) -> None:
    """Verdict with its criteria, and the project's targets."""
    frame.show_verdict(ROOT, dataset)
    criteria = results.read_criteria(ROOT, dataset)
    frame.table(criteria, f"Criteria, from results/{dataset}/verdict.json")
    with frame.sentences():
        targets = results.compare_targets(ROOT, dataset)
        frame.table(targets, "Targets, from results/benchmarks.json")


def show_figures(dataset: str, names: Sequence[str], across: int = 1) -> None:
    """Figures of the stage evaluate, `across` in a row."""
    folder = require(ROOT / "plots" / dataset / "evaluation", items.EVALUATE)
    paths = [path for name in names for path in sorted(folder.glob(f"{name}.png"))]
    for column, path in frame.in_rows(paths, across):
        caption = words(path.stem).capitalize()
        column.image(str(path), caption=caption, alt=caption)


def show_samplers(dataset: str) -> None:
    """Numbers and samples of each sampler."""
    with frame.sentences():
        samplers = results.compare_samplers(ROOT, dataset)
        frame.table(samplers, "Samplers, 95 % intervals in brackets")
    show_figures(dataset, ("samples_*", "samplers", "interpolations"), across=2)


def show_neighbours(dataset: str) -> None:
    """Samples over their nearest training items."""
    last = max(0, len(items.read_evidence(ROOT, dataset)["samples"]) - SHOWN)
    first = st.number_input("From sample", 0, last, 0, SHOWN, key="from", bind="query-params")
    st.caption("Each sample of the picked sampler over the training item that is nearest to it.")
    found = items.find_neighbours(ROOT, dataset, slice(first, first + SHOWN))
    figures = []
    for index, (sample, nearest, distance) in enumerate(found, first):
        above, below = (np.asarray(look.pixels(item)) for item in (sample, nearest))
        both = np.concatenate([above, np.full_like(above[:1], 255), below])  # a white line between
        figures.append(look.picture(both, f"sample {index}", f"{index}: {distance}", 88))
    st.html(look.pictures(figures))


@st.fragment
def show_latents(dataset: str) -> None:
    """A test item whose code is moved by sliders, decoded before and after."""
    with frame.sentences():  # a fragment's errors never reach the blocks around it
        trained = ROOT / "data" / "checkpoints" / dataset / "model.safetensors"
        require(trained, "dvc repro train")
        with st.spinner("Loading the model, some seconds the first time …"):
            from genlab.web.explorer import open_explorer  # imports torch

            found = open_explorer(trained, ROOT / "data" / dataset)
        right, left = st.columns([2, 3], gap="large")  # the picture first where they stack
        with left:
            last = len(found.items) - 1
            index = st.number_input("Test item", 0, last, 0, key="start", bind="query-params")
            directions = choose_directions(dataset, found)
            steps = [
                st.slider(name, -3.0, 3.0, 0.0, 0.1, format="%+.1f sd", key=f"{index} {name}")
                for name in directions
            ]
        before = found.decode(found.means[index])
        after = found.decode(found.means[index] + steps @ np.array([*directions.values()]))
        shown = {"input": found.items[index], "reconstruction": before, "moved": after}
        figures = [look.picture(item, name, name, 200) for name, item in shown.items()]
        right.html(look.pictures(figures))
        changed = np.not_equal(before, after).reshape(*before.shape[:2], -1).any(axis=-1)
        right.caption(f"{changed.sum()} of {changed.size} cells or pixels changed.")


def choose_directions(dataset: str, found: Any) -> dict[str, Any]:
    """Directions in the latent space, by what their sliders are called."""
    directions, noun = found.directions, "Direction"
    ways = ["directions", "one place"] if found.side else ["directions"]
    if found.items.ndim == 3:  # grids are made of few patches
        ways.reverse()
    if frame.choose("Move along", ways, f"way_{dataset}") == "one place":
        left, right = st.columns(2)
        most = found.side - 1
        row = left.slider("Row of the place", 0, most, most // 2, key=f"row_{dataset}")
        col = right.slider("Column of the place", 0, most, most // 2, key=f"col_{dataset}")
        directions, noun = found.axes_at(row, col), "Latent"
    return {f"{noun} {number}": each for number, each in enumerate(directions, 1)}


VIEWS: dict[str, Callable[[str], None]] = {
    "Targets": show_targets,
    "Reconstructions": partial(show_figures, names=("reconstructions", "arc_agi")),
    "Samplers": show_samplers,
    "Latents": show_latents,
    "Neighbours": show_neighbours,
}


def main() -> None:
    """The chosen view of a dataset."""
    dataset = frame.choose_dataset()
    VIEWS[frame.choose("Show", [*VIEWS], "show")](dataset)
