"""The report of a run: `experiments/report.md` and `report.html`.

Words of a language model are in it: everything is escaped, and the page runs no script.
"""

from __future__ import annotations

import base64
import re
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from genlab.agent.chart import draw_progress
from genlab.agent.record import RunRecord, read_run
from genlab.agent.registry import CODE, Attempt
from genlab.agent.workspace import Workspace
from genlab.core.io import write_text

MARKDOWN, PAGE, PLOT = "report.md", "report.html", "progress.png"
LONGEST = 600  # characters of a remark


def write(workspace: Workspace) -> Path:
    """Write figure, markdown and page; returns the page's path."""
    from markdown_it import MarkdownIt

    run, folder = read_run(workspace), workspace.experiments
    draw_progress(folder / PLOT, run.settings.goal, run.attempts, run.search)
    text = _templates().get_template("report.md.j2").render(run=run, code=best_code(run))
    write_text(folder / MARKDOWN, text)
    figure = base64.b64encode((folder / PLOT).read_bytes()).decode()
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    body = body.replace(f'src="{PLOT}"', f'src="data:image/png;base64,{figure}"')
    page = _templates().get_template("report.html.j2")
    write_text(folder / PAGE, page.render(title=run.settings.goal.text, body=body))
    return folder / PAGE


def best_code(run: RunRecord) -> str:
    """The file of the best model; empty where there is none."""
    if run.best is None:
        return ""
    path = run.workspace.root / run.best.experiment_dir / CODE
    return path.read_text(encoding="utf-8") if path.exists() else ""


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
        "number": number, "values": values, "text": text, "fenced": fenced, "counts": counts,
    }  # fmt: skip
    return environment


def number(value: Any) -> str:
    """A number for people; a dash where there is none."""
    if not isinstance(value, int | float):
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def values(attempt: Attempt, metric: str) -> str:
    """The values of an attempt, one per seed."""
    return " / ".join(f"{each:.4f}" for each in attempt.values(metric)) or "–"


def counts(found: dict[str, int]) -> str:
    """Counts in a row."""
    return ", ".join(f"{name} {count}" for name, count in found.items()) or "none"


def brief(words: object) -> str:
    """Words on one line, of bounded length."""
    line = " ".join(str(words).split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def text(words: object) -> str:
    """Words of others in markdown: on one line, without any effect of their signs."""
    plain = re.sub(r"([\\`*_\[\]<|~&$])", r"\\\1", brief(words))
    return re.sub(r"^([#>+-]|\d+(?=[.)]))", r"\\\1", plain)  # would begin a heading or a list


def fenced(code: str, language: str = "") -> str:
    """Code in a fence that nothing in it can close."""
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{code.rstrip()}\n{fence}"


def line(run: RunRecord) -> str:
    """The run on one line, for the end of a log."""
    if run.best is None:
        return run.sentence
    metric = run.settings.goal.metric
    return f"{run.sentence} Best: attempt {run.best.number}, {metric} {values(run.best, metric)}."
