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
"""How a rating was given: with the tool hidden, with the tool shown, or by a vision model."""
CONTEXTS: tuple[Context, ...] = get_args(Context)

Outcome = Literal["first", "second", "tie", "both_bad"]
"""A rater's answer about two items: which one is better, or a tie, or both bad."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

MAX_RATER = 80
# Printable, and no formula: spreadsheets run a cell that starts with = + - or @.
_PRINTABLE = rf"^[^=+@\p{{C}}\p{{Z}}-][^\p{{C}}\p{{Zl}}\p{{Zp}}]{{0,{MAX_RATER - 1}}}$"
Rater = Annotated[str, StringConstraints(pattern=_PRINTABLE)]
Kind = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8,128}$")]

_AUTOINCREMENT = {"sqlite_autoincrement": True}  # the id of a deleted row is never used again


class Contender(BaseModel):
    """A tool with its model, options and version: what the benchmark compares."""

    model_config = ConfigDict(frozen=True)

    tool_id: str
    title: str = ""
    model: str = ""
    options: dict[str, Any] = {}
    version: str = ""

    @property
    def contender_id(self) -> str:
        """Tool id and a digest of model, options and version."""
        values = {"model": self.model, "options": self.options, "version": self.version}
        return f"{self.tool_id}-{digest_values(values)[:8]}"

    @property
    def label(self) -> str:
        """Tool id with the contender's model and options."""
        details = [self.model] if self.model else []
        for name, value in sorted(self.options.items()):
            option = f"{name}={value}"
            if option != f"model={self.model}":
                details.append(option)
        return f"{self.tool_id} ({', '.join(details)})" if details else self.tool_id


class Run(SQLModel, table=True):
    """Cases and contenders of a run, and how the run ended."""

    __tablename__ = "runs"

    run_id: str = Field(primary_key=True)
    created: str
    cases: list[Any] = Field(sa_type=JSON)
    tools: list[Any] = Field(sa_type=JSON)  # contenders
    repeats: int = 1
    max_cost: float = 0.0  # dollars
    server: bool = False  # whether a server started the run, and resumes it
    ended: str | None = None
    ending: str = ""  # finished | cancelled | "" while it runs or after a kill

    @property
    def contenders(self) -> dict[str, Contender]:
        """Contenders by id, in the order in which the run was started."""
        contenders = [Contender.model_validate(tool) for tool in self.tools]
        return {contender.contender_id: contender for contender in contenders}


class Rating(SQLModel, table=True):
    """The last stars that a rater gave to a subject in a context."""

    __tablename__ = "human_scores"
    __table_args__ = (
        UniqueConstraint("subject_kind", "subject_hash", "rater", "context"),
        CheckConstraint("stars BETWEEN 1 AND 5"),
        CheckConstraint(f"context IN {CONTEXTS}"),
        _AUTOINCREMENT,
    )

    rating_id: int = Field(default=None, primary_key=True)
    subject_kind: Kind  # run_item, vae_sample, reconstruction, ...
    subject_hash: Hash  # SHA-256 of the picture
    rater: Rater
    stars: Annotated[int, Strict()] = Field(ge=1, le=5)
    context: Context = Field(sa_type=String)
    session: str = ""
    rated: str


class Preference(SQLModel, table=True):
    """A rater's last answer about two items of a case: which one is better, if any."""

    __tablename__ = "preferences"
    __table_args__ = (
        UniqueConstraint("rater", "first_item", "second_item"),
        CheckConstraint(f"first_item < second_item AND outcome IN {OUTCOMES}"),
        _AUTOINCREMENT,
    )

    preference_id: int = Field(default=None, primary_key=True)
    rater: Rater
    first_item: int = Field(foreign_key="run_items.item_id", ondelete="CASCADE")
    second_item: int = Field(foreign_key="run_items.item_id", ondelete="CASCADE")
    outcome: Outcome = Field(sa_type=String)
    session: str = ""
    rated: str


class Opinion(SQLModel, table=True):
    """A rater's last answer about an explanation of a failure: whether the rater agrees."""

    __tablename__ = "opinions"
    __table_args__ = (
        UniqueConstraint("subject_hash", "hypothesis", "rater"),
        _AUTOINCREMENT,
    )

    opinion_id: int = Field(default=None, primary_key=True)
    dataset: str
    subject_kind: Kind  # reconstruction, vae_sample
    subject_hash: Hash  # SHA-256 of the picture
    hypothesis: str
    rater: Rater
    agrees: bool
    said: str


def image_name(contenders: Mapping[str, Contender], item: ItemResult) -> str:
    """Return the path of an item's image within its run's folder: `<tool>/<case>.png`.

    If a run has several contenders of a tool, the folder is named after the contender. Further
    draws of a case are numbered.
    """
    tools = [contender.tool_id for contender in contenders.values()]
    folder = item.tool_id if tools.count(item.tool_id) == 1 else item.contender
    number = "" if item.repeat == 1 else f".{item.repeat}"
    return f"{folder}/{item.case_id}{number}.png"


def now() -> str:
    """Return the current time as the store writes it."""
    return utc(datetime.now(timezone.utc))


def utc(moment: datetime) -> str:
    """Format a time in UTC, ISO 8601 with microseconds, so that times sort as text."""
    return moment.astimezone(timezone.utc).isoformat(timespec="microseconds")
