"""What the model can do: bars, reconstructions, samplers, its latents, nearest neighbours."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from genlab.datasets.registry import find_dataset
from genlab.web import bars, browse, evidence
from genlab.web.components import look
from genlab.web.components.files import Missing, Stamp, require, stamp
from genlab.web.components.frame import choose_dataset, sentences, title
from genlab.web.results import read_results

if TYPE_CHECKING:  # torch: imported only when the explorer opens
    from genlab.web.explorer import Explorer

ROOT = Path()
VIEWS = ("Bars", "Reconstructions", "Samplers", "Latents", "Neighbours")
SHOWN = 24


def show_bars(name: str) -> None:
    found = read_results(ROOT, name)
    words, tone = ("passed", "good") if found.passed else ("not passed", "bad")
    st.html(f"<p>Verdict: {look.tag(words, tone)} · {look.text(found.sentence)}</p>")
    st.html(look.numbers(found.numbers))
    st.html(bars.criteria(found))
    with sentences():
        st.html(bars.targets(ROOT, name))


def show_figures(name: str, wanted: tuple[str, ...], across: int = 1) -> None:
    found = bars.figures(ROOT, name, wanted)
    if not found:
        raise Missing("the figures are not there", "dvc repro evaluate")
    # Side by side where the page is wide: what is compared is seen at once.
    for start in range(0, len(found), across):
        columns = st.columns(across)
        for column, (path, caption) in zip(columns, found[start : start + across], strict=False):
            column.image(str(path), caption=caption, alt=caption)


def show_reconstructions(name: str) -> None:
    show_figures(name, ("reconstructions", "arc_agi"))


def show_samplers(name: str) -> None:
    with sentences():
        st.html(bars.samplers(read_results(ROOT, name), find_dataset(name).kind))
    if find_dataset(name).kind == "grids":
        show_figures(name, ("samples_*",), across=3)
    else:
        show_figures(name, ("samplers", "interpolations"), across=2)


def show_neighbours(name: str) -> None:
    found = evidence.evidence(ROOT, name)
    last = len(found["samples"]) - SHOWN
    first = st.number_input(
        "From sample", 0, max(0, last), 0, step=SHOWN, key="from", bind="query-params", width=200
    )
    st.caption("Each sample of the picked sampler over the training item that is nearest to it.")
    st.html(
        look.pictures(
            look.pair(near.sample, near.nearest, f"{near.index}: {near.distance}")
            for near in evidence.neighbours(ROOT, name, first, SHOWN)
        )
    )


@st.cache_resource(max_entries=3, show_spinner="Loading the model, some seconds the first time …")
def explorer(name: str, checkpoint: Stamp | None, data: Stamp | None) -> Explorer:
    """Keyed by the files' stamps: another checkpoint is another explorer."""
    from genlab.web.explorer import open_explorer

    folder = ROOT / "data" / name
    grids = find_dataset(name).kind == "grids"
    items = (
        browse.grids_of(folder, "test").grids if grids else browse.images_of(folder, "test").images
    )
    return open_explorer(ROOT / "data" / "checkpoints" / name, items, folder)


@st.fragment
def explore(name: str) -> None:
    with sentences():  # a fragment's faults never reach those around it
        show_explorer(name)


def show_explorer(name: str) -> None:
    trained = ROOT / "data" / "checkpoints" / name / "model.safetensors"
    require(trained, f"{trained} is not there yet", "dvc repro train")
    found = explorer(name, stamp(trained), stamp(ROOT / "data" / name / "manifest.json"))
    ways = ["directions", "one place"] if found.places else ["directions"]
    right, left = st.columns([2, 3], gap="large")  # the picture first where they stack
    with left:
        with st.container(horizontal=True, vertical_alignment="top"):
            index = st.number_input(
                "Test item", 0, len(found.items) - 1, 0, key="start", bind="query-params", width=140
            )
            way = st.segmented_control(
                "Move along",
                ways,
                default=ways[-1] if find_dataset(name).kind == "grids" else ways[0],
                required=True,
                key=f"way_{name}",
            )
        row = col = 0
        if way == "one place":
            with st.container(horizontal=True):
                most = found.places - 1
                row = st.slider("Row of the place", 0, most, most // 2, key=f"row_{name}")
                col = st.slider("Column of the place", 0, most, most // 2, key=f"col_{name}")
        count = found.place_dim if way == "one place" else len(found.lengths)
        place = f"{name}_{way}_{index}_{row}_{col}"
        steps = [
            st.slider(
                f"{'Latent' if way == 'one place' else 'Direction'} {number + 1}",
                -3.0,
                3.0,
                0.0,
                0.1,
                format="%+.1f sd",
                key=f"step_{place}_{number}",
            )
            for number in range(count)
        ]
    started = time.perf_counter()
    code = found.at(index, row, col, steps) if way == "one place" else found.along(index, steps)
    before, after = found.decode(found.means[index]), found.decode(code)
    spent = 1000 * (time.perf_counter() - started)
    with right:
        item = found.items[index]
        st.html(look.picture(after, f"test item {index}, moved", "moved and decoded", side=300))
        st.html(
            look.pictures(
                [
                    look.picture(item, f"test item {index}", "input", side=140),
                    look.picture(before, f"reconstruction of item {index}", "reconstruction", 140),
                ]
            )
        )
        from genlab.web.explorer import changed

        st.caption(f"{changed(before, after)}; decoded twice in {spent:.0f} ms.")


title("Evaluation", "What the model reconstructs, draws and knows, against what was asked of it.")
name = choose_dataset()
if name:
    view = st.segmented_control(
        "Show", VIEWS, default="Bars", required=True, key="show", bind="query-params"
    )
    with sentences():
        if view == "Bars":
            show_bars(name)
        elif view == "Reconstructions":
            show_reconstructions(name)
        elif view == "Samplers":
            show_samplers(name)
        elif view == "Latents":
            explore(name)
        else:
            show_neighbours(name)
