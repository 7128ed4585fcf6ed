"""An item of a run: request, image, score, cost, and how it ended.

An item changes only by the methods of `ItemResult`, each of which is a transition of `TRANSITIONS`.
Nothing reaches the file before the store saves the item.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict
from sqlalchemy import (
    JSON,
    CheckConstraint,
    Column,
    Dialect,
    Index,
    TypeDecorator,
    UniqueConstraint,
)
from sqlmodel import Field, SQLModel

Status = Literal["queued", "generating", "generated", "evaluating", "scored", "failed", "skipped"]
STATUSES: tuple[Status, ...] = get_args(Status)
FINISHED = ("scored", "failed", "skipped")

TRANSITIONS: Mapping[Status, tuple[Status, ...]] = {
    "queued": ("generating", "generated", "failed", "skipped"),
    "generating": ("queued", "generating", "generated", "failed", "skipped"),
    "generated": ("queued", "generated", "evaluating", "failed", "skipped"),
    "evaluating": ("queued", "generated", "scored", "failed", "skipped"),
    "scored": ("queued", "evaluating"),
    "failed": ("queued", "generated", "evaluating", "failed"),
    "skipped": ("queued", "generated", "failed"),
}
"""Statuses that may follow each status. An item whose image is lost is queued again."""

CANCELLED = "the run was cancelled; resume it to continue"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True)


class Reused(_Record):
    """The earlier run from which an image was copied, and the image's cost there in dollars."""

    run_id: str
    cost: float = 0.0


class TermValue(_Record):
    """A term of a score without its picture; see `genlab.benchmark.scoring.terms.Term`."""

    term: str
    value: float
    sentence: str = ""
    parts: dict[str, float | None] = {}
    person: str = ""
    reference: bool = False


class ScoreDetails(_Record):
    """Details of a score: terms, remarks, and versions of constants and models."""

    components_reference: dict[str, float | None] = {}
    terms: list[TermValue] = []
    notes: list[str] = []
    versions: dict[str, str] = {}


class Judging(_Record):
    """A judge's remarks on an image, or why it gave no stars. date: of the request, ISO 8601."""

    judge: str
    date: str = ""
    reason: str = ""
    answer: str = ""
    failure_kind: str = ""
    failure: str = ""


Record = TypeVar("Record", bound=BaseModel)


class RecordType(TypeDecorator[Record]):
    """A pydantic model, or None, in a column of JSON."""

    impl = JSON(none_as_null=True)
    cache_ok = True

    def __init__(self, model: type[Record]) -> None:
        super().__init__()
        self.model = model

    def process_bind_param(self, value: Record | None, dialect: Dialect) -> Any:
        return None if value is None else value.model_dump(mode="json")

    def process_result_value(self, value: Any, dialect: Dialect) -> Record | None:
        return None if value is None else self.model.model_validate(value)


