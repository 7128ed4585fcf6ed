"""What a person can be asked to rate, and one person's way through it: blind, with undo.

The order is random, differs between raters and is the same when they come back. A picture's
address names its content, so nothing on the page tells the tool that made it.
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

from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Item
from genlab.core.io import read_npz
from genlab.grids.palette import to_rgb
from genlab.web.live import Live

Kind = Literal["run_item", "vae_sample", "reconstruction"]
KINDS: dict[Kind, str] = {
    "run_item": "Swapped pictures",
    "vae_sample": "Samples of the model",
    "reconstruction": "Reconstructions",
}
EVALUATE = "dvc repro evaluate"
SHOWN = 200  # samples, or reconstructions, of a dataset: as many as anybody rates
LARGE = 640

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Beside:
    """A picture that is shown beside the one to rate."""

    label: str
    url: str


@dataclass(frozen=True)
class Subject:
    """Something to rate. url: its picture; pixels: whether it is shown cell by cell."""

    kind: Kind
    sha256: str
    url: str
    beside: Sequence[Beside] = ()
    item_id: int | None = None
    case_id: str = ""
    pixels: bool = False


def of_run(live: Live, run_id: str) -> list[Subject]:
    """The pictures of a run, each content once."""
    run = live.store.run(run_id)
    folders = {str(case["case_id"]): Path(str(case.get("folder", ""))) for case in run.cases}
    found: dict[str, Subject] = {}
    for item in live.store.items(run_id):
        if item.image and item.image_sha256:
            folder = folders.get(item.case_id, Path())
            beside = _case_pictures(live, item.case_id, folder)
            found.setdefault(item.image_sha256, _subject(item, beside))
    return list(found.values())


def of_dataset(live: Live, dataset: str, kind: Kind) -> list[Subject]:
    """Samples or reconstructions that the stage evaluate left of a dataset.

    Raises a `GenlabError` that names the command where they are not there.
    """
    evidence = live.root / "data" / "evaluated" / dataset / "evidence.npz"
    key = "samples" if kind == "vae_sample" else "predicted"
    found = read_npz(evidence, kind="evaluation", keys=[key], producer_command=EVALUATE)[key][
        :SHOWN
    ]
    originals = _originals(live.root / "data" / dataset, len(found)) if key == "predicted" else None
    subjects = {}
    for index, pixels in enumerate(found):
        # The dataset goes in: the same array of two datasets is two pictures.
        digest = hashlib.sha256(
            f"{dataset} {pixels.shape} ".encode() + pixels.tobytes()
        ).hexdigest()
        beside = [Beside("original", _uri(originals[index]))] if originals is not None else []
        subjects[digest] = Subject(kind, digest, _uri(pixels), beside, pixels=True)
    return list(subjects.values())


@dataclass
class Session:
    """One person's way through some subjects. What was answered before is not asked again."""

    store: Store
    rater: str
    subjects: Sequence[Subject]
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        kinds = {subject.kind for subject in self.subjects}
        rated = {
            rating.subject_hash
            for kind in kinds
            for rating in self.store.ratings(kind, rater=self.rater)
        }
        self.before = sum(subject.sha256 in rated for subject in self.subjects)
        waiting = [subject for subject in self.subjects if subject.sha256 not in rated]
        self.queue = sorted(waiting, key=lambda one: _drawn(self.rater, one.sha256))
        self.place = 0
        self.given: dict[str, int] = {}

    @property
    def current(self) -> Subject | None:
        """What is to be rated now; None at the end."""
        return self.queue[self.place] if self.place < len(self.queue) else None

    @property
    def ahead(self) -> list[Subject]:
        """The next ones, so that a browser can fetch their pictures before they are shown."""
        return self.queue[self.place + 1 : self.place + 4]

    @property
    def done(self) -> int:
        """How many of the subjects have this rater's stars."""
        return self.before + len(self.given)

    def rate(self, stars: int) -> None:
        """Give 1 to 5 stars to the current subject, keep them, and go on to the next."""
        subject = self.current
        if subject is None:  # a second press at the very end
            return
        self._keep(subject, stars)
        self.given[subject.sha256] = stars
        self.place += 1

    def skip(self) -> None:
        """Go on to the next without stars; it comes again another time."""
        self.place = min(self.place + 1, len(self.queue))

    def undo(self) -> None:
        """Go back by one, and take back the stars that were given there."""
        if self.place == 0:
            return
        self.place -= 1
        subject = self.queue[self.place]
        if self.given.pop(subject.sha256, None) is not None:
            self._keep(subject, None)

    def _keep(self, subject: Subject, stars: int | None) -> None:
        self.store.rate(
            subject.kind,
            subject.sha256,
            self.rater,
            stars,
            run_item_id=subject.item_id,
            blind=True,
            session=self.name,
        )


