"""The report: markdown made from the run's own files, no number typed by hand.

`texts` renders `reports/<dataset>.md`, `reports/<dataset>_data_sheet.md` and the README between the
dataset's two markers; `draw` makes the pictures that compare experiments. What grids and images
want said stands in `grid_report` and `image_report`.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from genlab.core.errors import GenlabError
from genlab.core.io import read_json
from genlab.core.params import load_params
from genlab.datasets.registry import find_dataset
from genlab.evaluation.diagnostics.anomalies import detected_issues
from genlab.evaluation.reports.ablations import of_dataset
from genlab.evaluation.reports.formats import number, share, spread, value, words
from genlab.evaluation.reports.grid_report import GRIDS
from genlab.evaluation.reports.image_report import IMAGES
from genlab.evaluation.reports.report_kind import Context, ReportKind
from genlab.evaluation.reports.targets import read_targets, target_rows

BEGIN, END = "<!-- results:{dataset}:begin -->", "<!-- results:{dataset}:end -->"
MARKER = re.compile(r"<!-- results:\w+:(begin|end) -->")

SOURCES: Mapping[str, tuple[str, str]] = {
    "data": ("results/{dataset}/data.json", "make repro"),
    "training": ("results/{dataset}/training.json", "make repro"),
    "metrics": ("results/{dataset}/metrics.json", "make repro"),
    "verdict": ("results/{dataset}/verdict.json", "make repro"),
    "diagnosis": ("results/{dataset}/diagnosis.json", "make repro"),
    "failures": ("results/{dataset}/failures.json", "make repro"),
    "experiments": ("results/experiments.json", "make experiments"),
    "benchmarks": ("results/benchmarks.json", "make bench"),
}
BENCHMARKS = SOURCES["benchmarks"]
OPTIONAL: Mapping[str, tuple[str, str]] = {
    "baselines": ("metrics/baselines.json", "python benchmarks/baselines.py"),
}
"""Files that need not be there: what they would say is left out."""


def kind_of(dataset: str) -> ReportKind:
    """How `dataset` is reported. Raises a GenlabError where there is no such dataset."""
    return GRIDS if find_dataset(dataset).kind == "grids" else IMAGES


def gather(root: Path, dataset: str) -> Context:
    """Everything the templates speak about. A missing input raises a GenlabError with its fix."""
    kind = kind_of(dataset)
    context: Context = {
        name: read_json(root / pattern.format(dataset=dataset), producer_command=command)
        for name, (pattern, command) in SOURCES.items()
    }
    for name, (pattern, command) in OPTIONAL.items():
        path = root / pattern.format(dataset=dataset)
        context[name] = read_json(path, producer_command=command) if path.is_file() else None
    chosen = load_params(root / "params.yaml")
    params = chosen.for_dataset(dataset).model_dump()
    context["dataset"] = dataset
    context["title"] = find_dataset(dataset).title
    context["params"] = {key: v for key, v in params.items() if not isinstance(v, dict)}
    context["sections"] = {key: v for key, v in params.items() if isinstance(v, dict) and v}
    section = getattr(chosen, dataset)
    context["experiments"] = of_dataset(context["experiments"], dataset, section)
    context["benchmarks"] = {
        key: entry for key, entry in context["benchmarks"].items() if kind.benchmarks(key, dataset)
    }
    targets = {k: v for k, v in read_targets(root).items() if kind.benchmarks(k, dataset)}
    context["targets"] = list(target_rows(targets, context["benchmarks"]))
    context["detected_issues"] = detected_issues
    try:
        return context | kind.complete(context)
    except KeyError as error:
        raise GenlabError(
            f"results/{dataset} or results/experiments.json: no {error} there; the files are of an"
            " older run: make repro, make experiments"
        ) from error


def texts(root: Path, dataset: str, context: Context) -> dict[Path, str]:
    """Rendered files by path; the README only if it has a place for `dataset`.

    Raises GenlabError for a README without any markers or with half a pair, and for a bad note.
    """
    reports, templates = root / "reports", kind_of(dataset).templates
    context = {**context, "notes": _notes(root, dataset, context)}
    files = {
        reports / f"{dataset}.md": _rendered(templates["report"], context, root, "../"),
        reports / f"{dataset}_data_sheet.md": _rendered(
            templates["data_sheet"], context, root, "../"
        ),
    }
    readme = root / "README.md"
    section = _rendered(templates["readme"], context, root, "")
    whole = spliced(readme, dataset, section)
    return files if whole is None else {**files, readme: whole}


def stale(rendered: Mapping[Path, str]) -> list[Path]:
    """The files that are missing or differ from what would be rendered."""
    return [
        path
        for path, text in rendered.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]


def draw(root: Path, dataset: str, context: Context) -> list[Path]:
    """Draw the figures that compare experiments; returns those for which there were numbers."""
    return kind_of(dataset).draw(root / "reports" / "figures" / dataset, context)


def _notes(root: Path, dataset: str, context: Context) -> str:
    """People's own notes, `reports/notes_<dataset>.md`; their numbers are placeholders."""
    path = root / "reports" / f"notes_{dataset}.md"
    if not path.is_file():
        return ""
    try:
        template = _environment().from_string(path.read_text("utf-8"))
        return template.render(context, **_places(dataset, root, "../")).strip()
    except jinja2.TemplateError as error:
        raise GenlabError(f"{path}: {error}; mend the placeholder") from error


