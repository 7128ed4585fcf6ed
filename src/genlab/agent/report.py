"""The report of a run, `experiments/report.md` and `report.html`, and the stage's snapshot.

A report quotes a language model, so all text is escaped and the page runs no script. The snapshot's
numbers hold neither times nor run_ids: the same parameters give the same metrics.
"""

import base64
import math
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import numpy.typing as npt

from genlab.agent.goals.goal import METRICS, Goal
from genlab.agent.record import RunRecord, read_run
from genlab.agent.registry import CODE, CONFIG_FILE, WEIGHTS, Attempt
from genlab.agent.workspace import JOURNAL, SAMPLES, Workspace
from genlab.core.io import write_bytes, write_json, write_text

MARKDOWN = "report.md"
PAGE = "report.html"
PLOT = "progress.png"
PICTURE = "samples.png"  # of a generative model
MAX_CHARACTERS = 600  # of a quoted text
HEIGHT = 4.2  # inches of the figure
Images = npt.NDArray[np.uint8]


def write(workspace: Workspace) -> Path:
    """Write the report's figures, markdown and page; returns the page's path."""
    from markdown_it import MarkdownIt

    run = read_run(workspace)
    folder = workspace.experiments
    draw_progress(folder / PLOT, run)
    code = ""
    if run.best is not None:
        path = workspace.root / run.best.experiment_dir / CODE
        code = path.read_text(encoding="utf-8") if path.is_file() else ""
    samples = (folder / SAMPLES).is_file()
    if samples:
        draw_samples(folder / PICTURE, np.load(folder / SAMPLES, allow_pickle=False))
    markdown = _render("report.md.j2", run=run, code=code, samples=samples)
    write_text(folder / MARKDOWN, markdown)
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)
    figures = (PLOT, PICTURE) if samples else (PLOT,)
    for name in figures:
        figure = base64.b64encode((folder / name).read_bytes()).decode()
        body = body.replace(f'src="{name}"', f'src="data:image/png;base64,{figure}"')
    write_text(folder / PAGE, _render("report.html.j2", title=run.settings.goal.text, body=body))
    return folder / PAGE


