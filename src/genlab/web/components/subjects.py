"""Subjects that people rate, and their addresses, which name the content and never the tool."""

import hashlib
from contextlib import suppress

from genlab.benchmark.cases import Case
from genlab.benchmark.service.jobs import Jobs
from genlab.benchmark.service.rating_session import Kind, Subject
from genlab.core.errors import GenlabError
from genlab.web.components.look import data_url, pixels
from genlab.web.images import case_image_url
from genlab.web.items import load_items, read_evidence

KINDS: dict[Kind, str] = {
    "run_item": "Swapped images",
    "vae_sample": "Samples of the model",
    "reconstruction": "Reconstructions",
}


def list_dataset(jobs: Jobs, dataset: str, kind: Kind) -> list[Subject]:
    """List samples or reconstructions that stage evaluate has written.

    Raises a `GenlabError` that names the command if they are missing.
    """
    key = "samples" if kind == "vae_sample" else "predicted"
    items = read_evidence(jobs.root, dataset)[key]
    originals = None
    if kind == "reconstruction":
        with suppress(GenlabError):
            originals = load_items(jobs.root / "data" / dataset, "test").items
            if len(originals) != len(items):  # split again, and not evaluated yet
                originals = None
    subjects = {}
    for index, item in enumerate(items[:200]):
        # With the dataset's name: equal arrays of two datasets are two subjects.
        content = f"{dataset} {item.shape} ".encode() + item.tobytes()
        digest = hashlib.sha256(content).hexdigest()
        original = None if originals is None else originals[index]
        subjects[digest] = Subject(kind, digest, pixels=item, original=original)
    return list(subjects.values())


def image_url(subject: Subject) -> str:
    """Return the address of the image to rate."""
    if subject.pixels is None:
        return f"/api/pictures/{subject.sha256}?width=640"
    return data_url(pixels(subject.pixels))


def template_url(subject: Subject, case: Case | str) -> str:
    """Return the address of the template or of the original, "" if there is none.

    case: the case of a run's image, or why it cannot be shown.
    """
    if isinstance(case, Case):
        return case_image_url(case.case_id, "template", "640")
    return "" if subject.original is None else data_url(pixels(subject.original))
