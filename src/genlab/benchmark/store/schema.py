"""Tables of the store: runs, run_items, human_scores, preferences, opinions.

The schema is stated here alone; `migrations` brings older files to it.
"""

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Strict, StringConstraints
from sqlalchemy import JSON, CheckConstraint, String, UniqueConstraint
from sqlmodel import Field, SQLModel

from genlab.benchmark.store.items import ItemResult
from genlab.core.params import digest_values

Context = Literal["blind", "grid", "judge"]
"""How a rating was given: tool hidden, tool shown, or by a vision model."""
CONTEXTS: tuple[Context, ...] = get_args(Context)

Outcome = Literal["first", "second", "tie", "both_bad"]
"""What a rater says of two items: which is better, or that they are alike, or both bad."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

MAX_RATER = 80
# Printable, and no formula: a spreadsheet runs a cell that starts with = + - or @.
_PRINTABLE = rf"^[^=+@\p{{C}}\p{{Z}}-][^\p{{C}}\p{{Zl}}\p{{Zp}}]{{0,{MAX_RATER - 1}}}$"
Rater = Annotated[str, StringConstraints(pattern=_PRINTABLE)]
Kind = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8,128}$")]

_NUMBERED = {"sqlite_autoincrement": True}  # the id of a deleted row is never used again


class Contender(BaseModel):
    """What is compared: a tool with its model, options and version."""

    model_config = ConfigDict(frozen=True)

    tool_id: str
    title: str = ""
    model: str = ""
    options: dict[str, Any] = {}
    version: str = ""

    @property
    def contender_id(self) -> str:
        """Tool id and a digest of model, options and version."""
        differs = {"model": self.model, "options": self.options, "version": self.version}
        return f"{self.tool_id}-{digest_values(differs)[:8]}"

    @property
    def label(self) -> str:
        """Tool id with the model and options that set the contender apart."""
        options = (f"{name}={value}" for name, value in sorted(self.options.items()))
        parts = [self.model, *(part for part in options if part != f"model={self.model}")]
        details = ", ".join(part for part in parts if part)
        return f"{self.tool_id} ({details})" if details else self.tool_id


class Run(SQLModel, table=True):
    """Cases and contenders of a run, and how it ended."""

    __tablename__ = "runs"

    run_id: str = Field(primary_key=True)
    created: str
    cases: list[Any] = Field(sa_type=JSON)
    tools: list[Any] = Field(sa_type=JSON)  # contenders
    repeats: int = 1
    max_cost: float = 0.0  # dollars
    server: bool = False  # whether a server started it, and resumes it
    ended: str | None = None
    ending: str = ""  # finished | cancelled | "" while it runs or after it was killed

    @property
    def contenders(self) -> dict[str, Contender]:
        """Contenders by their ids, in the order given."""
        found = [Contender.model_validate(tool) for tool in self.tools]
        return {contender.contender_id: contender for contender in found}


class Rating(SQLModel, table=True):
    """The last stars that a rater gave to a subject in a context."""

    __tablename__ = "human_scores"
    __table_args__ = (
        UniqueConstraint("subject_kind", "subject_hash", "rater", "context"),
        CheckConstraint("stars BETWEEN 1 AND 5"),
        CheckConstraint(f"context IN {CONTEXTS}"),
        _NUMBERED,
    )

    rating_id: int = Field(default=None, primary_key=True)
    subject_kind: Kind  # run_item, vae_sample, reconstruction, ...
    subject_hash: Hash  # SHA-256 of what was shown
    rater: Rater
    stars: Annotated[int, Strict()] = Field(ge=1, le=5)
    context: Context = Field(sa_type=String)
    session: str = ""
    rated: str


class Preference(SQLModel, table=True):
    """Which of two items of a case a rater preferred, or neither; the last answer counts."""

    __tablename__ = "preferences"
    __table_args__ = (
        UniqueConstraint("rater", "first_item", "second_item"),
        CheckConstraint(f"first_item < second_item AND outcome IN {OUTCOMES}"),
        _NUMBERED,
    )

    preference_id: int = Field(default=None, primary_key=True)
    rater: Rater
    first_item: int = Field(foreign_key="run_items.item_id", ondelete="CASCADE")
    second_item: int = Field(foreign_key="run_items.item_id", ondelete="CASCADE")
    outcome: Outcome = Field(sa_type=String)
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


def image_name(contenders: Mapping[str, Contender], item: ItemResult) -> str:
    """Path of an item's image within its run's folder: `<tool>/<case>.png`.

    Where a run has several contenders of a tool, the folder is named after the contender; further
    draws of a case are numbered.
    """
    alone = sum(each.tool_id == item.tool_id for each in contenders.values()) == 1
    folder = item.tool_id if alone else item.contender
    number = "" if item.repeat == 1 else f".{item.repeat}"
    return f"{folder}/{item.case_id}{number}.png"


def now() -> str:
    """The current time as the store writes it."""
    return utc(datetime.now(timezone.utc))


def utc(moment: datetime) -> str:
    """A time in UTC, ISO 8601 with microseconds, so that it sorts as text."""
    return moment.astimezone(timezone.utc).isoformat(timespec="microseconds")
