"""What people can rate, and one person's way through it: blind, in random order, with undo.

The order differs between raters and is the same when they return. An image's address names its
content, so that nothing on the page names the tool.
"""

from __future__ import annotations

import base64
import hashlib
import io
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from genlab.benchmark.cases import Case, load_case
from genlab.benchmark.store.repository import Store
from genlab.core.errors import GenlabError
from genlab.core.io import read_npz
from genlab.datasets.arc_grids import find_data_file, load_split
from genlab.grids.palette import to_rgb
from genlab.web.components.outlines import connect
from genlab.web.jobs import Jobs

Kind = Literal["run_item", "vae_sample", "reconstruction"]
KINDS: dict[Kind, str] = {
    "run_item": "Swapped images",
    "vae_sample": "Samples of the model",
    "reconstruction": "Reconstructions",
}
EVALUATE = "dvc repro evaluate"
SHOWN = 200  # samples or reconstructions of a dataset
CONTROL = "control_"
LARGE = 640

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Subject:
    """Something to rate. url: its image; pixels: whether to draw pixels as squares.

    template: address of the template, or of the original; case: None where it is gone.
    """

    kind: Kind
    sha256: str
    url: str
    template: str = ""
    case: Case | None = None
    item_id: int | None = None
    case_id: str = ""
    pixels: bool = False

    @property
    def swaps(self) -> str:
        """A picture of who is replaced by whom, drawn when it is shown."""
        return connect(self.case) if self.case else ""

    @property
    def urls(self) -> list[str]:
        """Addresses of what is shown."""
        return [url for url in (self.url, self.template) if url and not url.startswith("data:")]


def list_run(jobs: Jobs, run_id: str, *, controls: bool = False) -> list[Subject]:
    """The images of a run, each content once. controls: whether those of controls, too."""
    run = jobs.store.run(run_id)
    cases = {str(known["case_id"]): _load(known) for known in run.cases}
    found: dict[str, Subject] = {}
    for item in jobs.store.items(run_id):
        if item.image_sha256 and (controls or not item.tool_id.startswith(CONTROL)):
            url = f"/api/pictures/{item.image_sha256}?width={LARGE}"
            subject = _subject(item.image_sha256, url, item.item_id, item.case_id, cases)
            found.setdefault(item.image_sha256, subject)
    return list(found.values())


def list_dataset(jobs: Jobs, dataset: str, kind: Kind) -> list[Subject]:
    """Samples or reconstructions that stage evaluate kept.

    Raises a `GenlabError` that names the command where they are missing.
    """
    evidence = jobs.root / "data" / "evaluated" / dataset / "evidence.npz"
    key = "samples" if kind == "vae_sample" else "predicted"
    arrays = read_npz(evidence, kind="evaluation", keys=[key], producer_command=EVALUATE)
    found = arrays[key][:SHOWN]
    originals = _originals(jobs.root / "data" / dataset, len(found)) if key == "predicted" else None
    subjects = {}
    for index, pixels in enumerate(found):
        # The dataset is part of it: the same array of two datasets is two images.
        content = f"{dataset} {pixels.shape} ".encode() + pixels.tobytes()
        digest = hashlib.sha256(content).hexdigest()
        original = _encode(originals[index]) if originals is not None else ""
        subjects[digest] = Subject(kind, digest, _encode(pixels), original, pixels=True)
    return list(subjects.values())


