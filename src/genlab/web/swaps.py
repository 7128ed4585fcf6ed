"""A run of the benchmark as its page shows it: cases by tools, each cell where it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from genlab.benchmark.store.schema import STATUSES, Run
from genlab.web.live import Live, RunStatus

GOOD, FAIR = 0.75, 0.4  # scores from which a badge is green, and amber: those of the report
SMALL = 320


@dataclass(frozen=True)
class Cell:
    """What a tool made of a case, so far."""

    item_id: int
    case_id: str
    tool_id: str
    status: str
    picture: str = ""
    score: float | None = None
    components: Mapping[str, float | None] = field(default_factory=dict)
    failure_kind: str = ""
    failure: str = ""

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> Cell:
        """The cell that an event of the runner tells of."""
        return cls(
            item_id=event["run_item_id"],
            case_id=event["case_id"],
            tool_id=event["tool_id"],
            status=event["status"],
            picture=event["image_url"],
            score=event["score"],
            components=event["components"],
            failure_kind=event["failure_kind"],
            failure=event["failure"],
        )

    @property
    def grade(self) -> str:
        """The badge's colour: good, warn, bad, or quiet where there is no score."""
        if self.score is None:
            return "bad" if self.status == "failed" else "quiet"
        return "good" if self.score >= GOOD else "warn" if self.score >= FAIR else "bad"

    @property
    def small(self) -> str:
        """Address of the picture as it is shown in a grid."""
        return f"{self.picture}?width={SMALL}" if self.picture else ""


@dataclass(frozen=True)
class CaseShown:
    """A case of a run: its name, and its pictures where it is still there."""

    case_id: str
    title: str
    template: str = ""
    avatars: Mapping[str, str] = field(default_factory=dict)

    @property
    def small(self) -> str:
        """Address of the template as it is shown in a grid."""
        return f"{self.template}?width={SMALL}" if self.template else ""


@dataclass(frozen=True)
class Board:
    """A run in one moment."""

    run: Run
    status: RunStatus
    reason: str
    cases: Sequence[CaseShown]
    tools: Mapping[str, str]  # titles by id, in the run's order
    cells: Mapping[tuple[str, str], Cell]

    @property
    def running(self) -> bool:
        """Whether anything may still change by itself."""
        return self.status == "running"

    @property
    def counts(self) -> dict[str, int]:
        """Cells by status, in the order of their life; those with none are left out."""
        found = [cell.status for cell in self.cells.values()]
        return {status: found.count(status) for status in STATUSES if status in found}

    @property
    def done(self) -> float:
        """Share of the cells that have ended, in [0, 1]."""
        ended = sum(cell.status in ("scored", "failed", "skipped") for cell in self.cells.values())
        return ended / len(self.cells) if self.cells else 1.0

    def of_case(self, case_id: str) -> list[Cell]:
        """The cells of a case, in the order of the tools."""
        return [self.cells[case_id, tool] for tool in self.tools if (case_id, tool) in self.cells]

    def pictured(self, case_id: str) -> list[Cell]:
        """Those of a case's cells that have a picture."""
        return [cell for cell in self.of_case(case_id) if cell.picture]


def read_board(live: Live, run_id: str) -> Board:
    """The run as it stands now. Raises a `GenlabError` where there is no such run."""
    run = live.store.run(run_id)
    feed = live.feed(run_id)
    status, reason = live.status(run)
    cells = [Cell.of(event) for event in feed.state()["items"]]
    return Board(
        run=run,
        status=status,
        reason=reason,
        cases=[_shown(live, entry) for entry in run.cases],
        tools={tool["tool_id"]: str(tool.get("title", "")) for tool in run.tools},
        cells={(cell.case_id, cell.tool_id): cell for cell in cells},
    )


def _shown(live: Live, entry: Mapping[str, Any]) -> CaseShown:
    case_id = str(entry["case_id"])
    case = live.case(Path(str(entry.get("folder", ""))))
    if case is None or case.case_id != case_id:  # the run outlives its cases
        return CaseShown(case_id, str(entry.get("title", case_id)))
    base = f"/api/test-cases/{case_id}"
    avatars = {name: f"{base}/{name}" for name in case.avatars}
    return CaseShown(case_id, case.title, f"{base}/template", avatars)
