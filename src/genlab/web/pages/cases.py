"""Test cases: a gallery, and a form that creates a case from photographs."""

from collections.abc import Collection, Sequence

import streamlit as st
from PIL import Image, ImageDraw
from streamlit.runtime.uploaded_file_manager import UploadedFile

from genlab.benchmark.cases import PRIVATE, Case, Region
from genlab.benchmark.cases.files import delete_case, find_regions, slugify, unique_name, write_case
from genlab.benchmark.cases.photographs import (
    MAX_BYTES,
    TEMPLATE_SIDE,
    crop_avatar,
    read_photograph,
    shrink,
)
from genlab.benchmark.plugins.inputs import write_instruction
from genlab.benchmark.service.cases import CaseDraft, save_case
from genlab.benchmark.service.jobs import jobs
from genlab.benchmark.service.rating_session import OUTLINE
from genlab.web.components import figures
from genlab.web.components.escape import label, line
from genlab.web.components.frame import make_unique, show_errors

CONSENT = "All persons shown agree to this use."


@st.cache_data(max_entries=8, show_spinner="Looking for faces…")
def read_template(data: bytes) -> tuple[Image.Image, list[Region]]:
    """Read a template; returns it at its final size, and its faces from left to right."""
    image = shrink(read_photograph(data, "the template"), TEMPLATE_SIDE)
    return image, find_regions(image)


@st.cache_data(max_entries=32, show_spinner="Looking for the face…")
def read_avatar(data: bytes, name: str) -> Image.Image:
    """Crop head and shoulders of the only person in a photograph."""
    return crop_avatar(read_photograph(data, name), name)


def upload_image(name: str, key: str) -> UploadedFile | None:
    types = ["jpg", "jpeg", "png", "webp"]
    return st.file_uploader(name, types, key=key, max_upload_size=MAX_BYTES >> 20)


def outline(image: Image.Image, regions: Sequence[Region], chosen: Collection[int]) -> Image.Image:
    """Outline and number faces from 1; chosen ones get a thick line."""
    drawing = image.copy()
    pen = ImageDraw.Draw(drawing)
    for number, region in enumerate(regions, 1):
        pen.rectangle(region.box, outline=OUTLINE, width=6 if number in chosen else 2)
        pen.text(
            (region.left + 6, region.top + 2), str(number), OUTLINE,
            font_size=max(18, region.height // 4), stroke_width=1, stroke_fill="white",
        )  # fmt: skip
    return drawing


def make_case(taken: set[str]) -> None:
    form = st.session_state.get("saved_cases", 0)  # after saving, new keys make an empty form
    upload = upload_image("Template: the photograph whose people are replaced", f"{form}-template")
    if upload is None:
        st.caption("Drop a JPEG, PNG or WebP. Its metadata is removed.")
        return
    image, faces = read_template(upload.getvalue())
    if not faces:
        st.error("No face is found in this photograph; choose one with faces from the front.")
        return
    numbers = list(range(1, len(faces) + 1))
    largest = max(numbers, key=lambda number: faces[number - 1].width)
    chosen = st.pills(
        "Persons to replace", numbers, selection_mode="multi", default=[largest],
        key=f"{form}-persons",
    )  # fmt: skip
    st.image(outline(image, faces, chosen), caption="Faces, numbered from the left", width=640)
    regions = []
    heads = []
    for number in sorted(chosen):
        regions.append(faces[number - 1])
        avatar = upload_image(f"Avatar: who replaces person {number}", f"{form}-avatar-{number}")
        with show_errors():
            if avatar is not None:
                heads.append(read_avatar(avatar.getvalue(), line(avatar.name)))
                st.image(heads[-1], caption=f"replaces person {number}", width=120)
    name = st.text_input(
        "Name", max_chars=80, key=f"{form}-name", placeholder="What the case shows"
    )
    left, right = st.columns(2)
    source = left.text_input("Source of the photographs", max_chars=300, key=f"{form}-source")
    licence = right.text_input("Licence, or what allows use", max_chars=300, key=f"{form}-licence")
    consent = st.checkbox(CONSENT, key=f"{form}-consent")
    with st.expander("Prompt preview"):
        numbered = [{"avatar": n, "region": r.model_dump()} for n, r in enumerate(regions, 1)]
        st.code(write_instruction(numbered, image.size), language=None, wrap_lines=True)
    ready = bool(heads) and len(heads) == len(chosen) and bool(name) and bool(licence)
    if st.button("Save case", type="primary", disabled=not ready, key=f"{form}-save"):
        draft = CaseDraft(
            case_id=unique_name(slugify(name), taken), title=name, consent=consent, regions=regions,
            source=source, licence=licence,
        )  # fmt: skip
        save_case(jobs().cases_folder, draft, image, heads)
        st.session_state["saved_cases"] = form + 1
        report(f"Case {draft.case_id} is saved; it takes part in new runs.")
    if not ready:
        st.caption("A case needs a person, an avatar for each, a name and a licence.")


def edit(case: Case, taken: set[str]) -> None:
    name = st.text_input("Name", case.title, max_chars=200, key=f"title-{case.case_id}")
    consent = st.checkbox(CONSENT, bool(case.consent), key=f"consent-{case.case_id}")
    if case.basis:
        st.caption(label(f"Here {case.permission}."))
    if case.ideal is not None:
        st.caption("Ground truth: the ideal result is known, and tools do not see it.")
    if not case.is_private:
        st.caption("A shipped case: duplicate it to change it.")
    with st.container(horizontal=True):
        if case.is_private and st.button("Save", key=f"save-{case.case_id}", disabled=not name):
            basis = "" if consent else case.basis
            changed = {"title": name, "basis": basis, "consent": None if basis else consent}
            write_case(case.folder, **{**dict(case), **changed})
            report(f"Case {case.case_id} is saved.")
        if st.button("Duplicate", key=f"copy-{case.case_id}"):
            case_id = unique_name(f"{case.case_id}-copy", taken)
            copy = write_case(jobs().cases_folder / PRIVATE / case_id, **dict(case))
            report(f"Case {copy.case_id} is saved.")
        if case.is_private and st.button("Delete", key=f"delete-{case.case_id}"):
            report(f"The case is in the bin: {delete_case(case)}")


def report(message: str) -> None:
    """Show the page again, with a message at its top."""
    st.session_state["case_message"] = message
    st.rerun()


def main() -> None:
    if message := st.session_state.pop("case_message", None):
        st.success(label(message))
    cases: dict[str, Case] = {}
    with show_errors():  # the folder may be empty
        cases = {case.case_id: case for case in jobs().cases()}
    st.html(figures.gallery(cases.values()))
    if cases:
        titles = make_unique({case_id: case.title for case_id, case in cases.items()})
        name = st.selectbox(
            "Case", list(cases), index=None, placeholder="Choose a case to change", key="chosen",
            format_func=titles.__getitem__,
        )  # fmt: skip
        if name:
            edit(cases[name], set(cases))
    st.header("New case", anchor=False)
    make_case(set(cases))
