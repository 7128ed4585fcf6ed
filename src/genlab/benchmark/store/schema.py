"""The store's tables: runs, their items, ratings, preferences and opinions.

The schema is stated here alone; `genlab.benchmark.store.migrations` creates what a file lacks.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated, Any, Literal, get_args

from pydantic import Strict, StringConstraints
from sqlalchemy import JSON, CheckConstraint, Index, UniqueConstraint
from sqlmodel import Field, SQLModel

Status = Literal["queued", "generating", "generated", "evaluating", "scored", "failed", "skipped"]
STATUSES: tuple[Status, ...] = get_args(Status)
FINISHED = ("scored", "failed", "skipped")

MAX_RATER = 80
# Printable, and no formula: a spreadsheet runs a cell that starts with = + - or @.
_PRINTABLE = rf"^[^=+@\p{{C}}\p{{Z}}-][^\p{{C}}\p{{Zl}}\p{{Zp}}]{{0,{MAX_RATER - 1}}}$"
Rater = Annotated[str, StringConstraints(pattern=_PRINTABLE)]
Kind = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8,128}$")]

_NUMBERED = {"sqlite_autoincrement": True}  # the id of a deleted row is never used again


class Run(SQLModel, table=True):
    """Which cases went through which tools, with which options."""

    __tablename__ = "runs"

    run_id: str = Field(primary_key=True)
    created: str
    cases: list[Any] = Field(sa_type=JSON)
    tools: list[Any] = Field(sa_type=JSON)
    options: dict[str, Any] = Field(sa_type=JSON)
    ended: str | None = None
    ending: str = ""  # finished | cancelled | "" while it runs or after it was killed


class Item(SQLModel, table=True):
    """One case through one tool: its status, its image, its score or why it has none."""

    __tablename__ = "run_items"
    __table_args__ = (
        UniqueConstraint("run_id", "case_id", "tool_id"),
        CheckConstraint(f"status IN {STATUSES}"),
        CheckConstraint("score IS NULL OR (score >= 0 AND score <= 1)"),
        Index("run_items_by_tool", "tool_id", "status"),
        Index("run_items_by_image", "image_sha256"),
        _NUMBERED,
    )

    item_id: int = Field(default=None, primary_key=True)
    run_id: str = Field(foreign_key="runs.run_id", ondelete="CASCADE")
    case_id: str
    tool_id: str
    status: str = "queued"
    image: str = ""  # path relative to the store's folder, with forward slashes
    image_sha256: str = ""
    score: float | None = None
    components: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    details: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
    failure_kind: str = ""
    failure: str = ""
    cost: float = 0.0  # dollars, of all attempts together
    seconds: float = 0.0  # of the attempt that succeeded
    attempts: int = 0
    updated: str = ""

    @property
    def finished(self) -> bool:
        """Whether nothing more will happen to it by itself."""
        return self.status in FINISHED


class Rating(SQLModel, table=True):
    """The stars that count: the last that a rater gave to a subject."""

    __tablename__ = "human_scores"
    __table_args__ = (
        UniqueConstraint("subject_kind", "subject_hash", "rater"),
        CheckConstraint("stars BETWEEN 1 AND 5"),
        _NUMBERED,
    )

    rating_id: int = Field(default=None, primary_key=True)
    subject_kind: Kind  # run_item, vae_sample, reconstruction, ...
    subject_hash: Hash  # SHA-256 of what was shown
    rater: Rater
    stars: Annotated[int, Strict()] = Field(ge=1, le=5)
    blind: bool
    session: str = ""
    run_item_id: int | None = Field(None, foreign_key="run_items.item_id", ondelete="SET NULL")
    rated: str


class Preference(SQLModel, table=True):
    """Which of two items of a case a rater preferred; the last answer to a pair counts."""

    __tablename__ = "preferences"
    __table_args__ = (
        UniqueConstraint("rater", "first_item", "second_item"),
        CheckConstraint("first_item < second_item AND winner IN (first_item, second_item)"),
        _NUMBERED,
    )

    preference_id: int = Field(default=None, primary_key=True)
    rater: Rater
    first_item: int = Field(foreign_key="run_items.item_id", ondelete="CASCADE")
    second_item: int = Field(foreign_key="run_items.item_id", ondelete="CASCADE")
    winner: int
    session: str = ""
    rated: str


class Opinion(SQLModel, table=True):
    """Whether a rater agrees with an explanation of a failure; the last answer counts."""

    __tablename__ = "opinions"
    __table_args__ = (
        UniqueConstraint("subject_hash", "hypothesis", "rater"),
        _NUMBERED,
    )

    opinion_id: int = Field(default=None, primary_key=True)
    dataset: str
    subject_kind: Kind  # reconstruction, vae_sample
    subject_hash: Hash  # SHA-256 of what was shown
    hypothesis: str
    rater: Rater
    agrees: bool
    said: str


def now() -> str:
    """This moment as the store writes it."""
    return utc(datetime.now(timezone.utc))


def utc(moment: datetime) -> str:
    """The time in UTC, ISO 8601 with microseconds, so that it sorts as text."""
    return moment.astimezone(timezone.utc).isoformat(timespec="microseconds")
