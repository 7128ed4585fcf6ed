"""Subjects that people can rate, and a rater's session: blind, in random order, with undo.

The order differs between raters and is the same when a rater returns.
"""

import hashlib
import random
import secrets
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Literal

import numpy.typing as npt
from PIL import Image, ImageDraw

from genlab.benchmark.cases import Case
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import OUTCOMES, Preference

Kind = Literal["run_item", "vae_sample", "reconstruction"]
PAUSE = 0.4  # seconds; a faster answer cannot be about the next image
OUTLINE = "#e8590c"  # of faces


@dataclass(frozen=True)
class Subject:
    """Something to rate: an image of a run, or `pixels` of a dataset with their `original`."""

    kind: Kind
    sha256: str
    item_id: int = 0
    case_id: str = ""
    contender: str = ""
    pixels: npt.NDArray[Any] | None = field(default=None, compare=False)
    original: npt.NDArray[Any] | None = field(default=None, compare=False)


def list_run(store: Store, run_id: str, controls: bool = False) -> list[Subject]:
    """List the images of a run, without duplicates. controls: whether to include controls.

    Raises a `GenlabError` if there is no such run.
    """
    store.run(run_id)
    subjects: dict[str, Subject] = {}
    for item in store.items(run_id):
        sha256 = item.image_sha256
        if sha256 and (controls or not item.tool_id.startswith("control_")):
            subject = Subject("run_item", sha256, item.item_id, item.case_id, item.contender)
            subjects.setdefault(sha256, subject)
    return list(subjects.values())


def name_guest(client: str = "") -> str:
    """Name a rater who gives no name: one name per client, a new one if `client` is empty.

    client: a secret that identifies the client, such as a browser's cookie; the name does not
    reveal it.
    """
    digest = hashlib.sha256(client.encode()).hexdigest() if client else secrets.token_hex(4)
    return f"guest-{digest[:8]}"


def draw_swaps(case: Case) -> Image.Image:
    """Draw the template above its avatars, with a line from each face to its replacement."""
    template = case.open_template()
    gap = round(template.width * 0.03)
    side = min(round(template.width * 0.22), (template.width - gap) // len(case.swaps) - gap)
    top = template.height + gap
    sheet = Image.new("RGB", (template.width, top + side + gap), "white")
    sheet.paste(template, (0, 0))
    pen = ImageDraw.Draw(sheet)
    stroke = max(2, template.width // 200)
    for number, swap in enumerate(sorted(case.swaps, key=lambda swap: swap.region.left)):
        face_left, _, face_right, bottom = swap.region.box
        left = gap + number * (side + gap)
        avatar = case.open_avatar(swap.avatar).resize((side, side), Image.Resampling.LANCZOS)
        sheet.paste(avatar, (left, top))
        for box in (swap.region.box, (left, top, left + side, top + side)):
            pen.rectangle(box, outline=OUTLINE, width=stroke)
        ends = (face_left + face_right) / 2, bottom, left + side / 2, top
        pen.line(ends, fill=OUTLINE, width=stroke)
    sheet.thumbnail((640, 1280), Image.Resampling.LANCZOS)
    return sheet


class Session:
    """A rater's session with images, or with pairs of images of a case by two contenders.

    A task is a list of one or two subjects. Tasks that the rater has answered are not asked again.
    """

    def __init__(
        self, store: Store, rater: str, subjects: Sequence[Subject], *, paired: bool = False
    ) -> None:
        self.store = store
        self.rater = rater
        self.paired = paired
        self.name = uuid.uuid4().hex
        self.position = 0
        self._last_answer = -PAUSE  # its time, by `time.monotonic()`
        self._answered: set[int] = set()  # positions
        tasks = _list_pairs(subjects) if paired else [[subject] for subject in subjects]
        unanswered = self._list_unanswered(tasks)
        self.total = len(tasks)
        self._answered_before = self.total - len(unanswered)
        self.queue = _shuffle(unanswered, rater)

    def _list_unanswered(self, tasks: Sequence[list[Subject]]) -> list[list[Subject]]:
        if self.paired:
            preferences = self.store.find(Preference, rater=self.rater)
            pairs = {frozenset((row.first_item, row.second_item)) for row in preferences}
            return [task for task in tasks if {s.item_id for s in task} not in pairs]
        ratings = self.store.ratings(rater=self.rater, context="blind")
        rated = {rating.subject_hash for rating in ratings}
        return [task for task in tasks if task[0].sha256 not in rated]

    @property
    def current(self) -> list[Subject]:
        """The task to answer now: one subject, or left and right; empty at the end."""
        return self.queue[self.position] if self.position < len(self.queue) else []

    @property
    def ahead(self) -> list[Subject]:
        """Subjects of the next three tasks, which a browser can fetch in advance."""
        next_tasks = self.queue[self.position + 1 : self.position + 4]
        return [subject for task in next_tasks for subject in task]

    @property
    def done(self) -> int:
        """Number of tasks that this rater has answered."""
        return self._answered_before + len(self._answered)

    def answer(self, value: int) -> None:
        """Give 1 to 5 stars, or answer a pair: 1 left, 2 right, 3 tie, 4 both bad; then go on.

        An answer within PAUSE of the last one is ignored: a held key, or a double click.
        """
        moment = time.monotonic()
        pause = moment - self._last_answer
        self._last_answer = moment
        if pause < PAUSE or not self.current:
            return
        if self.paired:
            left, right = (subject.item_id for subject in self.current)
            outcome = OUTCOMES[value - 1]
            self.store.prefer(self.rater, left, right, outcome, session=self.name)
        else:
            self._rate(value)
        self._answered.add(self.position)
        self.position += 1

    def skip(self) -> None:
        """Go on without an answer; a later session asks again."""
        self.position = min(self.position + 1, len(self.queue))

    def undo(self) -> None:
        """Go back by one task. Its stars are deleted; the answer to a pair stays until the next."""
        if self.position == 0:
            return
        self.position -= 1
        self._last_answer = -PAUSE  # the rater has seen this task: no pause is needed
        if self.position in self._answered and not self.paired:
            self._answered.remove(self.position)
            self._rate(None)

    def _rate(self, stars: int | None) -> None:
        [subject] = self.current
        self.store.rate(subject.kind, subject.sha256, self.rater, stars, "blind", session=self.name)


def _list_pairs(subjects: Sequence[Subject]) -> list[list[Subject]]:
    """List the pairs of subjects of the same case by two contenders."""
    return [
        [first, second]
        for first, second in combinations(subjects, 2)
        if first.case_id == second.case_id and first.contender != second.contender
    ]


def _shuffle(tasks: Sequence[list[Subject]], rater: str) -> list[list[Subject]]:
    """Order tasks, and the sides of pairs, at random but always the same for a rater."""
    keyed = []
    for task in tasks:
        seed = "\0".join([rater, *(subject.sha256 for subject in task)])
        generator = random.Random(seed.encode("utf-8", "replace"))
        key = generator.random()
        keyed.append((key, generator.sample(task, len(task))))
    return [task for _, task in sorted(keyed, key=lambda entry: entry[0])]