@dataclass
class Pairs:
    """One person's way through pairs: two tools' pictures of one case, which is better?"""

    store: Store
    rater: str
    subjects: Sequence[Subject]
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        items = [subject for subject in self.subjects if subject.item_id is not None]
        pairs = [
            (one, other) for one, other in combinations(items, 2) if one.case_id == other.case_id
        ]
        known = {
            frozenset((told.first_item, told.second_item))
            for told in self.store.preferences()
            if told.rater == self.rater
        }
        waiting = [pair for pair in pairs if _ids(pair) not in known]
        self.before = len(pairs) - len(waiting)
        self.total = len(pairs)
        waiting.sort(key=lambda pair: _drawn(self.rater, pair[0].sha256, pair[1].sha256))
        # Which stands on the left is drawn, too.
        self.queue = [
            pair if _drawn(self.rater, "side", pair[0].sha256, pair[1].sha256) < "8" else pair[::-1]
            for pair in waiting
        ]
        self.place = 0

    @property
    def current(self) -> tuple[Subject, Subject] | None:
        """Left and right; None at the end."""
        return self.queue[self.place] if self.place < len(self.queue) else None

    @property
    def ahead(self) -> list[Subject]:
        """The pictures of the next pair."""
        return [subject for pair in self.queue[self.place + 1 : self.place + 2] for subject in pair]

    @property
    def done(self) -> int:
        """How many pairs are behind this rater."""
        return self.before + self.place

    def prefer(self, side: Literal["left", "right"]) -> None:
        """Keep which is better, and go on."""
        pair = self.current
        if pair is None:
            return
        winner, loser = pair if side == "left" else pair[::-1]
        self.store.prefer(self.rater, winner.item_id or 0, loser.item_id or 0, session=self.name)
        self.place += 1

    def skip(self) -> None:
        """Go on without an answer."""
        self.place = min(self.place + 1, len(self.queue))

    def undo(self) -> None:
        """Ask the last pair again: the last answer to it counts."""
        self.place = max(self.place - 1, 0)


def _ids(pair: tuple[Subject, Subject]) -> frozenset[int | None]:
    return frozenset(subject.item_id for subject in pair)


def _subject(item: Item, beside: Sequence[Beside]) -> Subject:
    url = f"/api/pictures/{item.image_sha256}?width={LARGE}"
    return Subject("run_item", item.image_sha256, url, beside, item.item_id, item.case_id)


def _case_pictures(live: Live, case_id: str, folder: Path) -> list[Beside]:
    case = live.case(folder)
    if case is None or case.case_id != case_id:
        return []
    base = f"/api/test-cases/{case_id}"
    avatars = dict.fromkeys(swap.avatar for swap in case.swaps)
    return [
        Beside("before", f"{base}/template?width={LARGE}"),
        *(Beside(f"with the face of {name}", f"{base}/{name}?width=320") for name in avatars),
    ]


def _originals(folder: Path, count: int) -> Pixels | None:
    """The first test items of a dataset, as they were; None where they are not there."""
    images, grids = folder / "test.npy", folder / "simplified_dataset_100k.npz"
    if images.is_file():
        found: Pixels = np.load(images, mmap_mode="r", allow_pickle=False)[:count]
        return found
    if grids.is_file():
        from genlab.datasets.arc_grids import load_split

        return load_split(folder, "test")[:count]
    return None


def _uri(pixels: Pixels) -> str:
    """A grid or an image, (height, width) or (height, width, channels), as a PNG in an address."""
    if pixels.ndim == 2:
        image = Image.fromarray(to_rgb(pixels))
    else:
        image = Image.fromarray(
            np.ascontiguousarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
        )
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _drawn(*parts: str) -> str:
    """A draw that is the same for the same parts and tells nothing about them."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()