class ItemResult(SQLModel, table=True):
    """One draw of a contender for a case, from its request to its score or failure."""

    __tablename__ = "run_items"
    __table_args__ = (
        UniqueConstraint("run_id", "case_id", "contender", "repeat"),
        CheckConstraint(f"status IN {STATUSES}"),
        CheckConstraint("score IS NULL OR (score >= 0 AND score <= 1)"),
        CheckConstraint("score_reference IS NULL OR score_reference BETWEEN 0 AND 1"),
        Index("run_items_by_contender", "contender", "status"),
        Index("run_items_by_image", "image_sha256"),
        {"sqlite_autoincrement": True},  # the id of a deleted row is never used again
    )

    # the request
    item_id: int = Field(default=None, primary_key=True)
    run_id: str = Field(foreign_key="runs.run_id", ondelete="CASCADE")
    case_id: str
    tool_id: str
    contender: str
    repeat: int = 1
    # its progress
    status: str = "queued"
    attempts: int = 0  # requests
    failure_kind: str = ""
    failure: str = ""
    updated: str = ""
    # the image
    image: str = ""  # path relative to the store's folder, with forward slashes
    image_sha256: str = ""
    seconds: float = 0.0  # of the request that succeeded
    note: str = ""  # of the tool, or how its image was fitted to the template's size
    reused: Reused | None = Field(default=None, sa_column=Column(RecordType(Reused)))
    # its score
    score: float | None = None
    score_reference: float | None = None  # against the ideal of a ground-truth case
    score_version: str = ""  # of the scorer's constants; scores of two versions do not compare
    components: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    scoring: ScoreDetails | None = Field(default=None, sa_column=Column(RecordType(ScoreDetails)))
    judging: Judging | None = Field(default=None, sa_column=Column(RecordType(Judging)))
    # its cost
    cost: float = 0.0  # dollars, of all requests and of the judge

    @property
    def finished(self) -> bool:
        """Whether the item is scored, failed or skipped."""
        return self.status in FINISHED

    @property
    def total_cost(self) -> float:
        """Dollars, including those that a reused image cost in an earlier run."""
        return self.cost + (self.reused.cost if self.reused else 0.0)

    def charge(self, dollars: float) -> None:
        """Add to the item's cost; a negative amount takes an estimate back."""
        self.cost = max(0.0, self.cost + dollars)

    # transitions

    def _move(self, status: Status, kind: str = "", reason: str = "") -> None:
        if status not in TRANSITIONS[self.status]:  # type: ignore[index]
            raise ValueError(f"item {self.item_id} is {self.status}: it cannot become {status}")
        self.status = status
        self.failure_kind = kind
        self.failure = reason

    def queue(self, reason: str = "") -> None:
        """Remove image and score, so that the image is made again. reason: why."""
        self._move("queued", reason=reason)
        self.image = self.image_sha256 = self.note = ""
        self.seconds = 0.0
        self.reused = self.judging = None
        self._clear_score()

    def start_request(self) -> None:
        """Record that a request is about to be sent."""
        self._move("generating")
        self.attempts += 1

    def record_image(self, image: str, sha256: str, seconds: float = 0.0, note: str = "") -> None:
        """Record an image that is on disk.

        image: path relative to the store's folder; seconds: of the request, 0 to keep the recorded
        value; note: "" to keep the recorded one.
        """
        self._move("generated")
        self.image = image
        self.image_sha256 = sha256
        self.seconds = seconds or self.seconds
        self.note = note or self.note

    def start_scoring(self) -> None:
        """Record that the image is about to be scored."""
        self._move("evaluating")
        self._clear_score()

    def record_score(
        self,
        score: float,
        score_reference: float | None,
        components: Mapping[str, float | None],
        scoring: ScoreDetails,
    ) -> None:
        """Record the image's score."""
        self._move("scored")
        self.score = score
        self.score_reference = score_reference
        self._explain(components, scoring)

    def fail(
        self,
        kind: str,
        reason: str,
        components: Mapping[str, float | None] | None = None,
        scoring: ScoreDetails | None = None,
    ) -> None:
        """Record why there is no image or score. kind: a tool's failure or a scorer's outcome."""
        self._move("failed", kind, reason or kind)
        if scoring is not None:
            self._explain(components or {}, scoring)

    def skip(self, kind: str, reason: str) -> None:
        """Record why nothing was sent; the item is tried again when the run is resumed."""
        self._move("skipped", kind, reason or kind)

    def cancel(self) -> None:
        """Record that the run was cancelled before the item ended."""
        self.skip("cancelled", CANCELLED)

    def _explain(self, components: Mapping[str, float | None], scoring: ScoreDetails) -> None:
        self.components = dict(components)
        self.scoring = scoring
        self.score_version = scoring.versions.get("constants", "")

    def _clear_score(self) -> None:
        self.score = self.score_reference = self.scoring = None
        self.score_version = ""
        self.components = {}
