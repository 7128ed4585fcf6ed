"""Evaluation of a model: verdict, targets, reconstructions, samplers, latents, neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import streamlit as st

from genlab.core.errors import GenlabError
from genlab.evaluation.reports.formats import format_interval, format_number, to_heading, to_words
from genlab.evaluation.reports.targets import judge_target, read_targets
from genlab.evaluation.reports.trainings import judge_trainings, read_trainings
from genlab.web import items
from genlab.web.components import frame, look
from genlab.web.components.escape import label
from genlab.web.files import open_json, require

if TYPE_CHECKING:  # imports torch
    from genlab.web.explorer import Explorer

Row = dict[str, Any]

ROOT = Path()
SHOWN = 24  # samples
SAMPLERS_NOTE = (
    "`ancestral` is the model's own distribution: p(z), and p(x|z) at temperature 1. `rejection`"
    " accepts the share `acceptance` of its draws of `prior`."
)
SSIM_NOTE = "SSIM is scikit-image's, over the positions of the window inside the image."
# The most important numbers by family of datasets: of the model, and of the picked sampler.
NUMBERS = {
    "grids": ("pixel_accuracy", "exact_grid_accuracy", "neg_elbo_nats",
              "neg_elbo_over_entropy_bound"),
    "own_grids": ("pixel_accuracy", "exact_grid_accuracy", "neg_elbo_per_cell",
                  "context_nats_per_cell"),
    "images": ("bits_per_dim", "ssim", "psnr"),
}  # fmt: skip
SAMPLED = {
    "grids": ("valid_rate",),
    "own_grids": ("novelty", "component_distance"),
    "images": ("frechet_distance", "relative_frechet"),
}


def read_verdict(root: Path, dataset: str) -> tuple[str, str, list[Row]]:
    """Read the verdict, the reasons for it, and the table of its criteria.

    The verdict is over several trainings where there are any, else of one. Raises a GenlabError if
    the stage has not run yet.
    """
    columns = ("outcome", "name", "value", "interval", "sign", "threshold", "why")
    with open_json(root / "results" / dataset / "verdict.json") as one_training:
        verdict = judge_dataset(root, dataset, one_training)
        criteria = [
            {key: row[key] for key in columns}
            | {"interval": format_interval(row["interval"]) or None}
            for row in verdict["criteria"]
        ]
        limits = verdict.get("limits", [])
    with open_json(root / "results" / dataset / "diagnosis.json") as diagnosis:
        issues = [to_words(issue["name"]) for issue in diagnosis["diagnoses"] if issue["found"]]
    met = sum(row["outcome"] == "met" for row in criteria)
    diagnoses = f"Diagnosed: {', '.join(issues)}." if issues else "No collapse found."
    counted = f"{met} of {len(criteria)} criteria met, {verdict['scope']}."
    reasons = " ".join([counted, diagnoses, *limits])
    return verdict["outcome"], reasons, criteria


def judge_dataset(root: Path, dataset: str, verdict: Mapping[str, Any]) -> Row:
    """Judge a dataset's model by its trainings. verdict: content of verdict.json, of one."""
    try:
        trainings = read_trainings(root, dataset)
    except GenlabError:  # no table of experiments, or a truncated one
        trainings = pd.DataFrame()
    return judge_trainings(trainings, verdict)


def read_key_numbers(root: Path, dataset: str) -> list[tuple[str, str, str]]:
    """Read the most important numbers of a dataset: label, value and 95 % interval of each."""
    family = items.find_dataset(root, dataset).family
    numbers = []
    with open_json(root / "results" / dataset / "metrics.json") as metrics:
        for key in NUMBERS[family]:
            numbers.append((to_words(key), *_format_metric(metrics, key)))
        picked = metrics["best_sampler"]
        for key in SAMPLED[family]:
            value, interval = _format_metric(metrics["samplers"][picked], key)
            numbers.append((f"{to_words(key)} ({picked})", value, interval))
    return numbers


def compare_targets(root: Path, dataset: str) -> list[Row]:
    """Make the table of the project's targets for a dataset and their measurements."""
    targets = read_targets(root, dataset)
    rows = []
    with open_json(root / "results" / "benchmarks.json", "make bench") as benchmarks:
        for key, target in targets.items():
            measurement = benchmarks.get(key, {})
            value = measurement.get("value")
            rows.append(
                {
                    "description": target.description,
                    "outcome": judge_target(target, measurement),
                    "value": value,
                    "interval": format_interval(measurement.get("interval")) or None,
                    "sign": target.sign,
                    **target.model_dump(include={"target", "stretch_target"}),
                }
            )
    return rows


def compare_samplers(root: Path, dataset: str) -> list[Row]:
    """Make the table of samplers: numbers that have an interval, and the acceptance rate."""
    rows = []
    with open_json(root / "results" / dataset / "metrics.json") as metrics:
        for name, sampler in metrics["samplers"].items():
            row = {"sampler": f"{name} (picked)" if name == metrics["best_sampler"] else name}
            for key in sorted(sampler["intervals"]):
                value, interval = _format_metric(sampler, key)
                row[key] = f"{value} ({interval})"
            if "acceptance" in sampler:
                row["acceptance"] = format_number(sampler["acceptance"])
            rows.append(row)
    return rows


def _format_metric(metrics: Mapping[str, Any], name: str) -> tuple[str, str]:
    """Format a metric and its interval."""
    interval = metrics.get("intervals", {}).get(name)
    return format_number(metrics[name]), format_interval(interval)


