"""The rows of the store as objects: runs, their items, ratings, preferences, opinions.

The schema itself is what `store_migrations` says; a test holds these classes against it.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from sqlalchemy import JSON, Column
from sqlmodel import Field, SQLModel

Status = Literal["queued", "generating", "generated", "evaluating", "scored", "failed", "skipped"]
STATUSES: tuple[Status, ...] = get_args(Status)
FINISHED = ("scored", "failed", "skipped")


class Run(SQLModel, table=True):
    """A run: which cases went through which tools, with which options."""

    __tablename__ = "runs"

    run_id: str = Field(primary_key=True)
    created: str
    cases: list[Any] = Field(sa_column=Column(JSON, nullable=False))
    tools: list[Any] = Field(sa_column=Column(JSON, nullable=False))
    options: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    ended: str | None = None
    ending: str = ""  # finished | cancelled | "" while it runs or after it was killed


class Item(SQLModel, table=True):
    """One case through one tool: where it stands, its image, its score or why it has none."""

    __tablename__ = "run_items"

    item_id: int = Field(default=None, primary_key=True)
    run_id: str = Field(foreign_key="runs.run_id")
    case_id: str
    tool_id: str
    status: str = "queued"
    image: str = ""  # path relative to the store's folder, with forward slashes
    image_sha256: str = ""
    score: float | None = None
    components: dict[str, Any] = Field(default={}, sa_column=Column(JSON, nullable=False))
    details: dict[str, Any] = Field(default={}, sa_column=Column(JSON, nullable=False))
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
    """The stars that count: the last a rater gave to a subject."""

    __tablename__ = "human_scores"

    rating_id: int = Field(default=None, primary_key=True)
    subject_kind: str  # run_item, vae_sample, reconstruction, ...
    subject_hash: str  # SHA-256 of what was shown
    rater: str
    stars: int
    blind: bool
    session: str = ""
    run_item_id: int | None = None
    rated: str


class Preference(SQLModel, table=True):
    """Which of two items of a case a rater preferred; the last answer to a pair counts."""

    __tablename__ = "preferences"

    preference_id: int = Field(default=None, primary_key=True)
    rater: str
    first_item: int
    second_item: int
    winner: int
    session: str = ""
    rated: str

    @property
    def loser(self) -> int:
        """The item that was not preferred."""
        return self.second_item if self.winner == self.first_item else self.first_item


class Opinion(SQLModel, table=True):
    """Whether a person agrees with an explanation of a failure; the last word counts."""

    __tablename__ = "opinions"

    opinion_id: int = Field(default=None, primary_key=True)
    dataset: str
    subject_kind: str  # reconstruction, vae_sample
    subject_hash: str  # SHA-256 of what was shown
    hypothesis: str
    rater: str
    agrees: bool
    said: str
