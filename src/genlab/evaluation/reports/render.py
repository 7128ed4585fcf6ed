"""Render the reports and the README's results; check that the committed ones are up to date."""

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import jinja2

from genlab.core.errors import GenlabError
from genlab.core.io import read_json
from genlab.core.params import load_params
from genlab.evaluation.reports import beta0, formats, sweeps, tables
from genlab.evaluation.reports.context import Context, load_benchmarks, load_context
from genlab.evaluation.reports.targets import read_targets

BEGIN = "<!-- results:begin -->"
END = "<!-- results:end -->"
README_ROWS = (
    "grids.beta0.exact",
    "grids.neg_elbo_over_entropy_bound",
    "grids.valid_rate",
    "grids.arc_agi_exact.default",
    "images.bits_per_dim",
    "images.ssim",
    "images.relative_frechet",
    "images.relative_frechet.ancestral",
    "images.frechet_over_baseline",
    "swap.ordered",
)
"""Keys of results/benchmarks.json that the README shows."""
AGENT = "results/agent.json"  # whose `statement` the README quotes
COMMITTED = (
    "README.md", "params.yaml", "experiments.yaml", "reports", "results", "plots",
    "benchmarks/targets.yaml",
)  # fmt: skip
"""What the committed reports are rendered from."""


def render_reports(root: Path, datasets: list[str] | None = None) -> dict[Path, str]:
    """Render the README's results and each dataset's report and tables (default: all datasets).

    Returns texts by path. Raises GenlabError for missing or outdated result files.
    """
    texts = {}
    for dataset in datasets or load_params(root / "params.yaml").datasets:
        context = load_context(root, dataset)
        report = root / "reports" / f"{dataset}.md"
        names = [f"{dataset}.md.j2", f"{context['family']}.md.j2"]
        if beta0.is_beta0_run(context):
            context |= beta0.make_tables(context)
            names = [beta0.TEMPLATE]
        texts[report] = _render(root, context, *names)
        texts[report.with_stem(f"{dataset}_tables")] = _render(root, context, "tables.md.j2")
    readme = root / "README.md"
    texts[readme] = replace_results(readme, _render_results(root))
    return texts


def _render_results(root: Path) -> str:
    """The README's table of results, and all missed targets."""
    targets = read_targets(root)
    benchmarks = load_benchmarks(root)
    readme_targets = {key: target for key, target in targets.items() if key in README_ROWS}
    table = tables.targets_table(readme_targets, benchmarks, command=True)
    missed = ", ".join(tables.missed_targets(targets, benchmarks)) or "none"
    unmeasured = ", ".join(tables.unmeasured_targets(targets, benchmarks)) or "none"
    agent = read_json(root / AGENT, producer_command="dvc repro agent_iterate").get("statement", "")
    return f"{table}\n\nAll missed targets: {missed}. Not measured: {unmeasured}.\n\n{agent}"


def find_outdated(texts: Mapping[Path, str]) -> list[Path]:
    """Find the files that are missing or differ from their text."""
    return [
        path
        for path, text in texts.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]


def check_committed(root: Path) -> list[str]:
    """Render the committed result files; return the committed texts that differ."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        archive = Path(folder, "head.tar")
        command = ["git", "archive", "--output", str(archive), "HEAD", *COMMITTED]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = " ".join(done.stderr.split())
            raise GenlabError(f"git archive HEAD: {reason}; run it in a clone with a commit")
        shutil.unpack_archive(archive, copy)
        return [str(path.relative_to(copy)) for path in find_outdated(render_reports(copy))]


def replace_results(readme: Path, section: str) -> str:
    """Replace the text between the README's markers. Raises GenlabError where one is missing."""
    text = readme.read_text(encoding="utf-8") if readme.is_file() else ""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise GenlabError(f"{readme} lacks the lines {BEGIN} and {END}; put both back")
    return f"{head}{BEGIN}\n{section.strip()}\n{END}{tail}"


def _render(root: Path, context: Context, *templates: str) -> str:
    """Render the first of `templates` that exists with the results of a dataset."""

    def figure(path: str) -> str:
        if not (root / path).is_file():
            raise GenlabError(f"{path} is missing; make it with: make repro, make experiments")
        return f"![{formats.to_heading(Path(path).stem)}](../{path})"

    def run(name: str, column: str) -> object:
        return context["runs"].at[name, column]

    helpers = {"tables": tables, "sweeps": sweeps, "figure": figure, "run": run}
    try:
        text = formats.load_template(*templates).render(context, **helpers)
    except (jinja2.UndefinedError, KeyError) as error:
        raise GenlabError(
            f"results/: no {error} of {context['dataset']}; run: make repro, make experiments"
        ) from error
    return text.rstrip() + "\n"