def show_verdict(root: Path, dataset: str) -> list[Row]:
    """Show verdict, diagnoses and key numbers; returns the table of criteria."""
    state, reasons, criteria = read_verdict(root, dataset)
    numbers = read_key_numbers(root, dataset)
    st.markdown(f"{frame.format_cell(state)} {label(reasons)}")
    for column, (name, value, interval) in zip(st.columns(len(numbers)), numbers, strict=True):
        column.metric(label(name), value, interval or None, delta_color="off", delta_arrow="off")
    if any(name == to_words("ssim") for name, _, _ in numbers):
        st.caption(SSIM_NOTE)
    return criteria


def show_figures(dataset: str, names: Sequence[str], across: int = 1) -> None:
    """Show figures of stage evaluate, `across` in a row. names: may contain `*`."""
    folder = require(ROOT / "plots" / dataset / "evaluation", items.EVALUATE)
    with st.grid(across, min_column_width=320):
        for name in names:
            for path in sorted(folder.glob(f"{name}.png")):
                caption = to_heading(path.stem)
                st.image(str(path), caption=caption, alt=caption)


def show_neighbours(dataset: str) -> None:
    last = max(0, len(items.read_evidence(ROOT, dataset)["samples"]) - SHOWN)
    first = st.number_input("From sample", 0, last, 0, SHOWN, key="from", bind="query-params")
    st.caption("Each sample of the picked sampler over the training item that is nearest to it.")
    neighbours = items.find_neighbours(ROOT, dataset, slice(first, first + SHOWN))
    figures = []
    for index, (sample, nearest, distance) in enumerate(neighbours, first):
        above = np.asarray(look.pixels(sample))
        below = np.asarray(look.pixels(nearest))
        white_line = np.full_like(above[:1], 255)
        pair = np.concatenate([above, white_line, below])
        figures.append(look.picture(pair, f"sample {index}", f"{index}: {distance}", 88))
    st.html(look.pictures(figures))


@st.fragment
def show_latents(dataset: str) -> None:
    """Show a test item whose latent code is moved by sliders, decoded before and after."""
    with frame.show_errors():  # a fragment's errors do not reach the blocks around it
        checkpoint = ROOT / "data" / "checkpoints" / dataset / "model.safetensors"
        require(checkpoint, "dvc repro train")
        with st.spinner("Loading the model, some seconds the first time …"):
            from genlab.web.explorer import open_explorer  # imports torch

            explorer = open_explorer(checkpoint, ROOT / "data" / dataset)
        right, left = st.columns([2, 3], gap="large")  # on narrow screens the picture comes first
        with left:
            last = len(explorer.items) - 1
            index = st.number_input("Test item", 0, last, 0, key="start", bind="query-params")
            noun, directions = choose_directions(explorer, dataset)
            names = [f"{noun} {number}" for number in range(1, len(directions) + 1)]
            steps = [
                st.slider(
                    name, -3.0, 3.0, 0.0, 0.1, format="%+.1f sd", key=f"{dataset} {index} {name}"
                )
                for name in names
            ]
        before = explorer.decode(explorer.means[index])
        after = explorer.decode(explorer.means[index] + steps @ np.array(directions))
        pictures = {"input": explorer.items[index], "reconstruction": before, "moved": after}
        figures = [look.picture(item, name, name, 200) for name, item in pictures.items()]
        right.html(look.pictures(figures))
        changed = np.not_equal(before, after).reshape(*before.shape[:2], -1).any(axis=-1)
        right.caption(f"{changed.sum()} of {changed.size} cells or pixels changed.")


def choose_directions(explorer: Explorer, dataset: str) -> tuple[str, npt.NDArray[np.float64]]:
    """Let the visitor choose directions to move a code along; returns their noun, and (k, d)."""
    choices = ["directions", "one place"] if explorer.side else ["directions"]
    if explorer.items.ndim == 3:  # grids have few patches: start with the places
        choices.reverse()
    if frame.choose("Move along", choices, f"way_{dataset}") == "directions":
        return "Direction", explorer.directions
    last = explorer.side - 1
    left, right = st.columns(2)
    row = left.slider("Row of the place", 0, last, last // 2, key=f"Row{dataset}")
    col = right.slider("Column of the place", 0, last, last // 2, key=f"Column{dataset}")
    return "Latent", explorer.axes_at(row, col)


def main() -> None:
    dataset = frame.choose_dataset()
    views = ["Targets", "Reconstructions", "Samplers", "Latents", "Neighbours"]
    view = frame.choose("Show", views, "show")
    if view == "Targets":
        criteria = show_verdict(ROOT, dataset)
        frame.show_table(criteria, f"Criteria, from results/{dataset}/verdict.json")
        frame.show_table(compare_targets(ROOT, dataset), "Targets, from results/benchmarks.json")
    elif view == "Reconstructions":
        show_figures(dataset, ["reconstructions", "arc_agi", "colours"])
    elif view == "Samplers":
        with frame.show_errors():
            samplers = compare_samplers(ROOT, dataset)
            frame.show_table(samplers, "Samplers, 95 % intervals in brackets")
            st.caption(SAMPLERS_NOTE)
        show_figures(dataset, ["samples_*", "samplers", "interpolations"], across=2)
    elif view == "Latents":
        show_latents(dataset)
    else:
        show_neighbours(dataset)
