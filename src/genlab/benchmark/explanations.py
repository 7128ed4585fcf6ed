"""Explain the score of a run's item: its terms with values, sentences and overlays."""

from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from genlab.benchmark.cases import load_stored_case
from genlab.benchmark.scoring.pictures import UnscorableImage
from genlab.benchmark.scoring.scorer import measure
from genlab.benchmark.scoring.terms import Term
from genlab.benchmark.store.repository import Store
from genlab.core.errors import GenlabError
from genlab.core.io import atomic_write


def explain_item(store: Store, item_id: int) -> list[Term]:
    """Compute the terms of an item's score. Raises a `GenlabError` without a score or a case."""
    item = store.item(item_id)
    run = store.run(item.run_id)
    [stored] = [stored for stored in run.cases if stored["case_id"] == item.case_id]
    case = load_stored_case(store, item.run_id, stored)
    if not item.image:
        raise GenlabError(f"item {item_id} has no image: {item.failure or item.status}")
    try:
        return measure(case, store.path.parent / item.image)[1]
    except UnscorableImage as unfit:
        raise GenlabError(f"item {item_id} has no score: {unfit.note}") from unfit


def write_explanation(store: Store, item_id: int, folder: Path) -> Iterator[str]:
    """Write one overlay per term to `folder`; yields a line about each term."""
    for number, term in enumerate(explain_item(store, item_id), 1):
        name = f"{number:02d}-{label_term(term).replace(' ', '-')}.png"
        with atomic_write(folder / name) as temporary:
            Image.fromarray(term.overlay).save(temporary, "PNG")
        yield f"{label_term(term)} {term.value:.2f}: {term.sentence} ({folder / name})"


def label_term(term: Term) -> str:
    """Name a term with its score and its person."""
    words = ["reference" if term.reference else "", term.term.replace("_", " "), term.person]
    return " ".join(filter(None, words))
