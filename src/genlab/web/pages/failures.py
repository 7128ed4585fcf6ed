"""Failures: the worst items, hypotheses that explain them, and people's opinions."""

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import streamlit as st

from genlab.benchmark.service.jobs import jobs
from genlab.benchmark.store.schema import Opinion
from genlab.core.errors import GenlabError
from genlab.evaluation.failures.error_analysis import rank_tests
from genlab.evaluation.reports.formats import format_number, to_words
from genlab.grids.parser import find_components
from genlab.web.components import frame, look
from genlab.web.components.escape import label
from genlab.web.files import open_json
from genlab.web.items import find_dataset, load_items, read_evidence

Pictures = dict[str, npt.NDArray[np.uint8]]

ROOT = Path()
UNEXPLAINED = "unexplained"
# By sort: the prefix of its keys in failures.json, and the kind of its subjects in the store.
SORTS = {"reconstructions": ("", "reconstruction"), "samples": ("sample_", "vae_sample")}


class Failure(NamedTuple):
    """A failed item: its pictures as HTML, its scores, and an explanation.

    subject: SHA-256 of the pictures, to which opinions belong; the number of an item may change.
    """

    item: int
    scores: str
    hypothesis: str
    explanation: str
    figures: list[str]
    subject: str


def read_failures(
    root: Path, dataset: str, sort: str
) -> tuple[list[Failure], list[dict[str, Any]]]:
    """Read the failures of a dataset (reconstructions or samples), and the table of hypotheses.

    Raises a GenlabError if the stage has not run yet, or if its file is broken.
    """
    path = root / "results" / dataset / "failures.json"
    prefix, _ = SORTS[sort]
    pictures = _read_pictures(root, dataset, sort)
    with open_json(path, "dvc repro failure_gallery") as content:
        tests = content[f"{prefix}tests"]
        sentences = {test["name"]: f"{test['sentence']} ({test['verdict']})" for test in tests}
        failures = [_read_failure(item, sentences, pictures) for item in content[f"{prefix}items"]]
        columns = ("sentence", "verdict", "ratio", "low", "high", "error_with", "n_with",
                   "error_without", "n_without")  # fmt: skip
        return failures, [
            {column: test[column] for column in columns} for test in rank_tests(tests)
        ]


def _read_failure(item: dict[str, Any], sentences: dict[str, str], pictures: Pictures) -> Failure:
    index = int(item["index"])
    hypothesis = item["hypothesis"]
    scores = [f"{name} {format_number(value)}" for name, value in item["scores"].items()]
    if "class" in item:
        scores.append(item["class"])
    description = ", ".join(scores)
    digest = hashlib.sha256()
    figures = []
    item_pictures = {name: np.asarray(array[index], np.uint8) for name, array in pictures.items()}
    reference = next(iter(item_pictures.values()))
    for caption, picture in item_pictures.items():
        digest.update(f"{caption}{picture.shape}".encode() + np.ascontiguousarray(picture).data)
        outlined = None
        if picture.ndim == 2 and len(item_pictures) > 1:  # wrong cells of a reconstruction
            outlined = picture != reference
        elif picture.ndim == 2:  # stray cells of a sample
            outlined = find_components(picture[None]).stray[0]
        alt = f"{caption} of item {index}: {description}"
        figures.append(look.picture(picture, alt, caption, 128, outlined))
    reason = sentences[hypothesis] if hypothesis else "no tested attribute explains it"
    explanation = "; ".join([reason, *item.get("faults", [])])
    subject = digest.hexdigest()
    return Failure(index, description, hypothesis or UNEXPLAINED, explanation, figures, subject)


def _read_pictures(root: Path, dataset: str, sort: str) -> Pictures:
    """Read pictures of all items by caption; those of reconstructed grids are of ARC-AGI."""
    arrays: dict[str, Any] = read_evidence(root, dataset)
    if sort == "samples":
        pictures = {"sample": arrays["samples"]}
        if "sample_nearest" in arrays:
            pictures["nearest in train"] = arrays["sample_nearest"]
        return pictures
    if find_dataset(root, dataset).family == "grids":
        return {"input": arrays["arc"], "reconstruction": arrays["arc_predicted"]}
    truth = load_items(root / "data" / dataset, "test").items
    return {"input": truth, "reconstruction": arrays["predicted"]}


def ask(dataset: str, sort: str, failure: Failure, rater: str, opinions: list[Opinion]) -> None:
    """Ask whether the explanation of a failure is right, and show people's answers."""
    subject = (failure.subject, failure.hypothesis)
    answers = {
        opinion.rater: opinion.agrees
        for opinion in opinions
        if (opinion.subject_hash, opinion.hypothesis) == subject
    }
    key = f"thumb_{failure.item}_{subject}_{rater}"

    def save() -> None:
        thumb = st.session_state[key]
        agrees = None if thumb is None else bool(thumb)
        with frame.show_errors():
            jobs().store.opine(dataset, SORTS[sort][1], *subject, rater, agrees)

    default = int(answers[rater]) if rater in answers else None
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption("Does this explain it?", width="content")
        st.feedback("thumbs", key=key, default=default, on_change=save)
        if answers:
            agree = sum(answers.values())
            st.caption(f"{agree} agree, {len(answers) - agree} don't", width="content")


def main() -> None:
    dataset = frame.choose_dataset()
    left, right = st.columns(2)
    with left:
        sort = frame.choose("Sort", list(SORTS), "sort")
    with right:
        rater = frame.ask_rater()
    try:
        failures, hypotheses = read_failures(ROOT, dataset, sort)
    except GenlabError:
        frame.show_committed(ROOT / "plots" / dataset / "failures" / "sheet.png")
        raise
    opinions = jobs().store.find(Opinion, dataset=dataset)
    counts = Counter(failure.hypothesis for failure in failures)
    chosen = st.pills(
        "Explained by", [name for name, _ in counts.most_common()], selection_mode="multi",
        format_func=to_words, key="hypothesis", bind="query-params",
    )  # fmt: skip
    filtered = [failure for failure in failures if not chosen or failure.hypothesis in chosen]
    st.write(f"**{len(filtered)}** of {len(failures)} {sort}.")
    cards = st.grid(3, min_column_width=300, border=True)
    for failure in filtered:
        with cards.cell():
            st.html(look.pictures(failure.figures))
            st.write(f"**Item {failure.item}**: {label(failure.scores)}")
            st.write(f"Why: {label(failure.explanation)}.")
            if failure.hypothesis != UNEXPLAINED:
                ask(dataset, sort, failure, rater, opinions)
    st.subheader("The hypotheses and their evidence", anchor=False)
    st.caption(
        "Ratio of the error of items with the attribute to that of items without it, within the"
        " same number of components or the same class; items whose error follows from the attribute"
        " by definition are left out. Supported: significantly above 1; refuted:"
        " significantly below 1. At most 5 % of these decisions are expected to be wrong by chance."
    )
    frame.show_table(hypotheses, f"{len(hypotheses)} hypotheses about {sort}")
