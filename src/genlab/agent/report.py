"""The report of a run, `experiments/report.md` and `report.html`, and what the pipeline keeps.

Words of a language model are in it: everything is escaped, and the page runs no script. The
pipeline's numbers hold neither clock nor run_id, so that the same parameters give the same metrics.
"""

import base64
import math
import re
import statistics
from collections.abc import Sequence
from itertools import accumulate
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

MARKDOWN, PAGE, PLOT = "report.md", "report.html", "progress.png"
PICTURE = "samples.png"  # of a generative model
LONGEST = 600  # characters of a remark
HEIGHT = 4.2  # inches of the figure
Images = npt.NDArray[np.uint8]


def write(workspace: Workspace) -> Path:
    """Write figure, markdown and page; returns the page's path."""
    from markdown_it import MarkdownIt

    run, folder = read_run(workspace), workspace.experiments
    draw_progress(folder / PLOT, run)
    path = workspace.root / run.best.experiment_dir / CODE if run.best else Path()
    code = path.read_text(encoding="utf-8") if path.is_file() else ""
    samples = (folder / SAMPLES).is_file()
    if samples:
        draw_samples(folder / PICTURE, np.load(folder / SAMPLES, allow_pickle=False))
    text = _render("report.md.j2", run=run, code=code, samples=samples)
    write_text(folder / MARKDOWN, text)
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    for name in (PLOT, PICTURE) if samples else (PLOT,):
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
        "number": number,
        "text": text,
        "fenced": fenced,
        "format_counts": format_counts,
    }
    return environment.get_template(template).render(**values)


def number(value: Any) -> str:
    """A number for people; a dash where there is none."""
    if not isinstance(value, int | float):
        return "–"
    whole = isinstance(value, int) or abs(value) >= 1000
    return f"{value:,.0f}" if whole else f"{value:.4g}"


def format_counts(found: dict[str, int]) -> str:
    """Counts in a row."""
    return ", ".join(f"{name} {count}" for name, count in found.items()) or "none"


def text(words: object) -> str:
    """Words of others in markdown: on one line of bounded length, without effect of their signs."""
    line = " ".join(str(words).split())
    line = line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
    plain = re.sub(r"([\\`*_\[\]<|~&$])", r"\\\1", line)
    # What would begin a heading or a list; digits cannot be escaped, the sign after them can.
    return re.sub(r"^(\d+(?=[.)])|(?=[#>+-]))", r"\1\\", plain)


def fenced(code: str, language: str = "") -> str:
    """Code in a fence that nothing in it can close."""
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{code.rstrip()}\n{fence}"


def trace_best(attempts: Sequence[Attempt], goal: Goal) -> list[tuple[int, float]]:
    """Numbers of the attempts from the first measured one on, and the best mean up to each."""
    scores = accumulate((goal.score(each.mean(goal.metric)) for each in attempts), max)
    return [
        (each.number, goal.score(score))  # the score of a score is the value
        for each, score in zip(attempts, scores, strict=True)
        if score > -math.inf
    ]


def draw_progress(path: Path, run: RunRecord) -> None:
    """Draw the attempts, the best so far, search's best and the goal to a PNG."""
    from matplotlib.ticker import MaxNLocator

    from genlab.evaluation.figures.style import BLUE, INK, MUTED, ORANGE, figure_file

    goal = run.settings.goal
    with figure_file(path, HEIGHT) as figure:
        axes = figure.add_subplot()
        last = max(len(run.attempts), len(run.search), 1) + 0.5
        label = f"goal: {goal.threshold:g}"
        axes.axhline(goal.threshold, color=ORANGE, linestyle="--", label=label)
        for attempts, colour, style, label in (
            (run.search, MUTED, ":", "search alone, best so far"),
            (run.attempts, BLUE, "-", "best so far"),
        ):
            if points := trace_best(attempts, goal):
                x, y = zip(*points, (last, points[-1][1]), strict=True)
                axes.step(x, y, where="post", color=colour, linestyle=style, label=label)
        for origin, marker, who in (("llm", "o", "the LLM"), ("search", "^", "search")):
            chosen = [each for each in run.attempts if each.origin == origin]
            rows = {each.number: values for each in chosen if (values := each.values(goal.metric))}
            if rows:
                means = [statistics.fmean(values) for values in rows.values()]
                axes.plot([*rows], means, marker, color=INK, label=f"planned by {who}")
                low, high = map(min, rows.values()), map(max, rows.values())
                axes.vlines([*rows], [*low], [*high], color=INK, linewidth=1.2)
        axes.set(xlabel="attempt", ylabel=f"{METRICS[goal.metric].label}, validation")
        axes.set_xlim(0.5, last)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        figure.legend(loc="outside lower center", ncols=3)


def draw_samples(path: Path, draws: Images) -> None:
    """Draw samples of a generative model to a PNG. draws: uint8 (n, height, width, channels)."""
    from genlab.evaluation.figures.image_grids import draw_image_samplers

    draw_image_samplers(path, {"samples of the best model, z ~ N(0, I)": draws})


def write_snapshot(
    workspace: Workspace, output: Path, metrics: Path, results: Path, plots: Path
) -> RunRecord:
    """Copy best model and report to `output`, the figure to `plots`, and write the numbers.

    metrics: file of the headline, at most five numbers. results: file of all numbers.
    """
    run, best = read_run(workspace), Path()
    files = [workspace.experiments / name for name in (MARKDOWN, PAGE, PLOT, PICTURE)]
    if run.best is not None:
        best = workspace.root / run.best.experiment_dir
        files += [best / name for name in (CODE, CONFIG_FILE, WEIGHTS)]
    for path in (*files, workspace.root / JOURNAL):
        if path.exists():
            write_bytes(output / path.name, path.read_bytes())
        else:  # search has no journal: that of an older run must not stand for it
            (output / path.name).unlink(missing_ok=True)
    write_bytes(plots / PLOT, (workspace.experiments / PLOT).read_bytes())
    found = numbers(run)
    write_json(results, found)
    write_json(metrics, headline(found))
    return run


def headline(found: dict[str, Any]) -> dict[str, Any]:
    """The five numbers that `dvc metrics diff` compares; found: what `numbers` returns."""
    best = found.get("best", {})
    return {
        "passed": found["reached"],
        "validation": best.get("validation", {}).get("mean"),
        "test": best.get("test", {}).get(found["metric"]),
        "parameters": best.get("parameters"),
        "attempts": found["attempts"],
    }


def numbers(run: RunRecord) -> dict[str, Any]:
    """All numbers of a run."""
    goal, best = run.settings.goal, run.best
    found: dict[str, Any] = {
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
        found["best"] = {
            "attempt": best.number,
            "planned_by": best.origin,
            "written_by": best.code_origin,
            "parameters": best.parameters,
            "seeds": len(values),
            "validation": spread,
            "test": best.test,
        }
    if run.comparison is not None:
        found["minus_search"] = run.comparison
    return found
