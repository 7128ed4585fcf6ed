"""The data: items by split and filter, distributions, and the objects of a pasted grid."""

import shlex
from pathlib import Path

import streamlit as st

from genlab.datasets.splits import SPLITS
from genlab.evaluation.reports.formats import to_words
from genlab.grids.palette import COLOUR_NAMES
from genlab.grids.parser import find_components
from genlab.grids.shapes import KINDS
from genlab.web import items
from genlab.web.components import frame, look
from genlab.web.components.escape import label
from genlab.web.files import require

PAGE = 48  # items
EXAMPLE = "00000000\n02220300\n00000030\n00000000"


def choose_items(data: items.Split) -> items.Indices:
    """Let the visitor set filters; returns the indices of the items that pass."""
    if not data.is_grids:
        names = list(data.parts["class"].cat.categories)
        classes = st.pills("Class", names, selection_mode="multi", key="class", bind="query-params")
        return items.choose_items(data, {"class": classes})
    left, middle, right = st.columns([3, 3, 2])
    kinds = []
    if "kind" in data.parts:
        kinds = left.multiselect(
            "Shape kind", KINDS, format_func=to_words, key="kind", bind="query-params"
        )
    colours = middle.multiselect("Colour", COLOUR_NAMES[1:], key="colour", bind="query-params")
    counts = sorted(set(data.counts.tolist()))
    objects = right.multiselect("Objects per grid", counts, key="objects", bind="query-params")
    values = {"colour": colours}
    if kinds:
        values["kind"] = [to_words(kind) for kind in kinds]
    return items.choose_items(data, values, objects)


def show_item(data: items.Split, index: int, caption: str, side: int) -> str:
    """Show an item as a figure, `side` pixels wide."""
    return look.picture(data.items[index], f"{index}: {data.describe(index)}", caption, side)


def show_pasted() -> None:
    """Show a pasted grid, and the objects that the parser finds in it."""
    from genlab.evaluation.failures.grid_hypotheses import describe_faults  # imports scipy.stats

    left, right = st.columns(2)
    with left, frame.show_errors():
        text = st.text_area(
            "Rows of digits 0 to 9, or the JSON rows of an ARC task", EXAMPLE, height=260,
            key="grid", max_chars=items.MAX_TEXT,
        )  # fmt: skip
        grid = items.parse_grid(text)
        components = find_components(grid[None])
        objects = len(components.legal)
        stray = int(components.stray.sum())
        valid = objects > 0 and not stray
        verdict = f"{'Valid' if valid else 'Not valid'}: {objects} objects"
        verdict += f", {stray} stray cells, outlined." if stray else ", no stray cell."
        with right:
            (st.success if valid else st.warning)(verdict)
            st.html(look.picture(grid, verdict, "", 240, components.stray[0] if stray else None))
            table = items.tabulate(components.legal).drop(columns="item")
            frame.show_table(table, "Valid objects")
            for fault in describe_faults(grid):
                st.write(f"- {fault}")


def show_own() -> None:
    """Show how a path on this machine is read, and the command that adds it."""
    from genlab.core.params.sections import SourceParams
    from genlab.datasets.own import read_source, require_enough
    from genlab.datasets.readers.sheet import draw_sheet

    path = st.text_input("Folder, archive or file on this machine", key="own_path").strip()
    name = st.text_input("Name of the dataset", "my_photos", key="own_name").strip()
    if not st.button("Read", key="own_read", disabled=not path):
        st.caption("All files are read; nothing is written.")
        return
    with frame.show_errors():
        with st.spinner("Reading …"):
            items = read_source(SourceParams(path=path))
        for line in items.describe():
            st.write(label(line))
        st.image(draw_sheet(items), caption="Contact sheet")
        require_enough(items)
        st.write("Add it on the command line, then run the pipeline:")
        st.code(f"{shlex.join(['genlab', 'data', 'add', name, path])}\ndvc repro", language=None)


def main() -> None:
    dataset = frame.choose_dataset()
    pasting = ["Paste a grid"] if frame.params().dataset(dataset).kind == "grids" else []
    with st.container(horizontal=True, gap="medium"):
        views = ["Items", "One item", "Distributions", *pasting, "Your own data"]
        view = frame.choose("View", views, "view")
        split = frame.choose("Split", SPLITS, "split")
    if view == "Paste a grid":
        return show_pasted()
    if view == "Your own data":
        return show_own()
    if view == "Distributions":
        sheet = require(Path("plots") / dataset / "data" / "sheet.png", "dvc repro split")
        st.image(str(sheet), alt=f"Items of {dataset} and distributions of what is in them")
        return
    data = items.load_items(Path("data") / dataset, split)
    chosen = choose_items(data)
    if view == "Items":
        st.write(f"**{len(chosen):,}** of {len(data):,} items.")
        pages = max(1, -(-len(chosen) // PAGE))
        page = st.number_input("Page", 1, pages, key="page", bind="query-params", width=200)
        figures = []
        for index in chosen[(page - 1) * PAGE : page * PAGE].tolist():
            caption = str(index) if data.is_grids else f"{index} · {data.describe(index)}"
            figures.append(show_item(data, index, caption, 84))
        st.html(look.pictures(figures))
        return
    first = int(chosen[0]) if len(chosen) else 0
    last = len(data) - 1
    index = st.number_input("Item", 0, last, first, key="item", bind="query-params", width=200)
    left, right = st.columns([1, 2])
    left.html(show_item(data, index, data.describe(index), 260))
    if data.is_grids:
        with right:
            frame.show_table(data.of(index).drop(columns="item"), f"Objects of grid {index}")
            st.code(items.format_grid(data.items[index]), language=None)
