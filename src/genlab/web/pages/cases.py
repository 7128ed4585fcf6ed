"""Test cases: a gallery, and a form that makes a case of photographs."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st
from PIL import Image
from streamlit.runtime.uploaded_file_manager import UploadedFile

from genlab.benchmark.cases import PRIVATE, Case, Region, Source, Swap
from genlab.benchmark.cases.files import (
    Draft,
    delete_case,
    draft_of,
    find_regions,
    write_case,
)
from genlab.benchmark.cases.names import free, slug
from genlab.benchmark.cases.photographs import (
    MAX_BYTES,
    TEMPLATE_SIDE,
    crop_avatar,
    read_photograph,
    shrink,
)
from genlab.benchmark.plugins.inputs import write_instruction
from genlab.core.errors import GenlabError
from genlab.web.components import grid
from genlab.web.components.frame import title
from genlab.web.components.outlines import outline
from genlab.web.jobs import jobs

JOBS = jobs()
TYPES = ["jpg", "jpeg", "png", "webp"]


def read_cases() -> list[Case]:
    """All cases; none where the folder is empty."""
    try:
        return JOBS.cases()
    except GenlabError as error:
        st.warning(grid.label(error, 500))
        return []


@st.cache_data(max_entries=8, show_spinner="Looking for faces…")
def read_template(data: bytes) -> tuple[Image.Image, list[Region]]:
    """The template at its final size, and its faces from left to right."""
    image = shrink(read_photograph(data, "the template"), TEMPLATE_SIDE)
    return image, find_regions(image)


@st.cache_data(max_entries=32, show_spinner="Looking for the face…")
def read_avatar(data: bytes, name: str) -> Image.Image:
    """Head and shoulders of the one person in a photograph."""
    return crop_avatar(read_photograph(data, name), name)


def upload_image(label: str, key: str) -> UploadedFile | None:
    """A field for one photograph."""
    return st.file_uploader(label, TYPES, key=key, max_upload_size=MAX_BYTES >> 20)


def make_case(taken: set[str]) -> None:
    """The form of a new case."""
    form = st.session_state.get("saved_cases", 0)  # a saved form gives way to an empty one
    upload = upload_image("Template: the photograph whose people are replaced", f"{form}-template")
    if upload is None:
        st.html(grid.note("Drop a JPEG, PNG or WebP. Its metadata is removed."))
        return
    image, regions = read_template(upload.getvalue())
    if not regions:
        st.error("No face is found in this photograph; choose one with faces from the front.")
        return
    numbers = list(range(1, len(regions) + 1))
    chosen = st.pills(
        "Persons to replace",
        numbers,
        selection_mode="multi",
        default=numbers[:1],
        key=f"{form}-persons",
    )
    st.image(outline(image, regions, chosen), caption="Faces, numbered from the left", width=640)
    heads: dict[int, Image.Image] = {}
    for number in sorted(chosen):
        avatar = upload_image(f"Avatar: who replaces person {number}", f"{form}-avatar-{number}")
        if avatar is not None:
            try:
                heads[number] = read_avatar(avatar.getvalue(), grid.line(avatar.name))
            except GenlabError as error:
                st.error(grid.label(error, 300))
                continue
            st.image(heads[number], caption=f"replaces person {number}", width=120)
    label = st.text_input(
        "Name", max_chars=80, key=f"{form}-name", placeholder="What the case shows"
    )
    left, right = st.columns(2)
    source = left.text_input("Source of the photographs", max_chars=300, key=f"{form}-source")
    licence = right.text_input("Licence, or what allows use", max_chars=300, key=f"{form}-licence")
    consent = st.checkbox("All persons shown agree to this use.", key=f"{form}-consent")
    names = {number: f"person-{number}" for number in heads}
    swaps = [Swap(region=regions[n - 1], avatar=names[n]) for n in sorted(heads)]
    preview_prompt(swaps, image.size)
    ready = bool(chosen) and len(heads) == len(chosen) and bool(label) and bool(licence)
    if st.button("Save case", type="primary", disabled=not ready, key=f"{form}-save"):
        avatars = {names[number]: head for number, head in heads.items()}
        sources = dict.fromkeys(("template", *avatars), Source(title=source, licence=licence))
        case_id = free(slug(label), taken)
        draft = Draft(case_id, label, consent, image, avatars, swaps, sources)
        write_case(draft, JOBS.cases_folder / PRIVATE)
        st.session_state["saved"] = case_id
        st.session_state["saved_cases"] = form + 1
        st.rerun()
    if not ready:
        st.html(grid.note("A case needs a person, an avatar for each, a name and a licence."))


def preview_prompt(swaps: list[Swap], size: tuple[int, int]) -> None:
    """What image tools are asked."""
    with st.expander("Prompt preview"):
        numbered = [
            {"avatar": number, "region": swap.region.model_dump()}
            for number, swap in enumerate(swaps, 1)
        ]
        st.code(write_instruction(numbered, size), language=None, wrap_lines=True)


def edit(case: Case, taken: set[str]) -> None:
    """Change, duplicate or delete a case."""
    label = st.text_input("Name", case.title, max_chars=80, key=f"title-{case.case_id}")
    consent = st.checkbox(
        "All persons shown agree to this use.", case.consent, key=f"consent-{case.case_id}"
    )
    if case.ideal is not None:
        st.html(grid.note("Ground truth: the ideal result is known, and tools do not see it."))
    with st.container(horizontal=True):
        if case.is_private and st.button("Save", key=f"save-{case.case_id}", disabled=not label):
            draft = replace(draft_of(case), title=label, consent=consent)
            write_case(draft, case.folder.parent)
            st.rerun()
        if st.button("Duplicate", key=f"copy-{case.case_id}"):
            copy = replace(draft_of(case), case_id=free(f"{case.case_id}-copy", taken))
            write_case(copy, JOBS.cases_folder / PRIVATE)
            st.rerun()
        if case.is_private and st.button("Delete", key=f"delete-{case.case_id}"):
            kept = delete_case(case)
            st.session_state["deleted"] = str(kept)
            st.rerun()
    if not case.is_private:
        st.html(grid.note("A shipped case: duplicate it to change it."))


def main() -> None:
    """The gallery, one case, and the form of a new one."""
    st.html(grid.STYLE)
    title("Cases", "Photographs, and who is replaced by whom in them.")
    cases = read_cases()
    taken = {case.case_id for case in cases}
    if saved := st.session_state.pop("saved", None):
        st.success(f"Case {grid.label(saved)} is saved; it takes part in new runs.")
    if deleted := st.session_state.pop("deleted", None):
        st.info(f"The case is in the bin: {grid.label(deleted, 300)}")
    st.html(grid.gallery(cases))
    if cases:
        titles = {case.case_id: case.title for case in cases}
        name = st.selectbox(
            "Case", list(titles), index=None, placeholder="Choose a case to change", key="chosen",
            format_func=lambda each: grid.line(titles[each], 80),
        )  # fmt: skip
        if name:
            edit(next(case for case in cases if case.case_id == name), taken)
    st.header("New case", anchor=False)
    make_case(taken)


try:
    main()
except GenlabError as fault:
    st.error(grid.label(fault, 500))