@dataclass
class Session:
    """One person's way through subjects; what was rated before is not asked again."""

    store: Store
    rater: str
    subjects: Sequence[Subject]
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        ratings = self.store.ratings(rater=self.rater, context="blind")
        rated = {rating.subject_hash for rating in ratings}
        self.before = sum(subject.sha256 in rated for subject in self.subjects)
        waiting = [subject for subject in self.subjects if subject.sha256 not in rated]
        self.queue = sorted(waiting, key=lambda subject: _draw(self.rater, subject.sha256))
        self.position = 0
        self.given: dict[str, int] = {}

    @property
    def current(self) -> Subject | None:
        """What is to be rated now; None at the end."""
        return self.queue[self.position] if self.position < len(self.queue) else None

    @property
    def ahead(self) -> list[Subject]:
        """The next ones, for a browser to fetch."""
        return self.queue[self.position + 1 : self.position + 4]

    @property
    def done(self) -> int:
        """Number of subjects that have this rater's stars."""
        return self.before + len(self.given)

    def rate(self, stars: int) -> None:
        """Give 1 to 5 stars to the current subject and go on."""
        subject = self.current
        if subject is None:  # a second press at the very end
            return
        self._keep(subject, stars)
        self.given[subject.sha256] = stars
        self.position += 1

    def skip(self) -> None:
        """Go on without stars; the subject comes again another time."""
        self.position = min(self.position + 1, len(self.queue))

    def undo(self) -> None:
        """Go back by one and delete the stars given there."""
        if self.position == 0:
            return
        self.position -= 1
        subject = self.queue[self.position]
        if self.given.pop(subject.sha256, None) is not None:
            self._keep(subject, None)

    def _keep(self, subject: Subject, stars: int | None) -> None:
        key = subject.kind, subject.sha256, self.rater
        self.store.rate(*key, stars, "blind", session=self.name)


@dataclass
class Pairs:
    """One person's way through pairs of images of one case: which is better?"""

    store: Store
    rater: str
    subjects: Sequence[Subject]
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        items = [subject for subject in self.subjects if subject.item_id is not None]
        pairs = [pair for pair in combinations(items, 2) if pair[0].case_id == pair[1].case_id]
        known = {
            frozenset((kept.first_item, kept.second_item))
            for kept in self.store.preferences()
            if kept.rater == self.rater
        }
        waiting = [pair for pair in pairs if frozenset(s.item_id for s in pair) not in known]
        self.before, self.total = len(pairs) - len(waiting), len(pairs)
        waiting.sort(key=lambda pair: _draw(self.rater, pair[0].sha256, pair[1].sha256))
        self.queue = [  # the sides are random, too
            pair if _draw(self.rater, "side", pair[0].sha256, pair[1].sha256) < "8" else pair[::-1]
            for pair in waiting
        ]
        self.position = 0

    @property
    def current(self) -> tuple[Subject, Subject] | None:
        """Left and right; None at the end."""
        return self.queue[self.position] if self.position < len(self.queue) else None

    @property
    def ahead(self) -> list[Subject]:
        """The next pair."""
        return [s for pair in self.queue[self.position + 1 : self.position + 2] for s in pair]

    @property
    def done(self) -> int:
        """Number of pairs behind this rater."""
        return self.before + self.position

    def prefer(self, side: Literal["left", "right"]) -> None:
        """Keep which is better and go on."""
        pair = self.current
        if pair is None:
            return
        winner, loser = pair if side == "left" else pair[::-1]
        self.store.prefer(self.rater, winner.item_id or 0, loser.item_id or 0, session=self.name)
        self.position += 1

    def skip(self) -> None:
        """Go on without an answer."""
        self.position = min(self.position + 1, len(self.queue))

    def undo(self) -> None:
        """Ask the last pair again: the last answer to it counts."""
        self.position = max(self.position - 1, 0)


def _load(known: dict[str, object]) -> Case | None:
    try:
        return load_case(Path(str(known.get("folder", ""))))
    except (GenlabError, OSError):
        return None


def _subject(
    sha256: str, url: str, item_id: int, case_id: str, cases: dict[str, Case | None]
) -> Subject:
    case = cases.get(case_id)
    if case is None:
        return Subject("run_item", sha256, url, item_id=item_id, case_id=case_id)
    template = f"/api/test-cases/{case_id}/template?width={LARGE}"
    return Subject("run_item", sha256, url, template, case, item_id, case_id)


def _originals(folder: Path, count: int) -> Pixels | None:
    """The first test items of a dataset; None where they are missing."""
    images = folder / "test.npy"
    if images.is_file():
        found: Pixels = np.load(images, mmap_mode="r", allow_pickle=False)[:count]
        return found
    try:
        return load_split(find_data_file(folder), "test")[:count]
    except GenlabError:
        return None


def _encode(pixels: Pixels) -> str:
    """A grid or an image, (height, width) or (height, width, channels), as a PNG data URL."""
    if pixels.ndim == 2:
        pixels = to_rgb(pixels)
    elif pixels.shape[-1] == 1:
        pixels = pixels[..., 0]
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _draw(*parts: str) -> str:
    """A random key that is the same for the same parts."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()
