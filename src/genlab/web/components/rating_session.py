"""What people can rate, and one person's way through it: blind, in random order, with undo.

The order differs between raters and is the same when they return. An image's address names its
content, so that nothing on the page names the tool.
"""

import hashlib
import random
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from genlab.benchmark.cases import Case
from genlab.benchmark.service.jobs import Jobs
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Preference
from genlab.core.errors import GenlabError
from genlab.web.components.grid import read_run_case
from genlab.web.components.look import data_url, pixels
from genlab.web.images import case_image_url
from genlab.web.items import load_items, read_evidence

Kind = Literal["run_item", "vae_sample", "reconstruction"]
KINDS: dict[Kind, str] = {
    "run_item": "Swapped images",
    "vae_sample": "Samples of the model",
    "reconstruction": "Reconstructions",
}
PAUSE = 0.4  # seconds; nobody has seen the next image sooner


@dataclass(frozen=True)
class Subject:
    """Something to rate. url: its image; template: address of the template, or of the original.

    case: of an image of a run, or why it cannot be shown.
    """

    kind: Kind
    sha256: str
    url: str
    template: str = ""
    case: Case | str = ""
    item_id: int = 0
    case_id: str = ""
    contender: str = ""


def list_run(jobs: Jobs, run_id: str, controls: bool = False) -> list[Subject]:
    """The images of a run, each content once. controls: whether those of controls, too."""
    store = jobs.store
    known_cases = store.run(run_id).cases
    cases = {known["case_id"]: read_run_case(store, run_id, known) for known in known_cases}
    found: dict[str, Subject] = {}
    for item in jobs.store.items(run_id):
        if item.image_sha256 and (controls or not item.tool_id.startswith("control_")):
            sha, case = item.image_sha256, cases[item.case_id]
            url = f"/api/pictures/{sha}?width=640"
            there = isinstance(case, Case)
            template = case_image_url(item.case_id, "template", "640") if there else ""
            own = item.item_id, item.case_id, item.contender
            subject = Subject("run_item", sha, url, template, case, *own)
            found.setdefault(sha, subject)
    return list(found.values())


def list_dataset(jobs: Jobs, dataset: str, kind: Kind) -> list[Subject]:
    """Samples or reconstructions that stage evaluate kept.

    Raises a `GenlabError` that names the command where they are missing.
    """
    key = "samples" if kind == "vae_sample" else "predicted"
    found = read_evidence(jobs.root, dataset)[key]
    originals = None
    if kind == "reconstruction":
        with suppress(GenlabError):
            originals = load_items(jobs.root / "data" / dataset, "test").items
            if len(originals) != len(found):  # split again, and not evaluated yet
                originals = None
    subjects = {}
    for index, item in enumerate(found[:200]):
        # The dataset is part of it: the same array of two datasets is two images.
        content = f"{dataset} {item.shape} ".encode() + item.tobytes()
        digest = hashlib.sha256(content).hexdigest()
        original = "" if originals is None else data_url(pixels(originals[index]))
        subjects[digest] = Subject(kind, digest, data_url(pixels(item)), original)
    return list(subjects.values())


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
        """Give 1 to 5 stars, or say which of a pair is better (1 left, 2 right), and go on.

        An answer within PAUSE of the last one is ignored: a held key, or a double click.
        """
        before, self._pressed = self._pressed, time.monotonic()
        if self._pressed - before < PAUSE or not self.current:
            return
        self._keep(value)
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
            self._keep(None)

    def _keep(self, value: int | None) -> None:
        task = self.current
        if self.paired:
            winner, loser = task if value == 1 else task[::-1]
            self.store.prefer(self.rater, winner.item_id, loser.item_id, session=self.name)
        else:
            key = task[0].kind, task[0].sha256, self.rater
            self.store.rate(*key, value, "blind", session=self.name)