def _rendered(template: str, context: Context, root: Path, up: str) -> str:
    """A template with the context; `up` leads from the file's folder to the root."""
    return rendered(template, {**context, **_places(context["dataset"], root, up)})


def rendered(template: str, context: Context) -> str:
    """A template with the context. Raises GenlabError where files lack what it speaks about."""
    try:
        text = _environment().get_template(template).render(context)
    except jinja2.UndefinedError as error:
        raise GenlabError(
            f"results/{context['dataset']}: {error}; the files are of an older run: make repro"
        ) from error
    return text.rstrip() + "\n"


def spliced(readme: Path, dataset: str, section: str) -> str | None:
    """The README with `section` between the markers of `dataset`; None where it has no such place.

    Raises GenlabError for a README without any markers or with half a pair.
    """
    text = readme.read_text(encoding="utf-8") if readme.is_file() else ""
    begin, end = (marker.format(dataset=dataset) for marker in (BEGIN, END))
    head, found, rest = text.partition(begin)
    _, closed, tail = rest.partition(end)
    if found and closed:
        return f"{head}{begin}\n{section.strip()}\n{end}{tail}"
    if begin in text or end in text or not MARKER.search(text):
        raise GenlabError(f"{readme} lacks the lines {begin} and {end}; put both back")
    return None


@cache  # compiling the templates takes longer than rendering them
def _environment() -> jinja2.Environment:
    source = resources.files("genlab.evaluation") / "templates"
    loader = jinja2.FunctionLoader(lambda name: (source / name).read_text(encoding="utf-8"))
    environment = jinja2.Environment(
        loader=loader,
        autoescape=False,  # markdown, not HTML: the input is our own files
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "share": share,
        "number": number,
        "spread": spread,
        "words": words,
        "value": value,
        "cell": _cell,
    }
    return environment


def _places(dataset: str, root: Path, up: str) -> Context:
    """What templates say of files: `up` itself, and `pictures`, which lists them by a pattern."""
    captions = kind_of(dataset).captions
    order = list(captions)

    def pictures(pattern: str) -> list[Context]:
        """Existing pictures under the root, those with a caption first and in its order."""
        found = [(path, _caption(path.stem, captions)) for path in sorted(root.glob(pattern))]
        found.sort(key=lambda item: order.index(item[1][0]) if item[1][0] in order else len(order))
        return [
            {"path": up + path.relative_to(root).as_posix(), "stem": path.stem, "caption": words}
            for path, (_, words) in found
        ]

    return {"pictures": pictures, "up": up}


def _cell(found: Any) -> str:
    """Anything as the text of a table's cell: a bar in it would end the cell."""
    return "–" if found is None else value(found).replace("|", "\\|")


def _caption(stem: str, captions: Mapping[str, str]) -> tuple[str, str]:
    """(the known name that a picture's stem begins with, its caption)."""
    for name, caption in captions.items():
        if stem == name:
            return name, caption
        if stem.startswith(name + "_"):
            return name, f"{caption} ({words(stem.removeprefix(name + '_'))})"
    return stem, words(stem).capitalize()
