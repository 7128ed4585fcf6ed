"""The report: markdown made from the run's own files, no number typed by hand.

`texts` renders `reports/<dataset>.md`, `reports/<dataset>_data_sheet.md` and the README between its
two markers; `draw` makes the pictures that compare experiments.
"""

import re
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from genlab.core.artifacts import read_json
from genlab.core.console import GenlabError
from genlab.core.params import load_params
from genlab.measure import figures
from genlab.measure.formats import number, share, value, words
from genlab.measure.surprises import found_names, surprises

Context = dict[str, Any]

BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"

SOURCES: Mapping[str, tuple[str, str]] = {
    "data": ("metrics/{dataset}/data.json", "make repro"),
    "training": ("metrics/{dataset}/training.json", "make repro"),
    "metrics": ("metrics/{dataset}/metrics.json", "make repro"),
    "verdict": ("metrics/{dataset}/verdict.json", "make repro"),
    "diagnosis": ("metrics/{dataset}/diagnosis.json", "make repro"),
    "failures": ("metrics/{dataset}/failures.json", "make repro"),
    "experiments": ("metrics/experiments.json", "make experiments"),
    "benchmarks": ("metrics/benchmarks.json", "make bench"),
}

TARGETS: Mapping[str, tuple[str, str, float | None, float | None]] = {
    "grids.beta0.pixel": ("cells right at β = 0", ">=", 0.9999, None),
    "grids.beta0.foreground": ("non-black cells right at β = 0", ">=", 0.999, None),
    # Its stretch asks for all grids by 64 latents or fewer: see the capacity curve.
    "grids.beta0.exact": ("grids wholly right at β = 0", ">=", 0.995, None),
    "grids.elbo_over_entropy": ("−ELBO over the program's entropy", "<=", 1.5, 1.1),
    "grids.legal_samples": ("prior samples wholly legal", ">=", 0.5, 0.85),
    "grids.arc_agi_exact": ("real ARC-AGI grids wholly right at β = 0", ">=", 0.45, 0.75),
    "grids.generator_speedup": ("generator over a plain loop", ">=", 20.0, 50.0),
    "grids.step_over_matmul": ("training step over the matmul rate", ">=", 0.5, 0.7),
    "grids.train_minutes": ("training, minutes", "<=", 12.0, 6.0),
    "grids.seed_sd": ("SD of pixel accuracy over seeds", "<=", None, None),
}
"""What the project set out to reach: {benchmark: (what, direction, bar, stretch)}."""

SWEPT = re.compile(r"-(seed)?[\d.]+$")
"""Names of runs of a sweep or of a seed: too many curves for one figure, and too like."""

CAPTIONS: Mapping[str, str] = {
    "reconstructions": "Reconstructions of test grids: input over output, wrong cells outlined",
    "samples": "Samples from the prior",
    "colour_histogram": "Colours, predicted against true",
    "colour_confusion": "Which colours are taken for which",
    "accuracy_by_group": "Accuracy by shape kind and by object count",
    "training_curves": "Loss, KL and accuracy over training",
    "arc_agi": "Reconstructions of real ARC-AGI grids",
    "sheet": "64 grids and the distributions that they are drawn from",
    "capacity_curve": "Exact grids against the number of latents, at β = 0",
    "beta_skill": "Skill over the all-black answer against β",
    "loss_over_baselines": "Reconstruction loss over that of the baseline runs",
}


def gather(root: Path, dataset: str) -> Context:
    """Everything the templates speak about. A missing input raises a GenlabError with its cure."""
    context: Context = {
        name: read_json(root / pattern.format(dataset=dataset), made_by=command)
        for name, (pattern, command) in SOURCES.items()
    }
    params = load_params(root / "params.yaml").for_dataset(dataset).model_dump()
    context["dataset"] = dataset
    context["params"] = {key: v for key, v in params.items() if not isinstance(v, dict)}
    context["sections"] = {key: v for key, v in params.items() if isinstance(v, dict) and v}
    context["targets"] = list(_targets(context["benchmarks"]))
    context["surprises"] = surprises(context)
    context["pairs"] = _pairs(root, dataset, context["experiments"])
    context["found_names"] = found_names
    return context


def texts(root: Path, dataset: str, context: Context) -> dict[Path, str]:
    """Rendered files by path. Raises GenlabError for a README without markers, a bad note."""
    reports = root / "reports"
    context = {**context, "notes": _notes(root, dataset, context)}
    readme = root / "README.md"
    return {
        reports / f"{dataset}.md": _rendered("report.md.j2", context, root, "../"),
        reports / f"{dataset}_data_sheet.md": _rendered("data_sheet.md.j2", context, root, "../"),
        readme: _spliced(readme, _rendered("readme.md.j2", context, root, "")),
    }


def stale(rendered: Mapping[Path, str]) -> list[Path]:
    """The files that are missing or differ from what would be rendered."""
    return [
        path
        for path, text in rendered.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]


def draw(root: Path, dataset: str, context: Context) -> list[Path]:
    """Draw the figures that compare experiments; returns those for which there were numbers."""
    folder, drawn = root / "reports" / "figures" / dataset, []
    experiments, metrics = context["experiments"], context["metrics"]
    default = context["params"]
    capacity = _sweep(experiments, "latent_dim", default, metrics, beta_max=0)
    if len(capacity) > 1:
        points = [(int(dim), *_point(m, "exact_grid_accuracy")) for dim, m in capacity.items()]
        drawn.append(folder / "capacity_curve.png")
        figures.capacity_curve(drawn[-1], points, metrics["program_entropy_nats"])
    by_beta = _sweep(experiments, "beta_max", default, metrics)
    if len(by_beta) > 1:
        skills = [(beta, *_point(m, "skill_over_black")) for beta, m in by_beta.items()]
        drawn.append(folder / "beta_skill.png")
        figures.beta_skill(drawn[-1], skills)
    baselines = {k: e["training"] for k, e in experiments.items() if not SWEPT.search(k)}
    runs = {"default": context["training"], **baselines}
    curves = {name: run.get("series", {}).get("reconstruction_loss") for name, run in runs.items()}
    curves = {name: curve for name, curve in curves.items() if curve}
    if len(curves) > 1:
        drawn.append(folder / "loss_over_baselines.png")
        figures.loss_over_baselines(drawn[-1], curves)
    return drawn


