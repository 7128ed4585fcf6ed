"""Curves of training, several runs over each other, live while one is going on."""

from pathlib import Path

import streamlit as st

from genlab.datasets.registry import find_dataset
from genlab.web import curves
from genlab.web.components import charts, look
from genlab.web.components.frame import chart, choose_dataset, params, sentences, title
from genlab.web.components.grid import label
from genlab.web.pipeline import ago

ROOT = Path()
LONGEST = 400  # characters of why a run was made


def draw(
    panels: tuple[curves.Panel, ...], runs: list[curves.Run], names: list[str], log: bool
) -> None:
    """A chart for each panel of which a run knows the curve, three in a row."""
    st.html(look.legend(names))
    known = [(p, found) for p in panels if (found := curves.chosen_curves(runs, names, p.key))]
    for start in range(0, len(known), 3):
        for column, (panel, found) in zip(st.columns(3), known[start : start + 3], strict=False):
            spec = charts.lines(
                found, panel.title, names=names, unit=panel.unit, log=log and panel.log
            )
            chart(spec, charts.summary(found, panel.title), column)


@st.fragment(run_every=2)
def live(name: str) -> None:
    """The newest run in the making: its progress and, while it goes on, its curves."""
    with sentences():
        run = curves.newest(ROOT, name)
        if run is None:
            st.caption("No training is under way. `make repro` or `dvc exp run` starts one.")
            return
        most = params().for_dataset(name).epochs
        state = "training now" if run.alive else "stopped"
        words = f"{state}, epoch {run.run.epochs} of at most {most}"
        tag = look.tag(words, "good" if run.alive else "quiet", hollow=not run.alive)
        after = "" if run.alive else "; the same command goes on from there"
        st.html(f"<p>{tag} · last epoch {ago(run.written)}{after}</p>")
        if not run.alive:
            return
        st.progress(min(1.0, run.run.epochs / most))
        draw(curves.PANELS[find_dataset(name).kind], [run.run], [run.run.name], True)
        pictures = curves.pictures(run.folder / "images")
        if pictures:
            epoch, path = list(pictures.items())[-1]
            st.image(str(path), caption=f"val, {epoch}: inputs over reconstructions")


def compare(name: str) -> None:
    found = curves.runs(ROOT, name)
    names = [run.name for run in found]
    left, right = st.columns([4, 1], vertical_alignment="bottom")
    chosen = left.multiselect(
        "Runs", names, default=names[:1], max_selections=8, key="run", bind="query-params"
    )
    log = right.toggle("Log scale", value=True, key="log", bind="query-params")
    for run in found:
        if run.name in chosen and run.why and run.name != curves.CURRENT:
            st.caption(f"**{label(run.name, 80)}**: {label(run.why, LONGEST)}")
    if chosen:
        draw(curves.PANELS[find_dataset(name).kind], found, chosen, log)
    else:
        st.info("Choose a run to see its curves.")


def show_pictures(name: str) -> None:
    pictures = curves.pictures(ROOT / "plots" / name / "training" / "plots" / "images")
    if not pictures:
        st.info("A run leaves a picture every tenth epoch. `make repro` makes one.")
        return
    epochs = list(pictures)
    epoch = epochs[-1]
    if len(epochs) > 1:
        epoch = st.select_slider("Epoch", epochs, value=epoch, key="epoch", bind="query-params")
    st.image(
        str(pictures[epoch]),
        caption=f"val, {epoch}: inputs over reconstructions",
        alt=f"Validation items over their reconstructions, {epoch}",
    )


title("Training", "How the objective and its halves went over the epochs, run over run.")
name = choose_dataset()
if name:
    live(name)
    with sentences():
        compare(name)
    st.subheader("Reconstructions by epoch", anchor=False)
    with sentences():
        show_pictures(name)
