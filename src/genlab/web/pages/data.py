"""The data: items by split and filter, what they are made of, and a grid of one's own."""

from pathlib import Path

import streamlit as st

from genlab.datasets.registry import find_dataset
from genlab.evaluation.reports.formats import words
from genlab.grids.palette import COLOUR_NAMES
from genlab.grids.shapes import KINDS
from genlab.web import browse, tables
from genlab.web.components import charts, look
from genlab.web.components.frame import chart, choose_dataset, params, sentences, title

PAGE = 48
DATA = Path("data")


def filters(data: browse.Grids | browse.Images) -> browse.Indices:
    """The items that the filters let through."""
    if isinstance(data, browse.Images):
        classes = st.pills(
            "Class", data.names, selection_mode="multi", key="class", bind="query-params"
        )
        return browse.choose_images(data, classes)
    left, middle, right = st.columns([3, 3, 2])
    kinds = left.multiselect(
        "Shape kind",
        KINDS,
        format_func=words,
        placeholder="any",
        key="kind",
        bind="query-params",
    )
    colours = middle.multiselect(
        "Colour", COLOUR_NAMES[1:], placeholder="any", key="colour", bind="query-params"
    )
    low, high = params().grids.min_objects, params().grids.max_objects
    objects = (low, high)
    if high > low:
        objects = right.slider(
            "Objects a grid", low, high, (low, high), key="objects", bind="query-params"
        )
    return browse.choose_grids(data, kinds, colours, objects)


def show_items(data: browse.Grids | browse.Images, chosen: browse.Indices) -> None:
    pages = max(1, -(-len(chosen) // PAGE))
    left, right = st.columns([3, 1], vertical_alignment="bottom")
    left.write(f"**{len(chosen):,}** of {len(data):,} items.")
    page = right.number_input("Page", 1, pages, key="page", bind="query-params") if pages > 1 else 1
    shown = browse.page_of(chosen, page, PAGE)
    if not len(shown):
        st.info("No item is like that: take a filter away.")
        return
    st.html(look.pictures(tables.tile(data, int(index)) for index in shown))


def show_one(data: browse.Grids | browse.Images, chosen: browse.Indices) -> None:
    first = int(chosen[0]) if len(chosen) else 0
    index = st.number_input(
        "Item", 0, len(data) - 1, first, key="item", bind="query-params", width=200
    )
    left, right = st.columns([1, 2])
    if isinstance(data, browse.Images):
        name = data.names[data.labels[index]]
        left.html(look.picture(data.images[index], f"image {index}, {name}", side=260))
        image = data.images[index]
        right.html(
            look.numbers(
                [
                    ("class", name, f"label {data.labels[index]}"),
                    ("size", " × ".join(map(str, image.shape)), "height, width, channels"),
                    ("mean brightness", f"{image.mean():.1f}", "0 to 255"),
                    ("ink", f"{(image > 25).mean():.0%}", "pixels over a tenth"),
                ]
            )
        )
        return
    left.html(look.picture(data.grids[index], browse.describe_grid(data, index), side=260))
    right.html(tables.objects(data.of(index), f"Objects of grid {index}"))
    right.code(browse.to_text(data.grids[index]), language=None)


def show_shares(data: browse.Grids | browse.Images, chosen: browse.Indices) -> None:
    if isinstance(data, browse.Images):
        shares = browse.image_shares(data, chosen)
    else:
        shares = browse.grid_shares(data, chosen)
    known = list(shares.items())
    for start in range(0, len(known), 2):  # row by row, so that neighbours begin at one height
        for column, (name, found) in zip(st.columns(2), known[start : start + 2], strict=False):
            ordered = all(key.isdigit() for key in found)
            spec = charts.bars(found, name, ordered=ordered)
            chart(spec, tables.shares_in_words(name, found), column)


def show_sketch() -> None:
    from genlab.web import sketch

    st.write("Paste a grid; the parser takes it apart into legal shapes.")
    left, right = st.columns(2)
    grid = None
    with left, sentences():
        text = st.text_area(
            "Rows of digits 0 to 9, or the JSON rows of an ARC task",
            sketch.EXAMPLE,
            height=260,
            key="grid",
            max_chars=sketch.LONGEST_TEXT,
        )
        grid = sketch.from_text(text)
    with right:
        if grid is None:
            return
        read = sketch.read(grid)
        (st.success if read.legal else st.warning if read.faults else st.info)(read.sentence)
        height, width = grid.shape
        caption = "stray cells are outlined" if read.faults else ""
        st.html(look.framed(read.marked, read.sentence, caption, 240, 240 * height // width))
        if len(read.parsed.objects):
            st.html(tables.objects(read.parsed.objects, "Legal objects"))
        for fault in read.faults:
            st.write(f"- {fault}")


def choose_view(grids: bool) -> tuple[str, str]:
    """The split, and what of it is shown."""
    views = ["Items", "One item", "Distributions", *(["Paste a grid"] if grids else [])]
    with st.container(horizontal=True, gap="medium"):
        view = st.segmented_control(
            "View", views, default="Items", required=True, key="view", bind="query-params"
        )
        if view == "Paste a grid":
            return browse.SPLITS[0], view
        split = st.segmented_control(
            "Split",
            browse.SPLITS,
            default=browse.SPLITS[0],
            required=True,
            key="split",
            bind="query-params",
        )
    return split, view


title("Data", "What the models learn from, item by item, and how the parser reads a grid.")
name = choose_dataset()
with sentences():
    if name:
        grids = find_dataset(name).kind == "grids"
        split, view = choose_view(grids)
        if view == "Paste a grid":
            show_sketch()
        else:
            read = browse.grids_of if grids else browse.images_of
            data = read(DATA / name, split)
            chosen = filters(data)
            {"Items": show_items, "One item": show_one, "Distributions": show_shares}[view](
                data, chosen
            )
