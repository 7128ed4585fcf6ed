"""The report of a run: `experiments/report.md` and `report.html`, from the workspace's own files.

What a model wrote stands in it: everything is escaped, and the page runs no script.
"""

from __future__ import annotations

import base64
import re
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from genlab.agent import chart
from genlab.agent.attempt import Attempt
from genlab.agent.story import Story, story
from genlab.agent.workspace import Workspace
from genlab.core.io import write_text

MARKDOWN, PAGE, PLOT, DARK_PLOT = "report.md", "report.html", "progress.png", "progress_dark.png"
LONGEST = 600  # characters of a remark


def write(workspace: Workspace) -> Path:
    """Write plot, markdown and page; returns the page's path."""
    told, folder = story(workspace), workspace.experiments
    goal = told.settings.goal
    for name, look in ((PLOT, chart.LIGHT), (DARK_PLOT, chart.DARK)):
        chart.progress(folder / name, goal, told.attempts, told.search, look)
    write_text(folder / MARKDOWN, _templates().get_template("report.md.j2").render(story=told))
    page = _templates().get_template("report.html.j2")
    plots = {name: _inline(folder / name) for name in (PLOT, DARK_PLOT)}
    write_text(folder / PAGE, page.render(story=told, light=plots[PLOT], dark=plots[DARK_PLOT]))
    return folder / PAGE


def _inline(path: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("genlab.agent", "templates"),
        autoescape=jinja2.select_autoescape(["html.j2"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "number": number, "values": values, "text": text, "fenced": fenced, "brief": brief,
        "counts": counts, "notes": notes,
    }  # fmt: skip
    return environment


def number(value: Any) -> str:
    """A number for people; a dash where there is none."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def values(attempt: Attempt, metric: str) -> str:
    """The values of an attempt, one a seed."""
    found = attempt.values(metric)
    if metric == "parameters":  # no seed changes them
        return f"{found[0]:,.0f}" if found else "–"
    return " / ".join(f"{each:.4f}" for each in found) or "–"


def notes(attempt: Attempt) -> list[str]:
    """What went wrong in it, each thing once."""
    faults = [f"Code was refused: {fault}" for fault in attempt.faults]
    found = dict.fromkeys(filter(None, [attempt.planner_failure, attempt.reason, *faults]))
    return list(found)


def counts(found: dict[str, int]) -> str:
    """Counts in a row."""
    return ", ".join(f"{name} {count}" for name, count in found.items()) or "none"


def brief(words: str) -> str:
    """`words` on one line, of bounded length."""
    line = " ".join(str(words).split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def text(words: str) -> str:
    """Other people's words in markdown: on one line, and none of its signs has its meaning."""
    plain = re.sub(r"([\\`*_\[\]<|~&$])", r"\\\1", brief(words))
    return re.sub(r"^([#>+-]|\d+(?=[.)]))", r"\\\1", plain)  # would begin a heading or a list


def fenced(code: str, language: str = "") -> str:
    """`code` in a fence that nothing in it can close."""
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{code.rstrip()}\n{fence}"


def line(told: Story) -> str:
    """The run on one line, for the end of a log."""
    best = told.best
    shown = "" if best is None else (
        f" Best: attempt {best.iteration}, {told.settings.goal.metric}"
        f" {values(best, told.settings.goal.metric)}."
    )  # fmt: skip
    return f"{told.sentence}{shown}"
