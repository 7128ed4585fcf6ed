"""What fails and why: the worst items, the hypotheses about them, and people's opinions."""

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import streamlit as st

from genlab.benchmark.service.jobs import jobs
from genlab.benchmark.store.schema import Opinion
from genlab.evaluation.failures.error_analysis import rank_tests
from genlab.evaluation.reports.formats import format_number, to_words
from genlab.grids.parser import find_components
from genlab.web.components import frame, look
from genlab.web.components.escape import label
from genlab.web.files import reading
from genlab.web.items import find_dataset, load_items, read_evidence

Pictures = dict[str, npt.NDArray[np.uint8]]

ROOT = Path()
UNEXPLAINED = "unexplained"
# By sort: the prefix of its keys in failures.json, and the kind of its subjects in the store.
SORTS = {"reconstructions": ("", "reconstruction"), "samples": ("sample_", "vae_sample")}


class Failure(NamedTuple):
    """An item that failed: its pictures as HTML, its scores, and what explains it.

    subject: SHA-256 of the pictures. Opinions belong to what was shown, not to a number.
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
    """The failures of a dataset (reconstructions or samples), and the table of hypotheses.

    Raises a GenlabError where the stage has not run, or where its file is broken.
    """
    path, (prefix, _) = root / "results" / dataset / "failures.json", SORTS[sort]
    pictures = _pictures(root, dataset, sort)
    with reading(path, "dvc repro failure_gallery") as found:
        tests = found[f"{prefix}tests"]
        sentences = {test["name"]: f"{test['sentence']} ({test['verdict']})" for test in tests}
        failures = [_failure(item, sentences, pictures) for item in found[f"{prefix}items"]]
        columns = ("sentence", "verdict", "ratio", "low", "high", "error_with", "n_with",
                   "error_without", "n_without")  # fmt: skip
        return failures, [
            {column: test[column] for column in columns} for test in rank_tests(tests)
        ]


def _failure(item: dict[str, Any], sentences: dict[str, str], pictures: Pictures) -> Failure:
    index, name = int(item["index"]), item["hypothesis"]
    shown = {caption: np.asarray(every[index], np.uint8) for caption, every in pictures.items()}
    parts = [f"{score} {format_number(value)}" for score, value in item["scores"].items()]
    scores = ", ".join([*parts, item["class"]] if "class" in item else parts)
    reason = sentences[name] if name else "no tested attribute explains it"
    digest = hashlib.sha256()
    figures = []
    for caption, one in shown.items():
        digest.update(f"{caption}{one.shape}".encode() + np.ascontiguousarray(one).data)
        outlined = None
        if one.ndim == 2:  # wrong cells of a reconstruction, stray ones of a sample
            wrong = one != next(iter(shown.values()))
            outlined = wrong if len(shown) > 1 else find_components(one[None]).stray[0]
        alt = f"{caption} of item {index}: {scores}"
        figures.append(look.picture(one, alt, caption, 128, outlined))
    explanation = "; ".join([reason, *item.get("faults", [])])
    subject = digest.hexdigest()
    return Failure(index, scores, name or UNEXPLAINED, explanation, figures, subject)


def _pictures(root: Path, dataset: str, sort: str) -> Pictures:
    """Pictures of all items by caption; those of reconstructed grids are of ARC-AGI."""
    arrays: dict[str, Any] = read_evidence(root, dataset)
    if sort == "samples":
        nearest = {"nearest in train": "sample_nearest"} if "sample_nearest" in arrays else {}
        return {caption: arrays[key] for caption, key in ({"sample": "samples"} | nearest).items()}
    if find_dataset(root, dataset).family == "grids":
        return {"input": arrays["arc"], "reconstruction": arrays["arc_predicted"]}
    truth = load_items(root / "data" / dataset, "test").items
    return {"input": truth, "reconstruction": arrays["predicted"]}


def ask(dataset: str, sort: str, failure: Failure, rater: str, opinions: list[Opinion]) -> None:
    """The question whether the explanation of a failure holds, and what people said."""
    subject = (failure.subject, failure.hypothesis)
    about = {o.rater: o.agrees for o in opinions if (o.subject_hash, o.hypothesis) == subject}
    key = f"thumb_{failure.item}_{subject}_{rater}"

    def keep() -> None:
        thumb = st.session_state[key]
        agrees = None if thumb is None else bool(thumb)
        with frame.sentences():
            jobs().store.opine(dataset, SORTS[sort][1], *subject, rater, agrees)

    given = int(about[rater]) if rater in about else None
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption("Does this explain it?", width="content")
        st.feedback("thumbs", key=key, default=given, on_change=keep)
        if about:
            agree = sum(about.values())
            st.caption(f"{agree} agree, {len(about) - agree} don't", width="content")


def main() -> None:
    dataset = frame.choose_dataset()
    left, right = st.columns(2)
    with left:
        sort = frame.choose("Sort", list(SORTS), "sort")
    with right:
        rater = frame.ask_rater()
    failures, hypotheses = read_failures(ROOT, dataset, sort)
    opinions = jobs().store.find(Opinion, dataset=dataset)
    counts = Counter(failure.hypothesis for failure in failures)
    wanted = st.pills(
        "Explained by", [each for each, _ in counts.most_common()], selection_mode="multi",
        format_func=to_words, key="hypothesis", bind="query-params",
    )  # fmt: skip
    shown = [failure for failure in failures if not wanted or failure.hypothesis in wanted]
    st.write(f"**{len(shown)}** of {len(failures)} {sort}.")
    cards = st.grid(3, min_column_width=300, border=True)
    for failure in shown:
        with cards.cell():
            st.html(look.pictures(failure.figures))
            st.write(f"**Item {failure.item}**: {label(failure.scores)}")
            st.write(f"Why: {label(failure.explanation)}.")
            if failure.hypothesis != UNEXPLAINED:
                ask(dataset, sort, failure, rater, opinions)
    st.subheader("The hypotheses and their evidence", anchor=False)
    st.caption(
        "Error of items that have the attribute over that of items that don't, within the same"
        " number of objects or the same class. Supported: it is above 1 beyond chance; refuted:"
        " below. At most 5 % of the decided ones are expected to be decided by chance."
    )
    frame.table(hypotheses, f"{len(hypotheses)} hypotheses about {sort}")
