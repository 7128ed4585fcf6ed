"""What people can rate, and one person's way through it: blind, in random order, with undo.

The order differs between raters and is the same when they return.
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
PAUSE = 0.4  # seconds; nobody has seen the next image sooner
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
    """The images of a run, each content once. controls: whether those of controls, too."""
    store.run(run_id)
    found: dict[str, Subject] = {}
    for item in store.items(run_id):
        if item.image_sha256 and (controls or not item.tool_id.startswith("control_")):
            asked = item.item_id, item.case_id, item.contender
            subject = Subject("run_item", item.image_sha256, *asked)
            found.setdefault(item.image_sha256, subject)
    return list(found.values())


def name_guest(client: str = "") -> str:
    """Name a rater who gives no name: one name per client, a new one where none is known.

    client: what distinguishes it, such as the secret of a browser's session; it cannot be found
    from the name.
    """
    digest = hashlib.sha256(client.encode()).hexdigest() if client else secrets.token_hex(4)
    return f"guest-{digest[:8]}"


def draw_swaps(case: Case) -> Image.Image:
    """The template over its avatars, a line from each face to who replaces it."""
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
    """One person's way through images, or through pairs of images of a case by two contenders.

    A task is a tuple of one or two subjects. What was answered before is not asked again.
    """

    def __init__(
        self, store: Store, rater: str, subjects: Sequence[Subject], *, paired: bool = False
    ) -> None:
        self.store, self.rater, self.paired = store, rater, paired
        self.name = uuid.uuid4().hex
        self.position = 0
        self._pressed = -PAUSE  # when an answer came last, by `time.monotonic()`
        self._answered: set[int] = set()  # positions
        if paired:
            tasks = [
                [one, other]
                for one, other in combinations(subjects, 2)
                if one.case_id == other.case_id and one.contender != other.contender
            ]
            kept = store.find(Preference, rater=rater)
            known = {frozenset((answer.first_item, answer.second_item)) for answer in kept}
            waiting = [pair for pair in tasks if {s.item_id for s in pair} not in known]
        else:
            tasks = [[subject] for subject in subjects]
            rated = {each.subject_hash for each in store.ratings(rater=rater, context="blind")}
            waiting = [task for task in tasks if task[0].sha256 not in rated]
        self.total = len(tasks)
        self._before = self.total - len(waiting)
        drawn = []
        for task in waiting:
            seed = "\0".join([rater, *(subject.sha256 for subject in task)])
            generator = random.Random(seed.encode("utf-8", "replace"))
            drawn.append((generator.random(), generator.sample(task, len(task))))  # sides, too
        self.queue = [task for _, task in sorted(drawn, key=lambda pair: pair[0])]

    @property
    def current(self) -> list[Subject]:
        """What is to be rated now: one subject, or left and right; empty at the end."""
        return self.queue[self.position] if self.position < len(self.queue) else []

    @property
    def ahead(self) -> list[Subject]:
        """The next ones, for a browser to fetch."""
        return [one for task in self.queue[self.position + 1 : self.position + 4] for one in task]

    @property
    def done(self) -> int:
        """Number of tasks that this rater has answered."""
        return self._before + len(self._answered)

    def answer(self, value: int) -> None:
        """Give 1 to 5 stars, or say of a pair 1 left, 2 right, 3 tie or 4 both bad, and go on.

        An answer within PAUSE of the last one is ignored: a held key, or a double click.
        """
        before, self._pressed = self._pressed, time.monotonic()
        if self._pressed - before < PAUSE or not self.current:
            return
        if self.paired:
            left, right = (subject.item_id for subject in self.current)
            outcome = OUTCOMES[value - 1]
            self.store.prefer(self.rater, left, right, outcome, session=self.name)
        else:
            self._give(value)
        self._answered.add(self.position)
        self.position += 1

    def skip(self) -> None:
        """Go on without an answer; it is asked again another time."""
        self.position = min(self.position + 1, len(self.queue))

    def undo(self) -> None:
        """Go back by one. Stars given there are deleted; of a pair, the last answer counts."""
        if self.position == 0:
            return
        self.position -= 1
        self._pressed = -PAUSE  # this image has been seen
        if self.position in self._answered and not self.paired:
            self._answered.remove(self.position)
            self._give(None)

    def _give(self, stars: int | None) -> None:
        [subject] = self.current
        key = subject.kind, subject.sha256, self.rater
        self.store.rate(*key, stars, "blind", session=self.name)