def _sweep(
    experiments: Mapping[str, Any],
    key: str,
    default: Mapping[str, Any],
    metrics: Mapping[str, Any],
    **fixed: Any,
) -> dict[float, Any]:
    """The longest series of runs that differ from each other in `key` alone: {value: metrics}.

    The default run, whose metrics are `metrics`, is one of the runs. Only series in which `fixed`
    holds are looked at. Sorted by value.
    """
    series: dict[str, dict[float, Any]] = {}
    runs = [({}, metrics), *((run["params"], run["metrics"]) for run in experiments.values())]
    for params, found in runs:
        whole = {**default, **params}
        rest = {name: chosen for name, chosen in sorted(whole.items()) if name != key}
        if all(whole[name] == wanted for name, wanted in fixed.items()):
            series.setdefault(repr(rest), {})[whole[key]] = found
    return dict(sorted(max(series.values(), key=len, default={}).items()))


def _point(metrics: Mapping[str, Any], name: str) -> tuple[float, float, float]:
    interval = metrics["intervals"][name]
    return metrics[name], interval["low"], interval["high"]


def _targets(benchmarks: Mapping[str, Any]) -> Iterator[Context]:
    """The rows of the table of bars; a benchmark that was not run has no value."""
    for key, (what, sign, bar, stretch) in TARGETS.items():
        entry = {"interval": None, "n": None, **benchmarks.get(key, {})}
        value = entry.get("value")
        reached = [
            None
            if value is None or aim is None
            else (value >= aim if sign == ">=" else value <= aim)
            for aim in (bar, stretch)
        ]
        yield {
            "key": key,
            "what": what,
            "bar": bar,
            "stretch": stretch,
            "entry": entry,
            "value": value,
            "reached": reached[0],
            "stretch_reached": reached[1],
        }


def _pairs(root: Path, dataset: str, experiments: Mapping[str, Any]) -> list[Context]:
    """Collapses produced on purpose beside the run that mends them.

    A collapse is an experiment in which one was diagnosed; the mended one names it in `mends`, or
    else bears its name with `mended` in place of `collapsed`.
    """
    pairs = []
    for name, experiment in experiments.items():
        collapses = [found for found in found_names(experiment["diagnosis"]) if "collapse" in found]
        mended = [
            other
            for other, candidate in experiments.items()
            if candidate.get("mends") == name
            or (other != name and other == name.replace("collapsed", "mended"))
        ]
        if collapses and mended:
            pairs.append({"collapsed": name, "mended": mended[0], "found": collapses})
    return pairs


def _notes(root: Path, dataset: str, context: Context) -> str:
    """People's own notes, `reports/notes_<dataset>.md`; their numbers are placeholders."""
    path = root / "reports" / f"notes_{dataset}.md"
    if not path.is_file():
        return ""
    try:
        return (
            _environment(root, "../").from_string(path.read_text("utf-8")).render(context).strip()
        )
    except jinja2.TemplateError as error:
        raise GenlabError(f"{path}: {error}; mend the placeholder") from error


def _rendered(template: str, context: Context, root: Path, up: str) -> str:
    """A template with the context; `up` leads from the file's folder to the root."""
    try:
        return _environment(root, up).get_template(template).render(context).rstrip() + "\n"
    except jinja2.UndefinedError as error:
        raise GenlabError(
            f"metrics/{context['dataset']}: {error}; the files are of an older run: make repro"
        ) from error


def _spliced(readme: Path, section: str) -> str:
    """The README with `section` between its markers."""
    text = readme.read_text(encoding="utf-8") if readme.is_file() else ""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise GenlabError(f"{readme} lacks the lines {BEGIN} and {END}; put both back")
    return f"{head}{begin}\n{section.strip()}\n{end}{tail}"


def _environment(root: Path, up: str) -> jinja2.Environment:
    source = resources.files("genlab.measure") / "templates"
    loader = jinja2.FunctionLoader(lambda name: (source / name).read_text(encoding="utf-8"))
    environment = jinja2.Environment(
        loader=loader,
        autoescape=False,  # markdown, not HTML: the input is our own files
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    def pictures(pattern: str) -> list[Context]:
        """Existing pictures under the root, those with a caption first and in its order."""
        order = list(CAPTIONS)
        found = [(path, _caption(path.stem)) for path in sorted(root.glob(pattern))]
        found.sort(key=lambda item: order.index(item[1][0]) if item[1][0] in order else len(order))
        return [
            {"path": up + path.relative_to(root).as_posix(), "stem": path.stem, "caption": words}
            for path, (_, words) in found
        ]

    environment.globals["pictures"] = pictures
    environment.globals["up"] = up
    environment.filters |= {"share": share, "number": number, "words": words, "value": value}
    return environment


def _caption(stem: str) -> tuple[str, str]:
    """(the known name that a picture's stem begins with, its caption)."""
    for name, caption in CAPTIONS.items():
        if stem == name:
            return name, caption
        if stem.startswith(name + "_"):
            return name, f"{caption} ({words(stem.removeprefix(name + '_'))})"
    return stem, words(stem).capitalize()