def _render(template: str, **values: Any) -> str:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("genlab.agent", "templates"),
        autoescape=jinja2.select_autoescape(["html.j2"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "format_number": format_number,
        "format_counts": format_counts,
        "escape_markdown": escape_markdown,
        "fence_code": fence_code,
    }
    return environment.get_template(template).render(**values)


def format_number(value: Any) -> str:
    """Format a number with four digits, or without decimals from 1,000 on; a dash for None."""
    if not isinstance(value, int | float):
        return "–"
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def format_counts(counts: dict[str, int]) -> str:
    """Format counts with their names in a line."""
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


def escape_markdown(text: object) -> str:
    """Escape text of others for markdown, on one line of bounded length."""
    line = " ".join(str(text).split())
    if len(line) > MAX_CHARACTERS:
        line = line[: MAX_CHARACTERS - 1] + "…"
    escaped = re.sub(r"([\\`*_\[\]<|~&$])", r"\\\1", line)
    # What would begin a heading or a list: digits cannot be escaped, the sign after them can.
    return re.sub(r"^(\d+(?=[.)])|(?=[#>+-]))", r"\1\\", escaped)


def fence_code(code: str, language: str = "") -> str:
    """Put code into a markdown fence that is longer than any run of backticks in it."""
    longest = max((len(backticks) for backticks in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{code.rstrip()}\n{fence}"


def trace_best(attempts: Sequence[Attempt], goal: Goal) -> list[tuple[int, float]]:
    """Return the curve of the best mean so far: number of an attempt, best mean up to it.

    It begins at the first attempt that has a number.
    """
    curve = list[tuple[int, float]]()
    best_score = -math.inf
    for attempt in attempts:
        best_score = max(best_score, goal.score(attempt.mean(goal.metric)))
        if best_score > -math.inf:
            curve.append((attempt.number, goal.score(best_score)))  # a score's score is the value
    return curve


def draw_progress(path: Path, run: RunRecord) -> None:
    """Draw the attempts, the best so far, search's best and the goal to a PNG."""
    from matplotlib.ticker import MaxNLocator

    from genlab.evaluation.figures.style import BLUE, INK, MUTED, ORANGE, figure_file

    goal = run.settings.goal
    with figure_file(path, HEIGHT) as figure:
        axes = figure.add_subplot()
        right_edge = max(len(run.attempts), len(run.search), 1) + 0.5
        label = f"goal: {goal.threshold:g}"
        axes.axhline(goal.threshold, color=ORANGE, linestyle="--", label=label)
        for attempts, colour, style, label in (
            (run.search, MUTED, ":", "search alone, best so far"),
            (run.attempts, BLUE, "-", "best so far"),
        ):
            curve = trace_best(attempts, goal)
            if curve:
                x = [*(number for number, _ in curve), right_edge]
                y = [*(mean for _, mean in curve), curve[-1][1]]
                axes.step(x, y, where="post", color=colour, linestyle=style, label=label)
        for origin, marker, planner in (("llm", "o", "the LLM"), ("search", "^", "search")):
            numbers = list[int]()
            values_of_attempts = list[list[float]]()
            for attempt in run.attempts:
                values = attempt.values(goal.metric)
                if attempt.origin == origin and values:
                    numbers.append(attempt.number)
                    values_of_attempts.append(values)
            if numbers:
                means = [statistics.fmean(values) for values in values_of_attempts]
                axes.plot(numbers, means, marker, color=INK, label=f"planned by {planner}")
                lows = [min(values) for values in values_of_attempts]
                highs = [max(values) for values in values_of_attempts]
                axes.vlines(numbers, lows, highs, color=INK, linewidth=1.2)
        axes.set(xlabel="attempt", ylabel=f"{METRICS[goal.metric].label}, validation")
        axes.set_xlim(0.5, right_edge)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        figure.legend(loc="outside lower center", ncols=3)


def draw_samples(path: Path, draws: Images) -> None:
    """Draw samples of a generative model to a PNG.

    draws: (count, height, width, channels) uint8.
    """
    from genlab.evaluation.figures.image_grids import draw_image_samplers

    draw_image_samplers(path, {"samples of the best model, z ~ N(0, I)": draws})


def write_snapshot(
    workspace: Workspace, output: Path, metrics: Path, results: Path, plots: Path
) -> RunRecord:
    """Copy best model and report to `output`, the figure to `plots`, and write the numbers.

    metrics: file of the headline, at most five numbers. results: file of all numbers.
    """
    run = read_run(workspace)
    files = [workspace.experiments / name for name in (MARKDOWN, PAGE, PLOT, PICTURE)]
    if run.best is not None:
        folder = workspace.root / run.best.experiment_dir
        files += [folder / name for name in (CODE, CONFIG_FILE, WEIGHTS)]
    for path in (*files, workspace.root / JOURNAL):
        if path.exists():
            write_bytes(output / path.name, path.read_bytes())
        else:  # search has no journal: that of an older run must not stay in its place
            (output / path.name).unlink(missing_ok=True)
    write_bytes(plots / PLOT, (workspace.experiments / PLOT).read_bytes())
    summary = summarise(run)
    write_json(results, summary)
    write_json(metrics, pick_headline(summary))
    return run


def pick_headline(summary: dict[str, Any]) -> dict[str, Any]:
    """Pick the five numbers that `dvc metrics diff` compares from what `summarise` returns."""
    best = summary.get("best", {})
    return {
        "passed": summary["reached"],
        "validation": best.get("validation", {}).get("mean"),
        "test": best.get("test", {}).get(summary["metric"]),
        "parameters": best.get("parameters"),
        "attempts": summary["attempts"],
    }


def summarise(run: RunRecord) -> dict[str, Any]:
    """Summarise a run in numbers, as results/agent.json holds them."""
    goal = run.settings.goal
    best = run.best
    summary: dict[str, Any] = {
        "goal": goal.description,
        "metric": goal.metric,
        "verdict": run.verdict,
        "reached": run.verdict == "met",
        "attempts": len(run.attempts),
        "planned_by": run.planned_by,
        "written_by": run.written_by,
        "questions": int(run.spend.get("questions", 0)),
        "tokens": int(run.spend.get("tokens_in", 0) + run.spend.get("tokens_out", 0)),
        "references": run.references,
    }
    if best is not None:
        values = best.values(goal.metric)
        spread = {"mean": statistics.mean(values), "min": min(values), "max": max(values)}
        summary["best"] = {
            "attempt": best.number,
            "planned_by": best.origin,
            "written_by": best.code_origin,
            "parameters": best.parameters,
            "seeds": len(values),
            "validation": spread,
            "test": best.test,
        }
    if run.comparison is not None:
        summary["minus_search"] = run.comparison
    summary["statement"] = run.statement
    return summary
