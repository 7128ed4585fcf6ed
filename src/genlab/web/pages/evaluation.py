"""What the model can do: verdict and targets, reconstructions, samplers, latents, neighbours."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from genlab.evaluation.reports.formats import format_interval, format_number, to_heading, to_words
from genlab.evaluation.reports.targets import read_targets
from genlab.web import items
from genlab.web.components import frame, look
from genlab.web.components.escape import label
from genlab.web.files import reading, require

Row = dict[str, Any]

ROOT = Path()
SHOWN = 24
# The numbers that say most about a dataset: of its model, and of the picked sampler.
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
    """The verdict, the reasons for it, and the table of its criteria.

    Raises a GenlabError before the first run.
    """
    columns = ("name", "value", "interval", "sign", "threshold", "why")
    with reading(root / "results" / dataset / "verdict.json") as verdict:
        criteria = [
            {"outcome": "met" if row["passed"] else "missed"}
            | {key: row[key] for key in columns}
            | {"interval": format_interval(row["interval"]) or None}
            for row in verdict["criteria"]
        ]
        limits = verdict.get("limits", [])
    with reading(root / "results" / dataset / "diagnosis.json") as diagnosis:
        names = [to_words(each["name"]) for each in diagnosis["diagnoses"] if each["found"]]
    met = sum(row["outcome"] == "met" for row in criteria)
    found = f"Diagnosed: {', '.join(names)}." if names else "No collapse found."
    reasons = " ".join([f"{met} of {len(criteria)} criteria met. {found}", *limits])
    return "passed" if met == len(criteria) else "not passed", reasons, criteria


def key_numbers(root: Path, dataset: str) -> list[tuple[str, str, str]]:
    """The numbers that say most about a dataset of its kind: label, value and 95 % interval."""
    family = items.find_dataset(root, dataset).family
    with reading(root / "results" / dataset / "metrics.json") as metrics:
        picked = metrics["best_sampler"]
        found = metrics["samplers"][picked]
        return [
            *((to_words(key), *_measured(metrics, key)) for key in NUMBERS[family]),
            *((f"{to_words(key)} ({picked})", *_measured(found, key)) for key in SAMPLED[family]),
        ]


def compare_targets(root: Path, dataset: str) -> list[Row]:
    """Table of the project's targets for a dataset, and what was measured."""
    targets = read_targets(root, dataset)
    with reading(root / "results" / "benchmarks.json", "make bench") as found:
        return [
            {
                "description": target.description,
                "outcome": target.outcome(found.get(key, {}).get("value")),
                "value": found.get(key, {}).get("value"),
                "interval": format_interval(found.get(key, {}).get("interval")) or None,
                "sign": target.sign,
                **target.model_dump(include={"target", "stretch_target"}),
            }
            for key, target in targets.items()
        ]


def compare_samplers(root: Path, dataset: str) -> list[Row]:
    """Table of samplers: every number that has an interval, with it."""
    with reading(root / "results" / dataset / "metrics.json") as metrics:
        return [
            {"sampler": f"{name} (picked)" if name == metrics["best_sampler"] else name}
            | {key: "{} ({})".format(*_measured(found, key)) for key in sorted(found["intervals"])}
            for name, found in metrics["samplers"].items()
        ]


def _measured(found: Mapping[str, Any], name: str) -> tuple[str, str]:
    return format_number(found[name]), format_interval(found.get("intervals", {}).get(name))


def show_verdict(root: Path, dataset: str) -> list[Row]:
    """Show verdict, diagnoses and key numbers; returns the table of criteria."""
    state, reasons, criteria = read_verdict(root, dataset)
    numbers = key_numbers(root, dataset)
    st.markdown(f"{frame.format_cell(state)} {label(reasons)}")
    for column, (name, measured, spread) in zip(st.columns(len(numbers)), numbers, strict=True):
        column.metric(label(name), measured, spread or None, delta_color="off", delta_arrow="off")
    return criteria


def show_figures(dataset: str, names: Sequence[str], across: int = 1) -> None:
    """Figures of the stage evaluate, `across` in a row."""
    folder = require(ROOT / "plots" / dataset / "evaluation", items.EVALUATE)
    with st.grid(across, min_column_width=320):
        for path in (path for name in names for path in sorted(folder.glob(f"{name}.png"))):
            caption = to_heading(path.stem)
            st.image(str(path), caption=caption, alt=caption)


def show_neighbours(dataset: str) -> None:
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
            directions, noun = found.directions, "Direction"
            ways = ["directions", "one place"] if found.side else ["directions"]
            if found.items.ndim == 3:  # grids are made of few patches
                ways.reverse()
            if frame.choose("Move along", ways, f"way_{dataset}") == "one place":
                most = found.side - 1
                row, col = (
                    place.slider(f"{side} of the place", 0, most, most // 2, key=side + dataset)
                    for place, side in zip(st.columns(2), ("Row", "Column"), strict=True)
                )
                directions, noun = found.axes_at(row, col), "Latent"
            names = [f"{noun} {number}" for number in range(1, len(directions) + 1)]
            steps = [
                st.slider(
                    name, -3.0, 3.0, 0.0, 0.1, format="%+.1f sd", key=f"{dataset} {index} {name}"
                )
                for name in names
            ]
        before = found.decode(found.means[index])
        after = found.decode(found.means[index] + steps @ np.array(directions))
        shown = {"input": found.items[index], "reconstruction": before, "moved": after}
        figures = [look.picture(item, name, name, 200) for name, item in shown.items()]
        right.html(look.pictures(figures))
        changed = np.not_equal(before, after).reshape(*before.shape[:2], -1).any(axis=-1)
        right.caption(f"{changed.sum()} of {changed.size} cells or pixels changed.")


def main() -> None:
    dataset = frame.choose_dataset()
    views = ["Targets", "Reconstructions", "Samplers", "Latents", "Neighbours"]
    view = frame.choose("Show", views, "show")
    if view == "Targets":
        criteria = show_verdict(ROOT, dataset)
        frame.table(criteria, f"Criteria, from results/{dataset}/verdict.json")
        frame.table(compare_targets(ROOT, dataset), "Targets, from results/benchmarks.json")
    elif view == "Reconstructions":
        show_figures(dataset, ["reconstructions", "arc_agi"])
    elif view == "Samplers":
        with frame.sentences():
            samplers = compare_samplers(ROOT, dataset)
            frame.table(samplers, "Samplers, 95 % intervals in brackets")
        show_figures(dataset, ["samples_*", "samplers", "interpolations"], across=2)
    elif view == "Latents":
        show_latents(dataset)
    else:
        show_neighbours(dataset)
